"""`scf.while`, `cf.switch` and `cf.assert` as blocks and branches, before functions are lowered."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.cf import AssertOp, BranchOp, ConditionalBranchOp, SwitchOp
from xdsl.dialects.scf import ConditionOp, WhileOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region

from ...dialects.ptx.attributes import layout_attr, string_attr
from ...dialects.ptx.misc import Trap
from ...ssa.fastir import create
from .emitter import Emitter, lowers


def expand_control(module: Operation) -> None:
    """Turn loops and switches into `cf.br` and `cf.cond_br`, the outermost first."""
    for op in list(module.walk()):
        if isinstance(op, WhileOp):
            _expand_while(op)
        elif isinstance(op, SwitchOp):
            _expand_switch(op)


def _expand_while(op: WhileOp) -> None:
    """before -> after -> before; the results are arguments of the block after the loop."""
    block = op.parent
    assert block is not None
    rest = block.split_before(op, arg_types=op.result_types)
    before, after = op.before_region.blocks[0], op.after_region.blocks[0]
    for inner in [*op.before_region.blocks, *op.after_region.blocks]:
        last = inner.last_op
        if isinstance(last, ConditionOp):
            inner.insert_op_before(ConditionalBranchOp(last.condition, after, last.args, rest, last.args), last)
            _remove(last)
        elif isinstance(last, YieldOp):
            inner.insert_op_before(BranchOp(before, *last.operands), last)
            _remove(last)
    block.add_op(BranchOp(before, *op.arguments))
    region = block.parent
    assert region is not None
    _move_blocks(op.before_region, region, rest)
    _move_blocks(op.after_region, region, rest)
    for result, argument in zip(op.results, rest.args, strict=True):
        result.replace_all_uses_with(argument)
    _remove(op)


def _move_blocks(source: Region, target: Region, before: Block) -> None:
    for block in list(source.blocks):
        source.detach_block(block)
        target.insert_block_before(block, before)


def _expand_switch(op: SwitchOp) -> None:
    """A comparison and a branch for each case, in order."""
    block = op.parent
    assert block is not None
    region = block.parent
    assert region is not None
    values = [] if op.case_values is None else list(cast("Any", op.case_values).get_values())
    current = block
    default, left = op.default_block, list(op.default_operands)
    counts = [int(n) for n in op.case_operand_segments.get_values()]
    ends = list(accumulate(counts))
    passed = [list(op.case_operands[end - n : end]) for n, end in zip(counts, ends, strict=True)]
    cases = list(zip(values, op.case_blocks, passed, strict=True))
    flag = op.flag
    _remove(op)
    for value, target, given in cases:
        wanted = arith.ConstantOp(IntegerAttr(int(value), cast("Any", flag.type)))
        same = arith.CmpiOp(flag, wanted, "eq")
        following = Block()
        region.insert_block_after(following, current)
        current.add_ops([wanted, same, ConditionalBranchOp(same, target, given, following, ())])
        current = following
    current.add_op(BranchOp(default, *left))


def _remove(op: Operation) -> None:
    op.detach()
    op.erase()


@lowers("cf.assert")
def check(e: Emitter, op: Operation) -> None:
    """A trap where the condition is false; PTX has no place for the message."""
    assert isinstance(op, AssertOp)
    properties: dict[str, Attribute] = {"layout": layout_attr(()), "guard": string_attr("@!")}
    e.ops.append(create(Trap, [e.register(e.operand(op.arg))], (), properties, {}, (), op.location))
