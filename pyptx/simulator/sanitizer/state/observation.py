"""Which strong accesses see each other (PTX ISA 8.7, 8.9.2): moral strength and observation order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.program import Address, Inst, Program, Reg, leaves
from ...machine.registry import dtype_of
from .context import TIME, Context, Part
from .order import Order
from .patterns import Patterns, kind_of
from .shadow import ASYNC, CLUSTER, CTA, GPU, THREAD, WEAK, Space
from .values import branches_on, loads_behind

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


class Observation(Part):
    """The observation order of a launch."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.order, self.patterns = context.part(Order), context.part(Patterns)
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

    def morally_strong(self, inst: Inst, lanes: Array, stamps: Array, kind: int) -> Array:
        """Whether accesses with these stamps are morally strong with what lanes do now (8.7); they overlap."""
        who, other = stamps & THREAD, stamps >> 28 & 3
        scope = np.minimum(other, kind)
        m = self.machine
        u = who - self.context.first_lane
        inside = (u >= 0) & (u < m.lanes)
        cta = m.cta_of_lane[np.where(inside, u, 0)]
        mine = m.cta_of_lane[lanes]
        ok = scope == GPU
        ok |= (scope == CTA) & inside & (cta == mine)
        ok |= (scope == CLUSTER) & inside & (cta // m.cluster_size == mine // m.cluster_size)
        ok |= who == self.order.numbers[lanes]
        if self.mixed and np.count_nonzero(ok):
            ok &= self.sizes[self.context.numbers_at(stamps >> 32 & TIME)] == scalar_size(inst)
        return ok

    def observes(self, inst: Inst, lanes: Array, written: Array, kind: int) -> Array:
        """Whether the last write is morally strong with what lanes read now (8.9.2)."""
        return (written != 0) & (written < ASYNC) & self.morally_strong(inst, lanes, written, kind)

    def observe(self, inst: Inst, space: Space, index: Array, lanes: Array, written: Array, kind: int) -> Array:
        """A strong load. Which lanes observe the last write."""
        observes = self.observes(inst, lanes, written, kind)
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

    def saw(self, space: Space, index: Array, stamps: Array) -> None:
        """Strong reads observed the last writes."""
        chain = space.strong()
        if index.size and space.seen is not None:
            space.seen.put(index, stamps, np.int64(0), chain[index], weak=False)

    def exchange(
        self, inst: Inst, space: Space, index: Array, lanes: Array, written: Array, kind: int, stamp: Array
    ) -> Array:
        """An atomic observes the write before it and hands on what was released to it."""
        chain = space.strong()
        observes = self.observes(inst, lanes, written, kind)
        broken = np.flatnonzero(~observes & (written != 0))
        chain[index[broken]] = stamp[broken]
        reads = not inst.family.returns_nothing
        patterns, size = self.patterns, scalar_size(inst)
        if not (patterns.waiting or patterns.hands_on(inst, lanes)):
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

    def observed(self, space: Space, index: Array, lanes: Array, stamps: Array) -> Array:
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

    def release(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        """A strong store, which begins an observation order."""
        if not self.patterns.hands_on(inst, lanes):
            return
        size = scalar_size(inst)
        last = dict(zip(index.tolist(), lanes.tolist(), strict=True))  # of several threads, the last one's value stays
        for granule, lane in last.items():
            place = space.name, granule, size
            self.patterns.compare(place, np.array([lane]), reads=False, writes=True)
            self.patterns.write(inst, place, np.array([lane]), update=False)
