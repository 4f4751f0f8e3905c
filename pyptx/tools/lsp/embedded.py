"""PTX inside other languages: modules in string literals of Python and C++, and `asm(...)` statements of CUDA C++.

Only what can be read with certainty is taken. A literal is taken if it is a whole module and nothing is put into it (no f-string, `%`,
`.format` or `+`). An `asm` is taken if its text consists of literals only and each constraint is one that CUDA C++ defines
(Inline PTX Assembly, "Constraints").
"""

from __future__ import annotations

import ast
import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from ...diagnostics import Diagnostic
from ...parser.diagnose import diagnose_text
from .names import Names

__all__ = ["Region", "language_of", "regions_of"]

LANGUAGES = {
    ".py": "python", ".pyi": "python",
    ".cu": "cuda", ".cuh": "cuda", ".cpp": "cuda", ".cc": "cuda", ".cxx": "cuda", ".hpp": "cuda", ".h": "cuda",
}  # fmt: skip
MODULE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*\.version\s+\d+\.\d+", re.S)
OF_PTX = re.compile(r"\b[a-z]\w*\.[a-z]")
"""An opcode with a modifier, which the machine code of hosts (`pause`) does not have."""
TEMPLATE = re.compile(r"\{\{|\{\w*\}|%\(\w+\)s")
PYTHON = re.compile(
    r"""(?P<skip>\#[^\n]*|[ \t\r\n]+|\\\r?\n)
    |(?P<prefix>[A-Za-z]{0,2})(?P<quote>\"\"\"|''')(?P<long>(?:[^\\]|\\.)*?)(?P=quote)
    |(?P<prefix1>[A-Za-z]{0,2})(?P<quote1>["'])(?P<short>(?:(?!(?P=quote1))[^\\\n]|\\.)*)(?P=quote1)
    |(?P<word>\w+)|(?P<mark>.)""",
    re.S | re.X,
)
CUDA = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|[ \t\r\n]+|\\\r?\n)
    |(?:u8|u|U|L)?R"(?P<delimiter>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=delimiter)"
    |(?:u8|u|U|L)?"(?P<string>(?:[^"\\\n]|\\.)*)"|(?P<character>'(?:[^'\\\n]|\\.)+')
    |(?P<word>\w+)|(?P<mark>.)""",
    re.S | re.X,
)
ESCAPE = re.compile(r"\\(?:\r?\n|x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.S)
ASM = frozenset(("asm", "__asm__", "__asm"))
QUALIFIERS = frozenset(("volatile", "__volatile__", "inline", "goto"))
CONSTRAINTS = {"h": ".b16", "r": ".b32", "l": ".b64", "q": ".b128", "f": ".b32", "d": ".b64"}
"""Letter of a constraint -> how its register is declared here: untyped, as newer nvcc does, which takes every type of the same size."""
TARGETS = (("9.0", "sm_90a"), ("9.0", "sm_100a"), ("9.0", "sm_120a"), ("6.0", "sm_60"))
"""The text of an `asm` does not tell its target: it is right if one of these takes it."""
IMMEDIATES = ("16", "1", "0", "4", "32")
"""Values tried for an operand of constraint `n` whose expression is not a number."""
HARMLESS = frozenset(("encode", "strip", "lstrip", "rstrip"))
"""Methods of a literal that leave the PTX as it is."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of PTX text and where it is in the host's: as many characters, or one that an escape sequence encodes."""

    text: str
    host: int
    length: int


@dataclass(slots=True)
class Region:
    """PTX text in a host text."""

    pieces: list[Piece]
    variants: list[list[Piece]] = field(default_factory=list[list[Piece]])
    """The same text with other targets and immediates: what is wrong must be wrong in each."""
    text: str = ""
    starts: list[int] = field(default_factory=list[int])
    _names: Names | None = None

    def __post_init__(self) -> None:
        self.text = "".join(p.text for p in self.pieces)
        self.starts = list(itertools.accumulate((len(p.text) for p in self.pieces[:-1]), initial=0))

    @property
    def names(self) -> Names:
        if self._names is None:
            self._names = Names(self.text)
        return self._names

    def to_host(self, offset: int) -> int:
        at = max(bisect_right(self.starts, offset) - 1, 0)
        piece = self.pieces[at]
        return piece.host + min(offset - self.starts[at], piece.length)

    def from_host(self, offset: int) -> int | None:
        """None where the host's place is not in this text."""
        for start, piece in zip(self.starts, self.pieces, strict=True):
            if piece.length and piece.host <= offset < piece.host + piece.length:
                return start + min(offset - piece.host, len(piece.text))
        return None

    def diagnose(self) -> list[tuple[int, Diagnostic]]:
        """What is wrong, each with its offset in the host text; quick fixes, which would have to be escaped, are left out."""
        found = _placed(self)
        for other in self.variants:
            if not found:
                break
            again = {(at, d.message) for at, d in _placed(Region(other))}
            found = [(at, d) for at, d in found if (at, d.message) in again]
        return found


