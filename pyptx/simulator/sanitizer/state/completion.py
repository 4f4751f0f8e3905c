"""What single threads issue of tcgen05 (`mma`, `cp`, `shift`): it runs in order, and is complete for those who have waited for
an mbarrier that a later tcgen05.commit of that thread tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .context import Part

Array = Any


class Completion(Part):
    """Who knows that what a thread has issued is complete."""

    def column(self, lane: int, of_a: bool = False) -> int:
        """Where a thread's knowledge says up to when what `lane` has issued is complete, or has read its A."""
        slot = -1 - lane - (self.clocks.group_of.size if of_a else 0)
        return self.clocks.column(int(self.clocks.group_of[lane]), slot)

    def complete(self, lanes: Array, issuer: int, time: int, *, of_a: bool = False) -> Array:
        """Which of these lanes know that what `issuer` issued at a time is complete, or has read its A."""
        clocks = self.clocks
        column = self.column(issuer, of_a)
        matrix = clocks.ensure()
        groups = clocks.group_of[lanes]
        known = np.zeros(lanes.size, np.bool_)
        if column < matrix.shape[2]:
            known = (groups == clocks.group_of[issuer]) & (matrix[groups, clocks.local[lanes], column] >= time)
        return known | self.complete(lanes, issuer, time) if of_a else known
