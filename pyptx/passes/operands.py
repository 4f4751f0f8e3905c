"""What each operand of an op is for: read, guard, tied to a result, returned, or passed to a block argument.

Operands stand in the order registers read, registers read in flight, guard, old values of tied results,
values of the function's register results (terminators only), then what is passed to each successor's
arguments. Only the first three kinds may be given another register freely; the rest are *bound* to a
register: their type must be the result's, the parameter's, the argument's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, Operation

from ..dialects.ptx.attributes import LayoutAttr
from ..dialects.ptx.instruction import Instruction, silent_registers
from ..dialects.ptx.syntax import registers

_roles: dict[LayoutAttr, tuple[str, ...]] = {}


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

    guard: int
    """Index of the guard, or -1."""
    free: int
    """How many leading operands are free: read, in flight, or the guard."""
    ties: tuple[tuple[int, int], ...]
    """(operand, result) of each tied pair."""
    returned: range
    """Values of the function's register results."""
    passed: int
    """Index of the first operand that is passed to a successor's argument."""


def places_of(op: Operation) -> Places:
    """The places of an op's operands; everything of a structural op is bound."""
    total = len(op.operands)
    passed = total - sum(len(s.args) for s in op.successors)
    if not isinstance(op, Instruction):
        return Places(-1, 0, (), range(0), passed)
    roles = roles_of(op)
    reads = sum(1 for r in roles if r == "$")
    silent_reads, silent_ties = silent_registers(op)
    reads += silent_reads
    guard = reads if op.guard else -1
    free = reads + (guard >= 0)
    written = [r for r in roles if r != "$"]
    tied = list(range(len(written))) if guard >= 0 else [i for i, r in enumerate(written) if r == "~"]
    tied += range(len(written), len(written) + silent_ties)
    ties = tuple((free + i, result) for i, result in enumerate(tied))
    return Places(guard, free, ties, range(free + len(ties), passed), passed)


def passed_of(op: Operation, places: Places | None = None) -> Iterator[tuple[int, int, Block, int]]:
    """(operand, successor, block, argument) of everything an op passes to block arguments."""
    at = places.passed if places is not None else len(op.operands) - sum(len(s.args) for s in op.successors)
    for successor, block in enumerate(op.successors):
        for argument in range(len(block.args)):
            yield at, successor, block, argument
            at += 1
