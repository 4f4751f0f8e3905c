"""Integer arithmetic instructions (PTX ISA 9.7.1)."""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction
from .target import need

INTEGER = "u16 u32 u64 s16 s32 s64"
ROUND = "rn rz rm rp"


@instruction
class Add(Instruction):
    """Add two values: d = a + b. Integers wrap unless `.sat` clamps s32; floats round as `.rnd` says (default rn).

    Operands: d, a, b registers of the type (a, b may be constants for integers, f32 and f64).
    """

    name = "ptx.add"
    section = "9.7.1.1"
    forms = (
        form("add.type d, a, b", type=INTEGER),
        form("add{.sat}.s32 d, a, b"),
        form("add.type d, a, b", type="u16x2 s16x2", ptx="8.0", sm="90+"),
        form("add{.sat}.type d, a, b", type="u8x4 s8x4", ptx="9.2", sm="107af 120af 121af"),
        form("add{.rnd}{.ftz}{.sat}.f32 d, a, b", rnd=ROUND),
        form("add{.rnd}.f64 d, a, b", rnd=ROUND),
        form("add{.rnd}{.ftz}.f32x2 d, a, b", rnd=ROUND, ptx="8.6", sm="100+"),
        form("add{.rnd}{.ftz}{.sat}.type d, a, b", rnd="rn", type="f16 f16x2", ptx="4.2", sm="53+"),
        form("add{.rnd}.type d, a, b", rnd="rn", type="bf16 bf16x2", ptx="7.8", sm="90+"),
    )
