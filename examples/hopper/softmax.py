"""Softmax of the rows of a matrix, f32 or bf16: y[b, n] = exp(x[b, n] - max(x[b])) / sum(exp(x[b] - max(x[b]))).

One CTA per row. Each thread keeps its part of the row in registers, so that x is read once: 16-byte loads, the maximum
over the CTA, the exponentials in place, their sum over the CTA, 16-byte stores. The row length is any multiple of 4
(bf16: 8) up to 65536. The arithmetic is f32; exp(v) is one `ex2.approx` of v*log2(e).

    python -m examples.hopper.softmax --size 128 4096 --dtype bf16

Measured: results against float64 on the simulator, registers and no spills with ptxas 13.5. Not yet measured: time on a
GPU. The floor on an H100 is 2*B*N elements at about 3.0 TB/s.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np

from examples.common import LIMIT, NUMPY, Row, load_vector, relative_error, store_vector
from examples.common import main as run
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.types import PtxType, f32, u32

__all__ = ["LIMIT", "build", "check", "main", "reference"]

LOG2_E = math.log2(math.e)


def build(B: int, N: int, *, dtype: PtxType = f32, arch: str = "sm_90a") -> Kernel:
    """The kernel for a B x N matrix. Argument: x (B, N); result y (B, N), both of `dtype` (f32 or bf16)."""
    shape = Row(N, dtype)

    @kernel(
        arch=arch, in_specs=[Tile(B, N, dtype)], out_specs=[Tile(B, N, dtype)], grid=B, block=shape.threads
    )  # fmt: skip
    def softmax(x, y):
        x_row, y_row = ptx.global_ptrs(x, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        row = reg.from_(ptx.special.ctaid.x(), u32)
        start = ptx.mul(u32, row, N * dtype.bytes, mode="wide") + tid * 16
        x_row += start
        y_row += start
        guard = shape.guard(tid)

        values = [reg.array(f32, shape.width) for _ in range(shape.rounds)]
        for i, part in enumerate(values):
            load_vector(dtype, part, ptx.addr(x_row, i * shape.stride), pred=guard(i))

        # Vectors that a thread does not have must not win the maximum, nor count in the sum.
        highest = reg.scalar(f32, init=-math.inf)
        for i, part in enumerate(values):
            for v in part:
                ptx.inst.max.f32(highest, highest, v, pred=guard(i))
        ptx.block.reduce_max(highest, shape.threads, thread=tid, name="partial_max")

        # exp(v - m) = 2^(v*log2(e) - m*log2(e)): one fma and one ex2
        offset = highest * -LOG2_E
        total = reg.scalar(f32, init=0.0)
        for i, part in enumerate(values):
            for v in part:
                ptx.inst.fma.rn.f32(v, v, LOG2_E, offset)
                ptx.inst.ex2.approx.ftz.f32(v, v)
                ptx.inst.add.f32(total, total, v, pred=guard(i))
        ptx.block.reduce_sum(total, shape.threads, thread=tid, name="partial_sum")

        factor = reg.scalar(f32)
        ptx.inst.rcp.approx.f32(factor, total)
        for i, part in enumerate(values):
            for v in part:
                ptx.inst.mul.f32(v, v, factor)
            store_vector(dtype, ptx.addr(y_row, i * shape.stride), part, pred=guard(i))
        ptx.ret()

    return softmax


def reference(x: np.ndarray) -> np.ndarray:
    """The same in float64."""
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def check(B: int, N: int, *, dtype: PtxType = f32, arch: str = "sm_90a") -> float:
    """Run B x N on fresh random data and return the relative error; prints a line."""
    rng = np.random.default_rng()
    # an offset per row: without subtracting the maximum the exponentials would overflow
    x = (3 * rng.standard_normal((B, N)) + rng.uniform(-200, 200, (B, 1))).astype(NUMPY[dtype])
    start = time.perf_counter()
    y = build(B, N, dtype=dtype, arch=arch)(x)
    seconds = time.perf_counter() - start
    error = relative_error(y, reference(x))
    print(f"softmax {dtype} {B:5} x {N:<5}  relative error {error:.1e}   {seconds:.2f} s")
    return error


def main(arch: str = "sm_90a") -> int:
    return run("softmax of the rows of a matrix", check, build, size=(128, 4096), names=("B", "N"), arch=arch)


if __name__ == "__main__":
    sys.exit(main())
