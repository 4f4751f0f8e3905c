"""Shared memory of other CTAs of a cluster (PTX ISA 5.1.7): it exists from the begin of its CTA to its end."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.program import Inst
from ..rule import Rule
from ..state.context import Part
from ..state.shadow import ASYNC, THREAD, Space

Array = Any
START = Rule(
    "cluster-start",
    ("5.1.7",),
    "an access to the shared memory of a CTA of the cluster that may not have begun",
    "all CTAs of the cluster meet at barrier.cluster.arrive and .wait first (.relaxed will do)",
)
EXIT = Rule(
    "cluster-exit",
    ("5.1.7",),
    "an access to the shared memory of a CTA of the cluster that has exited, or may have",
    "all CTAs of the cluster meet at barrier.cluster.arrive and .wait before they exit",
)


class Clusters(Part):
    """Which CTAs of a batch may know that those of their cluster have begun, and who has visited them."""

    rules = (START, EXIT)

    def start(self) -> None:
        self.visits: dict[int, dict[int, tuple[int, Inst]]] = {}
        """CTA -> when threads of others arrived last at one of its mbarriers."""
        self.all_begun = False
        self.begun = np.zeros(self.machine.ctas, np.bool_)
        """CTAs that may know that all CTAs of their cluster have begun: one of their threads has waited for the cluster, or
        for an mbarrier, which another CTA may have completed.
        """

    def met(self, lanes: Array) -> None:
        """Lanes have waited for what another CTA may have completed."""
        if not self.all_begun:
            self.begun[self.machine.cta_of_lane[lanes]] = True
            self.all_begun = bool(self.begun.all())

    def touched(
        self, inst: Inst, space: Space, index: Array, lanes: Array, *, reads: bool = False, writes: bool = False
    ) -> None:
        if space.name == "shared" and self.machine.cluster_size > 1 and not self.all_begun:
            self._check_begun(inst, lanes, space, index)

    def _check_begun(self, inst: Inst, lanes: Array, space: Space, index: Array) -> None:
        """The CTAs whose shared memory is touched must have begun."""
        owner = self.machine.cta_of_lane[lanes]
        far = np.flatnonzero(~self.begun[owner] & ((index << space.shift) // self.machine.shared.shape[1] != owner))
        if far.size:
            self.report(
                START,
                inst,
                "shared memory of another CTA of the cluster is touched, which may not have begun",
                lanes[far],
                space=space,
                byte=int(index[far[0]]) << space.shift,
            )

    def check_peer(self, inst: Inst, lane: int, byte: int) -> None:
        """The CTA whose shared memory is touched must have begun and not have exited."""
        machine = self.machine
        cta = byte // machine.shared.shape[1]
        if cta == machine.cta_of_lane[lane]:
            return
        shared = self.shadow.shared
        self._check_begun(inst, np.array([lane]), shared, np.array([byte >> shared.shift]))
        start = cta * machine.padded
        if not np.count_nonzero(machine.executing(None)[start : start + machine.padded]):
            self.report(
                EXIT,
                inst,
                "shared memory of a CTA of the cluster that has already exited is touched",
                lane,
                space=self.shadow.shared,
                byte=byte,
            )

    def visited(self, inst: Inst, lanes: Array, cta: int) -> None:
        """Lanes arrive at an mbarrier of a CTA."""
        for lane in lanes[self.machine.cta_of_lane[lanes] != cta].tolist():
            self.visits.setdefault(cta, {})[lane] = self.clocks.now, inst

    def exited(self, mask: np.ndarray) -> None:
        """Nothing is wrong with exiting while others wait: barriers count the living. But other CTAs must have ended
        their accesses to shared memory when the last thread of a CTA exits.
        """
        machine = self.machine
        if machine.cluster_size == 1 or self.clocks.too_large:
            return
        left = (machine.executing(None) & ~mask).reshape(machine.ctas, -1).any(axis=1)
        for cta in np.flatnonzero(mask.reshape(machine.ctas, -1).any(axis=1) & ~left).tolist():
            self._check_visitors(int(cta))

    def _check_visitors(self, cta: int) -> None:
        """The threads of a CTA know of all accesses of others to its shared memory."""
        machine, space = self.machine, self.shadow.shared
        size = machine.shared.shape[1] >> space.shift
        first = cta * size
        start = self.context.first_lane + cta * machine.padded
        row: Array = None
        if cta in self.visits:
            row = self._known_at_exit(cta)
            for lane, (time, inst) in self.visits.pop(cta).items():
                if row[self.clocks.local[lane]] < time:
                    self._report_visitor(inst, "arrived at", lane)
        for verb, table in (("written", space.write), ("read", space.read)):
            stamps = table[first : first + size]
            who = stamps & THREAD
            at = np.flatnonzero((stamps != 0) & (stamps < ASYNC) & ((who < start) | (who >= start + machine.padded)))
            if not at.size:
                continue
            if row is None:
                row = self._known_at_exit(cta)
            late = at[row[who[at] % self.clocks.per] < stamps[at] >> 32]
            if late.size:
                inst = self.context.instruction_at(int(stamps[late[0]] >> 32))
                lane = int(who[late[0]]) - self.context.first_lane
                self._report_visitor(inst, verb, lane, space, int(first + late[0]) << space.shift)

    def _known_at_exit(self, cta: int) -> Array:
        """What all threads of a CTA know of its cluster."""
        machine, clocks = self.machine, self.clocks
        everyone = cta * machine.padded + np.flatnonzero(machine.live[cta * machine.padded :][: machine.padded])
        return clocks.release(everyone).rows[clocks.first_group + cta // machine.cluster_size]

    def _report_visitor(
        self, inst: Inst, verb: str, lane: int, space: Space | None = None, byte: int | None = None
    ) -> None:
        what = "an mbarrier" if space is None else "shared memory"
        self.report(
            EXIT,
            inst,
            f"{what} of another CTA of the cluster is {verb} here, and that CTA exits without a synchronisation after it: "
            "the memory may be gone by then",
            lane,
            space=space,
            byte=byte,
        )
