"""Logic and shift instructions (PTX ISA 9.7.9).

They work on bits: only sizes matter, whatever the registers' types.
"""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction
from .integer import SIGNED, UNSIGNED

BITS = "b16 b32 b64"
LOGIC = f"pred {BITS}"


@instruction
class And(Instruction):
    """Bitwise and; of predicates the logical one."""

    name = "ptx.and"
    section = "9.7.9.1"
    commutative = True
    identity = -1
    absorbing = 0
    takes_constants = True
    unit = "logic"
    forms = (form("and.type d, a!, b!", type=LOGIC),)


@instruction
class Or(Instruction):
    """Bitwise or; of predicates the logical one."""

    name = "ptx.or"
    section = "9.7.9.2"
    commutative = True
    identity = 0
    takes_constants = True
    unit = "logic"
    forms = (form("or.type d, a!, b!", type=LOGIC),)


@instruction
class Xor(Instruction):
    """Bitwise exclusive or; of predicates the logical one."""

    name = "ptx.xor"
    section = "9.7.9.3"
    commutative = True
    identity = 0
    takes_constants = True
    unit = "logic"
    forms = (form("xor.type d, a!, b!", type=LOGIC),)


@instruction
class Not(Instruction):
    """Flip all bits; of a predicate, negate it."""

    name = "ptx.not"
    section = "9.7.9.4"
    unit = "logic"
    forms = (form("not.type d, a!", type=LOGIC),)


@instruction
class Cnot(Instruction):
    """C's `!`: 1 if a is zero, else 0."""

    name = "ptx.cnot"
    section = "9.7.9.5"
    unit = "logic"
    forms = (form("cnot.type d, a", type=BITS),)


@instruction
class Lop3(Instruction):
    """Any bitwise function of three inputs, given as its truth table.

    The table of f is the constant f(0xf0, 0xcc, 0xaa); ptxas takes its low 8 bits.

    With a Boolean operator there is a second result: p = (d != 0) bool q; d may be the sink.
    """

    name = "ptx.lop3"
    section = "9.7.9.6"
    unit = "logic"
    forms = (
        form("lop3.b32 d_, a, b, c, lut:imm", ptx="4.3", sm="50+"),
        form("lop3.bool.b32 d_|p:pred, a, b, c, lut:imm, q$:pred!", bool="or and", ptx="8.2", sm="70+"),
    )


@instruction
class Shf(Instruction):
    """Funnel shift: a 64-bit value shifted, of which one half is kept.

    Shift the value b:a left (`.l`, d is the high half) or right (`.r`, d is the low half) by c.

    `.clamp` limits c to 32, `.wrap` takes it modulo 32.
    """

    name = "ptx.shf"
    section = "9.7.9.7"
    unit = "logic"
    forms = (form("shf.^direction.mode.b32 d, a, b, c:u32", direction="l r", mode="clamp wrap", ptx="3.1", sm="32+"),)


@instruction
class Shl(Instruction):
    """Shift a left by b bits, filling with zeros. b is 32-bit unsigned, clamped to the width of the type."""

    name = "ptx.shl"
    section = "9.7.9.8"
    identity = 0
    takes_constants = True
    unit = "logic"
    forms = (form("shl.type d, a, b:u32", type=BITS),)


@instruction
class Shr(Instruction):
    """Shift a right by b bits, filling with the sign (signed types) or zeros.

    b is 32-bit unsigned, clamped to the width of the type.
    """

    name = "ptx.shr"
    section = "9.7.9.9"
    identity = 0
    takes_constants = True
    unit = "logic"
    forms = (form("shr.type d, a, b:u32", type=f"{BITS} {UNSIGNED} {SIGNED}"),)