def _placed(region: Region) -> list[tuple[int, Diagnostic]]:
    lines = [0, *(m.end() for m in re.finditer("\n", region.text))]
    found: list[tuple[int, Diagnostic]] = []
    for d in diagnose_text(region.text):
        offset = lines[min(d.line or 1, len(lines)) - 1] + max((d.column or 1) - 1, 0)
        found.append((region.to_host(offset), replace(d, fixes=(), source_line=None)))
    return found


def language_of(uri: str) -> str:
    """`python`, `cuda`, or `ptx` for any other file."""
    return LANGUAGES.get(PurePosixPath(uri.partition("?")[0]).suffix.lower(), "ptx")


def regions_of(text: str, language: str) -> list[Region]:
    """The PTX in a text of Python or CUDA C++, in order."""
    if language == "python":
        return [Region(pieces) for pieces in _python(text)]
    tokens = list(_cuda_tokens(text))
    return [*(Region(p) for p in _cuda_modules(text, tokens)), *_asm_statements(text, tokens)]


def _escaped(text: str, start: int, end: int) -> Iterator[Piece]:
    """A literal's content with its escape sequences read."""
    at = start
    for match in ESCAPE.finditer(text, start, end):
        if match.start() > at:
            yield Piece(text[at : match.start()], at, match.start() - at)
        at = match.end()
        yield Piece(_character(match[0]), match.start(), at - match.start())
    if at < end:
        yield Piece(text[at:end], at, end - at)


def _character(escape: str) -> str:
    if escape[1] in "\r\n":
        return ""
    try:
        return ast.literal_eval(f'"{escape}"')
    except (SyntaxError, ValueError):
        return escape


# ------------------------------------------------------------------------------------------------------------ Python


def _python(text: str) -> Iterator[list[Piece]]:
    """Literals next to each other are one text, as Python takes them."""
    pieces: list[Piece] = []
    fixed, before = True, ""
    last = ""
    for match in PYTHON.finditer(text):
        if match["skip"]:
            continue
        content = "long" if match["long"] is not None else "short"
        if match[content] is None:
            if pieces:
                if fixed and before != "+" and _is_module(pieces) and _left_alone(text, match.start()):
                    yield pieces
                pieces = []
            last = match[0]
            continue
        if not pieces:
            fixed, before = True, last
        prefix = (match["prefix"] or match["prefix1"] or "").lower()
        fixed = fixed and not set(prefix) & set("ft")
        start, end = match.span(content)
        pieces += [Piece(text[start:end], start, end - start)] if "r" in prefix else _escaped(text, start, end)
        last = match[0]
    if pieces and fixed and before != "+" and _is_module(pieces):
        yield pieces


def _left_alone(text: str, at: int) -> bool:
    """Whether what comes after a literal does not change it."""
    if text[at] in "+%":
        return False
    method = re.compile(r"\.\s*(\w+)").match(text, at)
    return method is None or method[1] in HARMLESS


def _is_module(pieces: Sequence[Piece]) -> bool:
    """Whether it is a whole module: it has a target, its braces are closed, and it has no place for `.format` to fill."""
    text = "".join(p.text for p in pieces)
    whole = MODULE.match(text) and ".target" in text and text.count("{") == text.count("}")
    return bool(whole) and TEMPLATE.search(text) is None


# ------------------------------------------------------------------------------------------------------------ CUDA C++


def _cuda_tokens(text: str) -> Iterator[re.Match[str]]:
    return (m for m in CUDA.finditer(text) if m["skip"] is None)


def _content(text: str, token: re.Match[str]) -> list[Piece] | None:
    """The pieces of a string literal; None for other tokens."""
    if token["raw"] is not None:
        start, end = token.span("raw")
        return [Piece(text[start:end], start, end - start)]
    return None if token["string"] is None else list(_escaped(text, *token.span("string")))


def _cuda_modules(text: str, tokens: Sequence[re.Match[str]]) -> Iterator[list[Piece]]:
    pieces: list[Piece] = []
    before = last = ""
    for token in tokens:
        content = _content(text, token)
        if content is not None:
            before = before if pieces else last
            pieces += content
        elif pieces:
            # a macro's name next to a literal is text, too
            if "+" not in (before, token[0]) and not token["word"] and _is_module(pieces):
                yield pieces
            pieces = []
        last = token[0]


