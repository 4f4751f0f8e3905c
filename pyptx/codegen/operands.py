"""Operands of an instruction as Python expressions with holes for its registers."""

from __future__ import annotations

from ..dialects.ptx.syntax import (
    Address,
    Arguments,
    Immediate,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
    Target,
    Vector,
    operand_tokens,
)
from ..frontend.core.instructions import float_text
from .names import literal

Hole = bool
"""Of a register: whether its PTX name is wanted (inside a string) rather than its Python expression."""


class Expression:
    """A Python expression as a printf template; `holes` says what each `%s` takes, registers in text order."""

    def __init__(self, wide: bool):
        self.wide = wide
        self.parts: list[str] = []
        self.holes: list[Hole] = []

    @property
    def template(self) -> str:
        return "".join(self.parts)

    def text(self, text: str) -> None:
        self.parts.append(text.replace("%", "%%"))

    def register(self) -> None:
        self.parts.append("%s")
        self.holes.append(False)

    def operand(self, operand: Operand, label: str = "") -> None:
        """Write an operand; `label` is the name of a branch target."""
        match operand:
            case Register(_, ""):
                self.register()
            case Immediate(text):
                self.text(constant(text, self.wide))
            case Symbol(name, ""):
                self.text(literal(name))
            case Target():
                self.text(literal(label))
            case SpecialRegister(name):
                self.text(literal(name))
            case Sink():
                self.text("None")
            case Not(Register(_, ""), "!"):
                self.text("~")
                self.register()
            case Pair(first, second):
                self._list("pair(", (first, second), ")")
            case Vector(elements):
                self._list("[", elements, "]")
            case Arguments(elements):
                self._list("(", elements, ",)" if len(elements) == 1 else ")")
            case Address(base, offset, rest, False) if _plain_address(base, offset):
                self._address(base, offset, rest)
            case _:
                self._as_ptx(operand)

    def _list(self, opening: str, elements: tuple[Operand, ...], closing: str) -> None:
        self.text(opening)
        for i, element in enumerate(elements):
            if i:
                self.text(", ")
            self.operand(element)
        self.text(closing)

    def _address(self, base: Operand, offset: str, rest: tuple[Operand, ...]) -> None:
        self.text("addr(")
        self.operand(base)
        if offset:
            number = _integer(offset[1:])
            if number is None or (number == 0 and isinstance(base, Symbol)):
                self.text(f", {literal(offset)}")
            else:
                self.text(f", {number}")
        elif rest:
            self.text(", None")
        for part in rest:
            self.text(", ")
            self.operand(part)
        self.text(")")

    def _as_ptx(self, operand: Operand) -> None:
        """As a string in PTX, which is read back with the registers by name."""
        self.text('"')
        for token in operand_tokens(operand):
            if token in ("$", "=", "~"):
                self.parts.append("%s")
                self.holes.append(True)
            else:
                self.text(literal(token)[1:-1].replace('"', '\\"').replace("\\'", "'"))
        self.text('"')


def _plain_address(base: Operand, offset: str) -> bool:
    if offset and offset[0] != "+":
        return False
    match base:
        case Register(_, "") | Symbol(_, ""):
            return True
        case Immediate(text):
            return _integer(text) is not None
        case _:
            return False


def _integer(text: str) -> int | None:
    """The value of an integer spelled as Python and PTX both print it."""
    digits = text[1:] if text[:1] == "-" else text
    if digits.isdigit() and digits.isascii() and (digits[0] != "0" or text == "0") and len(digits) < 64:
        return int(text)
    return None


def constant(text: str, wide: bool) -> str:
    """A constant: an int or float where that prints as `text` again, else a string."""
    if _integer(text) is not None:
        return text
    if text[:2] in ("0f", "0d") and len(text) in (10, 18):
        value = Immediate(text).value
        if value - value == 0 and float_text(float(value), wide) == text:
            return repr(value).replace("e+", "e")
    return literal(text)
