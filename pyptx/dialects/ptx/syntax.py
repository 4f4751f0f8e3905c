"""The lexical rules of PTX and its operands as plain data (PTX ISA 4.2 to 4.5, 6.1 to 6.5).

An instruction's operand list is a *layout*: a tuple of operand nodes in which every register is a placeholder. The SSA
operands and results of an op fill the placeholders in text order; everything else (immediates with their spelling,
symbols,
brackets, offsets, sinks) is in the layout, which is shared by all instructions of the same shape.

Written as text, a placeholder is `=` (defined), `$` (read) or `~` (read and written), so `ld.v2.b32 {%r1,%r2},
[%rd1+8]`
has the layout `{=, =}, [$+8]`.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from .memo import Memo
from .special_registers import is_special_register as is_special_register

LINE_MARKER = r'#[ \t]*(?:line)?[ \t]*\d+[ \t]+"[^"]*"(?:[ \t]+\d+)*[ \t\r]*(?=\n|\Z)'
"""`# 1 "kernel.cu"` or `#line 1 "kernel.cu"` of a C preprocessor, to the end of its line: a comment for ptxas."""
_COMMENTS = (rf"//[^\n]*|{LINE_MARKER}", r"/\*.*?\*/")
_STRING = r'"[^"]*"'  # ptxas knows no escapes
_SOURCE = r"\.source_begin[ \t]*\n(?:[^\n]*\n)*?[ \t]*\.source_end[ \t]*(?:\n|\Z)"
"""The program in a `.code_block` (PTX ISA 11.5.6): any lines between two words that have a line of their own."""
_FRACTION = r"(?<![\w)$%])\.\d+(?![\w:])(?:[eE][+-]?\d+)?"
_NUMBER = (
    r"0[fF][0-9a-fA-F]{8}(?![0-9a-fA-F])|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?"
    r"|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?"
)
_MODIFIER = r"\.[A-Za-z_]\w*(?:::\w+(?::\d+)?)*|\.\d\w*(?:::\w+)*"
_IDENTIFIER = r"(?:[A-Za-z_$]|%[\w$])[\w$]*(?:::\w+)*"
_PUNCTUATION = r"<<|>>|<=|>=|==|!=|&&|\|\||[-{}()\[\],;:@!|+<>=*/&^~?.%$]"
TOKEN = re.compile(
    rf"(?P<ws>\s+)|(?P<lc>{_COMMENTS[0]})|(?P<bc>{_COMMENTS[1]})|(?P<str>{_STRING}|{_SOURCE})|(?P<num>{_NUMBER}|{_FRACTION})"
    rf"|(?P<mod>{_MODIFIER})|(?P<id>{_IDENTIFIER})|(?P<p>{_PUNCTUATION})|(?P<bad>.)",
    re.S,
)
"""One PTX token: whitespace, comment, string, number, `.modifier`, identifier or punctuation."""
_PIECES = re.compile(
    rf"((?:\s+|{'|'.join(_COMMENTS)})*+)"
    rf"(?:({_IDENTIFIER}|{_NUMBER}|(?!{_FRACTION})(?:{_STRING}|{_SOURCE}|{_MODIFIER}|{_PUNCTUATION}|.))|({_FRACTION})|\Z)",
    re.S,
).findall
"""(the gap before a token, the token, or else a number that may also be a modifier); both are empty at the end."""


class _Tokens(Memo[str, tuple[str, str]]):
    """Tokens by their text, with their kinds."""

    __slots__ = ()

    def __missing__(self, text: str) -> tuple[str, str]:
        match = TOKEN.fullmatch(text)
        kind = match.lastgroup if match is not None else None
        assert kind is not None
        if kind == "num" and text[0] == ".":
            kind = "mod"  # `.2d`: fractions are found apart
        self[text] = token = (kind, text)
        return token


_tokens = _Tokens()


class SyntaxProblem(ValueError):
    """Text that is not an operand list; `position` is the index of the offending token."""

    def __init__(self, message: str, position: int):
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class Register:
    """A placeholder for one SSA value. `role` is `=` defined, `$` read, `~` both; `member` is a suffix such as `.x`."""

    role: str = "$"
    member: str = ""


_SINGLE = re.compile(r"(?:\+?\s*\(\s*)*0[fF]\w{8}[\s)]*").fullmatch


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant expression, spelled as written: `0f3F800000`, `0xFFU`, `1<<4`, `-1.5`. It prints as one token."""

    text: str

    @property
    def value(self) -> int | float:
        """Its value: an int, or a float for floating-point spellings. ValueError if it is not a constant expression."""
        return evaluate(self.text)

    @property
    def is_float(self) -> bool:
        return isinstance(self.value, float)

    @property
    def is_single(self) -> bool:
        """Whether it is the bits of an .f32, `0f3F800000` or that in parentheses."""
        return _SINGLE(self.text) is not None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, parameter, function, prototype, label list or label used as a value, by name."""

    name: str
    offset: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A branch target. Printing reads the label at the head of the op's successor; `name` serves while it has none."""

    name: str


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """A predefined read-only register, with its element: `%tid.x`, `%clock64`."""

    name: str


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""


