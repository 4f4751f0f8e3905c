"""Where names of PTX text are defined and used: registers, labels, variables, parameters, functions, by their scopes.

It reads tokens, not instructions: what is being typed does not parse, and its names are wanted all the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ...parser.extent import LINE_DIRECTIVES

__all__ = ["Definition", "Names", "Scope", "Token", "tokens_of"]

Kind = Literal["register", "label", "variable", "parameter", "function", "entry"]
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<string>"[^"\n]*"?)|(?P<preprocessor>^[ \t]*\#[^\n]*)
    |(?P<name>[A-Za-z_$%][\w$]*(?:\.(?:[xyzwrgba]|[bh]\d)\b(?![.\w]))?)|(?P<directive>\.[A-Za-z_][\w]*(?:::\w+)*)
    |(?P<number>0[fFdD][0-9a-fA-F]+|\d[\w.]*)|(?P<mark>::|[{}();:,<>\[\]=])""",
    re.S | re.M | re.X,
)
SPACES = frozenset(".param .local .shared .global .const .tex".split())
HEADS = frozenset((".entry", ".func"))
OF_A_LINE = LINE_DIRECTIVES | {".section"}
"""Directives that no semicolon ends."""
COUNT = re.compile(r"\s*<\s*(\d+)\s*>")


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(slots=True, eq=False)
class Definition:
    """A name: where it is defined, what it is, and the places of the text that use it."""

    name: str
    kind: Kind
    start: int
    detail: str
    """How it is declared: `.reg .b32`, `.shared .align 16 .b8`."""
    count: int | None = None
    """Of `%r<10>`: 10, and `name` is `%r`."""
    uses: list[Token] = field(default_factory=list["Token"])

    @property
    def end(self) -> int:
        return self.start + len(self.name)


@dataclass(slots=True, eq=False)
class Scope:
    """A `{ }` of the text, the body of a function, or the module."""

    parent: Scope | None
    start: int
    end: int
    function: Definition | None = None
    section: bool = False
    """Whether it is a `.section`, where each line is a statement."""
    names: dict[str, Definition] = field(default_factory=dict[str, Definition])
    families: dict[str, Definition] = field(default_factory=dict[str, Definition])

    def find(self, name: str) -> Definition | None:
        """What a name means here."""
        stem = name.rstrip("0123456789")
        number = name[len(stem) :]
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is None and number:
                family = scope.families.get(stem)
                if family is not None and int(number) < (family.count or 0):
                    found = family
            if found is not None:
                return found
            scope = scope.parent
        return None


def tokens_of(text: str) -> Iterator[Token]:
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or ""
        yield Token(kind, match[kind], match.start(kind))


