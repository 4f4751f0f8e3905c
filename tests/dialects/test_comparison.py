"""Comparison and selection."""

import pytest

from pyptx.dialects.ptx.syntax import SyntaxProblem
from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "setp.lt.and.s32 %p0|%p1, %r1, %r2, !%p2;",
        "setp.eq.u16 _|%p1, %h1, %h2;",
        "setp.nan.f16x2 %p0|%p1, %r1, %r2;",
        "setp.eq.f16 %p0, %h1, %h2;",
        "setp.hs.u32 %p0, %r1, 7;",
        "set.eq.ftz.f16.f32 %h0, %f1, 1.0;",
        "set.lt.and.u32.bf16 %r0, %h1, %h2, %p0;",
        "selp.b32 %r0, 0f3F800000, %r2, !%p0;",
        "slct.ftz.u64.f32 %d0, %d1, %d2, %f3;",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_100") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("setp.lo.s32 %p0, %r1, %r2;", ".lo"),
        ("setp.lt.b32 %p0, %r1, %r2;", ".lt"),
        ("setp.equ.s32 %p0, %r1, %r2;", ".equ"),
        ("setp.lt.and.s32 %p0, %r1, %r2;", "predicate c"),
        ("setp.lt.s32 %p0, %r1, %r2, %p1;", "only with .and"),
        ("setp.eq.f16 %p0|%p1, %h1, %h2;", "one result"),
        ("setp.eq.s32 %r0, %r1, %r2;", ".pred"),
        ("set.eq.u64.s32 %d0, %r1, %r2;", ".u64"),
        ("set.eq.ftz.bf16.f32 %h0, %f1, %f2;", ".ftz"),
        ("selp.b32 %r0, %r1, %r2, -%p0;", "'-'"),
        ("selp.f16 %h0, %h1, %h2, %p0;", ".f16"),
    ],
)
def test_illegal(text: str, reason: str):
    assert reason in refusal(text, target="sm_100")


def test_results_are_written():
    assert roles("setp.lt.s32 %p0|%p1, %r1, %r2;") == "=|=, $, $"


def test_only_one_half_of_a_pair_is_the_sink():
    with pytest.raises(SyntaxProblem, match="not both"):
        refusal("setp.eq.u16 _|_, %h1, %h2;")


def test_a_predicate_is_negated_once():
    with pytest.raises(SyntaxProblem, match="negated once"):
        refusal("selp.b32 %r0, %r1, %r2, !!%p0;")
