"""One self-contained HTML page about the kernels of a file: PTX with its pressure, CFG, findings, memory, occupancy, SASS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from ...analysis.mix import CLASSES, spelled
from ...analysis.operands import line_of, register_class, register_name
from ...analysis.report import FunctionReport, instructions
from ...dialects.ptx.instruction import OPCODES
from ...dialects.ptx.structure import ModuleOp
from ...dialects.ptx.syntax import TOKEN
from ...dialects.ptx.target import version_text
from ..ptxas import PtxasResult, SassLine, ToolNotFound, sass_with_lines, tool_version
from .layers import draw
from .overview import heat, overview, scale

_ROOTS = frozenset(o.partition(".")[0] for o in OPCODES)


def page(
    text: str,
    filename: str,
    module: ModuleOp,
    reports: Sequence[FunctionReport],
    assembled: PtxasResult | None,
) -> str:
    """The page. `assembled` is what ptxas made of the text with `-lineinfo`, if it did."""
    sass: dict[str, tuple[SassLine, ...]] = {}
    if assembled is not None and assembled.cubin is not None:
        try:
            sass = sass_with_lines(assembled.cubin)
        except ToolNotFound:
            pass
    lines = text.split("\n")
    starts = sorted(line_of(f) or 1 for f in module.functions)
    sections: list[str] = []
    for i, report in enumerate(reports):
        first = line_of(report.function) or 1
        following = next((s for s in starts if s > first), len(lines) + 1)
        chosen = range(first, following)
        while len(chosen) > 1 and not lines[chosen[-1] - 1].strip():
            chosen = chosen[:-1]
        sections.append(_kernel(f"k{i}", report, lines, chosen, sass.get(report.name, ())))
    options = "".join(f'<option value="k{i}">{escape(r.name)}</option>' for i, r in enumerate(reports))
    chooser = (
        f"<select>{options}</select>"
        if len(reports) > 1
        else f"<code>{escape(reports[0].name)}</code>"
        if reports
        else ""
    )
    target = module.target
    resources = files(__package__ or "")
    tools = f", SASS by ptxas {tool_version('ptxas')}" if sass else ""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(filename)}: pyptx analyse</title>
<style>
{resources.joinpath("page.css").read_text(encoding="utf-8")}</style></head><body>
<header><h1>{escape(filename.rsplit("/", 1)[-1])}</h1>{chooser}
<span class="meta">{target.target}, PTX {version_text(target.version)}, {len(lines):,} lines{tools}</span></header>
{"".join(sections) or '<section class="kernel"><p>No function with a body.</p></section>'}
<footer>{_ASSUMPTIONS}</footer>
<script>
{resources.joinpath("page.js").read_text(encoding="utf-8")}</script></body></html>
"""


_ASSUMPTIONS = (
    "Pressure counts 32-bit registers that hold live values in the order of the PTX, sharing those of copies; ptxas reorders, so its count "
    "may be lower or higher. Bank conflicts, sectors and bytes are for addresses that are exact per thread up to a part that a whole warp "
    "shares; that part is taken to be aligned to a sector, and threads of a warp to run loops together."
)


def _kernel(
    id_: str, report: FunctionReport, lines: Sequence[str], chosen: range, sass: Sequence[SassLine]
) -> str:
    tabs = [("cfg", "CFG", _cfg(report))]
    if sass:
        tabs.append(("sass", f"SASS ({len(sass)})", _sass(sass)))
    count = len(report.findings)
    tabs += [
        ("findings", f"Findings ({count})", _findings(report)),
        ("memory", "Memory", _memory(report)),
        ("mix", "Mix, loops", _mix(report)),
        ("registers", "Registers", _registers(report)),
        ("occupancy", "Occupancy", _occupancy(report)),
    ]
    buttons = "".join(
        f'<button data-tab="{t}"{" class=on" if i == 0 else ""}>{escape(name)}</button>'
        for i, (t, name, _) in enumerate(tabs)
    )
    bodies = "".join(
        f'<div class="tab{" on" if i == 0 else ""}" data-tab="{t}">{body}</div>'
        for i, (t, _, body) in enumerate(tabs)
    )
    per_line = Counter(s.line for s in sass if s.line is not None)
    return (
        f'<section class="kernel" id="{id_}">{_facts(report)}{overview(report, chosen)}'
        f'<div class="columns"><div class="pane">{_listing(report, lines, chosen, per_line)}</div>'
        f'<div class="pane"><div class="tabs">{buttons}</div>{bodies}</div></div></section>'
    )


