"""Collector buffers of tcgen05.mma (PTX ISA 9.7.18.10.10): an operand that may be taken from a buffer is what was put there.

The tensor core reads a matrix again whenever it likes, so that one which changed since, or is another one, gives one result or
the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.program import Inst

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any


class Collectors:
    """What the buffers of each CTA (or pair) hold."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer

    def start(self) -> None:
        self.held: dict[tuple[int, str], tuple[Array, Inst]] = {}
        """(CTA, buffer) -> the matrix and who put it there."""

    def collected(self, inst: Inst, lane: int, cta: int, buffer: str, use: str, matrix: Array) -> None:
        """An instruction has this matrix as its operand and says `use` of a buffer (`a`, `b`, `b0` to `b3`)."""
        found = self.held.get((cta, buffer))
        if use in ("use", "lastuse") and (found is None or not np.array_equal(found[0], matrix, equal_nan=True)):
            name = buffer[0].upper()
            what = f"{name} may be taken from the collector buffer {buffer}"
            self.s.report(
                "tcgen05-collector",
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
