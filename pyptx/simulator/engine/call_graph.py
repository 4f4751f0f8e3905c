"""Which functions an entry reaches, and in what order they are decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation

from ...dialects.ptx import syntax
from ...dialects.ptx.control import Call
from ...dialects.ptx.instruction import Instruction
from ...dialects.ptx.structure import FunctionOp
from .image import Image

__all__ = ["reach", "symbols_in"]

Calls = dict[str, list[str]]


def reach(image: Image, entry: FunctionOp) -> tuple[list[str], set[str]]:
    """Functions in the order callees first, and those that may be active twice in one thread."""
    taken: dict[str, None] = {}
    for v in image.variables.values():
        taken |= dict.fromkeys(word for word in v.declaration.items[v.index][1] if word in image.functions)
    calls = _calls(image, entry, taken)
    return _callees_first(calls, [*taken, entry.symbol])


def _calls(image: Image, entry: FunctionOp, taken: dict[str, None]) -> Calls:
    """What each function calls. An indirect call may go to any function whose address is `taken`, which is added to."""
    calls: Calls = {}
    indirect: dict[str, None] = {}
    work = [entry.symbol, *taken]
    while work:
        symbol = work.pop()
        if symbol in calls:
            continue
        called = calls[symbol] = list[str]()
        for op in (op for block in image.operations[symbol].blocks for op in block.ops):
            if not isinstance(op, Instruction):
                continue
            named = [s for s in symbols_in(op) if s in image.functions]
            work += named
            if not isinstance(op, Call):
                taken |= dict.fromkeys(named)
                continue
            called += named
            if any(isinstance(o, syntax.Register) for o in op.layout):
                indirect[symbol] = None
    for symbol in indirect:
        calls[symbol] += taken
    return calls


def _callees_first(calls: Calls, roots: Sequence[str]) -> tuple[list[str], set[str]]:
    """The functions below the roots, and those that may call themselves. Depth first, without Python's stack: call chains
    may be long.
    """
    order: list[str] = []
    done: dict[str, bool] = {}
    recursive: set[str] = set()
    path: list[str] = []
    for root in roots:
        work = [root] if root not in done else []
        while work:
            symbol = work[-1]
            if symbol not in done:
                done[symbol] = False
                path.append(symbol)
                for callee in calls.get(symbol, ()):
                    if done.get(callee) is False:
                        recursive.update(path[path.index(callee) :])
                work += [c for c in reversed(calls.get(symbol, ())) if c not in done]
                continue
            work.pop()
            if done[symbol]:
                continue
            if any(c in recursive and _reaches(calls, c, symbol) for c in calls.get(symbol, ())):
                recursive.add(symbol)
            path.pop()
            done[symbol] = True
            order.append(symbol)
    return order, recursive


def _reaches(calls: Calls, start: str, goal: str) -> bool:
    work, seen = [start], set[str]()
    while work:
        at = work.pop()
        if at == goal:
            return True
        if at not in seen:
            seen.add(at)
            work += calls.get(at, ())
    return False


def symbols_in(op: Operation) -> Iterator[str]:
    """Every symbol named by the operands of an instruction."""
    if isinstance(op, Instruction):
        for operand in op.layout:
            yield from _symbols(operand)


def _symbols(operand: syntax.Operand) -> Iterator[str]:
    match operand:
        case syntax.Symbol(name):
            yield name
        case syntax.Not(inner) | syntax.Sum(inner):
            yield from _symbols(inner)
        case syntax.Pair(first, second):
            yield from _symbols(first)
            yield from _symbols(second)
        case syntax.Element(array, index):
            yield from _symbols(array)
            yield from _symbols(index)
        case syntax.Vector(elements) | syntax.Arguments(elements):
            for e in elements:
                yield from _symbols(e)
        case syntax.Address(base, _, rest):
            yield from _symbols(base)
            for e in rest:
                yield from _symbols(e)
        case _:
            pass
