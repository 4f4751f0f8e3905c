"""Reads of registers that nothing has written: legal PTX, and almost always a mistake."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import UndefOp
from .cfg import CFG
from .finding import Finding
from .operands import guard_value, line_of, passed_values, read_values, register_name, tied_values

Guard = tuple[SSAValue, str]


def uninitialised_reads(cfg: CFG) -> list[Finding]:
    """One finding per register and reading op: a warning where no path writes the register, a note where some
    path does not.

    What a guarded instruction keeps of an unwritten register is no read; if it is read under the same guard,
    it is initialised.
    """
    never: set[SSAValue] = set()
    partly: dict[SSAValue, Guard | None] = {}  # value -> the guard under which it is initialised
    changed = True
    while changed:
        changed = False
        for block in cfg.blocks:
            for op in block.ops:
                if isinstance(op, UndefOp) and op.results[0] not in never:
                    never.update(op.results)
                    changed = True
                elif isinstance(op, Instruction):
                    for result, old in tied_values(op):
                        if result in partly or (old not in never and old not in partly):
                            continue
                        guard = guard_value(op)
                        assert guard is not None
                        other = partly.get(old)
                        if other is not None and other[0] is guard and other[1] != op.guard:
                            continue  # @p here and @!p before: written either way
                        partly[result] = (guard, op.guard)
                        changed = True
            last = block.last_op
            if last is None:
                continue
            for _, argument, passed in passed_values(last):
                if (passed in never or passed in partly) and argument not in partly:
                    partly[argument] = None
                    changed = True
    found: list[Finding] = []
    seen: set[tuple[SSAValue, int | None]] = set()
    for block in cfg.blocks:
        for op in block.ops:
            if not isinstance(op, Instruction):
                continue
            guard = guard_value(op)
            for value in read_values(op):
                line = line_of(op)
                if (value, line) in seen:
                    continue
                if value in never:
                    seen.add((value, line))
                    found.append(
                        Finding(
                            "uninitialised",
                            "warning",
                            f"{register_name(value)} is read and never written before",
                            line,
                        )
                    )
                elif value in partly and (guard is None or partly[value] != (guard, op.guard)):
                    seen.add((value, line))
                    text = f"{register_name(value)} is not written on every path to this read"
                    found.append(Finding("uninitialised", "note", text, line))
    return found
