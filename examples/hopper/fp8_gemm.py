"""C = (A * scale_a) * (B * scale_b)^T with 8-bit floats: e4m3, one scale per row of A and of B, bf16 result (sm_90a).

A (M, K) and B (N, K) are e4m3, scale_a (M) and scale_b (N) f32, C (M, N). It is `gemm_highperf` with 128 columns of K
in a stage, twice as many products per byte, and the scales multiplied in where the sums become bf16.

Hopper keeps 13 bits of fraction of the sums of 8-bit floats, and the error grows with K. So this kernel promotes: after
each stage (128 columns of K, four instructions) it adds the accumulator to f32 registers and begins again from zero, as
DeepSeek-V3 does (arXiv 2412.19437, section 3.3.2). These registers make a tile 128 columns wide instead of 256. With
`--fast` it does not promote, as `torch._scaled_mm(use_fast_accum=True)`; the simulator then advises it.

    python -m examples.hopper.fp8_gemm --size 512

Measured: results against float64 on the simulator, which adds as Hopper does; no spills and no advice from ptxas 13.5.
Not yet measured: time on a GPU. The floor is half of that of `gemm_highperf`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import ml_dtypes
import numpy as np

from examples.common import ROUNDED, Sums, relative_error, told
from examples.common import main as run
from examples.hopper.gemm_highperf import CLUSTER, ROWS, Plan
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.types import e4m3, f32, s32

PROMOTED, FAST = Sums(32, 13, 13, promoted=128), Sums(32, 13, 13)
"""How the products are added up, with promotion and without."""


def build(M: int, N: int, K: int, *, sms: int = 132, arch: str = "sm_90a", fast: bool = False) -> Kernel:
    """The kernel for A (M, K), B (N, K), scale_a (M), scale_b (N); result C (M, N). N: multiple of 8, K: of 16.

    fast: sums stay in the tensor cores.
    """
    plan = Plan(M, N, K, sms=sms, dtype=e4m3, promote=not fast)

    @kernel(
        arch=arch, in_specs=[*plan.inputs, Tile(M, f32), Tile(N, f32)], out_specs=[plan.output], **plan.launch
    )  # fmt: skip
    def fp8_gemm(a, b, scale_a, scale_b, c):
        scales_a, scales_b = ptx.global_ptrs(scale_a, scale_b)

        def scale(row):
            of_rows = [reg.scalar(f32, init=0.0) for _ in range(2)]
            start = ptx.addr(scales_a + ptx.mul(s32, row, 4, mode="wide"))
            for h, s in enumerate(of_rows):
                inside = row + 8 * h < M if M % (CLUSTER * ROWS) else None
                ptx.inst.ld.global_.nc.f32(s, ptx.addr(start, 32 * h), pred=inside)

            def scaled(values, column):
                start = ptx.addr(scales_b + ptx.mul(s32, column, 4, mode="wide"))
                for n8 in range(2):
                    of_columns = reg.array(f32, 2)
                    inside = None
                    if N % plan.width:
                        inside = column + 8 * n8 < N
                        for s in of_columns:
                            ptx.inst.mov.f32(s, 0.0)
                    ptx.inst.ld.global_.nc.v2.f32(of_columns, ptx.addr(start, 32 * n8), pred=inside)
                    for h in range(2):
                        for i in range(2):
                            v = values[4 * n8 + 2 * h + i]
                            v *= of_rows[h]
                            v *= of_columns[i]

            return scaled

        plan.trace(a, b, c, scale=scale)

    return fp8_gemm


def reference(a: np.ndarray, b: np.ndarray, scale_a: np.ndarray, scale_b: np.ndarray) -> np.ndarray:
    """C in float64."""
    product = a.astype(np.float64) @ b.astype(np.float64).T
    return product * scale_a.astype(np.float64)[:, None] * scale_b.astype(np.float64)


def limit(M: int, N: int, K: int, *, fast: bool = False, **_: Any) -> float:
    """The relative error that the sums and one rounding to bf16 may have."""
    return ROUNDED + (FAST if fast else PROMOTED).error(K)


def check(M: int, N: int, K: int, *, sms: int = 132, arch: str = "sm_90a", fast: bool = False) -> float:
    """Run it on fresh random data and return the relative error; prints a line."""
    rng = np.random.default_rng()
    a = rng.standard_normal((M, K)).astype(ml_dtypes.float8_e4m3fn)
    b = rng.standard_normal((N, K)).astype(ml_dtypes.float8_e4m3fn)
    scale_a, scale_b = rng.uniform(0.5, 2, M).astype(np.float32), rng.uniform(0.5, 2, N).astype(np.float32)
    start = time.perf_counter()
    c = build(M, N, K, sms=sms, arch=arch, fast=fast)(a, b, scale_a, scale_b)
    seconds = time.perf_counter() - start
    error = relative_error(c, reference(a, b, scale_a, scale_b))
    allowed = told(error, limit(M, N, K, fast=fast), FAST if fast else PROMOTED, arch)
    print(f"fp8_gemm {M} x {N} x {K}  {allowed}   {seconds:.2f} s")
    return error


def main() -> int:
    return run("C = A * B^T in e4m3 with scales", check, build, size=(512,) * 3, names=("M", "N", "K"), arch="sm_90a",
               limit=limit, flags=("fast",))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
