"""Proxies (PTX ISA 8.6): what one proxy writes or reads is ordered for the async proxy by a fence only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.program import Inst
from ..rule import Rule, Tolerated
from ..state.context import Context, Part
from ..state.order import Order, firsts, neighbours
from ..state.shadow import ASYNC, THREAD, Space

Array = Any
PROXY = Rule(
    "proxy",
    ("8.6",),
    "ordinary stores wrote what a bulk copy or tensor core reads or writes, or a kernel edits a tensor map, without a proxy fence "
    "for that memory",
    "every thread that wrote executes fence.proxy.async after its stores, then comes the barrier, then the asynchronous instruction",
)
REUSE = Rule(
    "proxy-reuse",
    ("8.6",),
    "a bulk copy overwrites what the same thread has read by ordinary loads, without a proxy fence, barrier or mbarrier between",
    "fence.proxy.async between the loads and the copy, or a barrier or mbarrier at which the readers arrive",
    "warning",
    Tolerated("the loads have usually read before the copy writes"),
)


class Proxies(Part):
    """Accesses of the async proxy to what ordinary ones have touched."""

    rules = (PROXY, REUSE)

    def __init__(self, context: Context):
        super().__init__(context)
        self.order = context.part(Order)
        instructions = self.machine.program.instructions
        self.named = np.array([bool(i.family.proxy) for i in instructions], np.bool_)
        """By number: whether an instruction's stores are of a proxy that the manual names."""
        self.waited = np.zeros(self.machine.lanes, np.int64)
        """When each lane last waited for an mbarrier."""

    def start(self) -> None:
        self.waited[...] = 0

    def mbarrier_waited(self, inst: Inst, lanes: Array, slots: Array, done: Array) -> None:
        self.waited[lanes[done]] = self.clocks.now

    def check(self, inst: Inst, space: Space, index: Array, lane: int, stamps: Array) -> None:
        """What ordinary stores wrote must pass a proxy fence before the async proxy touches it."""
        generic = self._generic(stamps)
        if not generic.size:
            return
        stamps = stamps[generic]
        who, times = stamps & THREAD, stamps >> 32
        bad = ~self.clocks.fenced(lane, who, times, space.name)
        if np.count_nonzero(bad):  # without any order it is a race, and reported as one
            bad &= self.clocks.ordered(np.full(who.size, lane), who, times)
        bad = np.flatnonzero(bad)
        if not bad.size:
            return
        at = int(bad[0])
        other = self.context.instruction_at(int(times[at]))
        self.report(
            PROXY,
            inst,
            f"{space.name} memory that ordinary stores wrote is accessed by the async proxy without a proxy fence "
            f"between; it was written by {self.context.thread(int(who[at]))}",
            lane,
            hint=PROXY.cure + self._which_fence(space),
            space=space,
            byte=int(index[generic[at]]) << space.shift,
            other=other,
        )

    def _generic(self, stamps: Array) -> Array:
        """Those of stamps that ordinary stores have."""
        generic = np.flatnonzero((stamps != 0) & (stamps < ASYNC))
        if generic.size:
            generic = generic[self.named[self.context.numbers_at(stamps[generic] >> 32)]]
        return generic

    def check_all(self, inst: Inst, space: Space, index: Array, lanes: Array, stamps: Array) -> None:
        """`check` for several lanes at once."""
        generic = self._generic(stamps)
        for lane in np.unique(lanes[generic]).tolist() if generic.size else ():
            mine = generic[lanes[generic] == lane]
            self.check(inst, space, index[mine], lane, stamps[mine])

    def check_reuse(self, inst: Inst, space: Space, index: Array, lane: int) -> None:
        """What a thread has read by an ordinary load is overwritten by the async proxy. Where a barrier or an mbarrier is
        between the two, this is silent: it is how CUTLASS and Triton release a stage.
        """
        clocks = self.clocks
        own = int(self.order.numbers[lane])
        where = neighbours(index)
        since = max(int(clocks.floor[lane]), int(clocks.warp_floor[lane]), int(self.waited[lane]))
        for table in space.reads.tables:
            stamps = table[where]
            part = firsts(stamps)
            stamps = stamps[part]
            at = np.flatnonzero((stamps & THREAD == own) & (stamps >> 32 > since) & (stamps < ASYNC))
            if not at.size:
                continue
            who, times = stamps[at] & THREAD, stamps[at] >> 32
            bad = np.flatnonzero(~clocks.fenced(lane, who, times, space.name))
            if not bad.size:
                continue
            first = int(bad[0])
            self.report(
                REUSE,
                inst,
                f"{space.name} memory that ordinary loads read is overwritten by the async proxy without a proxy fence between; "
                "the same thread has read it. A proxy fence is required to synchronize memory operations across different "
                "proxies",
                lane,
                space=space,
                byte=int(index[part[at[first]]]) << space.shift,
                other=self.context.instruction_at(int(times[first])),
            )
            return

    def _which_fence(self, space: Space) -> str:
        """Of a kernel whose fences are for other memory."""
        proxies = self.clocks.proxy_of
        return f"; no fence of this kernel is for {space.name} memory" if proxies and space.name not in proxies else ""
