"""Which group of threads runs next, where the order of a launch is not scheduled."""

from __future__ import annotations

from collections.abc import Collection

PATIENCE = 2048
"""Segments that may run before a group that was passed over gets its turn."""


class Turns:
    """Chooses among the segments at which there are threads that can run."""

    def __init__(self) -> None:
        self._yielded: set[int] = set()
        self._passed: dict[int, int] = {}
        self._turn = 0

    def start(self) -> None:
        """A batch begins."""
        self._yielded.clear()
        self._passed.clear()

    def give_way(self, segment: int) -> None:
        """The group that comes to this segment polls: the others run first."""
        self._yielded.add(segment)

    def choose(self, groups: Collection[int]) -> int:
        """The lowest group that has not given way; one that has waited too long goes first."""
        self._turn += 1
        best = -1
        for segment in groups:
            if segment not in self._yielded and (best < 0 or segment < best):
                best = segment
        if best < 0:
            self._yielded.clear()
            # oldest first, so that several polling groups take turns
            best = min(groups, key=lambda s: (self._passed.get(s, 0), s))
        if len(groups) > 1:
            for segment in groups:
                since = self._passed.setdefault(segment, self._turn)
                if self._turn - since > PATIENCE and segment != best:
                    best = segment
                    break
        self._passed[best] = self._turn
        return best
