"""Kernels that were not followed to their end: a lower bound, with the loop that they are in."""

from __future__ import annotations

from ..sass import Function
from .cards import Card
from .emulation import Emulated, Geometry
from .loops import Loop, loops
from .pipes import SUBCORES
from .result import Prediction

__all__ = ["unended"]


def unended(function: Function, geometry: Geometry, card: Card, ghz: float, seen: Emulated) -> Prediction:
    """The time that the executed instructions need at least: a sub-core issues one in a cycle, and so does a warp."""
    least = seen.executed / min(SUBCORES, geometry.warps)
    note = (
        f"a CTA did not end after {seen.executed:,} instructions{_place(function, seen)}: the time has a lower bound only; a loop "
        "that waits for another CTA, or for a value that no argument has, does not end here"
    )
    return Prediction(
        kernel=function.name, card=card.name, cycles=None, low=least, high=None, clock_ghz=ghz, binds="a loop that does not end",
        utilisation={}, stalls={}, registers=function.registers, notes=[note],
    )  # fmt: skip


def _place(function: Function, seen: Emulated) -> str:
    """In words, the loop with most iterations of those that have most of the instructions."""
    found = loops(function, seen.counts)
    heavy = [loop for loop in found if 2 * loop.executed > seen.executed]
    if not heavy:
        return ""
    loop = max(heavy, key=lambda loop: loop.trips)
    return f", in the loop at {_lines(function, loop)} ({loop.trips:,.0f} iterations)"


def _lines(function: Function, loop: Loop) -> str:
    lines = [i.line for i in function.instructions[loop.first : loop.last + 1] if i.line is not None]
    if not lines:
        return f"address {16 * loop.first:#x}"
    first, last = min(lines), max(lines)
    return f"line {first}" if first == last else f"lines {first} to {last}"
