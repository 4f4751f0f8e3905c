"""Which of a function's pointer parameters it writes through, by following what is computed from them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.ir import Operation, SSAValue

from ..dialects.ptx.control import Call
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.operands import Bound, Group, Memory, Negated, Value, bound_operands
from ..dialects.ptx.syntax import Layout
from .cfg import CFG
from .operands import passed_values, register_class
from .shared import symbols

__all__ = ["Written", "written_parameters"]


@dataclass(slots=True)
class Written:
    """`writes`: parameter -> the first op that stores, reduces or copies to where it points; `escaped`: parameters whose
    address goes where it cannot be followed (into memory, or to another function).
    """

    writes: dict[str, Instruction] = field(default_factory=dict[str, Instruction])
    escaped: set[str] = field(default_factory=set[str])


def written_parameters(cfg: CFG, parameters: Collection[str]) -> Written:
    """Follow the parameters of these names (64-bit addresses, of data or of tensor maps)."""
    found = Written()
    origins: dict[SSAValue, frozenset[str]] = {}
    wanted = frozenset(parameters)
    ops = [op for inner in cfg.ops for op in inner if isinstance(op, Instruction) and _names(op.layout) & wanted]
    work = deque[Operation](ops)
    waiting = set[Operation](ops)
    while work:
        op = work.popleft()
        waiting.remove(op)
        more: list[SSAValue] = []
        if isinstance(op, Instruction):
            more += _step(op, _names(op.layout) & wanted, origins, found)
        for _, argument, passed in passed_values(op):
            if _add(origins, argument, origins.get(passed, frozenset())):
                more.append(argument)
        users = dict.fromkeys(use.operation for value in more for use in value.uses)
        work += [user for user in users if user not in waiting]
        waiting.update(users)
    return found


def _step(
    op: Instruction, named: frozenset[str], origins: dict[SSAValue, frozenset[str]], found: Written
) -> list[SSAValue]:
    """What one op does with addresses; the values of which more is known now."""
    bound = bound_operands(op)
    if isinstance(op, Call):
        for operand in bound:
            found.escaped.update(_origins(operand, origins), named)
        return []
    target = next((b for b in bound if isinstance(b, Memory)), None)
    if target is not None and op.access in ("store", "atomic", "copy"):
        for operand in bound:
            if operand is target:
                names = _origins(target.base, origins)
                if len(names) > 1:  # a difference of two of them, or bits of one: which it points to is not known
                    found.escaped.update(names)
                for name in names if len(names) == 1 else ():
                    found.writes.setdefault(name, op)
            elif not isinstance(operand, Memory):
                found.escaped.update(_origins(operand, origins))
        return []
    reached = named if op.access == "load" else named.union(*(origins.get(v, ()) for v in op.operands))
    return [r for r in op.results if reached and register_class(r) != "pred" and _add(origins, r, reached)]


def _add(origins: dict[SSAValue, frozenset[str]], value: SSAValue, more: frozenset[str]) -> bool:
    known = origins.get(value, frozenset[str]())
    if more <= known:
        return False
    origins[value] = known | more
    return True


def _origins(operand: Bound, origins: dict[SSAValue, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(origins.get(v, ()) for v in _values(operand)))


def _values(operand: Bound) -> Iterator[SSAValue]:
    match operand:
        case Value(value, False):
            yield value
        case Memory(base, _, rest):
            yield from _values(base)
            for part in rest:
                yield from _values(part)
        case Group(parts):
            for part in parts:
                yield from _values(part)
        case Negated(inner):
            yield from _values(inner)
        case _:
            pass


@lru_cache(maxsize=8192)
def _names(layout: Layout) -> frozenset[str]:
    return frozenset(symbols(layout))
