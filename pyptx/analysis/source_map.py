"""From lines of PTX to those of the program that it was made from: what `.file` and `.loc` say (PTX ISA 11.5).

A `.loc` holds for the instructions that follow it in its function. With `inlined_at` it names the place of a call, too, which
an earlier `.loc` may have said to be inlined itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..diagnostics import Diagnostic, Origin

if TYPE_CHECKING:
    from ..dialects.ptx.structure import ModuleOp

AnyDiagnostic = TypeVar("AnyDiagnostic", bound=Diagnostic)
Place = tuple[int, int, int]
MOST_INLINED = 32
"""Calls of a chain that are followed."""
MOST_BYTES = 16 << 20
SUFFIXES = frozenset(
    {".py", ".cu", ".cuh", ".h", ".hpp", ".hxx", ".inl", ".c", ".cc", ".cpp", ".cxx", ".cl", ".jl", ".rs"}
)
"""Of the files whose lines are shown: what a text names is not opened whatever it is."""
_STATEMENT = re.compile(r"^[ \t]*(\.file|\.loc|(?:\.(?:visible|extern|weak)[ \t]+)*\.(?:entry|func))\b(.*)$", re.M)
_ESCAPED = re.compile(rb"\\([23][0-7]{2})")
_WORD = re.compile(r'"[^"\n]*"|[\w$%.+]+')


def _unescaped(name: str) -> str:
    """The name of a file; NVRTC and LLVM write the bytes of UTF-8 that are not ASCII as octal numbers, `\\303\\251`."""
    try:
        return _ESCAPED.sub(lambda m: bytes([int(m[1], 8)]), name.encode()).decode()
    except UnicodeError:
        return name


class SourceMap:
    """The places that a module names; empty if it names none."""

    def __init__(self, statements: Iterable[tuple[int, Sequence[str]]]):
        """`statements`: line of the PTX and words of each `.file`, `.loc` and head of a function (which has no words)."""
        self.files: dict[int, str] = {}
        self._starts: list[int] = []
        self._chains: list[tuple[Place, ...]] = []
        known: dict[Place, tuple[Place, ...]] = {}
        for line, words in sorted(statements, key=lambda s: s[0]):
            if words and words[0] == ".file":
                index = _whole(words[1]) if len(words) > 2 else None
                if index is not None:
                    self.files.setdefault(index, _unescaped(words[2].strip('"')))
                continue
            chain = _chain(words, known)
            if self._starts and self._starts[-1] == line:
                self._chains[-1] = chain
            else:
                self._starts.append(line)
                self._chains.append(chain)

    def __bool__(self) -> bool:
        return any(self._chains)

    def of(self, line: int | None, filename: str | None) -> tuple[Origin, ...]:
        """The places that a line of the PTX was made from, the innermost first; with their text if the PTX is in a file, and
        theirs can be read. Text that was given as such opens no file.
        """
        at = -1 if line is None else bisect_right(self._starts, line) - 1
        if at < 0:
            return ()
        folder = folder_of(filename)
        return tuple(self._origin(place, folder) for place in self._chains[at])

    def _origin(self, place: Place, folder: Path | None) -> Origin:
        index, line, column = place
        name = self.files.get(index, f"file {index}")
        text = source_line(name, line, folder) if folder is not None else None
        return Origin(name, line, column or None, text)

    def attach(self, diagnostics: Iterable[AnyDiagnostic]) -> list[AnyDiagnostic]:
        """Diagnostics about the PTX with the places that their lines were made from."""
        if not self:
            return list(diagnostics)
        return [replace(d, origin=self.of(d.line, d.filename)) for d in diagnostics]


def map_of(module: ModuleOp) -> SourceMap:
    """The map of a module."""
    return SourceMap(_of_module(module))


def _of_module(module: ModuleOp) -> Iterator[tuple[int, Sequence[str]]]:
    from ..dialects.ptx.structure import DirectiveOp, FunctionOp, LocOp  # a text's map needs no IR
    from .cfg import ops_of
    from .operands import line_of

    for op in module.body.ops:
        line = line_of(op)
        if line is None:
            continue
        if isinstance(op, DirectiveOp) and op.words[:1] == (".file",):
            yield line, op.words
        elif isinstance(op, FunctionOp):
            yield line, ()
            for block in op.blocks:
                for inner in ops_of(block):
                    if isinstance(inner, LocOp) and (at := line_of(inner)) is not None:
                        yield at, inner.words


def map_of_text(text: str) -> SourceMap:
    """The map of a PTX text, be it legal or not."""
    return SourceMap(_of_text(text) if ".loc" in text else ())


def _of_text(text: str) -> Iterator[tuple[int, Sequence[str]]]:
    line, before = 1, 0
    for match in _STATEMENT.finditer(text):
        line += text.count("\n", before, match.start())
        before = match.start()
        head = match[1]
        yield line, [head, *_WORD.findall(match[2])] if head in (".file", ".loc") else ()


def _chain(words: Sequence[str], known: dict[Place, tuple[Place, ...]]) -> tuple[Place, ...]:
    """The places of a `.loc`; none where it has no line, as compilers write for code of their own."""
    place = _place(words[1:4])
    if place is None:
        return ()
    chain = (place,)
    if "inlined_at" in words:
        at = words.index("inlined_at")
        outer = _place(words[at + 1 : at + 4])
        if outer is not None and outer != place:
            chain += known.get(outer, (outer,))
    known[place] = chain[:MOST_INLINED]
    return known[place] if place[1] else chain[1:]


def _place(words: Sequence[str]) -> Place | None:
    numbers = [_whole(w) for w in words]
    if len(numbers) != 3:
        return None
    file, line, column = numbers
    return None if file is None or line is None or column is None else (file, line, column)


def _whole(word: str) -> int | None:
    try:
        return int(word.rstrip("U"), 0)
    except ValueError:
        return None


@lru_cache(maxsize=64)
def folder_of(name: str | None) -> Path | None:
    """The folder of the file that a PTX text was read from; None where it was not."""
    try:
        return Path(name).parent if name is not None and Path(name).is_file() else None
    except (OSError, ValueError):
        return None


def source_line(name: str, line: int, folder: Path) -> str | None:
    """A line of a source file, which is where its name says or next to the PTX; None if it cannot be read."""
    lines = _lines(folder / name) or _lines(folder / Path(name).name)
    return lines[line - 1] if 0 < line <= len(lines) else None


@lru_cache(maxsize=16)
def _lines(path: Path) -> tuple[str, ...]:
    try:
        if path.suffix.lower() not in SUFFIXES or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return ()
        return tuple(path.read_text(encoding="utf-8", errors="replace").split("\n"))
    except (OSError, ValueError):
        return ()
