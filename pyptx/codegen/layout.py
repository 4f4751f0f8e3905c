"""Lines of Python broken as `ruff format` breaks them: at the last bracket, one argument a line with a comma after."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

WIDTH = 88
_OPEN, _CLOSE = "([{", ")]}"


def lines(indent: int, text: str) -> list[str]:
    """A statement as one or more lines."""
    if indent + len(text) <= WIDTH:
        return [" " * indent + text]
    return _split(indent, text)


def _split(indent: int, text: str) -> list[str]:
    found = _last_bracket(text)
    if found is None:
        return [" " * indent + text]
    start, end = found
    head, body, tail = text[: start + 1], text[start + 1 : end], text[end:]
    if not body or (tail[1:] and not tail[1:].startswith((":", " as ", ",", ")", "]"))):
        return [" " * indent + text]
    inside = indent + 4
    clauses = _clauses(body)
    if len(clauses) > 1:
        if inside + len(body) <= WIDTH:
            clauses = [body]
        return [" " * indent + head, *[x for c in clauses for x in lines(inside, c)], " " * indent + tail]
    parts = _arguments(body)
    is_call = text[start] != "(" or (start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_])"))
    if not is_call and len(parts) == 1 and not body.endswith(","):
        return [" " * indent + head, *lines(inside, body), " " * indent + tail]
    is_subscript = text[start] == "[" and start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_])")
    if is_subscript and len(parts) == 1:
        return [" " * indent + head, *lines(inside, body), " " * indent + tail]  # a comma would make it a tuple
    is_literal = len(parts) > 1 and not (is_call and text[start] == "(")
    if inside + len(body) <= WIDTH and not is_literal and not (len(parts) == 1 and body.endswith(",")):
        middle = [" " * inside + body]
    else:
        middle = []
        for part in parts:
            split = lines(inside, part + ",") if inside + len(part) + 1 > WIDTH else [" " * inside + part + ","]
            middle += split
    return [" " * indent + head, *middle, " " * indent + tail]


def _depths(text: str) -> Iterator[tuple[int, str, int]]:
    """The characters outside of string literals, each with its place and how many brackets are open after it."""
    depth, quote, escaped = 0, "", False
    for i, c in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif c == "\\":
                escaped = True
            elif c == quote:
                quote = ""
            continue
        if c in "\"'":
            quote = c
        depth += (c in _OPEN) - (c in _CLOSE)
        yield i, c, depth


def _last_bracket(text: str) -> tuple[int, int] | None:
    """The last pair of outermost brackets."""
    start, found = 0, None
    for i, c, depth in _depths(text):
        if c in _OPEN and depth == 1:
            start = i
        elif c in _CLOSE and depth == 0:
            found = start, i
    return found


def _clauses(body: str) -> list[str]:
    """A comprehension as its element and its `for`; anything else as it is."""
    for i, _, depth in _depths(body):
        if depth == 0 and body.startswith(" for ", i):
            return [body[:i], body[i + 1 :]]
    return [body]


def _arguments(body: str) -> list[str]:
    commas = [i for i, c, depth in _depths(body) if c == "," and depth == 0]
    parts = [body[a + 1 : b].strip() for a, b in pairwise([-1, *commas, len(body)])]
    return parts if parts[-1] else parts[:-1]
