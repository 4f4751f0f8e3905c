"""The values that operations read, keep and pass on, and their registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation, SSAValue

from ..dialects.ptx.instruction import Instruction, silent_registers
from ..dialects.ptx.syntax import Register, registers
from ..dialects.ptx.types import RegType


def guard_value(op: Instruction) -> SSAValue | None:
    """The predicate that guards an instruction, or None."""
    if not op.guard:
        return None
    reads = sum(1 for r in registers(op.layout) if r.role == "$")
    return op.operands[reads + silent_registers(op)[0]]


def read_values(op: Instruction, *, accumulators: bool = True) -> list[SSAValue]:
    """The values an instruction reads as data: its own operands and its guard, not the old values that a
    guard may keep. `accumulators`: also those of the registers that it reads and writes."""
    placed = registers(op.layout)
    reads = sum(1 for r in placed if r.role == "$")
    found = list(op.operands[:reads])
    guard = guard_value(op)
    if guard is not None:
        found.append(guard)
    if not accumulators:
        return found
    first = reads + silent_registers(op)[0] + (guard is not None)
    for i, register in enumerate(r for r in placed if r.role != "$"):
        if register.role == "~":
            # ties are there for every written register of a guarded op, else for the `~` ones only
            tie = i if guard is not None else sum(1 for r in _written(placed)[:i] if r.role == "~")
            found.append(op.operands[first + tie])
    return found


def tied_values(op: Instruction) -> list[tuple[SSAValue, SSAValue]]:
    """(result, the old value it keeps where the instruction does not run) of a guarded instruction."""
    guard = guard_value(op)
    if guard is None or not op.results:
        return []
    reads = sum(1 for r in registers(op.layout) if r.role == "$")
    first = reads + silent_registers(op)[0] + 1
    return list(zip(op.results, op.operands[first : first + len(op.results)], strict=False))


def passed_values(op: Operation) -> list[tuple[int, SSAValue, SSAValue]]:
    """(successor index, block argument, value passed) of a terminator."""
    total = sum(len(s.args) for s in op.successors)
    position = len(op.operands) - total
    found: list[tuple[int, SSAValue, SSAValue]] = []
    for i, successor in enumerate(op.successors):
        for argument in successor.args:
            found.append((i, argument, op.operands[position]))
            position += 1
    return found


def _written(placed: Sequence[Register]) -> list[Register]:
    return [r for r in placed if r.role != "$"]


def register_class(value: SSAValue) -> str:
    """`b32`, `pred`, `v2.f32`."""
    return cast(RegType, value.type).data[0]


def register_name(value: SSAValue) -> str:
    """The register a value sits in, for messages; a blank one has only its class."""
    class_, name, _ = cast(RegType, value.type).data
    return name or f"a .{class_} value"


def line_of(op: Operation) -> int | None:
    """The source line an op came from, if it is known."""
    location = op.location
    return location.line.data if isinstance(location, FileLineColLoc) else None


def file_of(op: Operation) -> str | None:
    """The source file an op came from, if it is known."""
    location = op.location
    return location.filename.data if isinstance(location, FileLineColLoc) else None
