"""setmaxnreg (PTX ISA 9.7.21.5): warps hand registers to each other, and a CTA has those it was launched with.

How many a thread starts with follows from `.maxnreg`, or from the bounds of the block as ptxas derives it; without them
ptxas ignores setmaxnreg, and nothing is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.ptx.misc import SetMaxRegisters
from ..observe import Action
from ..program import Imm, Inst, Program

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any
FILE = 64 * 1024
"""32-bit registers of an SM."""


def registers_at_entry(program: Program) -> int | None:
    """Registers a thread starts with at most, None if the directives do not say."""
    given = program.directives.get(".maxnreg")
    if given:
        return int(given[0])
    bounds = program.directives.get(".reqntid") or program.directives.get(".maxntid")
    if not bounds:
        return None
    threads = int(np.prod([int(n) for n in bounds]))
    ctas = int((program.directives.get(".minnctapersm") or ("1",))[0])
    return min(256, FILE // (-(-threads // 32) * 32 * ctas)) // 8 * 8  # 255 registers are allocated as 256


class RegisterFile:
    """What the warps of a launch have of the registers."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer
        self.entry = registers_at_entry(sanitizer.machine.program)
        self.counts = np.zeros(sanitizer.machine.warps, np.int64)
        self.raised: dict[int, Inst] = {}
        """CTA -> the last setmaxnreg.inc."""

    def start(self) -> None:
        self.counts[...] = self.entry or 0
        self.raised.clear()

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.family is not SetMaxRegisters or self.entry is None:
            return action
        machine, (operand,) = self.s.machine, inst.operands
        assert isinstance(operand, Imm)
        count, raises = int(operand.value), inst.has("inc")

        def change(mask: Array) -> object:
            warps = np.flatnonzero(machine.active(inst, mask).reshape(-1, 32).any(axis=1))
            before = self.counts[warps]
            wrong = warps[before > count if raises else before < count]
            if wrong.size:
                self.s.report(
                    "setmaxnreg",
                    inst,
                    f"setmaxnreg.{'inc' if raises else 'dec'} {count} of a warp that has {self.counts[wrong[0]]} registers per "
                    "thread",
                    32 * wrong,
                    hint="dec gives registers back and inc takes some: the count must lie on that side of what the warp has "
                    f"(it started with {self.entry})",
                )
            self.counts[warps] = count
            if raises:
                for cta in np.unique(machine.cta_of_lane[32 * warps]).tolist():
                    self.raised[cta] = inst
            return action(mask)

        return change

    def finish(self) -> None:
        """All threads of the batch have exited: what they had at last must fit together."""
        machine = self.s.machine
        per = machine.padded // 32
        for cta, inst in self.raised.items():
            wanted, there = 32 * int(self.counts[cta * per : (cta + 1) * per].sum()), 32 * per * (self.entry or 0)
            if wanted > there:
                self.s.report(
                    "setmaxnreg",
                    inst,
                    f"the warps of the CTA take {wanted:,} registers together and it was launched with {there:,}: "
                    "setmaxnreg.inc waits for ever on a GPU",
                    cta * machine.padded,
                    hint=f"threads start with {self.entry} registers; what some take with inc others give back with dec first",
                )