@dataclass(frozen=True, slots=True)
class Not:
    """`!p`, or `-a` (sign is kept in `mark`)."""

    operand: Operand
    mark: str = "!"


@dataclass(frozen=True, slots=True)
class Sum:
    """`%r1 + 4`: a register as a source, to which ptxas adds a constant. The manual does not have it."""

    operand: Operand
    offset: str


@dataclass(frozen=True, slots=True)
class Pair:
    """`p|q`: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}`."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Arguments:
    """`(a, b)` of a call."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]` or `[base, {coordinates}, ...]`. `offset` keeps its sign and spelling (`+8`, `+-8`, `-8`).

    `unified` is whether `.unified` follows the bracket.
    """

    base: Operand
    offset: str = ""
    rest: tuple[Operand, ...] = ()
    unified: bool = False


@dataclass(frozen=True, slots=True)
class Element:
    """`a[3]`, `a[%r1]` or `a[%r1+3]`: the address of an element of an array (PTX ISA 6.4.2). `offset` belongs to the
    index.
    """

    array: Operand
    index: Operand
    offset: str = ""


Operand = (
    Register | Immediate | Symbol | Target | SpecialRegister | Sink | Not | Sum | Pair | Vector | Arguments | Address | Element
)  # fmt: skip
Layout = tuple[Operand, ...]

PLACEHOLDERS = {"=": Register("="), "$": Register("$"), "~": Register("~")}


# ---------------------------------------------------------------------------------------------------------------- text


def lex(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Cut text into (kind, token) pairs and the gaps (whitespace and comments) around them: `len(gaps) ==
    len(tokens)+1`.
    """
    pieces = _PIECES(text)
    if not pieces[-1][0] and len(pieces) > 1 and not any(pieces[-2][1:]):
        pieces.pop()  # after a gap at the end the empty end is found once more
    gaps = [gap for gap, _, _ in pieces]
    pieces.pop()
    return [_tokens[token] if token else ("num", fraction) for _, token, fraction in pieces], gaps


@lru_cache(maxsize=4096)
def _spelled(text: str) -> tuple[str, ...]:
    if "~" in text:  # an offset such as `+~1`: its constant is one token, for `~` alone is a register
        return text[0], text[1:]
    return tuple(t for _, t in lex(text)[0])


