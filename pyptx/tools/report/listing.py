"""The PTX itself: line numbers, pressure as a heat strip, how much SASS a line became, findings under their
line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from ...analysis.operands import line_of
from ...analysis.report import FunctionReport, instructions
from ...diagnostics import origin_lines
from ...dialects.ptx.instruction import OPCODES
from ...dialects.ptx.syntax import TOKEN
from .markup import at_line
from .overview import heat, scale

_STRIP = 46
"""Pixels of the longest bar."""


def listing(report: FunctionReport, lines: Sequence[str], chosen: range, sass: Counter[int]) -> str:
    """The lines of a function (`chosen`, from 1); `sass`: machine instructions per line."""
    depth = {
        line: report.loops.depth(b)
        for b, block in enumerate(report.cfg.blocks)
        for op in block.ops
        if (line := line_of(op)) is not None
    }
    points: dict[int, int] = {}
    for op in instructions(report):
        line = line_of(op)
        if line is not None:
            points[line] = max(points.get(line, 0), report.pressure.points[op].estimated)
    said: dict[int, str] = {}
    for f in report.findings:
        hint = f"<em>{escape(f.hint)}</em>" if f.hint else ""
        hint += "".join(f"<em>{escape(line)}</em>" for line in origin_lines(f.origin))
        at = f.line or chosen[0]
        said[at] = said.get(at, "") + f'<div class="said {f.severity}">{escape(f.message)}{hint}</div>'
    most = scale(report)
    rows: list[str] = []
    for line in chosen:
        value = points.get(line)
        strip = ""
        if value is not None:
            part = value / most
            strip = f'<i style="width:{part * _STRIP:.0f}px;background:{heat(part)}"></i><b>{value}</b>'
        nest = '<span class="nest"></span>' * depth.get(line, 0)
        rows.append(
            f'<div class="row"{at_line(line)}><span class="no">{line}</span><span class="heat">{strip}</span>'
            f'<span class="sass">{sass.get(line) or ""}</span>'
            f'<span class="text">{nest}{coloured(lines[line - 1])}</span></div>{said.get(line, "")}'
        )
    return f'<div class="listing">{"".join(rows)}</div>'


def coloured(line: str) -> str:
    """A line of PTX with opcodes, registers, numbers, directives, labels and comments in their colours."""
    line = line.rstrip("\r").expandtabs(4)
    parts: list[str] = []
    opcode = False  # modifiers of an opcode have its colour
    for match in TOKEN.finditer(line):
        kind, token = match.lastgroup, match.group()
        style = {"lc": "c", "bc": "c", "num": "n", "mod": "k" if opcode else "d"}.get(kind or "", "")
        if kind == "id" and token[0] == "%":
            style = "r"
        elif kind == "id" and (token[0] == "$" or line[match.end() : match.end() + 1] == ":"):
            style = "l"
        elif kind == "id" and token in _ROOTS:
            style, opcode = "k", True
        elif kind not in ("mod", "ws"):
            opcode = False
        parts.append(f'<span class="{style}">{escape(token)}</span>' if style else escape(token))
    return "".join(parts)


_ROOTS = frozenset(opcode.partition(".")[0] for opcode in OPCODES)
