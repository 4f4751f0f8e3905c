"""Which loads the values of registers come from, whatever the paths between: the registers of a program are taken as one set."""

from __future__ import annotations

from collections.abc import Sequence

from ...machine.program import Inst, Reg


def loads_behind(instructions: Sequence[Inst], wanted: set[Reg]) -> set[int]:
    """The numbers of the loads and atomics that return a value on which `wanted` depends; `wanted` grows by what is between."""
    writers: dict[Reg, list[Inst]] = {}
    for inst in instructions:
        if inst.family.access not in ("load", "atomic"):
            for register in inst.written:
                writers.setdefault(register, []).append(inst)
    work = list(wanted)
    while work:
        for inst in writers.pop(work.pop(), ()):
            work += [register for register in inst.read if register not in wanted]
            wanted.update(inst.read)
    return {
        i.number for i in instructions if i.family.access in ("load", "atomic") and not wanted.isdisjoint(i.written)
    }


def branches_on(instructions: Sequence[Inst]) -> set[Reg]:
    """The registers that decide which instructions a thread executes."""
    wanted = {inst.guard for inst in instructions if inst.guard is not None}
    for inst in instructions:
        if inst.family.symbol_kind == "branch targets":
            wanted.update(inst.read)
    return wanted
