"""What a pass may do with an instruction: its class's effect, refined by the modifiers and special registers
it uses.

A pass moves, merges or removes nothing with the effect `order` or `control`, removes reads only when nobody
wants the value, and never moves a read or a write across a `write`, `order` or `control`.
"""

from __future__ import annotations

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.movement import Load
from ..dialects.ptx.structure import EntryOp
from ..dialects.ptx.syntax import Address, Operand, SpecialRegister, Symbol, registers, transform

ORDERED = frozenset("volatile relaxed acquire release acq_rel mmio async sync aligned cc".split())
"""Modifiers that order an access, make it asynchronous, make it act on the whole warp, or write the carry."""

CHANGING = ("%clock", "%globaltimer", "%pm", "%warpid", "%smid", "%nsmid", "%nwarpid", "%locality")
"""Special registers whose value may differ between two reads (PTX ISA 10)."""


def effect_of(op: Instruction) -> str:
    """`pure`, `read`, `write`, `order` or `control` of this instruction, as strict as its modifiers and
    operands ask.
    """
    effect = type(op).effect
    if effect in ("order", "control"):
        return effect
    if op.in_flight or op.waits_for or not ORDERED.isdisjoint(op.modifiers):
        return "order"
    if effect == "pure" and any(name.startswith(CHANGING) for name in special_registers(op)):
        return "order"
    return effect


def special_registers(op: Instruction) -> list[str]:
    """The special registers an instruction reads."""
    found: list[str] = []

    def note(operand: Operand) -> Operand:
        if isinstance(operand, SpecialRegister):
            found.append(operand.name)
        return operand

    transform(op.layout, note)
    return found


def is_removable(op: Instruction) -> bool:
    """Whether the instruction may go when nobody wants its results."""
    return bool(op.results) and not op.terminator and effect_of(op) in ("pure", "read")


def is_value(op: Instruction) -> bool:
    """Whether the results depend on the operands alone, so that two equal instructions may become one."""
    if not op.results or op.terminator or op.guard or any(r.role == "~" or r.member for r in registers(op.layout)):
        return False
    effect = effect_of(op)
    return effect == "pure" or (effect == "read" and _reads_kernel_parameter(op))


def _reads_kernel_parameter(op: Instruction) -> bool:
    """`ld.param` of a kernel's own parameter: nobody can write it."""
    if not isinstance(op, Load) or op.slot("space") not in ("param", "param::entry"):
        return False
    address = op.layout[-1]
    function = op.parent_op()
    if not isinstance(function, EntryOp) or not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return False
    return any(address.base.name == name for d in function.parameters for name, _ in d.items)
