"""Data races (PTX ISA 8.7.1): two accesses to the same bytes, at least one a write, that are not
morally strong and neither of which precedes the other in causality order. docs/memory-model.md goes through the chapter.

Like FastTrack, with the last write and the last read of each granule and a `History` of others that they do not follow:
with up to four threads at a granule no race is missed, and none is invented.

Several threads that store the same value to one place are not reported: the result is the same in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...machine.program import Inst
from ..rule import Rule
from ..state.context import Context, Part
from ..state.history import History
from ..state.lockstep import Lockstep
from ..state.observation import Observation, scalar_size
from ..state.order import Order, firsts, neighbours
from ..state.scopes import Scopes
from ..state.shadow import ASYNC, GPU, THREAD, WEAK, Space
from ..state.unused import Unused
from .replicas import Replicas

Array = Any
RACE = Rule(
    "race",
    ("8.7.1",),
    "two threads access the same bytes, one of them writes, and nothing orders the two",
    "put a barrier (bar.sync, or bar.warp.sync within a warp) between the two accesses, or an mbarrier that the first arrives at "
    "and the second waits for",
)


def _together(index: Array, losers: Array, width: int, differ: Array) -> tuple[int, int]:
    """Of the granules that several threads of one instruction wrote, each `width` of them, and that `losers` do not hold now:
    how many threads met at one of those that `differ`, at most, and at how many places.
    """
    firsts = np.full(int(losers.max()) + 1, int(index.max()))
    np.minimum.at(firsts, losers, index)  # each thread's place
    places = np.unique(firsts[losers[np.isin(index, differ)]])
    lanes = np.unique(losers)
    met = np.unique(firsts[lanes], return_counts=True)
    most = int(met[1][np.isin(met[0], places)].max()) + 1
    return most, places.size


def _hint_of_strong(inst: Inst, other: Inst) -> str:
    size, other_size = scalar_size(inst), scalar_size(other)
    if size == other_size:
        return "both accesses are strong, but a scope does not reach the other thread: widen it"
    return f"strong accesses of {other_size} and {size} bytes overlap in part only: give them the same size"


class Races(Part):
    """The race detector of a launch."""

    rules = (RACE,)

    def __init__(self, context: Context):
        super().__init__(context)
        self.order, self.observation = context.part(Order), context.part(Observation)
        self.lockstep, self.unused = context.part(Lockstep), context.part(Unused)
        self.scopes, self.replicas = context.part(Scopes), context.part(Replicas)
        self.asynchronous: Callable[[Inst, Space, Array, Array, Array, str, str], None]
        """Examines accesses to what copies have written or read; `CopiesInFlight` gives it."""

    def check(
        self,
        inst: Inst,
        space: Space,
        index: Array,
        lanes: Array,
        stamps: Array,
        kind: int,
        now: str,
        before: str,
        same: Any = None,
    ) -> None:
        """Check accesses against earlier ones, one for each with these stamps. `same`: which lanes write what is there."""
        late = self.order.late(space, stamps, lanes)
        if len(late):
            self.examine(inst, space, index[late], lanes[late], stamps[late], kind, now, before, same)

    def examine(
        self,
        inst: Inst,
        space: Space,
        index: Array,
        lanes: Array,
        stamps: Array,
        kind: int,
        now: str,
        before: str,
        same: Any = None,
    ) -> None:
        """Earlier accesses that no barrier of the CTA orders: report those that nothing else orders."""
        waits = stamps >= ASYNC
        if count := np.count_nonzero(waits):
            if count == stamps.size:
                self.asynchronous(inst, space, index, lanes, stamps, now, before)
                return
            at = np.flatnonzero(waits)
            self.asynchronous(inst, space, index[at], lanes[at], stamps[at], now, before)
            at = np.flatnonzero(~waits)
            index, lanes, stamps = index[at], lanes[at], stamps[at]
        bad = np.flatnonzero(~self._harmless(inst, lanes, stamps, kind))
        if not bad.size:
            return
        times = stamps >> 32
        if before != "read":
            bad = bad[~self.observation.observed(space, index[bad], lanes[bad], stamps[bad])]
        if same is not None and bad.size:  # an atomic makes another value of the same one
            update = [self.context.instruction_at(t).family.access == "atomic" for t in times[bad].tolist()]
            bad = bad[~same(lanes[bad]) | np.array(update, np.bool_)]
        if bad.size:
            bad = bad[~self.replicas.told(inst, space, index[bad], lanes[bad], stamps[bad], now, before)]
        if bad.size:

            def told(which: Array) -> None:
                self._report(inst, space, index[which], lanes[which], stamps[which], kind, now, before)

            held = self.unused.hold(
                inst,
                index[bad],
                lanes[bad],
                stamps[bad],
                now,
                before,
                self.replicas.executions,
                lambda at: told(bad[at]),
            )
            if not held.all():
                told(bad[~held])

    def _harmless(self, inst: Inst, lanes: Array, stamps: Array, kind: int) -> Array:
        """Which accesses with these stamps happen before what lanes do now, or are morally strong with it."""
        times, who = stamps >> 32, stamps & THREAD
        ok = self.clocks.ordered(lanes, who, times)
        if kind:
            strong = (stamps >> 28 & 3 != WEAK) & self.observation.morally_strong(inst, lanes, stamps, kind)
            self.lockstep.unordered(inst, lanes, stamps, who - self.context.first_lane, strong & ~ok)
            ok |= strong
        return ok

    def _against(
        self,
        history: History | None,
        inst: Inst,
        space: Space,
        index: Array,
        lanes: Array,
        kind: int,
        now: str,
        before: str,
        same: Any = None,
    ) -> None:
        """Check accesses against a history; most of that is harmless, and is looked at in one go."""
        if history is None:
            return
        stamps = history.tables[:, index]
        which = self.order.late_mask(space, stamps, lanes)
        slots, at = which.nonzero()
        if not at.size:
            return
        late = stamps[slots, at]
        if not np.count_nonzero(late >= ASYNC) and self._harmless(inst, lanes[at], late, kind).all():
            return
        for row, some in zip(stamps, which, strict=True):
            where = np.flatnonzero(some)
            if where.size:
                self.examine(inst, space, index[where], lanes[where], row[where], kind, now, before, same)

    def _report(
        self, inst: Inst, space: Space, index: Array, lanes: Array, stamps: Array, kind: int, now: str, before: str
    ) -> None:
        who, other = int(stamps[0]) & THREAD, self.context.instruction_at(int(stamps[0]) >> 32)
        strong = bool(kind and int(stamps[0]) >> 28 & 3)
        self.report(
            RACE,
            inst,
            f"data race: {space.name} memory {now} here was {before} by {self.context.thread(who)} without a "
            "synchronisation between them",
            lanes,
            hint=_hint_of_strong(inst, other) if strong else self._hint(int(lanes[0]), who, int(stamps[0]) >> 32),
            space=space,
            byte=int(index[0]) << space.shift,
            other=other,
        )

    def _hint(self, lane: int, who: int, time: int) -> str:
        """What would order two threads; nothing for threads of one CTA, for which the rule says it."""
        machine, mine = self.machine, int(self.order.numbers[lane])
        if who // machine.padded == mine // machine.padded:
            return ""
        ctas = machine.cluster_size * machine.padded
        near = who // ctas == mine // ctas
        return self.scopes.fault(lane, who, time) or (
            f"threads of different CTAs {'of a cluster ' if near else ''}need a release and an acquire of "
            f"{'.cluster' if near else '.gpu'} scope between them, or atomics"
        )

    def against_readers(
        self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int, *, one: bool = False
    ) -> None:
        """`one`: all of it is done by one lane."""
        if not one:
            self.check(inst, space, index, lanes, space.reads.last[index], kind, "written", "read")
            self._against(space.reads.more, inst, space, index, lanes, kind, "written", "read")
            return
        where = neighbours(index)
        for table in space.reads.tables:
            read = table[where]
            part = firsts(read)
            self.check(inst, space, index[part], lanes[part], read[part], kind, "written", "read")

    def against_updates(
        self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int, now: str, same: Any = None
    ) -> None:
        """Check an access against the atomics that others came after."""
        if space.updates is None or (kind == GPU and not space.updates.narrow and not self.observation.mixed):
            return
        self._against(space.updates, inst, space, index, lanes, kind, now, "updated", same)

    def collided(self, inst: Inst, space: Space, index: Array, losers: Array, size: int, differ: Array) -> None:
        """Threads wrote to one place with one instruction: at those of `differ` not what is there now."""
        at = np.flatnonzero(differ)
        threads, places = _together(index, losers, size >> space.shift, index[at])
        self.report(
            RACE,
            inst,
            f"{threads} threads write different values to the same place with one instruction"
            + (f", at {places} places, first" if places > 1 else ""),
            losers[at],
            space=space,
            byte=int(index[at[0]]) << space.shift,
            hint="let one thread write, give each thread its own place, or use red/atom",
            key="self",
        )
