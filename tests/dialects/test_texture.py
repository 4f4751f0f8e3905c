"""Textures and surfaces."""

import pytest

from benchmarks.fuzz_verdicts import asked
from pyptx.dialects.ptx.target import parse_version
from pyptx.tools.oracle import verdicts
from tests.dialects.judge import refusal, resolve, roles

D = "{%r0,%r1,%r2,%r3}"


@pytest.mark.parametrize(
    "text",
    [
        f"tex.2d.v4.f32.f32 {D}, [tx, {{%f0,%f1}}];",
        f"tex.1d.v4.f32.s32 {D}, [%d0, %r4];",
        f"tex.a2d.v4.f32.f32 {D}|%p0, [%d0, {{%r4,%f1,%f2,%f3}}];",
        f"tex.2d.v4.f32.f32 {D}, [%d0, %d1, {{%f0,%f1}}], {{%r4,%r5}}, %f2;",
        f"tex.2d.v4.f32.f32 {D}, [tx, {{1.0,2.0}}];",
        f"tex.2d.v4.f32.s32 {D}, [tx, {{32,%laneid}}];",
        f"tex.a1d.v4.f32.f32 {D}, [tx, {{1,%f1}}];",
        f"tex.a1d.v4.f32.f32 {D}, [tx, {{1,1.0}}];",
        "tex.2d.v2.f16x2.f32 {%r0,%r1}, [tx, {%f0,%f1}];",
        f"tex.level.cube.v4.u32.f32 {D}, [tx, {{%f0,%f1,%f2,%f3}}], 1.0;",
        f"tex.grad.a1d.v4.f32.f32 {D}, [tx, {{%r4,%f1}}], {{%f2}}, {{%f3}};",
        f"tld4.g.2d.v4.f32.f32 {D}, [tx, {{%f0,%f1}}];",
        "txq.level.width.b32 %r0, [tx], 2;",
        "suld.b.2d.ca.v2.b32.clamp {%r0,_}, [su, {%r2,%r3}];",
        "sust.p.1d.b32.zero [%d0, {%r2}], %f0;",
        "sured.b.min.1d.s64.trap [su, {%r2}], %d1;",
        "suq.memory_layout.b32 %r0, [su];",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"tex.cube.v4.f32.s32 {D}, [tx, {{%r4,%r5,%r6,%r7}}];", ".cube does not go with .f32.s32"),
        (f"tex.2d.v4.f32.f32 {D}, [tx, {{%f0}}];", "operand c must have 2 elements"),
        (f"tex.2d.v4.f32.f32 {D}, [%r9, {{%f0,%f1}}];", "the register is .b32"),
        (f"tex.2d.v4.f32.f32 {D}, [tx, {{32,33}}];", "needs a floating-point constant"),
        (f"tex.2d.v4.f32.f32 {D}, [tx, {{%p0,%p1}}];", "must be .f32, and the register is .pred"),
        (f"tex.2d.v4.f32.f32 {D}, [tx, {{32,%f1}}];", "of one type, not int, .f32"),
        (f"tex.a1d.v4.f32.f32 {D}, [tx, {{%f0,%f1}}];", "the index of an array"),
        (f"tex.grad.3d.v4.f32.f32 {D}, [tx, {{%f0,%f1,%f2,%laneid}}], {D}, {D};", "not a special register"),
        (f"tex.2d.v4.f32.f32 {D}, [tx+4, {{%f0,%f1}}];", "no offset"),
        (f"tex.3d.v4.f32.f32 {D}, [tx, {{%f0,%f1,%f2,%f3}}], %r4;", ""),
        ("tex.2d.f32.f32 %r0, [tx, {%f0,%f1}];", "needs .v4"),
        ("txq.level.array_size.b32 %r0, [tx], 2;", ""),
        ("suld.b.2d.u32.trap %r0, [su, {%r2,%r3}];", "no modifier .u32"),
        ("suld.b.2d.b32.trap %r0, [su, {%r2}];", "2 elements"),
        ("sured.b.add.1d.s64.trap [su, {%r2}], %d1;", ""),
    ],
)
def test_illegal(text: str, reason: str):
    said = refusal(text)
    assert said
    assert reason in said


