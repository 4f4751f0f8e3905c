"""What reading a PTX text gives: its statements and functions in order, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..diagnostics import Fix
from ..ssa.statement import FunctionSource, Statement

__all__ = ["Issue", "ModuleText"]


@dataclass(slots=True)
class Issue:
    """A syntax error: what, and where (line and column count from 1)."""

    message: str
    line: int
    column: int
    hint: str | None = None
    severity: str = "error"
    fixes: tuple[Fix, ...] = ()


@dataclass(slots=True)
class ModuleText:
    """What was read: module-level statements and functions in order, the text after the last statement, and the
    issues.
    """

    items: list[Statement | FunctionSource] = field(default_factory=list["Statement | FunctionSource"])
    tail: str = ""
    issues: list[Issue] = field(default_factory=list[Issue])
    version: str = ""
    target: str = ""
    options: tuple[str, ...] = ()
    address_size: str = ""
    header_lines: dict[str, int] = field(default_factory=dict[str, int])
    """`version`, `target`, `address_size` -> the line of the directive."""
    lines: int = 0
