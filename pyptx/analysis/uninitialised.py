"""Reads of registers that nothing has written: legal PTX, and almost always a mistake."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.operands import Value, bound_operands
from ..dialects.ptx.structure import UndefOp
from ..dialects.ptx.syntax import Immediate
from .cfg import CFG
from .finding import Finding
from .operands import guard_value, line_of, passed_values, read_values, register_name, tied_values
from .threads import Threads

Guard = tuple[SSAValue, str]


def uninitialised_reads(cfg: CFG, threads: Threads) -> list[Finding]:
    """One finding per reading op, for all its registers of a kind: a warning where no path writes the register, a note where some
    path does not.

    What a guarded instruction keeps of an unwritten register is not a read; if it is read under the same guard,
    it is initialised.
    """
    never = {r for block in cfg.blocks for op in block.ops if isinstance(op, UndefOp) for r in op.results}
    partly: dict[SSAValue, Guard | None] = {}  # value -> the guard under which it is initialised
    work = dict.fromkeys(use.operation for value in never for use in value.uses)
    while work:
        op, _ = work.popitem()
        doubtful: list[SSAValue] = []
        if isinstance(op, Instruction):
            for result, old in tied_values(op):
                if result in partly or (old not in never and old not in partly):
                    continue
                guard = guard_value(op)
                assert guard is not None
                other = partly.get(old)
                if other is not None and other[0] is guard and other[1] != op.guard:
                    continue  # @p here and @!p before: written either way
                partly[result] = (guard, op.guard)
                doubtful.append(result)
        for _, argument, passed in passed_values(op):
            if (passed in never or passed in partly) and argument not in partly:
                partly[argument] = None
                doubtful.append(argument)
        work |= dict.fromkeys(use.operation for value in doubtful for use in value.uses)
    found: list[Finding] = []
    for block in cfg.blocks:
        for op in block.ops:
            if not isinstance(op, Instruction):
                continue
            guard = guard_value(op)
            values = dict.fromkeys(_needed(op, threads))
            unwritten = [v for v in values if v in never]
            doubtful = [
                v
                for v in values
                if v in partly and v not in never and (guard is None or partly[v] != (guard, op.guard))
            ]
            if unwritten:
                are = "is" if len(unwritten) == 1 else "are"
                text = f"{_names(unwritten)} {are} read and never written before"
                found.append(Finding("uninitialised", "warning", text, line_of(op)))
            if doubtful:
                are = "is" if len(doubtful) == 1 else "are"
                text = f"{_names(doubtful)} {are} not written on every path to this read"
                found.append(Finding("uninitialised", "note", text, line_of(op)))
    return found


def _needed(op: Instruction, threads: Threads) -> list[SSAValue]:
    """What an instruction reads. A wgmma reads D where its scale-d is true: where nothing says that it is, its
    first use of an accumulator is likely the one where it is false.
    """
    at = op.adds_if(op.modifiers)
    if at is None:
        return read_values(op)
    decides = bound_operands(op)[at]
    certain = False
    if isinstance(decides, Immediate):
        certain = decides.value != 0
    elif isinstance(decides, Value):
        lanes = threads.lanes(decides.value)
        certain = lanes is not None and lanes.constant == 1
    return read_values(op, accumulators=certain)


def _names(values: list[SSAValue]) -> str:
    """Registers in words; of many, the ends."""
    names = [register_name(v) for v in values]
    if len(names) > 4:
        return f"{names[0]} to {names[-1]} ({len(names)} registers)"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
