"""Each module check finds what it is for, on IR whose printed text does not show the fault."""

from __future__ import annotations

from pathlib import Path

import pyptx
from pyptx.analysis.checks import check_module
from pyptx.dialects.ptx.instruction import Instruction
from pyptx.dialects.ptx.structure import ModuleOp

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"
LOOP = """.version 8.0
.target sm_90
.visible .entry k(.param .u64 p)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	mov.b32 %r1, 0;
	mov.b32 %r2, 5;
L:
	add.s32 %r1, %r1, 1;
	add.s32 %r1, %r1, %r2;
	setp.lt.s32 %p1, %r1, 10;
	@%p1 bra L;
	ret;
}
"""


def ptx_of(text: str) -> ModuleOp:
    inner = pyptx.parse(text).body.block.first_op
    assert isinstance(inner, ModuleOp)
    return inner


def instructions(module: ModuleOp) -> list[Instruction]:
    (function,) = module.functions
    return [op for b in function.blocks for op in b.ops if isinstance(op, Instruction)]


def test_clean() -> None:
    assert check_module(ptx_of(LOOP)) == []


def test_overwritten_register_is_found_though_the_text_is_the_same() -> None:
    module = ptx_of(LOOP)
    text = pyptx.to_ptx(module)
    first, second = [op for op in instructions(module) if op.opcode == "add"]
    second.operands[0] = first.operands[0]  # the value before the first add: same register, overwritten
    assert pyptx.to_ptx(module) == text
    assert {v.check for v in check_module(module)} == {"registers"}


def test_use_before_definition_is_found() -> None:
    module = ptx_of(LOOP)
    setp = next(op for op in instructions(module) if op.opcode == "setp")
    add = next(op for op in instructions(module) if op.opcode == "add")
    add.operands[0] = setp.operands[0]
    assert "dominance" in {v.check for v in check_module(module)}


def test_wrong_block_argument_is_found() -> None:
    module = ptx_of(LOOP)
    bra = next(op for op in instructions(module) if op.opcode == "bra")
    mov = next(op for op in instructions(module) if op.opcode == "mov" and op.results[0].type.data[1] == "%r2")  # pyright: ignore
    bra.operands[len(bra.operands) - 1] = mov.results[0]
    assert "dominance" in {v.check for v in check_module(module)}


def test_register_out_of_scope_is_found() -> None:
    module = ptx_of((DATA / "nested_scopes.ptx").read_text())
    function = next(f for f in module.functions if not f.is_declaration)
    inner = next(
        op for b in function.blocks for op in b.ops
        if isinstance(op, Instruction) and any(r.type.data[2] for r in op.results)  # pyright: ignore
    )  # fmt: skip
    inner.detach()
    last = function.blocks[-1].last_op
    assert last is not None
    function.blocks[-1].insert_op_before(inner, last)
    assert "scopes" in {v.check for v in check_module(module)}


def test_fallthrough_must_be_next() -> None:
    module = ptx_of(LOOP)
    (function,) = module.functions
    region = function.regions[0]
    last = region.blocks[-1]
    region.detach_block(last)
    region.insert_block(last, 1)
    assert "layout" in {v.check for v in check_module(module)}


def test_a_guarded_write_keeps_its_own_register() -> None:
    module = ptx_of(LOOP.replace("\tret;", "\t@%p1 mov.b32 %r2, 7;\n\tmov.b32 %r3, 1;\n\tret;"))
    assert check_module(module) == []
    guarded = next(op for op in instructions(module) if op.guard and op.opcode == "mov")
    other = next(op for op in instructions(module) if op.opcode == "add")
    guarded.operands[len(guarded.operands) - 1] = other.operands[0]
    assert "ties" in {v.check for v in check_module(module)}
