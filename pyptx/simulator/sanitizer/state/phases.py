"""What the phases of mbarriers order: what was released to the running phase, and what waiting for the last one tells.

An mbarrier is known by its 8-byte word of all shared memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.program import Inst
from .clocks import Clock
from .context import Context, Part
from .patterns import Patterns, Released, scope_of
from .scopes import Scopes
from .shadow import GPU

Array = Any


class Phases(Part):
    """The running and the last phase of each mbarrier."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.patterns = context.part(Patterns)
        self.scopes = context.part(Scopes)

    def start(self) -> None:
        self.current: dict[int, Released] = {}
        """What was released to the running phase of each mbarrier."""
        self.last: dict[int, Released] = {}
        """The same for the phase before."""

    def cta_of(self, slot: int) -> int:
        """The CTA of the batch in whose memory an mbarrier is."""
        return slot * 8 // self.machine.shared.shape[1]

    def forget(self, slot: int) -> None:
        """It is initialised."""
        self.current.pop(slot, None)
        self.last.pop(slot, None)

    def add(self, slot: int, clock: Clock) -> None:
        """Tell all who wait for the running phase of an mbarrier."""
        self._add(self.current.setdefault(slot, Released()), slot, clock)

    def _add(self, into: Released, slot: int, clock: Clock) -> None:
        cta = self.cta_of(slot)
        into.add(cta, cta // self.machine.cluster_size, GPU, clock, self.patterns.narrow)

    def end(self, slot: int, clock: Clock | None) -> None:
        """The running phase is complete. `clock`: what that says of phases."""
        last = self.last[slot] = self.current.pop(slot, None) or Released()
        if clock is not None:
            self._add(last, slot, clock)

    def release(self, inst: Inst, slot: int, lanes: Array) -> None:
        """Threads release to the running phase of an mbarrier, if the arrival is not relaxed or a fence came before it."""
        into = self.current.setdefault(slot, Released())
        if inst.has("relaxed"):
            self.patterns.write(inst, ("mbarrier", slot, 8), lanes, update=True, into=into)
            return
        for cta in np.unique(self.machine.cta_of_lane[lanes]).tolist():
            here = lanes[self.machine.cta_of_lane[lanes] == cta]
            clock = self.clocks.release(here)
            into.add(cta, cta // self.machine.cluster_size, scope_of(inst), clock, self.patterns.narrow)

    def acquire(self, inst: Inst, slot: int, lanes: Array) -> None:
        """Threads have waited for the last phase of an mbarrier."""
        released = self.last.get(slot)
        if released is None:
            return
        if inst.has("relaxed"):
            self.patterns.read(inst, ("mbarrier", slot, 8), lanes, released)
            return
        for cta in np.unique(self.machine.cta_of_lane[lanes]).tolist():
            here = lanes[self.machine.cta_of_lane[lanes] == cta]
            seen = released.seen_by(cta, cta // self.machine.cluster_size)
            self.clocks.acquire(here, seen[scope_of(inst) - 1])
            self.scopes.waited(inst, cta, released)
