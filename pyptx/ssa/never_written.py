"""Registers that a function reads and that nothing in it writes: legal PTX, and almost always a mistake."""

from __future__ import annotations

from collections.abc import Iterator

from ..dialects.ptx.structure import UnknownOp
from .statement import FunctionSource, Reg

__all__ = ["never_written"]


def never_written(function: FunctionSource) -> Iterator[tuple[Reg, int]]:
    """Each such register with the line (or index of a location) of the first statement that reads it. What a guarded
    instruction keeps of a register that it writes is not a read.
    """
    written: set[Reg] = {*function.inputs, *function.outputs}
    read: dict[Reg, int] = {}
    for shape, regs, _, line, _ in function.statements:
        if shape.op_class is UnknownOp:
            return  # it may write any
        if not regs:
            continue
        written.update([regs[i] for i in shape.written])
        for i in shape.read:
            read.setdefault(regs[i], line)
        if shape.guard >= 0:
            read.setdefault(regs[shape.guard], line)
    for reg, line in read.items():
        if reg not in written:
            yield reg, line
