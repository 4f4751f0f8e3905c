"""All analyses of the functions of a module, together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..diagnostics import PTXError
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import FunctionOp, ModuleOp, head_labels
from ..ssa.graph import Dominators
from .active import ActiveThreads
from .banks import BankUse, bank_uses
from .cfg import CFG, cfg_of
from .divergence import divergent_barriers
from .finding import Finding
from .liveness import liveness
from .loops import LoopForest, find_loops
from .mix import Mix, instruction_mix, spelled
from .occupancy import Occupancy, limits_of, occupancy
from .operands import line_of
from .pressure import Pressure, register_pressure
from .shared import SharedUse, shared_use
from .threads import Threads, thread_values
from .traffic import Traffic, memory_traffic
from .trips import trip_count
from .uninitialised import uninitialised_reads
from .unreachable import unreachable_code

Shape = tuple[int, int, int]


@dataclass(slots=True)
class FunctionReport:
    """Everything the analyses say about one entry or function."""

    function: FunctionOp
    cfg: CFG
    dominators: Dominators
    loops: LoopForest
    trips: list[int | None]
    """How often each loop runs, where that is a constant."""
    pressure: Pressure
    mix: Mix
    shared: SharedUse
    threads: Threads
    banks: list[BankUse]
    traffic: Traffic
    registers: int
    """Registers per thread for the occupancy: those of ptxas if given, else the relaxed estimate, at most 255."""
    registers_measured: bool
    occupancy: Occupancy | None
    """None for a device function, and before sm_50."""
    findings: list[Finding]

    @property
    def name(self) -> str:
        return self.function.symbol

    def block_name(self, block: int) -> str:
        """The label of a block, or `entry` or `block 3`."""
        labels = head_labels(self.cfg.blocks[block])
        return labels[0].label if labels else "entry" if block == 0 else f"block {block}"


def analyse(
    module: ModuleOp,
    *,
    kernel: str | None = None,
    shape: Shape | None = None,
    dynamic_shared: int = 0,
    registers: Mapping[str, int] | None = None,
) -> list[FunctionReport]:
    """Analyse the functions of a module that have a body, or only the one named `kernel`.

    `shape`: threads per CTA in x, y, z (default: what the kernel states, else a guess); `dynamic_shared`:
    bytes that the launch
    adds; `registers`: what ptxas allocates per thread, by entry. PTXError if there is no such kernel.
    """
    functions = [f for f in module.functions if not f.is_declaration]
    if kernel is not None:
        chosen = [f for f in functions if f.symbol == kernel]
        if not chosen:
            names = ", ".join(f.symbol for f in functions) or "none"
            raise PTXError(f"there is no function {kernel} with a body in this module; it has: {names}")
        functions = chosen
    return [analyse_function(f, module, shape, dynamic_shared, registers or {}) for f in functions]


def analyse_function(
    function: FunctionOp,
    module: ModuleOp,
    shape: Shape | None,
    dynamic_shared: int,
    registers: Mapping[str, int],
) -> FunctionReport:
    """All analyses of one function. See `analyse`."""
    cfg = cfg_of(function)
    tree = cfg.dominators()
    loops = find_loops(cfg, tree)
    pressure = register_pressure(function, liveness(cfg))
    shared = shared_use(function, module)
    names = frozenset(v.name for v in shared.variables) | frozenset(shared.dynamic)
    threads = thread_values(function, cfg, shape)
    active = ActiveThreads(cfg, threads)
    trips = [trip_count(cfg, loop, threads) for loop in loops.loops]
    banks = bank_uses(cfg, threads, active, names)
    traffic = memory_traffic(cfg, loops, threads, active, trips, names)
    measured = registers.get(function.symbol)
    count = measured if measured is not None else min(max(pressure.relaxed, 1), 255)
    target = module.target.target
    fits: Occupancy | None = None
    if function.is_entry:
        try:
            limits_of(target)
        except ValueError:
            pass
        else:
            fits = occupancy(target, threads=threads.count, registers=count, shared=shared.size + dynamic_shared)
    findings = [
        *uninitialised_reads(cfg, threads),
        *unreachable_code(cfg, tree),
        *divergent_barriers(cfg, threads),
        *_conflicts(banks),
        *_strided(traffic),
    ]
    for source, _ in loops.irreducible:
        last = cfg.blocks[source].last_op
        text = "this branch enters a loop past its head (irreducible), which compilers optimise poorly"
        findings.append(Finding("loops", "note", text, line_of(last) if last is not None else None))
    if pressure.relaxed > 255:
        line = line_of(pressure.top) if pressure.top is not None else None
        text = f"about {pressure.estimated} registers hold live values here and a thread has 255: expect spills"
        hint = f"at least about {pressure.relaxed} stay live however the instructions are ordered"
        findings.append(Finding("pressure", "note", text, line, hint))
    findings.sort(key=lambda f: (f.line or 0, f.severity != "warning"))
    return FunctionReport(
        function,
        cfg,
        tree,
        loops,
        trips,
        pressure,
        instruction_mix(cfg, loops),
        shared,
        threads,
        banks,
        traffic,
        count,
        measured is not None,
        fits,
        findings,
    )


def _conflicts(banks: list[BankUse]) -> list[Finding]:
    found: list[Finding] = []
    for use in banks:
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


def _strided(traffic: Traffic) -> list[Finding]:
    found: list[Finding] = []
    for access in traffic.accesses:
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


def instructions(report: FunctionReport) -> list[Instruction]:
    """All instructions of a report's function, in layout order."""
    return [op for block in report.cfg.blocks for op in block.ops if isinstance(op, Instruction)]
