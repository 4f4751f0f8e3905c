"""When a batch of CTAs is given up: a loop that does not end stops with its place.

A launch with `max_steps` runs so many steps (instructions issued). Without, three things end it:

- proof: only one group of threads can run, and it comes to a place where registers, memory and barriers are as they were
  when it was there before, so that it will come there forever;
- quiet: for a million steps and some seconds nothing was stored, copied, exchanged or arrived at;
- three million steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..machine.texture import Surface
from .batch import Batch

Array = Any
MOST_STEPS = 3_000_000
QUIET_STEPS = 1_000_000
QUIET_SECONDS = 3.0
FIRST_LOOK = 50_000
"""Steps after which the state is kept for the first time; then whenever there were twice as many."""
VISITS = 8
"""How often a place may be come to with another state: rounds of a period."""
_TIME = ("%clock", "%globaltimer")
"""Special registers that differ each time they are read."""
MOST_STATE = 64 << 20
"""Bytes of registers and memory beyond which there is no proof."""


class Endless:
    """Looks at an engine now and then."""

    def __init__(self, engine: Batch, max_steps: int | None):
        self.engine = engine
        self.max_steps = max_steps
        self.reads_time = any(
            word in inst.text for segment in engine.segments for inst in segment.instructions for word in _TIME
        )
        self.start()

    def start(self) -> None:
        """A new batch."""
        self.kept: list[Array] | None = None
        self.segment = -1
        self.visits = 0
        self.keep_at = FIRST_LOOK
        self.kept_at = 0
        self.changed_at = -1
        self.since = 0.0
        self.next_look = FIRST_LOOK if self.max_steps is None else self.max_steps + 1

    def look(self, segment: int, steps: int, changed_at: int) -> str:
        """Why the batch is given up, or nothing. `changed_at`: the step at which something was last changed. `next_look` says
        when to look again.
        """
        if self.max_steps is not None:
            self.next_look = self.max_steps + 1
            return f"stopped after {self.max_steps} steps (max_steps): the kernel may not end"
        if steps > MOST_STEPS:
            return f"stopped after {MOST_STEPS:,} steps: the kernel may not end (max_steps= allows more)"
        now = time.perf_counter()
        if changed_at != self.changed_at:
            self.changed_at, self.since = changed_at, now
        elif steps - changed_at > QUIET_STEPS and now - self.since > QUIET_SECONDS:
            return (
                f"stopped after {steps:,} steps: for {steps - changed_at:,} of them nothing was stored, copied or "
                "exchanged, so the kernel may not end (max_steps= allows more)"
            )
        if self._came_back(segment):
            machine = self.engine.machine
            left = machine.grid_end - machine.next_cta
            later = (
                f"; {left} CTAs of the grid have not begun: those that wait for each other must run together"
                if left > 0
                else ""
            )
            return (
                "this loop never ends: all registers, memory and barriers are as they were "
                f"{steps - self.kept_at:,} steps before{later}"
            )
        self._keep(segment, steps)
        self.next_look = steps if self.kept is not None else steps + FIRST_LOOK
        return ""

    def _came_back(self, segment: int) -> bool:
        """Whether the state is the kept one."""
        if self.kept is None or segment != self.segment:
            return False
        state = self._state()
        if state is not None and len(state) == len(self.kept) and all(map(np.array_equal, state, self.kept)):
            return True
        self.visits += 1
        if self.visits == VISITS or state is None:
            self.kept = None
        return False

    def _keep(self, segment: int, steps: int) -> None:
        if steps < self.keep_at:
            return
        self.keep_at = 2 * steps
        state = self._state()
        if state is not None and sum(a.nbytes for a in state) <= MOST_STATE:
            self.kept = [a.copy() for a in state]
            self.segment, self.visits, self.kept_at = segment, 0, steps

    def _state(self) -> list[Array] | None:
        """Everything that decides how the one group that can run goes on; None if something else may run, too."""
        engine = self.engine
        machine, pending = engine.machine, engine.machine.pending
        surfaces = any(isinstance(o, Surface) for o in machine.memory.handles.objects.values())
        if (
            self.reads_time
            or engine.groups
            or engine.paused
            or pending.copies
            or pending.random is not None
            or machine.payloads
            or surfaces
        ):
            return None
        return list(self.arrays())

    def arrays(self) -> Iterator[Array]:
        """Registers, memory and barriers."""
        engine, machine = self.engine, self.engine.machine
        yield machine.executing(None)
        yield from machine.pools.values()
        yield machine.shared
        yield machine.local
        yield machine.stack_top
        for held in (engine.waiting, engine.at_barrier, engine.cluster_waiting):
            yield np.array(list(held), np.int64)
            yield from held.values()
        yield engine.arrived
        yield engine.cluster_arrived
        yield engine.cluster_done
        yield engine.depth
        yield engine.calls
        yield engine.marks
        for number in sorted(engine.saved):
            yield from engine.saved[number]
        yield np.array([len(machine.prints), machine.grid_end])
        for allocation in machine.memory.allocations:
            yield allocation.data
        if machine.tmem is not None:
            yield machine.tmem.data
