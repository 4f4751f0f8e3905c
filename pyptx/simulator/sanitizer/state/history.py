"""Accesses that a later one took the place of, and that do not come before it.

Reads do not order each other, and neither do strong writes (PTX ISA 8.8, 8.9): whoever writes weakly has to come after
all of them. The shadow keeps the last access of each granule, and a `History` up to three more, of other threads. With up
to four threads at a granule nothing is lost. Of more, those are kept that are far from each other: of several CTAs, then of
several warps, so that one who is in step with its warp or CTA alone still finds an access that it does not know of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
THREAD = (1 << 28) - 1
ASYNC = 1 << 62
WHO = THREAD | ASYNC
"""The bits of a stamp that name a thread, and its asynchronous operations, which are another one."""
KIND = 3 << 28
WARP = THREAD & ~31
WEAK, CTA, CLUSTER, GPU = range(4)
"""Kinds of accesses: weak ones, and strong ones by their scope."""
SLOTS = 3


def stands_for(later: Array, earlier: Array) -> Array:
    """Whether an access of the same thread races with whatever the one before it races with: it is not stronger."""
    return ((later ^ earlier) & WHO == 0) & (later & KIND <= earlier & KIND)


class History:
    """Up to `SLOTS` stamps for each granule, of different threads; 0 for none."""

    __slots__ = ("full", "narrow", "notes", "part", "goal", "tables", "unit")

    def __init__(self, granules: int, unit: int, units: int, noted: bool = False, goal: int = 2):
        self.tables = np.zeros((SLOTS, granules), np.int64)
        self.notes = np.zeros((SLOTS if noted else 0, granules), np.int64)
        """What is noted of each."""
        self.full = np.zeros(granules, np.int64)
        """While it is above the floor, no other access would tell anything: threads of `goal` CTAs are kept (or warps, where
        all are of one CTA).
        """
        self.part = np.zeros(granules, np.int64)
        """While it is above the floor, no other access of the warp of this one would tell anything."""
        self.unit = unit
        """Threads of a CTA, or of a warp where all are of one CTA."""
        self.goal = min(goal, units)
        self.narrow = False
        """Whether one is not strong with the scope of the GPU, so that strong accesses may race with it."""

    def clear(self) -> None:
        for table in (self.tables, self.full, self.part):
            table[...] = 0

    def grow(self, granules: int) -> None:
        more = max(0, granules - self.full.size)
        self.tables = np.concatenate([self.tables, np.zeros((SLOTS, more), np.int64)], axis=1)
        self.notes = np.concatenate([self.notes, np.zeros((len(self.notes), more), np.int64)], axis=1)
        self.full = np.concatenate([self.full, np.zeros(more, np.int64)])
        self.part = np.concatenate([self.part, np.zeros(more, np.int64)])

    def forget(self, index: Array) -> None:
        """A weak write was ordered after all of them, or reported."""
        self.tables[:, index] = 0
        self.full[index] = 0
        self.part[index] = 0

    def tells(self, index: Array, stamps: Array, floor: Array) -> Array:
        """Whether it may tell something to keep stamps."""
        part = self.part[index]
        return (self.full[index] <= floor) & ((part <= floor) | ((part ^ stamps) & WARP != 0))

    def keep(self, index: Array, stamps: Array, floor: Array, notes: Array | None = None) -> None:
        """Keep stamps, several for a granule perhaps. What is not above `floor` (one for each) is over."""
        noted: Array = stamps if notes is None else notes
        self.narrow |= bool(np.count_nonzero((stamps >> 28 & 3 != GPU) | (stamps >= ASYNC)))
        for slot, table in enumerate(self.tables):
            held = table[index]
            at = np.flatnonzero(stands_for(stamps, held) | (held <= floor))
            if not at.size:
                continue
            table[index[at]] = stamps[at]
            if len(self.notes):
                self.notes[slot, index[at]] = noted[at]
            left = np.ones(index.size, np.bool_)
            left[at] = table[index[at]] != stamps[at]
            rest = np.flatnonzero(left)
            if not rest.size:
                return
            index, stamps, floor, noted = index[rest], stamps[rest], floor[rest], noted[rest]
        self._spread(index, stamps, noted)

    def _spread(self, index: Array, stamps: Array, notes: Array) -> None:
        """All slots are taken by others: where these are of one warp or CTA, a thread of another takes one of these."""
        for unit in dict.fromkeys((32, self.unit)):
            a, b, c = (self.tables[:, index] & THREAD) // unit
            mine = (stamps & THREAD) // unit
            near = (b == c) | (a == b) | (a == c)
            at = np.flatnonzero(near & (a != mine) & (b != mine) & (c != mine))
            if at.size:
                slot = np.where((b == c)[at], 1, 0)
                self.tables[slot, index[at]] = stamps[at]
                if len(self.notes):
                    self.notes[slot, index[at]] = notes[at]
        stamps = stamps & ~ASYNC
        self.part[index] = stamps
        a, b, c = (self.tables[:, index] & THREAD) // self.unit
        done = np.flatnonzero(1 + (a != b) + ((c != a) & (c != b)) >= self.goal)
        self.full[index[done]] = stamps[done]


class Newest:
    """The last access of each granule, and its history. With `noted`, something is noted of each access."""

    __slots__ = ("last", "more", "note", "unit", "units")

    def __init__(self, granules: int, unit: int, units: int, noted: bool = False):
        self.last = np.zeros(granules, np.int64)
        self.note = np.zeros(granules, np.int64) if noted else None
        self.more: History | None = None
        self.unit, self.units = unit, units

    @property
    def tables(self) -> list[Array]:
        return [self.last] if self.more is None else [self.last, *self.more.tables]

    @property
    def notes(self) -> list[Array]:
        """What is noted of each of `tables`."""
        return [self.note] if self.more is None else [self.note, *self.more.notes]

    def clear(self) -> None:
        self.last[...] = 0
        if self.more is not None:
            self.more.clear()

    def grow(self, granules: int) -> None:
        more = np.zeros(max(0, granules - self.last.size), np.int64)
        self.last = np.concatenate([self.last, more])
        if self.note is not None:
            self.note = np.concatenate([self.note, more])
        if self.more is not None:
            self.more.grow(granules)

    def forget(self, index: Array) -> None:
        if self.more is not None:
            self.more.forget(index)

    def put(self, index: Array, stamps: Array, floor: Array, notes: Array | None = None, *, weak: bool = True) -> None:
        """Accesses happen; a single stamp is for all granules. What was last is kept where it is another thread's and above
        `floor`, and so are those of one instruction that meet at a granule. `weak`: all are.
        """
        last, note = self.last, self.note
        at: Array = slice(None)
        if self.more is not None and note is None:
            room = self.more.full[index] <= floor
            count = np.count_nonzero(room)
            if count < room.size:
                if not count:
                    last[index] = stamps
                    return
                at = np.flatnonzero(room)
        where, now = index[at], stamps[at] if np.ndim(stamps) else stamps
        if np.ndim(floor):
            floor = floor[at]
        before = last[where]
        noted = None
        if note is not None:
            noted = note[index]
            note[index] = 0 if notes is None else notes
        last[index] = stamps
        other = (before ^ now) & WHO != 0
        if not weak:
            other |= now & KIND > before & KIND
        other &= before > floor
        self._keep(other, where, before, floor, noted)
        if np.ndim(stamps):
            self._keep(last[where] != now, where, now, floor, notes)

    def _keep(self, which: Array, index: Array, stamps: Array, floor: Array, notes: Array | None) -> None:
        if not np.count_nonzero(which):
            return
        if self.more is None:
            self.more = History(self.last.size, self.unit, self.units, self.note is not None)
        else:
            which = which & self.more.tells(index, stamps, floor)
        at = np.flatnonzero(which)
        if at.size:
            floors = floor[at] if np.ndim(floor) else np.full(at.size, floor)
            self.more.keep(index[at], stamps[at], floors, None if notes is None else notes[at])
