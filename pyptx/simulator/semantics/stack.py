"""Memory from the thread's stack: alloca, stacksave, stackrestore (PTX ISA 9.7.19)."""

from __future__ import annotations

import numpy as np

from ..machine.machine import Machine
from ..machine.program import Imm, Inst, Reg
from ..machine.registry import Action, Mask, Step, meaning


@meaning("alloca")
def alloca(inst: Inst) -> Step:
    return Step(_bind_alloca)


def _bind_alloca(machine: Machine, inst: Inst) -> Action:
    d, size, *rest = inst.operands
    assert isinstance(d, Reg)
    row = machine.row(d)
    amount = machine.source(size, inst.type)
    alignment = int(rest[0].value) if rest and isinstance(rest[0], Imm) else 8
    # the stack is aligned to 16 bytes, so larger alignments hold relative to its start only
    mask = np.int64(~(alignment - 1))

    def step(m: Mask) -> None:
        here = machine.executing(m)
        start = (machine.stack_top.astype(np.int64) + alignment - 1) & mask
        end = start + np.broadcast_to(amount, machine.lanes).astype(np.int64)
        over = np.flatnonzero(here & (end > machine.program.local_size))
        if over.size:
            lane = int(over[0])
            machine.fault(inst, f"stack overflow: {int(end[lane] - start[lane])} bytes do not fit", lane)
        np.copyto(row, start, "unsafe", here)
        np.copyto(machine.stack_top, end, "unsafe", here)

    return step


@meaning("stacksave")
def stacksave(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        d = inst.operands[0]
        assert isinstance(d, Reg)
        row = machine.row(d)

        def step(m: Mask) -> None:
            np.copyto(row, machine.stack_top, "unsafe", machine.executing(m))

        return step

    return Step(bind)


@meaning("stackrestore")
def stackrestore(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        source = machine.source(inst.operands[0], "u32")

        def step(m: Mask) -> None:
            np.copyto(machine.stack_top, source, "unsafe", machine.executing(m))

        return step

    return Step(bind)
