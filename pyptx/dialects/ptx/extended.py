"""Extended-precision integer arithmetic: the links of a carry chain (PTX ISA 9.7.2).

Its first link is `add.cc`, `sub.cc` or `mad.cc`. The condition-code register that carries the bit from one to
the next is not an operand, so these instructions keep their order (effect `order`). Sums and differences share it: after a
difference it is the carry of a + ~b + 1, so 1 means that nothing was borrowed. nvcc's divisions of `__int128` mix both.
"""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction
from .integer import INTEGER, LONG, WORDS


@instruction
class Addc(Instruction):
    """Add two integers and the carry: d = a + b + CC (`.sat` clamps s32).

    With `.cc` the carry out is written in turn.
    """

    name = "ptx.addc"
    reads_carry = True
    section = "9.7.2.2"
    effect = "order"
    unit = "arithmetic"
    forms = (
        form("addc.type d, a, b", type=INTEGER, ptx="1.2"),
        form("addc.sat.s32 d, a, b", ptx="1.2"),
        form("addc.cc.type d, a, b", type=WORDS, ptx="1.2", needs=LONG),
    )


@instruction
class Subc(Instruction):
    """Subtract with borrow: d = a + ~b + CC, which is a - b - 1 where the link before borrowed (`.sat` clamps s32).

    With `.cc` the carry out is written in turn: 1 where nothing was borrowed.
    """

    name = "ptx.subc"
    reads_carry = True
    section = "9.7.2.4"
    effect = "order"
    unit = "arithmetic"
    forms = (
        form("subc.type d, a, b", type=INTEGER, ptx="1.3"),
        form("subc.sat.s32 d, a, b", ptx="1.3"),
        form("subc.cc.type d, a, b", type=WORDS, ptx="1.3", needs=LONG),
    )


@instruction
class Madc(Instruction):
    """Multiply, take the low or high half, add c and the carry: d = (a * b).half + c + CC.

    With `.cc` the carry out is written in turn.
    """

    name = "ptx.madc"
    reads_carry = True
    section = "9.7.2.6"
    effect = "order"
    unit = "arithmetic"
    forms = (
        form("madc.^mode.type d, a, b, c", mode="lo hi", type=INTEGER, ptx="3.0", sm="20+"),
        form("madc.^hi.sat.s32 d, a, b, c", ptx="3.0", sm="20+"),
        form("madc.^mode.cc.type d, a, b, c", mode="lo hi", type=WORDS, ptx="3.0", sm="20+", needs=LONG),
    )
