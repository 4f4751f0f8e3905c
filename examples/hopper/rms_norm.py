"""RMS norm of the rows of a matrix, f32: y[b, n] = x[b, n] * weight[n] / sqrt(mean(x[b]^2) + eps).

One CTA per row. Each thread keeps its part of the row in registers, so that x is read once: 16-byte loads, a sum over
the warp by shuffles, a sum over the warps through shared memory, 16-byte stores. The row length is any multiple of 4.

    python -m examples.hopper.rms_norm        # on the simulator where there is no GPU
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.types import f32, u32


def build(B: int, N: int, *, eps: float = 1e-6, arch: str = "sm_90a") -> Kernel:
    """The kernel for a B x N matrix; N is a multiple of 4. Arguments: x (B, N), weight (N); result y (B, N)."""
    if N % 4:
        raise ValueError(f"rows are read 4 elements at a time, and N = {N} is no multiple of 4")
    vectors = N // 4
    threads = min(256, -(-vectors // 32) * 32)
    rounds = -(-vectors // threads)
    warps = threads // 32

    @kernel(
        arch=arch,
        in_specs=[Tile(B, N, f32), Tile(N, f32)],
        out_specs=[Tile(B, N, f32)],
        grid=B,
        block=threads,
    )
    def rms_norm(x, weight, y):
        x_row, scale, y_row = ptx.global_ptrs(x, weight, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        row = reg.from_(ptx.special.ctaid.x(), u32)

        # Where this thread starts in the row; its next vector lies `threads` vectors further.
        start = tid * 16
        row_bytes = ptx.mul(u32, row, N * 4, mode="wide")
        x_row += row_bytes
        x_row += start
        y_row += row_bytes
        y_row += start
        scale += start

        # In the last round some threads may have no vector left.
        inside = tid < vectors - (rounds - 1) * threads if vectors % threads else None

        def guard(i):
            return inside if i == rounds - 1 else None

        part = [reg.array(f32, 4) for _ in range(rounds)]
        total = reg.scalar(f32, init=0.0)
        for i, values in enumerate(part):
            if guard(i) is not None:
                for k in range(4):
                    values[k] = 0.0
            ptx.inst.ld.global_.nc.v4.f32(values, ptx.addr(x_row, i * threads * 16), pred=guard(i))
        for values in part:
            for v in values:
                ptx.inst.fma.rn.f32(total, v, v, total)

        ptx.warp.reduce_sum(total)
        if warps > 1:
            partial = smem.alloc(f32, (warps,), name="partial")
            with ptx.if_((tid & 31) == 0):
                smem.store(f32, partial[tid >> 5], total)
            ptx.bar.sync(0)
            ptx.inst.mov.f32(total, 0.0)
            for w in range(warps):
                total += smem.load(f32, partial[w])

        factor = total * (1.0 / N) + eps
        ptx.inst.rsqrt.approx.f32(factor, factor)

        gain = reg.array(f32, 4)
        for i, values in enumerate(part):
            ptx.inst.ld.global_.nc.v4.f32(gain, ptx.addr(scale, i * threads * 16), pred=guard(i))
            for k in range(4):
                values[k] = values[k] * factor
                values[k] = values[k] * gain[k]
            ptx.inst.st.global_.v4.f32(ptx.addr(y_row, i * threads * 16), values, pred=guard(i))
        ptx.ret()

    return rms_norm


def reference(x: np.ndarray, weight: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    """The same in float64."""
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps) * weight.astype(np.float64)


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """Norm of the difference over the norm of the float64 reference."""
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def check(B: int, N: int, arch: str = "sm_90a") -> float:
    """Run B x N on fresh random data and return the relative error; prints a line."""
    rng = np.random.default_rng()
    x = rng.standard_normal((B, N), dtype=np.float32)
    weight = rng.standard_normal(N, dtype=np.float32)
    start = time.perf_counter()
    y = build(B, N, arch=arch)(x, weight)
    seconds = time.perf_counter() - start
    error = relative_error(y.astype(np.float64), reference(x, weight))
    print(f"rms_norm {B:5} x {N:<5}  relative error {error:.1e}   {seconds:.2f} s")
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
        print(f"ptxas: {usage.registers} registers, {usage.shared_bytes} bytes of shared memory, no spills\n")
    except RuntimeError as missing:
        print(f"ptxas: {missing}\n")
    for B, N in ((4, 64), (128, 4096), (2048, 8192)):
        assert check(B, N) <= 1e-6


def main() -> int:
    arguments = argparse.ArgumentParser(description="RMS norm of the rows of a matrix")
    arguments.add_argument("--size", type=int, nargs=2, metavar=("B", "N"), default=(128, 4096))
    arguments.add_argument("--arch", default="sm_90a")
    arguments.add_argument("--ptx", action="store_true", help="print the PTX and stop")
    options = arguments.parse_args()
    if options.ptx:
        print(build(*options.size, arch=options.arch).ptx(), end="")
        return 0
    return 0 if check(*options.size, arch=options.arch) <= 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
