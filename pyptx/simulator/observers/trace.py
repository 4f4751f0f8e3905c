"""Traces, breakpoints and watchpoints: what chosen threads execute, with the values of their registers.

    simulate(kernel, ..., trace=print)                            # one line per instruction of the first thread
    simulate(kernel, ..., on_instruction=f, threads=[((0, 0, 0), 37)])   # f(Step) before each instruction
    simulate(kernel, ..., on_store=f)                             # f(Stored) before each store of any thread

A callback may raise, which ends the launch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.binding import meaning_of
from ..machine.machine import Action, Observer
from ..machine.memory import Access
from ..machine.program import Inst, Not, Part, Program, Reg, Special, leaves
from ..machine.registry import ClusterBarrier

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..machine.machine import Machine

Array = Any
ThreadName = tuple[tuple[int, int, int] | int, int]
"""(%ctaid, or the number of the CTA in the grid; number of the thread in its CTA)."""
_NAME = re.compile(r"%[A-Za-z_$][\w$]*")


def register_names(inst: Inst) -> list[tuple[str, Reg]]:
    """The registers that an instruction's text names, in its order."""
    specials = {
        o.name.partition(".")[0] for operand in inst.operands for o in leaves(operand) if isinstance(o, Special)
    }
    names = [n for n in _NAME.findall(inst.text) if n not in specials]
    found: list[Reg] = [inst.guard] if inst.guard is not None else []
    for operand in inst.operands:
        for leaf in leaves(operand):
            inner = leaf.operand if isinstance(leaf, (Part, Not)) else leaf
            if isinstance(inner, Reg):
                found.append(inner)
    return list(zip(names, found, strict=True)) if len(names) == len(found) else []


def names_of(program: Program) -> dict[str, Reg]:
    """Register name -> storage, over the whole program (a name of several scopes: its first)."""
    names: dict[str, Reg] = {}
    for inst in program.instructions:
        for name, reg in register_names(inst):
            names.setdefault(name, reg)
    return names


@dataclass(slots=True)
class Step:
    """An instruction that a thread executes. Values are the registers' bits (floats: read them with `as_float`)."""

    number: int
    """Instructions issued so far."""
    cta: tuple[int, int, int]
    thread: int
    inst: Inst
    executes: bool
    """False if the guard excludes the thread."""
    read: dict[str, int] = field(default_factory=dict[str, int])
    written: dict[str, int] = field(default_factory=dict[str, int])
    """Filled in after the instruction: empty in `on_instruction`."""
    machine: Any = None
    lane: int = 0
    floats: dict[str, int] = field(default_factory=dict[str, int])
    """Names of floating-point registers -> their bits."""

    @property
    def text(self) -> str:
        return self.inst.text

    @property
    def place(self) -> str:
        """`file:line`, as far as known, without folders."""
        return _place(self.inst)

    def __str__(self) -> str:
        values = ", ".join(f"{n}={show_value(v, self.floats.get(n, 0))}" for n, v in self.read.items())
        results = ", ".join(f"{n}={show_value(v, self.floats.get(n, 0))}" for n, v in self.written.items())
        off = "" if self.executes else "  (guard is false)"
        arrow = f" -> {results}" if results and self.executes else ""
        return f"{self.number:>8} {self.cta}:{self.thread:<4} {self.place:<24} {self.text}  [{values}]{arrow}{off}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A store of one thread, before it happens."""

    cta: tuple[int, int, int]
    thread: int
    inst: Inst
    space: str
    address: int
    values: tuple[int | float, ...]

    def __str__(self) -> str:
        values = ", ".join(f"{v:.6g}" if isinstance(v, float) else show_value(v) for v in self.values)
        return f"{self.cta}:{self.thread:<4} {_place(self.inst):<24} .{self.space} 0x{self.address:x} <- {values}"


def _place(inst: Inst) -> str:
    return f"{Path(inst.filename).name if inst.filename else '<ptx>'}:{inst.line}" if inst.line is not None else ""


def show_value(value: int, bits: int = 0) -> str:
    """A value for reading; `bits`: it is a floating-point number of so many."""
    if bits:
        return f"{float(np.array([value], f'u{bits // 8}').view(f'f{bits // 8}')[0]):.6g}"
    return str(value) if -(1 << 16) < value < 1 << 16 else f"0x{value:x}"


def as_float(bits: int) -> float:
    """The bits of a 32-bit register as a float."""
    return float(np.array([bits], np.uint32).view(np.float32)[0])


def value_of(machine: Machine, reg: Reg, lane: int) -> int:
    """A register's bits in one lane."""
    row = machine.row(reg)
    if reg.pool == "128":
        return int(row[0, lane]) | int(row[1, lane]) << 64
    return int(row[lane])


