"""What may be done with an instruction: its class's effect, refined by the modifiers and special registers it uses, and
the same as xDSL's effect interfaces.

A pass moves, merges or removes nothing with the effect `order` or `control`, removes reads only when nobody
wants the value, and never moves a read or a write across a `write`, `order` or `control`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.traits import ConditionallySpeculatable, EffectInstance, MemoryEffect, MemoryEffectKind

from .syntax import Operand, SpecialRegister, registers, transform

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from xdsl.ir import Operation

    from .instruction import Instruction

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
    return effect_of(op) == "pure"


# --------------------------------------------------------------------------------------------------- xDSL's interfaces

_INSTANCES: dict[str, AbstractSet[EffectInstance]] = {
    "pure": frozenset(),
    "read": frozenset({EffectInstance(MemoryEffectKind.READ)}),
    "write": frozenset({EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE)}),
}
"""`order` and `control` are missing: to xDSL their effects are unknown, so nothing moves across them."""


class InstructionEffects(MemoryEffect):
    """`effect_of` as xDSL's memory effects: passes such as `dce`, `cse` and `licm` ask this."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        return _INSTANCES.get(effect_of(cast("Instruction", op)))


class InstructionSpeculatable(ConditionallySpeculatable):
    """A pure instruction may run where the program would not have run it: PTX has no arithmetic traps."""

    @classmethod
    def is_speculatable(cls, op: Operation) -> bool:
        return effect_of(cast("Instruction", op)) == "pure"
