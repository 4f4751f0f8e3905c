"""Calls of functions with their parameter blocks, as one `call(f, a, b)`: what `frontend.calls` makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..dialects.ptx.structure import DeclarationAttr, LabelListOp, VariableOp
from ..dialects.ptx.syntax import Address, Arguments, Immediate, Operand, Register, Symbol, lex
from ..dialects.ptx.types import SCALAR_TYPES
from ..frontend.module.arguments import Statement
from ..frontend.module.calls import CONVENTIONS, Convention, prototype_text
from ..ssa.statement import Kind, Reg, Shape

__all__ = ["Called", "called_at", "style_of"]


@dataclass(frozen=True, slots=True)
class Called:
    """A call: its function, the operands and registers of its arguments, and what it makes."""

    size: int
    function: Operand
    through: Sequence[Reg]
    """The register that holds the function's address, if one does."""
    arguments: list[tuple[Operand, Sequence[Reg]]]
    types: list[str]
    returns: str
    style: str
    prototype: str
    load: int
    """The statement that loads the result; -1 without one."""


def called_at(statements: Sequence[Statement], at: int, preferred: str = "llvm") -> Called | None:
    """The call whose block opens at a statement, if `call` makes the same; several styles may."""
    end = at + 1
    while end < len(statements) and statements[end][0].kind not in (Kind.OPEN, Kind.CLOSE):
        end += 1
    if end >= len(statements) or statements[end][0].kind != Kind.CLOSE:
        return None
    body = list(range(at + 1, end))
    calls = [i for i in body if _words(statements[i][0])[:1] == ("call",)]
    loads = [i for i in body if _words(statements[i][0])[:2] == ("ld", "param")]
    stores: dict[str, int] = {}
    for i in body:
        match statements[i][0].layout:
            case (Address(Symbol(name, ""), _, ()), _) if _words(statements[i][0])[:2] == ("st", "param"):
                stores[name] = i
            case _:
                pass
    if len(calls) != 1 or len(loads) > 1:
        return None
    found = _operands(statements[calls[0]][0].layout)
    if found is None:
        return None
    result, function, names, prototype = found
    if bool(result) != bool(loads) or set(names) != set(stores) or bool(prototype) != isinstance(function, Register):
        return None
    own = [stores[name] for name in names]
    types = [_words(statements[i][0])[-1] for i in own]
    returns = _words(statements[loads[0]][0])[-1] if loads else ""
    if any(t not in SCALAR_TYPES for t in (*types, *([returns] if returns else []))):
        return None
    seen = _seen(statements, body)
    for style in (preferred, *CONVENTIONS):
        how = CONVENTIONS[style]
        right_names = names == [how.name(i) for i in range(len(names))] and result in ("", how.result)
        if right_names and seen == _expected(types, returns, prototype, how):
            arguments = [(statements[i][0].layout[1], statements[i][1]) for i in own]
            load = loads[0] if loads else -1
            through = statements[calls[0]][1]
            return Called(end + 1 - at, function, through, arguments, types, returns, style, prototype, load)
    return None


def style_of(functions: Iterable[Sequence[Statement]]) -> str:
    """The style of the first call in these functions that has several arguments, else of the first at all."""
    first = ""
    for statements in functions:
        if not any(s[0].instruction is not None and s[0].instruction.argument_lists for s in statements):
            continue
        plain = [s for s in statements if s[0].kind != Kind.REGISTERS]
        for at, (shape, _, _, _, _) in enumerate(plain):
            found = called_at(plain, at) if shape.kind == Kind.OPEN else None
            if found is not None and len(found.types) > 1:
                return found.style
            first = first or (found.style if found is not None else "")
    return first or "llvm"


def _words(shape: Shape) -> tuple[str, ...]:
    if shape.instruction is None or shape.guard >= 0:
        return ()
    return (*shape.instruction.opcode.split("."), *shape.modifiers)


def _operands(layout: Sequence[Operand]) -> tuple[str, Operand, list[str], str] | None:
    """(result, function, arguments, prototype) of a call instruction, by name; None if one is not a plain parameter."""
    rest = list(layout)
    result = _names(rest.pop(0)) if isinstance(rest[0], Arguments) else []
    function = rest.pop(0)
    arguments = _names(rest.pop(0)) if rest and isinstance(rest[0], Arguments) else []
    prototype = rest.pop(0) if rest else None
    if result is None or arguments is None or len(result) > 1 or rest:
        return None
    match function, prototype:
        case (Symbol(_, ""), None) | (Register(_, ""), Symbol(_, "")):
            name = prototype.name if isinstance(prototype, Symbol) else ""
            return result[0] if result else "", function, arguments, name
        case _:
            return None


def _names(operand: Operand) -> list[str] | None:
    elements = operand.elements if isinstance(operand, Arguments) else ()
    names = [e.name for e in elements if isinstance(e, Symbol) and not e.offset]
    return names if len(names) == len(elements) else None


def _seen(statements: Sequence[Statement], body: Sequence[int]) -> list[tuple[object, ...]]:
    """The statements of a block, without the values stored and loaded."""
    found: list[tuple[object, ...]] = []
    for i in body:
        shape = statements[i][0]
        if shape.op_class is VariableOp and isinstance(shape.payload, DeclarationAttr):
            found.append(("variable", *shape.payload.data))
        elif shape.op_class is LabelListOp:
            found.append(tuple(shape.tokens))
        elif len(shape.layout) == 2 and isinstance(shape.layout[0], Address):
            plain = isinstance(shape.layout[1], Immediate) or isinstance(shape.layout[1], Register)
            plain = plain and not getattr(shape.layout[1], "member", "")
            found.append((_words(shape), shape.layout[0]) if plain else ())
        elif len(shape.layout) == 2 and isinstance(shape.layout[1], Address):
            plain = isinstance(shape.layout[0], Register) and not shape.layout[0].member
            found.append((_words(shape), shape.layout[1]) if plain else ())
        else:
            found.append((_words(shape), len(shape.layout)))
    return found


def _expected(types: Sequence[str], returns: str, prototype: str, how: Convention) -> list[tuple[object, ...]]:
    """What `call` makes, as `_seen` has it."""

    def variable(dtype: str, name: str) -> tuple[object, ...]:
        return "variable", tuple(how.declared(dtype).split()), ((name, ()),)

    words = ("call", "uni") if how.uni and not prototype else ("call",)
    operands = bool(returns) + 1 + bool(types or prototype) + bool(prototype)
    found: list[tuple[object, ...]] = []
    for step, i in how.steps(len(types), bool(returns), bool(prototype)):
        match step:
            case "declare":
                found.append(variable(types[i], how.name(i)))
            case "store":
                found.append((("st", "param", types[i]), Address(Symbol(how.name(i)), how.offset)))
            case "result":
                found.append(variable(returns, how.result))
            case "prototype":
                found.append(tuple(t for _, t in lex(f"{prototype} : {prototype_text(types, returns)}")[0]))
            case "call":
                found.append((words, operands))
            case _:
                found.append((("ld", "param", returns), Address(Symbol(how.result), how.offset)))
    return found
