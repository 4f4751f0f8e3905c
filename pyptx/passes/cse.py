"""`ptx-cse`: compute equal values once."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, cast

from xdsl.ir import SSAValue

from ..analysis.cfg import cfg_of
from ..dialects.ptx.effects import effect_of, is_value
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.movement import Load
from ..dialects.ptx.structure import EntryOp, FunctionOp
from ..dialects.ptx.syntax import Address, Symbol, registers
from ..dialects.ptx.types import RegType
from .assign_registers import assign_registers
from .operands import places_of
from .ptx_pass import FunctionPass
from .trivia import erase


class CommonSubexpressions(FunctionPass):
    """Use the value of a dominating instruction instead of computing it again.

    Contract: merges instructions that depend on their operands alone (pure, unguarded, not warp-wide, no
    clock or other changing special register) and weak `ld.param` of a kernel's own parameters; no other load,
    so nothing is merged across memory or ordering effects. The later instruction goes when all uses could be
    redirected; a use that fixes the register (block argument, tied operand, returned register) keeps it.
    Values whose registers are then overwritten too early, or hidden by an inner scope's, get new ones (see `ptx-assign-registers`).
    Idempotent.
    """

    name: ClassVar[str] = "ptx-cse"

    def run_on_function(self, function: FunctionOp) -> None:
        if merge_equal_values(function):
            assign_registers(function)


def merge_equal_values(function: FunctionOp) -> bool:
    """One walk over the dominator tree; whether anything was merged. May leave stale registers."""
    cfg = cfg_of(function)
    tree = cfg.dominators()
    known: dict[object, Instruction] = {}
    log: list[tuple[object, Instruction | None]] = []
    marks: list[tuple[int, int]] = []
    changed = False
    own = function.parameters if isinstance(function, EntryOp) else ()
    parameters = frozenset(name for d in own for name, _ in d.items)
    for b in tree.preorder:
        while marks and not tree.dominates(marks[-1][0], b):
            _undo(known, log, marks.pop()[1])
        marks.append((b, len(log)))
        for op in list(cfg.blocks[b].ops):
            if not isinstance(op, Instruction) or not (is_value(op) or _is_parameter_load(op, parameters)):
                continue
            key = _key(op)
            earlier = known.get(key)
            if earlier is None:
                log.append((key, None))
                known[key] = op
            elif _redirect(op, earlier):
                changed = True
                erase(op)
    return changed


def _is_parameter_load(op: Instruction, parameters: Collection[str]) -> bool:
    """An unguarded weak `ld.param` of one of the kernel's own parameters: nobody can write it."""
    if not isinstance(op, Load) or op.guard or op.slot("space") not in ("param", "param::entry"):
        return False
    address = op.layout[-1]
    if effect_of(op) != "read":
        return False
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return False
    return address.base.name in parameters


def _undo(known: dict[object, Instruction], log: list[tuple[object, Instruction | None]], mark: int) -> None:
    while len(log) > mark:
        key, _ = log.pop()
        del known[key]


def _key(op: Instruction) -> object:
    """Equal for instructions that compute the same values into registers of the same classes."""
    operands: object = tuple(op.operands)
    binary = len(op.operands) == 2 and len(registers(op.layout)) == len(op.layout) == 3
    if op.commutative and binary and len(set(op.scalar_types[1:])) == 1:
        operands = frozenset(op.operands)
    classes = tuple(cast(RegType, r.type).register_class for r in op.results)
    return type(op), frozenset(op.properties.items()), operands, classes


def _redirect(op: Instruction, earlier: Instruction) -> bool:
    """Make all uses of `op` read `earlier`, if none of them fixes the register."""
    uses = [(use.operation, use.index) for result in op.results for use in result.uses]
    if not all(places_of(user).is_free(index) for user, index in uses):
        return False
    for old, new in zip(op.results, earlier.results, strict=True):
        replace_uses(old, new)
    return True


def replace_uses(old: SSAValue, new: SSAValue) -> None:
    for use in list(old.uses):
        use.operation.operands[use.index] = new
