"""Repeated stretches of a function's statements: `period` statements that come `count` times, the same but for registers
and integers that follow a rule. What the compiler unrolled becomes a Python loop again.

A register at one place of the stretch is, from round to round, the same; or one that the round has made itself (local);
or one that the round before has made (carried); or any that were there before the loop (varying). An integer counts up
or down by a step. Conditions stand in the stretch as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dialects.ptx.structure import LocOp, UnknownOp
from ..dialects.ptx.syntax import Address, Immediate, Operand, Register, Symbol
from ..frontend.module.arguments import Statement
from ..ssa.statement import Kind, Reg, Shape
from .operands import constant

MAX_PERIOD = 48
MAX_TRIES = 4
"""Candidates looked at closely at one place, the most promising ones first."""

Place = tuple[int, int]
"""A register of the stretch: which statement, which of its registers."""


@dataclass(slots=True)
class Repeat:
    """A stretch of `period` statements from `start` on that comes `count` times."""

    start: int
    period: int
    count: int
    fresh: dict[Place, list[Reg]] = field(default_factory=dict[Place, "list[Reg]"])
    """The registers that each round makes, one for each round."""
    varying: dict[Place, list[Reg]] = field(default_factory=dict[Place, "list[Reg]"])
    carried: dict[Place, Place] = field(default_factory=dict[Place, Place])
    """What the round before made: where it is read -> where it is made."""
    local: dict[Place, Place] = field(default_factory=dict[Place, Place])
    """What the round has made itself: where it is read -> where it is made."""
    integers: dict[Place, list[int]] = field(default_factory=dict[Place, "list[int]"])
    """Integers that change: (statement, number of the integer in it)."""


@dataclass(slots=True)
class Function:
    """What finding repeats needs to know of a function."""

    statements: Sequence[Statement]
    borders: set[int]
    """Statements before which a block begins or ends: no stretch goes over them."""
    makes: Callable[[int], Sequence[Reg]]
    """The registers that a statement makes as `op` does; none if it writes into existing ones."""
    exact: Callable[[Shape, Sequence[Reg]], bool]
    """Whether an instruction must be spelled by `exact`."""
    start_of: dict[Reg, int]
    """The statement that mentions a register first; -1 for those that are there from the start."""
    role: Callable[[Reg], str] = lambda _: ""
    """What a register is for, as a counter or an accumulator: those of all rounds are for the same."""
    conditions: dict[int, int] = field(default_factory=dict[int, int])
    """Conditions that a stretch may hold: their branch -> their label, which nothing else jumps to."""


def find(function: Function) -> list[Repeat]:
    """Repeats that do not overlap, in order."""
    statements = function.statements
    count = len(statements)
    if count < 3:
        return []
    keys = _keys(function)
    scores, rounds = _scores(keys, function.borders, _conditions_at(function))
    best = scores.max(axis=0)
    found: list[Repeat] = []
    at = 0
    while at < count:
        if best[at] < 2:
            at += 1
            continue
        order = np.argsort(-scores[:, at], kind="stable")[:MAX_TRIES]
        repeat = None
        for candidate in order:
            if scores[candidate, at] < 2:
                break
            tried = _check(function, at, int(candidate) + 1, int(rounds[candidate, at]))
            if tried is not None and (
                repeat is None or tried.period * (tried.count - 1) > repeat.period * (repeat.count - 1)
            ):
                repeat = tried
        if repeat is None:
            at += 1
            continue
        found.append(repeat)
        at += repeat.period * repeat.count
    return found


def worthwhile(period: int, count: int) -> bool:
    """Whether a loop is easier to read than the statements one by one."""
    return count >= 3 or (count == 2 and period >= 8)


def _keys(function: Function) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Equal numbers for statements that differ only in registers of the same classes and in integers."""
    numbers: dict[object, int] = {}
    known: dict[int, object] = {}
    keys = np.empty(len(function.statements), dtype=np.int64)
    labels = set(function.conditions.values())
    for at, (shape, regs, _, _, _) in enumerate(function.statements):
        if at in function.conditions or at in labels:
            size = function.conditions.get(at, at) - at
            keys[at] = numbers.setdefault((shape.guard_mark, shape.modifiers if size else (), size), len(numbers))
            continue
        if id(shape) not in known:
            known[id(shape)] = _without_integers(shape)
        skeleton = known[id(shape)]
        if skeleton is None:
            keys[at] = -1 - at
            continue
        key = (skeleton, *[r.register_class for r in regs])
        keys[at] = numbers.setdefault(key, len(numbers))
    return keys


