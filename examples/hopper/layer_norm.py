"""Layer norm of the rows of a matrix, f32 or bf16: y[b, n] = (x[b, n] - mean) / sqrt(variance + eps) * weight + bias.

One CTA per row. Each thread keeps its part of the row in registers, so that x is read once: 16-byte loads, the mean
over the CTA, then the variance of the centred values over the CTA (two reductions: the sum of squares minus the square
of the sum would cancel), 16-byte stores. The row length is any multiple of 4 (bf16: 8) up to 65536; arithmetic in f32.

    python -m examples.hopper.layer_norm --size 128 4096 --dtype bf16

Measured: results against float64 on the simulator, registers and no spills with ptxas 13.5. Not yet measured: time on a
GPU. The floor on an H100 is 2*B*N elements at about 3.0 TB/s.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from examples.common import LIMIT, NUMPY, Row, load_vector, relative_error, store_vector
from examples.common import main as run
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.types import PtxType, f32, u32

__all__ = ["LIMIT", "build", "check", "main", "reference"]


def build(B: int, N: int, *, eps: float = 1e-5, dtype: PtxType = f32, arch: str = "sm_90a") -> Kernel:
    """The kernel for a B x N matrix. Arguments: x (B, N), weight (N), bias (N); result y (B, N), all of `dtype`."""
    shape = Row(N, dtype)

    @kernel(
        arch=arch,
        in_specs=[Tile(B, N, dtype), Tile(N, dtype), Tile(N, dtype)],
        out_specs=[Tile(B, N, dtype)],
        grid=B,
        block=shape.threads,
    )
    def layer_norm(x, weight, bias, y):
        x_row, weights, biases, y_row = ptx.global_ptrs(x, weight, bias, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        row = reg.from_(ptx.special.ctaid.x(), u32)
        column = tid * 16
        start = ptx.mul(u32, row, N * dtype.bytes, mode="wide") + column
        x_row += start
        y_row += start
        weights += column
        biases += column
        guard = shape.guard(tid)

        values = [reg.array(f32, shape.width) for _ in range(shape.rounds)]
        for i, part in enumerate(values):
            load_vector(dtype, part, ptx.addr(x_row, i * shape.stride), pred=guard(i))

        total = reg.scalar(f32, init=0.0)  # vectors that a thread does not have are 0
        for part in values:
            for v in part:
                total += v
        ptx.block.reduce_sum(total, shape.threads, thread=tid, name="partial_sum")
        minus_mean = total * (-1.0 / N)

        squares = reg.scalar(f32, init=0.0)
        for i, part in enumerate(values):
            for v in part:
                v += minus_mean
                ptx.inst.fma.rn.f32(squares, v, v, squares, pred=guard(i))  # now those would count
        ptx.block.reduce_sum(squares, shape.threads, thread=tid, name="partial_squares")

        factor = squares * (1.0 / N) + eps
        ptx.inst.rsqrt.approx.f32(factor, factor)
        gain, shift = reg.array(f32, shape.width), reg.array(f32, shape.width)
        for i, part in enumerate(values):
            load_vector(dtype, gain, ptx.addr(weights, i * shape.stride), pred=guard(i))
            load_vector(dtype, shift, ptx.addr(biases, i * shape.stride), pred=guard(i))
            for v, g, s in zip(part, gain, shift, strict=True):
                v *= factor
                ptx.inst.fma.rn.f32(v, v, g, s)
            store_vector(dtype, ptx.addr(y_row, i * shape.stride), part, pred=guard(i))
        ptx.ret()

    return layer_norm


def reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """The same in float64."""
    x = x.astype(np.float64)
    centred = x - x.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + eps)
    return scaled * weight.astype(np.float64) + bias.astype(np.float64)


def check(B: int, N: int, *, dtype: PtxType = f32, arch: str = "sm_90a") -> float:
    """Run B x N on fresh random data and return the relative error; prints a line."""
    rng = np.random.default_rng()
    # a mean of its own per row
    x = (rng.standard_normal((B, N)) + rng.uniform(-1, 1, (B, 1))).astype(NUMPY[dtype])
    weight, bias = rng.standard_normal((2, N)).astype(NUMPY[dtype])
    start = time.perf_counter()
    y = build(B, N, dtype=dtype, arch=arch)(x, weight, bias)
    seconds = time.perf_counter() - start
    error = relative_error(y, reference(x, weight, bias))
    print(f"layer_norm {dtype} {B:5} x {N:<5}  relative error {error:.1e}   {seconds:.2f} s")
    return error


def main(arch: str = "sm_90a") -> int:
    return run("layer norm of the rows of a matrix", check, build, size=(128, 4096), names=("B", "N"), arch=arch)


if __name__ == "__main__":
    sys.exit(main())
