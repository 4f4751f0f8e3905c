"""Release and acquire patterns (PTX ISA 8.8) and what they synchronise (8.9.4).

A pattern has a first and a last operation: a release or an acquire operation, or a fence. What is kept of a place in
memory is what release patterns brought to its present value, by the scope of their first operations; a chain of atomics
hands it on (8.9.2). A thread that reads the value acquires what has a first operation that is morally strong with the
last one of its own pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from ...machine.program import Inst
from .clocks import Clock, Clocks, Fences
from .context import Context, Part
from .history import CLUSTER, CTA, GPU, WEAK

Array = Any
Place: TypeAlias = "tuple[str, int, int]"
"""Space, granule and bytes of a flag or counter; an mbarrier's space is `mbarrier`, its granule its number."""
Seen: TypeAlias = "tuple[Clock, Clock, Clock]"
"""What a value tells those who acquire with the scope of the CTA, of the cluster, of the GPU."""


def scope_of(inst: Inst) -> int:
    """CTA, CLUSTER or GPU."""
    if inst.has("cta"):
        return CTA
    return CLUSTER if inst.has("cluster") else GPU


def kind_of(inst: Inst) -> int:
    """Weak, or strong with a scope."""
    has = set(inst.modifiers)
    if inst.family.access != "atomic" and not has & {"volatile", "relaxed", "acquire", "release", "mmio"}:
        return WEAK
    return scope_of(inst)


def releases(inst: Inst) -> bool:
    return inst.has("release") or inst.has("acq_rel")


def acquires(inst: Inst) -> bool:
    return inst.has("acquire") or inst.has("acq_rel")


def is_sc(inst: Inst) -> bool:
    """Whether a fence is sequentially consistent, as every membar is and a fence that does not say."""
    return inst.fences == "memory" and not (acquires(inst) or inst.has("release"))


class Released:
    """What was released to the present value of a place, by the scope of what released it."""

    __slots__ = ("far", "mid", "near")

    def __init__(self) -> None:
        self.far = Clock()
        """By releases of the scope of the GPU."""
        self.mid: dict[int, Clock] = {}
        """By those of the scope of the cluster, by cluster of the batch."""
        self.near: dict[int, Clock] = {}
        """By those of the scope of the CTA, by CTA of the batch."""

    def add(self, cta: int, cluster: int, scope: int, clock: Clock, narrow: bool) -> None:
        """`narrow`: some operation acquires with less than the scope of the GPU, so that it matters who released."""
        if scope == CTA or narrow:
            _add(self.near, cta, clock)
        if scope == CLUSTER or (narrow and scope == GPU):
            _add(self.mid, cluster, clock)
        if scope == GPU:
            self.far.merge(clock)

    def merge(self, other: Released) -> None:
        for mine, more in ((self.near, other.near), (self.mid, other.mid)):
            for key, clock in more.items():
                _add(mine, key, clock)
        self.far.merge(other.far)

    def seen_by(self, cta: int, cluster: int) -> Seen:
        """What threads of a CTA see; it may change with the next release."""
        if not self.near and not self.mid:
            return self.far, self.far, self.far
        near = self.near.get(cta) or Clock()
        mid = joined(near, self.mid.get(cluster))
        return near, mid, joined(mid, self.far)


def _add(clocks: dict[int, Clock], key: int, clock: Clock) -> None:
    known = clocks.get(key)
    if known is None:
        clocks[key] = clock.copy()
    else:
        known.merge(clock)


def joined(a: Clock, b: Clock | None) -> Clock:
    both = a.copy()
    if b is not None:
        both.merge(b)
    return both


class FenceLog:
    """The last releasing fences of each lane, by scope: `by_scope[scope]` are those of this scope or wider. Scopes that no
    fence of the program tells apart share a log.
    """

    def __init__(self, clocks: Clocks, fences: Sequence[Inst]):
        used = sorted({scope_of(inst) for inst in fences})
        self.logs = {scope: Fences(clocks) for scope in used}
        self.by_scope = {s: next((self.logs[u] for u in used if u >= s), None) for s in (CTA, CLUSTER, GPU)}

    def start(self) -> None:
        for log in self.logs.values():
            log.start()

    def executed(self, inst: Inst, lanes: Array, now: int) -> None:
        for scope, log in self.logs.items():
            if scope <= scope_of(inst):
                log.executed(lanes, now)

    def executed_by(self, lanes: Array) -> Iterator[tuple[int, Fences, Array]]:
        """(scope, log, those of the lanes that have executed such a fence)."""
        for scope, log in self.logs.items():
            some = lanes[log.time[lanes] > 0]
            if some.size:
                yield scope, log, some


