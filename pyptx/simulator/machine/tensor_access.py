"""The tensor memory of a machine, and accesses to it."""

from __future__ import annotations

from typing import Any

from ...dialects.ptx.target import target_of
from .machine import Machine
from .program import Inst
from .tensor_memory import COLUMNS, MOST_COLUMNS, TensorMemory

Array = Any


def tensor_memory(machine: Machine) -> TensorMemory:
    """The machine's tensor memory, made at the first use."""
    found = machine.tmem
    if found is None:
        columns = MOST_COLUMNS if target_of(machine.program.target).number == 107 else COLUMNS
        found = machine.tmem = TensorMemory(machine.ctas, columns)
    return found


def touched(
    machine: Machine, inst: Inst, lane: int, cta: int, rows: Array, columns: Array, *, reads: bool = False,
    writes: bool = False,
) -> None:  # fmt: skip
    """Tell the observers that an instruction accesses words of a CTA's tensor memory."""
    for observer in machine.observers:
        observer.tensor_accessed(inst, lane, cta, rows, columns, reads=reads, writes=writes)
