"""Characters that PTX text may not hold: it is ASCII, but for comments (PTX ISA 4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..dialects.ptx.syntax import TOKEN
from .module_text import Issue

_CONTROL = "\0\x0b\x1c\x1d\x1e\x1f"
"""NUL, and what Python takes for white space and ptxas does not."""
_FOREIGN = re.compile(r"[\0\x0b\x1c-\x1f]|[^\0-\x7f]+")


def foreign_characters(text: str) -> Iterator[Issue]:
    """The characters outside of comments that are not ASCII, and NUL anywhere: ptxas takes it for the end of the file."""
    if text.isascii() and not any(c in text for c in _CONTROL):
        return
    comments = [m.span() for m in TOKEN.finditer(text) if m.lastgroup in ("lc", "bc")]
    at = 0
    for match in _FOREIGN.finditer(text):
        place = match.start()
        while at < len(comments) and comments[at][1] <= place:
            at += 1
        commented = at < len(comments) and comments[at][0] <= place
        if commented and match[0] != "\0":
            continue
        line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
        yield Issue(
            f"the character {match[0][0]!a} may stand in comments only" if match[0] != "\0" else "NUL ends the text",
            line,
            column,
        )
