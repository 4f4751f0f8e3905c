"""Vectors of one element, masks that name nobody, and instructions that no target has."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.diagnostics import PTXError, SimulationError
from pyptx.simulator import load

from .assembling import assembled

ENGINES = (None, "jit")

HEAD = """.version 9.5
.target {target}
.address_size 64
.visible .entry k(.param .u64 out) {{
    .reg .b16 %h<4>; .reg .b32 %r<50>; .reg .b64 %d<5>; .reg .f32 %f<9>; .reg .pred %p<3>;
    ld.param.u64 %d0, [out]; mov.u32 %r0, %laneid;
"""


def kernel(body: str, target: str = "sm_90a"):
    return assembled(HEAD.format(target=target) + body + "\nret; }")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("mov.b64 %d3, 0x700000009; mov.b64 {%d4}, %d3; st.global.b64 [%d0], %d4;", [9, 7]),
        ("mov.b64 %d3, 0x700000009; mov.b64 %d4, {%d3}; st.global.b64 [%d0], {%d4};", [9, 7]),
        ("mov.b32 %r1, 5; @!%p0 mov.b32 {%r2}, %r1; st.global.b32 [%d0], %r2;", [5, 0]),
    ],
)
def test_vectors_of_one_element(body: str, wanted: list[int]) -> None:
    out = np.zeros(2, np.uint32)
    kernel("setp.ne.u32 %p0, %r0, %r0; " + body).simulate(out, grid=1, block=1)
    assert out.tolist() == wanted


SCALED = (
    "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 "
    "{%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1}, "
)
SPARSE = (
    "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 "
    "{%f2, %f3, %f4, %f5}, {%r2, %r2, %r2, %r2}, {%r2, %r2, %r2, %r2}, {%f1, %f1, %f1, %f1}, "
)


@pytest.mark.parametrize(
    ("instruction", "wanted"),
    [
        # 32 products of 1 * 1 and 2 ** (128 - 127) twice
        (SCALED + "%r9, {0, 0}, %r9, {0, 0};", 128.0),
        (SCALED + "{%r9}, {0, 0}, {%r9}, {0, 0};", 128.0),
        # of four, two are kept
        (SPARSE + "%r8, 0, %r9, {0, 0}, %r9, {0, 0};", 256.0),
        (SPARSE + "{%r8}, 0, {%r9}, {0, 0}, {%r9}, {0, 0};", 256.0),
    ],
)
def test_scale_factors_in_braces(instruction: str, wanted: float) -> None:
    """CUTLASS writes `{%sa}, {0, 0}`; PTX ISA 9.7.16.5.14 has the register alone."""
    body = "mov.u32 %r1, 0x38383838; mov.u32 %r2, 0x22222222; mov.f32 %f1, 0f00000000; "
    body += "mov.u32 %r9, 0x80808080; mov.u32 %r8, 0x44444444; "
    out = np.zeros(32, np.float32)
    place = "mad.wide.u32 %d0, %r0, 4, %d0; st.global.f32 [%d0], %f2;"
    kernel(body + instruction + place, "sm_120a").simulate(out, grid=1, block=32)
    assert out.tolist() == [wanted] * 32


EMPTY = [
    *(f"redux.sync.{op}.{kind} %r4, %r0, " for op, kind in (
        ("add", "u32"), ("min", "u32"), ("max", "s32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"))),
    "shfl.sync.idx.b32 %r4, %r0, 0, 31, ", "shfl.sync.up.b32 %r4, %r0, 1, 0, ", "vote.sync.any.pred %p1, %p0, ",
    "vote.sync.all.pred %p1, %p0, ", "vote.sync.uni.pred %p1, %p0, ", "vote.sync.ballot.b32 %r4, %p0, ",
    "match.any.sync.b32 %r4, %r0, ", "match.all.sync.b32 %r4|%p1, %r0, ", "bar.warp.sync ", "elect.sync %r4|%p1, ",
]  # fmt: skip


@pytest.mark.parametrize("instruction", EMPTY)
@pytest.mark.parametrize("mask", ["0", "%r9"])
def test_a_mask_that_names_nobody_is_a_finding(instruction: str, mask: str) -> None:
    """The result is undefined (PTX ISA 9.7.15: "The behavior is undefined if the executing thread is not in the membermask")."""
    out = np.zeros(1, np.uint32)
    body = f"mov.u32 %r9, 0; mov.u32 %r4, 1; setp.eq.u32 %p0, %r0, 0; {instruction}{mask}; st.global.u32 [%d0], %r4;"
    found = kernel(body).simulate(out, grid=1, block=32, engine="numpy").findings
    if found:  # none on the second engine, which does not check
        assert any("does not contain it" in str(f) for f in found)


def test_a_reduction_over_floats_of_nobody() -> None:
    out = np.zeros(1, np.uint32)
    body = "mov.f32 %f1, 0f3F800000; redux.sync.max.NaN.f32 %f2, %f1, 0; st.global.f32 [%d0], %f2;"
    kernel(body, "sm_100a").simulate(out, grid=1, block=32)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (f"st.global.u32 [%d0], {{{', '.join(['%r0'] * 400)}}};", "must have 1 element, not 400"),
        (f"mov.b64 %d3, {{{', '.join(['%r0'] * 40)}}};", "must have 2 elements, not 40"),
        ("mov.b64 %d3, {};", "elements"),
        ("add.u32 %r1, %d3, %r2;", "must be .u32"),
        ("add.u32 %r1, %p0, %r2;", "must be .u32"),
        ("redux.sync.add.u32 %r1, %r2, %d3;", "must be"),
        ("ld.global.v4.u32 {%r0, %r1}, [%d0];", "must have 4 elements"),
    ],
)
def test_illegal_instructions_are_refused_at_their_place(instruction: str, message: str) -> None:
    source = HEAD.format(target="sm_90a") + instruction + "\nret; }"
    try:
        loaded = load(source)
    except PTXError as error:
        assert ":7:" in str(error)
        return
    with pytest.raises(SimulationError, match=message) as caught:
        loaded["k"].simulate(np.zeros(8, np.uint32), grid=1, block=1)
    assert caught.value.diagnostics[0].line == 7
