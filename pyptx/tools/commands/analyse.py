"""`pyptx analyse`: what the analyses say about the kernels of a PTX file, as text, JSON or one self-contained
HTML page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...analysis.loops import Loop
from ...analysis.mix import CLASSES, spelled
from ...analysis.operands import line_of, register_class, register_name
from ...analysis.report import FunctionReport, Shape, analyse, instructions
from ...diagnostics import Diagnostic, PTXError, counted, merged
from ...dialects.ptx.structure import ModuleOp
from ...parser.diagnose import diagnose_text
from ...parser.module import parse_text
from ...sources import read_argument
from ..ptxas import PtxasResult, ToolNotFound, assemble, supported_archs
from ..report import timing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="PTX file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.add_argument("--html", metavar="OUT", help="write a self-contained page")
    parser.add_argument("--kernel", metavar="NAME", help="only this entry or function")
    parser.add_argument(
        "--block", metavar="X[,Y[,Z]]", type=_shape, help="threads per CTA (default: .reqntid or .maxntid)"
    )
    parser.add_argument(
        "--dynamic-shared", metavar="BYTES", type=int, default=0, help="shared memory that the launch adds"
    )
    parser.add_argument("--no-ptxas", action="store_true", help="estimate registers; no SASS in the page")
    timing.add_arguments(parser)


def _shape(text: str) -> Shape:
    words = text.split(",")
    numbers = [int(word) for word in words if word.strip().isdecimal()]
    if not 1 <= len(words) <= 3 or len(numbers) < len(words) or any(n < 1 for n in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not up to three positive numbers such as 16,16")
    x, y, z = (*numbers, 1, 1)[:3]
    if x * y * z > 1024:
        raise argparse.ArgumentTypeError(f"a CTA has at most 1024 threads, not {x * y * z}")
    return x, y, z


def run(options: argparse.Namespace) -> int:
    if (lacking := timing.required(options)) is not None:
        print(f"pyptx: {lacking}", file=sys.stderr)
        return 2
    text, name = read_argument(options.file)
    try:
        builtin = parse_text(text, name, allow_unknown=True)
    except PTXError:
        raise PTXError(_errors(text, name)) from None
    module = next(op for op in builtin.body.block.ops if isinstance(op, ModuleOp))
    assembled = None if options.no_ptxas else with_line_info(text, module.target.target)
    refused: list[Diagnostic] = []
    if assembled is not None and not assembled.ok:
        refused = _errors(text, name)
        refused = refused or [replace(d, message=f"ptxas: {d.message}", filename=name) for d in assembled.diagnostics]
        assembled = None
    registers: Mapping[str, int] = {}
    if assembled is not None:
        registers = {entry: usage.registers for entry, usage in assembled.usage.items()}
    reports = analyse(
        module,
        kernel=options.kernel,
        shape=options.block,
        dynamic_shared=options.dynamic_shared,
        registers=registers,
    )
    predicted = (
        timing.predictions(text, [r.name for r in reports if r.function.is_entry], options) if options.time else []
    )
    if options.html:
        from ..report.page import page

        tables = [timing.variants(p, options) for p in predicted] if options.what_if else []
        made = page(text, name, module, reports, assembled, predicted, tables)
        Path(options.html).write_text(made, encoding="utf-8", errors="replace")
        if not options.json:
            print(f"wrote {options.html}")
            return _refusal(refused)
    if options.json:
        print(
            json.dumps(
                {
                    "file": name,
                    "target": module.target.target,
                    "refused": [asdict(d) for d in refused],
                    "functions": [as_json(r) for r in reports],
                    **({"predicted": [timing.as_json(p, options) for p in predicted]} if options.time else {}),
                },
                indent=1,
            )
        )
    else:
        print("\n\n".join([*(as_text(r, name) for r in reports), *(timing.as_text(p, options) for p in predicted)]))
    return _refusal(refused)


def _errors(text: str, name: str) -> list[Diagnostic]:
    return [d for d in diagnose_text(text, name) if d.severity == "error"]


def _refusal(refused: Sequence[Diagnostic]) -> int:
    """Say that ptxas takes no such text, whatever the analyses made of it; the exit status."""
    for diagnostic in merged(refused):
        print(diagnostic.render(), file=sys.stderr)
    if refused:
        print("ptxas refuses this text: registers are estimates, and it runs nowhere", file=sys.stderr)
    return 1 if refused else 0


def with_line_info(text: str, target: str) -> PtxasResult | None:
    """What ptxas makes of the text with line information; None without ptxas and for a target it does not know."""
    try:
        if target.removeprefix("sm_") not in supported_archs():
            return None
        return assemble(text, target, options=("-lineinfo",))
    except ToolNotFound:
        return None


# ------------------------------------------------------------------------------------------------------------
# ----- text


def as_text(report: FunctionReport, filename: str) -> str:
    """A report as a person reads it in a terminal."""
    function, pressure = report.function, report.pressure
    kind = "kernel" if function.is_entry else "function"
    x, y, z = report.threads.shape
    lines = [f"{kind} {report.name}  ({filename}:{line_of(function) or 1})"]

    def row(name: str, text: str) -> None:
        lines.append(f"  {name:<14}{text}")

    row("threads", f"{x} x {y} x {z} per CTA{_assumed(report)}")
    row(
        "instructions",
        f"{report.mix.total} in {counted(len(report.cfg.blocks), 'block')}, {counted(len(report.loops.loops), 'loop')}",
    )
    top = f", highest at line {line_of(pressure.top)}" if pressure.top is not None and line_of(pressure.top) else ""
    measured = f", ptxas: {report.registers}" if report.registers_measured else ""
    row(
        "registers",
        f"{pressure.estimated} estimated ({pressure.written} as written, {pressure.relaxed} if reordered, "
        f"{pressure.predicates} predicates)"
        f"{top}{measured}",
    )
    dynamic = f", and {', '.join(report.shared.dynamic)} sized by the launch" if report.shared.dynamic else ""
    if report.dynamic_shared:
        dynamic = f", and {report.dynamic_shared:,} dynamic that the launch adds"
    row("shared memory", f"{report.shared.size} bytes{dynamic}")
    if report.occupancy is not None:
        o = report.occupancy
        row(
            "occupancy",
            f"{o.fraction:.0%}: {o.ctas} CTAs, {o.warps} of {o.limits.warps} warps per SM, "
            f"limited by {', '.join(o.limited_by)}",
        )
        if o.limits.assumed:
            row("", f"({o.limits.assumed})")
    kinds = [(k, report.mix.kinds[k]) for k in CLASSES if report.mix.kinds[k]]
    row("mix", ", ".join(f"{n} {k}" for k, n in sorted(kinds, key=lambda kn: -kn[1])))
    for i, loop in enumerate(report.loops.loops):
        row("loop" if i == 0 else "", f"{'  ' * (loop.depth - 1)}{loop_text(report, loop, i)}")
    if report.traffic.accesses or report.traffic.uncounted:
        row("traffic", traffic_text(report))
    if report.banks:
        told = [u for u in report.banks if u.ways is not None]
        worst = max((u.ways or 0 for u in told), default=0)
        row(
            "banks",
            f"{len(told)} of {len(report.banks)} shared accesses known, worst {worst}-way" if told else "not known",
        )
    lines += [replace(d, hint=None).render() for d in report.told(filename)]
    return "\n".join(lines)


def loop_text(report: FunctionReport, loop: Loop, index: int) -> str:
    """One line about a loop."""
    count = report.mix.loops[index].total()
    trips = report.trips[index]
    head = next(iter(report.cfg.blocks[loop.header].ops), None)
    line = line_of(head) if head is not None else None
    times = f", runs {trips} times" if trips is not None else ""
    return f"{report.block_name(loop.header)}{f' at line {line}' if line else ''}: {count} instructions{times}"


def _assumed(report: FunctionReport) -> str:
    if report.threads.stated:
        return ""
    if report.function.directive(".maxntid"):
        return " (assumed: .maxntid, the most it may have; --block says otherwise)"
    return " (assumed: the kernel has no .reqntid; --block says otherwise)"


def traffic_text(report: FunctionReport) -> str:
    """Bytes per CTA, as far as they are known, and why not all are."""
    t = report.traffic
    unplaced = sum(a.requested is None for a in t.accesses)
    unlimited = sum(a.requested is not None and a.times is None for a in t.accesses)
    reasons = [
        f"{count} of {len(t.accesses)} global accesses {why}"
        for count, why in (
            (unplaced, "are not known per thread"),
            (unlimited, "are in loops that run an unknown number of times"),
        )
        if count
    ]
    if t.uncounted:
        reasons.append(f"what {t.left_out} move is not counted, as the instructions do not tell how much")
    if unplaced + unlimited == len(t.accesses):
        return f"not known: {' and '.join(reasons)}"
    least = "at least " if reasons else ""
    more = f" ({' and '.join(reasons)})" if reasons else ""
    return f"{least}{t.read:,} bytes read and {t.written:,} written per CTA{more}"


# ------------------------------------------------------------------------------------------------------------
# ----- JSON


def as_json(report: FunctionReport) -> dict[str, Any]:
    """A report as plain data; ops are told by their line."""
    pressure, o = report.pressure, report.occupancy
    return {
        "name": report.name,
        "entry": report.function.is_entry,
        "threads": {"shape": report.threads.shape, "stated": report.threads.stated},
        "blocks": [
            {"name": report.block_name(b), "successors": s, "loop": report.loops.innermost[b]}
            for b, s in enumerate(report.cfg.successors)
        ],
        "loops": [
            {
                "header": loop.header,
                "blocks": loop.blocks,
                "depth": loop.depth,
                "parent": loop.parent,
                "trips": report.trips[i],
                "mix": dict(report.mix.loops[i]),
            }
            for i, loop in enumerate(report.loops.loops)
        ],
        "irreducible": bool(report.loops.irreducible),
        "pressure": {
            "estimated": pressure.estimated,
            "written": pressure.written,
            "relaxed": pressure.relaxed,
            "predicates": pressure.predicates,
            "line": line_of(pressure.top) if pressure.top is not None else None,
            "live": [f"{register_name(v)}:{register_class(v)}" for v in pressure.live_at_top],
            "points": [
                {"line": line_of(op), "estimated": p.estimated, "written": p.written, "predicates": p.predicates}
                for op in instructions(report)
                for p in [pressure.points[op]]
            ],
        },
        "registers": {"count": report.registers, "from": "ptxas" if report.registers_measured else "estimate"},
        "mix": {"kinds": dict(report.mix.kinds), "opcodes": dict(report.mix.opcodes)},
        "shared": {
            "static": report.shared.size,
            "dynamic": report.shared.dynamic,
            "dynamic_bytes": report.dynamic_shared,
            "variables": [{"name": v.name, "size": v.size, "offset": v.offset} for v in report.shared.variables],
        },
        "occupancy": None
        if o is None
        else {
            "ctas": o.ctas,
            "warps": o.warps,
            "fraction": o.fraction,
            "limited_by": o.limited_by,
            "by": o.by,
            "capability": o.limits.name,
            "assumed": o.limits.assumed,
        },
        "banks": [
            {
                "line": u.line,
                "opcode": spelled(u.op),
                "address": u.address,
                "ways": u.ways,
                "passes": u.wavefronts,
                "ideal": u.ideal,
            }
            for u in report.banks
        ],
        "traffic": {
            "read": report.traffic.read,
            "written": report.traffic.written,
            "complete": report.traffic.complete,
            "uncounted": [{"line": line_of(op), "opcode": spelled(op)} for op in report.traffic.uncounted],
            "accesses": [
                {
                    "line": a.line,
                    "opcode": spelled(a.op),
                    "address": a.address,
                    "bytes": a.requested,
                    "sectors": a.sectors,
                    "per_request": a.per_request,
                    "ideal": a.ideal,
                    "times": a.times,
                }
                for a in report.traffic.accesses
            ],
        },
        "findings": [
            {
                "analysis": f.analysis,
                "severity": f.severity,
                "line": f.line,
                "message": f.message,
                "hint": f.hint,
                "origin": [asdict(o) for o in f.origin],
            }
            for f in report.findings
        ],
    }
