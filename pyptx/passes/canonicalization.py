"""What xDSL's `canonicalize` does with PTX: constants fold, neutral elements go, copies are read at their source.

Values may then sit in registers that were overwritten; the target `ptx` repairs that when it prints (see `settle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from ..dialects.ptx.effects import effect_of
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.move import Mov
from ..dialects.ptx.operands import Value
from ..dialects.ptx.rewrites import Rewrites, install
from ..dialects.ptx.types import RegType
from .assign_registers import move_op
from .copy_propagation import is_copy
from .fold import constant_move, extended, folded, moved_constant, neutral
from .operands import places_of


def known_constant(value: SSAValue) -> int | None:
    """The bits of a value that an unguarded `mov` of a constant defines; None for others."""
    op = value.owner if isinstance(value, OpResult) else None
    if not isinstance(op, Mov) or op.guard or op.operands:
        return None
    return moved_constant(op, lambda _: None)


def fold(op: Instruction) -> Sequence[int] | None:
    """The bits of the results of an unguarded pure instruction on constants, as they are in their registers."""
    if op.guard or op.terminator or not op.results or effect_of(op) != "pure":
        return None
    if isinstance(op, Mov):
        bits = moved_constant(op, known_constant) if op.operands else None
        return None if bits is None else (bits,)
    results = folded(op, known_constant)
    if results is None:
        return None
    types = [cast(RegType, result.type) for result in op.results]
    bits = [extended(op, register, value) for register, value in zip(types, results, strict=True)]
    if any(constant_move(value, register) is None for value, register in zip(bits, types, strict=True)):
        return None
    return bits


class NeutralElement(RewritePattern):
    """`a + 0`, `a * 1`, `a & 0` and the like become moves."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, Instruction) or op.guard or op.terminator or effect_of(op) != "pure":
            return
        if isinstance(op, Mov):
            return
        source = neutral(op, known_constant)
        register = cast(RegType, op.results[0].type) if source is not None else None
        move: Operation | None = None
        if register is not None and isinstance(source, int):
            move = constant_move(source, register, op.location)
        elif register is not None and isinstance(source, Value) and not source.member:
            if cast(RegType, source.value.type).register_class == register.register_class:
                move = move_op(source.value, register, op.location)
        if move is None:
            return
        if (lead := op.attributes.get("lead")) is not None:
            move.attributes["lead"] = lead
        rewriter.replace(op, move)


class ReadSource(RewritePattern):
    """Uses of a copy read its source, but for those that fix the register (block arguments, tied operands)."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, Instruction) or not is_copy(op):
            return
        source, copy = op.operands[0], op.results[0]
        free = [use for use in copy.uses if places_of(use.operation).is_free(use.index)]
        for use in free:
            use.operation.operands[use.index] = source
            rewriter.handle_operation_modification(use.operation)


install(Rewrites(fold, constant_move, (NeutralElement(), ReadSource())))
