"""What the parts of the sanitizer share."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ....diagnostics import Diagnostic, Severity
from ...machine.global_memory import Allocation
from ...machine.machine import Machine, Observer
from ...machine.program import Inst
from ..finding import Finding, Findings
from ..rule import Rule
from .clocks import Clocks, fenced_spaces
from .shadow import Shadow, Space

if TYPE_CHECKING:
    from ...engine.engine import Engine

Array = Any
TIME = (1 << 30) - 1
"""The bits of a time."""
P = TypeVar("P", bound="Part")


class Reported(Exception):
    """There is something to report, in a trial."""


class Context:
    """The machine that is watched, its shadow memory and clocks, and what was found."""

    engine: Engine

    def __init__(self, machine: Machine, findings: Findings):
        self.machine = machine
        self.findings = findings
        instructions = machine.program.instructions
        self.shadow = Shadow(machine)
        asynchronous = any(i.family.proxy == "async" for i in instructions)
        self.clocks = Clocks(
            machine, {fenced_spaces(i) for i in instructions if i.fences == "async"} if asynchronous else ()
        )
        self.times = array("i", [0])
        """Number of the instruction that ran at each time."""
        self.trial = False
        """Whether nothing is reported now: `Reported` is raised in its place."""
        self.first_lane = 0
        """The number over the grid of the first thread of the batch."""
        self._parts: dict[type[Part], Part] = {}
        self._touching: list[Callable[..., None]] = []

    def add(self, kind: type[Part]) -> Part:
        """Make a part."""
        made = self._parts[kind] = kind(self)
        if kind.touched is not Part.touched:
            self._touching.append(made.touched)
        return made

    def part(self, kind: type[P]) -> P:
        """The part of this class. A part finds those that come before it in `PARTS`."""
        found = self._parts[kind]
        assert isinstance(found, kind)
        return found

    def start(self, engine: Engine) -> None:
        """A batch of CTAs begins."""
        self.engine = engine
        self.first_lane = self.machine.first_cta * self.machine.padded
        self.shadow.clear()
        self.clocks.start()

    def tick(self, inst: Inst) -> int:
        """The time of what an instruction does next."""
        self.times.append(inst.number)
        return self.clocks.tick()

    def touched(
        self, inst: Inst, space: Space, index: Array, lanes: Array, *, reads: bool = False, writes: bool = False
    ) -> None:
        """Tell the parts of an access (`Part.touched`)."""
        for tell in self._touching:
            tell(inst, space, index, lanes, reads=reads, writes=writes)

    def instruction_at(self, time: int) -> Inst:
        """The instruction that ran at a time."""
        return self.machine.program.instructions[self.times[time]]

    def numbers_at(self, times: Array) -> Array:
        """The numbers of the instructions that ran at some times."""
        return np.frombuffer(self.times, np.intc)[times]

    def written(self, allocation: Allocation, offsets: Array) -> Array:
        """Those of these bytes of an allocation that the launch has written so far."""
        space = self.shadow.memory
        return offsets[space.write[self.shadow.start_of(allocation) + offsets >> space.shift] != 0]

    def writer(self, allocation: Allocation, offset: int) -> Inst:
        """The instruction that wrote a byte last."""
        space = self.shadow.memory
        stamp = int(space.write[self.shadow.start_of(allocation) + offset >> space.shift])
        return self.instruction_at(stamp >> 32 & TIME)

    def thread(self, number: int) -> str:
        """A thread of the grid, in words."""
        machine = self.machine
        cta, t = divmod(number, machine.padded)
        x, y, z = machine.cta_index(cta - machine.first_cta)
        bx, by, _ = machine.launch.block
        return f"thread ({t % bx}, {t // bx % by}, {t // (bx * by)}) of CTA ({int(x)}, {int(y)}, {int(z)})"

    def report(
        self,
        rule: Rule,
        inst: Inst,
        message: str,
        lanes: Array,
        *,
        hint: str = "",
        space: Space | None = None,
        byte: int | None = None,
        other: Inst | None = None,
        role: str = "the other side",
        key: object = None,
        severity: Severity | None = None,
    ) -> None:
        """Keep a finding, the first of its rule between these instructions. `role`: what `other` is to it. Hint and severity
        are those of the rule unless given.
        """
        if self.trial:
            raise Reported
        if not self.findings.wants(rule, inst.number, None if other is None else other.number, key):
            return
        lanes = np.unique(np.atleast_1d(lanes))
        names = tuple(self.machine.describe_thread(int(lane)) for lane in lanes[:4])
        address = None if space is None or byte is None else self.shadow.address(space, byte)
        at = "" if space is None or byte is None else f" at {self.shadow.name(space, byte)}"
        first = f", {names[0]}" if names else ""
        text = f"{message}{at} (instruction `{inst.text}`{first})"
        side = None
        if other is not None:
            origin = self.machine.program.origin(other)
            side = Diagnostic("note", f"`{other.text}`", other.filename, other.line, other.column, origin=origin)
            where = side.location
            text += f"; {role} is `{other.text}`" + (f" at {where}" if where else "")
        self.findings.kept.append(
            Finding(
                severity or rule.severity,
                text,
                inst.filename,
                inst.line,
                inst.column,
                hint or rule.cure,
                rule=rule.name,
                instruction=inst.text,
                threads=names,
                count=int(lanes.size),
                space="" if space is None else space.name,
                address=address,
                section=rule.section or inst.family.section,
                other=side,
                role=role,
                origin=self.machine.program.origin(inst),
            )
        )


class Part(Observer):
    """A part of the sanitizer: it overrides the events it wants to know of, and keeps state or checks rules."""

    rules: ClassVar[tuple[Rule, ...]] = ()
    """The rules that it checks."""

    def __init__(self, context: Context):
        self.context = context
        self.machine, self.shadow, self.clocks = context.machine, context.shadow, context.clocks
        self.report = context.report

    def start(self) -> None:
        """A batch of CTAs begins."""

    def touched(
        self, inst: Inst, space: Space, index: Array, lanes: Array, *, reads: bool = False, writes: bool = False
    ) -> None:
        """Lanes, or what they issued, are about to access granules of shared, global or local memory, one each."""

    def settle(self) -> None:
        """Tell what was held back: all threads of the batch have exited, or the launch ends in an error."""

    def finish(self) -> None:
        """All threads of the batch have exited."""

    def restart(self) -> None:
        """The launch begins again, with memory as it was."""
