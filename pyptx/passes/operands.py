"""What each operand of an op is for: read, guard, tied to a result, returned, or passed to a block argument.

Operands stand in the order registers read, registers read in flight or returned by `ret`, guard, old values of tied
results, then what is passed to each successor's arguments. Registers read and the guard are *free*: they may sit in
any register. The rest is *bound*: its type must be that of the result, of the function's returned register, of the
block argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, Operation

from ..dialects.ptx.attributes import LayoutAttr
from ..dialects.ptx.instruction import Instruction, silent_registers
from ..dialects.ptx.memo import Memo
from ..dialects.ptx.syntax import registers

_roles: Memo[LayoutAttr, tuple[str, ...]] = Memo()


def roles_of(op: Instruction) -> tuple[str, ...]:
    """Role of each register in the operand list, in text order: `=` written, `$` read, `~` both."""
    attr = op.properties["layout"]
    found = _roles.get(attr)  # pyright: ignore[reportArgumentType]
    if found is None:
        found = tuple(r.role for r in registers(op.layout))
        _roles[attr] = found  # pyright: ignore[reportArgumentType]
    return found


@dataclass(frozen=True, slots=True)
class Places:
    """Indices into the operands of one op."""

    reads: int
    """How many leading operands are free: registers read, by name or in flight."""
    returned: range
    """Values of the function's register results, which `ret` carries."""
    guard: int
    """Index of the guard, or -1."""
    ties: tuple[tuple[int, int], ...]
    """(operand, result) of each tied pair."""
    passed: int
    """Index of the first operand that is passed to a successor's argument."""

    def is_free(self, operand: int) -> bool:
        """Whether the operand may sit in any register."""
        return operand < self.reads or operand == self.guard


def places_of(op: Operation) -> Places:
    """The places of an op's operands; everything of a structural op is bound."""
    passed = len(op.operands) - sum(len(s.args) for s in op.successors)
    if not isinstance(op, Instruction):
        return Places(0, range(0), -1, (), passed)
    roles = roles_of(op)
    reads = sum(1 for r in roles if r == "$")
    silent_reads, silent_ties = silent_registers(op)
    at = reads + silent_reads
    returned = range(reads, at) if op.returns else range(0)
    if not op.returns:
        reads = at
    guard = at if op.guard else -1
    at += guard >= 0
    written = [r for r in roles if r != "$"]
    tied = list(range(len(written))) if guard >= 0 else [i for i, r in enumerate(written) if r == "~"]
    tied += range(len(written), len(written) + silent_ties)
    return Places(reads, returned, guard, tuple((at + i, result) for i, result in enumerate(tied)), passed)


def passed_of(op: Operation, places: Places | None = None) -> Iterator[tuple[int, int, Block, int]]:
    """(operand, successor, block, argument) of everything an op passes to block arguments."""
    at = places.passed if places is not None else len(op.operands) - sum(len(s.args) for s in op.successors)
    for successor, block in enumerate(op.successors):
        for argument in range(len(block.args)):
            yield at, successor, block, argument
            at += 1
