"""A register plus a constant as a source, which ptxas takes and the manual does not have.

The verdicts are those of ptxas 13.5 for sm_100a; the values follow from its SASS (an integer addition before the instruction).
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser
from xdsl.printer import Printer

import pyptx
from pyptx.dialects.ptx.dialect import PTX
from pyptx.passes.registry import PASSES
from tests.codegen.programs import printed

from .judge import refusal, roles

TAKEN = """
st.global.u32 [%d0], %r0 + 1;
st.global.u32 [%d0], %r0 + +1;
st.global.u32 [%d0], %r0 + -(1+2);
st.global.u32 [%d0], %r0 + 1?2:3;
st.global.u32 [%d0], %r0 + ~1;
st.global.u32 [%d0], %r0 + (.s64)1;
st.global.u32 [%d0], %r0 + WARP_SZ;
add.u32 %r0, %r0+1, %r1+2;
add.f32 %r0, %r0+1, %r1;
setp.ne.and.u32 %p0, %r0, 1, %p1+1;
setp.eq.u32 %p0|%p1, %r1+1, %r2;
shfl.sync.bfly.b32 %r0|%p0, %r1+1, 1, 31, -1;
vadd.u32.u32.u32.add %r0, %r1, %r2, %r3+1;
bar.sync %r0+1;
bar.sync 0, %r0+1;
mbarrier.arrive.shared.b64 %d0, [%r0], %r1+1;
st.b128 [%d0], %q0+1;
mov.b64 {%r0,%r1}, %d0+1;
atom.global.cas.b32 %r0, [%d0], %r1+1, %r2+1;
ld.global.L2::cache_hint.u32 %r0, [%d0], %d1+1;
cvt.rn.bf16x2.f32 %r0, %r1+1, %r2+1;
cp.async.ca.shared.global [%r0],[%d0],16,%r1+1;
tcgen05.cp.cta_group::1.128x256b [%r0], %d0+1;
lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x1, %p1+1;
st.global.u8 [%d0], %b0+1;
add.f16 %h0, %h1+1, %h2;
mapa.u32 %r0, %r1+1, %r2+1;
""".strip().splitlines()

REFUSED = """
st.global.u32 [%d0], %r0 + 1.0;
st.global.u32 [%d0], %r0 + 0f3F800000;
st.global.u32 [%d0], %r0 + 1, 0;
add.u32 %r0+1, %r0, 1;
ld.global.u32 %r0+1, [%d0];
vadd.u32.u32.u32 %r0, %r1+1, %r2;
mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%r0,%r1},%r2+1,%r3,{%r4,%r5};
lop3.or.b32 %r0|%p0, %r1, %r2, %r3, %r4+1, %p1;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r0], %r1+1;
st.global.u32 [%d0], %p1+1;
setmaxnreg.inc.sync.aligned.u32 %r0+1;
""".strip().splitlines()

NO_OPERANDS = """
st.global.u32 [%d0], %r0 - 1;
st.global.u32 [%d0], %r0 * 2;
st.global.u32 [%d0], 1 + %r0;
st.global.u32 [%d0], %r0 + %r1;
st.global.u32 [%d0], (%r0 + 1);
st.global.v2.u32 [%d0], {%r0 + 1, %r1};
mov.b64 %d0, {%r0+1, %r1};
add.u32 %r0, -%r0+1, %r1;
setp.ne.and.u32 %p0, %r0, 1, !%p1+1;
call fn2, (%r0+1);
mov.u32 %r0, %tid.x+1;
""".strip().splitlines()


@pytest.mark.parametrize("text", TAKEN)
def test_what_ptxas_takes(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize("text", REFUSED)
def test_what_ptxas_refuses(text: str):
    assert refusal(text) != ""


@pytest.mark.parametrize("text", NO_OPERANDS)
def test_what_is_no_operand_list(text: str):
    found = pyptx.diagnose(_kernel(text))
    assert [d.severity for d in found[:1]] == ["error"]


def test_the_register_is_read():
    assert roles("add.u32 %r0, %r1+1, %r2 + -8;") == "=, $+1, $+-8"


def _kernel(*body: str) -> str:
    lines = "\n\t".join(body)
    return f""".version 9.5
.target sm_90a
.address_size 64

