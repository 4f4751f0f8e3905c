"""Replicated lanes: lanes of a warp that read the same element with the same instruction, one of which then overwrites it.

Compilers give a small tensor to more lanes than it has elements, and update it in place. The lanes run in step on today's
GPUs unless they diverge; nothing in PTX promises it, so that a lane may still read what its double writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.program import Inst
from ..rule import Rule, Tolerated
from ..state.context import Context, Part
from ..state.shadow import ASYNC, THREAD, Space

Array = Any
MOST_PARTS = 64
REPLICATED_LANES = Rule(
    "replicated-lanes",
    ("8.7.1",),
    "two lanes of a warp read one element with the same load, and one of them overwrites it",
    "put bar.warp.sync between the load and the store, or let one lane load the element and shuffle it",
    "warning",
    Tolerated("the lanes of a warp run in step until they diverge, so that all of them read before one writes"),
)


class Replicas(Part):
    """What each load read and each store wrote last, by lane."""

    rules = (REPLICATED_LANES,)

    def __init__(self, context: Context):
        super().__init__(context)
        self.parts: dict[int, list[tuple[Array, Array]]] = {}
        """Number of an instruction -> (granules, lanes) of its last executions."""

    def start(self) -> None:
        self.parts.clear()

    def note(self, inst: Inst, index: Array, lanes: Array) -> None:
        parts = self.parts.get(inst.number)
        if parts is None or lanes.size == self.machine.lanes:
            self.parts[inst.number] = [(index, lanes)]
            return
        parts.append((index, lanes))
        del parts[:-MOST_PARTS]

    def executions(self, number: int) -> list[tuple[Array, Array]]:
        """(granules, lanes) of the last executions of a load or store."""
        return self.parts.get(number, [])

    def _doubles(self, load: Inst, store: Inst, granule: int, reader: int, writer: int) -> bool:
        """Whether two lanes of a warp read a granule with one load, as others read other ones, and the reader stores nothing
        else where the writer overwrites it.
        """
        both: set[int] = set()
        read: set[int] = set()
        for index, lanes in self.executions(load.number):
            near = lanes // 32 == writer // 32
            read.update(index[near].tolist())
            both.update(lanes[near & (index == granule)].tolist())
        if len(read) < 2 or not {reader, writer} <= both:
            return False
        for index, lanes in reversed(self.executions(store.number)):
            mine = index[lanes == reader]
            if mine.size:
                return granule in mine.tolist()
        return True

    def told(self, inst: Inst, space: Space, index: Array, lanes: Array, stamps: Array, now: str, before: str) -> Array:
        """Which of these races are of replicated lanes; the first is reported as such."""
        found = np.zeros(lanes.size, np.bool_)
        if (now, before) not in (("written", "read"), ("read", "written")):
            return found
        others = (stamps & THREAD) - self.context.first_lane
        near = np.flatnonzero((others // 32 == lanes // 32) & (stamps < ASYNC))
        for i in near.tolist():
            other = self.context.instruction_at(int(stamps[i]) >> 32)
            mine, its = int(lanes[i]), int(others[i])
            pair = (inst, other, int(index[i]), mine, its) if now == "read" else (other, inst, int(index[i]), its, mine)
            found[i] = self._doubles(*pair)
        at = np.flatnonzero(found)
        if not at.size:
            return found
        first = int(at[0])
        other = self.context.instruction_at(int(stamps[first]) >> 32)
        reader, writer = (int(lanes[first]), int(others[first]))
        if now == "written":
            reader, writer = writer, reader
        name = self.machine.describe_thread
        self.report(
            REPLICATED_LANES,
            inst,
            f"two lanes of a warp read the same {space.name} memory with one load and one of them overwrites it: "
            f"{name(reader)} may see the value that was there before or the one that {name(writer)} stores, if the lanes "
            "of the warp do not run in step",
            lanes[at],
            space=space,
            byte=int(index[first]) << space.shift,
            other=other,
        )
        return found
