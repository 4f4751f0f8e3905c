"""Loads, stores and atomics: each is checked against what came before, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....dialects.ptx.mbarrier import MbarrierInval
from ...machine.machine import Action
from ...machine.memory import Access
from ...machine.program import Inst
from ..rules.mbarriers import Mbarriers
from ..rules.non_coherent import NonCoherent
from ..rules.races import Races
from ..rules.replicas import Replicas
from ..rules.uninitialised_memory import UninitialisedMemory
from ..state.context import Context, Part
from ..state.history import stands_for
from ..state.observation import Observation
from ..state.order import Order, granules_of
from ..state.patterns import Patterns, kind_of
from ..state.progress import Progress
from ..state.shadow import GPU, WEAK, Space
from ..state.unused import Unused

Array = Any


def _of(floor: Array, which: Array) -> Array:
    return floor[which] if np.ndim(floor) else floor


class Accesses(Part):
    """What threads read and write themselves."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.off = self.clocks.too_large
        """Whether races are not looked for."""
        self.order, self.observation = context.part(Order), context.part(Observation)
        self.patterns, self.progress = context.part(Patterns), context.part(Progress)
        self.races, self.replicas = context.part(Races), context.part(Replicas)
        self.non_coherent = context.part(NonCoherent)
        self.unused = context.part(Unused)
        self.memory, self.mbarriers = context.part(UninitialisedMemory), context.part(Mbarriers)

    def access(self, access: Access) -> None:
        """Replace an access's `load`, `store` and `locate` by checked ones."""
        inst = access.inst
        if inst.family is MbarrierInval:
            access.store = self._invalidating(access, access.store)
            return
        if access.space in ("param", "const") or inst.family.access in ("copy", "object"):
            return  # copies and mbarriers tell what they touch themselves
        kind = kind_of(inst)
        load, store, locate = access.load, access.store, access.locate
        atomic = inst.family.access == "atomic"

        def checked_load(lanes: Array) -> Array:
            values = load(lanes)
            self._read(access, lanes, kind)
            return values

        def checked_store(lanes: Array, values: Array) -> None:
            try:
                self._write(access, lanes, kind, values, load)
            except IndexError:
                store(lanes, values)  # says what is out of bounds
                raise
            store(lanes, values)
            self._stored(access, lanes, values, load)

        def checked_locate(lanes: Array, write: bool) -> Array:
            parts = locate(lanes, write)
            if atomic:
                self._atomic(access, lanes, kind)
            return parts

        access.load = checked_load
        access.store = checked_store
        access.locate = checked_locate

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.fences in ("memory", "mbarrier_init"):  # the latter orders less: a race after it may be missed

            def fence(mask: Array) -> object:
                lanes = np.flatnonzero(self.machine.active(inst, mask))
                self.patterns.fence(inst, lanes, self.context.tick(inst))
                return action(mask)

            return fence
        return action

    def _invalidating(self, access: Access, store: Callable[..., Any]) -> Callable[..., Any]:
        """The store of mbarrier.inval."""

        def checked(lanes: Array, values: Array) -> None:
            now = self.context.tick(access.inst)
            everyone = self.machine.lane_numbers if lanes is None else lanes
            for space, first, where in self.shadow.places(access, lanes):
                if space.name == "shared":
                    chosen = everyone if where is None else everyone[where]
                    for lane, byte in zip(chosen.tolist(), first.tolist(), strict=True):
                        self.mbarriers.invalidated(access.inst, lane, byte // 8, now)
            store(lanes, values)

        return checked

    def _read(self, access: Access, lanes: Array, kind: int) -> None:
        """Check and keep the reads of an access."""
        inst = access.inst
        now = self.context.tick(inst)
        everyone = self.machine.lane_numbers if lanes is None else lanes
        parameter = inst.has("param")  # the machine itself fills those of functions
        cached = inst.has("nc") or inst.has("proxy::readonly")
        for space, first, where in self.shadow.places(access, lanes):
            chosen = everyone if where is None else everyone[where]
            index, chosen = granules_of(space, first, chosen, access.size)
            self.context.touched(inst, space, index, chosen, reads=True)
            written = space.write[index]
            if not parameter:
                self.memory.read(inst, space, index, chosen, written)
            if space.name == "local" and not parameter:
                continue
            if self.off:
                continue
            observes = self.observation.observe(inst, space, index, chosen, written, kind) if kind else None
            self.races.check(inst, space, index, chosen, written, kind, "read", "written")
            self.races.against_updates(inst, space, index, chosen, kind, "read")
            stamp = self.order.numbers[chosen] + (now << 32 | kind << 28)
            if observes is not None and inst.number in self.observation.deciding:
                self.observation.saw(space, index[observes], stamp[observes])
            space.reads.put(index, stamp, self.order.floor(space, chosen), weak=not kind)
            self.replicas.note(inst, index, chosen)
            if cached:
                self.non_coherent.read(inst, space, index, chosen, written, stamp)
        if kind:
            self.progress.polled(inst, everyone)

    def _write(self, access: Access, lanes: Array, kind: int, values: Array, load: Any) -> None:
        """Check and keep the writes of an access that is about to happen."""
        inst = access.inst
        now = self.context.tick(inst)
        self.progress.made()
        everyone = self.machine.lane_numbers if lanes is None else lanes
        self.unused.note(inst, everyone)
        self._collided: list[tuple[Space, Array, Array]] = []
        for space, first, where in self.shadow.places(access, lanes):
            chosen = everyone if where is None else everyone[where]
            index, chosen = granules_of(space, first, chosen, access.size)
            self.context.touched(inst, space, index, chosen, writes=True)
            stamp = self.order.numbers[chosen] + (now << 32 | kind << 28)
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
                    self.observation.release(inst, space, index, chosen)
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
        now = self.context.tick(inst)
        self.progress.made()
        space = self.shadow.shared
        index = np.arange(start >> space.shift, (start + size - 1 >> space.shift) + 1)
        lanes = np.full(index.size, lane)
        self.context.touched(inst, space, index, lanes, writes=True)
        if not self.off:
            self._examine_write(inst, space, index, lanes, WEAK)
        space.write[index] = self.order.numbers[lane] + (now << 32 | WEAK << 28)

    def _examine_write(
        self, inst: Inst, space: Space, index: Array, lanes: Array, kind: int, same: Any = None
    ) -> Array:
        """Check a write of shared or global memory against what came before. The last writes before it."""
        written = space.write[index]
        self.races.check(inst, space, index, lanes, written, kind, "written", "written", same)
        self.races.against_updates(inst, space, index, lanes, kind, "written", same)
        self.races.against_readers(inst, space, index, lanes, kind)
        self.non_coherent.written(inst, space, index, lanes)
        if kind == WEAK:
            space.reads.forget(index)
            if space.updates is not None:
                space.updates.forget(index)
        return written

    def _replace(self, space: Space, index: Array, lanes: Array, written: Array, stamps: Array) -> None:
        """Strong writes take the place of these: they may be unknown to those who see the new ones."""
        other = np.flatnonzero(~stands_for(stamps, written))
        if other.size:
            space.replaced(index[other], written[other], _of(self.order.floor(space, lanes), other))

    def _stored(self, access: Access, lanes: Array, values: Array, load: Any) -> None:
        """After a store: threads of the instruction that wrote different values to one place."""
        if not self._collided or self.off:
            return
        everyone = self.machine.lane_numbers if lanes is None else lanes
        inst = access.inst
        kind = kind_of(inst)
        for space, index, losers in self._collided:
            differ = ~self._same(access, losers, everyone, values, load)
            if kind != WEAK:  # strong stores that see each other do not race: any of them wins
                differ &= ~self.observation.morally_strong(inst, losers, space.write[index], kind)
            if np.count_nonzero(differ):
                self.races.collided(inst, space, index, losers, access.size, differ)
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

    def _atomic(self, access: Access, lanes: Array, kind: int) -> None:
        """Check and keep an atomic read-modify-write."""
        inst = access.inst
        now = self.context.tick(inst)
        everyone = self.machine.lane_numbers if lanes is None else lanes
        if not inst.has("cas") and not inst.has("exch"):
            self.progress.made()
        else:
            self.progress.polled(inst, everyone)
        for space, first, where in self.shadow.places(access, lanes):
            chosen = everyone if where is None else everyone[where]
            index, chosen = granules_of(space, first, chosen, access.size)
            self.context.touched(inst, space, index, chosen, reads=True, writes=True)
            written = space.write[index]
            self.memory.read(inst, space, index, chosen, written)
            stamp = self.order.numbers[chosen] + (now << 32 | kind << 28)
            if space.name == "local" or self.off:
                space.write[index] = stamp
                continue
            observes = self.observation.exchange(inst, space, index, chosen, written, kind, stamp)
            self.races.check(inst, space, index, chosen, written, kind, "updated", "written")
            self.races.against_updates(inst, space, index, chosen, kind, "updated")
            self.races.against_readers(inst, space, index, chosen, kind)
            self.non_coherent.written(inst, space, index, chosen)
            space.write[index] = stamp
            last = space.write[index]
            self._replace(space, index, chosen, written, stamp)
            lost = np.flatnonzero(last != stamp)
            if lost.size:
                space.replaced(index[lost], stamp[lost], np.int64(0))
                observes |= kind == GPU  # each sees those of the lanes before it
                if kind < GPU:  # threads of one instruction, perhaps of different CTAs
                    self.races.examine(inst, space, index[lost], chosen[lost], last[lost], kind, "updated", "updated")
            if inst.number in self.observation.deciding:
                self.observation.saw(space, index[observes], stamp[observes])
