"""Instructions that threads of a warp execute together (PTX ISA 9.7.10.6): who is named, and who comes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....diagnostics import counted
from ....dialects.ptx.warp import Shuffle
from ...machine.binding import meaning_of
from ...machine.machine import Action
from ...machine.program import Imm, Inst, Operand
from ...machine.registry import Collective
from ...semantics.warp import source_lanes
from ..rule import Rule
from ..state.context import Part

Array = Any
MEMBERMASK = Rule(
    "membermask",
    ("9.7.10.6",),
    "a thread executes an instruction of a warp whose membermask does not contain it, or not the same one as the others",
    "the mask names exactly the threads of the warp that execute the instruction together",
)
SHUFFLE_SOURCE = Rule(
    "shuffle-source",
    ("9.7.10.6",),
    "a shuffle reads the register of a lane that does not execute it or is not in the membermask",
    "name all lanes that are read in the mask, let all of them execute the shuffle, and limit the range with the operand c",
)
WARP_INCOMPLETE = Rule(
    "warp-incomplete",
    ("9.7.15.1",),
    "an instruction that all 32 threads of a warp execute together is executed by some",
    "a block of whole warps, and no branch around it that only some threads of a warp take",
)


class Warps(Part):
    """What threads of a warp execute together."""

    rules = (MEMBERMASK, SHUFFLE_SOURCE, WARP_INCOMPLETE)

    def bound(self, inst: Inst, action: Action) -> Action:
        what = meaning_of(self.machine, inst)
        if not isinstance(what, Collective) or isinstance(what.mask, str):
            return action
        if what.mask is None:
            return self._whole(inst, action) if inst.family.whole_warp else action
        if inst.family is Shuffle:
            action = self._shuffle(inst, what.mask, action)
        machine, source = self.machine, self.machine.source(what.mask, "u32")
        if isinstance(what.mask, Imm) and int(source[0]) == 0xFFFF_FFFF:
            return action

        def masked(mask: Array) -> object:
            self._check_members(inst, machine.active(inst, mask), source)
            return action(mask)

        return masked

    def _whole(self, inst: Inst, action: Action) -> Action:
        machine = self.machine

        def whole(mask: Array) -> object:
            here = machine.ballot(machine.active(inst, mask))
            bad = np.flatnonzero((here != 0) & (here != 0xFFFF_FFFF))
            if bad.size:
                self.report(
                    WARP_INCOMPLETE,
                    inst,
                    f"{inst.opcode} is executed by {counted(int(np.bitwise_count(here[bad[0]])), 'thread')} of a warp: all 32 "
                    "must execute it together",
                    32 * bad + np.bitwise_count((here[bad] & -here[bad].astype(np.int64)) - 1),
                )
            return action(mask)

        return whole

    def _shuffle(self, inst: Inst, members: Operand, action: Action) -> Action:
        """shfl.sync reads the registers of threads that execute it and that the membermask names."""
        machine = self.machine
        mode = inst.one_of("up", "down", "bfly", "idx") or "idx"
        b, c, mask_of = (machine.source(o, "u32") for o in (*inst.operands[2:4], members))
        lane = machine.lane_in_warp
        start = machine.lane_numbers - lane
        whole = isinstance(members, Imm) and int(members.value) & 0xFFFF_FFFF == 0xFFFF_FFFF

        def shuffle(mask: Array) -> object:
            here = machine.active(inst, mask)
            if not (whole and np.isin(machine.ballot(here), (0, 0xFFFF_FFFF)).all()):
                source, _ = source_lanes(mode, lane, b, c)
                bad = here & ~(here[start + source] & (mask_of >> source.astype(np.uint32) & np.uint32(1) != 0))
                if np.count_nonzero(bad):
                    first = int(bad.argmax())
                    self.report(
                        SHUFFLE_SOURCE,
                        inst,
                        f"lane {int(lane[first])} reads the register of lane {int(source[first])}, which does not "
                        "execute this shuffle or is not in the membermask: the result is undefined",
                        np.flatnonzero(bad),
                    )
            return action(mask)

        return shuffle

    def _check_members(self, inst: Inst, executing: Array, source: Array) -> None:
        machine = self.machine
        members = np.broadcast_to(source, machine.lanes)
        outside = executing & (members >> machine.lane_in_warp & np.uint32(1) == 0)
        if np.count_nonzero(outside):
            lanes = np.flatnonzero(outside)
            self.report(
                MEMBERMASK,
                inst,
                f"the thread executes {inst.opcode} with a membermask (0x{int(members[lanes[0]]):08x}) that does not "
                "contain it",
                lanes,
            )
            return
        both = executing.reshape(-1, 32)
        table = members.reshape(-1, 32)
        low = np.where(both, table, 0xFFFF_FFFF).min(axis=1)
        high = np.where(both, table, 0).max(axis=1)
        differ = np.flatnonzero((low != high) & both.any(axis=1))
        # threads that name each other must name the same set
        for warp in differ.tolist():
            masks = np.unique(table[warp][both[warp]]).tolist()
            for i, a in enumerate(masks):
                if any(a & b for b in masks[i + 1 :]):
                    lanes = 32 * warp + np.flatnonzero(both[warp])
                    self.report(
                        MEMBERMASK,
                        inst,
                        f"threads of a warp execute {inst.opcode} together with different membermasks: "
                        + ", ".join(f"0x{m:08x}" for m in masks[:4]),
                        lanes,
                        hint="compute the mask once, before the threads diverge, and use the same one in all of them",
                    )
                    return
