"""Calls of functions with their parameter blocks, as one `call(f, a, b)`: what `frontend.calls` makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dialects.ptx.structure import DeclarationAttr, VariableOp
from ..dialects.ptx.syntax import Address, Arguments, Immediate, Operand, Register, Symbol
from ..dialects.ptx.types import SCALAR_TYPES
from ..frontend.arguments import Statement
from ..frontend.calls import default_type
from ..ssa.statement import Kind, Reg, Shape

__all__ = ["Called", "called_at"]


@dataclass(frozen=True, slots=True)
class Called:
    """A call: its function, the operands and registers of its arguments, and what it makes."""

    size: int
    function: str
    arguments: list[tuple[Operand, Sequence[Reg]]]
    types: list[str]
    returns: str
    style: str
    load: int
    """The statement that loads the result; -1 without one."""


def called_at(statements: Sequence[Statement], at: int) -> Called | None:
    """The call whose block opens at a statement, if `call` makes the same."""
    end = at + 1
    while end < len(statements) and statements[end][0].kind not in (Kind.OPEN, Kind.CLOSE):
        end += 1
    if end >= len(statements) or statements[end][0].kind != Kind.CLOSE:
        return None
    body = list(range(at + 1, end))
    stores = [i for i in body if _words(statements[i][0])[:2] == ("st", "param")]
    calls = [i for i in body if _words(statements[i][0]) == ("call", "uni")]
    loads = [i for i in body if _words(statements[i][0])[:2] == ("ld", "param")]
    if len(calls) != 1 or len(loads) > 1 or not stores:
        return None
    types = [_words(statements[i][0])[-1] for i in stores]
    returns = _words(statements[loads[0]][0])[-1] if loads else ""
    if any(t not in SCALAR_TYPES for t in (*types, *([returns] if returns else []))):
        return None
    function = _function(statements[calls[0]][0], len(stores), bool(loads))
    if function is None:
        return None
    for style, offset in (("llvm", ""), ("nvcc", "+0")):
        if _seen(statements, body) == _expected(types, returns, style, offset):
            arguments = [(statements[i][0].layout[1], statements[i][1]) for i in stores]
            return Called(end + 1 - at, function, arguments, types, returns, style, loads[0] if loads else -1)
    return None


def _words(shape: Shape) -> tuple[str, ...]:
    if shape.instruction is None or shape.guard >= 0:
        return ()
    return (*shape.instruction.opcode.split("."), *shape.modifiers)


def _function(shape: Shape, count: int, returns: bool) -> str | None:
    names = Arguments(tuple(Symbol(f"param{i}") for i in range(count)))
    match shape.layout:
        case (Arguments((Symbol("retval0", ""),)), Symbol(name, ""), arguments) if returns and arguments == names:
            return name
        case (Symbol(name, ""), arguments) if not returns and arguments == names:
            return name
        case _:
            return None


def _seen(statements: Sequence[Statement], body: Sequence[int]) -> list[tuple[object, ...]]:
    """The statements of a block, without the values stored and loaded."""
    found: list[tuple[object, ...]] = []
    for i in body:
        shape = statements[i][0]
        if shape.op_class is VariableOp and isinstance(shape.payload, DeclarationAttr):
            found.append(("variable", *shape.payload.data))
        elif len(shape.layout) == 2 and isinstance(shape.layout[0], Address):
            plain = isinstance(shape.layout[1], Immediate) or isinstance(shape.layout[1], Register)
            plain = plain and not getattr(shape.layout[1], "member", "")
            found.append((_words(shape), shape.layout[0]) if plain else ())
        elif len(shape.layout) == 2 and isinstance(shape.layout[1], Address):
            plain = isinstance(shape.layout[0], Register) and not shape.layout[0].member
            found.append((_words(shape), shape.layout[1]) if plain else ())
        else:
            found.append((_words(shape),))
    return found


def _expected(types: Sequence[str], returns: str, style: str, offset: str) -> list[tuple[object, ...]]:
    def variable(dtype: str, name: str) -> tuple[object, ...]:
        return "variable", (".param", f".{default_type(dtype)}"), ((name, ()),)

    names = [f"param{i}" for i in range(len(types))]
    declared = [variable(t, n) for t, n in zip(types, names, strict=True)]
    result = [variable(returns, "retval0")] if returns else []
    stores: list[tuple[object, ...]] = [
        (("st", "param", t), Address(Symbol(n), offset)) for t, n in zip(types, names, strict=True)
    ]
    middle: list[tuple[object, ...]] = [(("call", "uni"),)]
    if returns:
        middle.append((("ld", "param", returns), Address(Symbol("retval0"), offset)))
    if style == "nvcc":
        both = [x for pair in zip(declared, stores, strict=True) for x in pair]
        return [*both, *result, *middle]
    return [*declared, *result, *stores, *middle]
