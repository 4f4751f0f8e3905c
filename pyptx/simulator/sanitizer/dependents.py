"""Programmatic dependent launches (PTX ISA 9.7.15.14): the grid before this one may still run, and the next one may begin.

Only a launch that says `programmatic=True` is checked. griddepcontrol.wait waits until the grids before this one have completed
and what they wrote is visible; griddepcontrol.launch_dependents lets the next grid begin. Neither grid is simulated: a read
is not known to depend on the grid before, nor a store to be read by the next, so what is found are warnings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.ptx.barrier import GridDependencyControl
from ..machine.observe import Action
from ..machine.program import Inst
from .shadow import Space

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any
READ_RULE, STORE_RULE = "dependent-read", "dependent-store"


class Dependents:
    """What the threads of a batch have said to the grids before and after."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer
        machine = sanitizer.machine
        self.on = machine.launch.programmatic
        self.never = not any(_is(inst, "wait") for inst in machine.program.instructions)
        self.waited, self.launched = np.zeros((2, machine.lanes), np.int64)
        """When each thread executed griddepcontrol.wait and griddepcontrol.launch_dependents; 0: not yet."""

    def start(self) -> None:
        self.waited[...] = 0
        self.launched[...] = 0

    def bound(self, inst: Inst, action: Action) -> Action:
        if not self.on or inst.family is not GridDependencyControl:
            return action
        times = self.waited if inst.has("wait") else self.launched

        def control(mask: Array) -> object:
            lanes = self.s.machine.active(inst, mask)
            times[lanes & (times == 0)] = self.s.tick(inst)
            return action(mask)

        return control

    def read(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        """Threads read global memory."""
        if not self.on or space.name != "global":
            return
        early = lanes[space.write[index] == 0]  # what this grid wrote is its own
        early = early[~self._knows(early, self.waited)]
        if early.size:
            what = (
                "the kernel never executes it"
                if self.never
                else "it comes later, or in threads that this one has not met"
            )
            self.s.report(
                READ_RULE,
                inst,
                f"global memory is read before griddepcontrol.wait ({what}): the grid before this one may not have written it",
                early,
                hint="griddepcontrol.wait comes before the first read of what the grid before writes; reads of what no grid "
                "writes, such as weights, may come earlier",
                severity="warning",
            )

    def wrote(self, inst: Inst, space: Space, lanes: Array) -> None:
        """Threads write global memory."""
        if not self.on or space.name != "global":
            return
        late = lanes[self._knows(lanes, self.launched)]
        if late.size:
            self.s.report(
                STORE_RULE,
                inst,
                "global memory is written after griddepcontrol.launch_dependents: a grid that has begun sees it only after its own "
                "griddepcontrol.wait",
                late,
                hint="griddepcontrol.launch_dependents comes after the stores, unless every dependent executes griddepcontrol.wait before it "
                "reads them",
                severity="warning",
            )

    def _knows(self, lanes: Array, times: Array) -> Array:
        """Which threads have executed it, or have met one that had."""
        known = times[lanes] > 0
        others = np.flatnonzero(times)
        if others.size and not self.s.races.off:
            for at in np.flatnonzero(~known).tolist():
                here = np.full(others.size, lanes[at])
                known[at] = self.s.clocks.ordered(here, others + self.s.first_lane, times[others]).any()
        return known


def _is(inst: Inst, what: str) -> bool:
    return inst.family is GridDependencyControl and inst.has(what)
