"""Reads of registers that were never written.

Data flow over the program finds the registers that some path reads before it writes them; only those are
watched while the kernel runs, so most kernels pay nothing. Moves hand the state on and are not themselves
reported. What is computed lane by lane from such a register is as undefined: that is reported, as a read where it was
computed, once something depends on it (a store, an address, a branch). Kernels compute with the elements past the edge of a
tile, which they neither load nor store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....dialects.ptx.warp import Shuffle
from ...machine.binding import meaning_of
from ...machine.machine import Action
from ...machine.program import Inst, Pair, Reg
from ...machine.registry import Collective
from ..rule import Rule
from ..state.context import Context, Part
from ..state.order import neighbours
from ..state.registers import added_to, flow_of, loads, moves, order_of, truth
from ..state.shadow import Space
from .uninitialised_memory import UninitialisedMemory

Array = Any
Rows = list[tuple[Reg, np.ndarray]]
UNINITIALISED_REGISTER = Rule(
    "uninitialised-register",
    ("5.1.1",),
    "a store, an address, a branch or an accumulator depends on a register that the thread has not written",
    "registers are undefined when a kernel starts: write it on every path that leads here",
    symptom=True,
)


class UninitialisedRegisters(Part):
    """Which lanes have written the registers that are watched."""

    rules = (UNINITIALISED_REGISTER,)

    def __init__(self, context: Context):
        super().__init__(context)
        self.memory = context.part(UninitialisedMemory)
        self.memory.defers = self._brings
        program = self.machine.program
        self.flow = program.once(flow_of)
        watched, loaded = self.flow.watched, self.flow.loaded
        lanes = self.machine.lanes
        rows = (*sorted(watched, key=order_of), *sorted(loaded - watched, key=order_of))
        self.table = np.zeros((len(rows), lanes), np.bool_)
        self.rows = {reg: row for row, reg in enumerate(rows)}
        self.defined = {reg: self.table[row] for reg, row in self.rows.items()}
        self.loads: dict[Reg, tuple[Inst, Space, int]] = {}
        """Registers that hold what a load found in memory that nobody had written."""
        self.active = bool(watched)
        self.computed: dict[Reg, tuple[Inst, Reg]] = {}
        """Registers that were computed from undefined ones -> the instruction that read one first, and which."""
        self.used: set[tuple[int, Reg]] = set()
        """Of those, what was reported."""
        self.shuffled = {(i, i.operands[1]) for i in program.instructions if issubclass(i.family, Shuffle)}
        """Shuffles and their values, which `_shuffled` checks."""

    def _brings(self, inst: Inst, space: Space, byte: int, lanes: Array) -> bool:
        """Mark what an instruction brings from unwritten memory; False if it is not a load, whose registers are watched."""
        if not loads(inst):
            return False
        for reg in inst.written:
            self.loads[reg] = (inst, space, byte)
        if inst.family.whole_warp:  # what it reads goes to all threads of the warp
            lanes = (np.unique(lanes // 32)[:, None] * 32 + np.arange(32)).reshape(-1)
        self.fresh = lanes
        self.active = True
        return True

    def start(self) -> None:
        self.fresh: Array = None
        for reg, row in self.defined.items():
            row[...] = reg not in self.flow.undefined
        for function in self.machine.program.functions:
            for formal in (*function.parameters, *function.returns):
                for reg in formal.registers:
                    if reg in self.defined:
                        self.defined[reg][...] = True

    def bound(self, inst: Inst, action: Action) -> Action:
        defined = self.defined
        read = [(r, defined[r]) for r in inst.needs if r in defined] if defined else []
        written = [defined[r] for r in inst.written if r in defined]
        if not read and not written:
            return action
        shuffle = meaning_of(self.machine, inst)
        if isinstance(shuffle, Collective) and shuffle.sources is not None:
            return self._shuffled(inst, action, shuffle.sources(self.machine, inst))
        if inst.copies:
            change = self._copied(inst)
        elif moves(inst) or inst.number in self.flow.computing:
            change = self._handed_on(inst, read, written)
        else:
            change = self._needed(inst, read)
        machine, guard, brings = self.machine, inst.guard, loads(inst)

        def watched(mask: Array) -> object:
            if self.active:
                here = machine.executing(mask)
                if guard is not None:
                    if guard in defined:
                        self._check(inst, guard, here)
                    here = machine.guard_of(inst, here)
                change(here)
            result = action(mask)
            if brings and self.fresh is not None:
                for row in written:
                    row[self.fresh] = False
                self.fresh = None
            return result

        return watched

    def _copied(self, inst: Inst) -> Callable[[Array], None]:
        """Copies between registers hand on what is known of each."""
        defined = self.defined
        pairs = [(o.first, o.second) for o in inst.operands if isinstance(o, Pair)]

        def change(here: Array) -> None:
            for first, second in pairs:
                if first in defined:
                    state = defined.get(second)  # pyright: ignore[reportArgumentType]
                    if state is not None and np.count_nonzero(here & ~state):
                        self._hand_on(inst, second, [first])  # pyright: ignore[reportArgumentType]
                    np.copyto(defined[first], True if state is None else state, where=here)

        return change

    def _handed_on(self, inst: Inst, read: Rows, written: list[np.ndarray]) -> Callable[[Array], None]:
        """What an instruction writes is as undefined as what it reads."""
        read = [(reg, row) for reg, row in read if reg != inst.guard]
        rows = [row for _, row in read]
        known = len(rows) < len(inst.needs) - (inst.guard is not None)
        some = moves(inst) and (known or len(rows) > 1)  # a packed register is written if a part of it is
        everywhere = np.ones(self.machine.lanes, np.bool_)

        def change(here: Array) -> None:
            if some:
                state = (known & everywhere) | np.logical_or.reduce(rows)
            else:
                state = np.logical_and.reduce(rows) if rows else everywhere
            if np.count_nonzero(here & ~state):
                undefined = next(r for r, row in read if np.count_nonzero(here & ~row))
                self._hand_on(inst, undefined, inst.written)
            for row in written:
                np.copyto(row, state, where=here)

        return change

    def _needed(self, inst: Inst, read: Rows) -> Callable[[Array], None]:
        """An instruction needs what it reads, also its accumulators where it adds to them."""
        read = [(reg, row) for reg, row in read if reg != inst.guard]
        accumulators, decides = added_to(inst)
        added = [r for r in accumulators if r in self.defined]
        block = neighbours(np.array([self.rows[r] for r in added])) if added else slice(0)
        changed = [self.rows[r] for r in inst.written if r in self.rows]
        change_all = neighbours(np.array(changed)) if changed else slice(0)

        def change(here: Array) -> None:
            for reg, row in read:
                if np.count_nonzero(here & ~row):
                    self._check(inst, reg, here)
            if added and decides is not None:
                adding = here & truth(self.machine, decides)
                if not (self.table[block] | ~adding).all():
                    self._check_accumulators(inst, added, adding)
            self.table[change_all] |= here

        return change

    def _check_accumulators(self, inst: Inst, registers: list[Reg], here: np.ndarray) -> None:
        """Registers that are added to: one finding tells of all."""
        unwritten = [r for r in registers if np.count_nonzero(here & ~self.defined[r])]
        if unwritten:
            self._check(inst, unwritten[0], here)

    def _hand_on(self, inst: Inst, reg: Reg, targets: Sequence[Reg]) -> None:
        """What an instruction writes is as undefined as a register that it reads."""
        first = self.computed.get(reg) or (None if moves(inst) else (inst, reg))
        for target in targets:
            for origins, origin in ((self.loads, self.loads.get(reg)), (self.computed, first)):
                if origin is None:
                    origins.pop(target, None)
                else:
                    origins[target] = origin  # pyright: ignore[reportArgumentType]

    def _shuffled(self, inst: Inst, action: Action, sources: Callable[[], Array]) -> Action:
        """A shuffle needs its value only in the lanes that others read: the rest may not have written theirs."""
        defined, value = self.defined, inst.operands[1]
        others = [r for r in inst.needs if r in defined and r != value]
        written = [defined[r] for r in inst.written if r in defined]

        def watched(mask: Array) -> object:
            if not self.active:
                return action(mask)
            here = self.machine.active(inst, mask)
            for reg in others:
                self._check(inst, reg, here)
            if isinstance(value, Reg) and value in defined:
                read = np.zeros_like(here)
                read[sources()[here]] = True
                self._check(inst, value, read)
            for row in written:
                row |= here
            return action(mask)

        return watched

    def _check(self, inst: Inst, reg: Reg, here: np.ndarray) -> None:
        bad = here & ~self.defined[reg]
        if np.count_nonzero(bad):
            if reg in self.loads:
                load, space, byte = self.loads[reg]
                self.memory.tell(load, space, byte, np.flatnonzero(bad), inst)
                return
            use, first = (inst, reg)
            if reg in self.computed:
                use, first = self.computed[reg]
                if (use.number, first) in self.used:
                    return  # one use of what was computed is enough
                self.used.add((use.number, first))
            self.report(
                UNINITIALISED_REGISTER,
                use,
                f"a {'predicate' if first.pool == 'p' else first.pool + '-bit register'} is read that this thread has not "
                "written" + ("" if use is inst else ", and its result is used"),
                np.flatnonzero(bad),
                other=None if use is inst else inst,
                key=first,
            )

    def ended(self, inst: Inst, mask: np.ndarray) -> None:
        """A branch, call or return reads its guard and operands."""
        if self.active and self.defined and not inst.copies:
            for reg in inst.needs:
                if reg in self.defined and (inst, reg) not in self.shuffled:
                    self._check(inst, reg, mask)
            for reg in inst.written:
                if reg in self.defined:
                    self.defined[reg] |= mask