class Patterns(Part):
    """The patterns of a launch."""

    def __init__(self, context: Context):
        super().__init__(context)
        instructions = self.machine.program.instructions
        fences = [i for i in instructions if i.fences in ("memory", "mbarrier_init")]
        self.fences = FenceLog(self.clocks, [i for i in fences if not i.has("acquire")])
        self.sc_fences = FenceLog(self.clocks, [i for i in fences if is_sc(i)])
        self.values: dict[Place, Released] = {}
        """What was released to the present value of each place."""
        self.compared: tuple[dict[Place, Released], dict[Place, Released]] = {}, {}
        """What threads knew at their last fence.sc before they read a place, and before they wrote it: a write that comes
        after either, or a read after the latter, fixes the Fence-SC order of fences around them (8.9.3).
        """
        strong = [
            i for i in instructions if kind_of(i) != WEAK and i.family.access in ("load", "store", "atomic", "object")
        ]
        self.continues = any(not releases(i) for i in strong if i.family.access != "load")
        """Whether some strong write may continue the pattern of a release operation before it."""
        self.narrow = any(scope_of(i) != GPU for i in (*strong, *fences) if i.fences or acquires(i) or i.family.polls)
        """Whether some operation acquires with less than the scope of the GPU."""
        self.acquires_late = any(acquires(i) for i in strong) or any(not i.has("release") for i in fences)
        """Whether some operation may acquire what a relaxed read before it has seen."""
        self.own: dict[tuple[int, Place], Released] = {}
        """What a lane has released to a place."""
        self.waiting: dict[int, dict[Place, Seen]] = {}
        """What lanes have seen by strong reads, for a fence or acquire operation after them."""
        self.fixed: dict[int, dict[Place, Seen]] = {}
        """The same of the fences before accesses in `compared`, for a fence.sc after them."""

    def restart(self) -> None:
        """The launch begins again."""
        for table in (self.values, *self.compared):
            table.clear()

    def start(self) -> None:
        self.fences.start()
        self.sc_fences.start()
        self.waiting.clear()
        self.fixed.clear()
        self.own.clear()
        for table in (self.values, *self.compared):
            for place in [p for p in table if p[0] != "global"]:
                del table[place]
            for released in table.values():
                released.near.clear()  # those CTAs have ended
                released.mid.clear()

    def _ctas(self, lanes: Array) -> Iterator[tuple[int, int, Array]]:
        """(CTA, cluster, lanes of it)."""
        ctas = self.machine.cta_of_lane[lanes]
        if lanes.size == 1:
            cta = int(ctas[0])
            yield cta, cta // self.machine.cluster_size, lanes
            return
        for cta in np.unique(ctas).tolist():
            yield cta, cta // self.machine.cluster_size, lanes[ctas == cta]

    # ----------------------------------------------------------------------------------------------------------- fences

    def fence(self, inst: Inst, lanes: Array, now: int) -> None:
        if not inst.has("release"):
            scope = scope_of(inst)
            for table in (self.waiting, self.fixed) if is_sc(inst) else (self.waiting,):
                for lane in lanes.tolist() if table else ():
                    seen = table.get(lane)
                    if seen is not None:
                        self._acquire(lane, seen.values(), scope)
                        if scope == GPU:
                            del table[lane]
        if not inst.has("acquire"):
            self.fences.executed(inst, lanes, now)
            if is_sc(inst):
                self.sc_fences.executed(inst, lanes, now)

    def _acquire(self, lane: int, seen: Iterable[Seen], scope: int) -> None:
        for clocks in seen:
            self.clocks.acquire(np.array([lane]), clocks[scope - 1])

    def met(self, lanes: Array) -> None:
        """Threads met at a barrier: a fence after it makes known to each what any of them has seen before."""
        found: dict[Place, dict[int, Seen]] = {}
        for lane in lanes.tolist():
            for place, seen in self.waiting.get(lane, {}).items():
                found.setdefault(place, {})[id(seen)] = seen  # lanes that met before have the same
        if found:
            both = {place: reduce(_both, several.values()) for place, several in found.items()}
            self.waiting.update({lane: dict(both) for lane in lanes.tolist()})

    # ------------------------------------------------------------------------------------------------ strong operations

    def hands_on(self, inst: Inst, lanes: Array) -> bool:
        """Whether a strong write of these lanes may change what is known of any place."""
        return bool(
            self.values
            or self.own
            or self.sc_fences.logs
            or releases(inst)
            or any(np.count_nonzero(log.time[lanes]) for log in self.fences.logs.values())
        )

    def write(self, inst: Inst, place: Place, lanes: Array, *, update: bool, into: Released | None = None) -> None:
        """Lanes write a place strongly. `update`: as part of the observation order, so that what was released to the value
        before stays. `into`: where mbarriers keep it.
        """
        if not update:
            self.values.pop(place, None)
        released = into
        scope = scope_of(inst)
        for cta, cluster, here in self._ctas(lanes):
            found: list[tuple[int, Clock]] = []
            if releases(inst):
                found.append((scope, self.clocks.release(here)))
            found += [(s, self.clocks.release(some, log)) for s, log, some in self.fences.executed_by(here)]
            for s, clock in found:
                if released is None:
                    released = self.values.setdefault(place, Released())
                released.add(cta, cluster, s, clock, self.narrow)
            for lane in here.tolist() if self.own else ():
                mine = self.own.get((lane, place))
                if mine is not None:
                    if released is None:
                        released = self.values.setdefault(place, Released())
                    released.merge(mine)
            if releases(inst) and self.continues:
                for lane in here.tolist():
                    self.own.setdefault((lane, place), Released()).add(cta, cluster, *found[0], self.narrow)

    def read(self, inst: Inst, place: Place, lanes: Array, released: Released | None) -> None:
        """Lanes read a value to which this was released."""
        if released is None and not self.waiting:
            return
        scope = scope_of(inst)
        for cta, cluster, here in self._ctas(lanes):
            seen = None if released is None else released.seen_by(cta, cluster)
            if acquires(inst):
                if seen is not None:
                    self.clocks.acquire(here, seen[scope - 1])
                for lane in here.tolist() if self.waiting else ():
                    before = self.waiting.get(lane, {}).get(place)
                    if before is not None:
                        self._acquire(lane, (before,), scope)
            if seen is not None and self.acquires_late and any(clock.rows for clock in seen):
                _see(self.waiting, here, place, seen)

    def compare(self, place: Place, lanes: Array, *, reads: bool, writes: bool) -> None:
        """Strong accesses between fences of `fence.sc`."""
        if not self.sc_fences.logs:
            return
        after_read, after_write = self.compared
        for cta, cluster, here in self._ctas(lanes):
            for table in (after_write, after_read) if writes else (after_write,):
                released = table.get(place)
                if released is not None:
                    _see(self.fixed, here, place, released.seen_by(cta, cluster))
            for scope, log, some in self.sc_fences.executed_by(here):
                clock = self.clocks.release(some, log)
                for does, table in ((reads, after_read), (writes, after_write)):
                    if does:
                        table.setdefault(place, Released()).add(cta, cluster, scope, clock, self.narrow)


def _see(table: dict[int, dict[Place, Seen]], lanes: Array, place: Place, seen: Seen) -> None:
    """Lanes have seen this of a place, which may change later: they keep it as it is now, in one copy."""
    near, mid, far = seen
    kept = near.copy(), mid.copy(), far.copy()
    for lane in lanes.tolist():
        places = table.setdefault(lane, {})
        known = places.get(place)
        places[place] = kept if known is None else _both(kept, known)


def _both(a: Seen, b: Seen) -> Seen:
    near, mid, far = (joined(x, y) for x, y in zip(a, b, strict=True))
    return near, mid, far
