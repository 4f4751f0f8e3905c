"""Runs of instructions that the compiler knows, and how the engine calls them.

A run counts how often it is executed, over all launches of its program. Only one that has come to `hot` is compiled:
compiling costs as much as some hundred executions in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine import Full, Machine, Masked
from ..program import Inst, Segment
from ..semantics.registry import Meaning, Pure, Step
from .compiler import Native, compile_ir
from .parts import Unfit, Writer

Array = Any
Bound = tuple[Full, Masked]
SHORTEST = 2
"""Instructions of a run: one alone is as fast in NumPy."""
LONGEST = 400
"""Instructions of a run: what LLVM compiles in about a second."""
HOT = 300
"""Executions of a run after which "auto" compiles it."""


def bind_body(machine: Machine, segment: Segment, hot: int = HOT) -> list[Bound]:
    """The body of a segment bound to a machine: `Machine.bind` of each instruction, or of a run of them at once."""
    bound: list[Bound] = []
    run: list[tuple[Inst, Meaning, Bound]] = []

    def end_run() -> None:
        if len(run) >= SHORTEST:
            made = Run(machine, segment, run, hot)
            bound.append((made.full, made.masked))
        else:
            bound.extend(steps for _, _, steps in run)
        run.clear()

    for inst in segment.body:
        what = machine.meaning(inst)
        steps = machine.bind(inst)
        if _fits(machine, inst, what):
            run.append((inst, what, steps))
            if len(run) == LONGEST:
                end_run()
            continue
        end_run()
        bound.append(steps)
    end_run()
    return bound


def _fits(machine: Machine, inst: Inst, what: Meaning) -> bool:
    """Whether the compiler knows the instruction and its operands."""
    if isinstance(what, Pure):
        known = what.native is not None
    else:
        known = isinstance(what, Step) and what.moves and inst in machine.accesses
    if not known:
        return False
    try:
        Writer(machine, False).add(0, inst, what)
    except Unfit:
        return False
    return True


class _Code:
    """A compiled run with the pointers it needs."""

    def __init__(self, machine: Machine, run: list[tuple[Inst, Meaning, Bound]], masked: bool):
        writer = Writer(machine, masked)
        for index, (inst, what, _) in enumerate(run):
            writer.add(index, inst, what)
        self.call: Native = compile_ir(writer.text())
        self.moves = writer.moves
        arrays = writer.rows.arrays
        self.pointers = np.zeros(len(arrays) + 4 * len(self.moves), np.uint64)
        self.pointers[: len(arrays)] = [_address(a) for a in arrays]
        self.at = _address(self.pointers)
        self._kept: list[Array] = [*arrays]
        self._nothing = np.zeros(64, np.uint8)
        self._zeros = np.zeros(machine.lanes, np.int64)
        self._windows: list[Any] = [None] * len(self.moves)
        self.look()

    def look(self) -> None:
        """Tell the code where the accesses go now."""
        for i, move in enumerate(self.moves):
            w = move.access.window
            if w is None or w is self._windows[i]:
                continue
            self._windows[i] = w  # keeps its arrays
            usable = not w.ranked and w.view.size and not (move.write and w.read_only)
            rows = self._zeros if w.rows is None else w.rows
            self.pointers[move.slot : move.slot + 4] = (
                _address(w.view if usable else self._nothing),
                int(w.start) if usable else 0,
                int(w.last) + 1 if usable else 0,
                _address(rows),
            )


def _address(array: Array) -> int:
    return array.__array_interface__["data"][0]


class Run:
    """One run of a segment on one machine."""

    def __init__(self, machine: Machine, segment: Segment, run: list[tuple[Inst, Meaning, Bound]], hot: int):
        self.machine, self.segment, self.hot = machine, segment, hot
        self.run = list(run)
        self.steps = [steps for _, _, steps in run]
        self.moves = any(isinstance(what, Step) for _, what, _ in run)
        self.code: list[_Code | None] = [None, None]
        """For all lanes, and with a mask."""

    def full(self) -> None:
        """Execute in all lanes that are alive."""
        # nobody reads the registers of those that are not, but they must not store
        self._execute(self.machine.alive if self.moves else None, True)

    def masked(self, mask: Array) -> None:
        self._execute(mask, mask is None)

    def _execute(self, mask: Array, whole: bool) -> None:
        code = self.code[mask is not None]
        if code is None:
            segment = self.segment
            segment.executions += 1
            if segment.executions <= self.hot:
                self._interpret(0, mask, whole)
                return
            code = self.code[mask is not None] = _Code(self.machine, self.run, mask is not None)
        stopped = code.call(code.at, self.machine.warps, 0 if mask is None else _address(mask))
        if stopped:
            self._interpret(code.moves[stopped - 1].index, mask, whole)
            code.look()

    def _interpret(self, start: int, mask: Array, whole: bool) -> None:
        if whole:
            for full, _ in self.steps[start:]:
                full()
        else:
            for _, masked in self.steps[start:]:
                masked(mask)
