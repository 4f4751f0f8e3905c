"""The stack of local memory (PTX ISA 9.7.19)."""

from __future__ import annotations

from .forms import Use, form
from .instruction import Instruction, instruction
from .syntax import Immediate


def _alignment(use: Use) -> str | None:
    align = use.operand("align")
    if isinstance(align, Immediate) and (not 0 < (n := int(align.value)) <= 1 << 23 or n & (n - 1)):
        return f"operand align must be a power of two up to 8388608, not {align.text}"
    return None


@instruction
class Alloca(Instruction):
    """Take bytes from the thread's stack; they are freed when the function returns.

    Operands: d, their address in local memory; size in bytes; align, a constant power of two (8 if absent).
    """

    name = "ptx.alloca"
    section = "9.7.19.3"
    effect = "order"
    unit = "control"
    forms = (
        form(
            "alloca.type d, size{, align:imm}", type="u32 u64", ptx="7.3", sm="52+", rule=_alignment, judges_constants=True
        ),
    )  # fmt: skip


@instruction
class StackSave(Instruction):
    """Copy the stack pointer to a register. Operand: d."""

    name = "ptx.stacksave"
    section = "9.7.19.1"
    effect = "order"
    unit = "control"
    forms = (form("stacksave.type d", type="u32 u64", ptx="7.3", sm="52+"),)


@instruction
class StackRestore(Instruction):
    """Set the stack pointer to one that `stacksave` gave, freeing what was taken since.

    Operand: a, a register.
    """

    name = "ptx.stackrestore"
    section = "9.7.19.2"
    effect = "order"
    unit = "control"
    forms = (form("stackrestore.type a%", type="u32 u64", ptx="7.3", sm="52+"),)