def operand_tokens(operand: Operand) -> Iterator[str]:  # noqa: C901  one case for each kind of operand
    """The PTX tokens of an operand; a register placeholder yields its role (`=`, `$`, `~`), a branch target `^name`."""
    match operand:
        case Register(role, member):
            yield role
            if member:
                yield member
        case Immediate(text):
            yield text
        case Symbol(name, offset):
            yield name
            yield from _spelled(offset) if offset else ()
        case SpecialRegister(name):
            yield from _spelled(name)
        case Target(name):
            yield "^" + name
        case Sink():
            yield "_"
        case Not(inner, mark):
            yield mark
            yield from operand_tokens(inner)
        case Sum(inner, offset):
            yield from operand_tokens(inner)
            yield from _spelled(offset)
        case Pair(first, second):
            yield from operand_tokens(first)
            yield "|"
            yield from operand_tokens(second)
        case Vector(elements):
            yield "{"
            yield from layout_tokens(elements)
            yield "}"
        case Arguments(elements):
            yield "("
            yield from layout_tokens(elements)
            yield ")"
        case Address(base, offset, rest, unified):
            yield "["
            yield from operand_tokens(base)
            yield from _spelled(offset) if offset else ()
            for item in rest:
                yield ","
                yield from operand_tokens(item)
            yield "]"
            if unified:
                yield ".unified"
        case Element(array, index, offset):
            yield from operand_tokens(array)
            yield "["
            yield from operand_tokens(index)
            yield from _spelled(offset) if offset else ()
            yield "]"


def layout_tokens(layout: Layout) -> Iterator[str]:
    """The PTX tokens of an operand list, commas included."""
    for i, operand in enumerate(layout):
        if i:
            yield ","
        yield from operand_tokens(operand)


def layout_text(layout: Layout) -> str:
    """The layout as its compact text form, e.g. `=, [$+8]`; one with an argument list starts with `call `."""
    text = "call " if any(isinstance(o, Arguments) for o in layout) else ""
    for token in layout_tokens(layout):
        text += f"{token} " if token in _SPACED else token
    return text


_SPACED = frozenset({",", "%"})
"""Tokens that a space follows in the text of a layout: `5%3` would hold the name `%3`."""


def registers(layout: Layout) -> list[Register]:
    """Every register placeholder in text order."""
    found: list[Register] = []
    _collect(layout, found)
    return found


def _collect(layout: Layout, found: list[Register]) -> None:
    for operand in layout:
        match operand:
            case Register():
                found.append(operand)
            case Not(inner) | Sum(inner):
                _collect((inner,), found)
            case Pair(first, second):
                _collect((first, second), found)
            case Vector(elements) | Arguments(elements):
                _collect(elements, found)
            case Address(base, _, rest):
                _collect((base, *rest), found)
            case Element(array, index):
                _collect((array, index), found)
            case _:
                pass


def transform(layout: Layout, change: Callable[[Operand], Operand]) -> Layout:
    """Rebuild a layout bottom-up, `change` being applied to each leaf (register, immediate, symbol, ...) in text order."""

    def walk(operand: Operand) -> Operand:
        match operand:
            case Not(inner, mark):
                return Not(walk(inner), mark)
            case Sum(inner, offset):
                return Sum(walk(inner), offset)
            case Pair(first, second):
                return Pair(walk(first), walk(second))
            case Vector(elements):
                return Vector(tuple(walk(e) for e in elements))
            case Arguments(elements):
                return Arguments(tuple(walk(e) for e in elements))
            case Address(base, offset, rest, unified):
                return Address(walk(base), offset, tuple(walk(e) for e in rest), unified)
            case Element(array, index, offset):
                return Element(walk(array), walk(index), offset)
            case _:
                return change(operand)

    return tuple(walk(operand) for operand in layout)


# ------------------------------------------------------------------------------------------------------------- parsing

Token = tuple[str, str]
Classify = Callable[[str], Operand]
"""Tells what an identifier is in its scope: a register placeholder, a special register or a symbol."""


_AFTER_AN_OPERAND = {
    "+": ": a constant is added to an address, a symbol or a source register, and not in braces",
    "|": ": only two results stand so, p|q",
    "%": ": a comma is missing",
    "[": ": a comma is missing",
    "{": ": a comma is missing",
}
"""What a token with this first character means that stands where the operand list should go on."""