# ------------------------------------------------------------------------------------------------------------- summary


def _facts(report: FunctionReport) -> str:
    pressure, o = report.pressure, report.occupancy
    facts: list[tuple[str, str, str]] = []
    if report.registers_measured:
        facts.append(
            (
                "registers per thread",
                str(report.registers),
                f"by ptxas; {pressure.estimated} live at the peak of the PTX",
            )
        )
    else:
        facts.append(
            ("registers per thread", f"~{pressure.estimated}", f"estimated; {pressure.written} as written")
        )
    dynamic = ", and what the launch adds" if report.shared.dynamic else ""
    facts.append(("shared memory", f"{report.shared.size:,} B", f"static, per CTA{dynamic}"))
    if o is not None:
        facts.append(
            (
                "occupancy",
                f"{o.fraction:.0%}",
                f"{o.ctas} CTAs, {o.warps} of {o.limits.warps} warps; limited by {', '.join(o.limited_by)}",
            )
        )
    x, y, z = report.threads.shape
    facts.append(
        (
            "threads per CTA",
            f"{report.threads.count}",
            f"{x} x {y} x {z}, {'as stated' if report.threads.stated else 'assumed: say --block'}",
        )
    )
    deepest = max((loop.depth for loop in report.loops.loops), default=0)
    facts.append(
        (
            "instructions",
            f"{report.mix.total:,}",
            f"{len(report.cfg.blocks)} blocks, {len(report.loops.loops)} loops, {deepest} deep",
        )
    )
    if report.traffic.accesses:
        t = report.traffic
        more = "per CTA, read and written" + ("" if t.complete else ", outside loops of unknown length")
        facts.append(("global memory", f"{_bytes(t.read)} / {_bytes(t.written)}", more))
    conflicts = [
        u for u in report.banks if u.wavefronts is not None and u.ideal is not None and u.wavefronts > u.ideal
    ]
    if report.banks:
        worst = max((u.ways or 0 for u in report.banks), default=0)
        facts.append(
            (
                "bank conflicts",
                f"{worst}-way" if conflicts else "none",
                f"{len(conflicts)} of {len(report.banks)} shared accesses",
            )
        )
    cells = "".join(
        f'<div class="fact"><div class="name">{n}</div><div class="big">{b}</div><div class="more">{escape(m)}</div></div>'
        for n, b, m in facts
    )
    return f'<div class="facts">{cells}</div>'


def _bytes(count: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} B"


# ------------------------------------------------------------------------------------------------------------- listing


def _listing(report: FunctionReport, lines: Sequence[str], chosen: range, sass: Counter[int]) -> str:
    """The PTX: line number, pressure, number of SASS instructions, text; findings under their line."""
    points: dict[int, int] = {}
    depth: dict[int, int] = {}
    for b, block in enumerate(report.cfg.blocks):
        for op in block.ops:
            line = line_of(op)
            if line is not None:
                depth[line] = report.loops.depth(b)
    for op in instructions(report):
        line = line_of(op)
        if line is not None:
            points[line] = max(points.get(line, 0), report.pressure.points[op].estimated)
    said: dict[int, list[str]] = {}
    for f in report.findings:
        hint = f"<em>{escape(f.hint)}</em>" if f.hint else ""
        said.setdefault(f.line or chosen[0], []).append(
            f'<div class="said {f.severity}">{escape(f.message)}{hint}</div>'
        )
    most = scale(report)
    rows: list[str] = []
    for line in chosen:
        value = points.get(line)
        bar = ""
        if value is not None:
            bar = f'<i style="width:{value / most * 46:.0f}px;background:{heat(value / most)}"></i><b>{value}</b>'
        count = sass.get(line)
        text = f"{_nested(depth.get(line, 0))}{_coloured(lines[line - 1])}"
        rows.append(
            f'<div class="row" data-line="{line}"><span class="no">{line}</span><span class="heat">{bar}</span>'
            f'<span class="sass">{count or ""}</span><span class="text">{text}</span></div>{"".join(said.get(line, ()))}'
        )
    return f'<div class="listing">{"".join(rows)}</div>'


