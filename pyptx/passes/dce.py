"""`ptx-dce`: remove instructions whose results nobody wants."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import BlockArgument, Operation, SSAValue

from ..dialects.ptx.effects import is_removable
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import FunctionOp, UndefOp
from .operands import passed_of
from .ptx_pass import FunctionPass
from .trivia import erase


class DeadCode(FunctionPass):
    """Remove instructions whose results reach nothing that has an effect, and block arguments nobody needs.

    Contract: removes pure instructions and plain (weak, not volatile) loads only; stores, barriers, fences,
    atomics, asynchronous and volatile instructions, calls and control flow stay, and so do unreachable blocks
    and unused declarations. Values that only feed each other around a loop go too. Moves and renames nothing.
    Idempotent.
    """

    name: ClassVar[str] = "ptx-dce"

    def run_on_function(self, function: FunctionOp) -> None:
        remove_dead_code(function)


def remove_dead_code(function: FunctionOp) -> bool:
    """Mark from what has an effect, then sweep. Whether anything went."""
    live: set[SSAValue] = set()
    work: list[SSAValue] = []
    incoming: dict[SSAValue, list[SSAValue]] = {}
    candidates: dict[Operation, None] = {}

    def want(values: list[SSAValue]) -> None:
        for value in values:
            if value not in live:
                live.add(value)
                work.append(value)

    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, UndefOp) or (isinstance(op, Instruction) and is_removable(op)):
                candidates[op] = None
                continue
            if not op.operands:
                continue
            operands = list(op.operands)
            passed = len(operands)
            if op.successors:
                for i, _, target, argument in passed_of(op):
                    passed = min(passed, i)
                    incoming.setdefault(target.args[argument], []).append(operands[i])
            want(operands[:passed])
    while work:
        value = work.pop()
        if isinstance(value, BlockArgument):
            want(incoming.get(value, []))
        elif value.owner in candidates:
            want(list(value.owner.operands))  # pyright: ignore[reportAttributeAccessIssue]
    dead = [op for op in candidates if not any(r in live for r in op.results)]
    for op in dead:
        op.operands = ()
    changed = _drop_arguments(function, live)
    for op in dead:
        erase(op)
    return changed or bool(dead)


def _drop_arguments(function: FunctionOp, live: set[SSAValue]) -> bool:
    doomed = [a for block in function.blocks for a in block.args if a not in live]
    if not doomed:
        return False
    gone = set(doomed)
    for block in function.blocks:
        last = block.last_op
        if last is None or not last.successors:
            continue
        drop = {i for i, _, target, argument in passed_of(last) if target.args[argument] in gone}
        if drop:
            last.operands = [v for i, v in enumerate(last.operands) if i not in drop]
    for argument in doomed:
        argument.block.erase_arg(argument)
    return True
