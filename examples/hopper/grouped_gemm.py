"""Many matrices at once, as in a mixture of experts: row i of C is row i of A times B[expert of i]^T; bf16 (sm_90a).

A (M, K) holds the tokens of all experts one after the other, each expert's padded to a multiple of 256 rows; B is
(experts, N, K), given as (experts * N, K); `expert` (M / 256) says whose rows each block of 256 is, or -1 for none,
where C becomes 0. C is (M, N). The number of tokens per expert may change from launch to launch.

It is `gemm_highperf`: a tile of a cluster has 256 rows of one expert, so only the producer looks the expert up and
starts at another row of B. Columns that a tile has beyond N are the next expert's and are not stored.

    python -m examples.hopper.grouped_gemm --size 4 512 256

Measured: results against float64 on the simulator, no spills and no advice from ptxas 13.5. Not yet measured: time on a
GPU. With few tokens per expert the weights are the floor: experts * N * K * 2 bytes at about 3.0 TB/s.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from examples.common import main as run
from examples.common import relative_error
from examples.gemms import LIMIT
from examples.hopper.gemm_highperf import CLUSTER, ROWS, Plan
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.reg import Reg
from pyptx.types import s32

BLOCK = CLUSTER * ROWS
"""Rows of A that belong to one expert."""


def row_of_expert(numbers: Reg, top: Reg, N: int) -> Reg:
    """The first row of B of the expert to whom row `top` of A belongs."""
    number = reg.scalar(s32)
    ptx.inst.ld.global_.nc.s32(number, ptx.addr(numbers + ptx.mul(s32, top // BLOCK, 4, mode="wide")))
    return number * N


def build(M: int, experts: int, N: int, K: int, *, sms: int = 132, arch: str = "sm_90a") -> Kernel:
    """The kernel for A (M, K), B (experts * N, K) and expert (M / 256, s32); result C (M, N)."""
    if M % BLOCK:
        raise ValueError(f"each expert's rows are padded to a multiple of {BLOCK}, and M = {M} is none")
    plan = Plan(M, N, K, sms=sms, rows_b=experts * N)

    @kernel(
        arch=arch, in_specs=[*plan.inputs, Tile(M // BLOCK, s32)], out_specs=[plan.output], **plan.launch
    )  # fmt: skip
    def grouped_gemm(a, b, expert, c):
        (numbers,) = ptx.global_ptrs(expert)

        plan.trace(a, b, c, row_b=lambda top, left: row_of_expert(numbers, top, N) + left)

    return grouped_gemm


def reference(a: np.ndarray, b: np.ndarray, expert: np.ndarray) -> np.ndarray:
    """C in float64; b is (experts, N, K)."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    blocks = [a[i * BLOCK : (i + 1) * BLOCK] @ b[e].T * (e >= 0) for i, e in enumerate(expert)]
    return np.concatenate(blocks)


def check(experts: int, N: int, K: int, *, build: Callable[..., Kernel] = build, **options: Any) -> float:
    """Run it with 1 to 3 blocks of rows per expert and one of nobody; the relative error; prints a line."""
    rng = np.random.default_rng()
    expert = np.repeat(np.arange(experts), rng.integers(0, 4, experts)).astype(np.int32)
    expert = np.append(expert, np.int32(-1))
    M = BLOCK * len(expert)
    a = rng.uniform(-1, 1, (M, K)).astype(ml_dtypes.bfloat16)
    b = rng.uniform(-1, 1, (experts, N, K)).astype(ml_dtypes.bfloat16)
    start = time.perf_counter()
    c = build(M, experts, N, K, **options)(a, b.reshape(experts * N, K), expert)
    seconds = time.perf_counter() - start
    error = relative_error(c, reference(a, b, expert)) if len(expert) > 1 else float(np.abs(c.astype(float)).max())
    print(f"grouped_gemm {experts} experts, {M} x {N} x {K}  relative error {error:.1e}   {seconds:.2f} s")
    return error


def main() -> int:
    def built(experts: int, N: int, K: int, arch: str) -> Kernel:
        return build(4 * BLOCK, experts, N, K, arch=arch)

    return run("products with the matrices of experts", check, built, size=(4, 512, 256), names=("EXPERTS", "N", "K"),
               arch="sm_90a", limit=LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
