"""nvcc's PTX on a CPU: parse it, print it back byte for byte, run both kernels on the simulator and compare with
float64.

python -m examples.transpile.run
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import pyptx

PTX = Path(__file__).with_name("kernels.ptx")


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """Norm of the difference over the norm of the float64 reference."""
    return float(np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want))


def saxpy(kernel: pyptx.LoadedKernel, n: int, rng: np.random.Generator) -> float:
    x, y = rng.standard_normal((2, n), dtype=np.float32)
    a = np.float32(rng.standard_normal())
    want = np.float64(a) * x.astype(np.float64) + y
    pyptx.simulate(kernel, n, a, x, y, grid=((n + 255) // 256,), block=(256,))
    return relative_error(y, want)


def block_sum(kernel: pyptx.LoadedKernel, n: int, blocks: int, rng: np.random.Generator) -> float:
    data = rng.standard_normal(n, dtype=np.float32) + np.float32(1.0)
    out = np.full(blocks, np.nan, dtype=np.float32)
    pyptx.simulate(kernel, data, out, n, grid=(blocks,), block=(256,))
    index = np.arange(n) // 256 % blocks
    want = np.bincount(index, weights=data.astype(np.float64), minlength=blocks)
    return relative_error(out, want)


def main() -> None:
    text = PTX.read_text()
    start = time.perf_counter()
    module = pyptx.parse(text, filename=str(PTX), verify=True)
    parsed = time.perf_counter() - start
    assert pyptx.to_ptx(module) == text, "printing must give the same bytes back"
    lines = text.count("\n")
    print(f"{PTX.name}: {lines} lines parsed and verified in {1e3 * parsed:.0f} ms, printed back byte for byte")
    kernels = pyptx.load(PTX)
    rng = np.random.default_rng()
    start = time.perf_counter()
    error = saxpy(kernels["saxpy"], 100_003, rng)
    print(f"saxpy      n = 100003            relative error {error:.1e}   {time.perf_counter() - start:.2f} s")
    assert error <= 1e-7
    start = time.perf_counter()
    error = block_sum(kernels["block_sum"], 1_000_003, 64, rng)
    print(f"block_sum  n = 1000003, 64 CTAs  relative error {error:.1e}   {time.perf_counter() - start:.2f} s")
    assert error <= 1e-6


if __name__ == "__main__":
    main()
