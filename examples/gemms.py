"""What the matrix-multiply examples share: C = A * B^T with A (M, K), B (N, K), row-major, in bf16."""

from __future__ import annotations

import time
from collections.abc import Callable

import ml_dtypes
import numpy as np

from examples.common import bf16_sums, relative_error, told
from pyptx.kernel import Kernel

LIMIT = 2**-8
"""The relative error that the sums of bf16 (`bf16_sums`), of up to 65536 products, and one rounding to bf16 may have."""


def operands(M: int, N: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Fresh random A and B."""
    rng = np.random.default_rng()
    return (
        rng.uniform(-1, 1, (M, K)).astype(ml_dtypes.bfloat16),
        rng.uniform(-1, 1, (N, K)).astype(ml_dtypes.bfloat16),
    )


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A * B^T in float64."""
    return a.astype(np.float64) @ b.astype(np.float64).T


def check(kernel: Kernel, M: int, N: int, K: int) -> float:
    """Run a kernel on fresh random data and return the relative error; prints a line."""
    a, b = operands(M, N, K)
    start = time.perf_counter()
    c = kernel(a, b)
    seconds = time.perf_counter() - start
    error = relative_error(c, reference(a, b))
    print(
        f"{kernel.name} {kernel.arch} {M} x {N} x {K}  {told(error, LIMIT, bf16_sums(kernel.arch), kernel.arch)}   {seconds:.2f} s"
    )
    return error


def checker(build: Callable[..., Kernel]) -> Callable[..., float]:
    """`check(M, N, K, **options)` of an example."""

    def run(M: int, N: int, K: int, **options: object) -> float:
        return check(build(M, N, K, **options), M, N, K)

    return run


if __name__ == "__main__":
    raise SystemExit("this is a part of the examples: run one of them, such as python -m examples.hopper.gemm")
