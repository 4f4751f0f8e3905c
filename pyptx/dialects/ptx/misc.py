"""Traps, events, sleeping, register budgets and tracing (PTX ISA 9.7.21)."""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction


@instruction
class Trap(Instruction):
    """Abort the kernel and raise an interrupt on the host."""

    name = "ptx.trap"
    section = "9.7.21.4"
    effect = "order"
    unit = "control"
    forms = (form("trap"),)


@instruction
class Breakpoint(Instruction):
    """Stop for the debugger."""

    name = "ptx.brkpt"
    section = "9.7.21.1"
    effect = "order"
    unit = "control"
    forms = (form("brkpt", ptx="1.2"),)


@instruction
class PmEvent(Instruction):
    """Trigger performance monitor events.

    Operand: a, the event's number 0 to 15, or (`.mask`) a mask of 16 events.
    """

    name = "ptx.pmevent"
    section = "9.7.21.3"
    effect = "order"
    unit = "control"
    forms = (
        form("pmevent a:imm", ranges={"a": (0, 15)}, ptx="1.4"),
        form("pmevent.^mask a:imm", ranges={"a": (0, 0xFFFF)}, ptx="3.0"),
    )


@instruction
class NanoSleep(Instruction):
    """Suspend the thread for about a time, at most twice as long. Operand: t, in nanoseconds (up to 1 ms)."""

    name = "ptx.nanosleep"
    section = "9.7.21.2"
    effect = "order"
    polls = True
    unit = "control"
    forms = (form("nanosleep.u32 t:u32", ptx="6.2", sm="70+"),)


@instruction
class SetMaxRegisters(Instruction):
    """Change how many registers each thread of the warp may use: give some back (`dec`) or wait for more
    (`inc`).

    Operand: count, a constant multiple of 8 from 24 to 256. All warps of the warpgroup run it.
    """

    name = "ptx.setmaxnreg"
    section = "9.7.21.5"
    effect = "order"
    unit = "control"
    forms = (
        form(
            "setmaxnreg.^action.sync.aligned.type count:imm", action="inc dec", type="u32 s32",
            ranges={"count": range(24, 257, 8)},
            ptx="8.0", sm="90a 100af 103af 107af 110af 120af 121af",
        ),
    )  # fmt: skip


@instruction
class TraceMark(Instruction):
    """Leave a mark in the trace that the tools record. Operand: a, a constant from 0 to 4095."""

    name = "ptx.trace.mark"
    section = "9.7.21"
    effect = "order"
    forms = (form("trace.mark a:imm", ranges={"a": (0, 4095)}, ptx="9.5", sm="107af"),)
