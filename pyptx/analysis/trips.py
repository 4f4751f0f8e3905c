"""How often a loop runs, where a counter with constant start, step and end decides it."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ..dialects.ptx.comparison import Setp
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.integer import Add, Sub
from ..dialects.ptx.operands import Bound, Negated, Value, bound_operands
from ..dialects.ptx.syntax import Immediate
from .cfg import CFG
from .loops import Loop
from .operands import guard_value, passed_values
from .threads import Threads

_MOST = 1 << 20


def trip_count(cfg: CFG, loop: Loop, threads: Threads) -> int | None:
    """How often the body of a loop runs, or None. Only for a loop with one exit, by a comparison with a
    constant."""
    sources = {e[0] for e in loop.exits}
    if len(sources) != 1:
        return None
    (source,) = sources
    last = cfg.blocks[source].last_op
    if not isinstance(last, Instruction) or len(cfg.successors[source]) != 2:
        return None
    guard = guard_value(last)
    if guard is None or not isinstance(guard.owner, Setp):
        return None
    compare = guard.owner
    stays_if = (cfg.successors[source][0] in loop.blocks) == (last.guard == "@")
    operands = bound_operands(compare)
    if len(operands) != 3:
        return None
    for counter, end, flipped in ((operands[1], operands[2], False), (operands[2], operands[1], True)):
        limit = _constant(end, threads)
        walk = _counter(cfg, loop, counter, threads)
        if limit is None or walk is None:
            continue
        start, step, ahead = walk
        relation = next((m for m in compare.modifiers if m in _RELATIONS), None)
        if relation is None:
            return None
        runs = 0
        value = start + ahead
        while runs < _MOST:
            runs += 1
            holds = _RELATIONS[relation](limit, value) if flipped else _RELATIONS[relation](value, limit)
            if holds != stays_if:
                # a test at the header is made once more than the body runs
                return runs if source != loop.header or source in loop.latches else runs - 1
            value += step
        return None
    return None


_RELATIONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b, "hs": lambda a, b: a >= b,
}  # fmt: skip


def _constant(operand: Bound, threads: Threads) -> int | None:
    if isinstance(operand, Immediate):
        return None if isinstance(operand.value, float) else int(operand.value)
    lanes = threads.lanes(operand.value) if isinstance(operand, Value) else None
    return None if lanes is None else lanes.constant


def _counter(cfg: CFG, loop: Loop, operand: Bound, threads: Threads) -> tuple[int, int, int] | None:
    """(start, step, how far the operand is ahead of the counter) of a loop counter with constant start and
    step."""
    if isinstance(operand, Negated) or not isinstance(operand, Value):
        return None
    base, ahead = _minus_constants(operand.value, threads)
    header = cfg.blocks[loop.header]
    if base not in header.args:
        return None
    start: int | None = None
    step: int | None = None
    for p, block in enumerate(cfg.blocks):
        last = block.last_op
        if last is None or header not in last.successors:
            continue
        for successor, argument, passed in passed_values(last):
            if argument is not base or last.successors[successor] is not header:
                continue
            if p in loop.blocks:
                origin, delta = _minus_constants(passed, threads)
                if origin is not base or step not in (None, delta):
                    return None
                step = delta
            else:
                lanes = threads.lanes(passed)
                constant = None if lanes is None else lanes.constant
                if constant is None or start not in (None, constant):
                    return None
                start = constant
    if start is None or not step:
        return None
    return start, step, ahead


def _minus_constants(value: SSAValue, threads: Threads) -> tuple[SSAValue, int]:
    """Strip additions of constants: `(base, sum)`."""
    total = 0
    while isinstance(owner := value.owner, (Add, Sub)) and not owner.guard:
        _, a, b = bound_operands(owner)
        if (amount := _constant(b, threads)) is not None and isinstance(a, Value):
            total += amount if isinstance(owner, Add) else -amount
            value = a.value
        elif (amount := _constant(a, threads)) is not None and isinstance(b, Value) and owner.commutative:
            total += amount
            value = b.value
        else:
            break
    return value, total
