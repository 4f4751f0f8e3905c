"""What reading found, as diagnostics; and what is missing at the head of a module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..analysis.source_map import map_of_text
from ..diagnostics import Diagnostic
from ..dialects.ptx.target import FIRST_PTX, target_of
from .module_text import Issue, ModuleText


def header_issues(source: ModuleText) -> Iterator[Issue]:
    """A module starts with `.version` and names a known `.target`."""
    if not source.version:
        yield Issue("the module has no .version", 1, 1, "a PTX file starts with .version 8.7 and .target sm_90a")
    if not source.target:
        yield Issue("the module has no .target", 1, 1, "a PTX file starts with .version 8.7 and .target sm_90a")
        return
    try:
        known = target_of(source.target).known
    except ValueError:
        known = False
    if not known:
        yield Issue(f"unknown target {source.target}", source.header_lines.get("target", 1), 9, _like(source.target))


def _like(target: str) -> str:
    """The targets that may have been meant: those of the same number, else all since sm_50."""
    number = re.sub(r"\D", "", target)
    modern = [t for t in FIRST_PTX if target_of(t).number >= 50]
    near = [t for t in modern if number and str(target_of(t).number) == number]
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {' '.join(modern)}"


def diagnostics(issues: Iterable[Issue], text: str, filename: str | None) -> tuple[Diagnostic, ...]:
    """Issues as diagnostics with their source lines, in order of place."""
    lines = text.split("\n")
    found: list[Diagnostic] = []
    for issue in sorted(issues, key=lambda i: (i.line, i.column)):
        line = lines[issue.line - 1].rstrip("\r") if 0 < issue.line <= len(lines) else None
        severity = "warning" if issue.severity == "warning" else "error"
        found.append(
            Diagnostic(
                severity,
                issue.message,
                filename,
                issue.line,
                issue.column,
                issue.hint,
                source_line=line,
                fixes=issue.fixes,
            )
        )
    return tuple(map_of_text(text).attach(found) if found else found)