.visible .entry k(
	.param .u64 p,
	.param .u64 b
)
{{
	.reg .pred %p<3>;
	.reg .b16 %h<3>;
	.reg .b32 %r<9>;
	.reg .f32 %f<3>;
	.reg .b64 %d<3>;

	ld.param.b64 %d0, [p];
	ld.param.b64 %d1, [b];
	mov.u32 %r0, %tid.x;
	{lines}
	ret;
}}
"""


def _run(text: str, dtype: Any, first: int = 0) -> list[int]:
    out = np.zeros(2, dtype)
    pyptx.load(text)["k"].simulate(out, np.uint64(first), grid=1, block=1)
    return [int(x) for x in out]


@pytest.mark.parametrize(
    ("body", "dtype", "first", "expected"),
    [
        (["st.global.u32 [%d0], %r0 + 1;"], np.uint32, 0, 1),
        (["st.global.u32 [%d0], %r0 + 4294967298;"], np.uint32, 0, 2),
        (["st.global.u32 [%d0], %r0 + 1<<2;"], np.uint32, 0, 4),
        (["st.global.u64 [%d0], %d1 + 0xffffffff;"], np.uint64, 3, 3 + 0xFFFFFFFF),
        (["st.global.u64 [%d0], %d1 + -4;"], np.uint64, 3, 2**64 - 1),
        (["cvt.u16.u64 %h0, %d1;", "cvt.u32.u16 %r1, %h0 + 1;", "st.global.u32 [%d0], %r1;"], np.uint32, 0xFFFF, 0),
        (["mul.wide.u32 %d2, %r0 + -1, 3;", "st.global.u64 [%d0], %d2;"], np.uint64, 0, 3 * (2**32 - 1)),
        # the bits of the register are added to, whatever the instruction takes them for
        (["mov.b32 %r1, 0f3F800000;", "add.f32 %r2, %r1 + 0x800000, %r1;", "st.global.b32 [%d0], %r2;"],
         np.uint32, 0, int(np.float32(3).view(np.uint32))),
        (["setp.lt.u32 %p0, %r0, 1;", "@!%p0 st.global.u32 [%d0], %r0 + 7;"], np.uint32, 0, 0),
    ],
)  # fmt: skip
def test_values(body: list[str], dtype: Any, first: int, expected: int):
    assert _run(_kernel(*body), dtype, first)[0] == expected


@pytest.mark.parametrize("body", ["st.global.f32 [%d0], %f0 + 1;", "selp.u32 %r1, 1, 2, %p0 + 1;"])
def test_no_value_where_ptxas_generates_none(body: str):
    with pytest.raises(pyptx.SimulationError, match="a constant is added to an integer register"):
        _run(_kernel("mov.f32 %f0, 0f00000000;", "setp.lt.u32 %p0, %r0, 1;", body), np.uint32)


def test_it_is_a_warning_at_the_operand():
    text = _kernel("st.global.u32 [%d0], %r0 + 1;")
    found = pyptx.diagnose(text)
    assert [(d.severity, d.line, d.column) for d in found] == [("warning", 19, 23)]
    assert "register plus a constant" in found[0].message


PROGRAM = _kernel("add.u32 %r1, %r0 + 1, %r0 + -(1+2);", "add.u32 %r2, %r1 + 4, 5;", "st.global.u32 [%d0], %r2 + 0x10;")


def test_it_is_printed_as_written():
    assert pyptx.to_ptx(pyptx.parse(PROGRAM)) == PROGRAM


def test_the_mlir_text_reads_back():
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(PTX)
    stream = io.StringIO()
    Printer(stream).print_op(pyptx.parse(PROGRAM))
    assert "ptx.add u32 %r1 + 4, 5" in stream.getvalue()
    assert pyptx.to_ptx(Parser(context, stream.getvalue()).parse_module()) == PROGRAM


@pytest.mark.parametrize("sugar", [False, True])
def test_as_a_python_program_it_stays(sugar: bool):
    again = printed(PROGRAM, sugar=sugar)
    value = _run(again, np.uint32)[0]
    assert value == (1 + 2**32 - 3 + 4 + 5 + 16) % 2**32
    assert again.count(" + ") + again.count("+") >= 4


def test_passes_keep_the_value():
    module = pyptx.parse(PROGRAM)
    for name in ("ptx-fold", "ptx-cse", "ptx-copy-propagation", "ptx-dce", "ptx-assign-registers"):
        PASSES[name]()().apply(Context(), module)
    assert _run(pyptx.to_ptx(module), np.uint32)[0] == (1 + 2**32 - 3 + 4 + 5 + 16) % 2**32
