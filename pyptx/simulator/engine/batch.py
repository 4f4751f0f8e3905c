"""Where the threads of a batch of CTAs are: at which segments, waiting for what, called from where."""

from __future__ import annotations

import numpy as np

from ..machine.machine import Machine
from ..machine.schedule import Paused


class Batch:
    """The threads of a batch; masks over lanes by the segment at which they are."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.program = machine.program
        self.segments = machine.program.segments
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
