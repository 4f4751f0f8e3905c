"""Which loop of a function to shorten, so that a long kernel is replayed for a few of its iterations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..sass import Function


@dataclass(frozen=True)
class Loop:
    """Instructions `first` to `last`; the latter goes back to the former."""

    first: int
    last: int
    executed: int
    """Instructions that warps of a CTA execute in it."""
    entries: float
    """How often a warp gets there from outside, on average."""
    trips: float
    """Iterations of an entry."""


def loops(function: Function, counts: NDArray[np.int64], warps: int) -> list[Loop]:
    """The loops, as the branches that go back say; `counts` are executions of each instruction by the warps of a CTA."""
    ends: dict[int, int] = {}
    for index, i in enumerate(function.instructions):
        if i.opcode == "BRA" and i.target is not None and i.target // 16 <= index and counts[index]:
            ends[i.target // 16] = max(index, ends.get(i.target // 16, 0))
    found: list[Loop] = []
    for first, last in ends.items():
        through = float(counts[first])
        back = sum(
            float(counts[k])
            for k in range(first, last + 1)
            if function.instructions[k].opcode == "BRA" and function.instructions[k].target == 16 * first
        )
        before = max(float(counts[first - 1]) if first else warps, 1.0)
        entries = min(max(through - back, before if before < through else 1.0), through)
        found.append(Loop(first, last, int(counts[first : last + 1].sum()), entries / warps, through / entries))
    return found


def heaviest(found: list[Loop], total: int) -> Loop | None:
    """The innermost loop with most of the instructions and more than a few iterations."""
    heavy = [loop for loop in found if loop.executed > 0.5 * total and loop.trips >= 12]
    return min(heavy, key=lambda loop: loop.last - loop.first, default=None)
