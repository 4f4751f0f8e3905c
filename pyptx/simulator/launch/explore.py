"""A launch under several schedules: which ones, on which part of the grid, with memory as it was before each, and what they
found (`schedule` says what a schedule is).

The first run is the launch; its results stay. Later ones are for what depends on the order in which threads run, so there are
none where nothing does: where threads meet at barriers of the whole CTA only, the sanitizer sees from one order what holds in
all. They take a few clusters where no other can be waited for, and end when they have done about as much work as the first
run and its set-up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...diagnostics import Diagnostic, SimulationError
from ...dialects.ptx.cluster import ClusterTryCancel
from ..engine.engine import Engine
from ..machine.global_memory import GlobalMemory
from ..machine.program import Imm, Inst, Program
from ..machine.registry import MEANINGS, Barrier
from ..machine.schedule import Schedule, Scheduler
from ..machine.texture import Surface
from ..machine.threads import Launch
from ..sanitizer import Finding, Sanitizer
from ..sanitizer.rules.schedules import FAULT, SCHEDULE_DEPENDENT

Array = Any
DEFAULT = 6
"""Schedules of a checked launch, at most."""
COST = 1.1
"""What the later schedules of a default launch may cost together, in the work of the launch itself."""
SETUP = 250
"""Work of setting up a launch, in steps."""
EVENT = 12
"""What the sanitizer's look at an event costs, in steps. Both as measured over the kernels of `benchmarks.schedules`."""
WORTH = 0.35
"""The share of what the schedule before it cost that has to be left for another one."""
LANES = 1024
"""Threads of the part of a grid that later schedules run."""
TIME = ("%clock", "%globaltimer", "%smid")
"""Special registers that differ from run to run."""


@dataclass(frozen=True, slots=True)
class Communication:
    """How threads of a program learn of each other, other than by weak accesses and barriers of whole CTAs and clusters."""

    levels: frozenset[str]
    """What learns of its like: CTAs ("cta"), warps of a CTA, lanes of a warp; see `schedule.PLANS`."""
    grid: bool
    """Whether CTAs of different clusters do."""
    exact: bool
    """The results should be the same in any order: nothing of what a thread does depends on when the others run, but for
    barriers that wait.
    """
    steady: bool
    """They would be but for strong loads and polls, which see what others did so far."""


def communication(program: Program) -> Communication:
    """How the threads of a program communicate."""
    found = [inst for inst in program.instructions if _communicates(inst)]
    found += [s.last for s in program.segments if s.ends == "sync" and s.last is not None and _meets_some(s.last)]
    wide = any(
        inst.family is ClusterTryCancel
        or (inst.family.access in ("load", "store", "atomic") and not any("shared" in m for m in inst.modifiers))
        for inst in found
    )
    varies = any(_varies(inst) for inst in program.instructions)
    looks = any(inst.polls and inst.written for inst in program.instructions)
    near = [inst for inst in found if _strong(inst) and any("shared" in m for m in inst.modifiers)]
    far = wide or any("shared::cluster" in inst.modifiers for inst in found)
    levels = {"warp": bool(found), "lane": bool(near), "cta": far}
    found_levels = frozenset(level for level, there in levels.items() if there)
    return Communication(found_levels, wide, exact=not (varies or looks), steady=not varies)


def _communicates(inst: Inst) -> bool:
    family = inst.family
    if inst.copies:
        return False
    if family.access == "atomic":
        return bool(inst.written) or inst.strong
    return inst.polls or _strong(inst) or family.access == "object"


def _strong(inst: Inst) -> bool:
    return inst.family.access in ("load", "store") and inst.strong


def _meets_some(inst: Inst) -> bool:
    """Whether a waiting instruction is a barrier that may be for a part of the threads of a CTA."""
    what = MEANINGS[inst.opcode](inst)
    if not isinstance(what, Barrier):
        return False
    zero = isinstance(what.number, Imm) and what.number.value == 0
    return what.arrive_only or what.count is not None or not zero


