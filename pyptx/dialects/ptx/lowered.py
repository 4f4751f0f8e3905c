"""Rules of instructions that ptxas replaces by others (a conversion, a call): those check their operands more strictly."""

from __future__ import annotations

from .forms import Use
from .syntax import Immediate, Symbol


def single_constant(use: Use) -> str | None:
    """A floating-point constant is written as the bits of an .f32."""
    for operand in use.layout:
        if isinstance(operand, Immediate) and operand.is_float and not operand.is_single:
            return f"a constant is written as 0f and 8 digits here, not {operand.text}"
    return None


def no_displaced_symbol(use: Use) -> str | None:
    """An address plus an offset is not an operand."""
    for operand in use.layout:
        if isinstance(operand, Symbol) and operand.offset:
            return f"{operand.name}{operand.offset} is not an operand of {use.form.opcode}: move it to a register"
    return None