class OperandParser:
    """Recursive-descent reader of an operand list over tokens `[start, end)`."""

    def __init__(
        self, tokens: list[Token], start: int, end: int, classify: Classify, *, call: bool = False,
        gaps: list[str] | None = None, marks: bool = False,
    ):  # fmt: skip
        self.marks = marks  # the text of a layout, where `=`, `$`, `~` and `^0` stand for registers and labels
        self.tokens, self.at, self.end, self.classify = tokens, start, end, classify
        self.gaps = gaps  # the text between the tokens, to be kept inside constants
        self.constants: list[tuple[int, int]] = []  # constants of several tokens, as token ranges
        self.call = call  # a parenthesis opens an argument list rather than a constant expression

    def layout(self) -> Layout:
        """The whole operand list up to `end`."""
        if self.at == self.end:
            return ()
        try:
            items = self._list(self._added)
        except RecursionError:
            raise SyntaxProblem("this operand is nested too deeply", self.at) from None
        if self.at != self.end:
            advice = _AFTER_AN_OPERAND.get(self._peek()[:1], "")
            raise SyntaxProblem(f"unexpected {self._peek()!r} after an operand{advice}", self.at)
        return items

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < self.end else ""

    def _kind(self) -> str:
        return self.tokens[self.at][0] if self.at < self.end else ""

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            found = repr(self._peek()) if self.at < self.end else "the end of the statement"
            raise SyntaxProblem(f"expected {token!r}, found {found}", self.at)
        self.at += 1

    def _list(self, read: Callable[[], Operand] | None = None) -> Layout:
        read = read or self._operand
        items = [read()]
        while self._peek() == ",":
            self.at += 1
            items.append(read())
        return tuple(items)

    def _added(self) -> Operand:
        """An operand outside brackets and braces, where a constant may be added to a register."""
        operand = self._operand()
        added = self._peek() == "+" and isinstance(operand, Register) and not operand.member
        return Sum(operand, self._offset()) if added else operand

    def _operand(self) -> Operand:
        first = self._single()
        if self._peek() == "|" and isinstance(first, (Register, Sink, Vector)) and not getattr(first, "member", ""):
            self.at += 1
            second = self._single()
            if isinstance(first, Sink) and isinstance(second, Sink):
                raise SyntaxProblem("one half of a pair may be the sink '_', not both", self.at - 1)
            return Pair(first, second)
        return first

    def _single(self) -> Operand:
        token, kind = self._peek(), self._kind()
        if not self.marks and (token in ("=", "^", "$") or (token == "~" and not self._is_number_after(1))):
            raise SyntaxProblem(f"expected an operand, found {token!r}", self.at)
        if token == "[":
            return self._address()
        if token == "{":
            self.at += 1
            elements = () if self._peek() == "}" else self._list()
            self._expect("}")
            return Vector(elements)
        if token == "(" and self.call:
            self.at += 1
            self.call = False  # inside, a parenthesis is one of a constant
            elements = () if self._peek() == ")" else self._list()
            self.call = True
            self._expect(")")
            return Arguments(elements)
        if token == "!" and self._next_kind() in ("id", "p") and not self._is_number_after(1):
            self.at += 1
            if self._peek() == "!":
                raise SyntaxProblem("an operand is negated once", self.at)
            return Not(self._single())
        if token == "-" and self._next_kind() == "id" and not self._is_number_after(1):
            self.at += 1
            return Not(self._single(), "-")
        if token == "^" and self._next_kind() in ("id", "num"):
            self.at += 2
            return Target(self.tokens[self.at - 1][1])
        if token == "_" and kind == "id":
            self.at += 1
            return Sink()
        if kind == "id" and token != "WARP_SZ":
            return self._name()
        if token == "=" or (token == "~" and not self._is_number_after(1)):
            self.at += 1
            return self._member(PLACEHOLDERS[token])
        return self._immediate()

    def _next_kind(self) -> str:
        return self.tokens[self.at + 1][0] if self.at + 1 < self.end else ""

    def _is_number_after(self, ahead: int) -> bool:
        i = self.at + ahead
        while i < self.end and self.tokens[i][1] in ("(", ")", "-", "~", "!", "+", ".s64", ".u64"):
            i += 1
        return i < self.end and (self.tokens[i][0] == "num" or self.tokens[i][1] == "WARP_SZ")

    def _name(self) -> Operand:
        token = self._peek()
        self.at += 1
        operand = self.classify(token)
        if isinstance(operand, Register):
            return self._member(operand)
        if isinstance(operand, SpecialRegister) and self._kind() == "mod":
            member = self._peek()
            self.at += 1
            return SpecialRegister(operand.name + member)
        if isinstance(operand, Symbol) and self._kind() == "mod":
            raise SyntaxProblem(self._dotted(token, self._peek()), self.at - 1)
        if isinstance(operand, Symbol) and self._peek() in ("+", "-"):
            return Symbol(operand.name, self._offset())
        if isinstance(operand, Symbol) and self._peek() == "[":
            return self._element(operand)
        return operand

    def _dotted(self, name: str, member: str) -> str:
        """What is wrong with a name that is not a register's and goes on with a dot."""
        if is_special_register(f"%{name}"):
            return f"{name}{member} is not a register: special registers start with %"
        if name[0] == "%":
            return f"{name} is not a register of this function, nor a special register"
        return f"{name}{member} is not a name: names have no dots, and only registers have elements"

    def _element(self, array: Symbol) -> Operand:
        self._expect("[")
        index = self._operand()
        offset = ""
        if isinstance(index, Symbol) and index.offset:
            index, offset = Symbol(index.name), index.offset
        elif self._peek() in ("+", "-"):
            offset = self._offset()
        self._expect("]")
        return Element(array, index, offset)

    def _member(self, register: Register) -> Operand:
        if self._kind() == "mod":
            member = self._peek()
            self.at += 1
            return Register(register.role, member)
        return register

    def _offset(self) -> str:
        start = self.at
        while self.at < self.end and self._peek() not in (",", "]", "}", ")"):
            if self._peek() == "(":
                depth = 0
                while self.at < self.end:
                    depth += (self._peek() == "(") - (self._peek() == ")")
                    self.at += 1
                    if depth == 0:
                        break
                continue
            if self._kind() in ("id", "str", "bad") and self._peek() != "WARP_SZ":
                raise SyntaxProblem(f"an address offset is a constant, not {self._peek()!r}", self.at)
            self.at += 1
        text = "".join([f"{t} " if t == "%" else t for _, t in self.tokens[start : self.at]])
        try:
            evaluate("0" + " ".join(t for _, t in self.tokens[start : self.at]))  # `+1 2` is not +12
        except RecursionError:
            raise SyntaxProblem("this offset is nested too deeply", start) from None
        except (ValueError, OverflowError) as error:
            raise SyntaxProblem(f"{text!r} is not a constant offset: {error}", start) from None
        if "~" in text:
            text = text[0] + self._one_token(start + 1)
        return text

    def _one_token(self, start: int) -> str:
        """The tokens from `start` to here as the one that they print as, with the gaps between them."""
        text = "".join([f"{t} " if t == "%" else t for _, t in self.tokens[start : self.at]])
        if self.at - start > 1:
            self.constants.append((start, self.at))
            if self.gaps is not None:
                rest = zip(self.gaps[start + 1 : self.at], self.tokens[start + 1 : self.at], strict=True)
                text = self.tokens[start][1] + "".join(g + t for g, (_, t) in rest)
        return text

    def _address(self) -> Operand:
        self._expect("[")
        base = self._operand()
        offset = ""
        if isinstance(base, Symbol) and base.offset:
            base, offset = Symbol(base.name), base.offset
        elif self._peek() in ("+", "-"):
            offset = self._offset()
        rest: Layout = ()
        if self._peek() == ",":
            self.at += 1
            rest = self._list()
        self._expect("]")
        unified = self._peek() == ".unified"
        self.at += unified
        return Address(base, offset, rest, unified)

    def _immediate(self) -> Operand:
        """A constant expression: everything up to the next comma, bar or closing bracket at this depth."""
        start, depth = self.at, 0
        while self.at < self.end:
            kind, token = self.tokens[self.at]
            if token in "([{":
                depth += 1
            elif token in ")]}" and token:
                if depth == 0:
                    break
                depth -= 1
            elif depth == 0 and token in (",", ";"):
                break
            elif kind in ("str", "bad") or (kind == "id" and token != "WARP_SZ"):
                raise SyntaxProblem(f"unexpected {_shown(token)} in a constant", self.at)
            self.at += 1
        if start == self.at:
            found = repr(self._peek()) if self.at < self.end else "the end of the statement"
            raise SyntaxProblem(f"expected an operand, found {found}", self.at)
        text = self._one_token(start)
        try:
            evaluate(text)
        except RecursionError:
            raise SyntaxProblem("this constant is nested too deeply", start) from None
        except (ValueError, OverflowError) as error:
            raise SyntaxProblem(f"{text!r} is not a constant: {error}", start) from None
        return Immediate(text)