def _varies(inst: Inst) -> bool:
    """Whether what an instruction gives depends on the order of threads in right programs, too."""
    if any(word in inst.text for word in TIME) or inst.family.looks_at_schedule:
        return True
    return inst.family.access == "atomic" and (bool(inst.written) or any("f" in t for t in inst.types))


class Snapshot:
    """The contents of memory at one time."""

    def __init__(self, memory: GlobalMemory):
        self.memory = memory
        self.contents = [(a, a.data.copy()) for a in memory.allocations if not a.read_only]
        found = (o for o in memory.handles.objects.values() if isinstance(o, Surface))
        self.surfaces = [(s.levels[0], s.levels[0].copy()) for s in found]

    def restore(self) -> None:
        """Memory is as it was; what the kernel allocated since is gone."""
        kept = {id(a) for a, _ in self.contents}
        for allocation in [a for a in self.memory.allocations if not a.read_only and id(a) not in kept]:
            self.memory.remove(allocation)
        for allocation, data in self.contents:
            allocation.data[...] = data
        for array, data in self.surfaces:
            array[...] = data


@dataclass(slots=True)
class Explorer:
    """The later schedules of a launch, on a machine of their own; one engine runs them all."""

    engine: Engine
    sanitizer: Sanitizer | None
    results: Snapshot
    """What the first run left."""
    start: Snapshot
    """What it found."""
    part: int
    """CTAs of the grid that are run."""
    levels: Collection[str]
    communicates: Communication
    broken: bool
    """Whether an error is known."""
    differs: bool = False
    """Whether results that differ are told."""

    def run(self, schedules: list[Schedule], budget: float | None) -> list[Finding]:
        """Run schedules and return what they found that is not known yet, each finding with its schedule. With a budget of
        work, what has an error is not run again: the rest would be its symptoms.
        """
        found: list[Finding] = []
        end = None if budget is None else self._work() + budget
        before = 0
        for schedule in schedules:
            now = self._work()
            if end is not None and (end - now <= WORTH * before or self.broken):
                break
            self.start.restore()
            found += self._run(schedule, end)
            before = self._work() - now
        self.results.restore()
        return found

    def _work(self) -> int:
        """The work of all schedules so far."""
        return work(self.engine.machine.clock, self.sanitizer)

    def _run(self, schedule: Schedule, end: float | None) -> list[Finding]:
        engine, sanitizer = self.engine, self.sanitizer
        machine = engine.machine
        before = 0
        if sanitizer is not None:
            sanitizer.restart()
            before = len(sanitizer.findings)
        engine.scheduler = Scheduler(machine, schedule, self.levels)
        engine.spent = None if end is None else lambda: self._work() > end
        machine.grid_end = machine.launch.grid_size
        machine.next_cta = 0
        fault: SimulationError | None = None
        complete = True
        try:
            while complete and machine.next_cta < min(self.part, machine.grid_end):
                first = machine.next_cta
                complete = engine.run(first, min(machine.ctas, self.part - first))
        except SimulationError as error:
            fault = error
        found = [] if sanitizer is None else [replace(f, schedule=schedule.token) for f in sanitizer.findings[before:]]
        # what is broken may well fault or give other results
        if self.broken or found:
            self.broken |= any(f.severity == "error" for f in found)
        elif fault is not None:
            if engine.scheduler.level == "lane":
                return found  # lanes that fell after their warp by a phase of an mbarrier: code relies on it
            self.broken = True
            found = [_as_finding(fault, schedule)]
        elif complete and not self.differs and (different := self._different(schedule)) is not None:
            self.differs = True
            self.broken = different.severity == "error"
            found = [different]
        return found

    def _different(self, schedule: Schedule) -> Finding | None:
        """A finding where the results are not those of the first run, and the kernel does not ask for that: strong loads, polls
        and atomics that return something see what others did so far, which may be more or less.
        """
        scheduler = self.engine.scheduler
        assert scheduler is not None
        lanes = scheduler.level == "lane" and self.communicates.steady
        pair = self._in_step() if lanes else None
        if not self.communicates.exact and pair is None and (self.sanitizer is not None or not lanes):
            return None
        what = self._what_differs()
        if what is None:
            return None
        differ, inst = what
        if pair is not None:
            return _in_step(schedule, differ, *pair, self.engine.machine.program)
        return _difference(schedule, differ, inst, self.engine.machine.program, certain=self.communicates.exact)

    def _in_step(self) -> tuple[Inst, Inst] | None:
        """Accesses that are as they were in the first run while the lanes of a warp run in step: the later and the earlier
        one. Loads of what another lane stored come first, and volatile ones, which know no memory model.
        """
        pairs = [] if self.sanitizer is None else self.sanitizer.in_step.values()
        return min(pairs, key=lambda p: (not _volatile(*p), p[0].family.access != "load"), default=None)

    def _what_differs(self) -> tuple[str, Inst | None] | None:
        """The bytes that are not those of the first run, in words, and the instruction that wrote the first."""
        machine, sanitizer = self.engine.machine, self.sanitizer
        for allocation, data in self.results.contents:
            differ = np.flatnonzero(allocation.data != data)
            if sanitizer is not None:
                differ = sanitizer.written(allocation, differ)
            elif self.part < machine.launch.grid_size:
                return None
            if not differ.size:
                continue
            inst = None if sanitizer is None else sanitizer.writer(allocation, int(differ[0]))
            if inst is None or not _strong(inst):  # of strong stores to one place, any may win
                words = f"{differ.size} bytes of {allocation.name} from byte {int(differ[0])} on"
                return f"{words} are not as in the first run", inst
        return None


