"""Registers in flight. Nobody touches an accumulator, or a fragment of A in registers, between wgmma.mma_async and the
wgmma.wait_group that covers it, and wgmma.fence comes first (PTX ISA 9.7.17.7); nor what tcgen05.ld loads before
tcgen05.wait::ld (9.7.18.8).

What tcgen05.ld loads may be moved before the wait: the copies are in flight, too. Computing with it breaks the manual's
rule, and ptxas makes it wait for the register all the same; that is a warning, one for each load. A load of which every
register was used that way is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....dialects.ptx.wgmma import WgmmaFence
from ...machine.machine import Action
from ...machine.program import Imm, Inst, Pair, Reg, Vec, leaves
from ..rule import Rule, Tolerated
from ..state.context import Context, Part
from ..state.copies import Copies
from ..state.registers import moves, order_of, spread
from .tensor_memory import TCGEN05_WAIT, TensorMemory

Array = Any
LOADING = 1 << 40
"""The group of registers that tcgen05.ld loads: no wgmma.wait_group ends it."""
COPIED = LOADING + 1
"""The group of their copies."""
WGMMA_REGISTER = Rule(
    "wgmma-register",
    ("9.7.17.7.1",),
    "a register of a `wgmma` is read or written before the `wgmma.wait_group` that covers it",
    "wgmma.commit_group, then wgmma.wait_group with a number that covers it, before the registers are read or written",
)
WGMMA_COMMIT = Rule(
    "wgmma-commit",
    ("9.7.17.7.2",),
    "a register of a `wgmma` is read or written, and no `wgmma.commit_group` put the `wgmma` in a group",
    WGMMA_REGISTER.cure,
)
WGMMA_FENCE = Rule(
    "wgmma-fence",
    ("9.7.17.7.1",),
    "registers of a `wgmma` are touched after the last `wgmma.fence`, or there is none",
    "wgmma.fence.sync.aligned orders earlier accesses to the registers before wgmma.mma_async. ptxas (13.5) orders them without it, "
    "which the manual does not promise",
    "warning",
    Tolerated(
        "the product waits for its registers: in the code of ptxas 13.5 WARPGROUP.ARRIVE comes before it with or without a "
        "`wgmma.fence`; LLVM moves the zeros of accumulators past the fence"
    ),
)


def _registers(operand: object) -> list[Reg]:
    return [r for r in leaves(operand) if isinstance(r, Reg)] if isinstance(operand, (Vec, Reg)) else []


def _cross(rows: list[int], warps: Array) -> tuple[Array, Array]:
    """The index of some warps in some rows."""
    return np.array(rows, np.int64)[:, None], warps


class RegistersInFlight(Part):
    """Per warp and watched register: the wgmma group that uses it, and when it was last touched otherwise."""

    rules = (WGMMA_REGISTER, WGMMA_COMMIT, WGMMA_FENCE)

    def __init__(self, context: Context):
        super().__init__(context)
        self.tensor, self.copies = context.part(TensorMemory), context.part(Copies)
        machine = self.machine
        rows: dict[Reg, int] = {}
        for inst in machine.program.instructions:
            for reg in self._flying(inst):
                rows.setdefault(reg, len(rows))
        self.rows = rows
        self._watch_copies(machine.program.instructions)
        warps = machine.warps
        self.group = np.full((len(rows), warps), -1, np.int64)
        """The group of the latest wgmma that uses the register, or LOADING or COPIED; -1: nothing is in flight."""
        self.by = np.zeros((len(rows), warps), np.int64)
        self.dirty = np.zeros((len(rows), warps), np.bool_)
        """Whether it was touched since the last wgmma.fence."""
        self.committed = np.zeros(warps, np.int64)
        self.fenced = np.zeros(warps, np.bool_)
        self.told: set[int] = set()
        """Numbers of the loads that a warning was about."""
        self.sources: dict[tuple[int, int], frozenset[tuple[int, int]]] = {}
        """(row, warp) of a register that is loading, or of a copy -> (time of the load, row that it writes) of what it holds."""
        self.unused: dict[tuple[int, int], set[int]] = {}
        """(time of a load, warp) -> the rows it writes that the warp has not used."""

    def _watch_copies(self, instructions: Sequence[Inst]) -> None:
        """Watch what moves make of the registers that tcgen05.ld loads, too."""
        loaded = {r for i in instructions if i.family.in_flight == "tcgen05.ld" for r in i.written}
        handing = [i for i in instructions if moves(i)] if loaded else []
        loaded = spread(loaded, handing)
        for reg in sorted(loaded, key=order_of):
            self.rows.setdefault(reg, len(self.rows))

    def start(self) -> None:
        self.group[...] = -1
        self.dirty[...] = True
        self.committed[...] = 0
        self.fenced[...] = False
        self.unused.clear()
        self.sources.clear()

    @staticmethod
    def _flying(inst: Inst) -> list[Reg]:
        """The registers that stay in flight after an instruction."""
        match inst.family.in_flight:
            case "wgmma":
                a = inst.operands[1]
                return _registers(inst.operands[0]) + (_registers(a) if isinstance(a, Vec) else [])
            case "tcgen05.ld":
                return list(inst.written)
            case _:
                return []

    def bound(self, inst: Inst, action: Action) -> Action:
        if not self.rows:
            return action
        family = inst.family
        if family.in_flight == "wgmma":
            return self._multiply(inst, action)
        if family is WgmmaFence or "wgmma" in (family.waits_for, family.gathers):
            return self._order(inst, action)
        if family.waits_for == "tcgen05.ld":
            return self._loaded(inst, action)
        if family.in_flight:
            return self._load(inst, action)
        read = sorted({self.rows[r] for r in inst.needs if r in self.rows})
        written = sorted({self.rows[r] for r in inst.written if r in self.rows})
        if not read and not written:
            return action
        machine = self.machine
        pairs = self._pairs(inst) if moves(inst) else []

        def touch(mask: Array) -> object:
            here = machine.active(inst, mask)
            if pairs:
                self._move(inst, pairs, here)
            else:
                self._touch(inst, read, written, here)
            return action(mask)

        return touch

    def _pairs(self, inst: Inst) -> list[tuple[int, list[int]]]:
        """Of a move: each watched register it writes and the watched ones that go into it."""
        rows = self.rows
        if inst.copies:
            parts = [(o.first, [o.second]) for o in inst.operands if isinstance(o, Pair)]
        else:
            sources: list[object] = list(inst.needs)
            parts = [(r, sources) for r in inst.written]
        return [(rows[d], [rows[s] for s in of if s in rows]) for d, of in parts if d in rows]  # pyright: ignore

    def _move(self, inst: Inst, pairs: list[tuple[int, list[int]]], here: np.ndarray) -> None:
        """Copies of what is loading are in flight like the registers themselves; all else is touched as ever."""
        warps = np.flatnonzero(here.reshape(-1, 32).any(axis=1))
        copied: list[tuple[int, int, Array, Array]] = []
        for target, sources in pairs:
            for source in sources:
                loading = warps[self.group[source, warps] >= LOADING]
                if loading.size:
                    copied.append((target, source, loading, self.by[source, loading]))
        flying = {s for _, s, _, _ in copied}
        read = sorted({s for _, sources in pairs for s in sources} - flying)
        self._touch(inst, read, sorted({t for t, _ in pairs}), here)
        held: dict[tuple[int, int], frozenset[tuple[int, int]]] = {}
        for target, source, loading, by in copied:
            self.group[target, loading] = COPIED
            self.by[target, loading] = by
            for warp in loading.tolist():
                held[target, warp] = held.get((target, warp), frozenset()) | self.sources[source, warp]
        self.sources.update(held)

    def _touch(self, inst: Inst, read: list[int], written: list[int], here: np.ndarray) -> None:
        warps = here.reshape(-1, 32).any(axis=1)
        if written:  # what overwrites a copy does away with it
            part = self.group[written]
            part[(part == COPIED) & warps] = -1
            self.group[written] = part
        used = [*read, *written]
        flying = (self.group[used] >= 0) & warps
        if np.count_nonzero(flying):
            row, warp = (int(x[0]) for x in np.nonzero(flying))
            by = self.machine.program.instructions[int(self.by[used[row], warp])]
            lanes = 32 * warp + np.flatnonzero(here[32 * warp : 32 * warp + 32])
            uncommitted = self.group[used[row], warp] >= self.committed[warp]
            if self.group[used[row], warp] >= LOADING:
                self._used(used, flying)
                if by.number in self.told:
                    return
                self.told.add(by.number)
                self.report(
                    TCGEN05_WAIT,
                    inst,
                    "a register that tcgen05.ld may still be loading is touched",
                    lanes,
                    other=by,
                    severity="warning",
                )
                return
            self.report(
                WGMMA_COMMIT if uncommitted else WGMMA_REGISTER,
                inst,
                "a register of a wgmma that may still be in flight is touched"
                + (": no wgmma.commit_group put it in a group that can be waited for" if uncommitted else ""),
                lanes,
                other=by,
            )
        self.dirty[_cross(used, np.flatnonzero(warps))] = True

    def _used(self, rows: list[int], flying: np.ndarray) -> None:
        """Warps use registers that may still be loading, which waits for them."""
        for at, warp in zip(*(x.tolist() for x in np.nonzero(flying)), strict=True):
            for load, row in self.sources.get((rows[at], warp), ()):
                left = self.unused.get((load, warp))
                if left is not None:
                    left.discard(row)
                    if not left:
                        del self.unused[load, warp]
                        self.tensor.loaded(load, 32 * warp)

    def _load(self, inst: Inst, action: Action) -> Action:
        """tcgen05.ld: its registers are in flight until tcgen05.wait::ld."""
        machine = self.machine
        targets = [self.rows[r] for r in inst.written]
        used = sorted({self.rows[r] for r in inst.needs if r in self.rows})

        def load(mask: Array) -> object:
            here = machine.active(inst, mask)
            if used:
                self._touch(inst, used, [], here)
            warps = np.flatnonzero(here.reshape(-1, 32).any(axis=1))
            index = _cross(targets, warps)
            again = np.zeros((len(targets), machine.warps), np.bool_)
            again[:, warps] = self.group[index] >= LOADING
            self._used(targets, again)  # a load into a register waits for the one before
            now = self.context.tick(inst)
            self.tensor.load_issued = now
            result = action(mask)
            self.group[index] = LOADING
            self.by[index] = inst.number
            for warp in warps.tolist():
                self.unused[now, warp] = set(targets)
                self.sources.update(((row, warp), frozenset({(now, row)})) for row in targets)
            return result

        return load

    def _loaded(self, inst: Inst, action: Action) -> Action:
        machine = self.machine

        def wait(mask: Array) -> object:
            warps: Array = machine.active(inst, mask).reshape(-1, 32).any(axis=1)
            self.group[(self.group >= LOADING) & warps] = -1
            self.unused = {key: left for key, left in self.unused.items() if not warps[key[1]]}
            return action(mask)

        return wait

    def _order(self, inst: Inst, action: Action) -> Action:
        """wgmma.fence, commit_group and wait_group."""
        machine, family = self.machine, inst.family
        left = int(inst.operands[0].value) if inst.operands and isinstance(inst.operands[0], Imm) else 0

        def order(mask: Array) -> object:
            warps = np.flatnonzero(machine.active(inst, mask).reshape(-1, 32).any(axis=1))
            if family is WgmmaFence:
                self.dirty[:, warps] = False
                self.fenced[warps] = True
            elif family.gathers:
                self.committed[warps] += 1
            else:
                part = self.group[:, warps]
                part[part < self.committed[warps] - left] = -1
                self.group[:, warps] = part
                self.copies.waited("wgmma", 32 * warps, self.committed[warps] - left, self.context.tick(inst))
            return action(mask)

        return order

    def _multiply(self, inst: Inst, action: Action) -> Action:
        """wgmma.mma_async."""
        machine = self.machine
        used = [self.rows[r] for r in self._flying(inst)]

        def multiply(mask: Array) -> object:
            warps = np.flatnonzero(machine.active(inst, mask).reshape(-1, 32).any(axis=1))
            fenced = self.fenced[warps].all()
            if not fenced or np.count_nonzero(self.dirty[_cross(used, warps)]):
                self.report(
                    WGMMA_FENCE,
                    inst,
                    "registers of this wgmma were touched since the last wgmma.fence"
                    if fenced
                    else "the first wgmma of a warp needs a wgmma.fence before it",
                    32 * warps,
                )
            self.group[_cross(used, warps)] = self.committed[warps]
            self.by[_cross(used, warps)] = inst.number
            return action(mask)

        return multiply
