"""Data races and uninitialised memory (PTX ISA 8.7.1): two accesses to the same bytes, at least one a write
and at least one weak, neither of which happens before the other. Like FastTrack, with the last write, the last
read and the first read since a barrier of each granule, and a few of its atomics (`updates`), so that a race may
be missed among many readers or updates, and none is invented.

Several threads that store the same value to one place are not reported: the result is the same in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.ptx.mbarrier import MbarrierInval
from ..memory import Access
from ..observe import Action
from ..program import Inst
from .clocks import Clock, Fences
from .shadow import ASYNC, CLUSTER, CTA, GPU, THREAD, WEAK, Space
from .updates import Updates

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any


def kind_of(inst: Inst) -> int:
    """Weak, or strong with a scope."""
    has = set(inst.modifiers)
    if inst.family.access != "atomic" and not has & {"volatile", "relaxed", "acquire", "release", "mmio"}:
        return WEAK
    if "cta" in has:
        return CTA
    return CLUSTER if "cluster" in has else GPU


class Released:
    """What was released through a flag or counter."""

    __slots__ = ("far", "near")

    def __init__(self) -> None:
        self.far = Clock()
        """By releases whose scope is wider than the CTA."""
        self.near: dict[int, Clock] = {}
        """By all releases, by CTA of the batch."""

    def add(self, cta: int, clock: Clock, wide: bool) -> None:
        known = self.near.get(cta)
        self.near[cta] = clock.copy() if known is None else joined(known, clock)
        if wide:
            self.far = joined(self.far, clock)

    def seen_by(self, cta: int, wide: bool) -> Clock:
        """What an acquire by a thread of a CTA brings; `wide`: its scope is wider than the CTA."""
        own = self.near.get(cta)
        if not wide:
            return own or Clock()
        return self.far if own is None else joined(self.far, own)


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


def joined(a: Clock, b: Clock) -> Clock:
    both = a.copy()
    both.merge(b)
    return both


class Races:
    """The race detector of a launch."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer
        self.machine = sanitizer.machine
        self.shadow, self.clocks = sanitizer.shadow, sanitizer.clocks
        self.off = self.clocks.too_large
        lanes = self.machine.lanes
        self.limit = np.zeros(lanes, np.int64)
        """Stamps of the own CTA below this are ordered before what a lane does now."""
        self.objects: dict[tuple[str, int], Released] = {}
        """(space, granule) of flags and counters -> what was released through them."""
        self.fences = Fences(self.clocks)
        self.wide_fences = Fences(self.clocks)
        """Those of a scope wider than the CTA."""
        self.waiting: dict[int, tuple[Clock, Clock]] = {}
        """What lanes have seen through relaxed reads; a fence makes it known to them: one of CTA scope the first, others
        the second.
        """
        self.told: set[int] = set()

    def start(self) -> None:
        self.limit[...] = 0
        self.fences.start()
        self.wide_fences.start()
        self.waiting.clear()
        self.objects = {k: v for k, v in self.objects.items() if k[0] == "global"}
        for released in self.objects.values():
            released.near.clear()  # those CTAs have ended
        self.numbers = self.machine.lane_numbers + self.s.first_lane
        self.enclosed = self.machine.launch.grid_size

    def synchronised(self) -> None:
        """The floors changed."""
        self.limit = (self.clocks.floor + 1) << 32

    # -------------------------------------------------------------------------------------------------- binding

    def watch(self, access: Access) -> None:
        """Replace an access's `load`, `store` and `locate` by checked ones."""
        inst = access.inst
        if inst.family is MbarrierInval:
            access.store = self.s.barriers.invalidating(access, access.store)
            return
        if access.space in ("param", "const") or inst.family.access in ("copy", "object"):
            return  # copies and mbarriers tell what they touch themselves
        kind = kind_of(inst)
        load, store, locate = access.load, access.store, access.locate
        atomic = inst.family.access == "atomic"

        def checked_load(lanes: Array) -> Array:
            values = load(lanes)
            self.read(access, lanes, kind)
            return values

        def checked_store(lanes: Array, values: Array) -> None:
            try:
                self.write(access, lanes, kind, values, load)
            except IndexError:
                store(lanes, values)  # says what is out of bounds
                raise
            store(lanes, values)
            self.stored(access, lanes, values, load)

        def checked_locate(lanes: Array, write: bool) -> Array:
            parts = locate(lanes, write)
            if atomic:
                self.atomic(access, lanes, kind)
            return parts

        access.load = checked_load
        access.store = checked_store
        access.locate = checked_locate

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.fences in ("memory", "mbarrier_init"):  # the latter orders less: a race behind it may be missed

            def fence(mask: Array) -> object:
                self.fence(inst, mask)
                return action(mask)

            return fence
        return action

    def fence(self, inst: Inst, mask: Array) -> None:
        lanes = np.flatnonzero(self.machine.active(inst, mask))
        now = self.s.tick(inst)
        wide = not inst.has("cta")
        if not inst.has("acquire"):
            self.fences.executed(lanes, now)
            if wide:
                self.wide_fences.executed(lanes, now)
        if self.waiting:
            for lane in lanes.tolist():
                clocks = self.waiting.get(lane)
                if clocks is not None:
                    self.clocks.acquire(np.array([lane]), clocks[wide])
                    if wide:
                        del self.waiting[lane]

    def met(self, lanes: Array) -> None:
        """Threads met at a barrier: a fence after it makes known to each what any of them has seen before."""
        seen = {id(c): c for c in (self.waiting.get(lane) for lane in lanes.tolist()) if c is not None}
        if seen:
            near, far = Clock(), Clock()
            for a, b in seen.values():
                near.merge(a)
                far.merge(b)
            self.waiting.update(dict.fromkeys(lanes.tolist(), (near, far)))

    # ------------------------------------------------------------------------------------------------- accesses

    def _granules(self, space: Space, first: Array, lanes: Array, size: int) -> tuple[Array, Array]:
        index = first >> space.shift
        count = size >> space.shift
        if count > 1:
            index = (index[:, None] + np.arange(count)).reshape(-1)
            lanes = np.repeat(lanes, count)
        return index, lanes

    def _late(self, space: Space, stamps: Array, lanes: Array) -> Array:
        """Indices of stamps that a barrier of the own CTA does not order."""
        if space.name == "shared" and self.machine.cluster_size == 1:
            late = stamps >= self.limit[lanes]
            late &= stamps != 0
        else:
            # most of what threads find is their own
            late = (stamps != 0) & ((stamps & THREAD) != self.numbers[lanes]) | (stamps >= ASYNC)
        return np.flatnonzero(late) if np.count_nonzero(late) else ()

    def _near(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        if space.name == "shared" and self.machine.cluster_size > 1:
            self.s.barriers.check_begun(inst, lanes, space, index)

    def read(self, access: Access, lanes: Array, kind: int) -> None:
        """Check and keep the reads of an access."""
        inst = access.inst
        now = self.s.tick(inst)
        everyone = self.machine.lane_numbers if lanes is None else lanes
        parameter = inst.has("param")  # the machine itself fills those of functions
        for space, first, where in self.shadow.places(access, lanes):
            chosen = everyone if where is None else everyone[where]
            index, chosen = self._granules(space, first, chosen, access.size)
            self._near(inst, space, index, chosen)
            self.s.barriers.check_untouched(inst, space, index, chosen, "read")
            written = space.write[index]
            nothing = () if parameter else space.unwritten(index, written)
            if len(nothing):
                self._uninitialised(inst, space, index, chosen, nothing)
            if space.name == "local" and not parameter:
                continue
            if self.off:
                continue
            if kind and self.objects:
                self._acquire(inst, space, index, chosen)
            late = self._late(space, written, chosen)
            if len(late):
                self.examine(inst, space, index[late], chosen[late], written[late], kind, "read", "written")
            self.against_updates(inst, space, index, chosen, kind, "read")
            stamp = self.numbers[chosen] + (now << 32 | kind << 28)
            if space.read_first is not space.read:
                stale = space.read_first[index] < self.limit[chosen]
                if np.count_nonzero(stale):
                    at = np.flatnonzero(stale)[::-1]
                    space.read_first[index[at]] = stamp[at]
            space.read[index] = stamp
        if kind:
            self.s.progress.polled(inst, everyone)

    def write(self, access: Access, lanes: Array, kind: int, values: Array, load: Any) -> None:
        """Check and keep the writes of an access that is about to happen."""
        inst = access.inst
        now = self.s.tick(inst)
        self.s.progress.made()
        everyone = self.machine.lane_numbers if lanes is None else lanes
        self._collided: list[tuple[Space, Array, Array]] = []
        for space, first, where in self.shadow.places(access, lanes):
            chosen = everyone if where is None else everyone[where]
            index, chosen = self._granules(space, first, chosen, access.size)
            self._near(inst, space, index, chosen)
            self.s.barriers.check_untouched(inst, space, index, chosen, "written")
            stamp = self.numbers[chosen] + (now << 32 | kind << 28)
            if space.name == "local":
                space.write[index] = stamp
                continue
            if not self.off:

                def same(bad: Array) -> Array:
                    return self._same(access, bad, everyone, values, load)

                self._examine_write(inst, space, index, chosen, kind, same)
                if kind:
                    self._release(inst, space, index, chosen, False)
            space.write[index] = stamp
            if chosen.size > 1:
                lost = space.write[index] != stamp
                if np.count_nonzero(lost):
                    self._collided.append((space, index[lost], chosen[lost]))

    def filled(self, inst: Inst, lane: int, start: int, size: int) -> None:
        """A thread stores zeros to a part of shared memory."""
        now = self.s.tick(inst)
        self.s.progress.made()
        space = self.shadow.shared
        index = np.arange(start >> space.shift, (start + size - 1 >> space.shift) + 1)
        lanes = np.full(index.size, lane)
        self._near(inst, space, index, lanes)
        self.s.barriers.check_untouched(inst, space, index, lanes, "written")
        if not self.off:
            self._examine_write(inst, space, index, lanes, WEAK)
        space.write[index] = self.numbers[lane] + (now << 32 | WEAK << 28)

    def _examine_write(self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int, same: Any = None) -> None:
        """Check a write of shared or global memory against what came before."""
        written = space.write[index]
        late = self._late(space, written, lanes)
        if len(late):
            self.examine(inst, space, index[late], lanes[late], written[late], kind, "written", "written", same)
        self.against_updates(inst, space, index, lanes, kind, "written", same)
        if space.updates is not None:
            space.updates.forget(index)
        self._against_readers(inst, space, index, lanes, kind)

    def _against_readers(self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int) -> None:
        read = space.read[index]
        late = self._late(space, read, lanes)
        if len(late):
            self.examine(inst, space, index[late], lanes[late], read[late], kind, "written", "read")
        if space.read_first is not space.read:
            read = space.read_first[index]
            late = self._late(space, read, lanes)
            if len(late):
                self.examine(inst, space, index[late], lanes[late], read[late], kind, "written", "read")

    def against_updates(
        self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int, now: str, same: Any = None
    ) -> None:
        """Check an access against the atomics that others came after."""
        if space.updates is None or (kind == GPU and not space.updates.narrow):
            return
        for table in space.updates.tables:
            stamps = table[index]
            late = self._late(space, stamps, lanes)
            if len(late):
                self.examine(inst, space, index[late], lanes[late], stamps[late], kind, now, "updated", same)

    def stored(self, access: Access, lanes: Array, values: Array, load: Any) -> None:
        """After a store: threads of the instruction that wrote different values to one place."""
        if not self._collided or self.off:
            return
        everyone = self.machine.lane_numbers if lanes is None else lanes
        inst = access.inst
        kind = kind_of(inst)
        for space, index, losers in self._collided:
            if kind != WEAK and (kind != CTA or np.unique(self.machine.cta_of_lane[losers]).size == 1):
                continue  # strong stores that see each other do not race: any of them wins
            differ = ~self._same(access, losers, everyone, values, load)
            if np.count_nonzero(differ):
                at = np.flatnonzero(differ)
                threads, places = _together(index, losers, access.size >> space.shift, index[at])
                self.s.report(
                    "race",
                    inst,
                    f"{threads} threads write different values to the same place with one instruction"
                    + (f", at {places} places" if places > 1 else ""),
                    losers[at],
                    space=space,
                    byte=int(index[at[0]]) << space.shift,
                    hint="let one thread write, give each thread its own place, or use red/atom",
                    key="self",
                )
        self._collided = []

    def _same(self, access: Access, lanes: Array, everyone: Array, values: Array, load: Any) -> Array:
        """Whether memory holds what these lanes write."""
        there = load(lanes)
        shape = (everyone.size, access.count) if access.count > 1 else (everyone.size,)
        mine = np.broadcast_to(values, shape)[np.searchsorted(everyone, lanes)]
        equal = there.view(f"u{there.itemsize}") == np.ascontiguousarray(mine).astype(there.dtype).view(
            f"u{there.itemsize}"
        )
        return equal.all(axis=1) if equal.ndim > 1 else equal

    def atomic(self, access: Access, lanes: Array, kind: int) -> None:
        """Check and keep an atomic read-modify-write."""
        inst = access.inst
        now = self.s.tick(inst)
        everyone = self.machine.lane_numbers if lanes is None else lanes
        if not inst.has("cas") and not inst.has("exch"):
            self.s.progress.made()
        else:
            self.s.progress.polled(inst, everyone)
        for space, first, where in self.shadow.places(access, lanes):
            chosen = everyone if where is None else everyone[where]
            index, chosen = self._granules(space, first, chosen, access.size)
            self._near(inst, space, index, chosen)
            self.s.barriers.check_untouched(inst, space, index, chosen, "written")
            written = space.write[index]
            nothing = space.unwritten(index, written)
            if len(nothing):
                self._uninitialised(inst, space, index, chosen, nothing)
            if space.name != "local" and not self.off:
                self._exchange(inst, space, index, chosen)
                late = self._late(space, written, chosen)
                if len(late):
                    self.examine(inst, space, index[late], chosen[late], written[late], kind, "updated", "written")
                self.against_updates(inst, space, index, chosen, kind, "updated")
                self._against_readers(inst, space, index, chosen, kind)
            stamp = self.numbers[chosen] + (now << 32 | kind << 28)
            space.write[index] = stamp
            if space.name == "local" or self.off:
                continue
            last = space.write[index]
            if space.updates is None:
                space.updates = Updates(space.write.size, self.machine.padded)
            space.updates.keep(index, last, written, stamp)
            if kind < GPU:
                late = np.flatnonzero(last != stamp)
                if late.size:  # threads of one instruction, perhaps of different CTAs
                    self.examine(inst, space, index[late], chosen[late], last[late], kind, "updated", "updated")

    # --------------------------------------------------------------------------------- flags: release and acquire

    def _release(self, inst: Inst, space: Space, index: Array, lanes: Array, update: bool) -> None:
        releases = inst.has("release") or inst.has("acq_rel")
        who = np.ones(lanes.size, np.bool_) if releases else self.fences.time[lanes] > 0
        key = space.name
        if not update and self.objects:
            for i in np.unique(index).tolist():
                self.objects.pop((key, i), None)
        if not np.count_nonzero(who):
            return
        for i in np.unique(index[who]).tolist():
            here = lanes[who & (index == i)] if index.size > 1 else lanes[who]
            known = self.objects.setdefault((key, i), Released())
            ctas = self.machine.cta_of_lane[here]
            for cta in np.unique(ctas).tolist():
                mine = here[ctas == cta]
                if releases:
                    known.add(cta, self.clocks.release(mine), not inst.has("cta"))
                    continue
                known.add(cta, self.clocks.release(mine, self.fences), False)
                wide = mine[self.wide_fences.time[mine] > 0]
                if wide.size and not inst.has("cta"):
                    known.add(cta, self.clocks.release(wide, self.wide_fences), True)

    def _exchange(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        """The acquire and the release of an atomic; threads that meet at one place take their turn."""
        releases = inst.has("release") or inst.has("acq_rel") or bool(np.count_nonzero(self.fences.time[lanes]))
        if not releases or np.unique(index).size == index.size:
            if self.objects:
                self._acquire(inst, space, index, lanes)
            if releases:
                self._release(inst, space, index, lanes, True)
            return
        for i in range(index.size):
            self._acquire(inst, space, index[i : i + 1], lanes[i : i + 1])
            self._release(inst, space, index[i : i + 1], lanes[i : i + 1], True)

    def _acquire(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        key = space.name
        acquires = inst.has("acquire") or inst.has("acq_rel")
        wide = not inst.has("cta")
        for i in np.unique(index).tolist():
            released = self.objects.get((key, i))
            if released is None:
                continue
            found = lanes[index == i]
            ctas = self.machine.cta_of_lane[found]
            for cta in np.unique(ctas).tolist():
                here = found[ctas == cta]
                clocks = released.seen_by(cta, False), released.seen_by(cta, wide)
                if acquires:
                    self.clocks.acquire(here, clocks[1])
                    continue
                for lane in here.tolist():
                    known = self.waiting.get(lane)
                    if known is None:
                        self.waiting[lane] = clocks
                    else:
                        self.waiting[lane] = joined(known[0], clocks[0]), joined(known[1], clocks[1])

    # ------------------------------------------------------------------------------------------------- findings

    def _uninitialised(self, inst: Inst, space: Space, index: Array, lanes: Array, at: Array) -> None:
        if self.s.registers.poisoned(inst, space, int(index[at[0]]) << space.shift, lanes[at]):
            return  # it is reported where the value is used
        self.uninitialised(inst, space, int(index[at[0]]) << space.shift, lanes[at])

    def uninitialised(self, inst: Inst, space: Space, byte: int, lanes: Array, use: Inst | None = None) -> None:
        """Report a read of memory that nobody has written, and where its value is used."""
        if inst.number in self.told:
            return  # one use of what a load brought is enough
        self.told.add(inst.number)
        first = "" if space.name == "local" else " by any thread"
        what = f"{space.name} memory"
        hint = "memory is undefined when a kernel starts: store to all of it that is read"
        if space.name == "global":
            what = f"the output {self.s.shadow.tensor_at(byte)}"
            hint = "outputs start uninitialised: pass out= (zeros, for sums), or let the kernel write first"
        self.s.report(
            f"uninitialised-{space.name}",
            inst,
            f"read of {what} that has not been written{first}",
            lanes,
            space=space,
            byte=byte,
            hint=hint,
            other=use,
        )

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
        if np.count_nonzero(waits):
            at = np.flatnonzero(waits)
            self.s.copies.examine(inst, space, index[at], lanes[at], stamps[at], now, before)
            at = np.flatnonzero(~waits)
            if not at.size:
                return
            index, lanes, stamps = index[at], lanes[at], stamps[at]
        times, who = stamps >> 32, stamps & THREAD
        ok = self.clocks.ordered(lanes, who, times)
        if kind:
            other = stamps >> 28 & 3
            scope = np.minimum(other, kind)
            m = self.machine
            u = who - self.s.first_lane
            inside = (u >= 0) & (u < m.lanes)
            cta = m.cta_of_lane[np.where(inside, u, 0)]
            mine = m.cta_of_lane[lanes]
            ok |= scope == GPU
            ok |= (scope == CTA) & inside & (cta == mine)
            ok |= (scope == CLUSTER) & inside & (cta // m.cluster_size == mine // m.cluster_size)
        bad = np.flatnonzero(~ok)
        if not bad.size:
            return
        if same is not None:
            bad = bad[~same(lanes[bad])]
            if not bad.size:
                return
        at = int(bad[0])
        other_inst = self.s.instruction_at(int(times[at]))
        far = (
            self.machine.padded
            and int(who[at]) // self.machine.padded != int(self.numbers[lanes[at]]) // self.machine.padded
        )
        hint = (
            "threads of different CTAs need a release and an acquire of .gpu scope between them, or atomics"
            if far
            else "put a barrier (bar.sync, or bar.warp.sync within a warp) between the two accesses, or an mbarrier "
            "that the first arrives at and the second waits for"
        )
        if kind and stamps[at] >> 28 & 3:
            hint = "both accesses are strong, but a scope does not reach the other thread: widen it"
        self.s.report(
            "race",
            inst,
            f"data race: {space.name} memory {now} here was {before} by {self.s.thread(int(who[at]))} without a "
            "synchronisation between them",
            lanes[bad],
            hint=hint,
            space=space,
            byte=int(index[at]) << space.shift,
            other=other_inst,
        )
