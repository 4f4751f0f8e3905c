"""setmaxnreg (PTX ISA 9.7.21.5): warps hand registers to each other, and a CTA has those it was launched with.

How many a thread starts with is what ptxas derives: `.maxnreg`, or what the bounds of the block together with `.minnctapersm`
leave of the register file, and no more than the largest count that a setmaxnreg.inc asks for. Without either ptxas (13.5)
ignores setmaxnreg, and the counts are not checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....diagnostics import Severity
from ....dialects.ptx.misc import SetMaxRegisters
from ...machine.machine import Action
from ...machine.program import Imm, Inst, Program
from ..rule import Rule, Tolerated
from ..state.context import Context, Part

Array = Any
PARTITIONS = 4
"""Parts of an SM, each of which runs a quarter of the warps on a register file of its own."""
FILE = 64 * 1024 // PARTITIONS
"""32-bit registers of a part."""
MOST = 256
"""Registers that are allocated to a thread at most, which can use 255 of them."""
WARPGROUP = 4
"""Warps."""
RULE = Rule(
    "setmaxnreg",
    ("9.7.21.5",),
    "`setmaxnreg` that not all warps of a warpgroup execute, that is on the wrong side of what a warp has, or that asks for more "
    "registers than the CTA has (counted from what ptxas starts the threads with: without `.maxnreg` or `.minnctapersm` it ignores "
    "`setmaxnreg`)",
    "all warps of the warpgroup execute the same setmaxnreg, and a barrier for them comes before their next one",
    tolerated=Tolerated("each warp changes its own registers", "without a barrier since the last one"),
)


def registers_at_entry(program: Program) -> int | None:
    """Registers a thread starts with, None if the directives do not say."""
    limits = [*program.directives.get(".maxnreg", ())]
    bounds = program.directives.get(".reqntid") or program.directives.get(".maxntid")
    least = program.directives.get(".minnctapersm")
    if bounds and least:
        warps = -(-math.prod(bounds) // 32) * least[0]
        limits.append(FILE // (32 * -(-warps // PARTITIONS)) // 8 * 8)
    if not limits:
        return None
    asked = [_change(i)[1] for i in program.instructions if i.family is SetMaxRegisters and i.has("inc")]
    if asked:
        limits.append(max(asked))
    return -(-min(MOST, *limits) // 8) * 8


def _change(inst: Inst) -> tuple[str, int]:
    """(inc or dec, count) of a setmaxnreg."""
    (operand,) = inst.operands
    assert isinstance(operand, Imm)
    return "inc" if inst.has("inc") else "dec", int(operand.value)


@dataclass(slots=True)
class Round:
    """The n-th setmaxnreg that the warps of a warpgroup execute."""

    inst: Inst
    times: dict[int, int] = field(default_factory=dict[int, int])
    """Warp -> when it executed it."""


class RegisterFile(Part):
    """What the warps of a launch have of the registers."""

    rules = (RULE,)

    def __init__(self, context: Context):
        super().__init__(context)
        machine = self.machine
        self.entry = registers_at_entry(machine.program)
        self.counts = np.zeros(machine.warps, np.int64)
        self.raised: dict[int, Inst] = {}
        """CTA -> the last setmaxnreg.inc."""
        self.rounds: dict[tuple[int, int], Round] = {}
        """(first warp of a warpgroup, number) -> round; the latest and those that warps are missing from."""
        self.done = np.zeros(machine.warps, np.int64)
        """Rounds that each warp has executed."""

    def start(self) -> None:
        self.counts[...] = self.entry or 0
        self.raised.clear()
        self.rounds.clear()
        self.done[...] = 0

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.family is not SetMaxRegisters:
            return action
        machine = self.machine

        def change(mask: Array) -> object:
            warps = np.flatnonzero(machine.active(inst, mask).reshape(-1, 32).any(axis=1))
            now = self.context.tick(inst)
            for warp in warps.tolist():
                self._meet(inst, warp, now)
            if self.entry is not None:
                self._count(inst, warps)
            return action(mask)

        return change

    # ------------------------------------------------------------------------------------------------------------ counts

    def _count(self, inst: Inst, warps: Array) -> None:
        machine = self.machine
        verb, count = _change(inst)
        before = self.counts[warps]
        wrong = warps[before > count if verb == "inc" else before < count]
        if wrong.size:
            self.report(
                RULE,
                inst,
                f"setmaxnreg.{verb} {count} of a warp that has {self.counts[wrong[0]]} registers per thread",
                32 * wrong,
                hint="dec gives registers back and inc takes some: the count must lie on that side of what the warp has "
                f"(it started with {self.entry})",
            )
        self.counts[warps] = count
        if verb == "inc":
            for cta in np.unique(machine.cta_of_lane[32 * warps]).tolist():
                self.raised[cta] = inst

    def _check_pool(self) -> None:
        """What the warps of a CTA had at last must fit together."""
        machine = self.machine
        per = machine.padded // 32
        for cta, inst in self.raised.items():
            wanted, there = 32 * int(self.counts[cta * per : (cta + 1) * per].sum()), 32 * per * (self.entry or 0)
            if wanted > there:
                self.report(
                    RULE,
                    inst,
                    f"the warps of the CTA take {wanted:,} registers together and it was launched with {there:,}: "
                    "setmaxnreg.inc waits forever on a GPU",
                    cta * machine.padded,
                    hint=f"threads start with {self.entry} registers; what some take with inc others give back with dec first",
                )

    # -------------------------------------------------------------------------------------------------------- warpgroups

    def _members(self, warp: int) -> range:
        """The warps of a warp's warpgroup."""
        per = self.machine.padded // 32
        cta = warp // per * per
        first = cta + (warp - cta) // WARPGROUP * WARPGROUP
        return range(first, min(first + WARPGROUP, cta + per))

    def _meet(self, inst: Inst, warp: int, now: int) -> None:
        """A warp executes its next setmaxnreg: the same one as the others of its warpgroup, and after all of them have
        synchronised since the one before.
        """
        members = self._members(warp)
        number = int(self.done[warp])
        self.done[warp] += 1
        current = self.rounds.setdefault((members.start, number), Round(inst))
        current.times[warp] = now
        if _change(inst) != _change(current.inst):
            self._report_warpgroup(
                inst, warp, "the warps of a warpgroup execute different setmaxnreg instructions", current.inst
            )
        before = self.rounds.get((members.start, number - 1))
        if before is not None:
            self._check_order(inst, warp, members, before)
            if len(current.times) == len(members) == len(before.times):
                del self.rounds[members.start, number - 1]

    def _check_order(self, inst: Inst, warp: int, members: range, before: Round) -> None:
        """Whether a warp knows that all of its warpgroup have executed the round before."""
        if self.clocks.too_large:
            return
        clocks, lanes = self.clocks, np.tile(32 * warp + np.arange(32), 32)
        for other in members:
            time = before.times.get(other)
            threads = np.repeat(self.context.first_lane + 32 * other + np.arange(32), 32)
            if time is None or not clocks.ordered(lanes, threads, np.full(1024, time)).any():
                self._report_warpgroup(
                    inst,
                    warp,
                    "a warp executes its next setmaxnreg, and the warps of its warpgroup have not synchronised since the last",
                    before.inst,
                    "warning",
                )
                return

    def _report_warpgroup(
        self, inst: Inst, warp: int, message: str, other: Inst | None = None, severity: Severity = "error"
    ) -> None:
        self.report(
            RULE,
            inst,
            f"{message}: the behaviour is undefined",
            32 * warp,
            other=other,
            key="warpgroup",
            severity=severity,
        )

    def finish(self) -> None:
        """All threads of the batch have exited."""
        self._check_pool()
        for (first, _), current in self.rounds.items():
            members = self._members(first)
            if len(current.times) < len(members):
                self._report_warpgroup(
                    current.inst,
                    next(iter(current.times)),
                    f"{len(current.times)} of the {len(members)} warps of a warpgroup execute this setmaxnreg",
                )
