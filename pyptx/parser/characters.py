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
        yield Issue(_said(match[0][0], place), line, column)


def _said(character: str, place: int) -> str:
    if character == "\0":
        return "NUL ends the text"
    if character == "\ufeff" and not place:
        return "the text begins with a byte order mark (U+FEFF); PTX has none"
    if "\udc80" <= character <= "\udcff":
        return f"the byte 0x{ord(character) - 0xDC00:02x} is not UTF-8, and may stand in comments only"
    return f"the character {character!a} may stand in comments only"
