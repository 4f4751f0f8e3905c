"""Where a statement ends: at its semicolon, at its line, at a matching bracket. Token indices in, token indices out."""

from __future__ import annotations

import re

from ..dialects.ptx.directive_facts import SOURCE_SECTION
from ..dialects.ptx.syntax import LINE_MARKER, Token

LINE_DIRECTIVES = frozenset({".loc", ".loc_intermediate", ".file", ".version", ".target", ".address_size"})


continued = re.compile(
    r"\.(?:loc|loc_intermediate|file|target|address_size)\b[^\n;{}]*?"
    rf"(?:,[ \t\r]*\n|\n(?:[ \t\r]*(?://[^\n]*|{LINE_MARKER})?\n)*[ \t]*"
    r'(?:[,"\d]|function_name\b|inlined_at\b|sm_|compute_|WARP_SZ\b))',
    re.M,
).finditer
"""The lines with a directive whose operands go on in a later line: that is rare, and no line of its own tells it."""


class Incomplete(Exception):
    """The statement goes on in the next line."""


def comment_start(tokens: list[Token], gaps: list[str]) -> int | None:
    """The token at which a comment starts that the text does not close: its `/*` was read as two tokens."""
    for i in range(1, len(tokens)):
        if tokens[i][1] == "*" and tokens[i - 1][1] == "/" and not gaps[i]:
            return i - 1
    return None


def until(tokens: list[Token], at: int, stop: str) -> int:
    depth = 0
    while at < len(tokens):
        token = tokens[at][1]
        if token == stop:  # even inside braces: no list holds a semicolon
            return at + 1
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth < 0:
                return at
        at += 1
    raise Incomplete


def matching(tokens: list[Token], at: int) -> int:
    """Index after the bracket that closes the one at `at`."""
    depth = 0
    while at < len(tokens):
        token = tokens[at][1]
        if token in ("(", "{"):
            depth += 1
        elif token in (")", "}"):
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    raise Incomplete


def line_directive_end(tokens: list[Token], at: int) -> int:
    """`.loc`, `.loc_intermediate`, `.file`, `.version`, `.target`, `.address_size` end with their operands, not with a semicolon."""
    first = tokens[at][1]
    i = at + 1
    if first == ".version":
        return min(at + 2, len(tokens))
    while i < len(tokens):
        kind, token = tokens[i]
        if first == ".target":
            if not (kind == "id" or token == ","):
                break
            if kind == "id" and tokens[i - 1][1] != "," and i > at + 1:
                break
        elif first == ".loc":
            if (
                (kind == "mod" and tokens[i - 1][1] != "function_name")
                or token in ("{", "}", ";", "@")
                or (kind == "id" and tokens[i - 1][1] not in (",", "function_name", "+") and token not in _LOC_WORDS)
            ):
                break
        elif kind not in ("num", "str") and token not in (",", "WARP_SZ"):
            break
        i += 1
    return i


_LOC_WORDS = frozenset({"function_name", "inlined_at"})


def section_end(tokens: list[Token], at: int) -> int:
    for i in range(at, len(tokens)):
        if tokens[i][1] == "{":
            end = matching(tokens, i)
            if any(token == ".source_begin" for _, token in tokens[i:end]):
                break  # the brackets after it are the program's
            return end
    raise Incomplete


def pragma_before(tokens: list[Token], start: int, semicolon: int) -> bool:
    """Whether the semicolon ends a `.pragma` between a function's parameters and its body."""
    at = semicolon - 1
    while at > start and (tokens[at][0] == "str" or tokens[at][1] == ","):
        at -= 1
    return at < semicolon - 1 and tokens[at][1] == ".pragma"


def statement_ends(tokens: list[Token], depth: int) -> list[int]:
    """Where each statement ends, the first of which is inside so many braces; Incomplete if the last one does not."""
    ends: list[int] = []
    at = 0
    while at < len(tokens):
        at, depth = _end_of(tokens, at, depth)
        ends.append(at)
    return ends


def _end_of(tokens: list[Token], at: int, depth: int) -> tuple[int, int]:
    kind, token = tokens[at]
    count = len(tokens)
    if token == "{":
        return at + 1, depth + 1
    if token == "}":
        return at + 1, max(depth - 1, 0)
    if token == ";":
        return at + 1, depth
    if kind == "id" and at + 1 < count and tokens[at + 1][1] == ":":
        if at + 2 < count and tokens[at + 2][1] in (".branchtargets", ".calltargets", ".callprototype"):
            return until(tokens, at, ";"), depth
        return at + 2, depth
    if token in LINE_DIRECTIVES:
        return line_directive_end(tokens, at), depth
    if token in (".section", SOURCE_SECTION):
        return section_end(tokens, at), depth
    if depth == 0:
        return _module_statement_end(tokens, at)
    return until(tokens, at, ";"), depth


def _module_statement_end(tokens: list[Token], at: int) -> tuple[int, int]:
    function = False
    i = at
    while i < len(tokens):
        token = tokens[i][1]
        if token in (".func", ".entry"):
            function = True
        elif token == "(":
            i = matching(tokens, i)
            continue
        elif token == ";":
            if function and pragma_before(tokens, at, i):
                i += 1
                continue
            return i + 1, 0
        elif token == "{":
            if function:
                return i + 1, 1
            i = matching(tokens, i)
            continue
        i += 1
    raise Incomplete
