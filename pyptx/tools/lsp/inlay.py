"""Hints next to the lines of a PTX text: the registers that are live in a block at most, how often a loop runs."""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.operands import line_of
from ...analysis.report import FunctionReport, analyse
from ...diagnostics import PTXError
from ...parser.module import parse_text
from ...passes.verify import ptx_modules

__all__ = ["Inlay", "inlay_hints"]

_MEANING = (
    "registers of 32 bits that are live at once in this block, at most (an estimate; ptxas may move instructions)"
)


@dataclass(frozen=True, slots=True)
class Inlay:
    """A hint after a line, which counts from 1."""

    line: int
    label: str
    meaning: str


def inlay_hints(text: str) -> list[Inlay]:
    """The hints of all functions; none where the text is not legal PTX."""
    try:
        module = parse_text(text)
        reports = [report for m in ptx_modules(module) for report in analyse(m)]
    except PTXError:
        return []
    return [hint for report in reports for hint in _of_function(report)]


def _of_function(report: FunctionReport) -> list[Inlay]:
    found: list[Inlay] = []
    rounds = {
        loop.header: trips for loop, trips in zip(report.loops.loops, report.trips, strict=True) if trips is not None
    }
    for number, block in enumerate(report.cfg.blocks):
        lines = [line for op in block.ops if (line := line_of(op)) is not None]
        points = [report.pressure.points[op].estimated for op in block.ops if op in report.pressure.points]
        if not lines or not points:
            continue
        label = f"{max(points)} registers"
        if number in rounds:
            label += f", {rounds[number]} rounds"
        found.append(Inlay(min(lines), label, _MEANING))
    return found
