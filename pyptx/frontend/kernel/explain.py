"""`Kernel.explain()`: Python line -> PTX lines -> SASS instructions."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from ...diagnostics import PTXError
from ...dialects.ptx.instruction import Instruction
from ...notebook import preformatted
from .. import deferred

if TYPE_CHECKING:
    from ..deferred import SassLine

__all__ = ["Explanation", "SourceLine", "explain"]

_SOURCE_WIDTH, _PTX_WIDTH = 48, 56


class Explainable(Protocol):
    """What is looked at of a kernel."""

    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> str: ...
    @property
    def filename(self) -> str: ...
    def ptx(self, **kw: Any) -> str: ...
    def printed_lines(self, **kw: Any) -> Iterator[tuple[int, Operation]]: ...


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of the author's source, and what became of it."""

    filename: str
    """Empty, with line 0, for machine code that ptxas ties to no line (such as padding after the last branch)."""
    line: int
    source: str
    """The text of the line, stripped; empty where the file cannot be read."""
    ptx: tuple[tuple[int, str], ...]
    """(line number in the PTX, instruction), in the order of the text."""
    sass: tuple[SassLine, ...]
    """The machine instructions ptxas made of those PTX lines, by offset."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `Kernel.explain()` found. `str()` is a table; `rows` are ordered by file (the kernel's first) and line."""

    title: str
    rows: tuple[SourceLine, ...]
    missing: str | None = None
    """Why there is no SASS (a tool was not found, or ptxas refused the kernel); None where there is."""
    places: dict[tuple[str, int], SourceLine] = field(default_factory=dict[tuple[str, int], SourceLine], repr=False)

    def __getitem__(self, line: int) -> SourceLine:
        """The row of a line of the kernel's own file. KeyError where that line emitted nothing."""
        return self.places[self.rows[0].filename, line]

    def table(self, limit: int | None = 16) -> str:
        """Text in three columns: Python, PTX, SASS. At most `limit` lines per Python line, None: all."""
        head = _columns("Python", "PTX", "" if self.missing else "SASS")
        out = [self.title, *([f"no SASS: {self.missing}"] if self.missing else []), "", head]
        filename = self.rows[0].filename if self.rows else ""
        for row in self.rows:
            if row.filename != filename:
                filename = row.filename
                out += ["", filename or "no line of the source"]
            out += _table_row(row, limit)
        return "\n".join(line.rstrip() for line in out) + "\n"

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return preformatted(self.table())


def _columns(source: str, ptx: str, sass: str) -> str:
    return f"{_clipped(source, _SOURCE_WIDTH):{_SOURCE_WIDTH}}  {_clipped(ptx, _PTX_WIDTH):{_PTX_WIDTH}}  {sass}"


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _table_row(row: SourceLine, limit: int | None) -> list[str]:
    source = [f"{row.line:4}  {row.source}"] if row.line else []
    ptx = [f"{number:5}  {text}" for number, text in row.ptx]
    sass = [f"{line.offset:04x}  {line.text}" for line in row.sass]
    if limit is not None:
        ptx, sass = _limited(ptx, limit), _limited(sass, limit)
    return [_columns(*parts) for parts in zip_longest(source, ptx, sass, fillvalue="")]


def _limited(lines: list[str], limit: int) -> list[str]:
    more = len(lines) - limit
    return lines if more <= 0 else [*lines[:limit], f"  ... and {more} more"]


def explain(kernel: Explainable, kw: dict[str, Any]) -> Explanation:
    """As `Kernel.explain`."""
    text = kernel.ptx(**kw)
    lines = text.split("\n")
    ptx: dict[tuple[str, int], list[tuple[int, str]]] = {}
    at: dict[int, tuple[str, int]] = {}
    for number, op in kernel.printed_lines(**kw):
        if isinstance(op, Instruction):
            place = at[number] = _place(op)
            ptx.setdefault(place, []).append((number, " ".join(lines[number - 1].split())))
    machine, missing = _machine_code(kernel, text)
    sass: dict[tuple[str, int], list[SassLine]] = {}
    for line in machine:
        sass.setdefault(at.get(line.line or 0, ("", 0)), []).append(line)
    own = kernel.filename
    order = sorted({*ptx, *sass}, key=lambda place: (place[0] != own, not place[0], place))
    rows = {
        (filename, line): SourceLine(
            filename,
            line,
            linecache.getline(filename, line).strip(),
            tuple(ptx.get((filename, line), ())),
            tuple(sass.get((filename, line), ())),
        )
        for filename, line in order
    }
    title = f"{kernel.name} for {kernel.arch}: {os.path.relpath(own) if os.path.exists(own) else own}"
    return Explanation(title, tuple(rows.values()), missing, rows)


def _place(op: Operation) -> tuple[str, int]:
    location = op.location
    return (location.filename.data, location.line.data) if isinstance(location, FileLineColLoc) else ("", 0)


def _machine_code(kernel: Explainable, text: str) -> tuple[Sequence[SassLine], str | None]:
    try:
        result = deferred.ptxas.assemble(text, kernel.arch, options=("-lineinfo",))
        if result.cubin is None:
            return (), f"ptxas refuses the kernel: {result.diagnostics[0].message}"
        return _without_padding(deferred.ptxas.sass_with_lines(result.cubin)[kernel.name]), None
    except (deferred.ptxas.ToolNotFound, PTXError) as error:
        return (), str(error)


def _without_padding(code: Sequence[SassLine]) -> Sequence[SassLine]:
    """Without the NOPs that fill the last cache line, and the branch to itself before them."""
    end = len(code)
    while end and code[end - 1].text == "NOP":
        end -= 1
    if end < len(code) and code[end - 1].label is not None and code[end - 1].text.startswith("BRA"):
        end -= 1
    return code[:end]
