"""Thread-instructions per second of the simulator at 1, 16 and 256 CTAs of 128 threads, for a loop of 20
instructions on both engines, and seconds of two examples, without and with the sanitizer (`check=True`, the default of a launch on the CPU).

python -m benchmarks.simulator
"""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np

import pyptx
from benchmarks._table import Table, measure
from examples.geforce import block_scaled_gemm
from examples.hopper import fp8_gemm, gemm_highperf, rms_norm
from pyptx.kernel import Kernel
from pyptx.numerics.tensor_cores import accumulate
from pyptx.runtime.arguments import NUMPY_TYPES
from pyptx.simulator import load
from pyptx.simulator.jit import available

LOOP = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry loop(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .f32 %f<16>;
    .reg .b64 %rd<4>;
    .shared .align 16 .b8 table[4096];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, table;
    shl.b32 %r4, %r2, 2;
    add.s32 %r5, %r3, %r4;
    cvt.rn.f32.u32 %f1, %r2;
    fma.rn.f32 %f1, %f1, 0f3DA0B5C3, 0f3F19A8E7;
    st.shared.f32 [%r5], %f1;
    st.shared.f32 [%r5+2048], %f1;
    bar.sync 0;
    mov.u32 %r6, 0;
    mov.f32 %f2, 0f3F000000;
    mov.f32 %f3, 0fBE8A3D71;
    mov.f32 %f4, 0f3F800000;
    mov.f32 %f5, %f1;
    mov.u32 %r7, %r4;
$loop:
    add.s32 %r8, %r3, %r7;
    ld.shared.f32 %f6, [%r8];
    ld.shared.f32 %f7, [%r8+1024];
    fma.rn.f32 %f2, %f2, %f3, %f6;
    fma.rn.f32 %f4, %f4, %f3, %f7;
    fma.rn.f32 %f5, %f5, %f3, %f6;
    fma.rn.f32 %f8, %f2, %f3, %f7;
    fma.rn.f32 %f9, %f4, %f3, %f8;
    fma.rn.f32 %f2, %f9, %f3, %f5;
    fma.rn.f32 %f4, %f8, %f3, %f2;
    fma.rn.f32 %f5, %f5, %f3, %f9;
    add.s32 %r7, %r7, 36;
    and.b32 %r7, %r7, 1020;
    xor.b32 %r9, %r7, %r6;
    shl.b32 %r10, %r9, 1;
    setp.gt.f32 %p1, %f5, %f2;
    selp.b32 %r11, %r9, %r10, %p1;
    add.s32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, %r1;
    @%p2 bra $loop;
    mov.u32 %r12, %ctaid.x;
    mov.u32 %r13, %ntid.x;
    mad.lo.s32 %r14, %r12, %r13, %r2;
    mul.wide.u32 %rd2, %r14, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.f32 [%rd3], %f5;
    ret;
}
"""
"""Two shared-memory gathers, eight fused multiply-adds, integer work, a select and the loop branch: 20
instructions.
"""


def speed(ctas: int, rounds: int, check: bool, engine: str = "numpy", repeats: int = 5) -> float:
    """Median thread-instructions per second."""
    kernel = load(LOOP)["loop"]
    out = np.zeros(ctas * 128, np.float32)
    kernel.simulate(out, 10, grid=ctas, block=128, check=check, engine=engine)
    found: list[float] = []
    for _ in range(repeats):
        start = time.process_time()
        report = kernel.simulate(out, rounds, grid=ctas, block=128, check=check, engine=engine)
        found.append(report.instructions / (time.process_time() - start))
    return sorted(found)[repeats // 2]


def seconds(kernel: Kernel, check: bool, repeats: int = 3) -> float:
    """Median CPU time of a launch on random arrays."""
    assert kernel.in_specs is not None
    assert kernel.out_specs is not None
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(tile.dims).astype(NUMPY_TYPES[tile.dtype.name]) for tile in kernel.in_specs]
    arrays += [np.zeros(tile.dims, NUMPY_TYPES[tile.dtype.name]) for tile in kernel.out_specs]
    return measure(lambda: pyptx.simulate(kernel, *arrays, check=check), repeats=repeats, warm_up=0).median


def tensor_cores() -> Table:
    """The arithmetic of matrix instructions: exact, and as the hardware sums, in native code and in NumPy."""
    rng = np.random.default_rng(1)

    def fp8(rows: int) -> np.ndarray:
        return rng.standard_normal((rows, 1024)).astype(ml_dtypes.float8_e4m3fn)

    factors = [rng.uniform(0.5, 2, 1024).astype(np.float32) for _ in range(2)]
    bf16 = [rng.standard_normal((1024, 1024)).astype(ml_dtypes.bfloat16) for _ in range(2)]
    scaled = [part for _ in range(2) for part in block_scaled_gemm.operand(512, 512, "mxfp8", rng)[:2]]
    cases: list[tuple[str, Kernel, list[np.ndarray]]] = [
        ("bf16 wgmma GEMM 1024^3", gemm_highperf.build(1024, 1024, 1024), bf16),
        ("FP8 wgmma GEMM 1024^3", fp8_gemm.build(1024, 1024, 1024, fast=True), [fp8(1024), fp8(1024), *factors]),
        ("MXFP8 mma GEMM 512^3", block_scaled_gemm.build(512, 512, 512, format="mxfp8"), scaled),
    ]
    table = Table("simulator: sums of tensor cores, unchecked", "seconds")
    hot = accumulate.HOT
    for name, kernel, operands in cases:
        assert kernel.out_specs is not None
        arrays = [
            *operands,
            *(np.zeros(tuple(map(int, tile.dims)), NUMPY_TYPES[tile.dtype.name]) for tile in kernel.out_specs),
        ]

        def run(arithmetic: str, kernel: Kernel = kernel, arrays: list[np.ndarray] = arrays) -> float:
            work = lambda: pyptx.simulate(kernel, *arrays, check=False, arithmetic=arithmetic)  # noqa: E731
            return measure(work, repeats=3, warm_up=1).median

        exact = run("exact")
        table.add(f"{name}, exact", exact)
        if available():
            table.add(f"{name}, hardware, llvmlite", run("hardware"), at_most=3 * exact, note="three times exact")
        accumulate.HOT = 1 << 62
        table.add(f"{name}, hardware, NumPy", run("hardware"), at_most=15 * exact, note="15 times exact")
        accumulate.HOT = hot
    return table


def main() -> None:
    table = Table("simulator: 20-instruction loop, 128 threads a CTA", "thread-instructions/s")
    for ctas, rounds, goal in ((1, 2000, 50e6), (16, 1000, 500e6), (256, 100, 500e6)):
        name = f"{ctas} CTA{'s' if ctas > 1 else ''}"
        table.add(name + ", NumPy", speed(ctas, rounds, check=False), note=f"{rounds} rounds")
        if available():
            table.add(name + ", jit", speed(ctas, rounds, False, "jit"), at_least=goal, note=f"{rounds} rounds")
        table.add(name + ", checked", speed(ctas, rounds, check=True), note=f"{rounds} rounds")
    table.print()
    table = Table("simulator: examples", "seconds")
    gemm = gemm_highperf.build(1024, 1024, 1024)
    plain = seconds(gemm, False)
    table.add("bf16 wgmma GEMM 1024x1024x1024", plain, at_most=5)
    table.add("the same, checked", seconds(gemm, True, repeats=1), at_most=10 * plain, note="ten times the row above")
    table.add("RMS norm 2048x8192", seconds(rms_norm.build(2048, 8192), False), at_most=5)
    table.print()
    tensor_cores().print()


if __name__ == "__main__":
    main()
