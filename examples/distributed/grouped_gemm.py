"""A mixture of experts over the ranks of torch.distributed: each rank owns some experts, tokens travel to theirs.

    python -m examples.distributed.grouped_gemm                       # two processes of this machine, on its CPU (gloo)
    torchrun --nproc-per-node 8 -m examples.distributed.grouped_gemm --ranked       # one process per GPU (NCCL)
    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-endpoint HOST:29500 -m examples.distributed.grouped_gemm --ranked

Every rank has tokens for all experts, those of one expert padded to blocks of 256 rows. The blocks go to the rank of
their expert by all_to_all, with the expert's number next to each; `grouped_gemm` takes them in any order, so nothing is
sorted on arrival; the results go back the same way. One object serves Hopper and Blackwell: a launch takes the kernel of
the rank's GPU, so the ranks may even differ.

How many blocks arrive changes from step to step. The kernel is built for a capacity (`--capacity` blocks, or what
arrived), and the rest is blocks of expert -1, whose rows become 0: so that there is one kernel for all steps.

Measured: two processes on a CPU. Not yet measured: GPUs.
"""

from __future__ import annotations

import argparse
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from examples.blackwell import grouped_gemm as blackwell
from examples.distributed.ranks import group, main, numpy, random, relative_error
from examples.hopper import grouped_gemm as hopper
from pyptx import fat_kernel
from pyptx.kernel import Kernel

BLOCK = hopper.BLOCK


@lru_cache
def build(M: int, experts: int, N: int, K: int) -> Kernel:
    """The kernel for M rows and the experts of one rank, for both generations."""
    return fat_kernel(hopper.build(M, experts, N, K), blackwell.build(M, experts, N, K))


def exchange(tensor: Any, sent: list[int], received: list[int]) -> Any:
    """Blocks of 256 rows (or one number for each) to the ranks: `sent[r]` go to rank r, `received[r]` come from it."""
    import torch.distributed as distributed

    each = tensor.shape[0] // sum(sent)
    out = tensor.new_empty((sum(received) * each, *tensor.shape[1:]))
    distributed.all_to_all_single(out, tensor, [n * each for n in received], [n * each for n in sent])
    return out


def work(rank: int, ranks: int, options: Any) -> float:
    """One rank's part. Returns the relative error of the results of its own tokens."""
    import torch
    import torch.distributed as distributed

    experts, N, K = options.size
    if experts % ranks:
        raise ValueError(f"{experts} experts do not divide among {ranks} ranks")
    own = experts // ranks
    with group(rank, ranks) as device:
        # at least one block for each rank; experts in order, so that blocks for one rank lie together
        blocks = np.random.default_rng().integers(0, 3, experts)
        blocks[::own] += 1
        expert = np.repeat(np.arange(experts), blocks)
        tokens = random((BLOCK * len(expert), K), seed=rank, device=device)
        weights = random((own * N, K), seed=1000 + rank, device=device)

        sent = torch.tensor(blocks.reshape(ranks, own).sum(1), device=device)
        received = torch.empty_like(sent)
        distributed.all_to_all_single(received, sent)
        there, here = sent.tolist(), received.tolist()
        numbers = exchange(torch.tensor(expert % own, dtype=torch.int32, device=device), there, here)
        arrived = exchange(tokens, there, here)

        idle = max(0, options.capacity - len(numbers))
        numbers = torch.cat([numbers, numbers.new_full((idle,), -1)])
        rows = torch.cat([arrived, arrived.new_zeros((idle * BLOCK, K))])
        products = build(len(rows), own, N, K)(rows, weights, numbers)

        back = exchange(products[: len(arrived)], here, there)
        every = torch.cat([random((own * N, K), seed=1000 + r, device=device) for r in range(ranks)])
        wanted = hopper.reference(numpy(tokens), numpy(every).reshape(experts, N, K), expert)
        error = relative_error(back, wanted)
        print(
            f"rank {rank} of {ranks} on {device}: {own} of {experts} experts, {len(expert)} blocks of tokens, "
            f"{sum(here)} computed, relative error {error:.1e}",
            flush=True,
        )
        return error


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="a grouped GEMM over the ranks of torch.distributed")
    arguments.add_argument("--size", type=int, nargs=3, metavar=("EXPERTS", "N", "K"), default=(4, 256, 128))
    arguments.add_argument("--capacity", type=int, default=0, help="blocks of 256 rows that a rank computes, at least")
    sys.exit(main(work, arguments))
