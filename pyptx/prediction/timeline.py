"""A timeline of one SM: what each warp does, issues or waits for, in each stretch of the first CTAs' time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ISSUES", "Timeline", "timeline_of"]

ISSUES = "issues"
STRETCHES = 400
"""Stretches of time that a timeline has at most."""
COLOURS = {
    ISSUES: "#2f6f4f", "not selected": "#b8d8c5", "barrier": "#c62828", "fixed latency": "#c9ced4", "memory or scoreboard": "#e0a030",
    "memory queue": "#d2691e", "pipe busy": "#5b7fbf", "register port": "#8e6bbf", "copies in flight": "#e6c34a",
}  # fmt: skip
OTHER = "#607d8b"


@dataclass(frozen=True)
class Timeline:
    """Predicted, as everything here. `str()` has a line of letters for each warp, a notebook shows a picture."""

    kernel: str
    card: str
    cycles: int
    """Of the CTAs that are shown."""
    stretch: float
    """Cycles of a column."""
    names: Sequence[str]
    """What a warp does: `issues`, and the reasons of waits."""
    warps: Sequence[tuple[int, int]]
    """CTA (in the order of the SM) and warp of each row."""
    cells: NDArray[np.int64] = field(repr=False)
    """(rows, columns): the number in `names` of what takes most of a stretch, -1 where the warp is not there."""
    shortened: str = ""
    """What is left out."""

    def as_json(self) -> dict[str, Any]:
        return {
            "predicted": True, "kernel": self.kernel, "card": self.card, "cycles": self.cycles, "stretch": self.stretch,
            "names": list(self.names), "warps": [list(w) for w in self.warps], "cells": self.cells.tolist(), "shortened": self.shortened,
        }  # fmt: skip

    def __str__(self) -> str:
        letters = {name: letter for name, letter in zip(self.names, "#.BfmqprcABCDEFGHIJ", strict=False)}
        used = sorted({int(k) for k in np.unique(self.cells) if k >= 0})
        key = ", ".join(f"{letters[self.names[k]]} {self.names[k]}" for k in used)
        step = max(1, self.cells.shape[1] // 100)
        lines = [f"{self._title()}; {key}"]
        for (cta, warp), row in zip(self.warps, self.cells[:, ::step], strict=True):
            lines.append(f"  {cta:>3}.{warp:<3}" + "".join(letters[self.names[int(k)]] if k >= 0 else " " for k in row))
        return "\n".join(lines)

    def _title(self) -> str:
        more = f" ({self.shortened})" if self.shortened else ""
        return f"{self.kernel} on {self.card}: {self.cycles:,} cycles of one SM, predicted{more}"

    def svg(self) -> str:
        """A row for each warp, coloured by what it does."""
        height, left, width = 9, 60, 900
        scale = width / max(1, self.cells.shape[1])
        parts: list[str] = []
        for number, ((cta, warp), row) in enumerate(zip(self.warps, self.cells, strict=True)):
            y = number * height
            if warp == 0:
                parts.append(f'<text x="0" y="{y + 8}" font-size="8" fill="currentColor">CTA {cta}</text>')
            column = 0
            for cell, run in groupby(int(k) for k in row):
                length = sum(1 for _ in run)
                if cell >= 0:
                    name = self.names[cell]
                    first, last = column * self.stretch, (column + length) * self.stretch
                    parts.append(
                        f'<rect x="{left + column * scale:.1f}" y="{y}" width="{length * scale:.2f}" height="{height - 1}" '
                        f'fill="{COLOURS.get(name, OTHER)}"><title>warp {warp}: {escape(name)}, cycles {first:,.0f} to {last:,.0f}</title></rect>'
                    )
                column += length
        bottom = len(self.warps) * height + 14
        parts.append(f'<text x="{left}" y="{bottom - 3}" font-size="9" fill="currentColor">0</text>')
        end = f'x="{left + width}" y="{bottom - 3}" font-size="9" text-anchor="end" fill="currentColor"'
        parts.append(f"<text {end}>{self.cycles:,} cycles</text>")
        return f'<svg viewBox="0 0 {left + width} {bottom}" width="100%" role="img">{"".join(parts)}</svg>'

    def _repr_html_(self) -> str:
        used = [self.names[int(k)] for k in np.unique(self.cells) if k >= 0]
        key = " ".join(
            f'<span style="white-space:nowrap"><span style="background:{COLOURS.get(n, OTHER)};padding:0 6px">&nbsp;</span> {escape(n)}</span>'
            for n in used
        )
        return f"<div><b>{escape(self._title())}</b><br>{key}{self.svg()}</div>"


def timeline_of(
    log: NDArray[np.float64], reasons: Sequence[str], per_cta: int, kernel: str, card: str, shortened: str
) -> Timeline:
    """The timeline of a log of `replay`: warp, instruction, cycle of issue; reason and cycles of the first wait, and of the second."""
    names = [ISSUES, *reasons]
    cycles = int(log[:, 2].max()) + 1 if len(log) else 0
    columns = max(1, min(STRETCHES, cycles))
    edges = np.linspace(0, cycles, columns + 1)
    numbers = np.unique(log[:, 0]).astype(int).tolist()
    cells = np.full((len(numbers), columns), -1, np.int64)
    for row, number in enumerate(numbers):
        of_warp = log[log[:, 0] == number]
        shares = np.stack([_covered(of_warp, k, edges) for k in range(len(names))])
        cells[row] = np.where(shares.any(0), shares.argmax(0), -1)
    warps = [(number // per_cta, number % per_cta) for number in numbers]
    return Timeline(kernel, card, cycles, cycles / columns, names, warps, cells, shortened)


def _covered(events: NDArray[np.float64], which: int, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many cycles of each stretch a warp does one thing: `which` is 0 for issuing, else 1 more than the reason."""
    t, first, second = events[:, 2], events[:, 4], events[:, 6]
    if which == 0:
        starts, ends = t, t + 1
    else:
        chosen = [
            (events[:, 3] == which - 1, t - second - first, t - second),
            (events[:, 5] == which - 1, t - second, t),
        ]
        starts = np.concatenate([a[c & (b > a)] for c, a, b in chosen])
        ends = np.concatenate([b[c & (b > a)] for c, a, b in chosen])
    if not len(starts):
        return np.zeros(len(edges) - 1)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    places = np.stack([starts, ends], 1).ravel()
    done = np.cumsum(ends - starts)
    heights = np.stack([np.concatenate([[0.0], done[:-1]]), done], 1).ravel()
    return np.diff(np.interp(edges, places, heights))
