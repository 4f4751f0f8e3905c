"""What pyptx says to the person who wrote the kernel: where, what, and what would be legal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

__all__ = [
    "Diagnostic",
    "Edit",
    "Fix",
    "Origin",
    "PTXError",
    "PtxValidationError",
    "Severity",
    "SimulationError",
    "SimulationWarning",
    "TraceWarning",
    "UsageError",
    "ValidationIssue",
    "counted",
    "did_you_mean",
    "merged",
    "suggest",
]

Severity = Literal["error", "warning", "advice", "note"]

_CAUSES = 3
"""Findings that the text of a SimulationError shows before the fault."""
_PLACES = 4
"""Places of a chain of inlined calls that are shown."""
_WINDOW = 120
"""Characters of a source line that are shown; of a longer one, the part around the column."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of a text replaced. Lines and columns count from 1; the end is the place after the last character."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of the text that cures a finding, tried before it is offered. The edits do not overlap."""

    title: str
    """What it does, in words: ``replace `.s23` with `.s32` ``."""
    edits: tuple[Edit, ...]

    def apply(self, text: str) -> str:
        """The text with the edits made."""
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        for edit in sorted(self.edits, key=lambda e: (e.line, e.column), reverse=True):
            first, last = starts[edit.line - 1] + edit.column - 1, starts[edit.end_line - 1] + edit.end_column - 1
            text = text[:first] + edit.text + text[last:]
        return text


@dataclass(frozen=True, slots=True)
class Origin:
    """A place in the program that PTX was made from, as its `.loc` says; with the text of the line if it can be read."""

    filename: str
    line: int
    column: int | None = None
    text: str | None = None

    @property
    def location(self) -> str:
        """`file:line:col`."""
        return f"{self.filename}:{self.line}" + (f":{self.column}" if self.column else "")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a piece of source, be it PTX text or the Python that traced it.

    `line` and `column` count from 1; what is not known is None. `hint` says what would be legal, in one or more lines;
    `fixes` are the same proposals as changes of the text.
    `source_line` is the text of that line, kept when the diagnostic outlives the source. `origin` is the place in the
    program that the PTX was made from, then the places that it was inlined at.
    """

    severity: Severity
    message: str
    filename: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None
    source_line: str | None = None
    fixes: tuple[Fix, ...] = ()
    origin: tuple[Origin, ...] = ()

    @property
    def location(self) -> str:
        """`file:line:col`, as far as it is known; empty when nothing is."""
        if self.filename is None and self.line is None:
            return ""
        parts = [self.filename or "<ptx>"]
        if self.line is not None:
            parts.append(str(self.line))
            if self.column is not None:
                parts.append(str(self.column))
        return ":".join(parts)

    def render(self, source_line: str | None = None) -> str:
        """The finding as a person reads it: headline, source line, caret, hint.

        `source_line` overrides the one the diagnostic carries. No newline at the end.
        """
        location = self.location
        lines = [f"{location}: {self.severity}: {self.message}" if location else f"{self.severity}: {self.message}"]
        source = self.source_line if source_line is None else source_line
        if source is not None and source.strip():
            lines += _excerpt(source, self.column)
        lines += origin_lines(self.origin)
        if self.hint:
            lines += [f"hint: {line}" for line in self.hint.split("\n")]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        from .notebook import finding  # not on the way to a verdict

        return finding(self.render(), self.severity)


def origin_lines(origin: tuple[Origin, ...], of: str = "from") -> list[str]:
    """The places in the program that PTX was made from, as a person reads them, each with its line where it is known."""
    shown = origin if len(origin) <= _PLACES else (*origin[: _PLACES - 1], origin[-1])
    lines: list[str] = []
    for i, place in enumerate(shown):
        lines.append(f"{of} {place.location}" if i == 0 else f"inlined at {place.location}")
        if place.text is not None and place.text.strip():
            lines += _excerpt(place.text, place.column)
    return lines


