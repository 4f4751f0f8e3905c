"""mov, prmt and the special registers."""

import pytest

from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "mov.u32 %r0, %tid.x;",
        "mov.u16 %h0, %ntid.y;",
        "mov.u64 %d0, %clock64;",
        "mov.v4.u32 {%r0,_,%r2,%r3}, %ctaid;",
        "mov.pred %p0, !%is_explicit_cluster;",
        "mov.u64 %d0, table+16;",
        "mov.u64 %d0, table+-16;",
        "mov.b32 %f0, 0f7F800000;",
        "mov.b64 {%r0,_}, %d1;",
        "mov.b128 {%d0,%d1}, %q1;",
        "mov.b64 %d0, {%r1,0f3F800000};",
        "mov.b32 {%h0,%h1}, %laneid;",
        "mov.v2.f32 {%f0,%f1}, {%f2,1.0};",
        "prmt.b32.f4e %r0, %r1, %r2, %r3;",
        "mov.b64 %d0, {%laneid,1};",
        "mov.b128 %q0, {%r1,%clock,%r2,0f3F800000};",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_90") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mov.u32 %r0, %clock64;", "%clock64 is read as .u64"),
        ("mov.u16 %h0, %laneid;", ".u32"),
        ("mov.u32 %r0, %tid;", "%tid.x"),
        ("mov.u32 %r0, %laneid.x;", "no elements"),
        ("mov.f32 %f0, %laneid;", "special register"),
        ("mov.b64 %d0, {%tid.x,1};", "a constant and %tid.x side by side"),
        ("mov.u64 %d0, table-16;", "+-16"),
        ("mov.u32 {%h0,%h1}, %r1;", ""),
        ("mov.b64 {_,_}, %d1;", "sink"),
        ("mov.b64 %d0, {%r1,%h2};", "one type"),
        ("mov.b64 {%r0,%r1}, {%r2,%r3};", ""),
        ("mov.v4.b64 {%d0,%d1,%d2,%d3}, {%d0,%d1,%d2,%d3};", ""),
        ("mov.f16 %h0, %h1;", ".f16"),
        ("mov.v2.b32 {%r0,%r1}, %d1;", "vector"),
        ("mov.f32 %f0, 1;", "floating-point"),
        ("mov.u32 %r0, 1.0;", "integer constant"),
    ],
)
def test_illegal(text: str, reason: str):
    assert reason in refusal(text, target="sm_90")


@pytest.mark.parametrize("text", ["mov.u32 {%h0,%h1}, %r1;", "mov.b64 {%r0,%r1}, {%r2,%r3};"])
def test_packing_needs_one_bit_type_and_one_vector(text: str):
    assert refusal(text)


def test_special_registers_are_from_some_version_on():
    assert "%clusterid needs target sm_90" in refusal("mov.u32 %r0, %clusterid.x;", target="sm_80")
    assert "PTX 8.0" in refusal("mov.u64 %d0, %current_graph_exec;", version="7.8", target="sm_80")


def test_vector_roles():
    assert roles("mov.b64 {%r0,_}, %d1;") == "{=, _}, $"
