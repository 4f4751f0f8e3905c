"""What the analyses find odd: one function for each kind of finding, over what is known of one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .divergence import divergent_barriers
from .finding import Finding
from .function_report import FunctionReport
from .mix import spelled
from .operands import line_of
from .uninitialised import uninitialised_reads
from .unreachable import unreachable_code


def bank_conflicts(report: FunctionReport) -> list[Finding]:
    """Accesses to shared memory that take more passes than their bytes need."""
    found: list[Finding] = []
    for use in report.banks:
        if use.ways is None or use.ways < 2 or use.wavefronts is None or use.ideal is None:
            continue
        if use.wavefronts <= use.ideal:
            continue
        text = (
            f"{use.ways}-way bank conflict: {spelled(use.op)} takes {use.wavefronts} passes"
            f" where {use.ideal} would do (address {use.address})"
        )
        found.append(Finding("banks", "warning", text, use.line, "pad the rows, or swizzle the column with the row"))
    return found


def scattered_accesses(report: FunctionReport) -> list[Finding]:
    """Accesses to global memory that touch more sectors than their bytes need."""
    found: list[Finding] = []
    for access in report.traffic.accesses:
        if access.per_request is None or not access.ideal or access.per_request < 2 * access.ideal + 1:
            continue
        text = (
            f"scattered access: {access.per_request:.0f} sectors of 32 bytes per warp"
            f" where {access.ideal:.0f} would do (address {access.address})"
        )
        near = access.per_request <= 16  # threads at most 16 bytes apart, so other instructions use these sectors too
        severity = "note" if near else "warning"
        hint = (
            "access what lies side by side together, as a vector"
            if near
            else "let neighbouring threads access neighbouring addresses"
        )
        found.append(Finding("traffic", severity, text, access.line, hint))
    return found


def irreducible_loops(report: FunctionReport) -> list[Finding]:
    """Branches into the middle of a loop."""
    text = "this branch enters a loop past its head (irreducible), which compilers optimise poorly"
    lasts = [report.cfg.blocks[source].last_op for source, _ in report.loops.irreducible]
    return [Finding("loops", "note", text, line_of(last) if last is not None else None) for last in lasts]


def too_many_registers(report: FunctionReport) -> list[Finding]:
    """More live values than a thread has registers."""
    pressure = report.pressure
    if pressure.relaxed <= 255:
        return []
    line = line_of(pressure.top) if pressure.top is not None else None
    text = f"about {pressure.estimated} registers hold live values here and a thread has 255: expect spills"
    hint = f"at least about {pressure.relaxed} stay live however the instructions are ordered"
    return [Finding("pressure", "note", text, line, hint)]


Finder = Callable[["FunctionReport"], Iterable[Finding]]

FINDERS: list[Finder] = [
    lambda report: uninitialised_reads(report.cfg, report.threads),
    lambda report: unreachable_code(report.cfg, report.dominators),
    lambda report: divergent_barriers(report.cfg, report.threads),
    bank_conflicts,
    scattered_accesses,
    irreducible_loops,
    too_many_registers,
]
"""Every kind of finding that `pyptx analyse` reports."""
