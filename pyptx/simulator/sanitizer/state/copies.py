"""Asynchronous copies (PTX ISA 9.7.10.28), and reads of matrix instructions: which are in flight, and who knows of their end.

A copy reads and writes at some time between its issue and the wait that covers it. Its stamps in the shadow
carry the time of issue, by which `State` is found: who has waited for it, and when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...machine.pending import Copy
from ...machine.program import Inst
from .context import Context, Part

Array = Any


def reduces(inst: Inst) -> bool:
    """Whether an instruction is an atomic reduction, which others may meet in any order."""
    return inst.family.access == "atomic"


@dataclass(slots=True, eq=False)
class State:
    """What is known of a copy. Times are 0 until the wait."""

    copy: Copy
    lanes: np.ndarray
    done: np.ndarray
    """Per issuing lane: when it waited for the copy."""
    read_done: np.ndarray
    """The same for its source (wait_group.read)."""
    told: np.ndarray
    """Per issuing lane: when it told an mbarrier of the copy (cp.async.mbarrier.arrive)."""
    numbers: np.ndarray
    """The lanes, numbered over the grid."""
    columns: dict[int, int] = field(default_factory=dict[int, int])
    """CTA of the batch -> column of the mbarrier there that tells of the copy."""
    phases: Array = None
    """What its issuer knew of the phases of mbarriers (`Rounds.known`), if it tells some."""
    first_group: int = 0
    """The first cluster of that batch."""
    of_a: bool = False
    """It is a matrix instruction's read of A."""


class Copies(Part):
    """The copies of a launch."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.at: dict[int, State] = {}
        """Time of issue -> copy."""
        self.open: list[State] = []
        """Those that are waited for in groups, and are not complete for all who issued them."""
        self.on_barrier: dict[int, list[State]] = {}
        """Mbarrier -> the copies that tell it, and nobody has waited for it since."""

    def start(self) -> None:
        self.open.clear()
        self.on_barrier.clear()

    def issue(self, copy: Copy, lanes: Array, now: int) -> State:
        """Lanes issue a copy at a time."""
        copy.time = now
        done, read_done, told = np.zeros((3, lanes.size), np.int64)
        numbers = lanes + self.context.first_lane
        state = State(copy, lanes, done, read_done, told, numbers, first_group=self.clocks.first_group)
        self.at[now] = state
        return state

    def waited(self, mechanism: str, lanes: Array, newest: Array, now: int, *, read: bool = False) -> None:
        """Lanes wait for their groups before `newest`. `read`: only until their sources are read."""
        limit = np.full(self.machine.lanes, -1)
        limit[lanes] = newest
        kept: list[State] = []
        for state in self.open:
            if state.copy.mechanism == mechanism:
                over = limit[state.lanes] > state.copy.group
                if np.count_nonzero(over):
                    state.read_done[over & (state.read_done == 0)] = now
                    if not read:
                        state.done[over & (state.done == 0)] = now
                        if np.count_nonzero(state.done) == state.done.size:
                            continue
            kept.append(state)
        self.open = kept

    def seen(self, slot: int) -> None:
        """A thread waited for the phase of an mbarrier that has ended."""
        states = self.on_barrier.get(slot)
        if states:
            self.on_barrier[slot] = [s for s in states if not s.copy.done and s.copy.time]

    def is_complete(self, state: State, lane: int) -> bool:
        """Whether a lane knows that a copy is complete."""
        return self._is_over(state, state.done, lane)

    def is_read(self, state: State, lane: int) -> bool:
        """Whether a lane knows that a copy has read its source, and its tensor map."""
        return self._is_over(state, state.read_done, lane)

    def _is_over(self, state: State, done: Array, lane: int) -> bool:
        """Whether a lane knows of a wait for a copy: for an mbarrier that tells of it, or at the time `done` for its group."""
        clocks, at = self.clocks, np.array([lane])
        if not state.columns:
            return bool(done[0]) and bool(clocks.ordered(at, state.numbers[:1], done[:1])[0])
        return any(
            clocks.knows(at, state.first_group + cta // self.machine.cluster_size, column, state.copy.time)[0]
            for cta, column in state.columns.items()
        )
