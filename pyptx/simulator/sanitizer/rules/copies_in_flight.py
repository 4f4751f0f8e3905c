"""Accesses to what an asynchronous operation may still read or write: copies (PTX ISA 9.7.10.28), and the operands of matrix
instructions in shared memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.pending import Copy
from ...machine.program import Inst
from ..rule import Rule
from ..state.completion import Completion
from ..state.context import TIME, Context, Part
from ..state.copies import Copies, State, reduces
from ..state.scopes import Scopes
from ..state.shadow import THREAD, Space
from .races import RACE, Races

Array = Any
CP_ASYNC = Rule(
    "cp-async-not-waited",
    ("9.7.10.28.1",),
    "what `cp.async` copies is used before `cp.async.wait_group` (or `wait_all`), or its source is overwritten",
    "the thread that issued it executes cp.async.wait_group (or wait_all), then comes a barrier",
)
BULK_COPY = Rule(
    "bulk-copy-not-waited",
    ("9.7.10.28.1",),
    "the destination of a bulk copy is used before its mbarrier's phase, or its group, is complete",
    "wait with mbarrier.try_wait for the phase (parity) in which the copy was issued, in every thread that touches the data or "
    "before a barrier with them",
)
BULK_SOURCE = Rule(
    "bulk-source-reused",
    ("9.7.10.28.1",),
    "the source of a bulk copy is overwritten before the copy has read it",
    "the thread that issued the copy executes cp.async.bulk.commit_group and cp.async.bulk.wait_group.read, then a barrier lets the "
    "others write",
)
WGMMA_SOURCE = Rule(
    "wgmma-source-reused",
    ("9.7.17.7.3",),
    "shared memory is written that a `wgmma` may still read",
    "the warps that issued the wgmma execute wgmma.wait_group, then arrive at a barrier that the writer waits for",
)
TCGEN05_SOURCE = Rule(
    "tcgen05-source-reused",
    ("9.7.18.12",),
    "shared memory is written that a tcgen05 operation may still read",
    "the thread that issued the operation executes tcgen05.commit, and the writer waits for that mbarrier, or for a thread that has",
)


class CopiesInFlight(Part):
    """Examines accesses to what copies have written or read."""

    rules = (CP_ASYNC, BULK_COPY, BULK_SOURCE, WGMMA_SOURCE, TCGEN05_SOURCE)

    def __init__(self, context: Context):
        super().__init__(context)
        self.copies, self.completion = context.part(Copies), context.part(Completion)
        self.scopes = context.part(Scopes)
        context.part(Races).asynchronous = self.examine

    def examine(
        self, inst: Inst, space: Space, index: Array, lanes: Array, stamps: Array, now: str, before: str
    ) -> None:
        """Accesses to what copies have written or read."""
        if space.name == "shared":
            ctas = (index << space.shift) // self.machine.shared.shape[1]
            late = np.flatnonzero(~self.copies.settled(lanes, stamps, ctas))
            if not late.size:
                return
            index, lanes, stamps = index[late], lanes[late], stamps[late]
        times = stamps >> 32 & TIME
        single = times.size == 1
        for time in [int(times[0])] if single else np.unique(times).tolist():
            state = self.copies.at.get(time)
            if state is None:
                continue
            both = before != "read" and reduces(inst) and reduces(state.copy.inst)
            if both and inst.family.proxy == state.copy.inst.family.proxy:
                continue  # morally strong, as operations of different proxies never are (8.7)
            at = slice(None) if single else np.flatnonzero(times == time)
            if state.copy.mechanism == "wgmma":
                self._examine_wgmma(inst, space, index[at], lanes[at], state)
            elif state.copy.mechanism == "tcgen05":
                self._examine_tensor(inst, space, index[at], lanes[at], state)
            elif state.copy.mechanism == "mbarrier":
                self._examine_barrier(inst, space, index[at], lanes[at], state, now, before)
            else:
                self._examine_group(inst, space, index[at], lanes[at], stamps[at], state, now, before)

    def _examine_wgmma(self, inst: Inst, space: Space, index: Array, lanes: Array, state: State) -> None:
        """Writes to what a wgmma reads: it suffices that the writer knows of one thread that it has waited."""
        clocks = self.clocks
        threads = clocks.local[state.lanes[0]] + np.arange(128)
        done = np.repeat(np.where(state.done > 0, state.done, TIME), 32)
        group = int(clocks.group_of[state.lanes[0]])
        writers = np.unique(lanes[clocks.group_of[lanes] == group])
        told = (clocks.knowledge(group, writers)[:, threads] >= done).any(axis=1)
        bad = np.flatnonzero(~np.isin(lanes, writers[told]))
        if bad.size:
            self.report(
                WGMMA_SOURCE,
                inst,
                "shared memory is written here that a wgmma may still read"
                + ("" if state.done.any() else ": no wgmma.wait_group has covered it"),
                lanes[bad],
                space=space,
                byte=int(index[bad[0]]) << space.shift,
                other=state.copy.inst,
            )

    def _examine_tensor(self, inst: Inst, space: Space, index: Array, lanes: Array, state: State) -> None:
        """Writes to what a tcgen05 operation reads: the writer knows that it is complete."""
        bad = np.flatnonzero(~self.completion.complete(lanes, int(state.lanes[0]), state.copy.time, of_a=state.of_a))
        if bad.size:
            self.report(
                TCGEN05_SOURCE,
                inst,
                "shared memory is written here that a tcgen05 operation may still read",
                lanes[bad],
                space=space,
                byte=int(index[bad[0]]) << space.shift,
                other=state.copy.inst,
            )

    def _examine_barrier(
        self, inst: Inst, space: Space, index: Array, lanes: Array, state: State, now: str, before: str
    ) -> None:
        if inst is state.copy.inst and state.copy.time == self.clocks.now:
            return
        clocks, machine = self.clocks, self.machine
        known = np.zeros(lanes.size, np.bool_)
        ctas = (index << space.shift) // machine.shared.shape[1] if space.name == "shared" else index * 0 - 1
        share = 2 if state.copy.inst.has("cta_group::2") else 1
        for cta, column in state.columns.items():
            here = clocks.knows(lanes, state.first_group + cta // machine.cluster_size, column, state.copy.time)
            # each CTA of a multicast, or pair of CTAs, has a barrier of its own for its data
            mine = ctas // share == cta // share
            known |= here & mine if before == "written" and len(state.columns) > 1 else here
        bad = np.flatnonzero(~known)
        if bad.size:
            what = "destination" if before == "written" else "source"
            self.report(
                BULK_COPY,
                inst,
                f"{space.name} memory {now} here is the {what} of a bulk copy that may still be in flight: the thread "
                f"has not waited for the phase of {self.shadow.mbarriers(state.copy.barriers)} that the copy completes",
                lanes[bad],
                space=space,
                byte=int(index[bad[0]]) << space.shift,
                other=state.copy.inst,
            )

    def _told(self, state: State, lanes: Array, told: Array) -> Array:
        """Which lanes know by an mbarrier that a copy is complete for the threads that told it at these times."""
        known = np.zeros(lanes.size, np.bool_)
        if state.copy.mechanism == "group" and np.count_nonzero(told):
            for cta, column in state.columns.items():
                key = state.first_group + cta // self.machine.cluster_size
                for time in np.unique(told[told > 0]).tolist():
                    at = np.flatnonzero(told == time)
                    known[at] |= self.clocks.knows(lanes[at], key, column, time)
        return known

    def _examine_group(
        self,
        inst: Inst,
        space: Space,
        index: Array,
        lanes: Array,
        stamps: Array,
        state: State,
        now: str,
        before: str,
    ) -> None:
        copy = state.copy
        who = stamps & THREAD
        local = who - self.context.first_lane
        table = state.read_done if before == "read" else state.done
        position = np.searchsorted(state.numbers, who)
        done = table[position]
        known = self._told(state, lanes, state.told[position])
        if np.count_nonzero(known):
            index, lanes, stamps = index[~known], lanes[~known], stamps[~known]
            who, local, done = who[~known], local[~known], done[~known]
        if copy.mechanism == "group" and before == "written" and inst.family is copy.inst.family:
            # copies of one thread may overwrite each other in any order only if they are in flight together
            done = np.where((local == lanes) & (done == 0), -1, done)
        waited = done > 0
        bad = np.flatnonzero(~waited)
        if bad.size:
            self._report_group(inst, space, int(index[bad[0]]), lanes[bad], int(who[bad[0]]), copy, now, before)
        at = np.flatnonzero(waited)
        if not at.size:
            return
        order = self.clocks.ordered(lanes[at], who[at], done[at])
        bad = at[~order]
        if bad.size:
            first = int(bad[0])
            verb = "wait_group" + (".read" if before == "read" else "")
            self.report(
                RACE,
                inst,
                f"data race: {space.name} memory {now} here was {before} by a copy of "
                f"{self.context.thread(int(who[first]))}, which waited for it ({verb}), but no barrier orders this thread "
                "after that wait",
                lanes[bad],
                hint=self.scopes.fault(int(lanes[first]), int(who[first]), int(done[first]))
                or "a wait_group is only for the thread that executes it: put a barrier after it",
                space=space,
                byte=int(index[first]) << space.shift,
                other=copy.inst,
            )
        elif before == "written" and copy.mechanism == "group":
            # from now on an ordinary write at the time of the wait
            here = index[at]
            same = space.write[here] == stamps[at]
            space.write[here[same]] = (done[at] << 32 | who[at])[same]

    def _report_group(
        self, inst: Inst, space: Space, granule: int, lanes: Array, who: int, copy: Copy, now: str, before: str
    ) -> None:
        """An access to a copy for whose group its issuer has not waited."""
        hint, memory = "", f"{space.name} memory {now} here"
        if copy.mechanism == "group":
            what = "destination" if before == "written" else "source"
            rule, message = CP_ASYNC, f"{memory} is the {what} of a cp.async that may still be in flight"
        elif before == "read":
            rule, message = BULK_SOURCE, f"{memory} is the source of a bulk copy that may still read it"
        else:
            rule, message = BULK_COPY, f"{memory} is the destination of a bulk copy that may still be in flight"
            hint = "the thread that issued the copy waits with cp.async.bulk.wait_group (not .read) first"
        self.report(
            rule,
            inst,
            f"{message}; it was issued by {self.context.thread(who)}",
            lanes,
            hint=hint,
            space=space,
            byte=granule << space.shift,
            other=copy.inst,
        )
