"""The heat of register pressure: its colour, and the strip over the whole kernel."""

from __future__ import annotations

from html import escape
from itertools import pairwise

from ...analysis.operands import line_of
from ...analysis.report import FunctionReport, instructions

_STOPS = ((0.0, (214, 228, 220)), (0.5, (240, 200, 110)), (0.8, (230, 130, 70)), (1.0, (196, 60, 50)))


def heat(part: float, opacity: float = 1.0) -> str:
    """A CSS colour for a part (0 to 1) of the highest pressure: pale green, yellow, orange, red."""
    part = min(max(part, 0.0), 1.0)
    for (low, a), (high, b) in pairwise(_STOPS):
        if part <= high:
            t = (part - low) / (high - low)
            r, g, c = (round(x + (y - x) * t) for x, y in zip(a, b, strict=True))
            return f"rgb({r} {g} {c} / {opacity:g})"
    return "rgb(196 60 50)"


def scale(report: FunctionReport) -> int:
    """The pressure that is drawn in full red: the kernel's peak, but not less than 64, with which an SM is
    still half full."""
    return max(report.pressure.estimated, 64)


def overview(report: FunctionReport, lines: range) -> str:
    """Pressure over the lines of a kernel as an SVG, loops shaded underneath; click it to go to a line."""
    width, height, base = 1000, 74, 58
    span = max(len(lines) - 1, 1)
    most = max(report.pressure.estimated, 1)
    values: dict[int, int] = {}
    for op in instructions(report):
        line = line_of(op)
        if line is not None:
            values[line] = max(values.get(line, 0), report.pressure.points[op].estimated)
    bars: list[str] = []
    ordered = sorted(values)
    for line, following in zip(ordered, [*ordered[1:], lines[-1]], strict=True):
        x = (line - lines[0]) / span * width
        wide = max((following - line) / span * width, 0.8) + 0.2  # lines without instructions continue the one before
        tall = values[line] / most * (base - 12)
        colour = heat(values[line] / scale(report))
        bars.append(f'<rect x="{x:.1f}" y="{base - tall:.1f}" width="{wide:.2f}" height="{tall:.1f}" fill="{colour}"/>')
    loops: list[str] = []
    for loop in report.loops.loops:
        inside = [line for b in loop.blocks for op in report.cfg.blocks[b].ops if (line := line_of(op)) is not None]
        if inside:
            x0, x1 = ((edge - lines[0]) / span * width for edge in (min(inside), max(inside) + 1))
            place = f'x="{x0:.1f}" y="{base + 3 + 4 * (loop.depth - 1)}" width="{max(x1 - x0, 2):.1f}" height="3"'
            title = f"<title>loop {escape(report.block_name(loop.header))}</title>"
            loops.append(f'<rect {place} fill="var(--note)">{title}</rect>')
    top = line_of(report.pressure.top) if report.pressure.top is not None else None
    label = f"registers live by line, at most {report.pressure.estimated}"
    label += (f" at line {top}" if top else "") + ("; the bars below are loops" if loops else "")
    view = f'viewBox="0 0 {width} {height}" preserveAspectRatio="none"'
    return (
        f'<svg class="overview" data-first="{lines[0]}" data-last="{lines[-1]}" {view}>'
        f'<line x1="0" x2="{width}" y1="{base}" y2="{base}" stroke="var(--line)"/>{"".join(bars)}{"".join(loops)}</svg>'
        f'<div class="caption">{label}</div>'
    )
