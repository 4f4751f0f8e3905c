"""Simulated launches: check the arguments and the launch, lay out memory, run the grid batch by batch."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Operation

from ...analysis.occupancy import most_shared, occupancy
from ...diagnostics import SimulationError, did_you_mean
from ...dialects.ptx.cluster import ClusterTryCancel
from ...dialects.ptx.structure import EntryOp, ModuleOp
from ...numerics import quiet
from ...progress import progress
from ..engine import decode as decoding
from ..engine.engine import Engine
from ..engine.engines import chosen_engine
from ..engine.image import Image, align, build_image
from ..machine.global_memory import Allocation, GlobalMemory
from ..machine.program import GRID_BASE, PARAMETER_BASE, PER_CTA_BASE, Program
from ..machine.schedule import Schedule, Scheduler, read_schedule
from ..machine.texture import OPAQUE, Sampler, Surface, Texture, sampler_of_words
from ..machine.threads import Launch
from ..observers.numerics import Numerics
from ..observers.profile import Profile
from ..observers.trace import watchers
from ..sanitizer import Sanitizer
from .arguments import place_arguments
from .explore import COST, DEFAULT, SETUP, Communication, Explorer, Snapshot, communication, part_of_grid, work
from .options import Options, Size
from .report import Line, Report
from .setup import Setup, run_range, sampled
from .workers import Piece, Watch, run_pieces, why_together

MAX_THREADS = 1024
MOST_SMS = 192
"""SMs of the largest GPU (GB202); no product has more."""
MAX_CLUSTER = 16
TARGET_LANES = 8192
"""Threads that run together: enough to amortise NumPy's overhead, few enough for the caches."""
MOST_LOCAL = 512 << 10
"""Bytes of local memory a thread may have on a GPU."""
MOST_THREADS = 1 << 32
"""Threads of a grid; batches of 8192 threads would take hours for more, whatever they do."""
MOST_SETUP = 64 << 30
"""Bytes of local and shared memory that a launch may set up for all its CTAs, one batch after the other."""
MOST_BYTES = 4 << 30
"""What the CTAs that are live at once may need at most."""
BATCH_BYTES = 256 << 20
"""Registers, shared and local memory of the CTAs that are live at once."""


def find_ptx_module(module: Operation) -> ModuleOp:
    """The one `ptx.module` in or at an operation."""
    if isinstance(module, ModuleOp):
        return module
    if isinstance(module, BuiltinModule):
        for op in module.body.block.ops:
            if isinstance(op, ModuleOp):
                return op
    raise SimulationError(f"this {module.name} does not contain a ptx.module")


class LoadedModule:
    """A module ready to run: its entries decoded on demand, its variables with what earlier launches left in
    them.
    """

    def __init__(self, module: Operation):
        self.module = find_ptx_module(module)
        self.image: Image = build_image(self.module)
        self.contents = self.image.contents()
        self.bound: dict[str, Texture | Surface | Sampler] = {}
        """What `.texref`, `.samplerref` and `.surfref` variables stand for, by name."""
        self._programs: dict[str, Program] = {}
        for v in self.image.variables.values():
            if v.declaration.type == "samplerref":
                self.bound[v.name] = sampler_of_words(v.declaration.items[v.index][1])

    @property
    def entries(self) -> dict[str, EntryOp]:
        return {op.symbol: op for op in self.module.functions if isinstance(op, EntryOp) and not op.is_declaration}

    def bind(self, name: str, item: Texture | Surface | Sampler) -> None:
        """Say what an opaque module variable stands for. SimulationError if there is none that it can be."""
        variable = self.image.variables.get(name)
        opaque = [v.name for v in self.image.variables.values() if v.declaration.type in OPAQUE]
        if variable is None or variable.declaration.type not in OPAQUE:
            known = did_you_mean(name, opaque) or f"it has {', '.join(opaque) or 'none'}"
            raise SimulationError(f"the module has no texture, sampler or surface {name}: {known}")
        wanted = OPAQUE[variable.declaration.type]
        if not isinstance(item, wanted):
            raise SimulationError(f"{name} is a .{variable.declaration.type}: bind a {wanted.__name__} to it")
        self.bound[name] = item

    def program(self, name: str) -> Program:
        """The decoded entry. SimulationError if there is none of that name."""
        found = self._programs.get(name)
        if found is None:
            entries = self.entries
            if name not in entries:
                raise SimulationError(
                    f"the module has no entry {name}: "
                    f"{did_you_mean(name, entries) or 'it has ' + (', '.join(entries) or 'none')}"
                )
            found = self._programs[name] = decoding.decode(self.image, entries[name], self.module.target.target)
        return found


