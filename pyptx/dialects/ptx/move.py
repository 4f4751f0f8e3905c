"""Moving and permuting within registers: mov, prmt (PTX ISA 9.7.10)."""

from __future__ import annotations

from .forms import Slots, Use, form
from .instruction import Instruction, instruction
from .integer import INTEGER
from .syntax import Register

BITS = "b16 b32 b64"


def whole_vector(use: Use) -> str | None:
    """A register is not a source for several elements."""
    if isinstance(use.operand("a"), Register):
        return f"operand a of mov.{use.slots['vec']} must be a vector in braces"
    return None


@instruction
class Mov(Instruction):
    """Copy a register, a constant, a special register or an address into d.

    A variable's or function's name stands for its address in its state space (`mov.u64 d, name+8`; `cvta`
    makes it generic), and so does an element of an array, `name[3]` or `name[%r1+3]`. With a bit type, a vector of smaller registers packs into d or unpacks from a: `mov.b64
    {lo, hi}, a`, where elements of d may be the sink. `.v2` and `.v4` copy element by element. A predicate is
    moved with `mov.pred`.
    """

    name = "ptx.mov"
    numbers_with_offset = True
    section = "9.7.10.3"
    reads_special = True
    carries_address = True

    @classmethod
    def variables(cls, operand: str, slots: Slots, alone: bool) -> tuple[frozenset[str], bool]:
        """Any variable but a `.param` one of the body; a reference as .u64 only."""
        return frozenset({"global", "shared", "const", "local", "entry", "input", "output"}), slots.get("type") == "u64"

    unit = "move"
    forms = (
        form("mov.type d, a@&", type=f"{BITS} {INTEGER}"),
        form("mov.type d, a", type="f32 f64"),
        form("mov.pred d, a!@"),
        form("mov.b128 d, a&", ptx="8.3", sm="70+"),
        form("mov.b16 d, a:b8[2]@"),
        form("mov.b32 d, a:b16[2]@"),
        form("mov.b32 d, a:b8[4]@"),
        form("mov.b64 d, a:b32[2]@"),
        form("mov.b64 d, a:b16[4]@"),
        form("mov.b128 d, a:b128[1]", ptx="8.3", sm="70+"),
        form("mov.b128 d, a:b64[2]@", ptx="8.3", sm="70+"),
        form("mov.b128 d, a:b32[4]@", ptx="8.3", sm="70+"),
        form("mov.type d, a:type[1]@", type=BITS),
        form("mov.b16 d:b8[2]_, a@&"),
        form("mov.b32 d:b16[2]_, a@&"),
        form("mov.b32 d:b8[4]_, a@&"),
        form("mov.b64 d:b32[2]_, a@&"),
        form("mov.b64 d:b16[4]_, a@&"),
        form("mov.b128 d:b128[1]_, a&", ptx="8.3", sm="70+"),
        form("mov.b128 d:b64[2]_, a&", ptx="8.3", sm="70+"),
        form("mov.b128 d:b32[4]_, a&", ptx="8.3", sm="70+"),
        form("mov.type d:type[1]_, a@&", type=BITS),
        form("mov.vec.type d:type[vec]_, a:type[vec]@", vec="v2 v4", type="b16 b32 u16 u32 s16 s32 f32"),
        form("mov.v2.type d:type[v2]_, a:type[v2]@", type="b64 u64 s64 f64"),
        form("mov.vec.type d:type[vec]_, a@&", vec="v2 v4", type="b16 b32 u16 u32 s16 s32", rule=whole_vector),
        form("mov.vec.f32 d:f32[vec]_, a", vec="v2 v4", rule=whole_vector),
        form("mov.vec.type d:type[vec]_, a@&", vec="v2", type="b64 u64 s64", rule=whole_vector),
        form("mov.vec.f64 d:f64[vec]_, a", vec="v2", rule=whole_vector),
    )


@instruction
class Prmt(Instruction):
    """Pick four bytes out of the eight of b:a.

    The selector c has four 4-bit fields: byte number and, in its top bit, "replicate the sign".

    With a mode only the low bits of c count: `f4e` and `b4e` extract four bytes forward or backward, `rc8`
    and `rc16` replicate one byte or half, `ecl` and `ecr` clamp at the left or right edge.
    """

    name = "ptx.prmt"
    section = "9.7.10.7"
    unit = "logic"
    forms = (form("prmt.b32{.mode} d, a, b, c", mode="f4e b4e rc8 ecl ecr rc16", ptx="2.0", sm="20+"),)
