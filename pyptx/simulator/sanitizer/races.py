"""Data races and uninitialised memory (PTX ISA 8.7.1): two accesses to the same bytes, at least one a write, that are not
morally strong and neither of which precedes the other in causality order. docs/memory-model.md goes through the chapter.

Like FastTrack, with the last write and the last read of each granule and a `History` of others that they do not follow:
with up to four threads at a granule no race is missed, and none is invented.

Several threads that store the same value to one place are not reported: the result is the same in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.ptx.mbarrier import MbarrierInval
from ..machine.memory import Access
from ..machine.observe import Action
from ..machine.program import Address, Inst, Program, Reg, leaves
from ..machine.registry import dtype_of
from .history import stands_for
from .lockstep import Lockstep
from .patterns import Patterns, kind_of
from .replicas import Replicas
from .shadow import ASYNC, CLUSTER, CTA, GPU, THREAD, WEAK, Space
from .values import branches_on, loads_behind

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any
PACKED = ("f16x2", "bf16x2", "e4m3x2", "e5m2x2", "s16x2", "u16x2")


def scalar_size(inst: Inst) -> int:
    """Bytes of the scalars that an access is made of (PTX ISA 8.2.4, 8.2.5)."""
    if inst.family.access not in ("load", "store", "atomic") or not inst.types:
        return 0
    if inst.type == "b128":
        return 16
    return dtype_of(inst.type).itemsize // (2 if inst.type in PACKED else 1)


def deciding(program: Program) -> set[int]:
    """The numbers of the instructions that return a value on which a branch, a guard or an address depends."""
    instructions = program.instructions
    wanted = branches_on(instructions)
    for inst in instructions:
        if inst.family.access == "object":
            wanted.update(inst.read)
        for operand in inst.operands:
            if isinstance(operand, Address):
                wanted.update(r for r in leaves(operand) if isinstance(r, Reg))
        if inst.family.access == "store" and not inst.has("global"):  # others, or the thread itself, load it
            wanted.update(inst.read)
    return loads_behind(instructions, wanted)


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


def alike(stamps: Array) -> slice:
    """One of stamps that are all the same, else all: what one lane does is either after all of them or after none."""
    same = stamps.size > 1 and stamps[0] == stamps[-1] and not np.count_nonzero(stamps != stamps[0])
    return slice(0, 1) if same else slice(None)


def _of(floor: Array, which: Array) -> Array:
    return floor[which] if np.ndim(floor) else floor


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
        self.over = self.limit - 1
        self.patterns = Patterns(sanitizer)
        self.replicas = Replicas(sanitizer)
        self.lockstep = Lockstep(sanitizer)
        instructions = self.machine.program.instructions
        self.sizes = np.array([scalar_size(i) for i in instructions], np.int64)
        """Bytes of the scalars that each instruction accesses."""
        strong = {scalar_size(i) for i in instructions if i.family.access and kind_of(i) != WEAK} - {0}
        self.mixed = len(strong) > 1
        """Whether strong accesses may overlap in part."""
        self.deciding = self.machine.program.once(deciding)
        """Numbers of the strong reads on whose values it depends what a thread does. What others see happens without regard
        to it, so that another execution has it the other way round.
        """
        self.told: set[int] = set()

    def start(self) -> None:
        self.limit[...] = 0
        self.over = self.limit - 1
        self.patterns.start()
        self.replicas.start()
        self.numbers = self.machine.lane_numbers + self.s.first_lane

    def synchronised(self) -> None:
        """The floors changed."""
        self.limit = (self.clocks.floor + 1) << 32
        self.over = self.limit - 1

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
        if inst.fences in ("memory", "mbarrier_init"):  # the latter orders less: a race after it may be missed

            def fence(mask: Array) -> object:
                self.fence(inst, mask)
                return action(mask)

            return fence
        return self.lockstep.bound(inst, action)

    def fence(self, inst: Inst, mask: Array) -> None:
        lanes = np.flatnonzero(self.machine.active(inst, mask))
        self.patterns.fence(inst, lanes, self.s.tick(inst))

    # ------------------------------------------------------------------------------------------------- accesses

    def _granules(self, space: Space, first: Array, lanes: Array, size: int) -> tuple[Array, Array]:
        index = first >> space.shift
        count = size >> space.shift
        if count > 1:
            index = (index[:, None] + np.arange(count)).reshape(-1)
            lanes = np.repeat(lanes, count)
        return index, lanes

    def _limits(self, lanes: Array) -> Array:
        return self.limit if lanes is self.machine.lane_numbers else self.limit[lanes]

    def floor(self, space: Space, lanes: Array) -> Array:
        """What barriers of the own CTA order before what lanes do now."""
        if space.name != "shared" or self.machine.cluster_size > 1:
            return np.int64(0)
        return self.over if lanes is self.machine.lane_numbers else self.over[lanes]

    def late(self, space: Space, stamps: Array, lanes: Array) -> Array:
        """Indices of stamps that a barrier of the own CTA does not order."""
        if space.name == "shared" and self.machine.cluster_size == 1:
            late = stamps >= self._limits(lanes)
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
        cached = inst.has("nc") or inst.has("proxy::readonly")
        for space, first, where in self.shadow.places(access, lanes):
            chosen = everyone if where is None else everyone[where]
            index, chosen = self._granules(space, first, chosen, access.size)
            self._near(inst, space, index, chosen)
            self.s.barriers.check_untouched(inst, space, index, chosen, "read")
            self.s.dependents.read(inst, space, index, chosen)
            written = space.write[index]
            nothing = () if parameter else space.unwritten(index, written)
            if len(nothing):
                self._uninitialised(inst, space, index, chosen, nothing)
            if space.name == "local" and not parameter:
                continue
            if self.off:
                continue
            observes = self._observe(inst, space, index, chosen, written, kind) if kind else None
            late = self.late(space, written, chosen)
            if len(late):
                self.examine(inst, space, index[late], chosen[late], written[late], kind, "read", "written")
            self.against_updates(inst, space, index, chosen, kind, "read")
            stamp = self.numbers[chosen] + (now << 32 | kind << 28)
            if observes is not None and inst.number in self.deciding:
                self._saw(space, index[observes], stamp[observes])
            space.reads.put(index, stamp, self.floor(space, chosen), weak=not kind)
            self.replicas.note(inst, index, chosen)
            if cached:
                self._cached(inst, space, index, chosen, written, stamp)
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
            self.s.dependents.wrote(inst, space, chosen)
            stamp = self.numbers[chosen] + (now << 32 | kind << 28)
            if space.name == "local":
                space.write[index] = stamp
                continue
            if not self.off:
                self.replicas.note(inst, index, chosen)

                def same(bad: Array) -> Array:
                    return self._same(access, bad, everyone, values, load)

                written = self._examine_write(inst, space, index, chosen, kind, same)
                if kind:
                    space.strong()
                    self._replace(space, index, chosen, written, stamp)
                    self._release(inst, space, index, chosen)
                if space.chain is not None:
                    space.chain[index] = stamp
            space.write[index] = stamp
            if chosen.size > 1:
                lost = space.write[index] != stamp
                if np.count_nonzero(lost):
                    self._collided.append((space, index[lost], chosen[lost]))
                    if kind:
                        space.replaced(index[lost], stamp[lost], np.int64(0))

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

    def _examine_write(
        self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int, same: Any = None
    ) -> Array:
        """Check a write of shared or global memory against what came before. The last writes before it."""
        written = space.write[index]
        late = self.late(space, written, lanes)
        if len(late):
            self.examine(inst, space, index[late], lanes[late], written[late], kind, "written", "written", same)
        self.against_updates(inst, space, index, lanes, kind, "written", same)
        self._against_readers(inst, space, index, lanes, kind)
        if space.non_coherent is not None:
            self._over_cached(inst, space, index, lanes)
        if kind == WEAK:
            space.reads.forget(index)
            if space.updates is not None:
                space.updates.forget(index)
        return written

    def _replace(self, space: Space, index: Array, lanes: Array, written: Array, stamps: Array) -> None:
        """Strong writes take the place of these: they may be unknown to those who see the new ones."""
        other = np.flatnonzero(~stands_for(stamps, written))
        if other.size:
            space.replaced(index[other], written[other], _of(self.floor(space, lanes), other))

    def _release(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        """A strong store, which begins an observation order."""
        size = scalar_size(inst)
        last = dict(zip(index.tolist(), lanes.tolist(), strict=True))  # of several threads, the last one's value stays
        for granule, lane in last.items():
            place = space.name, granule, size
            self.patterns.compare(place, np.array([lane]), reads=False, writes=True)
            self.patterns.write(inst, place, np.array([lane]), update=False)

    def _against_readers(
        self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int, *, one: bool = False
    ) -> None:
        """`one`: all of it is done by one lane."""
        for table in space.reads.tables:
            read = table[index]
            part = alike(read) if one else slice(None)
            read, by = read[part], lanes[part]
            late = self.late(space, read, by)
            if len(late):
                self.examine(inst, space, index[part][late], by[late], read[late], kind, "written", "read")

    def against_updates(
        self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int, now: str, same: Any = None
    ) -> None:
        """Check an access against the atomics that others came after."""
        if space.updates is None or (kind == GPU and not space.updates.narrow and not self.mixed):
            return
        for table in space.updates.tables:
            stamps = table[index]
            late = self.late(space, stamps, lanes)
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
            differ = ~self._same(access, losers, everyone, values, load)
            if kind != WEAK:  # strong stores that see each other do not race: any of them wins
                differ &= ~self._morally_strong(inst, losers, space.write[index], kind)
            if np.count_nonzero(differ):
                at = np.flatnonzero(differ)
                threads, places = _together(index, losers, access.size >> space.shift, index[at])
                self.s.report(
                    "race",
                    inst,
                    f"{threads} threads write different values to the same place with one instruction"
                    + (f", at {places} places, first" if places > 1 else ""),
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
            self.s.dependents.read(inst, space, index, chosen)
            self.s.dependents.wrote(inst, space, chosen)
            written = space.write[index]
            nothing = space.unwritten(index, written)
            if len(nothing):
                self._uninitialised(inst, space, index, chosen, nothing)
            stamp = self.numbers[chosen] + (now << 32 | kind << 28)
            if space.name == "local" or self.off:
                space.write[index] = stamp
                continue
            observes = self._exchange(inst, space, index, chosen, written, kind, stamp)
            late = self.late(space, written, chosen)
            if len(late):
                self.examine(inst, space, index[late], chosen[late], written[late], kind, "updated", "written")
            self.against_updates(inst, space, index, chosen, kind, "updated")
            self._against_readers(inst, space, index, chosen, kind)
            if space.non_coherent is not None:
                self._over_cached(inst, space, index, chosen)
            space.write[index] = stamp
            last = space.write[index]
            self._replace(space, index, chosen, written, stamp)
            lost = np.flatnonzero(last != stamp)
            if lost.size:
                space.replaced(index[lost], stamp[lost], np.int64(0))
                observes |= kind == GPU  # each sees those of the lanes before it
                if kind < GPU:  # threads of one instruction, perhaps of different CTAs
                    self.examine(inst, space, index[lost], chosen[lost], last[lost], kind, "updated", "updated")
            if inst.number in self.deciding:
                self._saw(space, index[observes], stamp[observes])

    # ------------------------------------------------------------------------------------------------ observation order

    def _observes(self, inst: Inst, lanes: Array, written: Array, kind: int) -> Array:
        """Whether the last write is morally strong with what lanes read now (8.9.2)."""
        return (written != 0) & (written < ASYNC) & self._morally_strong(inst, lanes, written, kind)

    def _observe(self, inst: Inst, space: Space, index: Array, lanes: Array, written: Array, kind: int) -> Array:
        """A strong load. Which lanes observe the last write."""
        observes = self._observes(inst, lanes, written, kind)
        patterns, size = self.patterns, scalar_size(inst)
        if not (patterns.values or patterns.waiting or patterns.sc_fences.logs):
            return observes
        for granule in np.unique(index).tolist():
            here = index == granule
            place = space.name, granule, size
            patterns.compare(place, lanes[here], reads=True, writes=False)
            for saw in (True, False):
                chosen = lanes[here & (observes == saw)]
                if chosen.size:
                    patterns.read(inst, place, chosen, patterns.values.get(place) if saw else None)
        return observes

    def _saw(self, space: Space, index: Array, stamps: Array) -> None:
        """Strong reads observed the last writes."""
        chain = space.strong()
        if index.size and space.seen is not None:
            space.seen.put(index, stamps, np.int64(0), chain[index], weak=False)

    def _exchange(
        self, inst: Inst, space: Space, index: Array, lanes: Array, written: Array, kind: int, stamp: Array
    ) -> Array:
        """An atomic observes the write before it and hands on what was released to it."""
        chain = space.strong()
        observes = self._observes(inst, lanes, written, kind)
        broken = np.flatnonzero(~observes & (written != 0))
        chain[index[broken]] = stamp[broken]
        reads = not inst.family.returns_nothing
        patterns, size = self.patterns, scalar_size(inst)
        if not (
            patterns.values
            or patterns.waiting
            or patterns.own
            or inst.has("release")
            or inst.has("acq_rel")
            or any(np.count_nonzero(log.time[lanes]) for log in patterns.fences.logs.values())
        ):
            return observes
        met: set[int] = set()
        for i, granule in enumerate(index.tolist()):
            lane = lanes[i : i + 1]
            place = space.name, granule, size
            saw = granule in met or bool(observes[i])
            met.add(granule)
            patterns.compare(place, lane, reads=reads, writes=True)
            if reads:
                patterns.read(inst, place, lane, patterns.values.get(place) if saw else None)
            patterns.write(inst, place, lane, update=saw)
        return observes

    def _observed(self, space: Space, index: Array, lanes: Array, stamps: Array) -> Array:
        """Which strong writes precede in observation order a read that happens before what lanes do now (8.9.5)."""
        found = np.zeros(stamps.size, np.bool_)
        if space.seen is None:
            return found
        strong = (stamps >> 28 & 3 != WEAK) & (stamps < ASYNC)
        for table, chain in zip(space.seen.tables, space.seen.notes, strict=True):
            read = table[index]
            observed = strong & (chain[index] <= stamps) & (stamps < read)
            found |= observed & self.clocks.ordered(lanes, read & THREAD, read >> 32)
        return found

    def _morally_strong(self, inst: Inst, lanes: Array, stamps: Array, kind: int) -> Array:
        """Whether accesses with these stamps are morally strong with what lanes do now (8.7); they overlap."""
        who, other = stamps & THREAD, stamps >> 28 & 3
        scope = np.minimum(other, kind)
        m = self.machine
        u = who - self.s.first_lane
        inside = (u >= 0) & (u < m.lanes)
        cta = m.cta_of_lane[np.where(inside, u, 0)]
        mine = m.cta_of_lane[lanes]
        ok = scope == GPU
        ok |= (scope == CTA) & inside & (cta == mine)
        ok |= (scope == CLUSTER) & inside & (cta // m.cluster_size == mine // m.cluster_size)
        ok |= who == self.numbers[lanes]
        if self.mixed and np.count_nonzero(ok):
            times = self.s.times
            ok &= self.sizes[[times[t] for t in (stamps >> 32 & 0x3FFF_FFFF).tolist()]] == scalar_size(inst)
        return ok

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
            role="the use of its value",
        )

    def _cached(self, inst: Inst, space: Space, index: Array, lanes: Array, written: Array, stamps: Array) -> None:
        """A read through the cache for what no thread writes (8.1)."""
        if space.name != "global":
            return
        if space.non_coherent is None:
            space.non_coherent = np.zeros(space.write.size, np.int64)
        space.non_coherent[index] = stamps
        at = np.flatnonzero(written)
        if at.size:
            self._non_coherent(inst, space, index[at], lanes[at], written[at], "read", "was written")

    def _over_cached(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        assert space.non_coherent is not None
        read = space.non_coherent[index]
        at = np.flatnonzero(read)
        if at.size:
            self._non_coherent(inst, space, index[at], lanes[at], read[at], "written", "was read")

    def _non_coherent(
        self, inst: Inst, space: Space, index: Array, lanes: Array, stamps: Array, now: str, before: str
    ) -> None:
        other = self.s.instruction_at(int(stamps[0]) >> 32 & 0x3FFF_FFFF)
        name = "ld.global.nc" if "ld.global.nc" in (inst.text + other.text) else "a load with .nc or .proxy::readonly"
        self.s.report(
            "non-coherent-load",
            inst,
            f"global memory {now} here {before} by {self.s.thread(int(stamps[0]) & THREAD)} in the same kernel, one of the "
            f"two with {name}, which is outside the memory model: no barrier or fence orders it",
            lanes,
            hint="read with ld.global what the kernel writes; .nc is for memory that nobody writes while the kernel runs",
            space=space,
            byte=int(index[0]) << space.shift,
            other=other,
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
        if count := np.count_nonzero(waits):
            if count == stamps.size:
                self.s.copies.examine(inst, space, index, lanes, stamps, now, before)
                return
            at = np.flatnonzero(waits)
            self.s.copies.examine(inst, space, index[at], lanes[at], stamps[at], now, before)
            at = np.flatnonzero(~waits)
            index, lanes, stamps = index[at], lanes[at], stamps[at]
        times, who = stamps >> 32, stamps & THREAD
        ok = self.clocks.ordered(lanes, who, times)
        if kind:
            strong = (stamps >> 28 & 3 != WEAK) & self._morally_strong(inst, lanes, stamps, kind)
            self.lockstep.unordered(inst, lanes, stamps, who - self.s.first_lane, strong & ~ok)
            ok |= strong
        bad = np.flatnonzero(~ok)
        if not bad.size:
            return
        if before != "read":
            bad = bad[~self._observed(space, index[bad], lanes[bad], stamps[bad])]
        if same is not None and bad.size:  # an atomic makes another value of the same one
            update = [self.s.instruction_at(t).family.access == "atomic" for t in times[bad].tolist()]
            bad = bad[~same(lanes[bad]) | np.array(update, np.bool_)]
        if bad.size:
            bad = bad[~self.replicas.told(inst, space, index[bad], lanes[bad], stamps[bad], now, before)]
        if not bad.size:
            return
        at = int(bad[0])
        other_inst = self.s.instruction_at(int(times[at]))
        far = (
            self.machine.padded
            and int(who[at]) // self.machine.padded != int(self.numbers[lanes[at]]) // self.machine.padded
        )
        ctas = self.machine.cluster_size * self.machine.padded
        near = int(who[at]) // ctas == int(self.numbers[lanes[at]]) // ctas
        scope = ".cluster" if near else ".gpu"
        narrow = self.s.barriers.scope_fault(int(lanes[at]), int(who[at]), int(times[at])) if far else None
        hint = (
            narrow
            or f"threads of different CTAs {'of a cluster ' if near else ''}need a release and an acquire of {scope} scope between "
            "them, or atomics"
            if far
            else "put a barrier (bar.sync, or bar.warp.sync within a warp) between the two accesses, or an mbarrier "
            "that the first arrives at and the second waits for"
        )
        if kind and stamps[at] >> 28 & 3:
            size, other_size = scalar_size(inst), scalar_size(other_inst)
            hint = (
                "both accesses are strong, but a scope does not reach the other thread: widen it"
                if size == other_size
                else f"strong accesses of {other_size} and {size} bytes overlap in part only: give them the same size"
            )
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
