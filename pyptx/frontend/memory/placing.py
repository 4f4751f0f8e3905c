"""Where the allocations of shared memory are, once a kernel is traced: a `.shared` array each, or pieces of `dyn_smem`."""

from __future__ import annotations

from functools import lru_cache

from ...dialects.ptx.memo import Memo
from ...dialects.ptx.structure import VariableOp
from ...dialects.ptx.syntax import Address, Layout, Operand, Symbol, transform
from ...ssa.shapes import fill_instruction
from ...ssa.statement import Shape, Statement
from ..core.trace import Trace, declaration_shape
from .shared import Allocation

__all__ = ["place_allocations", "symbols_of"]


def place_allocations(trace: Trace, dynamic: bool) -> list[Statement]:
    """Settle where the allocations are: rewrite the references and return the `.shared` declarations that are
    needed.
    """
    places: _Places = {}
    allocations = [a for a in trace.allocations.values() if isinstance(a, Allocation)]
    for a in allocations:
        for name in (a.symbol, a.by_name):
            found = a.resolved(dynamic, name is not a.symbol)
            if found != (name, 0):
                places[name] = found
    memo = {shape: _moved(trace, shape, places) for shape in trace.used} if places else {}
    for shape, changed in memo.items():
        if changed is not shape:
            trace.used[changed] = trace.used[shape]
    if any(changed is not shape for shape, changed in memo.items()):
        for statements in (trace.statements, *trace.insertions.values()):
            for i, statement in enumerate(statements):
                changed = memo.get(statement[0])
                if changed is not None and changed is not statement[0]:
                    statements[i] = (changed, *statement[1:])
    if dynamic:
        return []
    return [
        (declaration_shape(VariableOp, a.declared[0], a.symbol, tail=a.declared[1]), (), "", 0, "") for a in allocations
    ]


_Places = dict[str, tuple[str, int]]
"""Symbol in a reference -> the symbol and the offset in bytes that it means, where they differ."""


@lru_cache(maxsize=20_000)
def symbols_of(layout: Layout) -> tuple[str, ...]:
    """The symbols in an operand list."""
    found: list[str] = []

    def note(operand: Operand) -> Operand:
        if isinstance(operand, Symbol):
            found.append(operand.name)
        return operand

    transform(layout, note)
    return tuple(found)


_moves: Memo[tuple[Shape, tuple[tuple[str, tuple[str, int]], ...]], Shape] = Memo()


def _moved(trace: Trace, shape: Shape, places: _Places) -> Shape:
    """The shape with its symbols where they are; the same one for the same places, as what is printed hangs on it."""
    cls = shape.instruction
    named = tuple((n, places[n]) for n in symbols_of(shape.plain_layout) if n in places) if cls is not None else ()
    if not named or cls is None:
        return shape
    made = _moves.get((shape, named))
    if made is None:
        made = _moves[shape, named] = Shape(shape.kind, [], [])
        classes = shape.bare[1:] if shape.guard >= 0 else shape.bare
        fill_instruction(made, cls, shape.modifiers, _rewrite(shape.plain_layout, places), classes, shape.guard_mark)
        made.attributes.pop("written", None)
        made.bare, made.styled, made.name = shape.bare, True, shape.name
    return made


def _rewrite(layout: Layout, places: _Places) -> Layout:
    def place(name: str, offset: str) -> tuple[str, str]:
        symbol, start = places.get(name, (name, 0))
        if not start:
            return symbol, offset
        if not offset:
            return symbol, f"+{start}"
        number = offset[1:]
        return symbol, f"+{start + int(number)}" if number.lstrip("-").isdigit() else f"+{start}{offset}"

    def walk(operand: Operand) -> Operand:
        match operand:
            case Address(Symbol(name, _), offset, rest, unified):
                name, offset = place(name, offset)
                return Address(Symbol(name), offset, tuple(walk(r) for r in rest), unified)
            case Symbol(name, offset):
                return Symbol(*place(name, offset))
            case Address(base_, offset, rest, unified):
                return Address(base_, offset, tuple(walk(r) for r in rest), unified)
            case _:
                return transform(
                    (operand,), lambda o: Symbol(*place(o.name, o.offset)) if isinstance(o, Symbol) else o
                )[0]

    return tuple(walk(operand) for operand in layout)
