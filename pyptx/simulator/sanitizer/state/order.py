"""Which accesses come before what a lane does now, as far as barriers of its own CTA say it: most do, and cost nothing more."""

from __future__ import annotations

from typing import Any

import numpy as np

from .context import Context, Part
from .shadow import ASYNC, THREAD, Space

Array = Any


def firsts(stamps: Array) -> Array:
    """Where, in all rows of stamps, each differs from the one before in its row: what one lane does is either after all of those that
    are the same or after none.
    """
    first = np.ones(stamps.shape, np.bool_)
    np.not_equal(stamps[..., 1:], stamps[..., :-1], out=first[..., 1:])
    return np.flatnonzero(first)


def neighbours(index: Array) -> Any:
    """Granules in order as a slice, if no other is between them: NumPy takes it faster."""
    count, first = index.size, int(index[0])
    if int(index[-1]) - first != count - 1 or np.count_nonzero(np.diff(index) != 1):
        return index
    return slice(first, first + count)


def granules_of(space: Space, first: Array, lanes: Array, size: int) -> tuple[Array, Array]:
    """The granules of accesses of `size` bytes, and the lane of each."""
    index = first >> space.shift
    count = size >> space.shift
    if count > 1:
        index = (index[:, None] + np.arange(count)).reshape(-1)
        lanes = np.repeat(lanes, count)
    return index, lanes


class Order(Part):
    """What barriers of the own CTA order."""

    numbers: np.ndarray
    """The lanes, numbered over the grid."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.limit = np.zeros(self.machine.lanes, np.int64)
        """Stamps of the own CTA below this are ordered before what a lane does now."""
        self.over = self.limit - 1

    def start(self) -> None:
        self.limit[...] = 0
        self.over = self.limit - 1
        self.numbers = self.machine.lane_numbers + self.context.first_lane

    def synchronised(self) -> None:
        """The floors of the clocks changed."""
        self.limit = (self.clocks.floor + 1) << 32
        self.over = self.limit - 1

    def floor(self, space: Space, lanes: Array) -> Array:
        """What barriers of the own CTA order before what lanes do now."""
        if space.name != "shared" or self.machine.cluster_size > 1:
            return np.int64(0)
        return self.over if lanes is self.machine.lane_numbers else self.over[lanes]

    def late(self, space: Space, stamps: Array, lanes: Array) -> Array:
        """Indices of stamps that a barrier of the own CTA does not order."""
        late = self.late_mask(space, stamps, lanes)
        return np.flatnonzero(late) if np.count_nonzero(late) else ()

    def late_mask(self, space: Space, stamps: Array, lanes: Array) -> Array:
        """Which stamps a barrier of the own CTA does not order: one for each lane, or several rows of them."""
        if space.name == "shared" and self.machine.cluster_size == 1:
            late = stamps >= (self.limit if lanes is self.machine.lane_numbers else self.limit[lanes])
            late &= stamps != 0
            return late
        # most of what threads find is their own
        return (stamps != 0) & ((stamps & THREAD) != self.numbers[lanes]) | (stamps >= ASYNC)
