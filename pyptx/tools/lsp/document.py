"""An open text: its lines and columns as the protocol and as diagnostics count them, and the PTX in it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import Any

from lsprotocol import types as lsp

from ...diagnostics import Diagnostic
from ...parser.diagnose import diagnose_text
from .embedded import Region, regions_of
from .names import Names

__all__ = ["LARGE", "Document"]

LARGE = 2 << 20
"""Characters from which on a file is judged when it is opened and saved only, and nothing else is computed of it."""


class Document:
    """A text with its names and where its lines begin. Lines of the protocol end with CR, LF or both, those of diagnostics with LF.
    Columns of the protocol are UTF-16 code units (LSP 3.17, Position), those of
    diagnostics and of the text are characters. In a text of another language (`embedded`), only its PTX counts.
    """

    def __init__(self, text: str, version: int | None, language: str = "ptx"):
        self.text, self.version, self.language = text, version, language
        self.starts = [0, *(m.end() for m in re.finditer("\r\n?|\n", text))]
        self.lines = [0, *(m.end() for m in re.finditer("\n", text))]
        """Where the lines of diagnostics begin."""
        self.wide = [m.start() for m in re.finditer("[\U00010000-\U0010ffff]", text)]
        """Characters of two UTF-16 code units."""
        self._names: Names | None = None
        self.found: list[Diagnostic] = []
        self.simulated: list[Diagnostic] = []
        """What a simulation of this text found."""
        self.hints: list[dict[str, Any]] | None = None
        self._regions: list[Region] | None = None

    @property
    def names(self) -> Names:
        """None are known of large texts, and of those of other languages: `inside` has the names of their PTX."""
        if self._names is None:
            self._names = Names(self.text if self.language == "ptx" and len(self.text) <= LARGE else "")
        return self._names

    @property
    def regions(self) -> list[Region]:
        """The PTX in a text of another language."""
        if self._regions is None:
            self._regions = [] if self.language == "ptx" else regions_of(self.text, self.language)
        return self._regions

    def inside(self, position: lsp.Position) -> tuple[Names, int] | None:
        """The names of the PTX at a place, and the offset in its text; None outside of PTX."""
        offset = self.offset(position)
        if self.language == "ptx":
            return self.names, offset
        places = ((region, region.from_host(offset)) for region in self.regions)
        return next(((region.names, at) for region, at in places if at is not None), None)

    def diagnose(self) -> list[Diagnostic]:
        """The diagnostics, with the lines and columns of this text."""
        if self.language == "ptx":
            return diagnose_text(self.text)
        found: list[Diagnostic] = []
        for offset, d in (each for region in self.regions for each in region.diagnose()):
            line = bisect_right(self.lines, offset)
            found.append(replace(d, line=line, column=offset - self.lines[line - 1] + 1))
        return found

    def offset(self, position: lsp.Position) -> int:
        line = min(position.line, len(self.starts) - 1)
        end = self.starts[line + 1] - 1 if line + 1 < len(self.starts) else len(self.text)
        found = self.starts[line] + position.character
        for at in self.wide[bisect_left(self.wide, self.starts[line]) :]:
            if at >= found:
                break
            found -= 1
        return min(found, end)

    def position(self, offset: int) -> lsp.Position:
        line = bisect_right(self.starts, offset) - 1
        return lsp.Position(line, self.units(self.starts[line], offset))

    def units(self, start: int, end: int) -> int:
        """The length of a part of the text in UTF-16 code units."""
        return end - start + bisect_left(self.wide, end) - bisect_left(self.wide, start)

    def place(self, line: int, column: int) -> int:
        """The offset of a line and a column that count from 1, as diagnostics have them."""
        return self.lines[min(line, len(self.lines)) - 1] + max(column - 1, 0)

    def range(self, start: int, end: int) -> lsp.Range:
        return lsp.Range(self.position(start), self.position(end))

    def line_end(self, line: int) -> int:
        """The offset where a line ends, which counts from 1, as diagnostics have it."""
        return len(self.text) if line >= len(self.lines) else self.lines[line] - 1
