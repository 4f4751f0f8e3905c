"""Many matrices at once, as in a mixture of experts, on tensor memory: bf16 (sm_100a).

The operands are those of `examples.hopper.grouped_gemm`, the design is that of `examples.blackwell.gemm` with pairs of
SMs: a pair's tile has 256 rows of one expert, so only the lane that copies looks the expert up.

    python -m examples.blackwell.grouped_gemm --size 4 512 256

Measured: results against float64 on the simulator, assembled by ptxas 13.5 without spills. Not yet measured: anything on
a GPU.
"""

from __future__ import annotations

import sys
from functools import partial

from examples.blackwell.gemm import plan
from examples.common import main as run
from examples.gemms import LIMIT
from examples.hopper import grouped_gemm as shared
from pyptx import Tile, kernel, ptx
from pyptx.kernel import Kernel
from pyptx.types import s32

BLOCK = shared.BLOCK
"""Rows of A that belong to one expert."""


def build(M: int, experts: int, N: int, K: int, *, sms: int = 148, arch: str = "sm_100a") -> Kernel:
    """The kernel for A (M, K), B (experts * N, K) and expert (M / 256, s32); result C (M, N)."""
    if M % BLOCK:
        raise ValueError(f"each expert's rows are padded to a multiple of {BLOCK}, and M = {M} is none")

    def grouped_gemm(a, b, expert, c):
        (numbers,) = ptx.global_ptrs(expert)

        def row_b(top, left):
            return shared.row_of_expert(numbers, top, N) + left

        plan(M, N, K, pair=True, sms=sms, rows_b=experts * N, row_b=row_b)[1](a, b, c)

    options, _ = plan(M, N, K, pair=True, sms=sms, rows_b=experts * N)
    options["in_specs"].append(Tile(M // BLOCK, s32))
    return kernel(arch=arch, **options)(grouped_gemm)


check = partial(shared.check, build=build)


def main() -> int:
    def built(experts: int, N: int, K: int, arch: str) -> Kernel:
        return build(4 * BLOCK, experts, N, K, arch=arch)

    return run("products with the matrices of experts", check, built, size=(4, 512, 256), names=("EXPERTS", "N", "K"),
               arch="sm_100a", limit=LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