def _nested(depth: int) -> str:
    return '<span class="nest"></span>' * depth


def _coloured(line: str) -> str:
    """A line of PTX with opcodes, registers, numbers, directives, labels and comments in their colours."""
    line = line.rstrip("\r").expandtabs(4)
    parts: list[str] = []
    opcode = False
    for match in TOKEN.finditer(line):
        kind, token = match.lastgroup, match.group()
        style = ""
        if kind == "lc" or kind == "bc":
            style = "c"
        elif kind == "num":
            style = "n"
        elif kind == "mod":
            style = "k" if opcode else "d"
        elif kind == "id":
            if token[0] == "%":
                style = "r"
            elif line[match.end() : match.end() + 1] == ":" or token[0] == "$":
                style = "l"
            elif token in _ROOTS:
                style, opcode = "k", True
        if kind not in ("mod", "id"):
            opcode = opcode and kind == "ws"
        parts.append(f'<span class="{style}">{escape(token)}</span>' if style else escape(token))
    return "".join(parts)


# ----------------------------------------------------------------------------------------------------------------- tabs


def _cfg(report: FunctionReport) -> str:
    """The CFG as a picture: a box per block, shaded by its peak pressure; back edges of loops in another colour."""
    sizes: list[tuple[float, float]] = []
    texts: list[tuple[str, str]] = []
    peaks: list[int] = []
    for b, block in enumerate(report.cfg.blocks):
        ops = [op for op in block.ops if line_of(op) is not None]
        first = line_of(ops[0]) if ops else None
        last = line_of(ops[-1]) if ops else None
        count = sum(1 for op in block.ops if op in report.pressure.points and line_of(op) is not None)
        peaks.append(max((report.pressure.points[op].estimated for op in block.ops), default=0))
        where = f"{first}" if first == last else f"{first}-{last}"
        name = report.block_name(b)
        detail = f"{where}: {count} ops, {peaks[-1]} regs" if first is not None else "empty"
        texts.append((name, detail))
        sizes.append((max(len(name), len(detail)) * 6.8 + 18, 38))
    drawing = draw(report.cfg.successors, sizes)
    most = scale(report)
    parts: list[str] = []
    for route in drawing.routes:
        points = route.points
        path = _smooth(points) if not route.back else "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        taken = (
            len(report.cfg.successors[route.source]) > 1
            and report.cfg.successors[route.source][0] == route.target
        )
        style = "back" if route.back else "taken" if taken else ""
        parts.append(f'<path class="{style}" d="{path}" marker-end="url(#tip)"/>')
    for b, box in drawing.boxes.items():
        name, detail = texts[b]
        line = next((line_of(op) for op in report.cfg.blocks[b].ops if line_of(op) is not None), None)
        depth = report.loops.depth(b)
        here = f' data-line="{line}"' if line is not None else ""
        title = f"<title>{escape(name)}: {escape(detail)}{f', loop depth {depth}' if depth else ''}</title>"
        parts.append(
            f'<g{here}><rect class="box" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height}" rx="4"'
            f' fill="{heat(peaks[b] / most, 0.55)}" stroke-dasharray="{"" if report.dominators.reachable(b) else "4 3"}">{title}</rect>'
            f'<text x="{box.x + 9:.1f}" y="{box.y + 16:.1f}" font-weight="600">{escape(name)}{" ↻" * depth}</text>'
            f'<text class="soft" x="{box.x + 9:.1f}" y="{box.y + 30:.1f}">{escape(detail)}</text></g>'
        )
    return (
        "<p>A box is a basic block, darker with more live registers; ↻ per loop around it. Green: branch taken. Orange: back to a loop's head.</p>"
        f'<svg class="cfg" width="{drawing.width + 8:.0f}" height="{drawing.height + 34:.0f}" viewBox="-4 -16 {drawing.width + 8:.0f} {drawing.height + 34:.0f}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" style="fill:var(--soft);stroke:none"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )


def _smooth(points: Sequence[tuple[float, float]]) -> str:
    """A path through points that leaves and arrives vertically."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        half = (y1 - y0) / 2
        path += f" C{x0:.1f} {y0 + half:.1f} {x1:.1f} {y1 - half:.1f} {x1:.1f} {y1:.1f}"
    return path


def _sass(sass: Sequence[SassLine]) -> str:
    rows: list[str] = []
    for s in sass:
        if s.label:
            rows.append(
                f'<div class="sline label"><span></span><span></span><span>{escape(s.label)}:</span></div>'
            )
        here = f' data-line="{s.line}"' if s.line is not None else ""
        rows.append(
            f'<div class="sline mono"{here}><span class="off">{s.offset:04x}</span><span class="from">{s.line or ""}</span>'
            f"<span>{escape(s.text)}</span></div>"
        )
    return f"<p>Offset, line of the PTX it came from, instruction. Click a line on either side to find its partners.</p>{''.join(rows)}"


def _findings(report: FunctionReport) -> str:
    if not report.findings:
        return "<p>Nothing odd found.</p>"
    items: list[str] = []
    for f in report.findings:
        here = f' data-line="{f.line}"' if f.line else ""
        where = f'<span class="at">line {f.line}</span>' if f.line else ""
        hint = f"<br><small>{escape(f.hint)}</small>" if f.hint else ""
        items.append(f'<li class="{f.severity}"{here}>{where}{escape(f.message)}{hint}</li>')
    return f'<ul class="findings">{"".join(items)}</ul>'


def _memory(report: FunctionReport) -> str:
    parts: list[str] = []
    if report.traffic.accesses:
        rows: list[str] = []
        for a in report.traffic.accesses:
            bad = " bad" if a.per_request and a.ideal and a.per_request >= 2 * a.ideal + 1 else ""
            sectors = (
                f"{a.per_request:.3g} ({a.ideal:.3g})"
                if a.per_request is not None and a.ideal is not None
                else "?"
            )
            times = str(a.times) if a.times is not None else "loop"
            size = _bytes(a.requested) if a.requested is not None else "?"
            rows.append(
                f'<tr data-line="{a.line or ""}"><td class="num">{a.line or ""}</td><td class="mono">{escape(spelled(a.op))}</td><td class="num">{size}</td>'
                f'<td class="num">{times}</td><td class="num{bad}">{sectors}</td><td class="mono">{escape(a.address or "not known")}</td></tr>'
            )
        parts.append(
            '<h3>Global memory</h3><table><tr><th class="num">line</th><th>access</th><th class="num">bytes per CTA</th><th class="num">times</th>'
            f'<th class="num">sectors per warp (least)</th><th>address</th></tr>{"".join(rows)}</table>'
        )
    if report.banks:
        rows = []
        for u in report.banks:
            bad = (
                " bad" if u.wavefronts is not None and u.ideal is not None and u.wavefronts > u.ideal else ""
            )
            passes = f"{u.wavefronts} ({u.ideal})" if u.wavefronts is not None else "?"
            rows.append(
                f'<tr data-line="{u.line or ""}"><td class="num">{u.line or ""}</td><td class="mono">{escape(spelled(u.op))}</td>'
                f'<td class="num{bad}">{u.ways if u.ways is not None else "?"}</td><td class="num{bad}">{passes}</td>'
                f'<td class="mono">{escape(u.address or "not known")}</td></tr>'
            )
        parts.append(
            '<h3>Shared memory banks</h3><table><tr><th class="num">line</th><th>access</th><th class="num">ways</th>'
            f'<th class="num">passes (least)</th><th>address</th></tr>{"".join(rows)}</table>'
        )
    if report.shared.variables or report.shared.dynamic:
        rows = [
            f'<tr><td class="mono">{escape(v.name)}</td><td class="num">{v.size:,}</td><td class="num">{v.offset:,}</td></tr>'
            for v in report.shared.variables
        ]
        rows += [
            f'<tr><td class="mono">{escape(n)}</td><td class="num">by launch</td><td></td></tr>'
            for n in report.shared.dynamic
        ]
        parts.append(
            '<h3>Shared variables</h3><table><tr><th>name</th><th class="num">bytes</th><th class="num">offset</th></tr>'
            + "".join(rows)
            + "</table>"
        )
    return "".join(parts) or "<p>No global or shared accesses.</p>"


def _mix(report: FunctionReport) -> str:
    most = max(report.mix.kinds.values(), default=1)
    rows = [
        f'<tr><td>{k}</td><td class="num">{n}</td><td><span class="bar" style="width:{n / most * 260:.0f}px"></span></td></tr>'
        for k, n in sorted(report.mix.kinds.items(), key=lambda kn: (-kn[1], CLASSES.index(kn[0])))
    ]
    parts = [f"<h3>Instructions by kind</h3><table>{''.join(rows)}</table>"]
    if report.loops.loops:
        body: list[str] = []
        for i, loop in enumerate(report.loops.loops):
            line = next(
                (line_of(op) for op in report.cfg.blocks[loop.header].ops if line_of(op) is not None), None
            )
            trips = report.trips[i]
            kinds = ", ".join(f"{n} {k}" for k, n in report.mix.loops[i].most_common(5))
            body.append(
                f'<tr data-line="{line or ""}"><td class="mono">{"&nbsp;&nbsp;" * (loop.depth - 1)}{escape(report.block_name(loop.header))}</td>'
                f'<td class="num">{line or ""}</td><td class="num">{trips if trips is not None else "?"}</td>'
                f'<td class="num">{report.mix.loops[i].total()}</td><td>{escape(kinds)}</td></tr>'
            )
        parts.append(
            '<h3>Loops</h3><table><tr><th>head</th><th class="num">line</th><th class="num">trips</th><th class="num">instructions</th><th>most of them</th></tr>'
            + "".join(body) + "</table>"
        )  # fmt: skip
    top = report.mix.opcodes.most_common(25)
    opcodes = "".join(f'<tr><td class="mono">{escape(o)}</td><td class="num">{n}</td></tr>' for o, n in top)
    parts.append(f"<h3>Most frequent</h3><table>{opcodes}</table>")
    return "".join(parts)


def _registers(report: FunctionReport) -> str:
    pressure = report.pressure
    line = line_of(pressure.top) if pressure.top is not None else None
    rows = "".join(
        f'<tr data-line="{(line_of(v.owner) if hasattr(v.owner, "opcode") else None) or ""}"><td class="mono">{escape(register_name(v))}</td><td>.{register_class(v)}</td></tr>'  # pyright: ignore
        for v in pressure.live_at_top[:200]
    )
    measured = f" ptxas allocates {report.registers}." if report.registers_measured else ""
    return (
        f"<p>{pressure.estimated} registers are live at the peak (line {line}); {pressure.written} at the peak as written, "
        f"and at most {pressure.predicates} predicates.{measured}</p><h3>Live at the peak</h3><table>{rows}</table>"
    )


def _occupancy(report: FunctionReport) -> str:
    o = report.occupancy
    if o is None:
        return "<p>Occupancy is a matter of kernels on sm_50 and newer.</p>"
    rows: list[str] = []
    for name, ctas in o.by.items():
        if ctas is None:
            continue
        limit = " bad" if ctas == o.ctas and name != "CTAs" else ""
        width = min(ctas, o.limits.ctas) / o.limits.ctas * 260
        rows.append(
            f'<tr><td>{name}</td><td class="num{limit}">{ctas}</td><td><span class="bar" style="width:{width:.0f}px"></span></td></tr>'
        )
    source = "ptxas" if report.registers_measured else "the estimate"
    assumed = f"<p>{escape(o.limits.assumed)}.</p>" if o.limits.assumed else ""
    return (
        f"<p>{o.threads} threads, {o.registers} registers per thread (from {source}) and {o.shared:,} bytes of shared memory per CTA, on "
        f"compute capability {o.limits.name}: {o.ctas} CTAs, {o.warps} of {o.limits.warps} warps ({o.fraction:.0%}).</p>{assumed}"
        f"<h3>CTAs per SM that each resource allows</h3><table>{''.join(rows)}</table>"
    )
