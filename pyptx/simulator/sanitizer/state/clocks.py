"""Happens-before: what each thread knows of the others (PTX ISA 8.9.5: causality order).

Time is one counter for the whole launch. For two threads t and u, `known(t, u)` is the time up to which
everything u did happens before what t does next. CTA and warp barriers are kept as one number per thread
(`floor`, `warp_floor`), everything else in a matrix per cluster, made when it is first needed; columns after
the threads' own stand for mbarriers, and say which of the copies that complete on it are known to be complete.
More matrices hold the same, as far as a proxy fence for shared or for global memory lies on the way (8.9.5).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np

from ...machine.machine import Machine
from ...machine.program import Inst

Array = Any
Rows: TypeAlias = "dict[int, np.ndarray]"
"""Cluster of the grid -> times, one for each of its threads and mbarriers."""
LIMIT = 1 << 30
"""Bytes of matrices; launches of larger clusters and blocks are not checked for races."""
MOST_PROXIES = 2


def fenced_spaces(inst: Inst) -> frozenset[str]:
    """The spaces that a proxy fence is for."""
    named = {m.partition("::")[0] for m in inst.modifiers if "restrict" not in m} & {"shared", "global"}
    if any("restrict" in m for m in inst.modifiers):
        named = {"shared"}
    return frozenset(named or {"shared", "global"})


class Clock:
    """What some threads know at a release: cluster -> a row of each matrix."""

    __slots__ = ("proxies", "rows")

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.proxies: tuple[Rows, ...] = tuple({} for _ in range(MOST_PROXIES))

    def merge(self, other: Clock) -> None:
        _merge(self.rows, other.rows)
        for mine, more in zip(self.proxies, other.proxies, strict=True):
            _merge(mine, more)

    def copy(self) -> Clock:
        made = Clock()
        made.rows, made.proxies = dict(self.rows), tuple(dict(rows) for rows in self.proxies)
        return made


def _merge(into: Rows, other: Rows) -> None:
    for key, row in other.items():
        mine = into.get(key)
        if mine is row:
            continue
        if mine is None:
            into[key] = row
        elif mine.size >= row.size:
            joined = mine.copy()
            np.maximum(joined[: row.size], row, out=joined[: row.size])
            into[key] = joined
        else:
            joined = row.copy()
            np.maximum(joined[: mine.size], mine, out=joined[: mine.size])
            into[key] = joined


class Fences:
    """When the lanes of a batch last executed a fence that releases, and what they knew then."""

    def __init__(self, clocks: Clocks):
        self.clocks = clocks
        self.time, self.floor, self.warp_floor = np.zeros((3, clocks.machine.lanes), np.int64)
        self.rows: np.ndarray | None = None
        self.foreign: list[Rows | None] = [None] * clocks.machine.lanes

    def start(self) -> None:
        self.time[...] = 0
        self.foreign = [None] * self.clocks.machine.lanes
        if self.rows is not None:
            self.rows[...] = 0

    def executed(self, lanes: np.ndarray, now: int) -> None:
        clocks = self.clocks
        self.time[lanes] = now
        self.floor[lanes] = clocks.floor[lanes]
        self.warp_floor[lanes] = clocks.warp_floor[lanes]
        if clocks.any_foreign:
            for lane in lanes.tolist():
                self.foreign[lane] = clocks.foreign[lane]
        if clocks.matrix is not None:
            if self.rows is None:
                self.rows = np.zeros((clocks.groups, clocks.per, clocks.per), np.int32)
            g, local = clocks.group_of[lanes], clocks.local[lanes]
            self.rows[g, local] = clocks.matrix[g, local, : clocks.per]


class Clocks:
    """The knowledge of the threads of a machine. Lanes are those of the running batch."""

    def __init__(self, machine: Machine, fenced: Collection[frozenset[str]]):
        """`fenced`: the sets of spaces that fences between the proxies are for."""
        self.machine = machine
        lanes = machine.lanes
        self.per = machine.cluster_size * machine.padded
        """Threads of a cluster."""
        self.groups = lanes // self.per
        self.group_of = machine.lane_numbers // self.per
        self.local = machine.lane_numbers % self.per
        self.now = 0
        self.floor = np.zeros(lanes, np.int64)
        self.warp_floor = np.zeros(lanes, np.int64)
        self.columns: list[dict[int, int]] = [{} for _ in range(self.groups)]
        self.width = self.per
        self.matrix: np.ndarray | None = None
        self.proxies: list[np.ndarray] = []
        """One for each group of spaces that are fenced together; made with the matrix."""
        spaces = {space for group in fenced for space in group}
        together = any(len(group) > 1 for group in fenced) and all(len(group) > 1 for group in fenced)
        self.proxy_of = {space: 0 if together else i for i, space in enumerate(sorted(spaces))}
        """Space -> its matrix among `proxies`; missing: no fence is for it."""
        self.foreign: list[Rows | None] = [None] * lanes
        """What lanes know of other clusters."""
        self.foreign_proxies: list[list[Rows | None]] = [[None] * lanes for _ in self.tables]
        """The same, as far as a proxy fence lies on the way, for each of `proxies`."""
        self.any_foreign = False
        self.first_group = 0
        self.too_large = self.groups * self.per * self.per * 4 * (1 + len(self.tables)) > LIMIT

    @property
    def tables(self) -> list[int]:
        """The numbers of the matrices of proxies."""
        return sorted(set(self.proxy_of.values()))

    def start(self) -> None:
        """A new batch: its threads know nothing."""
        self.first_group = self.machine.first_cta // self.machine.cluster_size
        self.floor[...] = 0
        self.warp_floor[...] = 0
        self.columns = [{} for _ in range(self.groups)]
        if self.matrix is not None:
            self.matrix[...] = 0
        for proxy in self.proxies:
            proxy[...] = 0
        if self.any_foreign:
            self.foreign = [None] * self.machine.lanes
            self.foreign_proxies = [[None] * self.machine.lanes for _ in self.tables]
            self.any_foreign = False

    def tick(self) -> int:
        self.now += 1
        return self.now

    def ensure(self) -> np.ndarray:
        if self.matrix is None:
            self.matrix = np.zeros((self.groups, self.per, self.width), np.int32)
            self.proxies = [np.zeros(self.matrix.shape, np.int32) for _ in self.tables]
        return self.matrix

    def column(self, group: int, slot: int) -> int:
        """The column of an mbarrier."""
        columns = self.columns[group]
        found = columns.get(slot)
        if found is None:
            found = columns[slot] = self.per + len(columns)
            if found >= self.width:
                self.width = self.per + 2 * len(columns) + 6
                if self.matrix is not None:
                    self.matrix = self._wider(self.matrix)
                    self.proxies = [self._wider(proxy) for proxy in self.proxies]
        return found

    def _wider(self, old: np.ndarray) -> np.ndarray:
        new = np.zeros((self.groups, self.per, self.width), np.int32)
        new[:, :, : old.shape[2]] = old
        return new

    # ------------------------------------------------------------------------------------------------- release, acquire

    def release(self, lanes: np.ndarray, fences: Fences | None = None) -> Clock:
        """What these lanes know together. `fences`: only what they knew at theirs, and of what they know now what others
        did before their own.
        """
        clock = Clock()
        groups = self.group_of[lanes]
        first = int(groups[0])
        if first == groups[-1] and not np.count_nonzero(groups != first):
            self._release(clock, first, lanes, fences)
        else:
            for g in np.unique(groups):
                self._release(clock, int(g), lanes[groups == g], fences)
        return clock

    def _release(self, clock: Clock, g: int, lanes: np.ndarray, fences: Fences | None) -> None:
        local = self.local[lanes]
        row = np.zeros(self.width, np.int32)
        if self.matrix is not None:
            row = self.matrix[g, _neighbours(local)].max(axis=0)
        self._add_barriers(row, lanes, local, self.floor, self.warp_floor)
        if fences is None:
            row[local] = self.now
        else:
            then = np.zeros(self.per, np.int32) if fences.rows is None else fences.rows[g, local].max(axis=0)
            self._add_barriers(then, lanes, local, fences.floor, fences.warp_floor)
            part, own = row[: self.per], fences.time[lanes]
            np.minimum(part, fences.time[g * self.per : (g + 1) * self.per], out=part, casting="unsafe")
            np.maximum(part, then, out=part)
            np.minimum(row[self.per :], int(own.max()), out=row[self.per :])
            row[local] = np.maximum(row[local], own)
        key = self.first_group + g
        clock.rows[key] = row
        for proxy, rows in zip(self.proxies, clock.proxies, strict=False):
            rows[key] = proxy[g, _neighbours(local)].max(axis=0)
            if fences is not None:
                rows[key] = np.minimum(rows[key], int(fences.time[lanes].max()))
        if self.any_foreign:
            _collect(clock.rows, self.foreign if fences is None else fences.foreign, lanes)
            for foreign, rows in zip(self.foreign_proxies, clock.proxies, strict=False):
                _collect(rows, foreign, lanes)

    def _add_barriers(self, row: Array, lanes: Array, local: Array, floor: Array, warp_floor: Array) -> None:
        """What lanes of a cluster know by barriers of CTAs and warps."""
        padded = self.machine.padded
        for c in range(self.machine.cluster_size):
            here = lanes if self.machine.cluster_size == 1 else lanes[local // padded == c]
            if here.size:
                part = row[c * padded : (c + 1) * padded]
                np.maximum(part, int(floor[here].max()), out=part)
        known = warp_floor[lanes]
        if known.any():
            warps = np.zeros(self.per // 32, np.int64)
            np.maximum.at(warps, local // 32, known)
            part = row[: self.per].reshape(-1, 32)
            np.maximum(part, warps[:, None], out=part, casting="unsafe")

    def acquire(self, lanes: np.ndarray, clock: Clock) -> None:
        """The lanes learn what a clock holds."""
        if not clock.rows:
            return
        matrix = self.ensure()
        groups = self.group_of[lanes]
        for g in np.unique(groups).tolist():
            here = lanes[groups == g]
            local = _neighbours(self.local[here])
            key = self.first_group + g
            for table, rows in ((matrix, clock.rows), *zip(self.proxies, clock.proxies, strict=False)):
                row = rows.get(key)
                if row is not None:
                    table[g, local, : row.size] = np.maximum(table[g, local, : row.size], row)
            if len(clock.rows) > (key in clock.rows):
                self.any_foreign = True
                _learn(self.foreign, here, {k: v for k, v in clock.rows.items() if k != key})
                for foreign, rows in zip(self.foreign_proxies, clock.proxies, strict=False):
                    _learn(foreign, here, {k: v for k, v in rows.items() if k != key})

    def join(self, lanes: np.ndarray, more: Clock | None = None) -> None:
        """A barrier among these lanes of one cluster."""
        clock = self.release(lanes)
        if more is not None:
            clock.merge(more)
        self.acquire(lanes, clock)

    def join_ctas(self, mask: np.ndarray) -> None:
        """A barrier of all living threads of the CTAs in the mask."""
        if self.matrix is None and not self.any_foreign:
            self.floor[mask] = self.now
            return
        machine = self.machine
        if machine.cluster_size > 1 or self.proxies or self.width > self.per or self.any_foreign:
            for cta in np.flatnonzero(mask.reshape(machine.ctas, -1).any(axis=1)).tolist():
                start = cta * machine.padded
                self.join(start + np.flatnonzero(mask[start : start + machine.padded]))
        self.floor[mask] = self.now

    def join_warps(self, mask: np.ndarray) -> None:
        """A barrier of all living threads of the warps in the mask."""
        if self.matrix is not None or self.any_foreign:
            for warp in np.flatnonzero(mask.reshape(-1, 32).any(axis=1)).tolist():
                self.join(32 * warp + np.flatnonzero(mask[32 * warp : 32 * warp + 32]))
        self.warp_floor[mask] = self.now

    def knowledge(self, g: int, lanes: np.ndarray) -> np.ndarray:
        """What each of these lanes of one cluster knows now: (lanes, width)."""
        machine = self.machine
        local = self.local[lanes]
        rows = self.ensure()[g, local]
        for c in range(machine.cluster_size):
            mine = local // machine.padded == c
            part = rows[:, c * machine.padded : (c + 1) * machine.padded]
            np.maximum(part, np.where(mine, self.floor[lanes], 0)[:, None], out=part, casting="unsafe")
        warps = np.arange(self.per) // 32 == (local // 32)[:, None]
        part = rows[:, : self.per]
        np.maximum(part, np.where(warps, self.warp_floor[lanes][:, None], 0), out=part, casting="unsafe")
        rows[np.arange(local.size), local] = self.now
        return rows

    def fence_proxy(self, lanes: np.ndarray, spaces: Collection[str]) -> None:
        """What the lanes know so far is ordered for the other proxy, too, in these spaces."""
        self.ensure()
        numbers = {self.proxy_of[space] for space in spaces if space in self.proxy_of}
        groups = self.group_of[lanes]
        for g in np.unique(groups).tolist() if numbers else ():
            here = lanes[groups == g]
            local = self.local[here]
            known = self.knowledge(g, here)
            for number in numbers:
                proxy = self.proxies[number]
                proxy[g, local] = np.maximum(proxy[g, local], known)
        if self.any_foreign:
            for lane in lanes.tolist():
                known = self.foreign[lane]
                if known is not None:
                    for number in numbers:
                        _learn(self.foreign_proxies[number], np.array([lane]), known)

    # ----------------------------------------------------------------------------------------------------------- order

    def ordered(self, lanes: np.ndarray, others: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Whether what threads `others` (numbered over the grid) did at `times` happens before what `lanes` do
        now. Arrays of one shape.
        """
        machine = self.machine
        u = others - machine.first_cta * machine.padded
        inside = (u >= 0) & (u < machine.lanes)
        u = np.where(inside, u, 0)
        done = inside & (u == lanes)
        same_cta = inside & (machine.cta_of_lane[u] == machine.cta_of_lane[lanes])
        done |= same_cta & (times <= self.floor[lanes])
        done |= inside & (u // 32 == lanes // 32) & (times <= self.warp_floor[lanes])
        if self.matrix is not None:
            g = self.group_of[lanes]
            same = inside & (self.group_of[u] == g)
            done |= same & (self.matrix[g, self.local[lanes], self.local[u]] >= times)
        if self.any_foreign:
            for i in np.flatnonzero(~done).tolist():
                known = self.foreign[int(lanes[i])]
                if known is not None:
                    row = known.get(int(others[i]) // self.per)
                    if row is not None and row[int(others[i]) % self.per] >= times[i]:
                        done[i] = True
        return done

    def knows(self, lanes: np.ndarray, key: int, column: int, time: int) -> np.ndarray:
        """Which lanes know what happened up to a time at an mbarrier: a column of a cluster, numbered over the grid."""
        found = np.zeros(lanes.size, np.bool_)
        own = self.group_of[lanes] == key - self.first_group
        if self.matrix is not None and column < self.matrix.shape[2]:
            mine = lanes[own]
            found[own] = self.matrix[key - self.first_group, self.local[mine], column] >= time
        if self.any_foreign:
            for i in np.flatnonzero(~own).tolist():
                row = (self.foreign[int(lanes[i])] or {}).get(key)
                found[i] = row is not None and column < row.size and row[column] >= time
        return found

    def fenced(self, lane: int, others: np.ndarray, times: np.ndarray, space: str) -> np.ndarray:
        """Whether a proxy fence for a space lies between what `others` did and what the lane does now, on the way by which
        the lane knows of it.
        """
        g = int(self.group_of[lane])
        clusters = others // self.per
        done = np.zeros(others.size, np.bool_)
        number = self.proxy_of.get(space)
        if number is None:
            return done
        for key in np.unique(clusters).tolist():
            at = clusters == key
            row = self._proxy_row(lane, g, key, number)
            if row is not None:
                done[at] = row[others[at] % self.per] >= times[at]
        return done

    def knows_fenced(self, lane: int, key: int, column: int, time: int, space: str) -> bool:
        """`knows` for one lane, as far as a proxy fence for a space lies on the way."""
        number = self.proxy_of.get(space)
        row = None if number is None else self._proxy_row(lane, int(self.group_of[lane]), key, number)
        return row is not None and column < row.size and bool(row[column] >= time)

    def _proxy_row(self, lane: int, g: int, key: int, number: int) -> np.ndarray | None:
        """What a lane of cluster `g` of the batch knows of a cluster after proxy fences."""
        if key == self.first_group + g:
            return self.proxies[number][g, int(self.local[lane])] if self.proxies else None
        return (self.foreign_proxies[number][lane] or {}).get(key)


def _neighbours(local: Array) -> Any:
    """Threads of a cluster, in order, as a slice if no other is between them."""
    first, count = int(local[0]), local.size
    return slice(first, first + count) if int(local[-1]) - first == count - 1 else local


def _collect(into: Rows, tables: list[Rows | None], lanes: np.ndarray) -> None:
    """Add what lanes know of other clusters; many share it."""
    for known in {id(t): t for t in (tables[lane] for lane in lanes.tolist()) if t is not None}.values():
        _merge(into, known)


def _learn(tables: list[Rows | None], lanes: np.ndarray, more: Rows) -> None:
    """Add rows to what lanes know of other clusters; lanes that knew the same share it afterwards."""
    made: dict[int, Rows] = {}
    for lane in lanes.tolist():
        mine = tables[lane]
        joined = made.get(id(mine))
        if joined is None:
            joined = dict(mine) if mine else {}
            _merge(joined, more)
            made[id(mine)] = joined
        tables[lane] = joined
