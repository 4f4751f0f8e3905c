"""Floating-point functions."""

import pytest

from tests.dialects.judge import refusal


@pytest.mark.parametrize(
    "text",
    [
        "fma.rn.relu.bf16x2 %r0, %r1, %r2, %r3;",
        "fma.rz.sat.f32.f16 %f0, %h1, %h2, %f3;",
        "rcp.approx.ftz.f64 %d0, %d1;",
        "sqrt.f32.rn %f0, 2.0;",
        "ex2.approx.ftz.bf16 %h0, %h1;",
        "testp.subnormal.f64 %p0, %d1;",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_107a") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fma.f32 %f0, %f1, %f2, %f3;", "needs one of .rn .rz .rm .rp"),
        ("fma.rz.f16 %h0, %h1, %h2, %h3;", ".rz"),
        ("rcp.approx.f64 %d0, %d1;", ""),
        ("sqrt.rn.rz.f32 %f0, %f1;", ".rn and .rz exclude each other"),
        ("ex2.approx.bf16 %h0, %h1;", ".ftz"),
        ("tanh.approx.ftz.f32 %f0, %f1;", ".ftz"),
        ("testp.finite.f32 %r0, %f1;", "a .pred register"),
        ("sin.f32 %f0, %f1;", "needs .approx"),
    ],
)
def test_illegal(text: str, reason: str):
    assert reason in refusal(text, target="sm_107a")


def test_a_refusal_has_a_reason():
    assert refusal("rcp.approx.f64 %d0, %d1;")
