"""`%r01` is `%r1` where that is a register of a range: ptxas generates one register for both, and the text prints back as it was."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context

import pyptx
from pyptx.passes.registry import PASSES
from pyptx.passes.verify import module_diagnostics
from pyptx.tools.ptxas import ToolNotFound, assemble

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<12>, x<4>;
	.reg .b64 %d<3>;
	.reg .pred %q<3>;
	ld.param.u64 %d01, [p];
	ld.global.u32 %r1, [%d1];
	add.u32 %r001, %r01, %r1;   // both are one register
	setp.ne.u32 %q00, %r01, 3;
	@%q0 add.u32 %r02, %r1, 1; @!%q000 mov.u32 %r2, 5;
	mov.u32 x01, %r2;
	st.global.u32 [%d1], x1;
	{ .reg .b32 %r1; mov.u32 %r1, 7; add.u32 %r3, %r1, %r01; }
	st.global.u32 [%d01+4], %r03;
	ret;
}
"""


def test_padded_numbers_name_the_registers_of_a_range() -> None:
    for _ in range(2):  # read in full, and remembered
        module = pyptx.parse(TEXT)
        assert pyptx.to_ptx(module) == TEXT
    assert not [d for d in pyptx.diagnose(TEXT) if d.severity == "error"]
    assert not list(module_diagnostics(module))
    data = np.array([4, 0], np.uint32)
    pyptx.simulate(pyptx.load(TEXT)["k"], data, grid=1, block=1)
    assert data.tolist() == [9, 15]  # 2 * 4 + 1; 7 + 8


@pytest.mark.parametrize("name", ["ptx-assign-registers", "ptx-flatten-scopes", "ptx-fold", "ptx-dce"])
def test_what_a_pass_leaves_is_legal(name: str) -> None:
    module = pyptx.parse(TEXT)
    PASSES[name]()().apply(Context(), module)
    assert not [d for d in pyptx.diagnose(pyptx.to_ptx(module)) if d.severity == "error"]


@pytest.mark.parametrize(
    ("declared", "line", "wrong"),
    [
        (".reg .b32 %r<12>;", "add.u32 %r012, %r1, 1;", "%r012 is not declared"),
        (".reg .b32 %r1, %r2;", "add.u32 %r01, %r2, 1;", "%r01 is not declared"),
        (
            ".reg .b64 %r<12>; .reg .b32 %s;",
            "add.u32 %s, %s, %r001;",
            "operand b must be .u32, and the register is .b64",
        ),
    ],
)
def test_other_padded_names_are_told_at_their_place(declared: str, line: str, wrong: str) -> None:
    text = f".version 8.0\n.target sm_80\n.visible .entry k() {{\n{declared}\n{line}\nret;\n}}\n"
    (found,) = [d for d in pyptx.diagnose(text) if d.severity == "error"]
    assert (found.line, found.message) == (5, wrong)
    assert line[(found.column or 0) - 1] == "%"


@pytest.mark.parametrize(
    ("body", "legal"),
    [
        (".reg .pred %r00; .reg .b32 %r<4>; mov.b32 %r00, 1;", True),  # the later declaration has the name
        (".reg .pred %r00; .reg .b32 %r<4>; setp.eq.u32 %r00, 1, 1;", False),
        (".reg .b32 %r<4>; .reg .pred %r00;", False),
        (".reg .pred %r00; setp.eq.u32 %r00, 1, 1; .reg .b32 %r<4>; mov.b32 %r00, 1;", True),
        (".reg .pred %r00; { .reg .b32 %r<4>; mov.b32 %r00, 1; } setp.eq.u32 %r00, 1, 1;", True),
        (".reg .pred %r04; .reg .b32 %r<4>; mov.b32 %r04, 1;", False),
        (".reg .pred %r0; .reg .b32 %r<4>; mov.b32 %r0, 1;", True),  # a range hides its first name alone
        (".reg .pred %r0; .reg .b32 %r<4>; setp.eq.u32 %r0, 1, 1;", False),
        (".reg .pred %r1; .reg .b32 %r<4>;", False),
        (".reg .b32 %r<4>; .reg .pred %r0;", False),
    ],
)
def test_names_next_to_a_range_are_judged_as_by_ptxas(body: str, legal: bool) -> None:
    text = f".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n{body}\nret;\n}}\n"
    assert legal == (not [d for d in pyptx.diagnose(text) if d.severity == "error"])
    try:
        assert assemble(text, "sm_90a", check_only=True).ok == legal
    except ToolNotFound:
        pass


