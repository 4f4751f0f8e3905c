"""`ptx-copy-propagation`: read the source of a move instead of its copy."""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.ir import Operation, SSAValue

from ..analysis.cfg import cfg_of
from ..analysis.checks import check_registers, check_scopes
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.move import Mov
from ..dialects.ptx.structure import FunctionOp
from ..dialects.ptx.syntax import Register
from ..dialects.ptx.types import RegType
from .assign_registers import assign_registers, is_fixed
from .operands import places_of
from .ptx_pass import FunctionPass
from .trivia import erase


class CopyPropagation(FunctionPass):
    """Replace uses of `mov d, a` by a, and remove the move when nothing reads d any more.

    Contract: only unguarded moves of one register into another of the same class (`mov.b32` from an `.f32` to
    a `.b32` register is a conversion and stays). A use that fixes the register (block argument, tied operand,
    returned register) keeps the move. So does a use after a point where a's register is overwritten, or in a
    scope that declares a register of its name, if a's register is itself fixed; other sources get a new register (see `ptx-assign-registers`). Idempotent.
    """

    name: ClassVar[str] = "ptx-copy-propagation"

    def run_on_function(self, function: FunctionOp) -> None:
        if propagate_copies(function):
            assign_registers(function)


def propagate_copies(function: FunctionOp) -> bool:
    """Whether anything changed. May leave stale values whose register can be changed."""
    moves = [op for block in function.blocks for op in block.ops if isinstance(op, Instruction) and is_copy(op)]
    replaced: dict[tuple[Operation, int], SSAValue] = {}
    for move in moves:
        source, copy = move.operands[0], move.results[0]
        for use in list(copy.uses):
            place = (use.operation, use.index)
            if places_of(use.operation).is_free(use.index):
                replaced.setdefault(place, copy)
                use.operation.operands[use.index] = source
    if not replaced:
        return _erase_unused(moves)
    _restore(function, replaced)
    erased = _erase_unused(moves)
    return bool(replaced) or erased


def _restore(function: FunctionOp, replaced: dict[tuple[Operation, int], SSAValue]) -> None:
    """Undo what reads a fixed register after it was overwritten, outside its scope or where that is hidden."""
    cfg = cfg_of(function)
    while True:
        broken = {
            (v.op, v.value)
            for check in (check_registers, check_scopes)
            for v in check(function, cfg)
            if v.value is not None and is_fixed(v.value)
        }
        undo = [place for place in replaced if (place[0], place[0].operands[place[1]]) in broken]
        if not undo:
            return
        for op, index in undo:
            op.operands[index] = replaced.pop((op, index))


def _erase_unused(moves: list[Instruction]) -> bool:
    changed = False
    for move in reversed(moves):
        if move.results[0].first_use is None:
            erase(move)
            changed = True
    return changed


def is_copy(op: Instruction) -> bool:
    """Whether the op moves one register into another of the same class, always."""
    if not isinstance(op, Mov) or op.guard or len(op.layout) != 2 or len(op.operands) != 1 or len(op.results) != 1:
        return False
    if not all(isinstance(o, Register) and not o.member for o in op.layout):
        return False
    source, copy = cast(RegType, op.operands[0].type), cast(RegType, op.results[0].type)
    return source.register_class == copy.register_class
