"""Threads and CTAs that end while what they have issued may still be in flight."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..rule import Rule, Tolerated
from ..state.context import Context, Part
from ..state.copies import Copies, State

Array = Any
EXIT_IN_FLIGHT = Rule(
    "exit-in-flight",
    ("9.7.10.28.1",),
    "a thread or CTA ends and has not waited for its copies, `wgmma` or tcgen05 operations",
    "wait for the mbarrier (mbarrier.try_wait) before the CTA ends",
    tolerated=Tolerated("a CTA keeps its shared memory until the copies of its threads are complete", "`cp.async`"),
)


class Exits(Part):
    """What is in flight when threads end."""

    rules = (EXIT_IN_FLIGHT,)

    def __init__(self, context: Context):
        super().__init__(context)
        self.copies = context.part(Copies)

    def exited(self, mask: np.ndarray) -> None:
        """Threads end: what they issued must be done."""
        kept: list[State] = []
        for state in self.copies.open:
            here = mask[state.lanes]
            if not np.count_nonzero(here):
                kept.append(state)
                continue
            left = here & (state.read_done == 0) & (state.told == 0)
            if np.count_nonzero(left):
                self._tell(state, left)
            if state.copy.mechanism != "wgmma" and np.count_nonzero(here) < state.lanes.size:
                kept.append(state)
        self.copies.open = kept

    def _tell(self, state: State, left: Array) -> None:
        mechanism = state.copy.mechanism
        if mechanism == "wgmma":
            what, hint = "wgmma", "wgmma.commit_group, then wgmma.wait_group 0, before the end"
        elif mechanism == "group":
            what, hint = "cp.async", "wait with cp.async.wait_all before the end"
        else:
            what = "bulk copy"
            hint = (
                "cp.async.bulk.commit_group, then cp.async.bulk.wait_group.read 0 in the issuing thread: shared memory is given "
                "away when the CTA ends"
            )
        message = f"threads exit while their {what} may still be in flight"
        severity = "warning" if mechanism == "group" else "error"
        self.report(EXIT_IN_FLIGHT, state.copy.inst, message, state.lanes[left], hint=hint, severity=severity)

    def finish(self) -> None:
        """All threads of the batch have exited."""
        for slot, states in self.copies.on_barrier.items():
            for state in states:
                self.report(
                    EXIT_IN_FLIGHT,
                    state.copy.inst,
                    f"the kernel ends and no thread has waited for {self.shadow.mbarriers([slot])}, which this copy completes",
                    state.lanes,
                )