class Names:
    """The names of a text."""

    def __init__(self, text: str):
        self.text = text
        self.module = Scope(None, 0, len(text))
        self.scopes = [self.module]
        self.tokens = list(tokens_of(text))
        self.unresolved: list[Token] = []
        self._pending: list[tuple[Token, Scope]] = []
        self._read()
        everywhere = {d.name: d for d in self.definitions if d.kind in ("label", "variable", "parameter")}
        for token, scope in self._pending:
            name = token.text.partition(".")[0]
            found = scope.find(name)
            if found is None and (scope.section or name[0] == "$"):  # debug data and `.loc` name labels of each other
                found = everywhere.get(name)
            if found is None:
                self.unresolved.append(token)
            else:
                found.uses.append(token)
        self._starts = [t.start for t in self.tokens]

    @property
    def definitions(self) -> Iterator[Definition]:
        for scope in self.scopes:
            yield from scope.names.values()
            yield from scope.families.values()

    def token_at(self, offset: int) -> Token | None:
        """The token that covers a place, or ends there."""
        at = bisect_right(self._starts, offset) - 1
        for i in (at, at - 1):
            if (
                0 <= i < len(self.tokens)
                and self.tokens[i].start <= offset <= self.tokens[i].end
                and (self.tokens[i].kind != "mark" or i == at - 1)
            ):
                return self.tokens[i]
        return None

    def scope_at(self, offset: int) -> Scope:
        inside = [s for s in self.scopes if s.start <= offset <= s.end]
        return min(inside, key=lambda s: s.end - s.start)

    def definition_at(self, offset: int) -> Definition | None:
        """What the name at a place is, be it its definition or a use."""
        token = self.token_at(offset)
        if token is None or token.kind != "name":
            return None
        for definition in self.definitions:
            if definition.start == token.start or any(u.start == token.start for u in definition.uses):
                return definition
        return None

    # -------------------------------------------------------------------------------------------------------- reading

    def _read(self) -> None:
        scope = self.module
        statement: list[Token] = []
        depth = 0  # of braces, brackets and parentheses within a statement
        for token in self.tokens:
            if token.kind in ("comment", "string", "preprocessor"):
                continue
            text = token.text if token.kind == "mark" else ""
            of_line = bool(statement) and depth == 0 and (scope.section or statement[0].text in OF_A_LINE)
            if of_line and not (text == "{" and statement[0].text == ".section"):
                if "\n" in self.text[statement[-1].end : token.start]:
                    self._end(scope, statement)
                    statement = []
            if text == "{" and depth == 0 and (not statement or _head(statement)):
                scope = self._open(scope, statement, token)
                statement = []
            elif text == "}" and depth == 0:
                self._end(scope, statement)
                statement = []
                scope.end = token.end
                scope = scope.parent or scope
            elif text == ";" and (depth == 0 or _begins(statement)):
                self._end(scope, statement)
                statement, depth = [], 0
            elif text == ":" and depth == 0 and len(statement) == 1 and statement[0].kind == "name":
                self._define(scope, statement[0], "label", "label")
                statement = []
            else:
                depth += (text in ("{", "(", "[")) - (text in ("}", ")", "]"))
                depth = max(depth, 0)
                statement.append(token)
        self._end(scope, statement)

    def _open(self, scope: Scope, statement: list[Token], token: Token) -> Scope:
        inner = Scope(scope, token.start, len(self.text))
        self.scopes.append(inner)
        inner.section = bool(statement) and statement[0].text == ".section"
        if statement and not inner.section:
            inner.function = self._function(scope, inner, statement)
        return inner

    def _function(self, scope: Scope, inner: Scope | None, statement: list[Token]) -> Definition | None:
        """The name of a header, and its parameters, which belong to the body."""
        depth, function, parameter = 0, None, False
        head = next(i for i, t in enumerate(statement) if t.text in HEADS)
        for i, token in enumerate(statement[head + 1 :], head + 1):
            if token.kind == "mark":
                depth += (token.text == "(") - (token.text == ")")
                parameter = parameter and token.text not in ",)"
            elif depth and token.text in (".param", ".reg"):
                parameter = True
            elif token.kind == "name" and depth and parameter:
                begin = max(j for j in range(i) if statement[j].text in (".param", ".reg"))
                if inner is not None:
                    self._define(inner, token, "parameter", _detail(statement[begin:i]))
                parameter = False
            elif token.kind == "name" and not depth and function is None:
                kind: Kind = "entry" if statement[head].text == ".entry" else "function"
                function = self._define(scope, token, kind, _detail(statement[: head + 1]))
        return function

    def _end(self, scope: Scope, statement: list[Token]) -> None:
        """A statement without its semicolon: a declaration, or an instruction whose names are uses."""
        if not statement:
            return
        if statement[0].text in OF_A_LINE:
            self._pending += [(t, scope) for t in statement if t.kind == "name" and t.text[0] == "$"]
        elif any(t.text in HEADS for t in statement):
            self._function(scope, None, statement)
        elif statement[0].kind == "directive" and any(t.text == ".reg" or t.text in SPACES for t in statement):
            self._declaration(scope, statement)
        else:
            opcode = next((i for i, t in enumerate(statement) if t.kind == "name" and not t.text.startswith("%")), -1)
            if statement[0].kind == "directive":
                opcode = -1
            self._pending += [(t, scope) for i, t in enumerate(statement) if t.kind == "name" and i != opcode]

    def _declaration(self, scope: Scope, statement: list[Token]) -> None:
        kind: Kind = "register" if any(t.text == ".reg" for t in statement) else "variable"
        first = next((i for i, t in enumerate(statement) if t.kind == "name"), len(statement))
        detail, depth, wanted = _detail(statement[:first]), 0, True
        for token in statement[first:]:
            if token.kind == "mark":
                depth += (token.text in "{([") - (token.text in "})]")
                wanted = (wanted or token.text == ",") and token.text != "="
            elif token.kind == "name" and depth == 0 and wanted:
                count = COUNT.match(self.text, token.end)
                self._define(scope, token, kind, detail, int(count[1]) if count else None)
                wanted = False
            elif token.kind == "name":
                self._pending.append((token, scope))

    def _define(self, scope: Scope, token: Token, kind: Kind, detail: str, count: int | None = None) -> Definition:
        table = scope.names if count is None else scope.families
        known = table.get(token.text)
        if known is not None:  # declared again: the first place counts
            known.uses.append(token)
            return known
        found = table[token.text] = Definition(token.text, kind, token.start, detail, count)
        return found


def _head(statement: list[Token]) -> bool:
    """Whether a brace after this opens a scope: the body of a function, or a section."""
    return statement[0].text == ".section" or any(t.text in HEADS for t in statement)


def _begins(statement: list[Token]) -> bool:
    """Whether a semicolon ends this although a bracket is open: not within the header of a function."""
    return not _head(statement)


def _detail(statement: list[Token]) -> str:
    return " ".join(t.text for t in statement if t.kind != "mark")
