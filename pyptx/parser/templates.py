"""Statements that differ from one read before, in this file or another, in their constants and in the names of the
variables in their addresses only.

They are read by putting their constants and names into the first. About half of the distinct lines of real files are of that kind (addresses, immediates, `.loc`). A constant is a whole
number below 2**31, decimal or hexadecimal, or the bits of a float, and stands for others of its kind where no form looks at
its value (`Form.judges_constants`). A name stands alone in brackets, or before an offset (`[k_param_0+4]`): no form looks
at it, and what a variable of that name is good for is judged apart (`symbol_use`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

from ..dialects.ptx.attributes import layout_attr
from ..dialects.ptx.memo import Memo
from ..dialects.ptx.structure import LocOp, TokensAttr
from ..dialects.ptx.syntax import Address, Element, Immediate, Layout, Not, Operand, Pair, Sum, Symbol, Vector
from ..ssa.statement import Kind, Shape

_NUMBER = r"(?<![\w$%.:])(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]{1,7}|0|[1-9]\d{0,8}|1\d{9}|20\d{8}|21[0-3]\d{7})(?![\w.$])"
_NAME = r"(?<=\[)(?!(?:_|WARP_SZ)[+\]])[A-Za-z_$][\w$]*(?=[+\]])"
_HOLES = re.compile(f"({_NUMBER}|{_NAME})").split


@lru_cache(maxsize=16)  # a text that is not known is looked up, read and kept
def generalised(text: str) -> tuple[str, list[str]]:
    """The text with each constant and name replaced by a mark of its kind, and these."""
    pieces = _HOLES(text)
    if len(pieces) == 1:
        return text, []
    constants = pieces[1::2]
    pieces[1::2] = [_MARKS.get(c[:2], "\0") if c[0].isdigit() else "\4" for c in constants]
    return "".join(pieces), constants


_MARKS = {f"0{letter}": f"\0{letter.lower()}" for letter in "fFdDxX"}


class Template:
    """A statement with holes for its constants and names."""

    __slots__ = ("shape", "registers", "tokens", "places", "names", "verdicts", "_words")

    def __init__(
        self,
        shape: Shape,
        registers: int,
        tokens: list[tuple[int, str]],
        places: tuple[int, ...] = (),
        constants: Sequence[str] = (),
    ):
        """`constants` are those of `shape`."""
        self.names = tuple([i for i, constant in enumerate(constants) if not constant[0].isdigit()])
        """Which of the holes are names."""
        self.verdicts = {tuple([constants[i] for i in self.names]): shape.verdicts}
        """By the names, what is shared by all statements that have them: a verdict says which symbols it is about."""
        holes = {at for at, _ in tokens}
        self._words = {t for i, t in enumerate(shape.tokens) if i not in holes}.intersection(shape.bare)
        self.shape = shape
        self.registers = registers
        """How many there are."""
        self.tokens = tokens
        """(index of the token, what stands before the number in it) for each hole."""
        self.places = places
        """The operands with holes."""

    def filled(self, constants: Sequence[str]) -> Shape:
        """The shape with other constants and names. Everything that does not depend on them is shared."""
        first = self.shape
        tokens = list(first.tokens)
        for (at, sign), constant in zip(self.tokens, constants, strict=True):
            tokens[at] = sign + constant
        shape = first.copy()
        shape.tokens, shape.model = tokens, first
        shape.trivia, shape.verdicts = first.trivia, first.verdicts
        if self.names:
            names = tuple([constants[i] for i in self.names])
            shape.verdicts = self.verdicts.setdefault(names, {})
            shape.bare = tuple(sorted(self._words.union(names)))
        if first.op_class is LocOp:
            shape.properties = {"words": TokensAttr(tuple(tokens))}
            return shape
        assert first.properties is not None
        shape.layout = self._layout(first.layout, constants)
        shape.plain_layout = self._layout(first.plain_layout, constants)
        shape.properties = {**first.properties, "layout": layout_attr(shape.layout)}
        return shape

    def _layout(self, layout: Layout, constants: Sequence[str]) -> Layout:
        remaining = iter(constants)
        operands = list(layout)
        for at in self.places:
            operands[at] = _filled(operands[at], remaining)
        return tuple(operands)


def _filled(operand: Operand, constants: Iterator[str]) -> Operand:
    match operand:
        case Immediate(text):
            return Immediate(("-" if text[0] == "-" else "") + next(constants))
        case Symbol(name, offset):
            return Symbol(name, _sign(offset) + next(constants)) if offset else operand
        case Address(base, offset, rest, unified):
            base = Symbol(next(constants)) if _is_named(operand) else _filled(base, constants)
            offset = _sign(offset) + next(constants) if offset else offset
            return Address(base, offset, tuple(_filled(o, constants) for o in rest), unified)
        case Element(array, index, offset):
            index = _filled(index, constants)
            return Element(array, index, _sign(offset) + next(constants) if offset else offset)
        case Vector(elements):
            return Vector(tuple(_filled(o, constants) for o in elements))
        case Not(inner, mark):
            return Not(_filled(inner, constants), mark)
        case Sum(inner, offset):
            return Sum(inner, _sign(offset) + next(constants))
        case Pair(first, second):
            return Pair(_filled(first, constants), _filled(second, constants))
        case _:
            return operand


def _is_named(address: Address) -> bool:
    """Whether the address is a variable alone, whose name is a hole."""
    return isinstance(address.base, Symbol) and not address.rest


def _sign(offset: str) -> str:
    return offset[: len(offset) - len(offset.lstrip("+-"))]


def _constants(operand: Operand) -> Iterator[str]:
    """The constants and names of an operand in text order, without signs."""
    match operand:
        case Immediate(text):
            yield text.removeprefix("-")
        case Symbol(_, offset):
            if offset:
                yield offset.lstrip("+-")
        case Address(base, offset, rest, _):
            if _is_named(operand):
                yield cast(Symbol, base).name
            else:
                yield from _constants(base)
            if offset:
                yield offset.lstrip("+-")
            for item in rest:
                yield from _constants(item)
        case Element(_, index, offset):
            yield from _constants(index)
            if offset:
                yield offset.lstrip("+-")
        case Vector(elements):
            for item in elements:
                yield from _constants(item)
        case Not(inner, _):
            yield from _constants(inner)
        case Sum(_, offset):
            yield offset.lstrip("+-")
        case Pair(first, second):
            yield from _constants(first)
            yield from _constants(second)
        case _:
            pass


_templates: Memo[str, Template] = Memo()


def find(text: str, registers: int) -> Shape | None:
    """The shape of a statement (its registers left out: so many) that differs from one read before in constants and names."""
    spelled, constants = generalised(text)
    template = _templates.get(spelled) if constants else None
    if template is None or template.registers != registers or len(template.tokens) != len(constants):
        return None  # counts differ where the text itself has a character that is a mark
    return template.filled(constants)


def keep(shape: Shape, text: str, registers: int) -> None:
    """Remember a statement that was read in full."""
    template = _with_holes(shape, text, registers)
    if template is None:
        return
    _templates[generalised(text)[0]] = template


def _with_holes(shape: Shape, text: str, registers: int) -> Template | None:
    """The template that a statement gives, or None if it has no holes or their values matter."""
    _, wanted = generalised(text)
    if not wanted:
        return None
    tokens = _token_places(shape.tokens, wanted)
    if tokens is None:
        return None
    if shape.op_class is LocOp:
        return Template(shape, registers, tokens) if all(c[0].isdigit() for c in wanted) else None
    if shape.kind != Kind.INSTRUCTION or not shape.constants_free:
        return None
    found = [list(_constants(operand)) for operand in shape.layout]
    if [c for constants in found for c in constants] != wanted:
        return None
    return Template(shape, registers, tokens, tuple(i for i, constants in enumerate(found) if constants), wanted)


def _token_places(tokens: Sequence[str], wanted: Sequence[str]) -> list[tuple[int, str]] | None:
    """Where the constants and names stand among the tokens; None if they are not these, in this order."""
    places: list[tuple[int, str]] = []
    for i, token in enumerate(tokens):
        number = token.removeprefix("-")
        if (
            len(places) < len(wanted)
            and number == wanted[len(places)]
            and (number[0].isdigit() or tokens[i - 1] == "[")
        ):
            places.append((i, token[: len(token) - len(number)]))
        elif number[:1].isdigit():
            return None
    return places if len(places) == len(wanted) else None
