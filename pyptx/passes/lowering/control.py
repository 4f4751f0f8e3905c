"""`scf.parallel` as `scf.for`; `scf.while`, `cf.switch` and `cf.assert` as blocks and branches, before functions are lowered."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.dialects.cf import AssertOp, BranchOp, ConditionalBranchOp, SwitchOp
from xdsl.dialects.scf import ConditionOp, ForOp, ParallelOp, ReduceOp, ReduceReturnOp, WhileOp, YieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.ptx.attributes import layout_attr, string_attr
from ...dialects.ptx.misc import Trap
from ...ssa.fastir import create
from .emitter import Emitter, LoweringError, lowers


def expand_parallel(module: Operation) -> None:
    """Turn parallel loops into nested ones. A thread does all of it, one after the other, as in upstream's
    `convert-scf-to-cf`."""
    for op in list(module.walk()):
        if isinstance(op, ParallelOp):
            _expand_parallel(op)


def _expand_parallel(op: ParallelOp) -> None:
    block = op.parent
    assert block is not None
    inner = op.body.block
    if not inner.args:
        raise LoweringError("scf.parallel without a dimension cannot become PTX: write its body in its place")
    carried: Sequence[SSAValue] = op.initVals
    loops: list[ForOp] = []
    bodies: list[Block] = []
    for low, high, step, old in zip(op.lowerBound, op.upperBound, op.step, list(inner.args), strict=True):
        body = Block(arg_types=(IndexType(), *(value.type for value in carried)))
        old.replace_all_uses_with(body.args[0])
        loops.append(ForOp(low, high, step, carried, Region(body)))
        bodies.append(body)
        carried = body.args[1:]
    for body, loop in zip(bodies[:-1], loops[1:], strict=True):
        body.add_ops([loop, YieldOp(*loop.results)])
    reduce = inner.last_op
    assert isinstance(reduce, ReduceOp)
    made = [
        _reduced(region, total, value)
        for region, total, value in zip(reduce.reductions, carried, reduce.args, strict=True)
    ]
    operations = [o for o in inner.ops if o is not reduce]
    results = [result for _, result in made]
    moved = [o for group, _ in made for o in group]
    for o in operations:
        o.detach()
    bodies[-1].add_ops([*operations, *moved, YieldOp(*results)])
    block.insert_op_before(loops[0], op)
    for result, value in zip(op.results, loops[0].results, strict=True):
        result.replace_all_uses_with(value)
    _remove(op)


def _reduced(region: Region, total: SSAValue, value: SSAValue) -> tuple[list[Operation], SSAValue]:
    """The operations of a reduction on these two values, taken out of its region, and their result."""
    block = region.block
    for argument, given in zip(block.args, (total, value), strict=True):
        argument.replace_all_uses_with(given)
    *operations, last = block.ops
    assert isinstance(last, ReduceReturnOp)
    found = last.result
    for op in operations:
        op.detach()
    return operations, found


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
