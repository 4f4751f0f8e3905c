"""RMS norm of the rows of a matrix, f32 or bf16: y[b, n] = x[b, n] * weight[n] / sqrt(mean(x[b]^2) + eps).

One CTA per row. Each thread keeps its part of the row in registers, so that x is read once: 16-byte loads, a sum over
the warp by shuffles, a sum over the warps through shared memory, 16-byte stores. The row length is any multiple of 4
(bf16: 8) up to 65536; the arithmetic is f32.

    python -m examples.hopper.rms_norm --size 128 4096        # on the simulator where there is no GPU

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

__all__ = ["LIMIT", "build", "check", "demo", "main", "reference"]


def build(B: int, N: int, *, eps: float = 1e-6, dtype: PtxType = f32, arch: str = "sm_90a") -> Kernel:
    """The kernel for a B x N matrix. Arguments: x (B, N), weight (N); result y (B, N), all of `dtype`."""
    shape = Row(N, dtype)

    @kernel(
        arch=arch,
        in_specs=[Tile(B, N, dtype), Tile(N, dtype)],
        out_specs=[Tile(B, N, dtype)],
        grid=B,
        block=shape.threads,
    )
    def rms_norm(x, weight, y):
        x_row, weights, y_row = ptx.global_ptrs(x, weight, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        row = reg.from_(ptx.special.ctaid.x(), u32)

        # Where this thread starts in the row; its next vector lies `threads` vectors further.
        column = tid * 16
        start = ptx.mul(u32, row, N * dtype.bytes, mode="wide") + column
        x_row += start
        y_row += start
        weights += column
        guard = shape.guard(tid)

        values = [reg.array(f32, shape.width) for _ in range(shape.rounds)]
        for i, part in enumerate(values):
            load_vector(dtype, part, ptx.addr(x_row, i * shape.stride), pred=guard(i))

        total = reg.scalar(f32, init=0.0)  # vectors that a thread does not have are 0
        for part in values:
            for v in part:
                ptx.inst.fma.rn.f32(total, v, v, total)
        ptx.block.reduce_sum(total, shape.threads, thread=tid, name="partial")

        factor = total * (1.0 / N) + eps
        ptx.inst.rsqrt.approx.f32(factor, factor)
        gain = reg.array(f32, shape.width)
        for i, part in enumerate(values):
            load_vector(dtype, gain, ptx.addr(weights, i * shape.stride), pred=guard(i))
            for v, g in zip(part, gain, strict=True):
                v *= factor
                v *= g
            store_vector(dtype, ptx.addr(y_row, i * shape.stride), part, pred=guard(i))
        ptx.ret()

    return rms_norm


def reference(x: np.ndarray, weight: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    """The same in float64."""
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps) * weight.astype(np.float64)


def check(B: int, N: int, *, dtype: PtxType = f32, arch: str = "sm_90a") -> float:
    """Run B x N on fresh random data and return the relative error; prints a line."""
    rng = np.random.default_rng()
    x = rng.standard_normal((B, N)).astype(NUMPY[dtype])
    weight = rng.standard_normal(N).astype(NUMPY[dtype])
    start = time.perf_counter()
    y = build(B, N, dtype=dtype, arch=arch)(x, weight)
    seconds = time.perf_counter() - start
    error = relative_error(y, reference(x, weight))
    print(f"rms_norm {dtype} {B:5} x {N:<5}  relative error {error:.1e}   {seconds:.2f} s")
    return error


def demo() -> None:
    """What `make demo` shows: the PTX, the verdicts, and the results at three sizes."""
    kernel_ = build(128, 4096)
    text = kernel_.ptx()
    lines = text.split("\n")
    print("\n".join(lines[:24]), f"\n\t... {len(lines) - 24} more lines\n", sep="")
    findings = kernel_.check()
    for finding in findings:
        print(finding.render())
    assert not any(f.severity == "error" for f in findings)
    print(f"verdict: legal PTX for {kernel_.arch}, by pyptx and by ptxas if it is installed")
    try:
        usage = kernel_.usage()
        print(
            f"ptxas: {usage.registers} registers, {usage.shared_bytes} bytes of shared memory, {usage.spill_stores} "
            "bytes spilled\n"
        )
    except RuntimeError as missing:
        print(f"ptxas: {missing}\n")
    for B, N in ((4, 64), (128, 4096), (2048, 8192)):
        assert check(B, N) <= 1e-6


def main(arch: str = "sm_90a") -> int:
    return run("RMS norm of the rows of a matrix", check, build, size=(128, 4096), names=("B", "N"), arch=arch)


if __name__ == "__main__":
    sys.exit(main())
