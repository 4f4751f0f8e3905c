"""Operands of machine instructions as plain data, read from the text that nvdisasm prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "Constant",
    "Immediate",
    "Keyword",
    "Label",
    "Memory",
    "Operand",
    "OperandError",
    "Register",
    "Relocation",
    "Scoreboards",
    "read_operands",
]


class OperandError(ValueError):
    """An operand whose spelling is not known; the message is its text."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register of a thread or warp.

    `file`: `R` and `UR` (32 bits, per thread and uniform), `P` and `UP` (predicates), `B` (convergence barriers), `SB`
    (scoreboards), `SR` (special registers, whose name is in `special`). `number` is None for those that are constant (RZ,
    URZ, PT, UPT, SRZ) and for all predicates at once (PR, UPR). An operand of 64 or more bits names its first register.
    """

    file: str
    number: int | None
    special: str = ""
    negated: bool = False
    """`-`; of a predicate or a mask `!` or `~`."""
    absolute: bool = False
    reuse: bool = False
    """Kept in the operand cache of its slot for the next instruction."""
    modifiers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As nvdisasm prints it, without what is applied to it."""
        if self.number is not None:
            return f"{self.file}{self.number}"
        return self.special


@dataclass(frozen=True, slots=True)
class Constant:
    """A word of a constant bank: `c[0x0][0x210]`, `c[0x3][R4+0x8]`, or of a bindless bank, `cx[UR4][0x10]`."""

    bank: int | Register
    offset: int
    base: Register | None = None
    negated: bool = False
    absolute: bool = False
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number in the instruction; a float where nvdisasm prints one (`3.5`, `+INF`, `-QNAN`)."""

    value: int | float
    text: str


@dataclass(frozen=True, slots=True)
class Memory:
    """An address: `[R2.64+UR4+0x10]` is base + uniform + offset.

    `space` is what is before the bracket: `tmem` (tensor memory), `gdesc` (the descriptor of a matrix), `idesc` (that of a
    tensor-core instruction), else empty. `descriptor` is the register of `desc[UR4][R2.64]`.
    """

    space: str = ""
    base: Register | None = None
    uniform: Register | None = None
    offset: int = 0
    descriptor: Register | None = None
    negated: bool = False
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the code, by the name that nvdisasm gives it; its address where it is in the same function."""

    name: str
    address: int | None = None


