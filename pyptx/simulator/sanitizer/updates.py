"""The atomics of a word that the last one replaced.

Atomics of different threads do not order each other (PTX ISA 8.8, 8.9), so a weak access has to come after all
of them, and the shadow has room for one. Three more are kept, of threads ever further away from the last
one's: whoever is in step with its warp or its CTA alone finds an update that it does not know of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .shadow import ASYNC, GPU, THREAD, WEAK

Array = Any


class Updates:
    """Stamps of earlier updates since the last store, `tables[k]` by granule: of another thread of the warp, of
    another warp of the CTA, of another CTA than the update after it.
    """

    __slots__ = ("narrow", "padded", "tables")

    def __init__(self, granules: int, padded: int):
        self.padded = padded
        """Numbers of threads from one CTA to the next."""
        self.narrow = False
        """Whether the scope of one does not reach the whole GPU: else strong accesses of that scope race with none."""
        self.tables = np.zeros((3, granules), np.int64)

    def clear(self) -> None:
        self.tables[...] = 0

    def grow(self, granules: int) -> None:
        more = np.zeros((3, max(0, granules - self.tables.shape[1])), np.int64)
        self.tables = np.concatenate([self.tables, more], axis=1)

    def forget(self, index: Array) -> None:
        """A store was ordered after all of them, or reported."""
        self.tables[:, index] = 0

    def keep(self, index: Array, last: Array, before: Array, stamps: Array) -> None:
        """Atomics with `stamps` met at granules, which hold `last` now and held `before`."""
        index, last = np.concatenate([index, index]), np.concatenate([last, last])
        stamps = np.concatenate([before, stamps])
        kind = stamps >> 28 & 3
        kept = ((stamps ^ last) & THREAD != 0) & (stamps < ASYNC) & (kind != WEAK)
        at = np.flatnonzero(kept)
        if not at.size:
            return
        index, stamps = index[at], stamps[at]
        self.narrow |= bool(np.count_nonzero(kind[at] < GPU))
        thread, by = stamps & THREAD, last[at] & THREAD
        level = (thread // 32 != by // 32) + (thread // self.padded != by // self.padded).astype(np.int64)
        for k, table in enumerate(self.tables):
            here = level == k
            table[index[here]] = stamps[here]
