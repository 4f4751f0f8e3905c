"""Registers of wgmma in flight (PTX ISA 9.7.15.7): nobody touches an accumulator, or a fragment of A in
registers, between wgmma.mma_async and the wgmma.wait_group that covers it, and wgmma.fence comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..observe import Action
from ..program import Imm, Inst, Reg, Vec, leaves
from .registers import reads_of

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any
MMA = ("wgmma.mma_async", "wgmma.mma_async.sp")


def _registers(operand: object) -> list[Reg]:
    return [r for r in leaves(operand) if isinstance(r, Reg)] if isinstance(operand, (Vec, Reg)) else []


def _cross(rows: list[int], warps: Array) -> tuple[Array, Array]:
    """The index of some warps in some rows."""
    return np.array(rows, np.int64)[:, None], warps


class InFlight:
    """Per warp and watched register: the wgmma group that uses it, and when it was last touched otherwise."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer
        machine = sanitizer.machine
        instructions = [i for i in machine.program.instructions if i.opcode in MMA]
        rows: dict[Reg, int] = {}
        self.accumulators: set[Reg] = set()
        for inst in instructions:
            for i, operand in enumerate(inst.operands[:2]):
                for reg in _registers(operand):
                    if reg.pool in ("32", "64") and (i == 0 or isinstance(operand, Vec)):
                        rows.setdefault(reg, len(rows))
                        if i == 0:
                            self.accumulators.add(reg)
        self.rows = rows
        warps = machine.warps
        self.group = np.full((len(rows), warps), -1, np.int64)
        """The group of the latest wgmma that uses the register; -1: none is in flight."""
        self.by = np.zeros((len(rows), warps), np.int64)
        self.touched = np.zeros((len(rows), warps), np.bool_)
        """Whether it was touched since the last wgmma.fence."""
        self.committed = np.zeros(warps, np.int64)
        self.fenced = np.zeros(warps, np.bool_)

    def start(self) -> None:
        self.group[...] = -1
        self.touched[...] = True
        self.committed[...] = 0
        self.fenced[...] = False

    def bound(self, inst: Inst, action: Action) -> Action:
        if not self.rows:
            return action
        if inst.opcode.startswith("wgmma"):
            return self._wgmma(inst, action)
        used = sorted({self.rows[r] for r in (*reads_of(inst), *inst.written) if r in self.rows})
        if not used:
            return action
        machine = self.s.machine

        def touch(mask: Array) -> object:
            here = machine.active(inst, mask)
            self._touch(inst, used, here)
            return action(mask)

        return touch

    def ended(self, inst: Inst, mask: np.ndarray) -> None:
        """A waiting instruction (shfl) or a call is at its operands; those are bound as well."""

    def _touch(self, inst: Inst, used: list[int], here: np.ndarray) -> None:
        warps = here.reshape(-1, 32).any(axis=1)
        flying = (self.group[used] >= 0) & warps
        if np.count_nonzero(flying):
            row, warp = (int(x[0]) for x in np.nonzero(flying))
            by = self.s.machine.program.instructions[int(self.by[used[row], warp])]
            lanes = 32 * warp + np.flatnonzero(here[32 * warp : 32 * warp + 32])
            uncommitted = self.group[used[row], warp] >= self.committed[warp]
            self.s.report(
                "wgmma-commit" if uncommitted else "wgmma-register",
                inst,
                "a register of a wgmma that may still be in flight is touched"
                + (": no wgmma.commit_group put it in a group that can be waited for" if uncommitted else ""),
                lanes,
                hint="wgmma.commit_group, then wgmma.wait_group with a number that covers it, before the registers are "
                "read or written",
                other=by,
            )
        self.touched[_cross(used, np.flatnonzero(warps))] = True

    def _wgmma(self, inst: Inst, action: Action) -> Action:
        machine = self.s.machine
        kind = inst.opcode
        accumulators = [self.rows[r] for r in _registers(inst.operands[0])] if kind in MMA else []
        fragments = (
            [self.rows[r] for r in _registers(inst.operands[1])]
            if kind in MMA and isinstance(inst.operands[1], Vec)
            else []
        )
        left = 0
        if inst.operands and isinstance(inst.operands[0], Imm):
            left = int(inst.operands[0].value)

        def run(mask: Array) -> object:
            warps = np.flatnonzero(machine.active(inst, mask).reshape(-1, 32).any(axis=1))
            if kind == "wgmma.fence":
                self.touched[:, warps] = False
                self.fenced[warps] = True
            elif kind == "wgmma.commit_group":
                self.committed[warps] += 1
            elif kind == "wgmma.wait_group":
                done = self.group[:, warps] < self.committed[warps] - left
                part = self.group[:, warps]
                part[done] = -1
                self.group[:, warps] = part
                lanes = 32 * warps
                self.s.copies._waited("wgmma", lanes, self.committed[warps] - left, self.s.tick(inst), False)
            elif kind in MMA:
                used = accumulators + fragments
                bad = self.touched[_cross(used, warps)]
                if not self.fenced[warps].all() or np.count_nonzero(bad):
                    self.s.report(
                        "wgmma-fence",
                        inst,
                        "registers of this wgmma were touched since the last wgmma.fence"
                        if self.fenced[warps].all()
                        else "the first wgmma of a warp needs a wgmma.fence before it",
                        32 * warps,
                        hint="wgmma.fence.sync.aligned orders earlier accesses to the registers before wgmma.mma_async",
                    )
                self.group[_cross(used, warps)] = self.committed[warps]
                self.by[_cross(used, warps)] = inst.number
            return action(mask)

        return run
