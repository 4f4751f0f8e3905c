"""Where a statement ends: at its semicolon, at its line, at a matching bracket. Token indices in, token indices out."""

from __future__ import annotations

from ..dialects.ptx.syntax import Token, lex

LINE_DIRECTIVES = frozenset({".loc", ".loc_intermediate", ".file", ".version", ".target", ".address_size"})


class Incomplete(Exception):
    """The statement goes on in the next line."""


def open_comment(text: str) -> bool:
    at = text.rfind("/*")
    if at >= 0 and ".source_begin" in text:
        return any(kind == "p" and token == "/" for kind, token in lex(text)[0])
    if at < 0 or text.find("*/", at + 2) >= 0:
        return False
    line_start = text.rfind("\n", 0, at) + 1
    return "//" not in text[line_start:at]


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
    """Index behind the bracket that closes the one at `at`."""
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
        elif kind not in ("num", "str") and token != ",":
            break
        i += 1
    return i


_LOC_WORDS = frozenset({"function_name", "inlined_at"})


def section_end(tokens: list[Token], at: int) -> int:
    for i in range(at, len(tokens)):
        if tokens[i][1] == "{":
            end = matching(tokens, i)
            if any(token == ".source_begin" for _, token in tokens[i:end]):
                break  # the brackets behind it are the program's
            return end
    raise Incomplete


def pragma_before(tokens: list[Token], start: int, semicolon: int) -> bool:
    """Whether the semicolon ends a `.pragma` between a function's parameters and its body."""
    at = semicolon - 1
    while at > start and (tokens[at][0] == "str" or tokens[at][1] == ","):
        at -= 1
    return at < semicolon - 1 and tokens[at][1] == ".pragma"
