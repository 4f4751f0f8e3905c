"""The NumPy engine: runs one batch of CTAs to its end.

Threads that are at the same segment form a group, a mask over lanes. While all living threads are in one group, whole chains
of segments run without masks (`chains`). Otherwise the group at the lowest segment runs first, which brings threads together
again where their paths meet. A group that polls memory (a loop around an atomic, volatile or acquiring access, or a try_wait)
gives way to the others after each round, and no group waits forever (`turns`), so threads make progress independently of each
other (PTX ISA 3.1). `ends` sends threads on from the end of a segment, `waiting` holds them back, `calls` has functions.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import numpy as np

from ...diagnostics import SimulationError, counted
from ..machine.binding import Full, Masked, bind
from ..machine.machine import Machine
from ..machine.program import Inst, Reg, Segment
from ..machine.schedule import Paused, Scheduler
from ..semantics import load_all
from .batch import Batch
from .chains import Chains, Fallback
from .deadlock import deadlock
from .endless import Endless
from .ends import Ends

load_all()

NOT_SUBMITTED = "this fabric operation was not submitted, so that it never begins"
SUBMIT = "the thread that issues it executes fabric.submit"

BindBody: TypeAlias = Callable[[Machine, Segment], "list[tuple[Full, Masked]]"]
"""How the body of a segment becomes steps: instruction by instruction, or by runs of them (`jit`)."""


def _one_by_one(machine: Machine, segment: Segment) -> list[tuple[Full, Masked]]:
    return [bind(machine, inst) for inst in segment.body]


class Engine(Batch):
    """Runs batches on a machine. Counts, per segment, how many threads executed it."""

    def __init__(self, machine: Machine, max_steps: int | None, bind_body: BindBody | None = None):
        super().__init__(machine)
        self._bind_body = bind_body or _one_by_one
        self._bodies: dict[int, list[tuple[Full, Masked]]] = {}
        self._executed = [0] * len(self.segments)
        """Thread executions of each segment, those in chains apart."""
        self._masked: list[list[Masked] | None] = [None] * len(self.segments)
        self._ends = Ends(self)
        self._chains = Chains(self, self._ends, self._bind)
        self.endless = Endless(self, max_steps)
        self.steps = 0
        self.changed_at = 0
        """The step at which something other than registers was last changed."""
        self.spent: Callable[[], bool] | None = None
        """Whether a scheduled batch has cost what it may and is given up."""

    def run(self, first_cta: int, count: int) -> bool:
        """Run a batch of CTAs to the end. SimulationError on a fault, a deadlock or too many steps; False if the budget of a
        schedule was not enough.
        """
        machine = self.machine
        self.begin(first_cta, count)
        self.steps = self.changed_at = 0
        self.endless.start()
        groups = self.groups
        for observer in machine.observers:
            observer.started(self)
        pending = machine.pending
        scheduler, paused = self.scheduler, self.paused
        if scheduler is not None:
            scheduler.start()
        while groups or paused:
            if scheduler is not None:
                if self.spent is not None and self.spent():
                    return False
                self._run_scheduled(scheduler)
            elif pending.random is not None:
                self._run_some(pending.random)
            elif self.together():
                self._run_all(groups.popitem()[0])
                continue
            else:
                segment = self.turns.choose(groups)
                self._run_group(segment, groups.pop(segment))
            if not groups and not paused:
                self._ends.waiting.retry()
                while not groups and pending.force_one():
                    self._ends.waiting.retry()
        pending.force_all()
        if self.alive_count:
            raise deadlock(self)
        for copy in pending.held:
            machine.fault(copy.inst, NOT_SUBMITTED, int(copy.lanes[0]), SUBMIT)
        for observer in machine.observers:
            observer.finished(self)
        return True

    def _run_scheduled(self, scheduler: Scheduler) -> None:
        """One step of a schedule: a segment, or a part of it, of the lanes that it chooses."""
        self.machine.pending.step()
        at, mask, first = scheduler.choose(self.groups, self.paused)
        steps = self._masked_body(at)
        last = scheduler.stop_before(self.steps, first, len(steps))
        if last < len(steps):
            for step in steps[first:last]:
                step(mask)
            rows = [self.machine.row(r) for r in self._overwritten(at)]
            self.paused[scheduler.running] = Paused(at, mask, last, [(row, row[..., mask]) for row in rows])
            self._count_steps(last - first, at, self._ends.changes[at])
            return
        self._run_group(at, mask, first)
        scheduler.ran(at)

    def _overwritten(self, at: int) -> set[Reg]:
        """The registers of a segment that its instructions write in all lanes, executing or not."""
        return {reg for inst in self.segments[at].body for reg in inst.local}

    def _run_some(self, random: Random) -> None:
        """One step of a random schedule: some warps of some group, and perhaps a copy completes."""
        self.machine.pending.step()
        groups = self.groups
        at = random.choice(list(groups)) if random.random() < 0.5 else self.turns.choose(groups)
        mask = groups.pop(at)
        if random.random() < 0.5:
            warps = self.machine.ballot(mask) != 0
            chosen = np.array([random.getrandbits(1) for _ in range(warps.size)], np.bool_)
            some = mask & self.machine.per_lane(chosen & warps)
            if np.count_nonzero(some):
                rest = mask & ~some
                if np.count_nonzero(rest):
                    groups[at] = rest
                mask = some
        self._run_group(at, mask)

    def _count_steps(self, count: int, segment: int, changes: bool) -> None:
        self.steps += count
        self.machine.clock += count
        if changes:
            self.changed_at = self.steps
        if self.steps >= self.endless.next_look:
            why = self.endless.look(segment, self.steps, self.changed_at)
            if why:
                self._too_long(segment, why)

    def _run_all(self, segment: int) -> None:
        """Run all living lanes from a segment on, as long as they stay together."""
        chains = self._chains
        while segment >= 0:
            chain = chains.at(segment)
            try:
                for step in chain.steps:
                    step()
            except Fallback as fallback:
                at = fallback.args[0]
                done = chain.segments[: chain.segments.index(at) + 1]
                for s in done:
                    self._executed[s] += self.alive_count
                # the body of that segment has run; only its last instruction is left
                self._count_steps(sum(len(self.segments[s].body) + 1 for s in done), at, True)
                self._ends.send(at, self.segments[at], self.machine.executing(None))
                return
            chain.runs += self.alive_count
            self._count_steps(chain.length, segment, chain.changes)
            segment = chain.end()

    def _bind(self, at: int) -> list[tuple[Full, Masked]]:
        """What executes the body of a segment."""
        found = self._bodies.get(at)
        if found is None:
            found = self._bodies[at] = self._bind_body(self.machine, self.segments[at])
        return found

    def _masked_body(self, at: int) -> list[Masked]:
        """What executes the body of a segment in some lanes."""
        steps = self._masked[at]
        if steps is None:
            steps = self._masked[at] = [masked for _, masked in self._bind(at)]
        return steps

    def _run_group(self, at: int, mask: np.ndarray, first: int = 0) -> None:
        """Run lanes through a segment, from the instruction `first` of its body on."""
        steps = self._masked_body(at)[first:]
        for step in steps:
            step(mask)
        count = int(np.count_nonzero(mask))
        self._executed[at] += count
        self._count_steps(len(steps) + 1, at, self._ends.changes[at])
        self._ends.send(at, self.segments[at], mask)

    def counts(self) -> list[int]:
        """Thread executions of each segment."""
        return [alone + chained for alone, chained in zip(self._executed, self._chains.counts(), strict=True)]

    def _place(self, at: int) -> Inst | None:
        segment = self.segments[at]
        return segment.last or (segment.body[-1] if segment.body else None)

    def _too_long(self, segment: int, message: str) -> None:
        inst = self._place(segment)
        if inst is None:
            raise SimulationError(message)
        found = [self.machine.diagnostic(inst, message)]
        for at, mask in self.groups.items():
            other = self._place(at)
            if other is not None:
                lanes = np.flatnonzero(mask)
                found.append(
                    self.machine.diagnostic(
                        other,
                        f"{counted(lanes.size, 'thread')} {'was' if lanes.size == 1 else 'were'} here",
                        int(lanes[0]),
                    )
                )
        for copy in self.machine.pending.held[:1]:
            found.append(self.machine.diagnostic(copy.inst, NOT_SUBMITTED, int(copy.lanes[0]), SUBMIT))
        raise SimulationError(found)
