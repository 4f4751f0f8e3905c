"""One launch, ready to run: the program, its memory with the arguments in it, and the choices of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..engine.engine import Engine
from ..engine.engines import body_binder
from ..machine.arithmetic import Arithmetic
from ..machine.global_memory import GlobalMemory
from ..machine.machine import Machine, Observer
from ..machine.program import Program
from ..machine.threads import Launch

SAMPLES = 8
"""Places of a grid that a sample is from."""
Named = Sequence[tuple[str, str, int, int, int]]


@dataclass(slots=True)
class Setup:
    """Plain data, so that it can go to another process."""

    program: Program
    launch: Launch
    memory: GlobalMemory
    parameters: np.ndarray
    named: Named
    """Pieces of shared memory by the author's names (`Traced.shared`)."""
    batch: int
    """CTAs that run together."""
    seed: int
    arithmetic: str
    approx: str
    arch: str | None
    engine: str
    max_steps: int | None
    ranges: Sequence[tuple[int, int]]
    """What is run of the grid: (first CTA, CTAs)."""

    def make_engine(self, ctas: int, observers: Sequence[Observer]) -> Engine:
        """An engine for at most so many CTAs at once."""
        choices = Arithmetic(self.arithmetic, self.approx, self.seed, self.program.target, self.arch)
        count = min(ctas, self.batch)
        machine = Machine(self.program, self.launch, self.memory, self.parameters, count, self.seed, observers, choices)
        machine.shared_names.add(self.named)
        return Engine(machine, self.max_steps, body_binder(self.engine, bool(observers)))


def run_range(engine: Engine, first: int, count: int) -> Iterator[int]:
    """Run CTAs batch by batch; yields the CTAs of each batch that is done."""
    machine, end = engine.machine, first + count
    while (left := min(end, machine.grid_end) - first) > 0:
        size = min(machine.ctas, left)
        engine.run(first, size)
        first += size
        yield size


def sampled(launch: Launch, share: float) -> list[tuple[int, int]]:
    """Ranges of CTAs that are about this share of a grid: whole clusters, at least one, in up to `SAMPLES` places that are evenly spaced."""
    size = launch.cluster_size
    clusters = launch.grid_size // size
    wanted = max(1, round(share * clusters))
    places = min(SAMPLES, wanted)
    starts = [i * clusters // places for i in range(places)]
    counts = [(i + 1) * wanted // places - i * wanted // places for i in range(places)]
    return [(start * size, count * size) for start, count in zip(starts, counts, strict=True)]