def _excerpt(source: str, column: int | None) -> list[str]:
    """The source line, made safe to print and cut to a window, and a caret under the column."""
    text = source.rstrip()
    text = "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    at = None if column is None else min(max(column - 1, 0), len(text))
    if len(text) > _WINDOW:
        start = max(0, min((at or 0) - _WINDOW // 2, len(text) - _WINDOW))
        end = start + _WINDOW
        before, after = "..." if start else "", "..." if end < len(text) else ""
        text = before + text[start:end] + after
        at = None if at is None else at - start + len(before)
    if at is None:
        return [text]
    # Tabs stay tabs, so that the caret lines up whatever their width.
    return [text, "".join("\t" if c == "\t" else " " for c in text[:at]) + "^"]


_LINES = 8
"""Lines that a merged diagnostic names."""
_ALIKE = 4
"""Diagnostics that differ in the numbers of registers and offsets alone and are printed one by one."""
_UNROLLED = re.compile(r"(%[A-Za-z_$]+)\d+| ?[+-] ?(?:0[xX][0-9A-Fa-f]+|\d+)(?=[\])])")


def shape_of(text: str) -> str:
    """A text without the numbers of registers and the offsets of addresses, in which copies of unrolled code differ."""
    return _UNROLLED.sub(r"\1", text)


def merged(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics as tools print them: equal ones of one file once, at the first place, with how many more there are and
    where; also those that differ in the numbers of registers and offsets only, if there are many.
    """
    groups: dict[object, list[Diagnostic]] = {}
    for d in diagnostics:
        key = (d.severity, d.filename, d.message)
        groups.setdefault(key if d.line is not None else id(d), []).append(d)
    alike: dict[object, list[list[Diagnostic]]] = {}
    for group in groups.values():
        d = group[0]
        alike.setdefault((d.severity, d.filename, shape_of(d.message), d.line is None), []).append(group)
    kept = {id(group): group for groups in alike.values() if len(groups) <= _ALIKE for group in groups}
    kept |= {id(groups[0]): [d for g in groups for d in g] for groups in alike.values() if len(groups) > _ALIKE}
    shown = [kept[id(group)] for group in groups.values() if id(group) in kept]
    return [replace(group[0], message=group[0].message + more_places(group)) for group in shown]


def more_places(group: list[Any]) -> str:
    """How many more things than the first there are, and on which lines (`line` of each): nothing for one alone."""
    if len(group) < 2:
        return ""
    lines = list(dict.fromkeys(d.line for d in group[1:] if d.line is not None and d.line != group[0].line))
    where = "at the same line"
    if lines:
        named = ", ".join(map(str, lines[:_LINES]))
        where = f"at line{'' if len(lines) == 1 else 's'} {named}{', ...' if len(lines) > _LINES else ''}"
    return f"; {len(group) - 1:,} more like this {where}"


class PTXError(ValueError):
    """PTX that cannot be accepted, or a kernel that cannot be built; `diagnostics` says where and why."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, diagnostics: str | Diagnostic | Iterable[Diagnostic]) -> None:
        if isinstance(diagnostics, str):
            diagnostics = Diagnostic("error", diagnostics)
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__(self.diagnostics)  # the constructor's argument, so that it pickles

    def __str__(self) -> str:
        return "\n".join(d.render() for d in merged(self.diagnostics))


class UsageError(PTXError):
    """Wrong use, whatever the PTX is: an argument that is not legal, a name that the file does not have, a tool that is missing."""


@dataclass(frozen=True)
class ValidationIssue:
    """Why an instruction is not legal, and what would be."""

    instruction: object
    """The instruction, as it was asked about; its text where it was refused in a kernel."""
    message: str
    severity: Severity = "error"
    hint: str | None = None


class PtxValidationError(PTXError):
    """An instruction that no form takes, or that the target or the PTX version does not have; `issues` lists why, and
    `user_frame` says where.
    """

    def __init__(
        self, issues: str | Diagnostic | Iterable[Diagnostic | ValidationIssue], *, user_frame: str | None = None
    ) -> None:
        listed = [issues] if isinstance(issues, (str, Diagnostic)) else list(issues)
        super().__init__([_told(issue) for issue in listed])
        self.issues = tuple(
            i if isinstance(i, ValidationIssue) else ValidationIssue(d.source_line or "", d.message, d.severity, d.hint)
            for i, d in zip(listed, self.diagnostics, strict=True)
        )
        self.user_frame = user_frame or next((d.location for d in self.diagnostics if d.location), None)


def _told(issue: str | Diagnostic | ValidationIssue) -> Diagnostic:
    if isinstance(issue, Diagnostic):
        return issue
    if isinstance(issue, str):
        return Diagnostic("error", issue)
    return Diagnostic(issue.severity, issue.message, hint=issue.hint)


class SimulationError(PTXError):
    """A kernel did, on the simulated machine, what a GPU would fault on or leave undefined.

    `report` has what the run did and found until then (`simulator.Report`); None if it did not begin. The text shows the
    findings before the fault, for they are likely its causes.
    """

    report: Any = None

    def __str__(self) -> str:
        found: list[Diagnostic] = [] if self.report is None else self.report.distinct
        lines = [d.render() for d in (*found[:_CAUSES], *self.diagnostics)]
        if len(found) > _CAUSES:
            lines.insert(_CAUSES, f"({len(found) - _CAUSES} more findings before the fault: see .report)")
        return "\n".join(lines)


def suggest(word: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """The candidates that `word` was probably meant to be, best first; at most `limit`, maybe none.

    Finds other capitalisation, slips of a letter, two letters swapped, and a name cut short or drawn
    out (`ld.globl`, `mbarier`, `cvta.ot`, `wgmma.mma`). Deterministic, and never `word` itself.
    """
    known = tuple(dict.fromkeys(candidates))
    return list(_neighbours(word, known) or _suggest(word, known, limit))


def counted(count: int, noun: str) -> str:
    """`1 thread`, `3 threads`, `0 entries`: for messages."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


def file_problem(error: OSError) -> str:
    """What a command line says of a file that cannot be read or written."""
    name = f"{error.filename}: " if error.filename else ""
    return f"pyptx: {name}{error.strerror or error}"


def install(extra: str) -> str:
    """How to install an extra: the project is not on a package index, so its sources are named."""
    return f"pip install '.[{extra}]' in the folder of pyptx's sources"


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """The hint that goes with an unknown `word`: "did you mean `a`, `b` or `c`?", or None."""
    found = [f"`{name}`" for name in suggest(word, candidates)]
    if not found:
        return None
    return f"did you mean {' or '.join(filter(None, [', '.join(found[:-1]), found[-1]]))}?"


@lru_cache(maxsize=1024)
def _neighbours(word: str, candidates: tuple[str, ...]) -> tuple[str, ...]:
    """The candidates that differ from `word` in one number alone, where it is between two of theirs: the next smaller and
    the next larger (`m64n100k16`: n96 and n104).
    """
    numbers = _numbers_in(word)
    smaller: list[tuple[int, str]] = []
    larger: list[tuple[int, str]] = []
    for name in candidates if numbers else ():
        if _NUMBER.sub("#", name) != _NUMBER.sub("#", word):
            continue
        different = [(theirs, own) for theirs, own in zip(_numbers_in(name), numbers, strict=True) if theirs != own]
        if len(different) == 1:
            theirs, own = different[0]
            (smaller if theirs < own else larger).append((theirs, name))
    return (max(smaller)[1], min(larger)[1]) if smaller and larger and len(numbers) > 1 else ()


_NUMBER = re.compile(r"\d+")


def _numbers_in(word: str) -> list[int]:
    return [int(n) for n in _NUMBER.findall(word)]


@lru_cache(maxsize=1024)
def _suggest(word: str, candidates: tuple[str, ...], limit: int) -> tuple[str, ...]:
    folded = word.lower()
    slips = 1 if len(word) <= 4 else 2 if len(word) <= 10 else 3
    import difflib  # for those who make mistakes

    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(folded)
    ranked: list[tuple[int, float, str]] = []
    for name in candidates:
        if name == word or not name:
            continue
        other = name.lower()
        matcher.set_seq1(other)
        distance = _distance(folded, other, slips)
        similar = matcher.real_quick_ratio() >= 0.6 and matcher.quick_ratio() >= 0.6
        ratio = matcher.ratio() if similar or distance is not None else 0.0
        if distance is not None and (ratio > 0 or distance == 0):
            ranked.append((distance, -ratio, name))
        elif len(folded) >= 2 and (other.startswith(folded) or (len(other) >= 3 and folded.startswith(other))):
            ranked.append((slips + 1, abs(len(other) - len(folded)), name))
        elif ratio >= 0.72:
            ranked.append((slips + 2, -ratio, name))
    ranked.sort()
    return tuple(name for _, _, name in ranked[:limit])


def _distance(a: str, b: str, most: int) -> int | None:
    """Edits (insert, delete, replace, swap two neighbours) from a to b; None when more than `most`."""
    if abs(len(a) - len(b)) > most:
        return None
    before: list[int] = []
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            cost = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most and (i == 1 or min(previous) > most):
            return None
        before, previous = previous, row
    return previous[-1] if previous[-1] <= most else None


class SimulationWarning(UserWarning):
    """A kernel that was called on CPU arrays broke a rule (a race, an uninitialised read): its results are not defined."""


class TraceWarning(UserWarning):
    """A kernel's Python is probably not what its author means: a number that changes at trace time where a register was
    meant, an instruction without its call. At the kernel's line.
    """
