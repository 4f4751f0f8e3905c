"""Programmatic dependent launches (PTX ISA 9.7.15.14): the grid before this one may still run, and the next one may begin.

Only a launch that says `programmatic=True` is checked. griddepcontrol.wait waits until the grids before this one have completed
and what they wrote is visible; griddepcontrol.launch_dependents lets the next grid begin. Neither grid is simulated: a read
is not known to depend on the grid before, nor a store to be read by the next, so what is found are warnings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....dialects.ptx.barrier import GridDependencyControl
from ...machine.machine import Action
from ...machine.program import Inst
from ..rule import Rule, Tolerated
from ..state.context import Context, Part
from ..state.shadow import Space

Array = Any
DEPENDENT_READ = Rule(
    "dependent-read",
    ("9.7.15.14",),
    "with `programmatic=True`: global memory is read before `griddepcontrol.wait`",
    "griddepcontrol.wait comes before the first read of what the grid before writes; reads of what no grid writes, such as weights, "
    "may come earlier",
    "warning",
    Tolerated("the grid before has usually written what is read before `griddepcontrol.wait`"),
)
DEPENDENT_STORE = Rule(
    "dependent-store",
    ("9.7.15.14",),
    "with `programmatic=True`: global memory is written after `griddepcontrol.launch_dependents`",
    "griddepcontrol.launch_dependents comes after the stores, unless every dependent executes griddepcontrol.wait before it reads "
    "them",
    "warning",
    Tolerated(
        "dependents that execute `griddepcontrol.wait` see stores that come after `griddepcontrol.launch_dependents`"
    ),
)


class Dependents(Part):
    """What the threads of a batch have said to the grids before and after."""

    rules = (DEPENDENT_READ, DEPENDENT_STORE)

    def __init__(self, context: Context):
        super().__init__(context)
        machine = self.machine
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
            lanes = self.machine.active(inst, mask)
            times[lanes & (times == 0)] = self.context.tick(inst)
            return action(mask)

        return control

    def touched(
        self, inst: Inst, space: Space, index: Array, lanes: Array, *, reads: bool = False, writes: bool = False
    ) -> None:
        if self.on and space.name == "global":
            if reads:
                self._read(inst, space, index, lanes)
            if writes:
                self._wrote(inst, lanes)

    def _read(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        """Threads read global memory."""
        early = lanes[space.write[index] == 0]  # what this grid wrote is its own
        early = early[~self._knows(early, self.waited)]
        if early.size:
            what = (
                "the kernel never executes it"
                if self.never
                else "it comes later, or in threads that this one has not met"
            )
            self.report(
                DEPENDENT_READ,
                inst,
                f"global memory is read before griddepcontrol.wait ({what}): the grid before this one may not have written it",
                early,
            )

    def _wrote(self, inst: Inst, lanes: Array) -> None:
        """Threads write global memory."""
        late = lanes[self._knows(lanes, self.launched)]
        if late.size:
            self.report(
                DEPENDENT_STORE,
                inst,
                "global memory is written after griddepcontrol.launch_dependents: a grid that has begun sees it only after its own "
                "griddepcontrol.wait",
                late,
            )

    def _knows(self, lanes: Array, times: Array) -> Array:
        """Which threads have executed it, or have met one that had."""
        known = times[lanes] > 0
        others = np.flatnonzero(times)
        if others.size and not self.clocks.too_large:
            for at in np.flatnonzero(~known).tolist():
                here = np.full(others.size, lanes[at])
                known[at] = self.clocks.ordered(here, others + self.context.first_lane, times[others]).any()
        return known


def _is(inst: Inst, what: str) -> bool:
    return inst.family is GridDependencyControl and inst.has(what)
