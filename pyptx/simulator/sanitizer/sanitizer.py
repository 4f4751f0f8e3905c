"""The sanitizer: an observer that checks a launch against the rules of the PTX memory and asynchrony model.

It never stops a kernel: it keeps one `Finding` per rule and pair of instructions. What a GPU would fault on
(`SimulationError`) is the machine's own business, except for threads that poll forever, which end here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ...diagnostics import Diagnostic
from ..machine.machine import Machine
from ..machine.memory import Access, Allocation
from ..machine.observe import Action, Observer
from ..machine.program import Inst
from .asynchronous import TIME, Copies, fenced_spaces
from .barriers import Barriers
from .clocks import Clocks
from .collectors import Collectors
from .dependents import Dependents
from .finding import SECTIONS, Finding
from .inflight import InFlight
from .progress import Progress
from .promotion import Promotion
from .races import Races
from .register_file import RegisterFile
from .registers import Registers
from .shadow import Shadow, Space
from .tensor import Tensor
from .tensor_maps import TensorMaps

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..machine.pending import Copy

Array = Any
MOST_FINDINGS = 100
"""Of each rule."""


class Sanitizer(Observer):
    """Checks a launch; `findings` are in the order in which they happened."""

    def __init__(self, before: Sanitizer | None = None) -> None:
        """`before`: of an earlier run of the same launch, what it found is not told again."""
        self.findings: list[Finding] = []
        self._known: set[tuple[object, ...]] = set() if before is None else before._known
        self._kept: Counter[str] = Counter() if before is None else before._kept
        """Findings by rule."""
        self.in_step: dict[tuple[int, int], tuple[Inst, Inst]] = {} if before is None else before.in_step
        """Accesses that rely on the lanes of a warp running in step: see `Lockstep`."""

    def attach(self, machine: Machine) -> None:
        self.machine = machine
        instructions = machine.program.instructions
        self.shadow = Shadow(machine)
        asynchronous = any(i.family.proxy == "async" for i in instructions)
        self.clocks = Clocks(
            machine, {fenced_spaces(i) for i in instructions if i.fences == "async"} if asynchronous else ()
        )
        self.times: list[int] = [0]
        """Number of the instruction that ran at each time."""
        self.copies = Copies(self)
        self.races = Races(self)
        self.barriers = Barriers(self)
        self.registers = Registers(self)
        self.progress = Progress(self)
        self.inflight = InFlight(self)
        self.tensor = Tensor(self)
        self.collectors = Collectors(self)
        self.maps = TensorMaps(self)
        self.dependents = Dependents(self)
        self.file = RegisterFile(self)
        self.promotion = Promotion(self)
        self.first_lane = 0

    def restart(self) -> None:
        """The launch begins again, with memory as it was."""
        self.shadow.memory.clear()
        self.races.patterns.restart()
        self.maps.restart()

    def written(self, allocation: Allocation, offsets: Array) -> Array:
        """Those of these bytes of an allocation that the launch has written so far."""
        space = self.shadow.memory
        return offsets[space.write[self.shadow.start_of(allocation) + offsets >> space.shift] != 0]

    def writer(self, allocation: Allocation, offset: int) -> Inst:
        """The instruction that wrote a byte last."""
        space = self.shadow.memory
        stamp = int(space.write[self.shadow.start_of(allocation) + offset >> space.shift])
        return self.instruction_at(stamp >> 32 & TIME)

    def started(self, engine: Engine) -> None:
        self.engine = engine
        self.first_lane = self.machine.first_cta * self.machine.padded
        self.shadow.clear()
        self.clocks.start()
        self.copies.start()
        self.races.start()
        self.barriers.start()
        self.registers.start()
        self.progress.start()
        self.inflight.start()
        self.tensor.start()
        self.collectors.start()
        self.maps.start()
        self.dependents.start()
        self.file.start()
        self.promotion.start()

    def finished(self, engine: Engine) -> None:
        self.copies.finish()
        self.tensor.finish()
        self.file.finish()
        self.promotion.finish()

    # -------------------------------------------------------------------------------------------------- events

    def tick(self, inst: Inst) -> int:
        """The time of what an instruction does next."""
        self.times.append(inst.number)
        return self.clocks.tick()

    def bound(self, inst: Inst, action: Action) -> Action:
        for part in (
            self.races,
            self.copies,
            self.barriers,
            self.inflight,
            self.registers,
            self.tensor,
            self.maps,
            self.dependents,
            self.file,
            self.promotion,
        ):
            action = part.bound(inst, action)
        return action

    def access(self, access: Access) -> None:
        self.races.watch(access)

    def ended(self, inst: Inst, mask: np.ndarray) -> None:
        self.registers.ended(inst, mask)
        self.inflight.ended(inst, mask)

    def exited(self, mask: np.ndarray) -> None:
        self.progress.made()
        self.copies.exited(mask)
        self.barriers.exited(mask)

    def barrier_arrived(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self.progress.made()
        self.barriers.arrived(inst, number, mask)

    def barrier_waits(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self.barriers.waits(inst, number, mask)

    def barrier_released(self, number: int, mask: np.ndarray) -> None:
        self.progress.made()
        self.barriers.released(number, mask)

    def cluster_arrived(self, inst: Inst, mask: np.ndarray) -> None:
        self.progress.made()
        self.barriers.cluster_arrived(inst, mask)

    def cluster_completed(self, mask: np.ndarray) -> None:
        self.barriers.cluster_completed(mask)

    def cluster_released(self, mask: np.ndarray) -> None:
        self.barriers.cluster_released(mask)

    def mbarrier_updated(self, inst: Inst, lanes: Array, slots: Array, ended: set[int], later: Array) -> None:
        self.progress.made()
        self.barriers.mbarrier_updated(inst, lanes, slots, ended, later)

    def mbarrier_initialised(self, inst: Inst, lanes: Array, slots: Array) -> None:
        self.progress.made()
        self.barriers.mbarrier_initialised(inst, lanes, slots)

    def mbarrier_waited(self, inst: Inst, lanes: Array, slots: Array, done: Array) -> None:
        self.barriers.mbarrier_waited(inst, lanes, slots, done)

    def filled(self, inst: Inst, lane: int, start: int, size: int) -> None:
        self.races.filled(inst, lane, start, size)

    def copy_issued(self, copy: Copy) -> None:
        self.progress.made()
        self.copies.issued(copy)

    def copy_completed(self, copy: Copy) -> None:
        self.progress.made()
        self.copies.completed(copy)

    def operand_read(self, inst: Inst, lane: int, cta: int, addresses: Array, *, of_a: bool) -> None:
        self.copies.operand_read(inst, lane, cta, addresses, of_a)

    def tensor_accessed(
        self, inst: Inst, lane: int, cta: int, rows: Array, columns: Array, *, reads: bool, writes: bool
    ) -> None:
        self.tensor.accessed(inst, lane, cta, rows, columns, reads=reads, writes=writes)

    def collected(self, inst: Inst, lane: int, cta: int, buffer: str, use: str, matrix: Array) -> None:
        self.collectors.collected(inst, lane, cta, buffer, use, matrix)

    def tensor_allocated(self, inst: Inst, lane: int, cta: int, first: int, columns: int) -> None:
        self.tensor.allocated(inst, lane, cta, first, columns)

    def tensor_freed(self, inst: Inst, lane: int, cta: int, first: int, columns: int) -> None:
        self.tensor.freed(inst, lane, cta, first, columns)

    def tensor_map_edited(self, inst: Inst, lane: int, kind: str, start: int) -> None:
        self.maps.edited(inst, lane, kind, start)

    def tensor_map_used(self, inst: Inst, lane: int, address: int) -> None:
        self.maps.used(inst, lane, address)

    def groups_waited(self, inst: Inst, mechanism: str, lanes: Array, newest: Array) -> None:
        self.copies.waited(inst, mechanism, lanes, newest)

    # ------------------------------------------------------------------------------------------------ findings

    @property
    def said(self) -> list[Diagnostic]:
        """The findings, and of which rules there are more."""
        full = [rule for rule, count in self._kept.items() if count > MOST_FINDINGS]
        return [
            *self.findings,
            *(
                Diagnostic("note", f"there are more findings of the rule {r} than the {MOST_FINDINGS} that are kept")
                for r in full
            ),
        ]

    def instruction_at(self, time: int) -> Inst:
        """The instruction that ran at a time."""
        return self.machine.program.instructions[self.times[time]]

    def thread(self, number: int) -> str:
        """A thread of the grid, in words."""
        machine = self.machine
        cta, t = divmod(number, machine.padded)
        x, y, z = machine.cta_index(cta - machine.first_cta)
        bx, by, _ = machine.launch.block
        return f"thread ({t % bx}, {t // bx % by}, {t // (bx * by)}) of CTA ({int(x)}, {int(y)}, {int(z)})"

    def has_told(self, rule: str, inst: Inst) -> bool:
        """Whether there is a finding of a rule at an instruction."""
        return any(known[:2] == (rule, inst.number) for known in self._known)

    def report(
        self,
        rule: str,
        inst: Inst,
        message: str,
        lanes: Array,
        *,
        hint: str = "",
        space: Space | None = None,
        byte: int | None = None,
        other: Inst | None = None,
        other_text: str = "",
        role: str = "the other side",
        key: object = None,
        severity: Any = "error",
    ) -> None:
        """Keep a finding, the first of its rule between these instructions. `role`: what `other` is to it."""
        known = (rule, inst.number, None if other is None else other.number, key)
        if known in self._known:
            return
        self._kept[rule] += 1
        if self._kept[rule] > MOST_FINDINGS:
            return
        self._known.add(known)
        lanes = np.unique(np.atleast_1d(lanes))
        names = tuple(self.machine.describe_thread(int(lane)) for lane in lanes[:4])
        address = None if space is None or byte is None else self.shadow.address(space, byte)
        at = "" if space is None or byte is None else f" at {self.shadow.name(space, byte)}"
        first = f", {names[0]}" if names else ""
        text = f"{message}{at} (instruction `{inst.text}`{first})"
        side = None
        if other is not None:
            origin = self.machine.program.origin(other)
            side = Diagnostic(
                "note", other_text or f"`{other.text}`", other.filename, other.line, other.column, origin=origin
            )
            where = side.location
            text += f"; {role} is `{other.text}`" + (f" at {where}" if where else "")
        self.findings.append(
            Finding(
                severity,
                text,
                inst.filename,
                inst.line,
                inst.column,
                hint or None,
                rule=rule,
                instruction=inst.text,
                threads=names,
                count=int(lanes.size),
                space="" if space is None else space.name,
                address=address,
                section=SECTIONS.get(rule) or inst.family.section,
                other=side,
                role=role,
                origin=self.machine.program.origin(inst),
            )
        )