def parse_layout(text: str) -> Layout:
    """Read the text form of a layout (`=, [$+8]`). SyntaxProblem if it is none."""
    call = text.startswith("call ")
    tokens, gaps = lex(text.removeprefix("call "))

    def classify(name: str) -> Operand:
        if name == "$":
            return PLACEHOLDERS["$"]
        return SpecialRegister(name) if name[0] == "%" else Symbol(name)

    return OperandParser(tokens, 0, len(tokens), classify, call=call, gaps=gaps, marks=True).layout()


def _shown(token: str) -> str:
    """A token in a message: bytes that are not UTF-8 by their numbers."""
    if "\udc80" <= token[:1] <= "\udcff":
        return f"byte 0x{ord(token[0]) - 0xDC00:02x}, which is not UTF-8,"
    return repr(token)


def plain_name(name: str) -> str:
    """`%r1` for `%r01`, which is another spelling of it where it is of a range."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return f"{stem}{digits.lstrip('0') or '0'}" if digits[:1] == "0" else name


# ----------------------------------------------------------------------------------------------------------- constants

_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))), "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, lambda a, b: a | b), "^": (4, lambda a, b: a ^ b), "&": (5, lambda a, b: a & b),
    "==": (6, lambda a, b: int(a == b)), "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)), ">": (7, lambda a, b: int(a > b)),
    "<=": (7, lambda a, b: int(a <= b)), ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: (a << (b & 63)) & _M64), ">>": (8, lambda a, b: a >> (b & 63)),
    "+": (9, lambda a, b: a + b), "-": (9, lambda a, b: a - b), "*": (10, lambda a, b: a * b),
    "/": (10, lambda a, b: _divide(a, b)), "%": (10, lambda a, b: a - _divide(a, b) * b),
}  # fmt: skip
_M64 = 0xFFFF_FFFF_FFFF_FFFF


def _wrapped(value: float) -> int | float:
    return value if isinstance(value, float) or -(1 << 63) <= value <= _M64 else value & _M64


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise ValueError("division by zero in a constant expression")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def evaluate(text: str) -> int | float:
    """Value of a PTX constant expression (PTX ISA 4.5). Integers are those of 64 bits, signed or unsigned; what is beyond
    both wraps around.

    ValueError if malformed, OverflowError where a number is beyond 64 bits or the range of normal .f64 values.
    """
    return _evaluated(text)[0]


def constant_problem(text: str) -> str | None:
    """Why ptxas refuses a well-formed constant expression, or None.

    Integers and floats do not mix, and of operators floats have - + * / and comparisons only. `0f3F800000` is a constant of its
    own: an operator takes it in parentheses only.
    """
    return _evaluated(text)[1]


@lru_cache(maxsize=8192)
def _evaluated(text: str) -> tuple[int | float, str | None]:  # noqa: C901  a parser of three levels over shared state
    tokens = [t for _, t in lex(text)[0]]
    position = 0
    problems: list[str] = []

    def unary() -> int | float:
        nonlocal position
        if position >= len(tokens):
            raise ValueError("it ends early")
        token = tokens[position]
        position += 1
        if token == "(":
            if position + 1 < len(tokens) and tokens[position] in (".s64", ".u64"):
                cast = tokens[position]
                position += 2
                value = whole(unary()) & _M64
                return value - (1 << 64) if cast == ".s64" and value >> 63 else value
            value = binary(0)
            if position >= len(tokens) or tokens[position] != ")":
                raise ValueError("a ')' is missing")
            position += 1
            return value
        if token == "-":
            return _wrapped(-unary())
        if token == "+":
            return unary()
        if token == "~":
            return _wrapped(~whole(unary()))
        if token == "!":
            return int(not whole(unary()))
        if token[:2] in ("0f", "0F"):
            before, behind = tokens[position - 2 : position - 1], tokens[position : position + 1]
            if (position > 1 and before != ["("]) or behind not in ([], [")"]):
                problems.append(f"{token} takes no sign or operator: write its value into the hexadecimal digits")
        return literal(token)

    def whole(value: float) -> int:
        if isinstance(value, float):
            problems.append(f"an operator of integers, or an integer next to it, meets {value}")
        return int(value)

    def binary(level: int) -> int | float:
        nonlocal position
        left = unary()
        while position < len(tokens):
            entry = _BINARY.get(tokens[position])
            if tokens[position] == "?" and level == 0:
                position += 1
                yes = binary(0)
                if position >= len(tokens) or tokens[position] != ":":
                    raise ValueError("a ':' is missing")
                position += 1
                no = binary(0)
                chosen, other = (yes, no) if whole(left) else (no, yes)
                whole(other)
                return whole(chosen)
            if entry is None or entry[0] <= level:
                break
            operator = tokens[position]
            position += 1
            right = binary(entry[0])
            if isinstance(left, float) or isinstance(right, float):
                if isinstance(left, int) or isinstance(right, int):
                    problems.append(f"{left} {operator} {right} mixes an integer with a floating-point number")
                left = _float_binary(operator, float(left), float(right))
            else:
                left = _wrapped(entry[1](left, right))
        return left

    value = binary(0)
    if position != len(tokens):
        raise ValueError(f"{tokens[position]!r} is not an operator")
    return value, problems[0] if problems else None


def _float_binary(operator: str, a: float, b: float) -> int | float:
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b
    if operator == "/" and b:
        return a / b
    if operator in ("<", ">", "<=", ">=", "==", "!="):
        return _BINARY[operator][1](a, b)  # pyright: ignore[reportArgumentType]
    raise ValueError(f"{operator} of floating-point constants")


def literal(token: str) -> int | float:
    """Value of one number token. ValueError if it is not a number, OverflowError if it is too large (or tiny)."""
    if token == "WARP_SZ":
        return 32
    lead = token[:2]
    if lead in ("0f", "0F"):
        return struct.unpack(">f", bytes.fromhex(token[2:]))[0]
    if lead in ("0d", "0D"):
        return struct.unpack(">d", bytes.fromhex(token[2:]))[0]
    digits = token.removesuffix("U")
    if lead in ("0x", "0X"):
        return _whole(digits, 16)
    if lead in ("0b", "0B"):
        return _whole(digits, 2)
    if not digits or not (digits[0].isdigit() or digits[0] == "."):
        raise ValueError(f"{token!r} is not a number")
    if digits.isdigit():
        return _whole(digits, 8 if digits[0] == "0" else 10)
    value = float(digits)
    if math.isinf(value) or 0 < value < sys.float_info.min or (value == 0 and re.match(r"[.0]*[1-9]", digits)):
        raise OverflowError(f"{token} is out of the range of a normal .f64")
    return value


def _whole(digits: str, base: int) -> int:
    """A whole number. It may have a digit more than fits: ptxas keeps the low 64 bits where the others are below 2**63."""
    try:
        value = int(digits, base)
    except ValueError:
        raise ValueError(f"{digits} is not a number of base {base}") from None
    if value // base >> 63:
        raise OverflowError(f"{digits} does not fit in 64 bits")
    return value & _M64
