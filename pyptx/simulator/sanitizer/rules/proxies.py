"""Proxies (PTX ISA 8.6): what one proxy writes or reads is ordered for the async proxy by a fence only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.program import Inst
from ..rule import Rule, Tolerated
from ..state.context import TIME, Context, Part
from ..state.copies import Copies, State
from ..state.order import Order, firsts, neighbours
from ..state.shadow import ASYNC, THREAD, Space

Array = Any
PROXY = Rule(
    "proxy",
    ("8.6",),
    "ordinary stores, `cp.async`, `st.async` or `red.async` wrote what a bulk copy or tensor core reads or writes, or a kernel edits a tensor map, without a proxy fence "
    "for that memory",
    "every thread that wrote executes fence.proxy.async after its stores, then comes the barrier, then the asynchronous instruction",
)
CURE_OF_COPIES = (
    "every thread that waits for its asynchronous operations executes fence.proxy.async after the wait, then comes the barrier, "
    "then the asynchronous instruction"
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
        self.order, self.copies = context.part(Order), context.part(Copies)
        instructions = self.machine.program.instructions
        self.generic = np.array([i.family.proxy == "generic" for i in instructions], np.bool_)
        """By number: whether an instruction writes in the generic proxy."""
        self.waited = np.zeros(self.machine.lanes, np.int64)
        """When each lane last waited for an mbarrier."""

    def start(self) -> None:
        self.waited[...] = 0

    def mbarrier_waited(self, inst: Inst, lanes: Array, slots: Array, done: Array) -> None:
        self.waited[lanes[done]] = self.clocks.now

    def check(self, inst: Inst, space: Space, index: Array, lane: int, stamps: Array) -> None:
        """What the generic proxy wrote must pass a proxy fence before the async proxy touches it."""
        generic = self._generic(stamps)
        if not generic.size:
            return
        index, stamps = index[generic], stamps[generic]
        who, times = stamps & THREAD, stamps >> 32 & TIME
        asynchronous = stamps >= ASYNC
        bad = np.zeros(stamps.size, np.bool_)
        bad[~asynchronous] = self._unfenced(space, lane, who[~asynchronous], times[~asynchronous])
        for time in np.unique(times[asynchronous]).tolist():
            at = np.flatnonzero(asynchronous & (times == time))
            bad[at] = self._unfenced_copies(space, lane, who[at], self.copies.at[time])
        bad = np.flatnonzero(bad)
        if not bad.size:
            return
        at = int(bad[0])
        other = self.context.instruction_at(int(times[at]))
        later = other.opcode.endswith(".async")
        writer = f"`{other.opcode}`, of the generic proxy," if later else "ordinary stores"
        self.report(
            PROXY,
            inst,
            f"{space.name} memory that {writer} wrote is accessed by the async proxy without a proxy fence "
            f"between; it was written by {self.context.thread(int(who[at]))}",
            lane,
            hint=(CURE_OF_COPIES if later else PROXY.cure) + self._which_fence(space),
            space=space,
            byte=int(index[at]) << space.shift,
            other=other,
        )

    def _generic(self, stamps: Array) -> Array:
        """Those of stamps that writes of the generic proxy have."""
        return np.flatnonzero((stamps != 0) & self.generic[self.context.numbers_at(stamps >> 32 & TIME)])

    def _unfenced(self, space: Space, lane: int, who: Array, done: Array, known: Array | None = None) -> Array:
        """Which writes of threads, complete at these times (0: not yet), are ordered before what a lane does now, but by no way
        with a proxy fence. `known`: those that it knows to be complete by an mbarrier.
        """
        bad = (done == 0) | ~self.clocks.fenced(lane, who, done, space.name)
        if np.count_nonzero(bad):  # without any order it is a race, and reported as one
            ordered = (done > 0) & self.clocks.ordered(np.full(who.size, lane), who, done)
            bad &= ordered if known is None else ordered | known
        return bad

    def _unfenced_copies(self, space: Space, lane: int, who: Array, state: State) -> Array:
        """The same for an asynchronous operation that threads issued: it is complete at their waits, or for those who wait for an
        mbarrier that it tells.
        """
        clocks, lanes = self.clocks, np.array([lane])
        position = np.searchsorted(state.numbers, who)
        told = state.told[position] if state.copy.mechanism == "group" else np.full(who.size, state.copy.time)
        known, passed = np.zeros((2, who.size), np.bool_)
        for cta, column in state.columns.items():
            key = state.first_group + cta // self.machine.cluster_size
            for time in np.unique(told[told > 0]).tolist():
                here = told == time
                known[here] |= clocks.knows(lanes, key, column, time)[0]
                passed[here] |= clocks.knows_fenced(lane, key, column, time, space.name)
        return ~passed & self._unfenced(space, lane, who, state.done[position], known)

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
