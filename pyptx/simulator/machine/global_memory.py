"""Allocations in one address map.

Addresses are made up but behave as on a GPU: allocations are aligned to 256 bytes with gaps between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .endpoint import Members
from .program import HANDLE_BASE
from .texture import Handles

NULL_PAGE = 4096
"""Addresses below this come from a null pointer."""


@dataclass(slots=True, eq=False)
class Allocation:
    """Bytes at an address: an argument, a module variable, the parameters."""

    name: str
    base: int
    data: np.ndarray
    read_only: bool = False
    """Whether stores fault (parameters and constants)."""
    uninitialised: bool = False
    """Whether it holds nothing when the launch starts (outputs that a call allocated)."""

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def read_only_text(self) -> str:
        """That it may not be written, and what to do about that."""
        argument = "argument" in self.name
        return (
            f"{self.name} is read-only{'; pass an array that can be written, such as a copy of it' if argument else ''}"
        )


class GlobalMemory:
    """The allocations of the generic, .global and .const space, by address."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.freed: Sequence[tuple[str, int, int]] = ()
        """Name, address and size of what was allocated once."""
        self._bases: list[int] = []
        self._spans: tuple[np.ndarray, np.ndarray] | None = None
        """Where each allocation starts, and its size."""
        self.handles = Handles(HANDLE_BASE)
        self.endpoints: dict[int, Members] = {}
        """The fabric endpoints of the launch by their number."""

    def add(self, allocation: Allocation) -> None:
        at = bisect_right(self._bases, allocation.base)
        self.allocations.insert(at, allocation)
        self._bases.insert(at, allocation.base)
        self._spans = None

    def remove(self, allocation: Allocation) -> None:
        at = self.allocations.index(allocation)
        del self.allocations[at], self._bases[at]
        self._spans = None

    def find(self, address: int, size: int) -> Allocation | None:
        """The allocation that holds all bytes of an access, or None."""
        at = bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        allocation = self.allocations[at]
        return allocation if address + size <= allocation.base + allocation.size else None

    def parted(self, addresses: np.ndarray, size: int) -> Iterator[tuple[Allocation | None, np.ndarray]]:
        """The accesses of a size to many addresses, by the allocation that holds all bytes of each, or None: the numbers of
        those that are in it. The allocation of the first address comes first.
        """
        if self._spans is None:
            sizes = [a.size for a in self.allocations]
            self._spans = np.array(self._bases, np.uint64), np.array(sizes, np.uint64)
        bases, sizes = self._spans
        which = np.searchsorted(bases, addresses, "right") - 1
        if bases.size:
            offset = addresses - bases[which]
            which[(offset >= sizes[which]) | (sizes[which] - offset < np.uint64(size))] = -1
        if not np.count_nonzero(which != which[0]):
            at = int(which[0])
            yield self.allocations[at] if at >= 0 else None, np.arange(which.size)
            return
        order = np.argsort(which, kind="stable")
        cuts = np.flatnonzero(np.diff(which[order])) + 1
        groups = np.split(order, cuts)
        groups.sort(key=lambda lanes: int(lanes[0]))
        for lanes in groups:
            at = int(which[lanes[0]])
            yield self.allocations[at] if at >= 0 else None, lanes

    def describe(self, address: int) -> str:
        """Where an address lies, relative to the nearest allocation."""
        if address < NULL_PAGE:
            return f"this is {f'{address} bytes past ' if address else ''}a null pointer"
        for name, base, size in self.freed:
            if base <= address < base + size:
                return f"{name} ({size} bytes at 0x{base:x}) was there, and is freed"
        if not self.allocations:
            return "nothing is allocated"
        at = max(0, bisect_right(self._bases, address) - 1)
        near = min(
            self.allocations[at : at + 2],
            key=lambda a: a.base - address if address < a.base else max(0, address - a.base - a.size + 1),
        )
        span = f"{near.name} ({near.size} bytes at 0x{near.base:x})"
        if address < near.base:
            return f"{near.base - address} bytes before {span}"
        if address >= near.base + near.size:
            return f"{address - near.base - near.size} bytes past the end of {span}"
        return f"at byte {address - near.base} of {span}"
