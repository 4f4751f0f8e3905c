"""Tensor memory of Blackwell: 128 lanes x 512 columns x 32 bits for each CTA, 576 columns on sm_107 (PTX ISA 9.7.18.1,
9.7.18.7).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = Any
LANES = 128
COLUMNS = 512
"""What one allocation may have without `.exclusive`, and all columns of targets other than sm_107."""
MOST_COLUMNS = 576
"""Those of sm_107."""
POISON = 0xCDCD_CDCD


class TensorMemory:
    """The tensor memory of the CTAs of a batch. A CTA has all columns for itself, as if it were alone on its SM."""

    def __init__(self, ctas: int, columns: int = COLUMNS):
        self.columns = columns
        self.data = np.full((ctas, LANES, columns), POISON, np.uint32)
        self.allocations: list[dict[int, int]] = [{} for _ in range(ctas)]
        """Per CTA: first column -> number of columns."""
        self.exclusive = np.zeros(ctas, np.bool_)
        """The allocation is the only one, by `.exclusive`."""
        self.allocated = np.zeros((ctas, columns), np.bool_)
        self.relinquished = np.zeros(ctas, np.bool_)

    def reset(self) -> None:
        """A new batch of CTAs begins."""
        self.data[...] = POISON
        self.allocated[...] = False
        self.relinquished[...] = False
        self.exclusive[...] = False
        for found in self.allocations:
            found.clear()

    def refuses(self, columns: int, exclusive: bool) -> str:
        """Why no allocation has so many columns, or the empty string (PTX ISA table 58)."""
        if exclusive and not (columns % 32 == 0 and 32 <= columns <= self.columns):
            return f"{columns} columns: an exclusive allocation has a multiple of 32, up to {self.columns}"
        if not exclusive and columns not in (32, 64, 128, 256, 512):
            return f"{columns} columns: an allocation has 32, 64, 128, 256 or 512"
        return ""

    def taken(self, cta: int) -> str:
        """How much of the tensor memory is allocated, in words."""
        how = " with .exclusive" if self.exclusive[cta] else ""
        return f"{int(self.allocated[cta].sum())} of {self.columns} are allocated{how}"

    def allocate(self, cta: int, columns: int, exclusive: bool = False) -> int | None:
        """The first column of an allocation, or None if there is no room. Without `exclusive` it is a multiple of its
        size; with it, there is no other.
        """
        if self.exclusive[cta] or (exclusive and self.allocations[cta]):
            return None
        for first in range(0, 1 if exclusive else COLUMNS, columns):
            if not self.allocated[cta, first : first + columns].any():
                self.allocated[cta, first : first + columns] = True
                self.allocations[cta][first] = columns
                self.exclusive[cta] = exclusive
                return first
        return None

    def free(self, cta: int, first: int, columns: int, exclusive: bool = False) -> str:
        """Give an allocation back; what is wrong, if anything."""
        found = self.allocations[cta].get(first)
        if found != columns:
            known = ", ".join(f"{n} columns at 0x{c:x}" for c, n in self.allocations[cta].items()) or "none"
            return f"0x{first:x} is not the start of an allocation of {columns} columns; the allocations are {known}"
        if exclusive != self.exclusive[cta]:
            how = "with" if self.exclusive[cta] else "without"
            return f"the allocation was made {how} .exclusive, so it is given back {how} it"
        self.exclusive[cta] = False
        del self.allocations[cta][first]
        self.allocated[cta, first : first + columns] = False
        return ""

    def check(self, cta: int, first: int, last: int) -> str:
        """What is wrong with touching these columns."""
        if last >= self.columns:
            return f"columns {first} to {last} are outside the {self.columns} columns of tensor memory"
        free = np.flatnonzero(~self.allocated[cta, first : last + 1])
        return f"column {first + int(free[0])} of tensor memory is not allocated" if free.size else ""


PER_REPEAT = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Registers per thread and repetition."""


@lru_cache(maxsize=256)
def register_places(shape: str, count: int, split: int, packed: bool) -> tuple[Array, Array, Array]:
    """Where the registers of a warp's tcgen05.ld or .st lie: (lanes, columns, columns of the upper halves), each
    (32, registers), relative to the address.

    `packed`: a register has the lower 16 bits of two neighbouring columns. `split`: columns between the halves of
    16x32bx2.
    """
    t = np.arange(32)[:, None]
    r = np.arange(count * PER_REPEAT[shape])[None, :]
    second = np.zeros_like(t)
    match shape:
        case "32x32b":
            lane, column = t + 0 * r, r + 0 * t
        case "16x64b":
            lane, column = 8 * (t & 1) + t // 4 + 0 * r, 2 * r + (t >> 1 & 1)
        case "16x128b":
            lane, column = t // 4 + 8 * (r & 1), 4 * (r >> 1) + t % 4
        case "16x256b":
            lane, column = t // 4 + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t % 4) + (r & 1)
        case _:
            lane, column = t % 16 + 0 * r, r + 0 * t
            second = t // 16 * split
    low = (2 * column if packed else column) + second
    return lane, low, low + 1 if packed else low


@lru_cache(maxsize=64)
def accumulator_places(m: int, n: int, mode: str) -> tuple[Array, Array]:
    """(lane, column) of each element of the part of D that a CTA holds: (m, 1) or (m, n) arrays.

    `mode`: "1" (cta_group::1), "2" (cta_group::2; m rows per CTA), "ws".
    """
    row, column = np.arange(m)[:, None], np.arange(n)[None, :]
    if m == 128:
        return row, column
    if mode == "1":
        return row % 16 + 32 * (row // 16), column
    parts = 128 // m  # the columns of D in so many bands of lanes
    width = n // parts
    return row + m * (column // width), column % width
