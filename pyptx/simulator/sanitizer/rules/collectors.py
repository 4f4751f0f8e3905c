"""Collector buffers of tcgen05.mma (PTX ISA 9.7.18.10.10): an operand that may be taken from a buffer is what was put there.

The tensor core reads a matrix again whenever it likes, so that one which changed since, or is another one, gives one result or
the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.program import Inst
from ..rule import Rule
from ..state.context import Part

Array = Any


TCGEN05_COLLECTOR = Rule(
    "tcgen05-collector",
    ("9.7.18.10.10",),
    "a `tcgen05.mma` may take an operand from a collector buffer that holds nothing, or another matrix",
    "an mma with .collector::a::fill (or b) and the same matrix comes before, and between them only ones with .collector::a::use",
)


class Collectors(Part):
    """What the buffers of each CTA (or pair) hold."""

    rules = (TCGEN05_COLLECTOR,)

    def start(self) -> None:
        self.held: dict[tuple[int, str], tuple[Array, Inst]] = {}
        """(CTA, buffer) -> the matrix and who put it there."""

    def collected(self, inst: Inst, lane: int, cta: int, buffer: str, use: str, matrix: Array) -> None:
        """An instruction has this matrix as its operand and says `use` of a buffer (`a`, `b`, `b0` to `b3`)."""
        found = self.held.get((cta, buffer))
        if use in ("use", "lastuse") and (found is None or not np.array_equal(found[0], matrix, equal_nan=True)):
            name = buffer[0].upper()
            what = f"{name} may be taken from the collector buffer {buffer}"
            self.report(
                TCGEN05_COLLECTOR,
                inst,
                f"{what}, which holds nothing"
                if found is None
                else f"{what}, which holds another matrix, or {name} has changed",
                lane,
                hint=f"an mma with .collector::{buffer}::fill and the same {name} comes before, and between them only ones with "
                f".collector::{buffer}::use: without a qualifier the contents are discarded",
                other=None if found is None else found[1],
            )
        if use == "fill":
            self.held[cta, buffer] = matrix, inst
        elif use != "use":
            self.held.pop((cta, buffer), None)
