"""Instructions that change no values: timing, hints, debugging (PTX ISA 9.7.21)."""

from __future__ import annotations

from ..machine.machine import Machine
from ..machine.program import Inst
from ..machine.registry import Action, Mask, Step, meaning


@meaning("nanosleep", "pmevent", "setmaxnreg", "trace.mark")
def nothing(inst: Inst) -> Step:
    return Step(lambda machine, inst: lambda m: None)


@meaning("brkpt")
def brkpt(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        def step(m: Mask) -> None:
            machine.fault(inst, "the kernel reached a breakpoint")

        return step

    return Step(bind)


def _control(inst: Inst) -> Step:
    raise AssertionError(f"{inst.opcode} ends its segment")


for _opcode in ("bra", "brx.idx", "ret", "exit", "call", "trap"):
    meaning(_opcode)(_control)
