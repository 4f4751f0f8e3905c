"""SwiGLU, f32 or bf16: y = gate * sigmoid(gate) * up, element by element.

Every thread takes two 16-byte vectors of each stream, `threads` vectors apart, and starts all four loads before it uses
one. gate and up are read once and past L1, y is written with the streaming hint. B*N is any multiple of 4 (bf16: 8).

    python -m examples.hopper.swiglu --size 128 4096 --dtype bf16

Measured: results against float64 on the simulator, registers and no spills with ptxas 13.5. Not yet measured: time on a
GPU. The floor on an H100 is 3*B*N elements at about 3.0 TB/s.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np

from examples.common import LIMIT, NUMPY, load_vector, per_vector, relative_error, store_vector
from examples.common import main as run
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.types import PtxType, f32, u32

__all__ = ["LIMIT", "build", "check", "main", "reference"]

THREADS = 256
VECTORS = 2
"""16-byte vectors per thread and stream."""


def build(B: int, N: int, *, dtype: PtxType = f32, arch: str = "sm_90a") -> Kernel:
    """The kernel for B x N matrices. Arguments: gate, up (B, N); result y (B, N), all of `dtype` (f32 or bf16)."""
    width = per_vector(dtype)
    vectors, rest = divmod(B * N, width)
    if rest:
        raise ValueError(f"elements are read in 16-byte vectors of {width}, and B*N = {B * N} is not a multiple")
    per_cta = THREADS * VECTORS

    @kernel(
        arch=arch,
        in_specs=[Tile(B, N, dtype), Tile(B, N, dtype)],
        out_specs=[Tile(B, N, dtype)],
        grid=-(-vectors // per_cta),
        block=THREADS,
    )
    def swiglu(gate, up, y):
        pointers = ptx.global_ptrs(gate, up, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        block = reg.from_(ptx.special.ctaid.x(), u32)
        index = ptx.mad(u32, block, per_cta, tid)
        offset = ptx.mul(u32, index, 16, mode="wide")
        for pointer in pointers:
            pointer += offset
        gates, ups, results = pointers

        # (index is unsigned: it is never less than 0)
        inside = [index < max(vectors - i * THREADS, 0) if vectors % per_cta else None for i in range(VECTORS)]
        g = [reg.array(f32, width) for _ in range(VECTORS)]
        u = [reg.array(f32, width) for _ in range(VECTORS)]
        for i in range(VECTORS):
            load_vector(dtype, g[i], ptx.addr(gates, i * THREADS * 16), pred=inside[i])
            load_vector(dtype, u[i], ptx.addr(ups, i * THREADS * 16), pred=inside[i])
        for i in range(VECTORS):
            for a, b in zip(g[i], u[i], strict=True):
                # sigmoid(a) = 1 / (1 + 2^(-a*log2(e)))
                sigmoid = a * -math.log2(math.e)
                ptx.inst.ex2.approx.ftz.f32(sigmoid, sigmoid)
                sigmoid += 1.0
                ptx.inst.rcp.approx.ftz.f32(sigmoid, sigmoid)
                a *= sigmoid
                a *= b
            store_vector(dtype, ptx.addr(results, i * THREADS * 16), g[i], pred=inside[i])
        ptx.ret()

    return swiglu


def reference(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The same in float64."""
    gate = gate.astype(np.float64)
    return gate / (1 + np.exp(-gate)) * up.astype(np.float64)


def check(B: int, N: int, *, dtype: PtxType = f32, arch: str = "sm_90a") -> float:
    """Run B x N on fresh random data and return the relative error; prints a line."""
    rng = np.random.default_rng()
    gate, up = (3 * rng.standard_normal((2, B, N))).astype(NUMPY[dtype])
    start = time.perf_counter()
    y = build(B, N, dtype=dtype, arch=arch)(gate, up)
    seconds = time.perf_counter() - start
    error = relative_error(y, reference(gate, up))
    print(f"swiglu {dtype} {B:5} x {N:<5}  relative error {error:.1e}   {seconds:.2f} s")
    return error


def main(arch: str = "sm_90a") -> int:
    return run("SwiGLU of two matrices", check, build, size=(128, 4096), names=("B", "N"), arch=arch)


if __name__ == "__main__":
    sys.exit(main())