@pytest.mark.parametrize(
    ("body", "legal"),
    [
        ("{s} y0; {s} y<4>;", True),  # in a body alone: not among the variables of a module
        ("{s} y0[2], y1; .global .b64 y<4>;", True),
        ("y1: {s} y<4>; y3: mov.b32 r, y1; mov.b32 r, y3;", True),  # a range hides labels, too
        ("{s} y<4>; y1: bra y1;", False),
        ("{s} y1; {s} y<4>;", False),
        ("{s} y<4>; {s} y0;", False),
        ("{s} y00; {s} y<4>;", True),
        (".reg .b32 y0; {s} y<4>; mov.b32 y0, r;", False),
    ],
)
@pytest.mark.parametrize("space", ["shared", "local"])
def test_names_next_to_a_range_of_variables(body: str, legal: bool, space: str) -> None:
    head = ".version 8.7\n.target sm_90a\n.address_size 64\n"
    text = f"{head}.visible .entry k()\n{{\n.reg .b32 r;\n{body.format(s=f'.{space} .b32')}\nret;\n}}\n"
    assert legal == (not [d for d in pyptx.diagnose(text) if d.severity == "error"])
    try:
        assert assemble(text, "sm_90a", check_only=True).ok == legal
    except ToolNotFound:
        pass


def test_a_range_of_variables_has_the_name_that_it_hides() -> None:
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b32 r<2>; .reg .b64 d; ld.param.u64 d, [p];
	.shared .b64 y0[2], y1;
	st.shared.v2.u64 [y0], {-1, -1};
	.shared .b32 y<3>;
	st.shared.u32 [y0], 5;
	st.shared.u32 [y1], 6;
	st.shared.u32 [y2], 7;
	ld.shared.u32 r0, [y0]; ld.shared.u32 r1, [y01];
	st.global.v2.u32 [d], {r0, r1};
	ret;
}
"""
    out = np.zeros(2, np.uint32)
    module = pyptx.parse(text)
    assert pyptx.to_ptx(module) == text and not list(module_diagnostics(module))
    pyptx.simulate(module, out, grid=1, block=1)
    assert out.tolist() == [5, 6]


@pytest.mark.parametrize("place", ["body", "module"])
@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("name", ["x3", "x03", "x0003"])
def test_a_range_of_variables_is_one_variable_for_each_number(name: str, space: str, place: str) -> None:
    declared = f".{space} .b32 x<010>;"
    text = f""".version 8.0
.target sm_80
.address_size 64
{declared if place == "module" else ""}
.visible .entry k(.param .u64 p)
{{
	.reg .b32 %r<4>; .reg .b64 %d<3>;
	{declared if place == "body" else ""}
	ld.param.u64 %d1, [p];
	st.{space}.u32 [x3], 7;
	st.{space}.u32 [x2], 9;
	st.{space}.u32 [x07], 11;
	ld.{space}.u32 %r1, [{name}];
	ld.{space}.u32 %r2, [x7];
	st.global.v2.u32 [%d1], {{%r1, %r2}};
	ret;
}}
"""
    out = np.zeros(2, np.uint32)
    pyptx.simulate(pyptx.parse(text), out, grid=1, block=1)
    assert out.tolist() == [7, 11]
    assert not [d for d in pyptx.diagnose(text) if d.severity == "error"]
