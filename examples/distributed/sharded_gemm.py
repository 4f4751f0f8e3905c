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
import sys
from typing import Any

from examples.distributed.ranks import group, main, numpy, random, relative_error
from examples.hopper import gemm


def work(rank: int, ranks: int, options: Any) -> float:
    """One rank's part. Returns the relative error of all of C."""
    import torch
    import torch.distributed as distributed

    M, N, K = options.size
    if M % ranks:
        raise ValueError(f"M = {M} rows do not divide among {ranks} ranks")
    rows = M // ranks
    with group(rank, ranks) as device:
        kernel = gemm.build(rows, N, K, arch=options.arch)
        a = random((rows, K), seed=rank, device=device)
        b = random((N, K), seed=1000, device=device)
        if rank:
            b.zero_()
        distributed.broadcast(b, 0)

        part = kernel(a, b)

        parts = [torch.empty_like(part) for _ in range(ranks)]
        distributed.all_gather(parts, part)
        whole = torch.cat([random((rows, K), seed=r, device=device) for r in range(ranks)])
        error = relative_error(torch.cat(parts), numpy(whole) @ numpy(random((N, K), seed=1000, device=device)).T)
        print(f"rank {rank} of {ranks} on {device}: {rows} of {M} rows, relative error of C {error:.1e}", flush=True)
        return error


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="a GEMM over the ranks of torch.distributed")
    arguments.add_argument("--size", type=int, nargs=3, metavar=("M", "N", "K"), default=(256, 128, 128))
    arguments.add_argument("--arch", default="sm_90a")
    sys.exit(main(work, arguments))