def _conditions_at(function: Function) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each place between two statements the innermost condition that it is in, by its branch; -1 for none."""
    found = np.full(len(function.statements) + 1, -1, dtype=np.int64)
    for branch, label in sorted(function.conditions.items()):
        found[branch + 1 : label] = branch
    return found


def _scores(
    keys: np.ndarray[Any, np.dtype[np.int64]], borders: set[int], inside: np.ndarray[Any, np.dtype[np.int64]]
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    """For each period (from 1) and place: statements saved by a loop there, and how often the stretch comes."""
    size = len(keys)
    places = np.arange(size)
    edge = np.array(sorted({b for b in borders if 0 < b < size} | {size}))
    room = edge[np.searchsorted(edge, places, side="right")] - places
    periods = min(MAX_PERIOD, size // 2)
    scores = np.zeros((periods, size), dtype=np.int64)
    rounds = np.zeros((periods, size), dtype=np.int64)
    for period in range(1, periods + 1):
        same = keys[:-period] == keys[period:]
        breaks = np.append(np.flatnonzero(~same), size - period)
        length = np.zeros(size, dtype=np.int64)
        length[: size - period] = breaks[np.searchsorted(breaks, places[: size - period])] - places[: size - period]
        count = np.minimum(length // period + 1, room // period)
        worth = (count >= 3) | ((count == 2) & (period >= 8))
        worth[: size - period] &= inside[: size - period] == inside[period:size]
        rounds[period - 1] = count
        scores[period - 1] = np.where(worth, (count - 1) * period, 0)
    return scores, rounds


def _check(function: Function, start: int, period: int, count: int) -> Repeat | None:
    """The repeat with as many rounds as follow the rules."""
    while worthwhile(period, count):
        repeat = Repeat(start, period, count)
        allowed = _fill(function, repeat)
        if allowed == count:
            return repeat
        count = allowed
    return None


def _fill(function: Function, repeat: Repeat) -> int:
    """Work out what changes from round to round; how many rounds it holds for."""
    start, period, count = repeat.start, repeat.period, repeat.count
    statements = function.statements
    made: dict[Reg, tuple[int, Place]] = {}
    for k in range(period):
        first = function.makes(start + k)
        shape, regs, _, _, _ = statements[start + k]
        offset = 1 if shape.guard >= 0 else 0
        exact = function.exact(shape, regs)
        for i in range(count):
            at = start + i * period + k
            makes = function.makes(at) if i else first
            if len(makes) != len(first) or function.exact(statements[at][0], statements[at][1]) != exact:
                return i
            if any(function.role(a) != function.role(b) for a, b in zip(first, makes, strict=True)):
                return i
            for j, reg in enumerate(makes):
                made[reg] = i, (k, offset + j)
                repeat.fresh.setdefault((k, offset + j), []).append(reg)
    allowed = count
    for k in range(period):
        for j in range(len(statements[start + k][1])):
            if (k, j) in repeat.fresh:
                continue
            column = [statements[start + i * period + k][1][j] for i in range(count)]
            allowed = min(allowed, _column(function, repeat, (k, j), column, made))
        allowed = min(
            allowed, _integer_columns(repeat, k, [statements[start + i * period + k][0] for i in range(count)])
        )
    return allowed if _accumulates(repeat) else 0


def _accumulates(repeat: Repeat) -> bool:
    """Whether what goes from round to round is computed from what came from the round before: else the stretch only
    begins in the middle of what an author would repeat.
    """
    needs: list[set[Place]] = [set() for _ in range(repeat.period)]
    for place in sorted((*repeat.carried, *repeat.local)):
        made = repeat.carried.get(place)
        needs[place[0]] |= {made} if made is not None else needs[repeat.local[place][0]]
    return all(made in needs[made[0]] for made in repeat.carried.values())


def _column(
    function: Function, repeat: Repeat, place: Place, column: list[Reg], made: dict[Reg, tuple[int, Place]]
) -> int:
    first = made.get(column[0])
    if first is not None:  # local
        if first[0] != 0 or first[1][0] >= place[0]:
            return 0
        repeat.local[place] = first[1]
        return next((i for i, reg in enumerate(column) if made.get(reg) != (i, first[1])), len(column))
    second = made.get(column[1])
    if second is not None and second[0] == 0:  # carried
        if place[0] > second[1][0]:
            return 0
        repeat.carried[place] = second[1]
        return next((i for i, reg in enumerate(column) if i and made.get(reg) != (i - 1, second[1])), len(column))
    before = next(
        (i for i, reg in enumerate(column) if reg in made or function.start_of[reg] >= repeat.start), len(column)
    )
    if any(reg is not column[0] for reg in column[:before]):
        repeat.varying[place] = column
    return before


def _integer_columns(repeat: Repeat, k: int, shapes: Sequence[Shape]) -> int:
    if all(shape is shapes[0] for shape in shapes):
        return len(shapes)
    allowed = len(shapes)
    rows = [integers(shape) for shape in shapes]
    for hole in range(len(rows[0])):
        values = [row[hole] for row in rows]
        step = values[1] - values[0]
        allowed = min(allowed, next((i for i, v in enumerate(values) if v != values[0] + step * i), len(values)))
        if step:
            repeat.integers[k, hole] = values
    return allowed


# ------------------------------------------------------------------------------------------------------------ integers


def plain_integer(text: str) -> bool:
    """Whether a constant is written the same in Python, as an int."""
    return constant(text, False) == text and not any(c in text for c in ".e")


def offset_of(operand: Address) -> int | None:
    """The offset of an address, 0 where it has none; None where it is not for a loop to count (`+0` is neither)."""
    match operand.base:
        case Register(_, "") | Symbol(_, ""):
            pass
        case _:
            return None
    if not operand.offset:
        return None if operand.rest else 0
    number = operand.offset[1:]
    return int(number) or None if operand.offset[0] == "+" and plain_integer(number) else None


def integers(shape: Shape) -> list[int]:
    """The integers of an instruction that a loop may count, in order of its operands."""
    found: list[int] = []
    for operand in shape.layout:
        if isinstance(operand, Immediate) and plain_integer(operand.text):
            found.append(int(operand.text))
        elif isinstance(operand, Address):
            offset = offset_of(operand)
            if offset is not None:
                found.append(offset)
    return found


def _without_integers(shape: Shape) -> tuple[object, ...] | None:
    """What the instructions of a repeat have in common; None for what repeats are not made of."""
    if shape.op_class is LocOp:
        return tuple(shape.tokens)
    if shape.kind != Kind.INSTRUCTION or shape.instruction is None or shape.op_class is UnknownOp:
        return None
    operands = tuple([_without_integer(o) for o in shape.layout])
    return shape.instruction, shape.modifiers, shape.guard_mark, "written" in shape.attributes, operands


def _without_integer(operand: Operand) -> object:
    if isinstance(operand, Address) and offset_of(operand) is not None:
        return Address(operand.base, "", operand.rest, operand.unified)
    if isinstance(operand, Immediate) and plain_integer(operand.text):
        return Immediate("0")
    return operand


__all__ = ["Function", "Repeat", "find", "integers", "offset_of", "plain_integer"]
