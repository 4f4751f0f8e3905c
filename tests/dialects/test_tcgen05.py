"""Blackwell's tensor cores."""

import pytest

from pyptx.dialects.ptx.instruction import OPCODES
from tests.dialects.judge import refusal, roles

MMA = "tcgen05.mma.cta_group::1.kind::f16"


@pytest.mark.parametrize(
    "text",
    [
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], 512;",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, %r1;",
        "tcgen05.ld.sync.aligned.16x128b.x2.pack::16b.b32 {%r0,%r1,%r2,%r3}, [%r9];",
        "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%f0}, [%r9], 16;",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9+4], {%r0,%r1};",
        MMA + " [%r0], %d0, %d1, %r1, %p0;",
        MMA + ".collector::a::lastuse.ashift [%r0], [%r2], %d1, %r1, !%p0;",
        MMA + " [%r0], [%r2], %d1, %r1, {%r3,%r4,%r5,%r6}, 1, 8;",
        "tcgen05.mma.cta_group::1.kind::mxf4.sp.block_scale.block32 [%r0], %d0, %d1, [%r2], %r1, [%r3], [%r4], %p0;",
        "tcgen05.mma.ws.cta_group::1.kind::tf32.collector::b3::fill [%r0], %d0, %d1, %r1, %p0, %d2;",
        "tcgen05.cp.cta_group::1.64x128b.warpx2::01_23.b8x16.b4x16_p64 [%r0], %d0;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r0], %h1;",
        "tcgen05.wait::ld.sync.aligned;",
        "tcgen05.fence::before_thread_sync;",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r0], 48;", "one of 32, 64, 128, 256, 512"),
        ("tcgen05.ld.sync.aligned.16x256b.x2.b32 {%r0,%r1}, [%r9];", "8 elements"),
        (
            "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r0}, [%r9];",
            ".x64 does not go with .16x256b, which takes one of .x1",
        ),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%d0];", "the register is .b64"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [table];", "must be a register"),
        ("tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9], {%r0,%p1};", "predicate"),
        (MMA + " [%r0], %r2, %d1, %r1, %p0;", ""),
        (MMA + " [%r0], %d0, %d1, %r1, %p0, 16;", "0..15"),
        (MMA + " [%r0], %d0, %d1, %r1, {%r3,%r4}, %p0;", "4 elements"),
        (MMA + ".ashift [%r0], %d0, %d1, %r1, %p0;", "address in brackets"),
        (MMA + ".collector::a::fill.ashift [%r0], [%r2], %d1, %r1, %p0;", "does not go"),
        ("tcgen05.cp.cta_group::1.64x128b [%r0], %d0;", "needs"),
    ],
)
def test_illegal(text: str, reason: str):
    said = refusal(text)
    assert said
    assert reason in said


def test_availability():
    assert "sm_100a" in refusal("tcgen05.wait::ld.sync.aligned;", "9.5", "sm_120a")
    shift = "tcgen05.shift.cta_group::1.down [%r0];"
    assert refusal(shift, "9.5", "sm_100a") == ""
    assert "sm_100a" in refusal(shift, "9.5", "sm_100f")
    red = "tcgen05.ld.red.sync.aligned.32x32b.x2.min.abs.NaN.f32 {%r0,%r1}, %f2, [%r9];"
    assert refusal(red, "9.0", "sm_103a") == ""
    assert "sm_103a" in refusal(red, "9.0", "sm_100a")
    kept = "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.max.abs.sp::2:4.f32.b2 {%r0}, {%r1,%r2}, [%r9];"
    assert refusal(kept, "9.4", "sm_107a") == ""


def test_registers_in_flight():
    assert roles("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0,%r1}, [%r9];") == "{=, =}, [$]"
    assert OPCODES["tcgen05.ld"].in_flight == OPCODES["tcgen05.wait::ld"].waits_for == "tcgen05.ld"
    assert OPCODES["tcgen05.st"].starts == OPCODES["tcgen05.wait::st"].waits_for == "tcgen05.st"
    assert OPCODES["tcgen05.st"].in_flight == ""  # its registers are read when it is issued