def _volatile(*pair: Inst) -> bool:
    return any(inst.has("volatile") for inst in pair)


def _difference(schedule: Schedule, differ: str, inst: Inst | None, program: Program, *, certain: bool) -> Finding:
    message = f"the results depend on the order in which threads run: {differ}"
    hint = "order the accesses of different threads by barriers, or by a release and an acquire"
    severity = "error" if certain else "warning"
    rule = SCHEDULE_DEPENDENT
    found = Finding(severity, message, hint=hint, rule=rule.name, section=rule.section, schedule=schedule.token)
    return found if inst is None else _at(found, inst, program)


def _in_step(schedule: Schedule, differ: str, later: Inst, earlier: Inst, program: Program) -> Finding:
    """The lanes of a warp are taken to run in step. A warning where the accesses name a scope: their author may know."""
    message = (
        f"the results depend on the order in which lanes of a warp run: {differ}; nothing orders this access after that of "
        f"another lane by `{earlier.text}`"
    )
    rule = SCHEDULE_DEPENDENT
    severity = "error" if _volatile(later, earlier) else "warning"
    side = Diagnostic(
        "note", f"`{earlier.text}`", earlier.filename, earlier.line, earlier.column, origin=program.origin(earlier)
    )
    found = Finding(
        severity, message, hint=rule.cure, rule=rule.name, section=rule.section, schedule=schedule.token, other=side
    )
    return _at(found, later, program)


def _at(found: Finding, inst: Inst, program: Program) -> Finding:
    place = {"filename": inst.filename, "line": inst.line, "column": inst.column, "instruction": inst.text}
    return replace(found, **place, origin=program.origin(inst))


def _as_finding(error: SimulationError, schedule: Schedule) -> Finding:
    """What stopped a later schedule."""
    first, *others = error.diagnostics
    more = "".join(f"; {d.message}" + (f" at {d.location}" if d.location else "") for d in others[:3])
    return Finding(
        "error",
        first.message + more,
        first.filename,
        first.line,
        first.column,
        first.hint or FAULT.cure,
        rule=FAULT.name,
        schedule=schedule.token,
        origin=first.origin,
    )


def work(steps: int, sanitizer: Sanitizer | None) -> int:
    """What a run costs, in steps: a measure that is the same on each machine."""
    return steps + (0 if sanitizer is None else EVENT * sanitizer.events)


def part_of_grid(launch: Launch, communicates: Communication) -> int:
    """How many CTAs of a launch later schedules run."""
    if communicates.grid or launch.cooperative:
        return launch.grid_size
    padded = (launch.threads + 31) // 32 * 32
    clusters = max(1, LANES // (launch.cluster_size * padded))
    return min(launch.grid_size, clusters * launch.cluster_size)
