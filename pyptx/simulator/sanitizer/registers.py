"""Reads of registers that were never written.

Data flow over the program finds the registers that some path reads before it writes them; only those are
watched while the kernel runs, so most kernels pay nothing. Moves hand the state on and are not themselves
reported. What is computed lane by lane from such a register is as undefined: that is reported, as a read where it was
computed, once something depends on it (a store, an address, a branch). Kernels compute with the elements past the edge of a
tile, which they neither load nor store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.ptx.move import Mov
from ...dialects.ptx.warp import Shuffle
from ..machine.observe import Action
from ..machine.program import Imm, Inst, Not, Operand, Pair, Program, Reg
from ..machine.registry import MEANINGS, Collective, Pure
from .loops import instructions_of
from .shadow import Space

if TYPE_CHECKING:
    from ..machine.machine import Machine
    from .sanitizer import Sanitizer

Array = Any


def moves(inst: Inst) -> bool:
    """Whether it hands on values unseen."""
    return inst.copies or inst.family is Mov


def loads(inst: Inst) -> bool:
    return inst.family.access == "load"


def order_of(reg: Reg) -> tuple[str, int]:
    return reg.pool, reg.slot


def added_to(inst: Inst) -> tuple[list[Reg], Operand | None]:
    """The registers that an instruction reads only if an operand is true, and that operand: the accumulators of wgmma."""
    at = inst.family.adds_if(inst.modifiers)
    if at is None:
        return [], None
    decides = inst.operands[at]
    if isinstance(decides, Imm) and not decides.value:
        return [], None
    return list(inst.written), decides


def truth(machine: Machine, operand: Operand) -> Array:
    """The lanes in which an operand is true."""
    if isinstance(operand, Not):
        return ~truth(machine, operand.operand)
    kind = "u32" if isinstance(operand, Imm) else "pred"
    return machine.source(operand, kind) != 0


def maybe_undefined(program: Program) -> set[Reg]:
    """Registers that a path from the function's start reads before it writes them."""
    segments = program.segments
    numbers: dict[Reg, int] = {}

    def bit(reg: Reg) -> int:
        return 1 << numbers.setdefault(reg, len(numbers))

    needs: list[list[tuple[Inst, int]]] = []
    gives: list[int] = []
    before: list[int] = []  # reads before any write within the segment
    for segment in segments:
        defined = exposed = 0
        for inst in instructions_of(segment):
            for reg in (*inst.needs, *added_to(inst)[0]):
                if not defined & bit(reg):
                    exposed |= bit(reg)
            if inst.guard is None:
                for reg in inst.written:
                    defined |= bit(reg)
        gives.append(defined)
        before.append(exposed)
    del needs
    everything = -1
    known = [everything] * len(segments)
    formals = 0
    for function in program.functions:
        for formal in (*function.parameters, *function.returns):
            for reg in formal.registers:
                formals |= bit(reg)
        if function.frame is not None:
            formals |= bit(function.frame)
    work: list[int] = []
    for function in program.functions:
        if function.entry >= 0:
            known[function.entry] = formals
            work.append(function.entry)
    while work:
        at = work.pop()
        segment = segments[at]
        out = known[at] | gives[at]
        for target in (*segment.targets, segment.after):
            if target >= 0 and known[target] & out != known[target]:
                known[target] &= out
                work.append(target)
    loose = 0
    for at in range(len(segments)):
        if known[at] != everything:
            loose |= before[at] & ~known[at]
    return {reg for reg, n in numbers.items() if loose >> n & 1}


def _moved(program: Program, watched: set[Reg], by: Sequence[Inst]) -> set[Reg]:
    """Registers, and those that instructions make of them."""
    found = set(watched)
    size = -1
    while found and size != len(found):
        size = len(found)
        for inst in by:
            if not found.isdisjoint(inst.needs):
                found.update(inst.written)
    return found


@dataclass(frozen=True, slots=True)
class Flow:
    """What of a program's registers is watched."""

    undefined: set[Reg]
    """See `maybe_undefined`."""
    watched: set[Reg]
    """These, and what is computed from them."""
    computing: set[int]
    """Numbers of the instructions that compute lane by lane, perhaps from registers that are undefined."""
    loaded: set[Reg]
    """What loads bring, and moves of it."""


def _pure(inst: Inst) -> bool:
    meaning = MEANINGS.get(inst.opcode)
    return meaning is not None and isinstance(meaning(inst), Pure)


def flow_of(program: Program) -> Flow:
    undefined = maybe_undefined(program)
    handing = [i for i in program.instructions if moves(i)]
    bodies = [i for segment in program.segments for i in segment.body] if undefined else []
    computing = [i for i in bodies if moves(i) or _pure(i)]
    watched = _moved(program, undefined, computing)
    numbers = {i.number for i in computing if not moves(i) and not watched.isdisjoint(i.needs)}
    loaded = {reg for inst in program.instructions if loads(inst) for reg in inst.written}
    return Flow(undefined, watched, numbers, _moved(program, loaded, handing))


