"""Corners of register assignment: moves of every class, tables of branches, returned registers, odd names."""

from __future__ import annotations

from typing import cast

import pytest
from xdsl.ir import Block

import pyptx
from pyptx.analysis.checks import check_module
from pyptx.dialects.ptx.instruction import Instruction
from pyptx.dialects.ptx.structure import FunctionOp, LabelListOp, ModuleOp, RegisterOp
from pyptx.dialects.ptx.types import RegType
from pyptx.passes.assign_registers import assign_registers, split_edge
from pyptx.passes.fresh import FreshNames, FreshRegisters
from pyptx.runtime.ptxas import assemble
from pyptx.ssa.fastir import set_type
from tests.passes.sample import ptx_of


def only(module: ModuleOp) -> FunctionOp:
    return next(f for f in module.functions if not f.is_declaration)


def clean(module: ModuleOp, target: str = "sm_80") -> str:
    text = pyptx.to_ptx(module)
    assert check_module(module) == []
    assert check_module(ptx_of(text)) == []
    result = assemble(text, target, check_only=True)
    assert result.ok, [d.render() for d in result.errors]
    return text


@pytest.mark.parametrize(
    ("register_class", "move"),
    [
        ("pred", "mov.pred"), ("b16", "mov.b16"), ("u32", "mov.u32"), ("s64", "mov.s64"), ("f32", "mov.f32"),
        ("f64", "mov.f64"), ("b8", "cvt.u8.u8"), ("s8", "cvt.s8.s8"), ("f16", "mov.b16"), ("f16x2", "mov.b32"),
        ("b128", "mov.b128"),
    ],
)  # fmt: skip
def test_every_class_can_be_moved(register_class: str, move: str) -> None:
    text = f""".version 8.7
.target sm_80
.entry k()
{{
	.reg .{register_class} a, b, c;
	.reg .pred p;
	@p bra L;
	{move} a, b;
	bra M;
L:
	{move} a, c;
M:
	{move} b, a;
	ret;
}}
"""
    module = ptx_of(text)
    function = only(module)
    # every value its own register: the join needs moves
    values = [r for b in function.blocks for op in b.ops for r in op.results]
    for value in values[1:]:
        if cast(RegType, value.type).register_name == "a":
            fresh = FreshRegisters(function)
            set_type(value, fresh.type(register_class))
            fresh.declare()
    assign_registers(function)
    changed = clean(module)
    assert changed.count(f"\t{move} ") > text.count(f"\t{move} ")


SWITCH = """.version 8.0
.target sm_80
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, 5;
T:
	.branchtargets A, B, A;
	brx.idx %r1, T;
A:
	add.u32 %r2, %r2, 1;
B:
	st.global.u32 [%rd1], %r2;
	{again}
	ret;
}
"""


@pytest.mark.parametrize("shared", [False, True], ids=["own table", "shared table"])
def test_edge_of_an_indexed_branch(shared: bool) -> None:
    again = "setp.eq.u32 %p1, %r1, 9; @%p1 ret; brx.idx %r1, T;" if shared else ""
    text = SWITCH.replace("{again}", again).replace(".reg .b64", ".reg .pred %p<2>;\n\t.reg .b64")
    module = ptx_of(text)
    function = only(module)
    branch = next(op for b in function.blocks for op in b.ops if isinstance(op, Instruction) and op.opcode == "brx.idx")
    target = branch.successors[1]
    assert "B" in {getattr(op, "label", None) for op in target.ops}
    new = split_edge(function, branch, 1, FreshNames(function))
    changed = clean(module)
    tables = [op for b in function.blocks for op in b.ops if isinstance(op, LabelListOp)]
    assert len(tables) == (2 if shared else 1)
    assert tables[-1].words == (".branchtargets", "A", ",", "$L__edge", ",", "A", ";")
    assert [s for s in ptx_successors(changed) if len(s) > 2] == []
    assert new.last_op is not None
    assert list(new.last_op.successors) == [target]


def ptx_successors(text: str) -> list[list[Block]]:
    function = only(ptx_of(text))
    return [list(b.last_op.successors) for b in function.blocks if b.last_op is not None]


def test_a_function_that_falls_off_its_end_still_ends() -> None:
    module = ptx_of(
        ".version 8.0\n.target sm_80\n.entry k()\n{\n.reg .pred %p;\n.reg .b32 %r<3>;\nL:\nadd.u32 %r1, %r1, 1;\n"
        "setp.lt.u32 %p, %r1, 9;\n@%p bra L;\nst.shared.u32 [%r1], %r1;\n}\n"
    )
    function = only(module)
    branch = next(op for b in function.blocks for op in b.ops if isinstance(op, Instruction) and op.opcode == "bra")
    split_edge(function, branch, 0, FreshNames(function))
    text = clean(module)
    assert (
        text.split()[-8:] == ["[%r1],", "%r1;", "ret;", "$L__edge:", "bra", "L;", "}"][-8:] or "ret;\n$L__edge:" in text
    )


def test_returned_registers_get_their_values() -> None:
    module = ptx_of(
        ".version 8.0\n.target sm_80\n.func (.reg .b32 x, .reg .b32 y) f(.reg .b32 a, .reg .b32 b)\n{\n"
        "\tmov.b32 x, a;\n\tmov.b32 y, b;\n\tret;\n}\n"
    )
    function = only(module)
    ret = function.blocks[-1].last_op
    assert ret is not None
    ret.operands = list(reversed(ret.operands))  # swapped: each result sits in the other's register
    assign_registers(function)
    lines = [line.strip() for line in clean(module).splitlines()]
    body = lines[lines.index("{") + 1 : lines.index("}")]
    held = {"a": "A", "b": "B"}
    for line in body:
        if line.startswith("mov"):
            to, source = line.removeprefix("mov.b32 ").removesuffix(";").split(", ")
            held[to] = held[source]
    assert (held["x"], held["y"]) == ("B", "A"), body


def test_new_registers_extend_a_range_or_avoid_names() -> None:
    module = ptx_of(
        ".version 8.0\n.target sm_80\n.global .u32 %fd0;\n.entry k(.param .u32 %p0)\n{\n.reg .b32 %r<4>;\n"
        ".reg .f32 x;\n{ .reg .b32 %r<9>; }\nret;\n}\n"
    )
    function = only(module)
    fresh = FreshRegisters(function)
    names = [fresh.type(c).register_name for c in ("b32", "f32", "pred", "f64")]
    assert len(set(names)) == 4
    assert names[0] not in {f"%r{i}" for i in range(9)}  # hidden by the inner scope's range
    assert names[2] != "%p0"
    assert names[3] != "%fd0"
    fresh.declare()
    clean(module)
    declared = [op.declaration for op in function.blocks[0].ops if isinstance(op, RegisterOp)]
    assert sum(len(d.items) for d in declared) == 6 + 1


def test_a_module_without_blanks_or_stale_values_is_left_alone() -> None:
    text = SWITCH.replace("{again}", "")
    module = ptx_of(text)
    assert not assign_registers(only(module))
    assert pyptx.to_ptx(module) == text
