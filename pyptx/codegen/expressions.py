"""Operands of instructions as Python expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from ..ssa.statement import Reg
from .body import ATOM, QUOTES, Body
from .names import string
from .operands import constant

__all__ = ["OR_NONE", "Counted", "OperandReader"]

OR_NONE = " or None"
"""After an offset that is 0 once: none is written then."""


@dataclass(frozen=True, slots=True)
class Counted:
    """An integer of a loop, as Python."""

    text: str
    precedence: int


class OperandReader:
    """Operands as expressions, registers taken in text order."""

    def __init__(
        self, function: Body, used: Sequence[Reg], taken: dict[int, tuple[str, int]], words: tuple[str, ...],
        name: str,
    ):  # fmt: skip
        self.function, self.used, self.taken, self.words, self.name = function, used, taken, words, name
        self.at = 0

    def operand(self, operand: Operand) -> tuple[str, int]:
        match operand:
            case Register(_, ""):
                position = self.at
                self.at += 1
                return self.taken.get(position) or (self.function.expressions[self.used[position]], ATOM)
            case Counted(text, precedence):
                return text, precedence
            case Immediate(text):
                return self.function.number(text, self.words), ATOM
            case Symbol(name, ""):
                return self.function.symbol(name), ATOM
            case SpecialRegister(name):
                return string(name), ATOM
            case Target():
                return string(self.name), ATOM
            case Sink():
                return "None", ATOM
            case Not(Register(_, ""), "!"):
                text, precedence = self.operand(operand.operand)
                return f"~{text}" if precedence >= 7 else f"~({text})", 7
            case Pair(first, second):
                self.function.shared.used.add("pair")
                return f"pair({self.operand(first)[0]}, {self.operand(second)[0]})", ATOM
            case Vector(elements):
                return self._vector(elements), ATOM
            case Arguments(elements):
                inner = ", ".join(self.operand(e)[0] for e in elements)
                return f"({inner},)" if len(elements) == 1 else f"({inner})", ATOM
            case Address(base, offset, rest, False) if _plain(base, offset):
                return self._address(base, offset, rest), ATOM
            case _:
                return self._as_ptx(operand), ATOM

    def _vector(self, elements: tuple[Operand, ...]) -> str:
        if elements and all(isinstance(e, Register) and not e.member for e in elements):
            regs = self.used[self.at : self.at + len(elements)]
            if not any(p in self.taken for p in range(self.at, self.at + len(elements))):
                self.at += len(elements)
                return self.function.sequence(regs)
        return "[" + ", ".join(self.operand(e)[0] for e in elements) + "]"

    def _address(self, base: Operand, offset: str, rest: tuple[Operand, ...]) -> str:
        parts = self._parts(base, offset)
        if len(parts) == 2 and not rest and parts[1].endswith(OR_NONE):
            self.function.shared.used.add("at")
            return f"at({parts[0]}, {parts[1].removesuffix(OR_NONE)})"
        if len(parts) == 1 and rest:
            parts.append("None")
        return self._address_of(parts, rest)

    def address_parts(self, address: Address) -> list[str] | None:
        """The base and the offset (if it has one) of an address; None for one that has to be written as PTX."""
        return self._parts(address.base, address.offset) if _plain(address.base, address.offset) else None

    def _parts(self, base: Operand, offset: str) -> list[str]:
        parts = [self.operand(base)[0]]
        if offset[:1] == "@":  # an expression of a loop
            return [*parts, offset[1:]]
        if not offset:
            return parts
        number = offset[1:]
        whole = number.lstrip("-").isdigit() and str(int(number)) == number
        plain = whole and not (number == "0" and isinstance(base, Symbol))
        return [*parts, number if plain else string(offset)]

    def _address_of(self, parts: list[str], rest: tuple[Operand, ...]) -> str:
        parts += [self.operand(part)[0] for part in rest]
        self.function.shared.used.add("addr")
        return f"addr({', '.join(parts)})"

    def _as_ptx(self, operand: Operand) -> str:
        """A string of PTX. Registers in it go by their PTX names, which only an f-string knows here."""
        text = ""
        has_register = False
        for token in operand_tokens(operand):
            if token in ("$", "=", "~"):
                text += "{" + self.function.expressions[self.used[self.at]] + ".name}"
                self.at += 1
                has_register = True
            else:
                text += token.replace("{", "{{").replace("}", "}}") if _has_register(operand) else token
        return ("f" if has_register else "") + string(text)


def _has_register(operand: Operand) -> bool:
    return any(t in ("$", "=", "~") for t in operand_tokens(operand))


def _plain(base: Operand, offset: str) -> bool:
    if offset and offset[0] not in "+@":
        return False
    match base:
        case Register(_, "") | Symbol(_, ""):
            return True
        case Immediate(text):
            return constant(text, False)[0] not in QUOTES
        case _:
            return False
