"""`arithmetic="hardware"`: matrix instructions sum as the tensor cores of an architecture do, as `numerics.dot` has it."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import numerics
from pyptx.diagnostics import SimulationError
from pyptx.simulator import load

MMA = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd) {
.reg .b32 %r<9>; .reg .b32 %t<4>; .reg .f32 %f<5>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pb]; ld.param.u64 %rd3, [pd];
mov.u32 %t0, %laneid;
mul.wide.u32 %rd4, %t0, 16; mul.wide.u32 %rd5, %t0, 8;
add.s64 %rd1, %rd1, %rd4; add.s64 %rd2, %rd2, %rd5; add.s64 %rd3, %rd3, %rd4;
ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd1];
ld.global.v2.u32 {%r4, %r5}, [%rd2];
ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd3];
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};
st.global.v4.f32 [%rd3], {%f0, %f1, %f2, %f3};
ret;
}
"""


def fragments(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A (16, 16), B (16, 8), C (16, 8) as each thread has them (PTX ISA 9.7.16.5.8)."""
    lane = np.arange(32)
    row, pair = lane // 4, 2 * (lane % 4)
    of_a = [a[row + 8 * (i // 2 % 2), pair + i % 2 + 8 * (i // 4)] for i in range(8)]
    of_b = [b[pair + i % 2 + 8 * (i // 2), row] for i in range(4)]
    of_c = [c[row + 8 * (i // 2), pair + i % 2] for i in range(4)]
    return tuple(np.ascontiguousarray(np.stack(x, axis=1)) for x in (of_a, of_b, of_c))  # type: ignore[return-value]


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(4)
    a, b = (random.standard_normal(s) * 2.0 ** random.integers(-6, 6, s) for s in ((16, 16), (16, 8)))
    c = random.standard_normal((16, 8)).astype(np.float32)
    a[0, :2], b[:2, 0] = [np.inf, 0], [0, 1]  # a NaN
    return a.astype(np.float16), b.astype(np.float16), c


@pytest.mark.parametrize("arch", [None, "sm_80", "sm_90", "sm_120"])
def test_mma(arch: str | None) -> None:
    a, b, c = operands()
    of_a, of_b, d = fragments(a, b, c)
    load(MMA)["k"].simulate(of_a, of_b, d, grid=1, block=32, arithmetic="hardware", arch=arch)
    want = numerics.dot(a, b, c, kind="mma.m16n8k16.f32.f16.f16.f32", arch=arch or "sm_80")
    np.testing.assert_array_equal(d.view(np.uint32), fragments(a, b, want)[2].view(np.uint32))
    assert want.view(np.uint32)[0, 0] == 0x7FFFFFFF


def test_architectures_differ() -> None:
    """Ampere sums eight products at a time, Hopper sixteen."""
    a, b, c = operands()
    sums = [numerics.dot(a, b, c, kind="mma.m16n8k16.f32.f16.f16.f32", arch=x) for x in ("sm_80", "sm_90")]
    assert (sums[0].view(np.uint32) != sums[1].view(np.uint32)).any()


def test_an_architecture_without_the_instruction() -> None:
    of_a, of_b, d = fragments(*operands())
    with pytest.raises(SimulationError, match="needs target sm_80 or newer, not sm_60"):
        load(MMA)["k"].simulate(of_a, of_b, d, grid=1, block=32, arithmetic="hardware", arch="sm_60")
    with pytest.raises(SimulationError, match="unknown target sm_91"):
        load(MMA)["k"].simulate(of_a, of_b, d, grid=1, block=32, arithmetic="hardware", arch="sm_91")
