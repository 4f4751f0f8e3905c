"""Mbarriers as objects in memory (PTX ISA 9.7.15.16): initialised once, made visible to others by a fence, touched by mbarrier
instructions only, and invalidated before the memory is used for anything else.

An mbarrier is known by its 8-byte word of all shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...machine.program import Inst
from ..rule import Rule, Tolerated
from ..state.context import Context, Part
from ..state.order import Order
from ..state.shadow import GPU, Space
from .clusters import Clusters
from .races import Races

Array = Any
INIT_FENCE = Rule(
    "mbarrier-init-fence",
    ("9.7.15.4",),
    "a copy or another CTA uses an mbarrier, and no fence made its initialisation visible",
    "the thread that initialises executes fence.mbarrier_init.release.cluster or fence.proxy.async, then comes the barrier of the "
    "CTA or cluster",
    tolerated=Tolerated(
        "a barrier of the CTA makes the initialisation visible to its own copies; for another CTA a missing fence is an error",
        "within one CTA",
    ),
)
REINIT = Rule(
    "mbarrier-reinit",
    ("9.7.15.16.12",),
    "`mbarrier.init` of an mbarrier that is in use",
    "mbarrier.inval first, or initialise once: a barrier runs through its phases by itself",
)
INVALID = Rule(
    "mbarrier-invalid",
    ("9.7.15.16.13",),
    "`mbarrier.inval` of memory that holds no mbarrier",
    "one thread invalidates each mbarrier once, after its last use",
)
TOUCHED = Rule(
    "mbarrier-touched",
    ("9.7.15.16.13",),
    "a load, store or copy of the memory of an mbarrier before `mbarrier.inval`",
    "mbarrier.inval comes before the memory is used for anything else; only mbarrier instructions touch an mbarrier",
)


@dataclass(slots=True)
class Initialisation:
    """An mbarrier.init: who, when, and whether a fence made it visible to clusters and the async proxy."""

    lane: int
    time: int
    inst: Inst
    fenced: bool = False


class Mbarriers(Part):
    """The mbarriers of a batch."""

    rules = (INIT_FENCE, REINIT, INVALID, TOUCHED)

    def __init__(self, context: Context):
        super().__init__(context)
        self.order, self.races = context.part(Order), context.part(Races)
        self.clusters = context.part(Clusters)

    def start(self) -> None:
        self.made: dict[int, Initialisation] = {}
        self.live = np.zeros(self.shadow.shared.write.size, np.bool_)
        """The granules of shared memory that belong to mbarriers."""

    def fenced(self, lanes: Array) -> None:
        """Lanes execute a fence that makes their initialisations visible to clusters and to the async proxy."""
        if self.made:
            there = set(lanes.tolist())
            for made in self.made.values():
                made.fenced |= made.lane in there

    def initialised(self, inst: Inst, lane: int, slot: int, now: int) -> None:
        """mbarrier.init."""
        space, index = self.shadow.shared, self._granules(slot)
        who = np.full(index.size, lane)
        known = self.made.get(slot)
        stamps = space.write[index]
        if known is not None and int(stamps[0]) >> 32 == known.time:
            self.report(
                REINIT,
                inst,
                "mbarrier.init of an mbarrier that is in use",
                lane,
                space=space,
                byte=8 * slot,
                other=known.inst,
            )
        if not self.clocks.too_large:
            self.races.check(inst, space, index, who, stamps, 0, "initialised", "written")
        space.write[index] = self.order.numbers[lane] + (now << 32)
        self.made[slot] = Initialisation(lane, now, inst)
        self.live[index] = True

    def invalidated(self, inst: Inst, lane: int, slot: int, now: int) -> None:
        space = self.shadow.shared
        index = self._granules(slot)
        if self.made.pop(slot, None) is None:
            self.report(
                INVALID,
                inst,
                "mbarrier.inval of memory that holds no mbarrier: it was not initialised, or is already invalid",
                lane,
                space=space,
                byte=8 * slot,
            )
        elif not self.clocks.too_large:
            who, stamps = np.full(index.size, lane), space.write[index]
            self.races.check(inst, space, index, who, stamps, 0, "invalidated", "written")
        self.live[index] = False
        space.write[index] = self.order.numbers[lane] + (now << 32)

    def _granules(self, slot: int) -> Array:
        """Those of an mbarrier."""
        count = 8 >> self.shadow.shared.shift
        return np.arange(slot * count, (slot + 1) * count)

    def touched(
        self, inst: Inst, space: Space, index: Array, lanes: Array, *, reads: bool = False, writes: bool = False
    ) -> None:
        """Nothing but mbarrier operations touches an mbarrier before it is invalidated."""
        if not self.made or space.name != "shared":
            return
        at = np.flatnonzero(self.live[index])
        if not at.size:
            return
        byte = int(index[at[0]]) << space.shift
        slot = byte // 8
        made = self.made[slot]
        if writes:
            self.live[self._granules(slot)] = False  # once told, it is memory like any other
        self.report(
            TOUCHED,
            inst,
            f"the memory of an mbarrier is {'written' if writes else 'read'} here, and the mbarrier has not been invalidated",
            lanes[at],
            space=space,
            byte=8 * slot,
            other=made.inst,
            role="its initialisation",
        )

    def visible(self, inst: Inst, lanes: Array, slots: Array, how: str) -> None:
        """The initialisation must happen before the use."""
        space = self.shadow.shared
        machine, index = self.machine, slots * (8 >> space.shift)
        if not self.clocks.too_large:
            self.races.check(inst, space, index, lanes, space.write[index], GPU, how, "initialised")
        if machine.cluster_size > 1:
            for i in np.flatnonzero(self._cta(slots) != machine.cta_of_lane[lanes]).tolist():
                self.check_fence(inst, int(lanes[i]), int(slots[i]), "thread of another CTA")
                self.clusters.check_peer(inst, int(lanes[i]), 8 * int(slots[i]))

    def check_fence(self, inst: Inst, lane: int, slot: int, by: str) -> None:
        """An mbarrier that a copy or another CTA uses was made visible by a fence."""
        made = self.made.get(slot)
        if made is None or made.fenced:
            return
        number = np.array([made.lane + self.context.first_lane])
        clocks, time = self.clocks, np.array([made.time])
        if any(clocks.fenced(lane, number, time, space)[0] for space in clocks.proxy_of):
            return
        self.report(
            INIT_FENCE,
            inst,
            f"an mbarrier is used by a {by}, and no fence followed its initialisation",
            lane,
            space=self.shadow.shared,
            byte=8 * slot,
            other=made.inst,
            severity="warning" if self._cta(slot) == self.machine.cta_of_lane[lane] else "error",
        )

    def _cta(self, slots: Array) -> Array:
        """The CTAs in whose shared memory mbarriers are."""
        return slots * 8 // self.machine.shared.shape[1]