def simulate_entry(
    loaded: LoadedModule,
    name: str,
    args: Sequence[object],
    options: Options,
    *,
    uninitialised: Collection[int] = (),
    named: Sequence[tuple[str, str, int, int, int]] = (),
) -> Report:
    """Run one entry of a loaded module. See `pyptx.simulator.simulate`. `uninitialised` are the numbers of arguments whose
    contents mean nothing: with `check`, reading them before they are written is a finding. `named`: pieces of shared memory by
    the author's names (`Traced.shared`).
    """
    try:
        return _simulated(loaded, name, args, options, uninitialised, named)
    except SimulationError as error:
        raise error.with_traceback(None)  # the frames inside say nothing of the kernel  # noqa: B904


def _simulated(
    loaded: LoadedModule,
    name: str,
    args: Sequence[object],
    options: Options,
    uninitialised: Collection[int],
    named: Sequence[tuple[str, str, int, int, int]],
) -> Report:
    program = loaded.program(name)
    check, device, seed = options.check, options.memory, options.seed
    first = Schedule(seed, 0) if options.schedule is None else read_schedule(options.schedule, seed)
    count = _schedule_count(options)
    launch = checked_launch(program, options)
    memory = GlobalMemory()
    if device is not None:
        memory.freed = device.freed
        for buffer in device:
            memory.add(buffer.allocation)
    for variable in loaded.image.variables.values():
        if variable.space in ("global", "const"):
            memory.add(
                Allocation(variable.name, variable.address, loaded.contents[variable.name], variable.space == "const")
            )
    for variable_name, item in loaded.bound.items():
        memory.handles.objects[loaded.image.variables[variable_name].address] = item
    engine = chosen_engine(options.engine)
    parameters = place_arguments(program, args, memory, uninitialised, device)
    memory.add(Allocation("the kernel parameters", PARAMETER_BASE, parameters, True))
    if launch.per_cta:
        slices = np.zeros(launch.per_cta * launch.grid_size, np.uint8)
        memory.add(Allocation("the CTAs' own memory", PER_CTA_BASE, slices, False, True))
    if launch.cooperative:
        memory.add(Allocation("the barrier of the grid", GRID_BASE, np.zeros(256, np.uint8)))
    setup = Setup(
        program, launch, memory, parameters, named, _batch_size(program, launch), first.seed,
        options.arithmetic, options.approx, options.arch, engine, options.max_steps, [(0, launch.grid_size)],
    )  # fmt: skip
    report = Report(name, launch.grid, launch.block, launch.cluster, schedule=first.token)
    sanitizer = Sanitizer() if check else None
    report.profile = Profile() if options.profile else None
    report.numerics = Numerics() if options.numerics else None
    tracing = watchers(options.trace, options.on_instruction, options.on_store, options.threads)
    others = [*options.observers, *tracing]
    watching = [o for o in (*others, report.profile, report.numerics, sanitizer) if o is not None]
    with quiet():
        communicates = communication(program)
        part = part_of_grid(launch, communicates)
        if options.sample is not None:
            setup.ranges = _sample(launch, options.sample, communicates)
            report.sampled = sum(ctas for _, ctas in setup.ranges)
        start = Snapshot(memory) if count != 1 and communicates.levels else None
        pieces = None
        if options.workers is not None:
            random = bool(first.number or first.seed) or "random" in (options.arithmetic, options.approx)
            report.together = why_together(setup, communicates, random=random, others=bool(others))
            watch = Watch(check, options.profile, options.numerics)
            try:
                pieces = None if report.together else run_pieces(setup, watch, options.workers)
            except KeyboardInterrupt as error:
                raise _interrupted(error, report)  # noqa: B904
        runner: Engine | None = None
        try:
            if pieces is None:
                runner = setup.make_engine(part if first.number else launch.grid_size, watching)
                runner.scheduler = Scheduler(runner.machine, first, communicates.levels) if first.number else None
                done = _run_all(runner, setup.ranges, report, sanitizer)
            else:
                done = _gather(pieces, program, report, sanitizer)
        finally:
            if device is not None:
                device.launched()
        broken = bool(report.errors)
        if start is not None and not (broken and not count):
            alone = runner is not None and watching == [sanitizer] and runner.machine.ctas <= part
            again = None if sanitizer is None or alone else Sanitizer(sanitizer)
            other = runner if alone and runner else setup.make_engine(part, [] if again is None else [again])
            results = Snapshot(memory)
            levels = communicates.levels | ({"lane"} if sanitizer is not None and sanitizer.in_step else set())
            explorer = Explorer(other, again or sanitizer, results, start, part, levels, communicates, broken)
            later = [Schedule(first.seed, number) for number in range(1, count or DEFAULT)]
            budget = None if count else COST * (SETUP + done)
            report.findings += explorer.run(later, budget)
    return report


