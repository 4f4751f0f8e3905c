"""All analyses of the functions of a module, together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..diagnostics import UsageError
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import FunctionOp, ModuleOp
from .active import ActiveThreads
from .banks import bank_uses
from .cfg import cfg_of
from .finders import FINDERS
from .function_report import FunctionReport
from .liveness import liveness
from .loops import find_loops
from .mix import instruction_mix
from .occupancy import Occupancy, limits_of, occupancy
from .operands import file_of
from .pressure import register_pressure
from .shared import ModuleNames, shared_use
from .source_map import map_of
from .threads import thread_values
from .traffic import memory_traffic
from .trips import trip_count

Shape = tuple[int, int, int]


def analyse(
    module: ModuleOp,
    *,
    kernel: str | None = None,
    shape: Shape | None = None,
    dynamic_shared: int = 0,
    registers: Mapping[str, int] | None = None,
    boxes: Mapping[str, int] | None = None,
) -> list[FunctionReport]:
    """Analyse the functions of a module that have a body, or only the one named `kernel`.

    `shape`: threads per CTA in x, y, z (default: what the kernel states, else a guess); `dynamic_shared`:
    bytes that the launch
    adds; `registers`: what ptxas allocates per thread, by entry; `boxes`: bytes of the box of each tensor map, by parameter. UsageError for a kernel that the text does not have.
    """
    functions = [f for f in module.functions if not f.is_declaration]
    if kernel is not None:
        chosen = [f for f in functions if f.symbol == kernel]
        if not chosen:
            names = ", ".join(f.symbol for f in functions) or "none"
            raise UsageError(f"this module does not define a function {kernel}; it defines: {names}")
        functions = chosen
    names = ModuleNames(module)
    reports = [analyse_function(f, module, names, shape, dynamic_shared, registers or {}, boxes) for f in functions]
    sources = map_of(module)
    if sources:
        for report in reports:
            filename = file_of(report.function)
            report.findings = [replace(f, origin=sources.of(f.line, filename)) for f in report.findings]
    return reports


def analyse_function(
    function: FunctionOp,
    module: ModuleOp,
    names_of_module: ModuleNames,
    shape: Shape | None,
    dynamic_shared: int,
    registers: Mapping[str, int],
    boxes: Mapping[str, int] | None = None,
) -> FunctionReport:
    """All analyses of one function. See `analyse`."""
    cfg = cfg_of(function)
    tree = cfg.dominators()
    loops = find_loops(cfg, tree)
    pressure = register_pressure(function, liveness(cfg))
    shared = shared_use(function, names_of_module)
    names = frozenset(v.name for v in shared.variables) | frozenset(shared.dynamic)
    threads = thread_values(function, cfg, shape)
    active = ActiveThreads(cfg, threads)
    trips = [trip_count(cfg, loop, threads) for loop in loops.loops]
    banks = bank_uses(cfg, threads, active, names)
    traffic = memory_traffic(cfg, loops, threads, active, trips, names, boxes)
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
    report = FunctionReport(
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
        [],
        dynamic_shared,
    )
    report.findings += sorted(
        (finding for find in FINDERS for finding in find(report)), key=lambda f: (f.line or 0, f.severity != "warning")
    )
    return report


def instructions(report: FunctionReport) -> list[Instruction]:
    """All instructions of a report's function, in layout order."""
    return [op for block in report.cfg.blocks for op in block.ops if isinstance(op, Instruction)]