@dataclass(frozen=True, slots=True)
class _Asm:
    template: list[Piece]
    constraints: list[tuple[str, str]]
    """(constraint, expression) of each operand"""
    extended: bool
    """Whether it has a colon: only then is `%` special."""


def _asm_statements(text: str, tokens: Sequence[re.Match[str]]) -> list[Region]:
    found: list[Region] = []
    for at, token in enumerate(tokens):
        if token["word"] in ASM:
            statement = _statement(text, tokens, at + 1)
            variants = None if statement is None else _variants(statement)
            if variants:
                found.append(Region(variants[0], variants[1:]))
    declared = [{d.name for d in region.names.definitions} for region in found]
    return [
        region
        for i, region in enumerate(found)
        # a register that another statement declares
        if not any(u.text in names for u in region.names.unresolved for j, names in enumerate(declared) if j != i)
    ]


def _statement(text: str, tokens: Sequence[re.Match[str]], at: int) -> _Asm | None:
    """The `asm` whose parenthesis comes at a token; None where it cannot be read with certainty."""
    while at < len(tokens) and tokens[at]["word"] in QUALIFIERS:
        at += 1
    if at >= len(tokens) or tokens[at][0] != "(":
        return None
    template: list[Piece] = []
    constraints: list[tuple[str, str]] = []
    section, at = 0, at + 1
    while at < len(tokens):
        token = tokens[at]
        content = _content(text, token)
        if token[0] == ")":
            is_ptx = OF_PTX.search("".join(p.text for p in template)) is not None
            return _Asm(template, constraints, section > 0) if is_ptx else None
        if token[0] == ":":
            section += 1
        elif content is not None and section == 0:
            template += content
        elif content is not None and section < 3:
            end = _closing(tokens, at + 1)
            if end is None:
                return None
            expression = text[tokens[at + 1].end() : tokens[end].start()].strip()
            constraints.append(("".join(p.text for p in content).strip("=+&"), expression))
            at = end
        elif content is None and not (token[0] == "," and section):
            return None
        at += 1
    return None


def _closing(tokens: Sequence[re.Match[str]], at: int) -> int | None:
    """The parenthesis that closes the one at a token."""
    if at >= len(tokens) or tokens[at][0] != "(":
        return None
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i][0] == "(") - (tokens[i][0] == ")")
        if depth == 0:
            return i
    return None


def _variants(statement: _Asm) -> list[list[Piece]] | None:
    """The statement as a kernel, for each target and immediate that is tried; None where a constraint is not known."""
    kinds: list[str] = []
    for constraint, _ in statement.constraints:
        matched = int(constraint) if constraint.isdecimal() else -1
        kind = kinds[matched] if 0 <= matched < len(kinds) else CONSTRAINTS.get(constraint, constraint)
        if kind not in (*CONSTRAINTS.values(), "n"):
            return None
        kinds.append(kind)
    known = {
        i: expression if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", expression) else None
        for i, (kind, (_, expression)) in enumerate(zip(kinds, statement.constraints, strict=True))
        if kind == "n"
    }
    tried = IMMEDIATES if None in known.values() else IMMEDIATES[:1]
    found: list[list[Piece]] = []
    for (version, target), value in itertools.product(TARGETS, tried):
        body = _substituted(statement, {i: text or value for i, text in known.items()})
        if body is None:
            return None
        start, end = body[0].host, body[-1].host + body[-1].length
        registers = "".join(f".reg {kind} %{i};\n" for i, kind in enumerate(kinds) if kind != "n")
        head = f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\n{registers}"
        found.append([Piece(head, start, 0), *body, Piece("\nret;\n}\n", end, 0)])
    return found


def _substituted(statement: _Asm, immediates: dict[int, str]) -> list[Piece] | None:
    """The text with `%%` read and immediates put in. Operands that are registers keep their names: `%0` is a valid name of PTX."""
    found: list[Piece] = []
    for piece in statement.template:
        at = 0
        if statement.extended and len(piece.text) == piece.length:
            for match in re.finditer(r"%(?:(?P<number>\d+)|(?P<other>[^\w\n]?))", piece.text):
                number = match["number"]
                if match["other"] == "%":
                    put = "%"
                elif number is not None and int(number) in immediates:
                    put = immediates[int(number)]
                elif number is not None or match["other"] is None:
                    continue
                else:
                    return None  # %[name], %=: not of CUDA C++
                if match.start() > at:
                    found.append(Piece(piece.text[at : match.start()], piece.host + at, match.start() - at))
                found.append(Piece(put, piece.host + match.start(), match.end() - match.start()))
                at = match.end()
        if at < len(piece.text) or not piece.text:
            length = piece.length - at
            found.append(Piece(piece.text[at:], piece.host + at, length))
    return found or None