class Registers:
    """Which lanes have written the registers that are watched."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer
        program = sanitizer.machine.program
        self.flow = program.once(flow_of)
        watched, loaded = self.flow.watched, self.flow.loaded
        lanes = sanitizer.machine.lanes
        self.defined = {reg: np.zeros(lanes, np.bool_) for reg in (*watched, *sorted(loaded - watched, key=order_of))}
        self.loads: dict[Reg, tuple[Inst, Space, int]] = {}
        """Registers that hold what a load found in memory that nobody had written."""
        self.active = bool(watched)
        self.computed: dict[Reg, tuple[Inst, Reg]] = {}
        """Registers that were computed from undefined ones -> the instruction that read one first, and which."""
        self.used: set[tuple[int, Reg]] = set()
        """Of those, what was reported."""
        self.shuffled = {(i, i.operands[1]) for i in program.instructions if issubclass(i.family, Shuffle)}
        """Shuffles and their values, which `_shuffled` checks."""

    def poisoned(self, inst: Inst, space: Space, byte: int, lanes: Array) -> bool:
        """Mark what a load of unwritten memory brings; False if its registers are not watched."""
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
        for function in self.s.machine.program.functions:
            for formal in (*function.parameters, *function.returns):
                for reg in formal.registers:
                    if reg in self.defined:
                        self.defined[reg][...] = True

    def bound(self, inst: Inst, action: Action) -> Action:
        defined = self.defined
        if not defined:
            return action
        read = [(r, defined[r]) for r in inst.needs if r in defined]
        written = [defined[r] for r in inst.written if r in defined]
        if not read and not written:
            return action
        accumulators, decides = added_to(inst)
        added = [r for r in accumulators if r in defined]
        shuffle = self.s.machine.meaning(inst)
        if isinstance(shuffle, Collective) and shuffle.sources is not None:
            return self._shuffled(inst, action, shuffle.sources(self.s.machine, inst))
        machine = self.s.machine
        pairs = [(o.first, o.second) for o in inst.operands if isinstance(o, Pair)] if inst.copies else []
        hands_on, brings = moves(inst), loads(inst)
        computes = inst.number in self.flow.computing

        def watched(mask: Array) -> object:
            if not self.active:
                r = action(mask)
                if self.fresh is not None:
                    for row in written:
                        row[self.fresh] = False
                    self.fresh = None
                return r
            here = machine.executing(mask)
            if inst.guard is not None:
                if inst.guard in defined:
                    self._check(inst, inst.guard, here)
                here = machine.guard_of(inst, here)
            if pairs:
                for first, second in pairs:
                    if first in defined:
                        state = defined.get(second)  # pyright: ignore[reportArgumentType]
                        if state is not None and np.count_nonzero(here & ~state):
                            self._hand_on(inst, second, [first])  # pyright: ignore[reportArgumentType]
                        np.copyto(defined[first], True if state is None else state, where=here)
                return action(mask)
            if hands_on or computes:
                rows = [row for reg, row in read if reg != inst.guard]
                known = len(rows) < len(inst.needs) - (inst.guard is not None)
                if hands_on and (known or len(rows) > 1):  # a packed register is written if a part of it is
                    state = np.full(machine.lanes, known) | np.logical_or.reduce(rows)
                else:
                    state = np.logical_and.reduce(rows) if rows else np.ones(machine.lanes, np.bool_)
                if np.count_nonzero(here & ~state):
                    undefined = next(r for r, row in read if r != inst.guard and np.count_nonzero(here & ~row))
                    self._hand_on(inst, undefined, inst.written)
                for row in written:
                    np.copyto(row, state, where=here)
                return action(mask)
            for reg, row in read:
                if reg != inst.guard and np.count_nonzero(here & ~row):
                    self._check(inst, reg, here)
            if added and decides is not None:
                self._check_accumulators(inst, added, here & truth(self.s.machine, decides))
            for row in written:
                row |= here
            r = action(mask)
            if brings and self.fresh is not None:
                for row in written:
                    row[self.fresh] = False
                self.fresh = None
            return r

        return watched

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
            here = self.s.machine.active(inst, mask)
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
                self.s.races.uninitialised(load, space, byte, np.flatnonzero(bad), inst)
                return
            use, first = (inst, reg)
            if reg in self.computed:
                use, first = self.computed[reg]
                if (use.number, first) in self.used:
                    return  # one use of what was computed is enough
                self.used.add((use.number, first))
            self.s.report(
                "uninitialised-register",
                use,
                f"a {'predicate' if first.pool == 'p' else first.pool + '-bit register'} is read that this thread has not "
                "written" + ("" if use is inst else ", and its result is used"),
                np.flatnonzero(bad),
                hint="registers are undefined when a kernel starts: write it on every path that leads here",
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
