"""The memory effects that xDSL is told agree with what the simulator does, over every instance of the probed table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from xdsl.traits import MemoryEffectKind, get_effects

import pyptx
from pyptx.dialects.ptx.effects import CHANGING, special_registers
from pyptx.dialects.ptx.instruction import Instruction, iter_instructions
from pyptx.simulator.launch.launch import LoadedModule
from pyptx.simulator.machine.binding import meaning_of
from pyptx.simulator.machine.global_memory import GlobalMemory
from pyptx.simulator.machine.machine import Machine
from pyptx.simulator.machine.registry import Meaning, Pure, Step
from pyptx.simulator.machine.threads import Launch
from pyptx.tools.oracle import header
from tests.simulator.test_every_form import BY_THE_ENGINE, accepted

STATE_THAT_DOES_NOT_CHANGE = {
    "isspacep": "where the address windows are",
    "istypep": "what a handle is",
    "txq": "the shape of a texture",
    "txq.level": "the shape of a texture",
    "suq": "the shape of a surface",
    "clusterlaunchcontrol.query_cancel": "its operand, decoded",
}
"""Steps that are pure all the same: what they look at besides their operands is the same for the whole launch."""


def instances() -> Iterator[tuple[Instruction, Meaning]]:
    """(op, its meaning in the simulator) of every instance that ptxas takes."""
    for (version, target), lines in accepted().items():
        for first in range(0, len(lines), 400):
            text = header(version, target) + "\n".join(lines[first : first + 400]) + "\nLx: ret;\nLy: ret;\n}\n"
            module = pyptx.parse(text)
            ops = {(op.location.line.data, op.opcode): op for op in iter_instructions(module)}  # pyright: ignore
            program = LoadedModule(module).program("kk")
            parameters = np.zeros(program.parameter_size, np.uint8)
            machine = Machine(program, Launch((2, 1, 1), (128, 1, 1), (1, 1, 1), 0), GlobalMemory(), parameters, 1)
            for segment in program.segments:
                for inst in (*segment.body, segment.last):
                    op = ops.get((inst.line, inst.opcode)) if inst is not None else None
                    if inst is not None and op is not None and inst.opcode not in BY_THE_ENGINE:
                        yield op, meaning_of(machine, inst)


def disagreement(op: Instruction, meaning: Meaning) -> str:
    effects = get_effects(op)
    kinds = None if effects is None else {e.kind for e in effects}
    if isinstance(meaning, Pure):
        unknown_for_a_reason = (
            not {"cc", "sync", "aligned"}.isdisjoint(op.modifiers)
            or op.opcode in ("addc", "subc", "madc")  # they read the carry, which is not an SSA value
            or any(name.startswith(CHANGING) for name in special_registers(op))
        )
        return "" if kinds == set() or (kinds is None and unknown_for_a_reason) else f"is a function, told as {kinds}"
    if not isinstance(meaning, Step):
        return "" if kinds is None else f"acts on several threads, told as {kinds}"
    if kinds is None:
        return ""
    if not kinds:
        return "" if op.opcode in STATE_THAT_DOES_NOT_CHANGE else "has an effect, told as pure"
    contradicting = ("store", "atomic", "copy") if kinds == {MemoryEffectKind.READ} else ("load",)
    return f"is a {op.access}, told as {kinds}" if op.access in contradicting else ""


@pytest.mark.filterwarnings("ignore")
def test_memory_effects_are_those_of_the_simulator() -> None:
    count, found = 0, []
    for op, meaning in instances():
        count += 1
        what = disagreement(op, meaning)
        if what:
            found.append(f"{op.opcode}.{'.'.join(op.modifiers)} {what}")
    assert count > 11_000
    assert not found, "\n".join(found[:20])
