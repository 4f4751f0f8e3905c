"""Which loop of a function to shorten, so that a long kernel is replayed for a few of its iterations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..sass import Function
from . import codes as e


@dataclass(frozen=True)
class Loop:
    """Instructions `first` to `last`; the latter goes back to the former."""

    first: int
    last: int
    executed: int
    """Instructions that warps of a CTA execute in it."""
    trips: float
    """Iterations of a warp each time that it enters the loop, on average."""


def loops(function: Function, counts: NDArray[np.int64]) -> list[Loop]:
    """The loops, as the branches that are taken back say; `counts` are those of `Emulated`."""
    ends: dict[int, int] = {}
    back: dict[int, int] = {}
    for index, i in enumerate(function.instructions):
        if i.opcode == "BRA" and i.target is not None and (taken := int(counts[index, e.N_BACK])):
            first = i.target // 16
            ends[first] = index
            back[first] = back.get(first, 0) + taken
    found: list[Loop] = []
    for first, last in ends.items():
        through = int(counts[first, e.N_WARPS])
        executed = int(counts[first : last + 1, e.N_WARPS].sum())
        found.append(Loop(first, last, executed, through / max(1, through - back[first])))
    return found


def heaviest(found: list[Loop], total: int) -> Loop | None:
    """The innermost loop with most of the instructions and more than a few iterations."""
    heavy = [loop for loop in found if loop.executed > 0.5 * total and loop.trips >= 12]
    return min(heavy, key=lambda loop: loop.last - loop.first, default=None)