class Trace(Observer):
    """Calls back for the instructions of chosen threads (default: the first of the grid) and for stores."""

    def __init__(
        self,
        *,
        after: Callable[[Step], object] | None = None,
        before: Callable[[Step], object] | None = None,
        on_store: Callable[[Stored], object] | None = None,
        threads: Sequence[ThreadName] | None = None,
    ):
        self.after, self.before, self.on_store = after, before, on_store
        self.threads = list(threads) if threads is not None else [(0, 0)]
        self.lanes: list[int] = []
        self.number = 0

    def attach(self, machine: Machine) -> None:
        self.machine = machine

    def started(self, engine: Engine) -> None:
        machine = self.machine
        self.lanes = []
        x, y, z = (np.atleast_1d(v) for v in machine.cta_index(np.arange(machine.ctas)))
        for cta, thread in self.threads:
            for c in range(machine.ctas):
                here = (int(x[c % x.size]), int(y[c % y.size]), int(z[c % z.size]))
                if (cta == here if isinstance(cta, tuple) else cta == c + machine.first_cta) and (
                    thread < machine.launch.threads
                ):
                    self.lanes.append(c * machine.padded + thread)

    def _cta(self, lane: int) -> tuple[int, int, int]:
        x, y, z = self.machine.cta_index(int(self.machine.cta_of_lane[lane]))
        return int(x), int(y), int(z)

    def _steps(self, inst: Inst, here: np.ndarray, names: list[tuple[str, Reg]]) -> list[Step]:
        machine = self.machine
        self.number += 1
        if not self.lanes or inst.copies:
            return []
        chosen = [lane for lane in self.lanes if here[lane]]
        if not chosen:
            return []
        active = machine.active(inst, here)
        floats = {n: int(r.pool) for n, r in names if r in machine.program.floats}
        written = set(inst.written)
        steps: list[Step] = []
        for lane in chosen:
            read = {n: value_of(machine, r, lane) for n, r in names if r not in written or _twice(names, n)}
            thread = int(machine.thread_of_lane[lane])
            executes = bool(active[lane])
            steps.append(Step(self.number, self._cta(lane), thread, inst, executes, read, {}, machine, lane, floats))
        return steps

    def bound(self, inst: Inst, action: Action) -> Action:
        names = register_names(inst)
        results = [(n, r) for n, r in names if r in set(inst.written)]
        machine = self.machine

        def traced(mask: Array) -> object:
            steps = self._steps(inst, machine.executing(mask), names)
            if self.before is not None:
                for step in steps:
                    self.before(step)
            r = action(mask)
            if self.after is not None:
                for step in steps:
                    step.written = {n: value_of(machine, reg, step.lane) for n, reg in results}
                    self.after(step)
            return r

        return traced

    def ended(self, inst: Inst, mask: np.ndarray) -> None:
        if inst.family.effect == "control" or isinstance(meaning_of(self.machine, inst), ClusterBarrier):
            self._tell(inst, mask)  # barriers of a CTA have events of their own, all others are bound

    def barrier_waits(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self._tell(inst, mask)

    def barrier_arrived(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self._tell(inst, mask)

    def _tell(self, inst: Inst, mask: np.ndarray) -> None:
        for step in self._steps(inst, mask, register_names(inst)):
            for call in (self.before, self.after):
                if call is not None:
                    call(step)

    def access(self, access: Access) -> None:
        call = self.on_store
        if call is None or access.inst.family.access != "store":
            return
        store, machine = access.store, self.machine

        def watched(lanes: Array, values: Array) -> None:
            everyone = machine.lane_numbers if lanes is None else lanes
            table = np.broadcast_to(values, (everyone.size, access.count) if access.count > 1 else (everyone.size,))
            rows = access.row[everyone]
            for i, lane in enumerate(everyone.tolist()):
                address = (int(rows[i]) + access.offset) & ((1 << 8 * rows.itemsize) - 1)
                data = tuple(np.atleast_1d(table[i]).tolist())
                call(
                    Stored(self._cta(lane), int(machine.thread_of_lane[lane]), access.inst, access.space, address, data)
                )
            store(lanes, values)

        access.store = watched


def watchers(
    trace: Callable[[str], object] | None,
    on_instruction: Callable[[Step], object] | None,
    on_store: Callable[[Stored], object] | None,
    threads: Sequence[ThreadName] | None,
) -> list[Observer]:
    """The observers that the options of `simulate` ask for."""
    if trace is None and on_instruction is None and on_store is None:
        return []
    write = trace

    def line(step: Step) -> None:
        assert write is not None
        write(str(step))

    return [Trace(after=line if write else None, before=on_instruction, on_store=on_store, threads=threads)]


def _twice(names: list[tuple[str, Reg]], name: str) -> bool:
    return sum(n == name for n, _ in names) > 1
