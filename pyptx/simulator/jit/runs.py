"""Runs of instructions that the compiler knows, and how the engine calls them.

Compiling an instruction costs about as much as executing it a thousand times in NumPy. Code that is compiled already costs as much
as some thousand executions of instructions, most of it for LLVM, which a process loads once. So a body is interpreted first, and its
runs are compiled, or taken from the disk cache, once it has come that far.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...numerics.llvm import Native, compile_ir, is_kept, is_loaded
from ..machine.binding import Full, Masked, bind, meaning_of
from ..machine.machine import Machine
from ..machine.program import Inst, Segment
from ..machine.registry import Meaning, Pure, Step
from .parts import Unfit, Writer

Array = Any
Bound = tuple[Full, Masked]
SHORTEST = 2
"""Instructions of a run: one alone is as fast in NumPy."""
LONGEST = 400
"""Instructions of a run: what LLVM compiles in a second or two."""
HOT = 1000
"""Executions of a body in a launch after which "auto" compiles its runs."""
LOAD, FIRST_LOAD = 1500, 7000
"""Executions of instructions in NumPy that cost as much as taking a body's code that is compiled already: with LLVM, and without it."""
WIDE = 4096
"""Lanes for which NumPy needs about twice as long as for one."""


def bind_at_once(machine: Machine, segment: Segment) -> list[Bound]:
    """The body of a segment bound to a machine, its runs compiled when they are first executed."""
    return _with_runs(machine, segment, [bind(machine, inst) for inst in segment.body])


def bind_when_hot(machine: Machine, segment: Segment) -> list[Bound]:
    """The body of a segment bound to a machine, its runs compiled when it has been executed often."""
    if not segment.body:
        return []
    body = _Body(machine, segment)
    return [(body.full, body.masked)]


class _Body:
    """A body that counts its executions."""

    def __init__(self, machine: Machine, segment: Segment):
        self.machine, self.segment = machine, segment
        self.alone: list[Bound] = [bind(machine, inst) for inst in segment.body]
        self.steps = self.alone
        self.executed = 0
        self.next = self._executions(LOAD)
        """When to look again whether to compile the runs."""

    def _executions(self, cost: int) -> int:
        """How often the body is executed until that has cost as much."""
        return min(HOT, int(cost / len(self.alone) / (1 + self.machine.lanes / WIDE)) + 1)

    def _count(self) -> None:
        self.executed += 1
        if self.executed == self.next:
            self._look()

    def _look(self) -> None:
        """Compile the runs, if that is worth it, or say when to look again."""
        hot, first = self.executed == HOT, self._executions(FIRST_LOAD)
        if self.executed < first and not is_loaded():
            self.next = first
        elif hot or self.segment.compiled or _kept(self.machine, self.segment, self.alone):
            self.steps = _with_runs(self.machine, self.segment, self.alone)
        else:
            self.next = HOT

    def full(self) -> None:
        self._count()
        for full, _ in self.steps:
            full()

    def masked(self, mask: Array) -> None:
        self._count()
        for _, masked in self.steps:
            masked(mask)


Straight = list[tuple[Inst, Meaning, Bound]]


def _with_runs(machine: Machine, segment: Segment, steps: list[Bound]) -> list[Bound]:
    """The steps of a body, with those of a run made one."""
    segment.compiled = True
    bound: list[Bound] = []
    for run in _runs(machine, segment, steps):
        if isinstance(run, list):
            made = Run(machine, run)
            bound.append((made.full, made.masked))
        else:
            bound.append(run)
    return bound


def _runs(machine: Machine, segment: Segment, steps: list[Bound]) -> Iterator[Straight | Bound]:
    """The runs of a body, and the steps of the instructions between."""
    run: Straight = []
    for inst, step in zip(segment.body, steps, strict=True):
        what = meaning_of(machine, inst)
        fits = _fits(machine, inst, what)
        if fits:
            run.append((inst, what, step))
        if len(run) == LONGEST or not fits:
            yield from _ended(run)
            run = []
        if not fits:
            yield step
    yield from _ended(run)


def _ended(run: Straight) -> Iterator[Straight | Bound]:
    if len(run) >= SHORTEST:
        yield run
    else:
        yield from (step for _, _, step in run)


def _kept(machine: Machine, segment: Segment, steps: list[Bound]) -> bool:
    """Whether the disk cache has the code of the runs of a body as all threads that are alive execute them."""
    runs = [run for run in _runs(machine, segment, steps) if isinstance(run, list)]
    return all(is_kept(_text(machine, run, _moves(run) and machine.alive is not None).text()) for run in runs)


def _moves(run: Straight) -> bool:
    """Whether it has loads or stores."""
    return any(isinstance(what, Step) for _, what, _ in run)


def _text(machine: Machine, run: Straight, masked: bool) -> Writer:
    writer = Writer(machine, masked)
    for index, (inst, what, _) in enumerate(run):
        writer.add(index, inst, what)
    return writer


def _fits(machine: Machine, inst: Inst, what: Meaning) -> bool:
    """Whether the compiler knows the instruction and its operands."""
    if isinstance(what, Pure):
        known = what.native is not None and not (what.approximate and machine.arithmetic.noise is not None)
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

    def __init__(self, machine: Machine, run: Straight, masked: bool):
        writer = _text(machine, run, masked)
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
            usable = w.ranked == move.ranked and w.view.size and not (move.write and w.read_only)
            rows = self._zeros if w.rows is None else w.rows
            self.pointers[move.slot : move.slot + 4] = (
                _address(w.view if usable else self._nothing),
                int(w.start.reshape(-1)[0]) if usable else 0,  # lane 0 is of the CTA with rank 0
                int(w.last) + 1 if usable else 0,
                _address(rows),
            )


def _address(array: Array) -> int:
    return array.__array_interface__["data"][0]


class Run:
    """One run of a segment on one machine."""

    def __init__(self, machine: Machine, run: Straight):
        self.machine = machine
        self.run = run
        self.moves = _moves(run)
        self.code: list[_Code | None] = [None, None]
        """For all lanes, and with a mask."""

    def full(self) -> None:
        """Execute in all lanes that are alive."""
        # nobody reads the registers of those that are not, but they must not load and store
        mask = self.machine.alive if self.moves else None
        stopped = self._call(mask)
        if stopped is not None:
            for _, _, (full, _) in self.run[stopped:]:
                full()
            self._look(mask)

    def masked(self, mask: Array) -> None:
        stopped = self._call(mask)
        if stopped is not None:
            for _, _, (_, masked) in self.run[stopped:]:
                masked(mask)
            self._look(mask)

    def _call(self, mask: Array) -> int | None:
        """Run the code: None, or the index of the load or store at which it stopped."""
        code = self.code[mask is not None]
        if code is None:
            code = self.code[mask is not None] = _Code(self.machine, self.run, mask is not None)
        stopped = code.call(code.at, self.machine.warps, 0 if mask is None else _address(mask))
        return code.moves[stopped - 1].index if stopped else None

    def _look(self, mask: Array) -> None:
        """NumPy has executed what the code could not: go where it went, next time."""
        code = self.code[mask is not None]
        assert code is not None
        code.look()
