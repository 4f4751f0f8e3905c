"""cvt and cvt.pack."""

import pytest

from tests.dialects.judge import refusal


@pytest.mark.parametrize(
    "text",
    [
        "cvt.u64.u32 %d0, %r1;",
        "cvt.u8.s32 %r0, %r1;",
        "cvt.sat.s8.u32 %r0, %r1;",
        "cvt.rzi.ftz.s32.f32 %r0, %f1;",
        "cvt.rn.f16x2.f32 %r0, %f1, %f2;",
        "cvt.rn.satfinite.relu.e4m3x2.f32 %h0, %f1, %f2;",
        "cvt.rs.satfinite.e2m1x4.f32 %h0, {%f1,%f2,%f3,%f4}, %r5;",
        "cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2 %r0, %b1, %h2;",
        "cvt.rna.satfinite.tf32.f32 %r0, %f1;",
        "cvt.u32.u16 %r0, %tid.x;",
        "cvt.pack.sat.u4.s32.b32 %r0, %r1, %r2, %r3;",
        "cvt.f16.f16 %r0, %h1;",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_107a") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cvt.f32.s32 %f0, %r1;", "needs one of .rn .rz .rm .rp"),
        ("cvt.rn.s32.f32 %r0, %f1;", ""),
        ("cvt.sat.u64.u32 %d0, %r1;", "every value fits"),
        ("cvt.rn.f64.f32 %d0, %f1;", ""),
        ("cvt.f32.bf16 %d0, %h1;", ".f32"),
        ("cvt.bf16.s32 %h0, %r1;", "needs"),
        ("cvt.rn.bf16.u8 %h0, %h1;", ".u8"),
        ("cvt.rn.e4m3x2.f32 %h0, %f1, %f2;", ".satfinite"),
        ("cvt.rn.satfinite.e4m3x2.f32 %h0, %f1;", "3 operands"),
        ("cvt.u32.u64 %r0, %r1;", ".u64 or wider"),
        ("cvt.rs.f16x2.f32 %r0, %f1, %f2, 7;", "register"),
        ("cvt.s32.u16.pack %r0, %r1, %r2;", ".pack"),
        ("cvt.u32.u32 %r0, table;", "symbol"),
        ("cvt.pack.u8.s32.b32 %r0, %r1, %r2, %r3;", ".sat"),
    ],
)
def test_illegal(text: str, reason: str):
    assert reason in refusal(text, target="sm_107a")


@pytest.mark.parametrize("text", ["cvt.rn.s32.f32 %r0, %f1;", "cvt.rn.f64.f32 %d0, %f1;"])
def test_the_rounding_fits_the_types(text: str):
    assert refusal(text)


def test_eight_bit_floats_came_to_sm_89_later_than_to_sm_90():
    text = "cvt.rn.satfinite.e5m2x2.f32 %h0, %f1, %f2;"
    assert refusal(text, "7.8", "sm_90") == ""
    assert "PTX 8.1" in refusal(text, "7.8", "sm_89") or "sm_90" in refusal(text, "7.8", "sm_89")
    assert refusal(text, "8.1", "sm_89") == ""