@dataclass(frozen=True, slots=True)
class Scoreboards:
    """The scoreboards that a DEPBAR waits for, `{3,2}`."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relocation:
    """Bits of an address that the linker fills in, `32@lo(table)`: how many, `lo` or `hi`, and what is addressed: a symbol,
    `fun@unified(f)`, `(kernel + .L_x_0@srel)`.
    """

    bits: int
    part: str
    target: str


@dataclass(frozen=True, slots=True)
class Keyword:
    """Anything that is a word: `2D`, `ARRAY_2D`, `gsb0`."""

    text: str


Operand = Register | Constant | Immediate | Memory | Label | Scoreboards | Relocation | Keyword

REGISTER_FILES = "UR|UP|SB|[RPB]"
CONSTANT_REGISTERS = "URZ|UPT|UPR|SRZ|RZ|PT|PR"
SPECIAL_REGISTER = r"SR_\w+(?:\.[XYZ](?!\w))?"
FLOAT = r"[-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|INF|[QS]?NAN)"
"""Patterns of the notation, which the highlighting of machine code takes as well (`pyptx.tools.highlight`)."""

_REGISTER = re.compile(
    r"(?P<minus>[-!~])?(?P<bar>\|)?"
    rf"(?:(?P<file>{REGISTER_FILES})(?P<number>\d+)|(?P<fixed>{CONSTANT_REGISTERS})|(?P<special>{SPECIAL_REGISTER}))"
    r"(?P<before>(?:\.\w+)*)\|?(?P<after>(?:\.\w+)*)"
)
_FILES = {"RZ": "R", "URZ": "UR", "PT": "P", "UPT": "UP", "PR": "P", "UPR": "UP", "SRZ": "SR"}
_HEX = re.compile(r"([-+])?0x([0-9a-f]+)")
_FLOAT = re.compile(FLOAT)
_LABEL = re.compile(r"`\(([^)]*)\)")
_RELOCATION = re.compile(r"(\d+)@(lo|hi)\((.+)\)")
_CONSTANT = re.compile(
    r"(?P<minus>[-!~])?(?P<bar>\|)?cx?\[(?P<bank>[^\]]+)\]\[(?P<where>[^\]]+)\]\|?(?P<more>(?:\.\w+)*)"
)
_MEMORY = re.compile(
    r"(?P<minus>[-!~])?(?:desc\[(?P<desc>\w+)\]|(?P<space>[a-z]\w*))?\[(?P<where>[^\]]*)\](?P<more>(?:\.\w+)*)"
)
_SCOREBOARDS = re.compile(r"\{(\d+(?:,\s*\d+)*)\}")
_KEYWORD = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_AFTER_REGISTER = re.compile(r"`|(?<=[\w)] )[-+]?0x").match
_SPECIAL_VALUES = {"INF": "inf", "QNAN": "nan", "SNAN": "nan", "NAN": "nan"}


@lru_cache(maxsize=1 << 16)
def read_operands(text: str) -> tuple[Operand, ...]:
    """The operands of an instruction. OperandError names one that is spelled in a way that is not known."""
    return tuple(_operand(part) for part in _split(text))


def _split(text: str) -> list[str]:
    """Operands between the commas outside of brackets. A label or a distance follows a register without a comma (`RET R2 `(f)`,
    `BRX R2 -0x80`).
    """
    parts: list[str] = []
    depth = start = 0
    for at, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif depth == 0 and (character == "," or (_AFTER_REGISTER(text, at) and text[start:at].strip())):
            parts.append(text[start:at].strip())
            start = at + (character == ",")
    parts.append(text[start:].strip())
    return parts if parts != [""] else []


@lru_cache(maxsize=1 << 16)
def _operand(text: str) -> Operand:
    if register := _register(text):
        return register
    if found := _HEX.fullmatch(text):
        return Immediate(_signed(found), text)
    if _FLOAT.fullmatch(text):
        return Immediate(_number(text), text)
    if found := _LABEL.fullmatch(text):
        return Label(found[1])
    if found := _CONSTANT.fullmatch(text):
        return _constant(found, text)
    if found := _MEMORY.fullmatch(text):
        return _memory(found, text)
    if found := _RELOCATION.fullmatch(text):
        return Relocation(int(found[1]), found[2], found[3])
    if found := _SCOREBOARDS.fullmatch(text):
        return Scoreboards(tuple(int(n) for n in found[1].split(",")))
    if _KEYWORD.fullmatch(text):
        return Keyword(text)
    raise OperandError(text)


def _register(text: str) -> Register | None:
    found = _REGISTER.fullmatch(text)
    if found is None:
        return None
    words = [w for w in (found["before"] + found["after"]).split(".") if w]
    fixed, special = found["fixed"] or "", found["special"] or ""
    return Register(
        found["file"] or _FILES.get(fixed, "SR"),
        int(found["number"]) if found["number"] else None,
        fixed or special,
        found["minus"] is not None,
        found["bar"] is not None,
        "reuse" in words,
        tuple(w for w in words if w != "reuse"),
    )


def _signed(found: re.Match[str]) -> int:
    value = int(found[2], 16)
    return -value if found[1] == "-" else value


def _number(text: str) -> int | float:
    sign, digits = (text[0], text[1:]) if text[0] in "+-" else ("", text)
    if digits in _SPECIAL_VALUES:
        return float(sign + _SPECIAL_VALUES[digits])
    return int(text) if digits.isdigit() else float(text)


def _sum(text: str, whole: str) -> tuple[Register | None, Register | None, int]:
    """(register of the thread, uniform register, offset) of what is in the brackets of an address."""
    base = uniform = None
    offset = 0
    for part in re.sub(r"\+-", "-", text).replace("-", "+-").lstrip("+").split("+"):
        if found := _HEX.fullmatch(part):
            offset += _signed(found)
        elif (register := _register(part)) is None:
            raise OperandError(whole)
        elif register.file == "UR":
            uniform = register
        else:
            base = register
    return base, uniform, offset


def _constant(found: re.Match[str], whole: str) -> Constant:
    number = _HEX.fullmatch(found["bank"])
    bank = _signed(number) if number else _register(found["bank"])
    if bank is None:
        raise OperandError(whole)
    base, uniform, offset = _sum(found["where"], whole)
    more = tuple(found["more"].split(".")[1:])
    return Constant(bank, offset, base or uniform, found["minus"] is not None, found["bar"] is not None, more)


def _memory(found: re.Match[str], whole: str) -> Memory:
    descriptor = _register(found["desc"]) if found["desc"] else None
    base, uniform, offset = _sum(found["where"], whole)
    more = tuple(found["more"].split(".")[1:])
    return Memory(found["space"] or "", base, uniform, offset, descriptor, found["minus"] is not None, more)
