"""One self-contained HTML page about the kernels of a file: PTX with its pressure, CFG, findings, memory,
occupancy, SASS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from ...analysis.operands import line_of
from ...analysis.report import FunctionReport
from ...diagnostics import counted
from ...dialects.ptx.structure import ModuleOp
from ...dialects.ptx.target import version_text
from ...prediction import Prediction, WhatIf
from ..ptxas import PtxasResult, SassLine, ToolNotFound, sass_with_lines, tool_version
from .listing import listing
from .overview import overview
from .picture import cfg_tab
from .tabs import findings_tab, memory_tab, mix_tab, occupancy_tab, registers_tab, sass_tab, size_text
from .time_tab import time_tab

_ASSUMPTIONS = (
    "Pressure counts 32-bit registers that hold live values in the order of the PTX, sharing those of copies; "
    "ptxas reorders, so its count may be lower or higher. Bank conflicts, sectors and bytes are for addresses that "
    "are exact per thread up to a part that a whole warp shares; that part is taken to be aligned to a sector, and "
    "threads of a warp to run loops together."
)


def page(
    text: str, filename: str, module: ModuleOp, reports: Sequence[FunctionReport], assembled: PtxasResult | None,
    predictions: Sequence[Prediction] = (), tables: Sequence[WhatIf] = (),
) -> str:  # fmt: skip
    """The page. `assembled` is what ptxas made of the text with `-lineinfo`, if it did; `tables`: variants of predictions."""
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
        sections.append(
            _kernel(
                f"k{i}",
                report,
                lines,
                chosen,
                sass.get(report.name, ()),
                [p for p in predictions if p.kernel == report.name],
                tables,
            )
        )
    nothing = '<section class="kernel" id="k0"><p>No function with a body.</p></section>'
    tools = f", SASS by ptxas {tool_version('ptxas')}" if sass else ""
    about = f"{module.target.target}, PTX {version_text(module.target.version)}, {len(lines):,} lines{tools}"
    resources = files(__package__ or "")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,
initial-scale=1">
<title>{escape(filename)}: pyptx analyse</title>
<style>
{resources.joinpath("page.css").read_text(encoding="utf-8")}</style></head><body>
<header><h1>{escape(filename.rsplit("/", 1)[-1])}</h1>{_chooser(reports)}<span
class="meta">{about}</span></header>
{"".join(sections) or nothing}
<footer>{_ASSUMPTIONS}</footer>
<script>
{resources.joinpath("page.js").read_text(encoding="utf-8")}</script></body></html>
"""


def _chooser(reports: Sequence[FunctionReport]) -> str:
    if len(reports) == 1:
        return f"<code>{escape(reports[0].name)}</code>"
    options = "".join(f'<option value="k{i}">{escape(r.name)}</option>' for i, r in enumerate(reports))
    return f"<select>{options}</select>" if reports else ""


def _kernel(
    id_: str,
    report: FunctionReport,
    lines: Sequence[str],
    chosen: range,
    sass: Sequence[SassLine],
    predictions: Sequence[Prediction],
    tables: Sequence[WhatIf],
) -> str:
    tabs = [("cfg", "CFG", cfg_tab(report))]
    if sass:
        tabs.append(("sass", f"SASS ({len(sass)})", sass_tab(sass)))
    if predictions:
        tabs.insert(0, ("time", "Time", time_tab(predictions, tables)))
    tabs += [
        ("findings", f"Findings ({len(report.findings)})", findings_tab(report)),
        ("memory", "Memory", memory_tab(report)),
        ("mix", "Mix, loops", mix_tab(report)),
        ("registers", "Registers", registers_tab(report)),
        ("occupancy", "Occupancy", occupancy_tab(report)),
    ]
    buttons = "".join(
        f'<button data-tab="{key}"{"" if i else " class=on"}>{escape(name)}</button>'
        for i, (key, name, _) in enumerate(tabs)
    )
    bodies = "".join(
        f'<div class="tab{"" if i else " on"}" data-tab="{key}">{body}</div>' for i, (key, _, body) in enumerate(tabs)
    )
    per_line = Counter(s.line for s in sass if s.line is not None)
    return (
        f'<section class="kernel" id="{id_}">{_facts(report)}{overview(report, chosen)}'
        f'<div class="columns"><div class="pane">{listing(report, lines, chosen, per_line)}</div>'
        f'<div class="pane"><div class="tabs">{buttons}</div>{bodies}</div></div></section>'
    )


def _facts(report: FunctionReport) -> str:
    """The numbers one wants first."""
    pressure, o, t = report.pressure, report.occupancy, report.traffic
    facts: list[tuple[str, str, str]] = []
    if report.registers_measured:
        more = f"by ptxas; {pressure.estimated} live at the peak of the PTX"
        facts.append(("registers per thread", str(report.registers), more))
    else:
        more = f"estimated; {pressure.estimated} live at the peak of the PTX"
        facts.append(("registers per thread", f"~{report.registers}", more))
    more = "static, per CTA" + (", and what the launch adds" if report.shared.dynamic else "")
    if report.dynamic_shared:
        more = f"per CTA: {report.shared.size:,} static, {report.dynamic_shared:,} dynamic"
    facts.append(("shared memory", f"{report.shared.size + report.dynamic_shared:,} B", more))
    if o is not None:
        more = f"{o.ctas} CTAs, {o.warps} of {o.limits.warps} warps; limited by {', '.join(o.limited_by)}"
        facts.append(("occupancy", f"{o.fraction:.0%}", more))
    x, y, z = report.threads.shape
    more = f"{x} x {y} x {z}, {'as stated' if report.threads.stated else 'assumed: say --block'}"
    facts.append(("threads per CTA", f"{report.threads.count}", more))
    deepest = max((loop.depth for loop in report.loops.loops), default=0)
    more = f"{counted(len(report.cfg.blocks), 'block')}, {counted(len(report.loops.loops), 'loop')}, {deepest} deep"
    facts.append(("instructions", f"{report.mix.total:,}", more))
    if t.accesses or t.uncounted:
        more = "per CTA, read / written"
        if any(a.times is None for a in t.accesses):
            more += ", without loops of unknown length"
        if t.uncounted:
            more += f", without what {t.left_out} move"
        facts.append(
            ("global memory", f"{'' if t.complete else 'at least '}{size_text(t.read)} / {size_text(t.written)}", more)
        )
    if report.banks:
        worst = max((u.ways or 0 for u in report.banks), default=0)
        bad = sum(u.wavefronts > u.ideal for u in report.banks if u.wavefronts is not None and u.ideal is not None)
        facts.append(("bank conflicts", f"{worst}-way" if bad else "none", f"{bad} of {len(report.banks)} accesses"))
    cells = "".join(
        f'<div class="fact"><div class="name">{name}</div><div class="big">{big}</div>'
        f'<div class="more">{escape(more)}</div></div>'
        for name, big, more in facts
    )
    return f'<div class="facts">{cells}</div>'
