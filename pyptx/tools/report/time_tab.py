"""The tab of the page with predicted times: what binds, units, waits by line, loops, a timeline of one SM."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...diagnostics import PTXError
from ...prediction import LineStalls, Prediction, WhatIf
from .markup import Cell, Row, bar, mono, number, paragraph, table

MOST_LINES = 30


def time_tab(predictions: Sequence[Prediction], tables: Sequence[WhatIf]) -> str:
    """One part for each card, with its table of variants if there is one."""
    return "".join(
        _part(p, [t for t in tables if (t.base.kernel, t.base.card) == (p.kernel, p.card)]) for p in predictions
    )


def _part(p: Prediction, tables: Sequence[WhatIf]) -> str:
    rows = [Row((Cell(name), Cell(text))) for name, text in p.facts()]
    parts = [table(f"{p.card} (predicted, not measured)", (), rows)]
    if p.utilisation:
        used = sorted(p.utilisation.items(), key=lambda kv: -kv[1])
        cells = [Row((Cell(name), number(f"{share:.0%}"), bar(share))) for name, share in used]
        parts.append(table("Units, share of the predicted time that they are busy", (), cells))
    if p.stalls:
        waits = sorted(p.stalls.items(), key=lambda kv: -kv[1])
        cells = [Row((Cell(name), number(f"{share:.0%}"), bar(share))) for name, share in waits]
        parts.append(table("What warps wait for", (), cells))
    if p.lines:
        parts.append(table("Waits by PTX line", ("#share", "#line", "waits for", "PTX"), _lines(p.lines)))
    if p.sources:
        parts.append(table("Waits by source line", ("#share", "place", "waits for", "source"), _sources(p.sources)))
    if p.loops:
        loops = [
            Row((number(loop.first), number(loop.last), number(f"{loop.iterations:,.0f}"), number(f"{loop.instructions:,.0f}"),
                 number(f"{loop.cycles:,.0f}"), Cell(", ".join(f"{v:,.0f} {k}" for k, v in sorted(loop.stalls.items(), key=lambda kv: -kv[1])[:4]))), loop.first)
            for loop in p.loops
        ]  # fmt: skip
        head = ("#first line", "#last line", "#iterations", "#instructions", "#cycles of a warp", "of them waits")
        parts.append(table("Loops, one iteration", head, loops))
    for variants in tables:
        rows = [Row(tuple(map(Cell, row))) for row in variants.rows()]
        parts.append(table("What if (predicted, not measured)", variants.HEAD, rows))
    try:
        parts.append(f"<h3>Timeline of one SM</h3>{p.timeline()._repr_html_()}")
    except PTXError as error:
        parts.append(paragraph(str(error).removeprefix("error: ") + "."))
    notes = "".join(f"<li>{escape(note)}</li>" for note in p.notes)
    return "".join(parts) + (f"<ul>{notes}</ul>" if notes else "")


def _worst(lines: Sequence[LineStalls]) -> list[tuple[LineStalls, Cell, Cell]]:
    """Those with most waits, with their share and what they wait for."""
    whole = sum(line.total for line in lines) or 1.0
    chosen = sorted(lines, key=lambda line: -line.total)[:MOST_LINES]
    return [(line, number(f"{line.total / whole:.1%}"), Cell(line.reason)) for line in chosen]


def _lines(lines: Sequence[LineStalls]) -> list[Row]:
    return [Row((share, number(x.line), reason, mono(x.text.strip())), x.line) for x, share, reason in _worst(lines)]


def _sources(lines: Sequence[LineStalls]) -> list[Row]:
    return [Row((share, mono(x.place), reason, mono(x.text.strip()))) for x, share, reason in _worst(lines)]
