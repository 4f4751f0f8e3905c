"""Arrivals that may be counted in a round of a barrier, or a phase of an mbarrier, before the one they are for.

A barrier counts who comes, not who should: a count that is too small, or two sets of threads at one barrier, goes well as
long as everyone comes in time. In every order of threads an arrival must come after the end of the round before: the thread
knows of one that has waited for it, or of all arrivals in it. That does not depend on the order that a run happens to take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....dialects.ptx.async_copy import CpAsyncMbarrierArrive
from ....dialects.ptx.mbarrier import MbarrierArrive, MbarrierArriveDrop
from ...machine.program import Inst
from ..rule import Rule
from ..state.clocks import Clock
from ..state.context import Part

Array = Any
ARRIVE = (MbarrierArrive, MbarrierArriveDrop, CpAsyncMbarrierArrive)
BARRIER_ROUND = Rule(
    "barrier-round",
    ("9.7.15.1",),
    "a thread comes to a barrier and may be counted in the round before: the count is too small, or two sets of threads use "
    "one barrier",
    "give each set of threads that meet a barrier number of its own, and let the count be the number of all threads that come in "
    "a round",
)
MBARRIER_PHASE = Rule(
    "mbarrier-phase",
    ("9.7.15.16.4",),
    "a thread arrives at an mbarrier and may be counted in the phase before: the count of `mbarrier.init` is too small",
    "does the count of mbarrier.init match the arrivals of a phase? A thread that arrives again has waited for the phase before, "
    "or for a thread that has",
)
PHASES = 1 << 40
"""Added to an mbarrier's word: the column of its phases (`Clocks.column`)."""


@dataclass(slots=True)
class Arrivals:
    """Who arrived in a round: lanes at times, and the last instruction that did; `end`: when the round was over."""

    came: list[tuple[Array, int]] = field(default_factory=list[tuple[Array, int]])
    inst: Inst | None = None
    end: int = 0
    waited: Array = None
    """The lanes that waited for a barrier's round."""


class Rounds(Part):
    """The running and the last round of each barrier, (number, CTA), and mbarrier, its word."""

    rules = (BARRIER_ROUND, MBARRIER_PHASE)

    def start(self) -> None:
        self.running: dict[object, Arrivals] = {}
        self.last: dict[object, Arrivals] = {}
        self.loose: set[int] = set()
        """Mbarriers that relaxed operations use, which tell nobody what they know."""

    def _came(self, key: object, inst: Inst, lanes: Array) -> None:
        running = self.running.setdefault(key, Arrivals())
        running.came.append((lanes, self.clocks.now))
        running.inst = inst

    def _end(self, key: object) -> Arrivals:
        ended = self.last[key] = self.running.pop(key, Arrivals())
        ended.end = self.clocks.now
        return ended

    def _after_all(self, lanes: Array, last: Arrivals) -> Array:
        """Which lanes know of all arrivals of a round."""
        clocks = self.clocks
        known = np.ones(lanes.size, np.bool_)
        for others, time in last.came:
            a, b = np.repeat(lanes, others.size), np.tile(others + self.context.first_lane, lanes.size)
            known &= clocks.ordered(a, b, np.full(a.size, time)).reshape(lanes.size, -1).all(axis=1)
        return known & bool(last.came)

    # ---------------------------------------------------------------------------------------------------- barriers

    def at_barrier(self, inst: Inst, number: int, cta: int, lanes: Array) -> None:
        """Threads come to a barrier that is for a part of their CTA."""
        key = number, cta
        last = self.last.get(key)
        if last is not None:
            new = lanes[~np.isin(lanes, last.waited)]
            # one thread of each warp: it executes the barrier as a whole
            new = new[np.flatnonzero(np.diff(new // 32, prepend=-1))]
            early = new[~(self._after_some(new, last) | self._after_all(new, last))] if new.size else new
            if early.size:
                self.report(
                    BARRIER_ROUND,
                    inst,
                    f"threads come to barrier {number} and do not know that the round of it before is over: they may be "
                    "counted in that round in place of others",
                    early,
                    other=last.inst,
                )
        self._came(key, inst, lanes)

    def _after_some(self, lanes: Array, last: Arrivals) -> Array:
        """Which lanes know of one that has waited for the round."""
        firsts = last.waited[np.flatnonzero(np.diff(last.waited // 32, prepend=-1))]
        a, b = np.repeat(lanes, firsts.size), np.tile(firsts + self.context.first_lane, lanes.size)
        return self.clocks.ordered(a, b, np.full(a.size, last.end)).reshape(lanes.size, -1).any(axis=1)

    def barrier_over(self, number: int, cta: int, lanes: Array) -> None:
        """A round is over; these lanes waited for it."""
        if (number, cta) in self.running:
            self._end((number, cta)).waited = lanes

    # --------------------------------------------------------------------------------------------------- mbarriers

    def initialised(self, slot: int) -> None:
        self.running.pop(slot, None)
        self.last.pop(slot, None)
        self.loose.discard(slot)

    def updated(self, inst: Inst, slot: int, lanes: Array, later: Array) -> None:
        """Threads arrive at an mbarrier; `later`: those of them that came after the end of a phase that others of them
        completed.
        """
        if inst.family not in ARRIVE or slot in self.loose:
            return
        if inst.has("relaxed"):
            self.loose.add(slot)
            return
        early = lanes[later]
        last = self.last.get(slot)
        if last is not None and not early.size:
            unknown = lanes[~self._knows(slot, lanes, last.end)]
            early = unknown[~self._after_all(unknown, last)] if unknown.size else unknown
        if early.size:
            space = self.shadow.shared
            self.report(
                MBARRIER_PHASE,
                inst,
                "threads arrive at an mbarrier and do not know that the phase of it before is complete: they may be counted "
                "in that phase in place of others",
                early,
                space=space,
                byte=8 * slot,
            )
        self._came(slot, inst, lanes)

    def _knows(self, slot: int, lanes: Array, end: int) -> Array:
        group, column = self._column(slot)
        return self.clocks.knows(lanes, self.clocks.first_group + group, column, end)

    def _column(self, slot: int) -> tuple[int, int]:
        """(cluster of the batch, column) that says which phases of an mbarrier are known to be complete."""
        group = slot * 8 // self.machine.shared.shape[1] // self.machine.cluster_size
        return group, self.clocks.column(group, slot + PHASES)

    def known(self, lane: int) -> Array:
        """What a lane knows of phases, as a row of its cluster: a copy that it issues completes after them, too, although it
        publishes nothing else of what the lane knows.
        """
        clocks = self.clocks
        row = np.zeros(clocks.width, np.int32)
        if clocks.matrix is not None:
            group = int(clocks.group_of[lane])
            columns = [column for key, column in clocks.columns[group].items() if key >= PHASES]
            row[columns] = clocks.matrix[group, int(clocks.local[lane]), columns]
        return row

    def phase_ended(self, slot: int) -> Clock:
        """A phase is complete: what those learn who wait for it."""
        self._end(slot)
        clock = Clock()
        group, column = self._column(slot)
        row = np.zeros(self.clocks.width, np.int32)
        row[column] = self.clocks.now
        clock.rows[self.clocks.first_group + group] = row
        return clock
