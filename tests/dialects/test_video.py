"""Video instructions."""

import pytest

from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "vadd.s32.u32.s32.sat %r0, %r1.b0, %r2.h1;",
        "vadd.u32.u32.u32.max %r0, %r1, %r2, %r3;",
        "vsub.s32.s32.s32 %r0.h1, %r1, %r2, %r3;",
        "vmad.s32.s32.s32.shr7 %r0, -%r1.h0, %r2, %r3;",
        "vshl.u32.u32.u32.wrap %r0, %r1, 5;",
        "vmad.s32.s32.s32 %r0, %r1, %r2, table+4;",
        "vadd2.s32.s32.s32 %r0.h10, %r1.h32, %r2, %r3;",
        "vset4.u32.u32.lt.add %r0.b31, %r1.b7654, %r2, %r3;",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_107a") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("vadd.u32.u32.u32.add %r0.h0, %r1, %r2, %r3;", ".h0"),
        ("vadd.u32.u32.u32 %r0.h0, %r1, %r2;", ""),
        ("vadd.u32.u32.u32 %r0, %r1.b4, %r2;", ".b4"),
        ("vadd.u32.u32.u32 %r0, %r1, %r2, %r3.h0;", ".h0"),
        ("vmad.s32.s32.s32 %r0, -%r1, %r2, -%r3;", "negates"),
        ("vmad.s32.s32.s32.po %r0, -%r1, %r2, %r3;", ".po"),
        ("vadd.u32.u32.u32 %r0, -%r1, %r2;", "'-'"),
        ("vshl.u32.u32.u32 %r0, %r1, %r2;", "needs one of .clamp .wrap"),
        ("vset2.s32.s32.lo %r0, %r1, %r2, %r3;", ""),
        ("vadd2.u32.u32.u32 %r0, %r1, %r2;", "4 operands"),
        ("vadd2.u32.u32.u32.sat.add %r0, %r1, %r2, %r3;", ""),
        ("vadd.u32.u32.u32 %r0, %r1, table+4;", "operand b takes no address plus an offset"),
        ("vmad.s32.s32.s32 %r0, %r1, %r2, -table+4;", "an address cannot be negated"),
        ("vadd4.u32.u32.u32 %r0.b13, %r1, %r2, %r3;", ".b13"),
    ],
)
def test_illegal(text: str, reason: str):
    assert reason in refusal(text, target="sm_107a")


def test_merging_writes_the_whole_register():
    assert roles("vadd.u32.u32.u32 %r0.h0, %r1, %r2, %r3;") == "=.h0, $, $, $"
