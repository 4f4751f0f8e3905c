"""Threads that poll forever: a deadlock that no barrier shows.

Each look at an mbarrier or a flag is counted; a store, an arrival or a copy resets the counts. When every living thread
either waits at a barrier or has looked many times, the state of the launch is compared from look to look: pollers may change
memory themselves (atom.cas, atom.exch) or count their looks, and only when all registers and memory are as they were before
can nothing change any more.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ...engine.deadlock import IDLE, LIKELY, Wait, deadlock
from ...machine.pending import Copy
from ...machine.program import Inst
from ...semantics.mbarrier import BIAS, COUNT, PHASE
from .context import Context, Part

Array = Any
PATIENCE = 300
"""Looks in vain of every thread after which states are compared."""
VISITS = 16
"""How often one place is come to before another state is kept."""


class Progress(Part):
    """Who polls what."""

    def __init__(self, context: Context):
        super().__init__(context)
        lanes = self.machine.lanes
        self.looks = np.zeros(lanes, np.int64)
        self.slot = np.full(lanes, -1, np.int64)
        self.inst = np.zeros(lanes, np.int64)
        self.moved = False
        self.start()

    def start(self) -> None:
        self.looks[...] = 0
        self.moved = False
        self.patience = PATIENCE
        self.kept: tuple[int, bytes, bytes] | None = None
        """An instruction, the lanes that looked, and the state of the launch then."""
        self.visits = 0

    def made(self) -> None:
        """Something changed."""
        self.moved = True

    def exited(self, mask: np.ndarray) -> None:
        self.moved = True

    def barrier_arrived(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self.moved = True

    def barrier_released(self, number: int, mask: np.ndarray) -> None:
        self.moved = True

    def cluster_arrived(self, inst: Inst, mask: np.ndarray) -> None:
        self.moved = True

    def mbarrier_updated(self, inst: Inst, lanes: Array, slots: Array, ended: set[int], later: Array) -> None:
        self.moved = True

    def mbarrier_initialised(self, inst: Inst, lanes: Array, slots: Array) -> None:
        self.moved = True

    def copy_issued(self, copy: Copy) -> None:
        self.moved = True

    def copy_completed(self, copy: Copy) -> None:
        self.moved = True

    def mbarrier_waited(self, inst: Inst, lanes: Array, slots: Array, done: Array) -> None:
        if np.count_nonzero(done) < done.size:
            self.polled(inst, lanes[~done], slots[~done])
        self.looks[lanes[done]] = 0

    def polled(self, inst: Inst, lanes: Array, slots: Array = -1) -> None:
        """Threads looked (at mbarriers `slots`) and may look again."""
        if self.moved:
            self.looks[...] = 0
            self.moved = False
            self.kept = None
        self.looks[lanes] += 1
        self.slot[lanes] = slots
        self.inst[lanes] = inst.number
        if self.looks[lanes[0]] > self.patience:
            self._check(inst, lanes)

    def _came_back(self, inst: Inst, lanes: Array) -> bool:
        """Whether the state is as it was when these threads looked here before."""
        here = inst.number, lanes.tobytes()
        if self.kept is not None and self.kept[:2] != here:
            return False
        state = self._state()
        if self.kept is not None and self.kept[2] == state:
            return True
        self.visits += 1
        if self.kept is None or self.visits > VISITS:
            if self.kept is not None:  # a longer period, or something counts: look again later
                self.patience *= 2
            self.kept, self.visits = (*here, state), 0
        return False

    def _state(self) -> bytes:
        engine = self.context.engine
        digest = hashlib.blake2b(digest_size=16)
        for array in (*engine.endless.arrays(), *(engine.groups[at] for at in sorted(engine.groups))):
            digest.update(array.tobytes())
        digest.update(repr(sorted(engine.groups)).encode())
        return digest.digest()

    def _check(self, inst: Inst, at: Array) -> None:
        machine, engine = self.machine, self.context.engine
        if machine.pending.copies:
            return
        blocked = np.zeros(machine.lanes, np.bool_)
        for mask in (*engine.waiting.values(), *engine.at_barrier.values(), *engine.cluster_waiting.values()):
            blocked |= mask
        alive = machine.executing(None)
        polling = alive & ~blocked
        if (self.looks[polling] <= self.patience).any() or not self._came_back(inst, at):
            return
        raise deadlock(engine, self._polls(np.flatnonzero(polling)))

    def _polls(self, lanes: Array) -> list[Wait]:
        """Who polls what: threads of all CTAs that look at the same place of their shared memory, in the same state."""
        machine = self.machine
        words = machine.shared.reshape(-1).view(np.uint64)
        groups: dict[tuple[int, tuple[int, int] | None], list[int]] = {}
        for lane in lanes.tolist():
            slot = int(self.slot[lane])
            state = (slot % (machine.shared.shape[1] // 8), int(words[slot])) if slot >= 0 else None
            groups.setdefault((int(self.inst[lane]), state), []).append(lane)
        found: list[Wait] = []
        for (number, _), here in groups.items():
            slot = int(self.slot[here[0]])
            text, hint, rank = (
                self._describe(slot) if slot >= 0 else ("poll memory here, and nothing changes it", None, IDLE)
            )
            found.append(Wait(machine.program.instructions[number], np.array(here), text, hint, rank))
        return found

    def _describe(self, slot: int) -> tuple[str, str, int]:
        """What threads wait for at an mbarrier, what is missing, and the rank of the wait."""
        machine = self.machine
        word = int(machine.shared.reshape(-1).view(np.uint64)[slot])
        pending, expected = word & COUNT, word >> 20 & COUNT
        balance = (word >> 40 & (1 << 22) - 1) - BIAS
        phase = 1 if word & PHASE else 0
        text = (
            f"poll the mbarrier {self.shadow.name(self.shadow.shared, 8 * slot)} here: its phase (parity {phase}) is not "
            f"complete, it waits for {pending} of {expected} arrivals and {balance} bytes"
        )
        if balance > 0 and pending == 0:
            hint = "more bytes are expected than copies brought: does expect_tx match what is copied to this barrier?"
            return text, hint, LIKELY
        if balance < 0:
            hint = "copies brought more bytes than were expected: does expect_tx match what is copied to this barrier?"
            return text, hint, LIKELY
        if pending < expected:
            hint = (
                f"{expected - pending} arrivals have come in this phase, and the count of mbarrier.init is {expected}: is it too "
                "large, or is an arrival missing?"
            )
            return text, hint, LIKELY
        hint = (
            "nobody arrives in this phase: is an arrival missing, or the parity that is waited for wrong? A fresh barrier is in "
            "phase 0; the phase before it counts as complete"
        )
        return text, hint, IDLE
