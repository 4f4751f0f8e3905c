"""Structured sparsity in registers: spcompress and spdecompress (PTX ISA 9.7.10.30, 9.7.10.31).

Of every few elements of a dense vector some are kept, side by side in a compressed vector; an index of 2 or 4 bits for each kept
element (the metadata) says where in its group it stood.
"""

from __future__ import annotations

from math import ceil

from .forms import Form, Slots, Use, form
from .instruction import Instruction, instruction
from .matrix import plain_elements
from .syntax import Vector

REPEATS = (1, 2, 4, 8, 16, 32, 64)
MOST_REGISTERS = 128
"""Of one vector."""


def _in_registers(use: Use) -> str | None:
    """ptxas crashes where a vector register stands for a vector in braces."""
    for name in ("mdata", "cdata", "data"):
        if not isinstance(use.operand(name), Vector):
            return f"operand {name} must be a vector in braces"
    return plain_elements(use)


@instruction
class Spcompress(Instruction):
    """Keep two of every four elements: those that compare largest or smallest, in their order, and say which they were.

    Operands: mdata, an index of `.idxsize` bits for each kept element, from the lowest bits up (num * idxsize / elemsize registers,
    at least one); cdata, the kept elements (num registers); data, the dense vector (2 * num registers); spdesc, a 32-bit
    descriptor: bits 0-1 the comparison (0 MAX, 1 MAXABS, 2 MIN, 3 MINABS), bits 2-4 the type of the elements (with `.b16` 0 f16
    and 1 bf16; with `.b8` 0 u8, 1 s8, 2 e5m2, 3 e4m3, 4 e3m2, 5 e2m3), the others 0. NaNs are kept first, and -0 is less than +0.
    """

    name = "ptx.spcompress"
    section = "9.7.10.30"
    unit = "convert"
    forms = (
        form(
            "spcompress.elemsize.idxsize.sp::2:4.num mdata=:frag?, cdata=:frag?, data:frag?, spdesc:b32?",
            elemsize="b8 b16", idxsize="b2 b4", num=" ".join(f"x{n}" for n in REPEATS),
            ptx="9.4", sm="107a", rule=_in_registers,
        ),
    )  # fmt: skip

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        kept = int(slots["num"][1:])
        if name == "mdata":
            return "b32", ceil(kept * int(slots["idxsize"][1:]) / int(slots["elemsize"][1:]))
        return "b32", kept if name == "cdata" else 2 * kept


def _decompressions(bits: int, group: int) -> Form:
    """The form for elements of so many bits in dense groups of so many: those kept of a group fill at most a register, their index
    reaches all of a group, and the dense vector has 1 to 128 registers.
    """
    factors = (f"sp::{kept}:{group}" for kept in (1, 2, 4) if kept < group and kept * bits <= 32)
    repeats = (f"x{n}" for n in REPEATS if 32 <= group * bits * n <= 32 * MOST_REGISTERS)
    return form(
        f"spdecompress.b{bits}.idxsize.factor.num data=:frag?, mdata:frag?, cdata:frag?",
        idxsize="b2 b4" if group <= 4 else "b4", factor=" ".join(factors), num=" ".join(repeats),
        ptx="9.4", sm="107a", rule=_in_registers,
    )  # fmt: skip


@instruction
class Spdecompress(Instruction):
    """Put the kept elements of a compressed vector where they stood, with zeros between them.

    With `.sp::k:n` each k elements become n. Operands: data, the dense vector (n * elemsize * num / 32 registers); mdata, an index
    of `.idxsize` bits for each kept element, from the lowest bits up (k * idxsize * num / 32 registers); cdata, the kept
    elements (k * elemsize * num / 32 registers); counts of registers are rounded up, and bits not filled are zero.
    """

    name = "ptx.spdecompress"
    section = "9.7.10.31"
    unit = "convert"
    forms = tuple(_decompressions(bits, group) for bits in (8, 16) for group in (2, 4, 8, 16))

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        kept, group = map(int, slots["factor"].removeprefix("sp::").split(":"))
        count = int(slots["num"][1:])
        if name == "mdata":
            return "b32", ceil(kept * int(slots["idxsize"][1:]) * count / 32)
        elements = kept if name == "cdata" else group
        return "b32", ceil(elements * int(slots["type"][1:]) * count / 32)
