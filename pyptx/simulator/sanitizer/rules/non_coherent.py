"""Loads through the non-coherent cache (`.nc`, `.proxy::readonly`), which are outside the memory model (PTX ISA 8.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...machine.program import Inst
from ..rule import Rule
from ..state.context import TIME, Part
from ..state.shadow import THREAD, Space

Array = Any
NON_COHERENT_LOAD = Rule(
    "non-coherent-load",
    ("8.1",),
    "`ld.global.nc`, or a load with `.proxy::readonly`, of memory that the kernel writes",
    "read with ld.global what the kernel writes; .nc is for memory that nobody writes while the kernel runs",
)


class NonCoherent(Part):
    """Loads of memory that no thread may write."""

    rules = (NON_COHERENT_LOAD,)

    def read(self, inst: Inst, space: Space, index: Array, lanes: Array, written: Array, stamps: Array) -> None:
        """A load with stamps of its own, of what the writes `written` left."""
        if space.name != "global":
            return
        if space.non_coherent is None:
            space.non_coherent = np.zeros(space.write.size, np.int64)
        space.non_coherent[index] = stamps
        at = np.flatnonzero(written)
        if at.size:
            self._report(inst, space, index[at], lanes[at], written[at], "read", "was written")

    def written(self, inst: Inst, space: Space, index: Array, lanes: Array) -> None:
        """A write of global memory."""
        if space.non_coherent is None:
            return
        read = space.non_coherent[index]
        at = np.flatnonzero(read)
        if at.size:
            self._report(inst, space, index[at], lanes[at], read[at], "written", "was read")

    def _report(
        self, inst: Inst, space: Space, index: Array, lanes: Array, stamps: Array, now: str, before: str
    ) -> None:
        other = self.context.instruction_at(int(stamps[0]) >> 32 & TIME)
        name = "ld.global.nc" if "ld.global.nc" in (inst.text + other.text) else "a load with .nc or .proxy::readonly"
        self.report(
            NON_COHERENT_LOAD,
            inst,
            f"global memory {now} here {before} by {self.context.thread(int(stamps[0]) & THREAD)} in the same kernel, one of the "
            f"two with {name}, which is outside the memory model: no barrier or fence orders it",
            lanes,
            space=space,
            byte=int(index[0]) << space.shift,
            other=other,
        )
