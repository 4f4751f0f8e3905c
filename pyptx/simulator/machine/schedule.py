"""Orders in which threads run and copies complete, chosen to differ: priority-based concurrency testing (Burckhardt et al.,
ASPLOS 2010).

Each lane is of one of three classes, early, middle and late; the lanes of the first class that can run do, up to where they
wait, poll in vain or end. At a few steps, drawn in advance, the class that runs falls after the others, also between two
instructions. What a class is differs from schedule to schedule: a CTA, a warp, lanes of a warp. Asynchronous operations
complete at once, at some later step, or only when nothing else can run.

A schedule is its seed and number: the same token gives the same run.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from ...diagnostics import SimulationError
from .machine import Machine
from .pending import AT_LAST, AT_ONCE, SOME_TIME
from .program import Inst

Array = Any
EARLY, MIDDLE, LATE = range(3)
PLANS = (
    ("cta", "late", AT_LAST, 0),
    ("lane", "parity", AT_ONCE, 0),
    ("lane", "other parity", AT_ONCE, 0),
    ("warp", "late", AT_LAST, 0),
    ("warp", "halves", SOME_TIME, 2),
    ("cta", "ends", AT_ONCE, 0),
    ("warp", "ends", AT_LAST, 1),
    ("lane", "ends", SOME_TIME, 1),
    ("cta", "halves", AT_LAST, 2),
)
"""(what is of one class, how the classes are drawn, when copies complete, change points) of schedules 1, 2, ...; those of the
levels at which a program communicates come first. Of two lanes whose numbers differ in one bit, as in a sum over a warp, one is
late by their parity, and the other by the other; which of them changes each time that they have met, after the first time (data
are there), so that one schedule has both a store that comes too early and a load that does.
"""
SOFT_ROUNDS = 32
"""Rounds of a loop that both polls and changes something after which a class gives way to the others."""
LONGEST = 14
"""The last change point is before step 2 to this power."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """One order. Number 0 is the order of the seed alone: see `simulate`."""

    seed: int
    number: int

    @property
    def token(self) -> str:
        """What `simulate(..., schedule=)` takes."""
        return f"{self.seed}:{self.number}"


def read_schedule(value: object, seed: int) -> Schedule:
    """A schedule from its number or token. SimulationError if it is neither."""
    words = str(value).split(":") if isinstance(value, (str, int, np.integer)) and not isinstance(value, bool) else []
    try:
        numbers = [int(w) for w in words]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or numbers[-1] < 0:
        raise SimulationError(f"schedule = {value!r}: it is a number, such as 3, or a seed and a number, such as '0:3'")
    return Schedule(numbers[0] if len(numbers) == 2 else seed, numbers[-1])


@dataclass(slots=True)
class Paused:
    """Lanes that stopped between two instructions of a segment: the instruction that comes next, and the registers that
    other lanes at the segment overwrite (`Inst.local`).
    """

    segment: int
    mask: np.ndarray
    next: int
    registers: list[tuple[np.ndarray, np.ndarray]]


class Scheduler:
    """Decides for an engine which lanes run next."""

    def __init__(self, machine: Machine, schedule: Schedule, levels: Collection[str]):
        self.machine, self.schedule = machine, schedule
        number = schedule.number - 1
        plans = sorted(PLANS, key=lambda plan: plan[0] not in levels)
        level, self.shape, self.copies, most = plans[number % len(plans)]
        self.most = most + number // len(plans)
        if level == "cta" and machine.launch.grid_size == 1:
            level = "warp"
        self.level = "lane" if level == "warp" and machine.padded == 32 else level

        self.signals = [any(map(_signals, s.body)) for s in machine.program.segments]
        """Segments after which a thread that polled in vain may find what it waits for."""

    def start(self) -> None:
        """A batch begins."""
        machine = self.machine
        random = Random(f"{self.schedule.token} {machine.first_cta}")
        machine.pending.follow(self.copies, random)
        classes = self._classes(random)
        self.members = [classes == c for c in range(3)]
        self.order = [EARLY, MIDDLE, LATE]
        self.changes = sorted(int(2 ** random.uniform(2, LONGEST)) for _ in range(self.most))
        self.running = self.order[0]
        self.gave_way: set[tuple[int, int]] = set()
        self.rounds = 0
        self.caught_up = False
        """Whether the class that is last has run since the others did (parities only)."""
        self.met = False
        """Whether all classes have met once."""

    def _classes(self, random: Random) -> np.ndarray:
        """The class of each lane."""
        machine = self.machine
        ctas, warps = machine.ctas, machine.padded // 32
        if self.level == "cta":
            per = machine.cluster_size if machine.cluster_size > 1 else ctas
            drawn = [c for _ in range(ctas // per) for c in self._draw(per, random)]
            return np.repeat(np.array(drawn), machine.padded)
        if self.level == "warp":
            return np.repeat(np.array([c for _ in range(ctas) for c in self._draw(warps, random)]), 32)
        return np.array([c for _ in range(ctas * warps) for c in self._draw(32, random)])

    def _draw(self, count: int, random: Random) -> list[int]:
        """Classes for a number of units."""
        if self.shape.endswith("parity"):
            first = self.shape == "parity"
            return [LATE if (n.bit_count() % 2 == 0) == first else EARLY for n in range(count)]
        if self.shape == "halves" or count == 1:
            return [random.choice((EARLY, LATE)) for _ in range(count)]
        drawn = [MIDDLE] * count
        late, early = random.sample(range(count), 2)
        drawn[late] = LATE
        if self.shape == "ends":
            drawn[early] = EARLY
        return drawn

    def choose(self, groups: dict[int, np.ndarray], waiting: dict[int, Paused]) -> tuple[int, np.ndarray, int]:
        """(segment, lanes, first instruction of its body to execute) that come next, of the lanes at each segment, and those that
        stopped within one, by their class.
        """
        if self.caught_up and self._can_run(self.order[0], groups, waiting):
            if self.met:
                self.order.reverse()
            self.met, self.caught_up = True, False
        chosen = self._chosen(groups, waiting)
        self.caught_up |= self.running == self.order[-1] and self.shape.endswith("parity")
        return chosen

    def _can_run(self, c: int, groups: dict[int, np.ndarray], waiting: dict[int, Paused]) -> bool:
        return c in waiting or self._lowest(groups, c) >= 0

    def _chosen(self, groups: dict[int, np.ndarray], waiting: dict[int, Paused]) -> tuple[int, np.ndarray, int]:
        while True:
            for c in self.order:
                paused = waiting.pop(c, None)
                if paused is not None:
                    self.running = c
                    for row, values in paused.registers:
                        row[..., paused.mask] = values
                    return paused.segment, paused.mask, paused.next
                at = self._lowest(groups, c)
                if at >= 0:
                    self.running = c
                    mask = groups.pop(at)
                    mine = mask & self.members[c]
                    rest = mask & ~mine
                    if np.count_nonzero(rest):
                        groups[at] = rest
                    return at, mine, 0
            # all that can run has polled in vain
            self.gave_way.clear()
            self.machine.pending.force_one()

    def _lowest(self, groups: dict[int, np.ndarray], c: int) -> int:
        """The lowest segment with lanes of a class that have not given way."""
        members = self.members[c]
        best = -1
        for at, mask in groups.items():
            if (best < 0 or at < best) and (at, c) not in self.gave_way and np.count_nonzero(mask & members):
                best = at
        return best

    def polled(self, segment: int, *, idle: bool) -> None:
        """The lanes that run go through a loop once more that looks at what others do; `idle`: and does nothing else."""
        if idle:
            self.gave_way.add((segment, self.running))
            return
        self.rounds += 1
        if self.rounds % SOFT_ROUNDS == 0:
            self._fall_behind()

    def ran(self, segment: int) -> None:
        """Lanes have run through a segment."""
        if self.signals[segment]:
            self.gave_way.clear()

    def stop_before(self, steps: int, first: int, count: int) -> int:
        """Where the running lanes stop in a body of `count` instructions that they are to execute from `first` on."""
        if not self.changes or self.changes[0] >= steps + count - first:
            return count
        at = max(first + 1, first + self.changes.pop(0) - steps)
        self._fall_behind()
        return min(at, count)

    def _fall_behind(self) -> None:
        self.order.remove(self.running)
        self.order.append(self.running)


def _signals(inst: Inst) -> bool:
    """Whether others may poll for what an instruction does."""
    access = inst.family.access
    if access == "store":
        return bool({"volatile", "relaxed", "release", "mmio"} & set(inst.modifiers))
    if access == "atomic":
        return not (inst.has("cas") or inst.has("exch"))  # these look for what others do
    return access == "copy" or (access == "object" and not inst.polls) or bool(inst.family.gathers)
