"""Reads of memory that nobody has written: shared and local memory, and outputs that a call allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...machine.program import Inst
from ..rule import Rule
from ..state.context import Context, Part
from ..state.shadow import Space

Array = Any
STORE_FIRST = "memory is undefined when a kernel starts: store to all of it that is read"
UNINITIALISED = {
    "global": Rule(
        "uninitialised-global",
        ("5.1.4",),
        "a read of an output that a call allocated (`k(x)` without `out=`), where nobody has written",
        "outputs start uninitialised: pass out= (zeros, for sums), or let the kernel write first",
        symptom=True,
    ),
    "shared": Rule(
        "uninitialised-shared",
        ("5.1.7",),
        "a read of shared memory that no thread has written",
        STORE_FIRST,
        symptom=True,
    ),
    "local": Rule(
        "uninitialised-local", ("5.1.5",), "a read of local memory that the thread has not written", STORE_FIRST
    ),
}
"""By state space."""


class UninitialisedMemory(Part):
    """What is read before it is written."""

    rules = tuple(UNINITIALISED.values())

    def __init__(self, context: Context):
        super().__init__(context)
        self.told: set[int] = set()
        """Numbers of the loads that a finding was about: one use of what a load brought is enough."""
        self.defers: Callable[[Inst, Space, int, Array], bool] | None = None
        """Whether a read is reported where its value is used, by whoever follows that."""

    def read(self, inst: Inst, space: Space, index: Array, lanes: Array, written: Array) -> None:
        """Lanes read granules whose last writes are `written`."""
        nothing = space.unwritten(index, written)
        if len(nothing):
            byte, bad = int(index[nothing[0]]) << space.shift, lanes[nothing]
            if self.defers is None or not self.defers(inst, space, byte, bad):
                self.tell(inst, space, byte, bad)

    def tell(self, inst: Inst, space: Space, byte: int, lanes: Array, use: Inst | None = None) -> None:
        """Report a read, and where its value is used."""
        if inst.number in self.told:
            return
        what = f"the output {self.shadow.tensor_at(byte)}" if space.name == "global" else f"{space.name} memory"
        self.report(
            UNINITIALISED[space.name],
            inst,
            f"read of {what} that has not been written" + ("" if space.name == "local" else " by any thread"),
            lanes,
            space=space,
            byte=byte,
            other=use,
            role="the use of its value",
        )
        self.told.add(inst.number)
