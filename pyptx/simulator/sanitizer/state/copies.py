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
from .context import TIME, Context, Part
from .shadow import THREAD

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
        self.waits = np.zeros((0, 4), np.int32)
        """By time of issue: when each warp has waited for a wgmma; TIME before that, and for others."""
        self.columns = np.zeros((0, self.machine.cluster_size), np.int32)
        """By time of issue: the columns of the mbarriers that tell of a copy, for each CTA of the cluster; 0 for none."""

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
        if now >= len(self.waits):
            self._grow(2 * now + 64)
        return state

    def _grow(self, count: int) -> None:
        more = count - len(self.waits)
        self.waits = np.concatenate([self.waits, np.full((more, 4), TIME, np.int32)])
        self.columns = np.concatenate([self.columns, np.zeros((more, self.columns.shape[1]), np.int32)])

    def tells(self, state: State, cta: int, column: int) -> None:
        """A copy completes on an mbarrier of a CTA, with this column."""
        state.columns[cta] = column
        row = self.columns[state.copy.time]
        row[...] = column if len(state.columns) == 1 else 0  # each CTA of a multicast has a barrier of its own
        for at, known in state.columns.items():
            row[at % row.size] = known

    def settled(self, lanes: Array, stamps: Array, ctas: Array) -> Array:
        """Which accesses of shared memory are known to come after the operations with these stamps; of the others it is to be found
        out. `ctas`: whose memory it is.
        """
        clocks, machine = self.clocks, self.machine
        times = stamps >> 32 & TIME
        issuers = (stamps & THREAD) - self.context.first_lane
        waits = self.waits[times]
        one = int(lanes[0])
        alone = not np.count_nonzero(lanes != one)
        if alone and clocks.matrix is not None:  # what it knows of each warp
            group = int(clocks.group_of[one])
            warps = clocks.matrix[group, clocks.local[one], : clocks.per].reshape(-1, 32).max(axis=1)
            first = clocks.local[issuers] // 32
            known = warps[np.minimum(first[:, None] + np.arange(4), warps.size - 1)]
            over = ((waits <= known) & (clocks.group_of[issuers] == group)[:, None]).any(axis=1)
        else:
            over = np.zeros(lanes.size, np.bool_)
        over |= (waits.min(axis=1) <= clocks.floor[lanes]) & (
            machine.cta_of_lane[issuers] == machine.cta_of_lane[lanes]
        )
        if clocks.matrix is None:
            return over
        columns = self.columns[times, ctas % machine.cluster_size]
        known = columns < clocks.matrix.shape[2]
        columns = np.where(known, columns, 0)
        known &= columns > 0
        return over | (known & (clocks.matrix[clocks.group_of[lanes], clocks.local[lanes], columns] >= times))

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
                        ended = over & (state.done == 0)
                        # a write of cp.async is an ordinary one from its end on, which is an event of the copy itself
                        state.done[ended] = self.context.tick(state.copy.inst) if mechanism == "group" else now
                        if mechanism == "wgmma":
                            self.waits[state.copy.time] = np.where(state.done, state.done, TIME)
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
