"""The tabs next to the PTX: findings, memory, mix and loops, registers, occupancy, SASS."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from xdsl.ir import Operation

from ...analysis.mix import CLASSES, spelled
from ...analysis.operands import line_of, register_class, register_name
from ...analysis.report import FunctionReport
from ...diagnostics import origin_lines
from ..ptxas import SassLine
from .markup import Cell, Row, at_line, bar, mono, number, paragraph, table


def size_text(count: int) -> str:
    """A number of bytes, short: `1.5 KiB`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} B"


def sass_tab(sass: Sequence[SassLine]) -> str:
    """Machine code in order of address, each instruction with the PTX line after it."""
    rows: list[str] = []
    for s in sass:
        if s.label:
            text = escape(s.label)
            rows.append(f'<div class="sline label"><span></span><span></span><span>{text}:</span></div>')
        cells = f'<span class="off">{s.offset:04x}</span><span class="from">{s.line or ""}</span>'
        rows.append(f'<div class="sline mono"{at_line(s.line)}>{cells}<span>{escape(s.text)}</span></div>')
    head = paragraph(
        "Offset, line of the PTX it came from, instruction.", "Click a line on either side to find its partners."
    )
    return head + "".join(rows)


def findings_tab(report: FunctionReport) -> str:
    if not report.findings:
        return paragraph("Nothing odd found.")
    items: list[str] = []
    for f in report.told():
        where = f'<span class="at">line {f.line}</span>' if f.line else ""
        notes = [f.hint or "", *origin_lines(f.origin)]
        hint = "".join(f"<br><small>{escape(note)}</small>" for note in notes if note)
        items.append(f'<li class="{f.severity}"{at_line(f.line)}>{where}{escape(f.message)}{hint}</li>')
    return f'<ul class="findings">{"".join(items)}</ul>'


def memory_tab(report: FunctionReport) -> str:
    """Global accesses with their sectors, shared accesses with their banks, shared variables."""
    parts: list[str] = []
    if report.traffic.accesses:
        head = ("#line", "access", "#bytes per CTA", "#times", "#sectors per warp (least)", "address")
        parts.append(table("Global memory", head, _global_rows(report)))
    if report.traffic.uncounted:
        parts.append(
            paragraph(f"Not counted: what {report.traffic.left_out} move. The instructions do not tell how much.")
        )
    if report.banks:
        head = ("#line", "access", "#ways", "#passes (least)", "address")
        parts.append(table("Shared memory banks", head, _bank_rows(report)))
    variables = [Row((mono(v.name), number(f"{v.size:,}"), number(f"{v.offset:,}"))) for v in report.shared.variables]
    variables += [Row((mono(n), number("by launch"), Cell())) for n in report.shared.dynamic]
    if variables:
        parts.append(table("Shared variables", ("name", "#bytes", "#offset"), variables))
    return "".join(parts) or paragraph("No global or shared accesses.")


def _global_rows(report: FunctionReport) -> list[Row]:
    rows: list[Row] = []
    for a in report.traffic.accesses:
        bad = bool(a.per_request and a.ideal and a.per_request >= 2 * a.ideal + 1)
        known = a.per_request is not None and a.ideal is not None
        cells = (
            number(a.line),
            mono(spelled(a.op)),
            number(size_text(a.requested) if a.requested is not None else None),
            number("loop" if a.times is None else a.times),
            number(f"{a.per_request:.3g} ({a.ideal:.3g})" if known else None, bad=bad),
            mono(a.address or "not known"),
        )
        rows.append(Row(cells, a.line))
    return rows


def _bank_rows(report: FunctionReport) -> list[Row]:
    rows: list[Row] = []
    for u in report.banks:
        bad = u.wavefronts is not None and u.ideal is not None and u.wavefronts > u.ideal
        passes = f"{u.wavefronts} ({u.ideal})" if u.wavefronts is not None else None
        cells = (number(u.line), mono(spelled(u.op)), number(u.ways, bad=bad), number(passes, bad=bad))
        rows.append(Row((*cells, mono(u.address or "not known")), u.line))
    return rows


def mix_tab(report: FunctionReport) -> str:
    """Instructions by kind as bars, loops, the commonest opcodes."""
    most = max(report.mix.kinds.values(), default=1)
    kinds = sorted(report.mix.kinds.items(), key=lambda kn: (-kn[1], CLASSES.index(kn[0])))
    parts = [table("Instructions by kind", (), [Row((Cell(k), number(n), bar(n / most))) for k, n in kinds])]
    loops: list[Row] = []
    for i, loop in enumerate(report.loops.loops):
        line = first_line(report, loop.header)
        name = "\N{NO-BREAK SPACE}" * 2 * (loop.depth - 1) + report.block_name(loop.header)
        top = ", ".join(f"{n} {k}" for k, n in report.mix.loops[i].most_common(5))
        cells = (mono(name), number(line), number(report.trips[i]), number(report.mix.loops[i].total()), Cell(top))
        loops.append(Row(cells, line))
    if loops:
        parts.append(table("Loops", ("head", "#line", "#trips", "#instructions", "most of them"), loops))
    opcodes = [Row((mono(o), number(n))) for o, n in report.mix.opcodes.most_common(25)]
    return "".join([*parts, table("Most frequent", (), opcodes)])


def registers_tab(report: FunctionReport) -> str:
    """The peak and the values that are live there."""
    pressure = report.pressure
    line = line_of(pressure.top) if pressure.top is not None else None
    rows: list[Row] = []
    for value in pressure.live_at_top[:200]:
        owner = value.owner
        defined = line_of(owner) if isinstance(owner, Operation) else None
        cells = (mono(register_name(value)), Cell("." + register_class(value)), number(defined or "joined"))
        rows.append(Row(cells, defined))
    head = paragraph(
        f"{pressure.estimated} registers are live at the peak (line {line}); {pressure.written} as written,",
        f"{pressure.relaxed} if instructions stood next to their uses, and at most {pressure.predicates} predicates.",
        f"ptxas allocates {report.registers}." if report.registers_measured else "",
    )
    return head + table("Live at the peak", ("register", "class", "#written at"), rows)


def occupancy_tab(report: FunctionReport) -> str:
    """How many CTAs fit on an SM, and which resource stops more."""
    o = report.occupancy
    if o is None:
        return paragraph("Occupancy is a matter of kernels on sm_50 and newer.")
    rows = [
        Row((Cell(name), number(ctas, bad=ctas == o.ctas and name != "CTAs"), bar(min(ctas / o.limits.ctas, 1.0))))
        for name, ctas in o.by.items()
        if ctas is not None
    ]
    head = paragraph(
        f"{o.threads} threads, {o.registers} registers per thread",
        f"(from {'ptxas' if report.registers_measured else 'the estimate'})",
        f"and {o.shared:,} bytes of shared memory per CTA, on compute capability {o.limits.name}:",
        f"{o.ctas} CTAs, {o.warps} of {o.limits.warps} warps ({o.fraction:.0%}).",
        f"These are the {o.limits.assumed}." if o.limits.assumed else "",
    )
    return head + table("CTAs per SM that each resource allows", (), rows)


def first_line(report: FunctionReport, block: int) -> int | None:
    """The first line of a block in the PTX."""
    return next((line for op in report.cfg.blocks[block].ops if (line := line_of(op)) is not None), None)
