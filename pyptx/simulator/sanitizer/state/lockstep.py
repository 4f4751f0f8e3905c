"""Pairs of accesses that rely on the lanes of a warp running in step: strong loads and stores of two lanes that execute them
together, with nothing that orders them (PTX ISA 3.1). They are not a race, and their result depends on the schedule.

Atomics are not among them, nor loads of which the value decides where a thread goes on: whoever uses those expects that others
come first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.machine import Action
from ...machine.program import Inst, Program
from .context import Context, Part
from .values import branches_on, loads_behind

Array = Any


def _strong(inst: Inst) -> bool:
    return inst.family.access in ("load", "store") and inst.strong


def _used(program: Program) -> set[int]:
    """The strong loads and stores of a program, without the loads that decide where a thread goes on."""
    instructions = program.instructions
    strong = {i.number for i in instructions if _strong(i)}
    return strong - loads_behind(instructions, branches_on(instructions)) if strong else strong


class Lockstep(Part):
    """The pairs of a launch, in `Findings.in_step`: (the later instruction, the earlier one) by their numbers."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.group: Array = None
        """The lanes that execute the present instruction together, those whose guard is false among them; None: all."""
        self.used = self.machine.program.once(_used)
        """Numbers of the accesses that may be among them."""

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.number not in self.used:
            return action

        def together(mask: Array) -> object:
            self.group = mask
            return action(mask)

        return together

    def unordered(self, inst: Inst, lanes: Array, stamps: Array, others: Array, which: Array) -> None:
        """Accesses of threads `others`, numbered as in the batch, that nothing orders before what `lanes` do now, but that
        are morally strong with it.
        """
        if inst.number not in self.used:
            return
        at = np.flatnonzero(which & (others // 32 == lanes // 32) & (others != lanes))
        if self.group is not None:
            at = at[self.group[others[at]]]
        for time in np.unique(stamps[at] >> 32).tolist():
            other = self.context.instruction_at(time)
            if other.number in self.used:
                self.context.findings.in_step.setdefault((inst.number, other.number), (inst, other))