def _sample(launch: Launch, share: float, communicates: Communication) -> list[tuple[int, int]]:
    if communicates.grid or launch.cooperative:
        raise SimulationError(
            f"sample={share:g} runs a part of the CTAs, and those of this kernel learn of each other through global memory: run all"
        )
    return sampled(launch, share)


def _run_all(runner: Engine, ranges: Sequence[tuple[int, int]], report: Report, sanitizer: Sanitizer | None) -> int:
    """Run CTAs in this process, batch by batch. The work it took."""
    total = sum(count for _, count in ranges)
    try:
        with progress(total, f"simulate {report.entry}", "CTA") as advance:
            for first, count in ranges:
                for done in run_range(runner, first, count):
                    advance(done)
    except (SimulationError, KeyboardInterrupt) as error:
        _finish(report, runner, sanitizer)
        error.report = report  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(error, KeyboardInterrupt):
            _interrupted(error, report)
        raise
    _finish(report, runner, sanitizer)
    return work(runner.machine.clock, sanitizer)


def _interrupted(error: KeyboardInterrupt, report: Report) -> KeyboardInterrupt:
    """An interrupt with the report of what was done until then: nothing, where workers run the pieces."""
    error.report = report  # pyright: ignore[reportAttributeAccessIssue]
    error.add_note(f"{report.entry} executed {report.instructions:,} thread instructions until then: see .report")
    return error


def _gather(pieces: Sequence[Piece], program: Program, report: Report, sanitizer: Sanitizer | None) -> int:
    """Put what workers did into the report of a launch. The work it took."""
    for piece in pieces:
        if report.profile is not None and piece.profile is not None:
            report.profile.merge(piece.profile)
        if report.numerics is not None and piece.numerics is not None:
            report.numerics.merge(piece.numerics)
        if sanitizer is not None:
            found = piece.findings
            known = program.instructions
            found.in_step = {k: (known[a], known[b]) for k, (a, b) in piece.in_step.items()}
            sanitizer.found.merge(found)
    _count(report, program, [sum(counts) for counts in zip(*(p.counts for p in pieces), strict=True)])
    if sanitizer is not None:
        report.findings += sanitizer.said
    report.prints = [printed for piece in pieces for printed in piece.prints]
    report.pieces = len(pieces)
    return sum(piece.work for piece in pieces)


def _schedule_count(options: Options) -> int:
    """How many schedules a launch runs; 0 for as many as the default allows."""
    if options.schedules is not None:
        return options.schedules
    return 0 if options.check and options.schedule is None else 1


def _finish(report: Report, engine: Engine, sanitizer: Sanitizer | None) -> None:
    """Put what a run did into its report."""
    _count(report, engine.program, engine.counts())
    if sanitizer is not None:
        report.findings += sanitizer.said
    report.prints = engine.machine.prints


