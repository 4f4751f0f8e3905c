"""The control-flow graph as inline SVG: a box per block, shaded by its peak pressure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from ...analysis.operands import line_of
from ...analysis.report import FunctionReport
from ...dialects.ptx.instruction import Instruction
from .layers import Box, Route, draw
from .markup import at_line, paragraph
from .overview import heat, scale
from .tabs import first_line

_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" style="fill:var(--soft);stroke:none"/></marker></defs>'
)
_LETTER = 6.8
"""Pixels that a letter takes in the font of the boxes."""


def cfg_tab(report: FunctionReport) -> str:
    """The picture, with a line of explanation."""
    texts: list[tuple[str, str]] = []
    peaks: list[int] = []
    for b, block in enumerate(report.cfg.blocks):
        ops = [op for op in block.ops if line_of(op) is not None]
        peaks.append(max((report.pressure.points[op].estimated for op in block.ops), default=0))
        first, last = (line_of(ops[0]), line_of(ops[-1])) if ops else (None, None)
        count = sum(isinstance(op, Instruction) for op in block.ops)
        where = f"{first}" if first == last else f"{first}-{last}"
        detail = f"{where}: {count} ops, {peaks[-1]} regs" if first is not None else "empty"
        texts.append((report.block_name(b), detail))
    sizes = [(max(len(name) + 4, len(detail)) * _LETTER + 18, 38.0) for name, detail in texts]
    drawing = draw(report.cfg.successors, sizes)
    edges = "".join(_edge(route, report.cfg.successors[route.source]) for route in drawing.routes)
    most = scale(report)
    boxes = "".join(_block(report, b, drawing.boxes[b], texts[b], peaks[b] / most) for b in range(len(texts)))
    wide, tall = drawing.width + 8, drawing.height + 34
    legend = paragraph(
        "A box is a basic block, darker with more live registers; \N{CLOCKWISE OPEN CIRCLE ARROW} per loop around it.",
        "Green: branch taken. Orange: back to a loop's head.",
    )
    # shrinks to the pane, but not so far that it cannot be read
    size = f"width:clamp({wide * 0.6:.0f}px, 100%, {wide:.0f}px)"
    frame = f'<svg class="cfg" style="{size}" viewBox="-4 -16 {wide:.0f} {tall:.0f}">'
    return f'{legend}<div class="wide">{frame}{_TIP}{edges}{boxes}</svg></div>'


def _edge(route: Route, successors: Sequence[int]) -> str:
    points = route.points
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        half = (y1 - y0) / 2  # curves leave and arrive vertically
        straight = f" L{x1:.1f} {y1:.1f}"
        path += straight if route.back else f" C{x0:.1f} {y0 + half:.1f} {x1:.1f} {y1 - half:.1f} {x1:.1f} {y1:.1f}"
    taken = len(successors) > 1 and successors[0] == route.target
    style = "back" if route.back else "taken" if taken else ""
    return f'<path class="{style}" d="{path}" marker-end="url(#tip)"/>'


def _block(report: FunctionReport, b: int, box: Box, text: tuple[str, str], part: float) -> str:
    name, detail = map(escape, text)
    depth = report.loops.depth(b)
    marks = " \N{CLOCKWISE OPEN CIRCLE ARROW}" * min(depth, 3)
    title = f"{name}: {detail}" + (f", loop depth {depth}" if depth else "")
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.0f}"'
    dashes = "" if report.dominators.reachable(b) else ' stroke-dasharray="4 3"'
    left = box.x + 9
    return (
        f"<g{at_line(first_line(report, b))}>"
        f'<rect class="box" {place} rx="4" fill="{heat(part, 0.55)}"{dashes}><title>{title}</title></rect>'
        f'<text x="{left:.1f}" y="{box.y + 16:.1f}" font-weight="600">{name}{marks}</text>'
        f'<text class="soft" x="{left:.1f}" y="{box.y + 30:.1f}">{detail}</text></g>'
    )
