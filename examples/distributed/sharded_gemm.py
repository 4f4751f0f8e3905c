"""C = A * B^T with the rows of A and C shared out over the ranks of torch.distributed.

    python -m examples.distributed.sharded_gemm                      # two processes of this machine, on its CPU (gloo)
    torchrun --nproc-per-node 8 -m examples.distributed.sharded_gemm --ranked      # one process per GPU (NCCL)
    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-endpoint HOST:29500 -m examples.distributed.sharded_gemm --ranked

Nothing about a kernel is distributed: each rank calls it on its own tensors, and the collectives are torch's. A rank
compiles for its own GPU; ranks of one machine share the disk cache, so the first one compiles for all. Each rank makes
its rows of A, rank 0's B is broadcast, and every rank gets all of C by all_gather, which it checks against float64.

Measured: two processes on a CPU. Not yet measured: GPUs.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np

from examples.gemms import LIMIT
from examples.hopper import gemm


def work(rank: int, ranks: int, size: tuple[int, int, int], arch: str) -> float:
    """One rank's part. Returns the relative error of all of C."""
    import torch
    import torch.distributed as distributed

    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    device = torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")
    distributed.init_process_group("nccl" if gpu else "gloo", rank=rank, world_size=ranks)
    try:
        M, N, K = size
        if M % ranks:
            raise ValueError(f"M = {M} rows do not divide among {ranks} ranks")
        rows = M // ranks
        kernel = gemm.build(rows, N, K, arch=arch)
        a = random((rows, K), seed=rank, device=device)
        b = (
            random((N, K), seed=1000, device=device)
            if rank == 0
            else torch.empty(N, K, dtype=torch.bfloat16, device=device)
        )
        distributed.broadcast(b, 0)

        part = kernel(a, b)

        parts = [torch.empty_like(part) for _ in range(ranks)]
        distributed.all_gather(parts, part)
        c = torch.cat(parts)
        whole = torch.cat([random((rows, K), seed=r, device=device) for r in range(ranks)])
        wanted = numpy(whole) @ numpy(b).T
        error = float(np.linalg.norm(numpy(c) - wanted) / np.linalg.norm(wanted))
        print(f"rank {rank} of {ranks} on {device}: {rows} of {M} rows, relative error of C {error:.1e}", flush=True)
        return error
    finally:
        distributed.destroy_process_group()


def random(shape: tuple[int, ...], *, seed: int, device: Any) -> Any:
    import torch

    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator) * 2 - 1).to(torch.bfloat16).to(device)


def numpy(tensor: Any) -> np.ndarray:
    return tensor.cpu().double().numpy()


def _child(rank: int, ranks: int, size: tuple[int, int, int], arch: str) -> None:
    if not work(rank, ranks, size, arch) <= LIMIT:
        sys.exit(1)


def main() -> int:
    arguments = argparse.ArgumentParser(description="a GEMM over the ranks of torch.distributed")
    arguments.add_argument("--size", type=int, nargs=3, metavar=("M", "N", "K"), default=(256, 128, 128))
    arguments.add_argument("--arch", default="sm_90a")
    arguments.add_argument("--ranks", type=int, default=2, help="local processes to start")
    arguments.add_argument("--ranked", action="store_true", help="started by torchrun: this is one of the ranks")
    options = arguments.parse_args()
    size = tuple(options.size)
    if options.ranked:
        error = work(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), size, options.arch)
        return 0 if error <= LIMIT else 1
    import socket

    import torch.multiprocessing as processes

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    processes.spawn(_child, (options.ranks, size, options.arch), nprocs=options.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