def test_texture_mode():
    """A .samplerref operand belongs to independent mode, a texture without a sampler to unified mode."""
    separate = resolve(f"tex.2d.v4.f32.f32 {D}, [tx, smp, {{%f0,%f1}}];")
    unified = resolve(f"tex.2d.v4.f32.f32 {D}, [tx, {{%f0,%f1}}];")
    version, independent = parse_version("9.0"), ("texmode_independent",)
    assert "texmode_independent" in separate.verdict(version, "sm_80").message
    assert separate.verdict(version, "sm_80", independent) is None
    assert unified.verdict(version, "sm_80") is None
    assert "texmode_independent" in unified.verdict(version, "sm_80", independent).message


def test_roles():
    assert roles(f"tex.2d.v4.f32.f32 {D}|%p0, [%d0, {{%f0,%f1}}];") == "{=, =, =, =}|=, [$, {$, $}]"
    assert roles("sust.b.1d.b32.trap [%d0, {%r2}], %r1;") == "[$, {$}], $"


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        (f"tex.3d.v4.f32.f32 {D}, [tx, %d2, {{%r6,%r3,%r3,%r5}}];", True),
        (f"tex.cube.v4.f32.f32 {D}, [tx, %d2, {{%r6,%r3,%r3,%r5}}];", False),
        (f"tex.level.3d.v4.f32.f32 {D}|%p2, [tx, %d2, {{%r6,%r3,%r3,%r5}}], %r7;", False),
        (f"tex.level.cube.v4.f32.f32 {D}, [tx, %d2, {{%r6,%r3,%r3,%r5}}], %r7;", True),
        (f"tex.level.2d.v4.f32.f32 {D}, [tx, %d2, {{%r6,%r3}}], %r7, {{%r1,%r2}};", False),
        (f"tex.grad.2d.v4.f32.f32 {D}, [tx, %d2, {{%r6,%r3}}], {{%r1,%r2}}, {{%r1,%r2}};", True),
        (f"tex.grad.a2d.v4.f32.f32 {D}, [tx, %d2, {{%r6,%r3,%r3,%r5}}], {{%r1,%r2}}, {{%r1,%r2}};", False),
        (f"tld4.r.cube.v4.f32.f32 {D}, [tx, %d2, {{%r6,%r3,%r3,%r5}}];", False),
    ],
)
def test_a_sampler_in_a_register(text: str, legal: bool):
    """In unified mode it goes with fewer geometries than in independent mode, which takes them all."""
    assert (refusal(text) == "") == legal
    assert resolve(text).verdict(parse_version("9.0"), "sm_90", ("texmode_independent",)) is None
    assert (verdicts([text], "9.5", "sm_100a") == [[]]) == legal


def test_depth_is_of_the_type_of_the_coordinates():
    assert refusal(f"tex.2d.v4.f32.s32 {D}, [tx, {{%r1,%r2}}], %r3;") == ""
    assert "the register is .f32" in refusal(f"tex.2d.v4.f32.s32 {D}, [tx, {{%r1,%r2}}], %f3;")


@pytest.mark.parametrize(("coordinate", "legal"), [("%f1", True), ("%r1", True), ("{%u1}", True), ("%u1", False)])
def test_a_float_coordinate_outside_of_braces(coordinate: str, legal: bool):
    text = f"tex.1d.v4.f32.f32 {D}, [tx, {coordinate}];"
    assert (asked([text], "9.5", "sm_90") == [[]]) == legal
    assert ("outside of braces is .f32 or .b32, not .u32" in refusal(text)) == (not legal)
    assert legal == (refusal(text) == "")


@pytest.mark.parametrize(
    ("result", "legal"), [("{%r1, %r2}|%p0", True), ("{%r1, %p2}", False), ("{%p1, %r2}|%p0", False)]
)
def test_pairs_of_halves_do_not_go_into_predicates(result: str, legal: bool):
    text = f"tex.2d.v2.f16x2.f32 {result}, [tx, {{%f1, %f2}}];"
    assert (asked([text], "9.5", "sm_90") == [[]]) == legal
    assert ("not into predicates" in refusal(text)) == (not legal)
