"""Where warps wait, by line of the PTX, by line of the program that the PTX was made from, and by loop."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sass import Function, Instruction
from . import codes as e
from .loops import loops
from .result import LineStalls, LoopStalls

__all__ = ["Places", "Waits", "by_line", "by_loop", "by_source"]


@dataclass(frozen=True)
class Places:
    """The lines of the PTX, and for those of a traced kernel the place in Python that made them."""

    text: Sequence[str] = ()
    python: Mapping[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])

    def line(self, number: int | None) -> str:
        return self.text[number - 1] if number is not None and 0 < number <= len(self.text) else ""

    def source(self, instruction: Instruction) -> tuple[str, int] | None:
        """The file and line that an instruction comes from; a `.loc` says it, else the trace."""
        return instruction.source or self.python.get(instruction.line or 0)


@dataclass(frozen=True)
class Waits:
    """What the replay says of each instruction of a function."""

    function: Function
    counts: NDArray[np.int64]
    """Those of `Emulated`, of a CTA."""
    stalls: NDArray[np.float64]
    """(instructions, reasons): cycles that the warps of an SM waited."""
    reasons: Sequence[str]

    def named(self, cycles: NDArray[np.float64]) -> dict[str, float]:
        return {self.reasons[k]: float(x) for k, x in enumerate(cycles) if x > 0}


def _gathered(waits: Waits, key: Callable[[Instruction], Hashable]) -> dict[Any, tuple[int, NDArray[np.float64]]]:
    """Executions and waits of the instructions of each key, of those that waited."""
    found: dict[Any, tuple[int, NDArray[np.float64]]] = {}
    for i, cycles, count in zip(waits.function, waits.stalls, waits.counts[:, e.N_WARPS], strict=True):
        executed, before = found.get(key(i), (0, np.zeros(len(cycles))))
        found[key(i)] = (executed + int(count), before + cycles)
    return {k: v for k, v in found.items() if v[1].any()}


def by_line(waits: Waits, places: Places) -> list[LineStalls]:
    gathered = _gathered(waits, lambda i: i.line)
    return [LineStalls(n, places.line(n), count, waits.named(cycles)) for n, (count, cycles) in gathered.items()]


def by_source(waits: Waits, places: Places) -> list[LineStalls]:
    """By line of the program; empty where no place is known."""
    gathered = _gathered(waits, places.source)
    gathered.pop(None, None)
    return [
        LineStalls(line, linecache.getline(file, line).rstrip("\n"), count, waits.named(cycles), file)
        for (file, line), (count, cycles) in gathered.items()
    ]


def by_loop(waits: Waits, ctas: int) -> list[LoopStalls]:
    """The loops in the order of their code, outer ones before those in them; `ctas`: of the SM that has most."""
    found: list[LoopStalls] = []
    for loop in sorted(loops(waits.function, waits.counts), key=lambda loop: (loop.first, -loop.last)):
        inside = slice(loop.first, loop.last + 1)
        lines = [i.line for i in waits.function.instructions[inside] if i.line is not None]
        turns = max(1.0, float(waits.counts[loop.first, e.N_WARPS]))
        each = waits.stalls[inside].sum(0) / (turns * ctas)
        executed = loop.executed / turns
        first, last = (min(lines), max(lines)) if lines else (None, None)
        found.append(LoopStalls(first, last, loop.trips, executed, executed + float(each.sum()), waits.named(each)))
    return found
