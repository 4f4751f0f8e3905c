"""What a call costs on the host: eager torch, the operator, JAX, against a driver that does nothing.

python -m benchmarks.runtime

The driver is tests/runtime/fake_cuda.c, which takes CPU tensors as GPU tensors and copies the parameters, as a driver
would; the launcher is built from this checkout. Best of many short runs, in CPU time: the machines are shared.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._table import Table

ROOT = Path(__file__).resolve().parent.parent


def build(source: Path, target: Path, *options: str) -> Path:
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", *options, str(source), "-o", str(target)], check=True)
    return target


def best(work: Callable[[], object], calls: int = 2000, rounds: int = 30) -> float:
    """Seconds of one call, the best of `rounds` runs of `calls`."""
    for _ in range(10):
        work()
    times: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            work()
        times.append((time.process_time() - start) / calls)
    return min(times)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        library = build(ROOT / "tests/runtime/fake_cuda.c", folder / "fake.so", "-std=gnu11", "-lpthread")
        include = sysconfig.get_paths()["include"]
        native = build(ROOT / "pyptx/runtime/_launcher.c", folder / "_launcher.abi3.so", f"-I{include}", "-std=c11")
        os.environ["PYPTX_CUDA_DRIVER_LIBRARY"] = str(library)
        os.environ.setdefault("PYPTX_CACHE_DIR", str(folder / "cache"))
        load_native(native)
        from pyptx.runtime.driver import find_driver

        with find_driver().on(0):  # as in a process where torch has made its context current
            measure(library)


def load_native(path: Path) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("pyptx.runtime._launcher", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["pyptx.runtime._launcher"] = module
    import pyptx.runtime

    pyptx.runtime._launcher = module


def measure(library: Path) -> None:
    import torch

    from pyptx.runtime.launch import launch_into, native_launcher
    from pyptx.runtime.torch_ops import operator_name
    from tests.runtime.kernels import add, described

    assert native_launcher() is not None
    fake = ctypes.CDLL(str(library))
    kernel, tma = add(), described()
    x, y, z = (torch.zeros(64) for _ in range(3))
    a, b, c = (torch.zeros(64, 64, dtype=torch.bfloat16) for _ in range(3))
    kernel(x, y)
    tma(a, b, out=c)
    tma(a, b)
    fake.fake_set(b"quiet", ctypes.c_long(1))

    table = Table("host cost of a call", "us")

    def row(name: str, work: Callable[[], object], calls: int = 2000, budget: float | None = None) -> float:
        found = best(work, calls) * 1e6
        table.add(name, found, at_most=budget)
        return found

    plain = tma._cubin_handles["launcher"].plain
    row("launcher alone: 3 tensors, 3 TMA descriptors", lambda: plain.into(a, b, c), budget=0.3)
    row("eager, out=: 3 tensors, 3 TMA descriptors", lambda: tma(a, b, out=c), budget=1.0)
    row("eager, output allocated: 3 tensors, 3 TMA descriptors", lambda: tma(a, b))
    row("eager, output allocated: 3 tensors", lambda: kernel(x, y))
    row("torch.empty of that output", lambda: torch.empty(64, 64, dtype=torch.bfloat16))
    row("torch.add(x, y) on the CPU, for scale", lambda: torch.add(x, y))
    operator = getattr(torch.ops.pyptx, operator_name(kernel)).default
    through = row("the operator, through torch's dispatcher", lambda: operator(x, y), calls=500)
    into = getattr(torch.ops.pyptx, operator_name(kernel, into=True)).default
    row("the out-variant operator", lambda: into(x, y, z), calls=500)
    for backend in ("aot_eager", "inductor"):
        one, many = (compiled_chain(kernel, n, backend) for n in (1, 11))
        single = row(f"torch.compile ({backend}), one kernel", lambda one=one: one(x, y), calls=300)
        several = best(lambda many=many: many(x, y), 300) * 1e6
        table.add(
            "  each further kernel: at most 2 us above the operator", (several - single) / 10, at_most=through + 2
        )
    own = compiled_chain(torch.mul, 1, "aot_eager")
    row("torch.compile (aot_eager) of torch's own operator, for scale", lambda: own(x, y), calls=300)

    os.environ["PYPTX_NATIVE"] = "0"
    native_launcher.cache_clear()
    slow = described()
    slow(a, b, out=c)
    row("without the native launcher (ctypes), out=", lambda: slow(a, b, out=c), calls=200)
    del os.environ["PYPTX_NATIVE"]
    native_launcher.cache_clear()
    del launch_into
    jax_rows(row)
    table.print()


def compiled_chain(function: Any, length: int, backend: str) -> Any:
    """x -> function(... function(x, y), y), compiled and called once."""
    import torch

    def chain(x: Any, y: Any) -> Any:
        for _ in range(length):
            x = function(x, y)
        return x

    torch._dynamo.reset()
    found = torch.compile(chain, fullgraph=True, backend=backend)
    found(torch.zeros(64), torch.zeros(64))
    return found


def jax_rows(row: Any) -> None:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return
    from pyptx.runtime import jax_ffi
    from tests.runtime.kernels import add

    if jax_ffi.handlers() is None:
        return
    x = jnp.zeros(64)
    jitted = jax.jit(add())
    jitted(x, x).block_until_ready()
    row("jax.jit, the C++ launcher", lambda: jitted(x, x).block_until_ready(), calls=500, budget=10.0)
    nothing = jax.jit(lambda x, y: x + y)
    nothing(x, x).block_until_ready()
    row("jax.jit of x + y, for scale", lambda: nothing(x, x).block_until_ready(), calls=500)
    del os.environ["PYPTX_CUDA_DRIVER_LIBRARY"]
    real = jax_ffi.run_program
    jax_ffi.run_program = lambda program, arrays: None
    called = jax.jit(add())
    called(x, x).block_until_ready()
    row(
        "jax.jit, called back in Python (no simulation)",
        lambda: called(x, x).block_until_ready(),
        calls=200,
        budget=60.0,
    )
    jax_ffi.run_program = real


if __name__ == "__main__":
    main()
