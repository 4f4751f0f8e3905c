"""Names in `{ }` scopes and of the module: no pass may make a name mean something else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pyptx
from pyptx.analysis.checks import check_module
from pyptx.dialects.ptx.instruction import Instruction
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.passes.assign_registers import assign_registers
from pyptx.passes.copy_propagation import CopyPropagation
from pyptx.passes.cse import CommonSubexpressions
from pyptx.passes.flatten_scopes import flatten_scopes
from pyptx.passes.inline import inline_calls
from tests.passes.sample import ptx_of

KERNEL = """.version 8.7
.target sm_90a
.address_size 64
{before}
.visible .entry k(.param .u64 a)
{{
	.reg .b32 %r<20>, y, z;
	.reg .b64 %rd<9>;
	.reg .pred %p<5>;
	ld.param.u64 %rd1, [a];
	mov.u32 %r1, %tid.x;
	mad.wide.u32 %rd2, %r1, 4, %rd1;
	{body}
	st.global.u32 [%rd2], %r2;
	ret;
}}
"""


def kernel(body: str, before: str = "") -> str:
    return KERNEL.format(body=body, before=before)


def results(text: str) -> list[int]:
    out = np.arange(64, dtype=np.uint32)
    pyptx.simulate(pyptx.load(text)["k"], out, grid=1, block=8)
    return out.tolist()


def changed(text: str, change: Callable[[ModuleOp], object]) -> str:
    """The text after a pass, which computes the same."""
    module = ptx_of(text)
    change(module)
    assert check_module(module) == []
    after = pyptx.to_ptx(module)
    assert check_module(ptx_of(after)) == []
    assert results(after) == results(text)
    return after


HIDDEN_RESULT = {
    "single": "{ .reg .b32 %r3; mov.b32 %r3, 4; mul.lo.s32 z, y, 3; add.s32 %r2, %r3, z; }",
    "range": "{ .reg .b32 %r<4>; mov.b32 %r3, 4; mul.lo.s32 %r2, y, 3; add.s32 z, %r3, %r2; } mov.b32 %r2, z;",
    "two deep": "{ .reg .b32 %r3; { mov.b32 %r3, 4; mul.lo.s32 z, y, 3; add.s32 %r2, %r3, z; } }",
    "declared later": "{ mul.lo.s32 z, y, 3; .reg .b32 %r3; mov.b32 %r3, 4; add.s32 %r2, %r3, z; }",
    "the same register": "{ .reg .b32 %r3; mul.lo.s32 %r3, y, 3; add.s32 %r2, %r3, 1; }",
}


@pytest.mark.parametrize("case", HIDDEN_RESULT)
def test_cse_does_not_read_a_hidden_register(case: str) -> None:
    text = kernel("mov.b32 y, %r1; mul.lo.s32 %r3, y, 3;\n\t" + HIDDEN_RESULT[case])
    after = changed(text, CommonSubexpressions().run)
    assert after.count("mul.lo") == 1


def test_cse_of_a_value_that_a_loop_in_the_scope_carries() -> None:
    """The outer register is written by the loop where it has no name: nothing but other names help."""
    body = """mul.lo.s32 %r3, %r1, 3;
	{
	.reg .b32 x;
	mov.b32 x, 0;
L:
	{
	.reg .b32 %r3;
	mov.b32 %r3, 4;
	mul.lo.s32 %r4, %r1, 3;
	add.s32 x, x, %r4;
	add.s32 x, x, %r3;
	}
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p1, %r3, 30;
	@%p1 bra L;
	mov.b32 %r2, x;
	}"""
    changed(kernel(body), CommonSubexpressions().run)


COPIES = {
    "register": ("{ .reg .b32 x; mov.b32 x, %r1; { .reg .b32 %r1; mov.b32 %r1, 5; add.s32 %r2, x, %r1; } }", ""),
    "guard": (
        "mov.b32 %r2, 0; setp.eq.s32 %p1, %r1, 3; { .reg .pred q; mov.pred q, %p1;"
        " { .reg .pred %p1; setp.ne.s32 %p1, %r1, 3; @q mov.b32 %r2, 1; @%p1 add.s32 %r2, %r2, 4; } }",
        "",
    ),
    "parameter": (
        "call (%r2), f, (%r1);",
        ".func (.reg .b32 r) f(.reg .b32 a)\n{ .reg .b32 t; mov.b32 t, a;"
        " { .reg .b32 a; mov.b32 a, 9; add.s32 r, t, a; } ret; }",
    ),
}


@pytest.mark.parametrize("case", COPIES)
def test_copies_of_hidden_registers(case: str) -> None:
    changed(kernel(*COPIES[case]), CopyPropagation().run)


def test_a_return_and_a_loop_may_carry_hidden_registers() -> None:
    """They do not name them."""
    before = """.func (.reg .b32 r) f(.reg .b32 a)
{
	mov.b32 r, a;
	{
	.reg .b32 r;
	.reg .pred p;
	mov.b32 r, 0;
L:
	add.s32 r, r, 1;
	setp.lt.s32 p, r, a;
	@p bra L;
	ret;
	}
}
"""
    text = kernel("call (%r2), f, (%r1);", before)
    assert check_module(ptx_of(text)) == []
    assert results(text)[:8] == list(range(8))


def test_a_hidden_result_gets_another_name() -> None:
    body = """mov.b32 %r3, 7;
	{
	.reg .b32 %r3;
	mov.b32 %r3, 4;
	mov.b32 %r4, 9;
	add.s32 %r2, %r4, %r3;
	}
	add.s32 %r2, %r2, %r3;"""
    module = ptx_of(kernel(body))
    (function,) = module.functions
    ops = [op for block in function.blocks for op in block.ops if isinstance(op, Instruction)]
    outer, _, inner = [op for op in ops if op.opcode == "mov" and not op.operands][1:]
    last = [op for op in ops if op.opcode == "add"][-1]
    inner.results[0]._type = outer.results[0].type
    last.operands[1] = inner.results[0]
    assert {v.check for v in check_module(module)} == {"scopes"}
    assign_registers(function)
    assert check_module(module) == []
    assert results(pyptx.to_ptx(module))[:8] == [4 + 9 + 9] * 8


CALLEE = """.global .b32 g = 5;
.func (.reg .b32 r) f(.reg .b32 a)
{
	.reg .b64 q;
	mov.u64 q, g;
	ld.global.u32 r, [q];
	add.s32 r, r, a;
	ret;
}
"""
CAPTURING = {
    "register": "{ .reg .b64 g; add.s64 g, %rd1, 128; call (%r2), f, (%r1); ld.global.u32 %r3, [g];"
    " add.s32 %r2, %r2, %r3; }",
    "variable": "{ .shared .b32 g; st.shared.u32 [g], 8; call (%r2), f, (%r1); }",
    "variable of the function": ".shared .b32 g; st.shared.u32 [g], 8; call (%r2), f, (%r1);",
}


@pytest.mark.parametrize("case", CAPTURING)
def test_inlining_does_not_capture_names_of_the_module(case: str) -> None:
    changed(kernel(CAPTURING[case], CALLEE), inline_calls)


def test_inlining_through_two_calls_does_not_capture() -> None:
    middle = ".func (.reg .b32 r) h(.reg .b32 b)\n{ call (r), f, (b); add.s32 r, r, 1; ret; }\n"
    text = kernel(CAPTURING["register"].replace("f,", "h,"), CALLEE + middle)
    after = changed(text, inline_calls)
    assert "call (r), f" not in after
    assert "call (%r2), h" in after


def test_inlining_where_nothing_is_captured() -> None:
    after = changed(kernel("{ .reg .b64 other; call (%r2), f, (%r1); }", CALLEE), inline_calls)
    assert "call" not in after


SHADOWING = {
    "register": "{ .reg .b64 g; mov.b64 g, %rd1; add.s64 g, g, 128; ld.global.u32 %r2, [g]; }",
    "range": "{ .reg .b64 g<3>; mov.b64 g1, %rd1; add.s64 g1, g1, 128; ld.global.u32 %r2, [g1]; }",
}


@pytest.mark.parametrize("case", SHADOWING)
def test_flattening_renames_what_shadows_a_variable_of_the_module(case: str) -> None:
    name = "g1" if case == "range" else "g"
    body = f"{SHADOWING[case]}\n\tld.global.u32 %r3, [{name}]; add.s32 %r2, %r2, %r3;"
    changed(kernel(body, f".global .b32 {name} = 5;"), lambda module: [flatten_scopes(f) for f in module.functions])


@pytest.mark.parametrize("case", SHADOWING)
def test_inlining_flattens_what_shadows_a_variable_of_the_module(case: str) -> None:
    name = "g1" if case == "range" else "g"
    inner = SHADOWING[case].replace("%r2", "r").replace("%rd1", "p")
    callee = f""".global .b32 {name} = 5;
