"""Comparison and selection (PTX ISA 9.7.6, 9.7.7)."""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction
from .integer import FTZ, SIGNED, UNSIGNED

BITS = "b16 b32 b64"
EQUAL = "eq ne"
ORDER = f"{EQUAL} lt le gt ge"
UNSIGNED_ORDER = f"{ORDER} lo ls hi hs"
FLOAT_ORDER = f"{ORDER} equ neu ltu leu gtu geu num nan"
BOOL = "and or xor"
COMPARISONS = ((EQUAL, BITS), (ORDER, SIGNED), (UNSIGNED_ORDER, UNSIGNED), (FLOAT_ORDER, "f32"), (FLOAT_ORDER, "f64"))
"""(comparisons, operand types that have them) since PTX 1.0."""
HALVES = {"ptx": "4.2", "sm": "53+"}
BFLOATS = {"ptx": "7.8", "sm": "90+"}


@instruction
class Setp(Instruction):
    """Compare two values into predicates: p = a cmp b, and q, if given, its opposite.

    With a Boolean operator and c, p = (a cmp b) bool c and q = !(a cmp b) bool c. Comparisons ending in `u` are also true for NaN; lo ls hi hs are
    the unsigned lt le gt ge; num and nan tell whether both or not both are numbers. In f16x2 and bf16x2, p and q are the two elements' results.
    """

    name = "ptx.setp"
    section = "9.7.6.2"
    forms = (
        *(form("setp.cmp.type p:pred{|q:pred}, a, b", cmp=c, type=t) for c, t in COMPARISONS),
        *(
            form("setp.cmp.bool.type p:pred{|q:pred}, a, b, c:pred!", cmp=c, bool=BOOL, type=t)
            for c, t in COMPARISONS
        ),
        form("setp.cmp.ftz.f32 p:pred{|q:pred}, a, b", cmp=FLOAT_ORDER, needs=FTZ),
        form("setp.cmp.bool.ftz.f32 p:pred{|q:pred}, a, b, c:pred!", cmp=FLOAT_ORDER, bool=BOOL, needs=FTZ),
        form("setp.cmp{.ftz}.f16 p:pred{|q:pred}, a, b", cmp=FLOAT_ORDER, ptx="4.2", sm="53+"),
        form("setp.cmp.bool{.ftz}.f16 p:pred{|q:pred}, a, b, c:pred!", cmp=FLOAT_ORDER, bool=BOOL, ptx="4.2", sm="53+"),
        form("setp.cmp{.ftz}.f16x2 p:pred|q:pred, a, b", cmp=FLOAT_ORDER, ptx="4.2", sm="53+"),
        form("setp.cmp.bool{.ftz}.f16x2 p:pred|q:pred, a, b, c:pred!", cmp=FLOAT_ORDER, bool=BOOL, ptx="4.2", sm="53+"),
        form("setp.cmp.bf16 p:pred{|q:pred}, a, b", cmp=FLOAT_ORDER, ptx="7.8", sm="90+"),
        form("setp.cmp.bool.bf16 p:pred{|q:pred}, a, b, c:pred!", cmp=FLOAT_ORDER, bool=BOOL, ptx="7.8", sm="90+"),
        form("setp.cmp.bf16x2 p:pred|q:pred, a, b", cmp=FLOAT_ORDER, ptx="7.8", sm="90+"),
        form("setp.cmp.bool.bf16x2 p:pred|q:pred, a, b, c:pred!", cmp=FLOAT_ORDER, bool=BOOL, ptx="7.8", sm="90+"),
    )


@instruction
class Selp(Instruction):
    """Select by a predicate: d = c ? a : b. Only sizes matter: any type of the right size may hold the values."""

    name = "ptx.selp"
    section = "9.7.6.3"
    forms = (form("selp.type d, a, b, c:pred!", type=f"{BITS} {UNSIGNED} {SIGNED} f32 f64"),)


@instruction
class Slct(Instruction):
    """Select by a sign: d = c >= 0 ? a : b, where c is s32 or f32 (a NaN selects b; `.ftz` takes subnormals as zero)."""

    name = "ptx.slct"
    section = "9.7.6.4"
    forms = (
        form("slct.type.s32 d, a, b, c:s32", type=f"{BITS} {UNSIGNED} {SIGNED} f32 f64"),
        form("slct{.ftz}.type.f32 d, a, b, c:f32", type=f"{BITS} {UNSIGNED} {SIGNED} f32 f64", needs=FTZ),
    )