def _count(report: Report, program: Program, counts: Sequence[int]) -> None:
    for segment, count in zip(program.segments, counts, strict=True):
        if not count:
            continue
        for inst in segment.instructions:
            if inst.copies:
                continue
            report.instructions += count
            report.opcodes[inst.opcode] += count
            report.lines.append(Line(inst.filename, inst.line, inst.text, count))


#
#
#
#
# ------------------------------------------------------------------------------------------------------------- launch


def checked_launch(program: Program, options: Options) -> Launch:
    """The launch, or SimulationError for what a driver would refuse. PTX ISA 11.4 (.maxntid, .reqntid,
    .reqnctapercluster).
    """
    directives = program.directives
    required = _directive(program, ".reqntid")
    g, b = options.grid, options.block or required
    if g is None or b is None:
        raise SimulationError(f"{program.entry}: a launch needs grid= and block=")
    threads = b[0] * b[1] * b[2]
    if threads > MAX_THREADS or b[0] > 1024 or b[1] > 1024 or b[2] > 64:
        raise SimulationError(
            f"block {b} has {threads} threads; a CTA has at most {MAX_THREADS} (x and y to 1024, z to 64)"
        )
    if g[0] >= 1 << 31 or g[1] > 65535 or g[2] > 65535:
        raise SimulationError(f"grid {g} is too large: x to 2**31 - 1, y and z to 65535")
    if required and required != b:
        raise SimulationError(
            f"{program.entry} has .reqntid {_listed(program, '.reqntid')}; block must be that, not {b}"
        )
    most = directives.get(".maxntid")
    if most and threads > math.prod(most):
        raise SimulationError(
            f"{program.entry} has .maxntid {_listed(program, '.maxntid')}; a block of {threads} threads is larger"
        )
    wanted = _directive(program, ".reqnctapercluster")
    c = options.cluster or wanted or (1, 1, 1)
    if wanted and wanted != c:
        raise SimulationError(
            f"{program.entry} has .reqnctapercluster {_listed(program, '.reqnctapercluster')}; cluster must be that, not {c}"
        )
    size = c[0] * c[1] * c[2]
    if size > MAX_CLUSTER:
        raise SimulationError(f"cluster {c} has {size} CTAs; at most {MAX_CLUSTER} are possible (8 portably)")
    if any(n % m for n, m in zip(g, c, strict=True)):
        raise SimulationError(f"cluster {c} does not divide grid {g}")
    most = most_shared(program.target)
    smem = options.smem
    if program.dynamic_offset - 0x400 + smem > most:
        raise SimulationError(
            f"{program.shared_size} bytes of static and {smem} of dynamic shared "
            f"memory exceed the {most} bytes that a CTA may have on {program.target}"
        )
    cooperative = bool(options.cooperative)
    if cooperative:
        _check_cooperative(program, g, threads, program.dynamic_offset - 0x400 + smem)
    _check_threads(options, g, threads)
    explicit = options.cluster is not None or wanted is not None
    per_cta = _per_cta_bytes(program, g[0] * g[1] * g[2])
    return Launch(g, b, c, smem, explicit, per_cta, cooperative, options.programmatic)


def _directive(program: Program, name: str) -> Size | None:
    """The sizes that a directive of the entry gives."""
    numbers = program.directives.get(name)
    return (*numbers, 1, 1)[:3] if numbers else None  # pyright: ignore[reportReturnType]


def _listed(program: Program, name: str) -> str:
    return ", ".join(map(str, program.directives[name]))


def _check_threads(options: Options, grid: Size, threads: int) -> None:
    """SimulationError for a thread of `threads=` that the launch does not have."""
    for cta, thread in options.threads or ():
        place = cta if isinstance(cta, tuple) else (cta,)
        sizes = grid if isinstance(cta, tuple) else (math.prod(grid),)
        if not all(0 <= p < n for p, n in zip(place, sizes, strict=True)) or not 0 <= thread < threads:
            raise SimulationError(
                f"threads: thread {thread} of CTA {cta} is outside of the launch; the grid is {grid}, and the threads of a CTA are 0 to {threads - 1}"
            )


