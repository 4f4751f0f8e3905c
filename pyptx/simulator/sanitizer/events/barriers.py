"""Barriers of CTAs, clusters and warps (PTX ISA 9.7.15): what they order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....dialects.ptx.barrier import BarWarp
from ...machine.binding import meaning_of
from ...machine.machine import Action
from ...machine.program import Inst
from ...machine.registry import Collective
from ..rules.barriers import BarrierUse
from ..rules.clusters import Clusters
from ..rules.rounds import Rounds
from ..state.clocks import Clock
from ..state.context import Context, Part
from ..state.order import Order
from ..state.patterns import Patterns
from ..state.shadow import CLUSTER

Array = Any


class Barriers(Part):
    """What threads learn from each other at barriers."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.order, self.patterns, self.rounds = context.part(Order), context.part(Patterns), context.part(Rounds)
        self.use, self.clusters = context.part(BarrierUse), context.part(Clusters)

    def start(self) -> None:
        self.arrivals: dict[tuple[int, int], Clock] = {}
        """(barrier, CTA) -> what those know who have arrived in this round and go on."""
        self.cluster: dict[int, Clock] = {}
        """Cluster -> what those know who have arrived at its barrier."""
        self.cluster_ended: dict[int, Clock] = {}
        """The same for the round before."""

    # ------------------------------------------------------------------------------------------- barriers of a warp

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.family is not BarWarp:
            return action
        machine, what = self.machine, meaning_of(self.machine, inst)
        assert isinstance(what, Collective)
        assert what.mask is not None
        assert not isinstance(what.mask, str)
        source = machine.source(what.mask, "u32")

        def sync(mask: Array) -> object:
            self._warp_sync(inst, machine.active(inst, mask), source)
            return action(mask)

        return sync

    def _warp_sync(self, inst: Inst, executing: Array, source: Array) -> None:
        machine, clocks = self.machine, self.clocks
        self.context.tick(inst)
        if clocks.too_large:
            return
        alive = machine.ballot(machine.executing(None))
        here = machine.ballot(executing)
        members = np.broadcast_to(source, machine.lanes)
        whole = machine.per_lane((here == alive) & (here != 0)) & executing
        whole &= members & machine.per_lane(alive) == machine.per_lane(alive)
        if np.count_nonzero(whole):
            full = np.repeat(whole.reshape(-1, 32).any(axis=1), 32) & executing
            clocks.join_warps(full)
        rest = executing & ~whole
        for warp in np.flatnonzero(rest.reshape(-1, 32).any(axis=1)).tolist():
            lanes = 32 * warp + np.flatnonzero(rest[32 * warp : 32 * warp + 32])
            for value in np.unique(members[lanes]).tolist():
                clocks.join(lanes[members[lanes] == value])

    # ------------------------------------------------------------------------------------------- barriers of a CTA

    def barrier_arrived(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self.use.check_count(inst, number, mask)
        self.context.tick(inst)
        machine = self.machine
        if self.clocks.too_large:
            return
        for cta in np.unique(machine.cta_of_lane[mask]).tolist():
            start = cta * machine.padded
            lanes = start + np.flatnonzero(mask[start : start + machine.padded])
            clock = self.clocks.release(lanes)
            known = self.arrivals.get((number, cta))
            if known is not None:
                clock.merge(known)
            self.arrivals[number, cta] = clock

    def barrier_released(self, number: int, mask: np.ndarray) -> None:
        machine, clocks = self.machine, self.clocks
        self.context.tick(machine.program.instructions[int(self.use.at[int(mask.argmax())])])
        self.use.released(number, mask)
        ctas = machine.ctas
        if clocks.too_large:
            return
        if self.patterns.waiting:
            for cta in np.unique(machine.cta_of_lane[mask]).tolist():
                start = cta * machine.padded
                self.patterns.met(start + np.flatnonzero(mask[start : start + machine.padded]))
        here: Array = mask.reshape(ctas, -1)
        if self.rounds.running:
            for cta in np.flatnonzero(here.any(axis=1)).tolist():
                self.rounds.barrier_over(number, cta, cta * machine.padded + np.flatnonzero(here[cta]))
        alive: Array = machine.executing(None).reshape(ctas, -1)
        some = here.any(axis=1)
        full = some & (here == alive).all(axis=1)
        if self.arrivals:
            for _, cta in [k for k in self.arrivals if k[0] == number and some[k[1]]]:
                full[cta] = False
        if full.any():
            clocks.join_ctas(mask & np.repeat(full, machine.padded) if not full.all() else mask)
        for cta in np.flatnonzero(some & ~full).tolist():
            lanes = cta * machine.padded + np.flatnonzero(here[int(cta)])
            clocks.join(lanes, self.arrivals.pop((number, cta), None))
        self.order.synchronised()

    # ----------------------------------------------------------------------------------------- barriers of clusters

    def cluster_arrived(self, inst: Inst, mask: np.ndarray) -> None:
        self.context.tick(inst)
        clocks = self.clocks
        if clocks.too_large:
            return
        lanes = np.flatnonzero(mask)
        fences = self.patterns.fences.by_scope[CLUSTER]
        if inst.has("relaxed"):  # releases what the threads' last fences did
            lanes = lanes[fences.time[lanes] > 0] if fences is not None else lanes[:0]
        groups = clocks.group_of[lanes]
        for g in np.unique(groups).tolist():
            here = lanes[groups == g]
            clock = clocks.release(here, fences if inst.has("relaxed") else None)
            known = self.cluster.get(g)
            if known is not None:
                clock.merge(known)
            self.cluster[g] = clock

    def cluster_completed(self, mask: np.ndarray) -> None:
        for g in np.unique(self.clocks.group_of[mask]).tolist():
            self.cluster_ended[g] = self.cluster.pop(g, Clock())

    def cluster_released(self, mask: np.ndarray) -> None:
        clocks = self.clocks
        lanes = np.flatnonzero(mask)
        self.clusters.met(lanes)
        if clocks.too_large:
            return
        groups = clocks.group_of[lanes]
        for g in np.unique(groups).tolist():
            clocks.acquire(lanes[groups == g], self.cluster_ended.get(g, Clock()))
