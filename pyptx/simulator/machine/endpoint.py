"""Logical endpoints of the fabric (PTX ISA 9.7.11, `fabric.*`), looped back: the memory reached through them is an array here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...diagnostics import SimulationError

__all__ = ["Endpoint"]


class Endpoint:
    """A logical endpoint, to pass for a `.u32` parameter: the kernel addresses bytes of `array` as `[endpoint, offset]`.

    `array`: a writable contiguous NumPy array or CPU tensor, which changes in place. Several arrays of one size make a
    multicast endpoint, for `.multimem`: puts and reductions go to all of them, pull-reductions combine them.
    """

    def __init__(self, *arrays: Any):
        if not arrays:
            raise SimulationError("an endpoint has an array reached through it, a multicast endpoint several")
        self.arrays = arrays


@dataclass(frozen=True, slots=True)
class Members:
    """An endpoint of a launch: where the memories reached through it lie, and how many bytes each has."""

    bases: tuple[int, ...]
    size: int
