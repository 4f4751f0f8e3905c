"""Copies that several threads issue, all of them the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...machine.machine import Action
from ...machine.pending import Copy
from ...machine.program import Inst
from ..rule import Rule, Tolerated
from ..state.context import Context, Part
from ..state.copies import Copies, State, reduces

Array = Any
REPEATED = Rule(
    "copy-repeated",
    ("9.7.10.28.1",),
    "several threads issue a bulk copy of the same bytes to the same place",
    "one thread issues it: elect one of the warp (elect.sync), or choose it with a predicate",
    "warning",
    Tolerated(
        "every thread that executes a bulk copy issues it: all lanes of a warp write the same bytes to the same place"
    ),
)


@dataclass(slots=True)
class Repeated:
    """A copy and who has issued it."""

    places: tuple[object, ...]
    first: State
    lanes: list[int]


def _places(copy: Copy) -> tuple[object, ...]:
    """What a copy reads and writes."""
    rows = ((r[0].tobytes(), r[1]) for r in (copy.read_rows, copy.written_rows) if r is not None)
    return (*copy.reads, None, *copy.writes, *rows)


class RepeatedCopies(Part):
    """The copy that each instruction has issued last."""

    rules = (REPEATED,)

    def __init__(self, context: Context):
        super().__init__(context)
        self.copies = context.part(Copies)

    def start(self) -> None:
        self.latest: dict[int, Repeated] = {}
        """Instruction -> the copy that it issued last."""

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.family.access != "copy" or inst.family.proxy != "async":
            return action

        def copy(mask: Array) -> object:
            result = action(mask)
            self._tell(inst)
            return result

        return copy

    def repeats(self, state: State) -> bool:
        """Whether another thread has issued the same copy with the same instruction, and it may still be in flight: both
        write the same bytes.
        """
        copy = state.copy
        rows = copy.written_rows
        outside = rows is None or not rows[0].size  # a box outside of its tensor writes nothing
        if reduces(copy.inst) or (not copy.writes and outside):
            return False
        lane, key = int(copy.lanes[0]), _places(copy)
        known = self.latest.get(copy.inst.number)
        if known is None or known.places != key or lane in known.lanes or self.copies.is_complete(known.first, lane):
            self.latest[copy.inst.number] = Repeated(key, state, [lane])
            return False
        known.lanes.append(lane)
        return True

    def _tell(self, inst: Inst) -> None:
        """After an instruction has issued its copies."""
        known = self.latest.get(inst.number)
        if known is None or len(known.lanes) == 1:
            return
        size = sum(n for _, _, n in known.first.copy.writes) or known.first.copy.tensor_bytes
        self.report(
            REPEATED,
            inst,
            f"{len(known.lanes)} threads issue this copy of the same {size} bytes to the same place",
            np.array(known.lanes),
        )
