"""Loads whose value nobody uses.

Compilers give a small tensor to more threads than it has elements: all of them load and compute, and one of those that
hold an element stores it. The others may load before or after that, because what they compute is not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...machine.program import Address, Inst, Reg, leaves
from .context import Context, Part
from .shadow import ASYNC, THREAD

Array = Any
MOST_BYTES = 1 << 26
"""For what is remembered of stores; in larger launches every load counts as used."""
MOST_LOADS = 256
"""Whose uses are looked for; the others count as used."""


@dataclass(frozen=True, slots=True)
class Uses:
    """The stores that a loaded value may end in, by their numbers."""

    own: frozenset[int]
    """By the thread itself."""
    warp: frozenset[int]
    """By any thread of its warp, after a shuffle, a vote or a matrix instruction."""


def uses_of(instructions: Sequence[Inst], load: Inst) -> Uses | None:
    """None where the value may do more than being stored: decide where a thread goes, be an address, be passed to a function.

    The registers are taken as one set, whatever the paths between.
    """
    readers: dict[Reg, list[Inst]] = {}
    for inst in instructions:
        for register in (*inst.needs, *_carry(inst, inst.family.reads_carry)):
            readers.setdefault(register, []).append(inst)
    own: set[int] = set()
    warp: set[int] = set()
    seen: set[tuple[Reg, bool]] = set()
    work = [(register, False) for register in load.written]
    while work:
        register, exchanged = work.pop()
        if (register, exchanged) in seen:
            continue
        seen.add((register, exchanged))
        for inst in readers.get(register, ()):
            if register == inst.guard:
                return None
            if inst.family.access == "store" and inst.family.effect == "write" and not inst.family.whole_warp:
                if register in _addresses(inst):
                    return None
                (warp if exchanged else own).add(inst.number)
                continue
            together = inst.family.exchanges or inst.family.whole_warp
            if inst.family.access or (inst.family.effect != "pure" and not inst.family.exchanges):
                return None
            work += [(written, exchanged or together) for written in (*inst.written, *_carry(inst, inst.has("cc")))]
    return Uses(frozenset(own), frozenset(warp))


def _carry(inst: Inst, concerned: bool) -> tuple[Reg, ...]:
    return (inst.cc,) if concerned and inst.cc is not None else ()


def _addresses(inst: Inst) -> set[Reg]:
    return {r for o in inst.operands if isinstance(o, Address) for r in leaves(o) if isinstance(r, Reg)}


@dataclass(slots=True)
class Held:
    """Pairs of a load and a store that race if the value of the load is used."""

    load: Inst
    readers: Array
    told: Callable[[Array], None]
    """Reports those of the pairs with these positions."""


class Unused(Part):
    """Races with loads that may turn out to be unused are held back until the threads have ended."""

    def __init__(self, context: Context):
        super().__init__(context)
        instructions = self.machine.program.instructions
        stores = [i.number for i in instructions if i.family.access == "store"]
        self.active = 0 < len(stores) * self.machine.lanes <= MOST_BYTES
        self._uses: dict[int, Uses | None] = {}
        self.start()

    def start(self) -> None:
        self.stored: dict[int, Array] = {}
        """Number of a store -> the lanes that have executed it."""
        self.held: list[Held] = []

    def note(self, inst: Inst, lanes: Array) -> None:
        """Lanes execute a store."""
        if self.active:
            found = self.stored.get(inst.number)
            if found is None:
                found = self.stored[inst.number] = np.zeros(self.machine.lanes, np.bool_)
            found[lanes] = True

    def hold(
        self,
        inst: Inst,
        index: Array,
        lanes: Array,
        stamps: Array,
        now: str,
        before: str,
        parts: Callable[[int], Iterable[tuple[Array, Array]]],
        told: Callable[[Array], None],
    ) -> Array:
        """Which of these races are with a load by which both threads got the same element of several. `parts`: (granules, lanes) of the executions of a load; `told` reports those at some positions."""
        found = np.zeros(lanes.size, np.bool_)
        if not self.active or (now, before) not in (("written", "read"), ("read", "written")):
            return found
        machine = self.machine
        others = (stamps & THREAD) - self.context.first_lane
        near = (stamps < ASYNC) & (others >= 0) & (others < machine.lanes)
        near &= machine.cta_of_lane[np.where(near, others, 0)] == machine.cta_of_lane[lanes]
        times = stamps >> 32
        for time in np.unique(times[near]).tolist():
            other = self.context.instruction_at(time)
            load, store = (inst, other) if now == "read" else (other, inst)
            uses = self._used_by(load, store)
            if uses is None:
                continue
            at = np.flatnonzero(near & (times == time))
            readers, writers = (lanes[at], others[at]) if now == "read" else (others[at], lanes[at])
            double = _loaded(parts(load.number), index[at], writers, machine.lanes)
            at, readers = at[double], readers[double]
            if at.size:
                found[at] = True
                self.held.append(Held(load, readers, lambda which, at=at: told(at[which])))
        return found

    def _used_by(self, load: Inst, store: Inst) -> Uses | None:
        """The uses of a load, if it and the store are weak."""
        if load.family.access != "load" or load.strong or store.strong or load.family.whole_warp:
            return None
        if load.number not in self._uses:
            if len(self._uses) >= MOST_LOADS:
                return None
            self._uses[load.number] = uses_of(self.machine.program.instructions, load)
        return self._uses[load.number]

    def settle(self) -> None:
        """Report those whose value was used."""
        held, self.held = self.held, []
        for one in held:
            uses = self._uses[one.load.number]
            assert uses is not None
            used = np.zeros(self.machine.lanes, np.bool_)
            for number in uses.own:
                used |= self.stored.get(number, False)
            warps = np.zeros(self.machine.lanes // 32, np.bool_)
            for number in uses.warp:
                if number in self.stored:
                    warps |= self.stored[number].reshape(-1, 32).any(axis=1)
            which = np.flatnonzero(used[one.readers] | warps[one.readers // 32])
            if which.size:
                one.told(which)


def _loaded(parts: Iterable[tuple[Array, Array]], index: Array, lanes: Array, count: int) -> Array:
    """Which lanes have loaded these granules."""
    wanted = index.astype(np.int64) * count + lanes
    found = np.zeros(wanted.size, np.bool_)
    for granules, loaders in parts:
        found |= np.isin(wanted, granules.astype(np.int64) * count + loaders)
    return found
