"""Mbarriers (PTX ISA 9.7.15.16): initialisations, arrivals and waits.

An mbarrier is known by its 8-byte word of all shared memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....dialects.ptx.async_copy import CpAsyncMbarrierArrive
from ....dialects.ptx.mbarrier import MbarrierCompleteTx, MbarrierExpectTx
from ...machine.machine import Action
from ...machine.program import Inst
from ..rules.clusters import Clusters
from ..rules.mbarriers import Mbarriers
from ..rules.rounds import Rounds
from ..rules.tensor_memory import TensorMemory
from ..state.clocks import Clock, fenced_spaces
from ..state.context import Context, Part
from ..state.copies import Copies
from ..state.phases import Phases
from .copies import Asynchronous

Array = Any


class Arrivals(Part):
    """Who arrives at mbarriers and waits for them."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.phases, self.rounds, self.mbarriers = context.part(Phases), context.part(Rounds), context.part(Mbarriers)
        self.clusters, self.tensor = context.part(Clusters), context.part(TensorMemory)
        self.copies, self.asynchronous = context.part(Copies), context.part(Asynchronous)

    def start(self) -> None:
        self.committed = Clock()
        """What the threads knew that execute tcgen05.commit now."""

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.fences in ("mbarrier_init", "async"):
            action = self._fence(inst, action)
        if inst.family.gathers == "tcgen05":
            action = self._commit(inst, action)
        return action

    def _commit(self, inst: Inst, action: Action) -> Action:
        """tcgen05.commit arrives when the thread's tcgen05 operations are done, and orders what came before them."""
        machine = self.machine

        def commit(mask: Array) -> object:
            lanes = np.flatnonzero(machine.active(inst, mask))
            self.context.tick(inst)
            self.committed = Clock() if self.clocks.too_large or not lanes.size else self.tensor.commit(inst, lanes)
            return action(mask)

        return commit

    def _fence(self, inst: Inst, action: Action) -> Action:
        """A fence that makes initialisations visible; one between the proxies orders memory, too."""
        machine = self.machine

        def fence(mask: Array) -> object:
            lanes = np.flatnonzero(machine.active(inst, mask))
            self.context.tick(inst)
            self.mbarriers.fenced(lanes)
            if inst.fences == "async" and not self.clocks.too_large:
                self.clocks.fence_proxy(lanes, fenced_spaces(inst))
            return action(mask)

        return fence

    def mbarrier_initialised(self, inst: Inst, lanes: Array, slots: Array) -> None:
        now = self.context.tick(inst)
        for lane, slot in zip(lanes.tolist(), slots.tolist(), strict=True):
            self.mbarriers.initialised(inst, lane, slot, now)
            self.phases.forget(slot)
            self.rounds.initialised(slot)

    def mbarrier_updated(self, inst: Inst, lanes: Array, slots: Array, ended: set[int], later: Array) -> None:
        self.context.tick(inst)
        copies = inst.family.access == "copy" or bool(inst.family.gathers)
        if not self.clocks.too_large:
            for slot in np.unique(slots).tolist():
                mine = slots == slot
                self.rounds.updated(inst, slot, lanes[mine], later[mine])
        if not copies:
            self.mbarriers.visible(inst, lanes, slots, "used")
        if not self.clocks.too_large:
            if inst.family is CpAsyncMbarrierArrive:
                self.asynchronous.arrived(inst, lanes, slots)
            counts = (MbarrierExpectTx, MbarrierCompleteTx)
            if not copies and inst.family.access == "object" and inst.family not in counts:
                self._arrived(inst, lanes, slots)
        if inst.family.gathers == "tcgen05":
            for slot in np.unique(slots).tolist():
                self.phases.add(slot, self.committed)
        for slot in ended:
            self.phases.end(slot, None if self.clocks.too_large else self.rounds.phase_ended(slot))

    def _arrived(self, inst: Inst, lanes: Array, slots: Array) -> None:
        """Threads release what they know to the running phases."""
        order = np.argsort(slots, kind="stable")
        cuts = np.flatnonzero(np.diff(slots[order])) + 1
        for part in np.split(order, cuts):
            slot, here = int(slots[part[0]]), lanes[part]
            self.phases.release(inst, slot, here)
            self.clusters.visited(inst, here, self.phases.cta_of(slot))

    def mbarrier_waited(self, inst: Inst, lanes: Array, slots: Array, done: Array) -> None:
        lanes, slots = lanes[done], slots[done]
        if not lanes.size:
            return
        if inst.has("relaxed"):
            self.rounds.loose.update(slots.tolist())
        self.clusters.met(lanes)
        self.mbarriers.visible(inst, lanes, slots, "waited for")
        for slot in np.unique(slots).tolist():
            self.copies.seen(slot)
            if not self.clocks.too_large:
                self.phases.acquire(inst, slot, lanes[slots == slot])
