"""C = A * B^T over the processes of a JAX program: rows of A and C shared out by shard_map, one kernel per device.

    python -m examples.distributed.jax_gemm                            # two processes of this machine, on its CPU (gloo)
    srun -N 4 --ntasks-per-node 8 python -m examples.distributed.jax_gemm --cluster        # one process per GPU (NCCL)

`jax.distributed.initialize` finds the others (on Slurm and Open MPI without arguments); from then on
`jax.devices()` are those of all processes, and a jitted function over global arrays is the same program everywhere. XLA
calls the kernel on each device with that device's part. Each process compiles for its own GPUs.

Measured: two processes on a CPU. Not yet measured: GPUs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np

from examples.common import positive
from examples.distributed.ranks import free_port
from examples.gemms import LIMIT
from examples.hopper import gemm


def work(size: tuple[int, int, int], arch: str) -> float:
    """This process's part, after jax.distributed.initialize. The relative error of all of C."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.multihost_utils import process_allgather
    from jax.sharding import NamedSharding, PartitionSpec

    M, N, K = size
    devices = jax.devices()
    if M % len(devices):
        raise ValueError(f"M = {M} rows do not divide among {len(devices)} devices")
    mesh = jax.make_mesh((len(devices),), ("rows",))
    shared, everywhere = PartitionSpec("rows"), PartitionSpec()
    rng = np.random.default_rng(7)  # the same on every process; each takes its part
    a, b = (jnp.asarray(rng.uniform(-1, 1, (n, K)), jnp.bfloat16) for n in (M, N))

    def placed(array: Any, spec: PartitionSpec) -> Any:
        return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), lambda part: array[part])

    kernel = gemm.build(M // len(devices), N, K, arch=arch)
    shard_map = getattr(jax, "shard_map", None) or import_module("jax.experimental.shard_map").shard_map
    product = jax.jit(shard_map(kernel, mesh=mesh, in_specs=(shared, everywhere), out_specs=shared))
    c = product(placed(a, shared), placed(b, everywhere))

    whole = np.asarray(process_allgather(c, tiled=True)).astype(np.float64)
    wanted = np.asarray(a).astype(np.float64) @ np.asarray(b).astype(np.float64).T
    error = float(np.linalg.norm(whole - wanted) / np.linalg.norm(wanted))
    here = sum(s.data.shape[0] for s in c.addressable_shards)
    print(
        f"process {jax.process_index()} of {jax.process_count()}, {len(devices)} devices in all: {here} of {M} rows here, "
        f"relative error of C {error:.1e}",
        flush=True,
    )
    return error


def main() -> int:
    arguments = argparse.ArgumentParser(description="a GEMM over the processes of a JAX program")
    arguments.add_argument("--size", type=positive, nargs=3, metavar=("M", "N", "K"), default=(256, 128, 128))
    arguments.add_argument("--arch", default="sm_90a")
    arguments.add_argument("--processes", type=positive, default=2, help="local processes to start")
    arguments.add_argument(
        "--cluster", action="store_true", help="started by a scheduler: this is one of the processes"
    )
    arguments.add_argument("--process", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    size = tuple(options.size)
    if not options.cluster and options.process is None:
        port = free_port()
        command = [sys.executable, "-m", "examples.distributed.jax_gemm", "--size", *map(str, size), "--arch", options.arch,
                   "--processes", str(options.processes), "--port", str(port)]  # fmt: skip
        started = [subprocess.Popen([*command, "--process", str(i)]) for i in range(options.processes)]
        return max(abs(process.wait()) for process in started)
    import jax

    if options.cluster:
        try:
            jax.distributed.initialize()
        except (RuntimeError, ValueError) as error:
            arguments.error(f"--cluster is for processes that a scheduler starts (SLURM, MPI, ...): {error}")
    else:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{options.port}", options.processes, options.process)
    return 0 if work(size, options.arch) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
