"""The operands of an instruction with their SSA values: what a layout's placeholders stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.ir import SSAValue

from .syntax import (
    Address,
    Arguments,
    Element,
    Immediate,
    Layout,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    Sum,
    Symbol,
    Target,
    Vector,
    evaluate,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A register of the operand list. `value` is what is read, or for a written one the result; `member` such
    as `.x`."""

    value: SSAValue
    written: bool
    member: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """`[base+offset]`, with the operands after the base (coordinates) in `rest`."""

    base: Bound
    offset: int
    rest: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """`{a, b}`, `(a, b)`, `p|q` or `a[b]`."""

    elements: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`, or `-a`."""

    operand: Bound
    mark: str


Bound = Value | Memory | Group | Negated | Immediate | Symbol | SpecialRegister | Sink | Target


class HasLayout(Protocol):
    """An instruction, as far as its operand list goes."""

    @property
    def layout(self) -> Layout: ...

    @property
    def operands(self) -> Sequence[SSAValue]: ...

    @property
    def results(self) -> Sequence[SSAValue]: ...


def bound_operands(op: HasLayout) -> tuple[Bound, ...]:
    """The operand list of an instruction, in text order, each register replaced by its SSA value."""
    reads = iter(op.operands)
    results = iter(op.results)

    def bind(operand: Operand) -> Bound:
        match operand:
            case Register("$", member):
                return Value(next(reads), False, member)
            case Register(_, member):
                return Value(next(results), True, member)
            case Not(inner, mark):
                return Negated(bind(inner), mark)
            case Sum(inner):
                return Group((bind(inner),))
            case Pair(first, second):
                return Group((bind(first), bind(second)))
            case Vector(elements) | Arguments(elements):
                return Group(tuple(bind(e) for e in elements))
            case Address(base, offset, rest):
                return Memory(bind(base), offset_value(offset), tuple(bind(e) for e in rest))
            case Element(array, index):
                return Group((bind(array), bind(index)))
            case Immediate() | Symbol() | SpecialRegister() | Sink() | Target():
                return operand

    return tuple(bind(operand) for operand in op.layout)


def offset_value(text: str) -> int:
    """The number of bytes that `+8`, `-8` or `+-8` adds to an address; 0 for none."""
    if not text:
        return 0
    value = int(evaluate(text[1:]))
    return -value if text[0] == "-" else value
