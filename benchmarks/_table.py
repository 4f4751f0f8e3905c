"""Time a piece of work and print a table with its budget. For the benchmarks in this folder.

    table = Table("parse", "lines/s")
    table.add("nvcc-13.5/mma.ptx", lines / measure(lambda: pyptx.parse(text)).median, at_least=60_000)
    table.print()

Times are CPU time of this process (`time.process_time`), because the machines are shared. No test times
anything: a table informs, and says where a budget is missed.
"""

from __future__ import annotations

import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Table", "Timing", "measure"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of CPU time of one call, over `repeats` calls."""

    median: float
    best: float
    worst: float
    repeats: int
    gc_enabled: bool

    @property
    def spread(self) -> float:
        """(worst - best) / median: what the figure is worth."""
        return (self.worst - self.best) / self.median if self.median else 0.0


def measure(
    work: Callable[..., object],
    *,
    setup: Callable[[], Any] | None = None,
    repeats: int = 5,
    warm_up: int = 1,
    keep_gc: bool = True,
) -> Timing:
    """Median time of `work()`, or of `work(setup())` with the set-up left out.

    `keep_gc=False` times with the cyclic collector off. It always runs between two calls.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    was_enabled = gc.isenabled()
    times: list[float] = []
    try:
        for round_ in range(warm_up + repeats):
            arguments = () if setup is None else (setup(),)
            gc.collect()
            if not keep_gc:
                gc.disable()
            start = time.process_time()
            result = work(*arguments)
            elapsed = time.process_time() - start
            del result, arguments
            if was_enabled:
                gc.enable()
            if round_ >= warm_up:
                times.append(elapsed)
    finally:
        if was_enabled:
            gc.enable()
    return Timing(statistics.median(times), min(times), max(times), repeats, was_enabled and keep_gc)


@dataclass
class Table:
    """Rows of one unit, each with the budget it is held to; prints aligned, and says what is missed."""

    title: str
    unit: str
    rows: list[tuple[str, float, str, str, str]] = field(default_factory=list)
    missed: int = 0

    def add(
        self,
        work: str,
        value: float,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        note: str | Timing = "",
    ) -> None:
        """One row. A budget is a floor (`at_least`) or a ceiling (`at_most`); `note` may be the `Timing`."""
        if isinstance(note, Timing):
            gc_note = "" if note.gc_enabled else ", gc off"
            note = f"median of {note.repeats}, spread {note.spread:.0%}{gc_note}"
        budget = verdict = ""
        if at_least is not None:
            budget, verdict = f">= {_number(at_least)}", "ok" if value >= at_least else "MISSED"
        elif at_most is not None:
            budget, verdict = f"<= {_number(at_most)}", "ok" if value <= at_most else "MISSED"
        self.missed += verdict == "MISSED"
        self.rows.append((work, value, budget, verdict, note))

    def render(self) -> str:
        head = ("work", self.unit, "budget", "", "")
        cells = [head, *((work, _number(value), *rest) for work, value, *rest in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.rjust(width) if i in (1, 2) else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        lines.insert(1, "-" * max(len(line) for line in lines))
        return "\n".join([f"{self.title}  ({_machine()})", *lines])

    def print(self) -> None:
        print(self.render(), flush=True)
        print()


def _number(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _machine() -> str:
    state = "on" if gc.isenabled() else "off"
    return f"{platform.python_implementation()} {platform.python_version()}, {sys.platform}, gc {state}"
