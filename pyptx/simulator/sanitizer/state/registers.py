"""Which registers instructions read, and which some path reads before it writes them: data flow over the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....dialects.ptx.move import Mov
from ...machine.machine import Machine
from ...machine.program import Imm, Inst, Not, Operand, Program, Reg
from ...machine.registry import MEANINGS, Pure

Array = Any


def moves(inst: Inst) -> bool:
    """Whether it hands on values unseen."""
    return inst.copies or inst.family is Mov


def loads(inst: Inst) -> bool:
    return inst.family.access == "load"


def order_of(reg: Reg) -> tuple[str, int]:
    return reg.pool, reg.slot


def added_to(inst: Inst) -> tuple[list[Reg], Operand | None]:
    """The registers that an instruction reads only if an operand is true, and that operand: the accumulators of wgmma."""
    at = inst.family.adds_if(inst.modifiers)
    if at is None:
        return [], None
    decides = inst.operands[at]
    if isinstance(decides, Imm) and not decides.value:
        return [], None
    return list(inst.written), decides


def spread(registers: set[Reg], by: Sequence[Inst]) -> set[Reg]:
    """Registers, and those that instructions make of them."""
    found = set(registers)
    size = -1
    while found and size != len(found):
        size = len(found)
        for inst in by:
            if not found.isdisjoint(inst.needs):
                found.update(inst.written)
    return found


def truth(machine: Machine, operand: Operand) -> Array:
    """The lanes in which an operand is true."""
    if isinstance(operand, Not):
        return ~truth(machine, operand.operand)
    kind = "u32" if isinstance(operand, Imm) else "pred"
    return machine.source(operand, kind) != 0


EVERYTHING = -1
"""All bits: what is known of segments that nothing has reached yet."""


def _formals(program: Program, bit: Callable[[Reg], int]) -> int:
    """The registers that callers give to the functions of a program."""
    formals = 0
    for function in program.functions:
        for formal in (*function.parameters, *function.returns):
            for reg in formal.registers:
                formals |= bit(reg)
        if function.frame is not None:
            formals |= bit(function.frame)
    return formals


def _known_at(program: Program, gives: list[int], formals: int) -> list[int]:
    """The registers that every path to each segment has written. `gives`: what each segment writes."""
    segments = program.segments
    known = [EVERYTHING] * len(segments)
    work = [function.entry for function in program.functions if function.entry >= 0]
    for at in work:
        known[at] = formals
    while work:
        at = work.pop()
        segment = segments[at]
        out = known[at] | gives[at]
        for target in (*segment.targets, segment.after):
            if target >= 0 and known[target] & out != known[target]:
                known[target] &= out
                work.append(target)
    return known


def maybe_undefined(program: Program) -> set[Reg]:
    """Registers that a path from the function's start reads before it writes them."""
    segments = program.segments
    numbers: dict[Reg, int] = {}

    def bit(reg: Reg) -> int:
        return 1 << numbers.setdefault(reg, len(numbers))

    gives: list[int] = []
    before: list[int] = []  # reads before any write within the segment
    for segment in segments:
        defined = exposed = 0
        for inst in segment.instructions:
            for reg in (*inst.needs, *added_to(inst)[0]):
                if not defined & bit(reg):
                    exposed |= bit(reg)
            if inst.guard is None:
                for reg in inst.written:
                    defined |= bit(reg)
        gives.append(defined)
        before.append(exposed)
    known = _known_at(program, gives, _formals(program, bit))
    loose = 0
    for at in range(len(segments)):
        if known[at] != EVERYTHING:
            loose |= before[at] & ~known[at]
    return {reg for reg, n in numbers.items() if loose >> n & 1}


@dataclass(frozen=True, slots=True)
class Flow:
    """What of a program's registers is watched."""

    undefined: set[Reg]
    """See `maybe_undefined`."""
    watched: set[Reg]
    """These, and what is computed from them."""
    computing: set[int]
    """Numbers of the instructions that compute lane by lane, perhaps from registers that are undefined."""
    loaded: set[Reg]
    """What loads bring, and moves of it."""


def _pure(inst: Inst) -> bool:
    meaning = MEANINGS.get(inst.opcode)
    return meaning is not None and isinstance(meaning(inst), Pure)


def flow_of(program: Program) -> Flow:
    undefined = maybe_undefined(program)
    handing = [i for i in program.instructions if moves(i)]
    bodies = [i for segment in program.segments for i in segment.body] if undefined else []
    computing = [i for i in bodies if moves(i) or _pure(i)]
    watched = spread(undefined, computing)
    numbers = {i.number for i in computing if not moves(i) and not watched.isdisjoint(i.needs)}
    loaded = {reg for inst in program.instructions if loads(inst) for reg in inst.written}
    return Flow(undefined, watched, numbers, spread(loaded, handing))
