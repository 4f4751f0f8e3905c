"""Integer, mixed-type and extended-precision arithmetic."""

import pytest

from tests.dialects.judge import refusal


@pytest.mark.parametrize(
    "text",
    [
        "add.s32 %r0, %r1, 0xFFU;",
        "add.s32.cc %r0, %r1, %r2;",
        "add.f32.bf16 %r0, %h1, %r2;",
        "add.u64 %d0, %d1, table+8;",
        "sub.sat.s8x4 %r0, %r1, %r2;",
        "mul.wide.s16 %r0, %h1, -3;",
        "mad.hi.sat.s32 %r0, %r1, %r2, %r3;",
        "madc.lo.cc.u64 %d0, %d1, %d2, %d3;",
        "div.full.ftz.f32 %f0, %f1, 2.0;",
        "min.NaN.abs.f32 %f0, %f1, %f2, %f3;",
        "bfe.s64 %d0, %d1, 8, %r3;",
        "dp2a.hi.s32.u32 %r0, %r1, %r2, %r3;",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_107a") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mul.s32.lo %r0, %r1, %r2;", ".lo must follow mul directly"),
        ("mul.s32 %r0, %r1, %r2;", "needs"),
        ("mad.lo.sat.s32 %r0, %r1, %r2, %r3;", ".sat"),
        ("add.sat.u64 %d0, %d1, %d2;", ".sat"),
        ("add.s32 %r0, %r1, %d2;", "operand b must be .s32, and the register is .b64"),
        ("add.s32 %r0, %r1, %f2;", ".f32"),
        ("add.f32 %f0, %f1, 1;", "1.0 or 0f3F800000"),
        ("add.f16 %h0, %h1, 1.0;", "register, not a constant"),
        ("add.u8x4 %r0, %r1, %u2;", ".u8x4"),
        ("add.s32 5, %r1, %r2;", "written"),
        ("add.s32 _, %r1, %r2;", "sink"),
        ("add.s32 %r0, %r1, %tid.x;", "special register"),
        ("add.s32 %r0, %r1;", "3 operands"),
        ("add.u64 %d0, %d1, table;", "symbol"),
        ("div.f32 %f0, %f1, %f2;", "needs"),
        ("min.xorsign.f32 %f0, %f1, %f2;", "abs"),
        ("bfe.u32 %r0, %r1, 256, %r3;", "0..255"),
        ("bfe.u64 %d0, %d1, %d2, %r3;", "operand b must be .u32"),
    ],
)
def test_illegal(text: str, reason: str):
    assert reason in refusal(text, target="sm_107a")


def test_availability():
    assert "sm_120a" in refusal("add.u8x4 %r0, %r1, %r2;", target="sm_100a")
    assert "8.6" in refusal("add.f32x2 %d0, %d1, %d2;", version="8.5", target="sm_100")
    assert "removed after PTX 3.1" in refusal("mad.f32 %f0, %f1, %f2, %f3;", target="sm_90")
