"""Logic and shifts."""

import pytest

from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "and.pred %p0, !%p1, 1;",
        "xor.b64 %d0, %d1, 1.0;",
        "not.b32 %f0, 0f3F800000;",
        "lop3.b32 %r0, %r1, %r2, %r3, 0x96;",
        "lop3.or.b32 _|%p0, %r1, %r2, %r3, 0x96, !%p1;",
        "shf.l.wrap.b32 %r0, %r1, %r2, 7;",
        "shr.s16 %h0, %h1, %r2;",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_90") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("and.b32 %r0, !%r1, %r2;", "'!'"),
        ("and.u32 %r0, %r1, %r2;", ".u32"),
        ("and.b32 %r0, %r1, 1.0;", "0f3F800000"),
        ("xor.b64 %d0, %d1, 0f3F800000;", "1.0"),
        ("lop3.b32 %r0, %r1, %r2, %r3, %r4;", "constant"),
        ("lop3.xor.b32 %r0|%p0, %r1, %r2, %r3, 1, %p1;", ".xor"),
        ("lop3.or.b32 %r0, %r1, %r2, %r3, 1, %p1;", "pair"),
        ("shf.b32.l.wrap %r0, %r1, %r2, %r3;", ".l must follow shf directly"),
        ("shl.b64 %d0, %d1, %d2;", "operand b must be .u32"),
        ("shl.s32 %r0, %r1, 1;", ".s32"),
        ("and.b32 %r0.x, %r1, %r2;", "no element .x"),
    ],
)
def test_illegal(text: str, reason: str):
    assert reason in refusal(text, target="sm_90")


def test_the_predicate_of_lop3_is_read():
    assert roles("lop3.and.b32 %r0|%p0, %r1, %r2, %r3, 1, %p1;") == "=|=, $, $, $, 1, $"
