"""Declarations of variables, registers and parameters, and the headers of functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..dialects.ptx.structure import DeclarationAttr, extents
from ..dialects.ptx.syntax import SyntaxProblem, Token
from .extent import matching


@dataclass(slots=True)
class Header:
    head: list[str]
    name: str
    returns: list[DeclarationAttr] | None
    params: list[DeclarationAttr] | None
    directives: list[str]


_BRACKETS = (frozenset("{[<("), frozenset("}]>)"))
_BRACKETS_OF_VALUES = (frozenset("{[("), frozenset("}])"))
"""In an initial value `<` and `>` compare."""


def _declaration_parts(tokens: list[Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split `[start, end)` at commas outside brackets."""
    depth = 0
    first = start
    opening, closing = _BRACKETS
    for i in range(start, end):
        token = tokens[i][1]
        if token in opening:
            depth += 1
        elif token in closing:
            depth -= 1
        elif token == "=":
            opening, closing = _BRACKETS_OF_VALUES
        elif token == "," and depth == 0:
            yield first, i
            first = i + 1
            opening, closing = _BRACKETS
    yield first, end


def read_declaration(tokens: list[Token], start: int, end: int) -> DeclarationAttr:
    """`.global .align 4 .u32 a[2] = {1, 2}, b` as a declaration; SyntaxProblem where it is none."""
    head: list[str] = []
    at = start
    while at < end and (tokens[at][0] != "id"):
        kind, token = tokens[at]
        if token == "(":
            close = _closed(tokens, at)
            head += [t for _, t in tokens[at:close]]
            at = close
            continue
        if token in ("[", "=") and head and tokens[at - 1][0] == "mod":
            raise SyntaxProblem(f"{head[-1]} is not a name: names begin with a letter, _, $ or %", at - 1)
        if kind not in ("mod", "num"):
            raise SyntaxProblem(f"unexpected {token!r} in a declaration", at)
        head.append(token)
        at += 1
    if at >= end:
        raise SyntaxProblem("a declaration needs a name", max(end - 1, start))
    if head[-1:] == [".align"]:
        raise SyntaxProblem(f".align takes a power of two, not {tokens[at][1]}", at)
    items: list[tuple[str, tuple[str, ...]]] = []
    for first, last in _declaration_parts(tokens, at, end):
        if first >= last or tokens[first][0] != "id":
            raise SyntaxProblem("a declaration needs a name after the comma", min(first, end - 1))
        tail = tuple(t for _, t in tokens[first + 1 : last])
        try:
            extents(tail)
        except (ValueError, OverflowError) as error:
            raise SyntaxProblem(f"bad size in the declaration of {tokens[first][1]}: {error}", first) from None
        items.append((tokens[first][1], tail))
    return DeclarationAttr((tuple(head), tuple(items)))


def read_header(tokens: list[Token], start: int, end: int) -> Header:
    """A function's header up to and including `{` or `;`."""
    head: list[str] = []
    at = start
    while at < end and tokens[at][1] not in (".func", ".entry"):
        head.append(tokens[at][1])
        at += 1
    head.append(tokens[at][1])
    at += 1
    while at < end and tokens[at][0] == "mod":
        head.append(tokens[at][1])
        at += 1
        if at < end and tokens[at][1] == "(" and head[-1] == ".attribute":
            close = _closed(tokens, at)
            head += [t for _, t in tokens[at:close]]
            at = close
    returns = params = None
    if at < end and tokens[at][1] == "(":
        close = _closed(tokens, at)
        returns = declarations(tokens, at + 1, close - 1)
        at = close
    if at >= end or tokens[at][0] != "id":
        raise SyntaxProblem("a function needs a name", min(at, end - 1))
    name = tokens[at][1]
    at += 1
    if at < end and tokens[at][1] == "(":
        close = _closed(tokens, at)
        params = declarations(tokens, at + 1, close - 1)
        at = close
    return Header(head, name, returns, params, [t for _, t in tokens[at : end - 1]])


def _closed(tokens: list[Token], at: int) -> int:
    """Index after the parenthesis that closes the one at `at`."""
    close = matching(tokens, at)
    if tokens[close - 1][1] != ")":
        raise SyntaxProblem(f"expected ')', found {tokens[close - 1][1]!r}", close - 1)
    return close


def declarations(tokens: list[Token], start: int, end: int) -> list[DeclarationAttr]:
    if start == end:
        return []
    return [read_declaration(tokens, a, b) for a, b in _declaration_parts(tokens, start, end)]
