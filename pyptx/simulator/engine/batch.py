"""Where the threads of a batch of CTAs are: at which segments, waiting for what, called from where."""

from __future__ import annotations

import numpy as np

from ..machine.machine import Machine
from ..machine.schedule import Paused, Scheduler
from .turns import Turns


class Batch:
    """The threads of a batch; masks over lanes by the segment at which they are."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.program = machine.program
        self.segments = machine.program.segments
        self.alive_count = 0
        self.groups: dict[int, np.ndarray] = {}
        """Lanes that can run."""
        self.waiting: dict[int, np.ndarray] = {}
        """Lanes that wait for others of their warps."""
        self.paused: dict[int, Paused] = {}
        """Lanes that the scheduler stopped between two instructions, by their class."""
        # per (CTA, barrier): threads that have arrived without waiting
        self.arrived = np.zeros((16, machine.ctas), np.int64)
        self.at_barrier: dict[int, np.ndarray] = {}
        self.barrier_of = np.full(machine.lanes, -1, np.int64)
        self.barrier_count = np.zeros((16, machine.ctas), np.int64)
        self.cluster_arrived = np.zeros(machine.lanes, np.bool_)
        self.cluster_waiting: dict[int, np.ndarray] = {}
        self.cluster_done = np.zeros(machine.lanes, np.bool_)
        lanes = machine.lanes
        self.depth = np.zeros(lanes, np.int64)
        self.calls = np.zeros((4, lanes), np.int64)
        self.marks = np.zeros((4, lanes), np.uint32)
        """Stack tops at the calls: what a function takes with `alloca` is free when it returns."""
        self.saved: dict[int, list[np.ndarray]] = {}
        self.has_calls = any(s.ends == "call" for s in self.segments)
        self.turns = Turns()
        self.scheduler: Scheduler | None = None
        """Who decides which lanes run next; None: the order of the seed."""

    def begin(self, first_cta: int, count: int) -> None:
        """Put the threads of other CTAs at the start of the program."""
        machine = self.machine
        machine.start(first_cta, count)
        self.alive_count = int(np.count_nonzero(machine.live))
        self.groups = {self.program.start: machine.executing(None)}
        self.waiting.clear()
        self.paused.clear()
        self.arrived[...] = 0
        self.barrier_of[...] = -1
        self.at_barrier.clear()
        self.cluster_arrived[...] = False
        self.cluster_done[...] = False
        self.cluster_waiting.clear()
        self.depth[...] = 0
        self.turns.start()

    def add(self, segment: int, mask: np.ndarray) -> None:
        """Lanes come to a segment."""
        known = self.groups.get(segment)
        self.groups[segment] = mask if known is None else known | mask

    def together(self) -> bool:
        """Whether all living lanes are at one segment, and none of them waits."""
        groups = self.groups
        if len(groups) != 1 or self.waiting or self.at_barrier or self.cluster_waiting:
            return False
        (mask,) = groups.values()
        return np.count_nonzero(mask) == self.alive_count