.func (.reg .b32 r) f(.reg .b64 p)
{{
	.reg .b32 t;
	{inner}
	ld.global.u32 t, [{name}];
	add.s32 r, r, t;
	ret;
}}
"""
    after = changed(kernel("call (%r2), f, (%rd1);", callee), inline_calls)
    assert "call" not in after


def test_flattening_renames_a_variable_that_shadows_one_of_the_module() -> None:
    body = "{ .shared .b32 g; st.shared.u32 [g], 7; ld.shared.u32 %r2, [g]; }\n\tld.global.u32 %r3, [g];"
    module = ptx_of(kernel(body + " add.s32 %r2, %r2, %r3;", ".global .b32 g = 5;"))
    for function in module.functions:
        flatten_scopes(function)
    assert results(pyptx.to_ptx(module))[:8] == [12] * 8


def test_an_edge_into_a_scope_does_not_go_to_the_outer_label() -> None:
    """The block that cse puts on a branch's edge stands at the end of the function, where L is another label."""
    text = kernel("""mov.b32 %r3, 7;
	mov.b32 %r4, 7;
	setp.lt.s32 %p1, y, 2;
	{
	@%p1 bra L;
	add.s32 %r3, y, 9;
L:
	add.s32 %r2, %r3, %r4;
	}
	@!%p1 bra L;
	add.s32 %r2, %r2, 100;
L:
	mov.b32 z, %r2;""")
    after = changed(text, CommonSubexpressions().run)
    assert "$L__edge" in after