def _check_cooperative(program: Program, grid: tuple[int, int, int], threads: int, shared: int) -> None:
    """All CTAs of a cooperative launch are on the GPU at once; SimulationError where no GPU has room for them."""
    each = occupancy(program.target, threads=threads, registers=0, shared=shared).ctas
    ctas = math.prod(grid)
    if ctas > each * MOST_SMS:
        raise SimulationError(
            f"a cooperative launch has all its CTAs on the GPU at once: an SM of {program.target} has room for {each} CTAs of "
            f"{threads} threads and {shared} bytes of shared memory, and no GPU has more than {MOST_SMS} SMs, so "
            f"{ctas:,} CTAs are too many; use a smaller grid (at most {each * MOST_SMS:,} CTAs)"
        )


def _per_cta_bytes(program: Program, ctas: int) -> int:
    """The bytes of each CTA's own slice of global memory: what `.minperctamemory` asks for, rounded up to the 1024 that
    the size is a multiple of (PTX ISA 10.35); a driver may give more. Slices follow each other in the order of CTAs.
    """
    wanted = program.directives.get(".minperctamemory")
    size = max((align(n, 1024) for n in wanted or ()), default=0)
    if size * ctas > MOST_BYTES:
        raise SimulationError(
            f"{program.entry} has .minperctamemory {', '.join(map(str, wanted or ()))}, for {ctas} CTAs: "
            f"at most {MOST_BYTES >> 30} GiB are allowed"
        )
    return size


def _batch_size(program: Program, launch: Launch) -> int:
    """How many CTAs run together: whole clusters, few enough for memory."""
    padded = (launch.threads + 31) // 32 * 32
    if program.local_size > MOST_LOCAL:
        raise SimulationError(
            f"a thread of {program.entry} needs {program.local_size:,} bytes of local memory; it may have {MOST_LOCAL:,}"
        )
    if padded * launch.grid_size > MOST_THREADS:
        raise SimulationError(
            f"grid {launch.grid} of blocks of {launch.threads} threads has {padded * launch.grid_size:,} threads; at most "
            f"{MOST_THREADS:,} can be simulated: use a smaller grid"
        )
    setup = (padded * program.local_size + program.dynamic_offset + launch.dynamic_shared) * launch.grid_size
    if setup > MOST_SETUP:
        raise SimulationError(
            f"{program.entry} needs {setup / 2**30:,.0f} GiB of local and shared memory for the {launch.grid_size:,} CTAs of the "
            f"grid, one after the other; at most {MOST_SETUP >> 30} GiB are allowed: use a smaller grid, or less local memory"
        )
    widths = {"p": 1, "8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
    per_thread = sum(widths[p] * n for p, n in program.pools.items()) + max(32, program.local_size)
    per_cta = padded * per_thread + program.dynamic_offset + launch.dynamic_shared
    waits_for_grid = any(
        i.polls and i.family.access in ("load", "atomic") for s in program.segments for i in s.body
    ) and any(t <= n for n, s in enumerate(program.segments) for t in s.targets)
    lanes = TARGET_LANES * (16 if waits_for_grid else 1)  # CTAs that may wait for each other must be live together
    count = max(1, min(lanes // padded, BATCH_BYTES // max(per_cta, 1)))
    if any(i.family is ClusterTryCancel for i in program.instructions):
        count = min(count, launch.grid_size // 3)  # so that there is something left to cancel
    count = max(launch.cluster_size, count // launch.cluster_size * launch.cluster_size)
    count = launch.grid_size if launch.cooperative else min(count, launch.grid_size)
    if count * per_cta > MOST_BYTES:
        raise SimulationError(
            f"{program.entry} needs {count * per_cta / 2**30:.1f} GiB of host memory for registers, shared and local memory "
            f"of {count} CTAs of {launch.threads} threads that run together; at most {MOST_BYTES >> 30} GiB are allowed: "
            f"use smaller blocks or clusters, or less local memory{', or a smaller grid' if launch.cooperative else ''}"
        )
    return count


@lru_cache(maxsize=64)
def load_module(module: Operation) -> LoadedModule:
    """The loaded form of a module object, made once."""
    return LoadedModule(module)
