"""What an analysis says about a place in a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..diagnostics import Origin

Severity = Literal["warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark: which analysis, how serious, what, where (the line counts from 1; None if the op has no
    place)."""

    analysis: str
    severity: Severity
    message: str
    line: int | None
    hint: str | None = None
    origin: tuple[Origin, ...] = ()
    """The place in the program that the PTX was made from."""
