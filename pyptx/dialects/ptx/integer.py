"""Arithmetic whose first type is an integer, in all its types.

PTX ISA 9.7.1 (integer), 9.7.3 (float), 9.7.4 (half), 9.7.5 (mixed precision), 9.7.6 (alternate formats).

Where we are stricter than ptxas 13.5 on purpose, here and in the other chapters of arithmetic: it ignores
`.pred` and the operations of `testp` (`.finite`, ...) as modifiers of any instruction, and takes a function's
name for any operand.
"""

from __future__ import annotations

from typing import Any

from .forms import form
from .instruction import Instruction, instruction
from .lowered import no_displaced_symbol
from .target import need

UNSIGNED = "u16 u32 u64"
SIGNED = "s16 s32 s64"
INTEGER = f"{UNSIGNED} {SIGNED}"
WORDS = "u32 u64 s32 s64"
ROUND = "rn rz rm rp"
DIRECTED = {"rm": need("2.0", "20+"), "rp": need("2.0", "20+")}
"""Rounding down or up in f32."""
FTZ = {"ftz": need("1.4")}
LONG = {"u64": need("4.3"), "s64": need("4.3")}
"""64-bit links of a carry chain."""
BYTES = "107af 120af 121af"
"""Targets with arithmetic on four bytes at once."""
FP8X4 = "e5m2x4 e4m3x4"
"""Types of the sum or product of four small floats at once."""
SMALL_X4 = f"{FP8X4} e3m2x4 e2m3x4 e2m1x4 e2m1p4x4 ue8m0x4"
"""Types of the factors and of the first addend. Each number has a byte but in e2m1x4, which is 16 bits wide."""
HALVES_X2 = "f16x2 bf16x2"
MIXED_X2: dict[str, Any] = {"ptx": "9.4", "sm": "107af"}
"""Arithmetic on two pairs of different types."""
X4: dict[str, Any] = {"ptx": "9.4", "sm": "100a 103a"}


@instruction
class Add(Instruction):
    """Add two values: d = a + b, in integers, floats, halves and packed types.

    Integers wrap, unless `.sat` clamps to the range of the type (s32; on a few new targets u32 and packed
    integers too). Floats round as `.rnd` says, to nearest even without it; `.ftz` flushes subnormals to zero,
    `.sat` clamps to [0, 1]. `.cc` writes the carry that a following `addc` reads.

    Of several types the first is d's, the second a's and the third b's; without a third, b has d's type
    (`add.f32.f16`). The exact sum is rounded once; to halves (`add.rz.bf16x2.f32x2.f32x2`) it is cut off. In sums
    of four small floats (`add.e4m3x4.e2m1x4`) what is too large becomes infinity (e5m2) or NaN (e4m3), with
    `.satfinite` the largest number.
    """

    name = "ptx.add"
    section = "9.7.1.1"
    commutative = True
    identity = 0
    takes_constants = True
    carries_address = True
    unit = "arithmetic"
    forms = (
        form("add.type d, a, b", type=INTEGER),
        form("add.sat.s32 d, a, b"),
        form("add.sat.u32 d, a, b", ptx="9.2", sm=BYTES),
        form("add.cc.type d, a, b", type=WORDS, ptx="1.2", needs=LONG),
        form("add.type d, a, b", type="u16x2 s16x2", ptx="8.0", sm="90+"),
        form("add.sat.type d, a, b", type="u16x2 s16x2", ptx="9.2", sm=BYTES),
        form("add{.sat}.type d, a, b", type="u8x4 s8x4", ptx="9.2", sm=BYTES),
        form("add{.rnd}{.ftz}{.sat}.f32 d, a, b", rnd=ROUND, needs={**DIRECTED, **FTZ}),
        form("add{.rnd}.f64 d, a, b", rnd=ROUND, needs={"rm": need("1.2"), "rp": need("1.2")}),
        form("add{.rnd}{.ftz}.f32x2 d, a, b", rnd=ROUND, ptx="8.6", sm="100+"),
        form("add{.rnd}{.ftz}{.sat}.type d, a, b", rnd="rn", type="f16 f16x2", ptx="4.2", sm="53+"),
        form("add{.rnd}.type d, a, b", rnd="rn", type="bf16 bf16x2", ptx="7.8", sm="90+"),
        form("add{.rnd}{.sat}.f32.atype d, a:atype, b", rnd=ROUND, atype="f16 bf16", ptx="8.6", sm="100+"),
        form("add{.rnd}.f32x2.atype.f32x2 d, a:atype, b", rnd=ROUND, atype=HALVES_X2, **MIXED_X2),
        form("add.rz.ftz.f16x2.f32x2.f32x2 d, a:f32x2, b:f32x2", **MIXED_X2),
        form("add.rz.bf16x2.f32x2.f32x2 d, a:f32x2, b:f32x2", **MIXED_X2),
        form("add{.rnd}{.satfinite}.type.atype d, a:atype, b", rnd="rn", type=FP8X4, atype=SMALL_X4, **X4),
    )


@instruction
class Sub(Instruction):
    """Subtract: d = a - b, in integers, floats, halves and packed types.

    Integers wrap, unless `.sat` clamps to the range of the type (s32; on a few new targets packed bytes too).
    Floats round as `.rnd` says, to nearest even without it; `.ftz` flushes subnormals, `.sat` clamps to [0,
    1]. `.cc` writes the carry of a + ~b + 1 (1: nothing borrowed) for a following `subc`.

    Of several types the first is d's, the second a's and the third b's; without a third, b has d's type
    (`sub.f32.f16`). The exact difference is rounded once; to halves (`sub.rz.bf16x2.f32x2.f32x2`) it is cut off.
    Of four small floats (`sub.e4m3x4.e2m1x4`) what is too large becomes infinity (e5m2) or NaN (e4m3), with
    `.satfinite` the largest number.
    """

    name = "ptx.sub"
    section = "9.7.1.2"
    identity = 0
    takes_constants = True
    carries_address = True
    unit = "arithmetic"
    forms = (
        form("sub.type d, a, b", type=INTEGER),
        form("sub.sat.s32 d, a, b"),
        form("sub.cc.type d, a, b", type=WORDS, ptx="1.3", needs=LONG),
        form("sub{.sat}.type d, a, b", type="u8x4 s8x4", ptx="9.2", sm=BYTES),
        form("sub{.rnd}{.ftz}{.sat}.f32 d, a, b", rnd=ROUND, needs={**DIRECTED, **FTZ}),
        form("sub{.rnd}.f64 d, a, b", rnd=ROUND, needs={"rm": need("1.2"), "rp": need("1.2")}),
        form("sub{.rnd}{.ftz}.f32x2 d, a, b", rnd=ROUND, ptx="8.6", sm="100+"),
        form("sub{.rnd}{.ftz}{.sat}.type d, a, b", rnd="rn", type="f16 f16x2", ptx="4.2", sm="53+"),
        form("sub{.rnd}.type d, a, b", rnd="rn", type="bf16 bf16x2", ptx="7.8", sm="90+"),
        form("sub{.rnd}{.sat}.f32.atype d, a:atype, b", rnd=ROUND, atype="f16 bf16", ptx="8.6", sm="100+"),
        form("sub{.rnd}.f32x2.atype.f32x2 d, a:atype, b", rnd=ROUND, atype=HALVES_X2, **MIXED_X2),
        form("sub.rz.ftz.f16x2.f32x2.f32x2 d, a:f32x2, b:f32x2", **MIXED_X2),
        form("sub.rz.bf16x2.f32x2.f32x2 d, a:f32x2, b:f32x2", **MIXED_X2),
        form("sub{.rnd}{.satfinite}.type.atype d, a:atype, b", rnd="rn", type=FP8X4, atype=SMALL_X4, **X4),
    )


@instruction
class Mul(Instruction):
    """Multiply: d = a * b.

    Of the double-width product of integers, `.lo` keeps the low half, `.hi` the high half and `.wide` all of
    it (d is twice as wide). Floats and halves round as `.rnd` says, to nearest even without it; `.ftz`
    flushes subnormals to zero, `.sat` clamps to [0, 1].

    Of three types the first is d's, the others a's and b's. The exact product is rounded once; that of two f32x2
    is cut off. Of four small floats (`mul.e4m3x4.e2m1x4.e2m1x4`) what is too large becomes infinity (e5m2) or NaN
    (e4m3), with `.satfinite` the largest number.
    """

    name = "ptx.mul"
    section = "9.7.1.3"
    commutative = True
    identity = 1
    absorbing = 0
    takes_constants = True
    unit = "arithmetic"
    forms = (
        form("mul.^mode.type d, a, b", mode="lo hi", type=INTEGER),
        form("mul.^wide.type d:2*type, a, b", type="u16 u32 s16 s32"),
        form("mul{.rnd}{.ftz}{.sat}.f32 d, a, b", rnd=ROUND, needs={**DIRECTED, **FTZ}),
        form("mul{.rnd}.f64 d, a, b", rnd=ROUND, needs={"rm": need("1.2"), "rp": need("1.2")}),
        form("mul{.rnd}{.ftz}.f32x2 d, a, b", rnd=ROUND, ptx="8.6", sm="100+"),
        form("mul{.rnd}{.ftz}{.sat}.type d, a, b", rnd="rn", type="f16 f16x2", ptx="4.2", sm="53+"),
        form("mul{.rnd}.type d, a, b", rnd="rn", type="bf16 bf16x2", ptx="7.8", sm="90+"),
        form("mul.rz.ftz.f16x2.f32x2.f32x2 d, a:f32x2, b:f32x2", **MIXED_X2),
        form("mul.rz.bf16x2.f32x2.f32x2 d, a:f32x2, b:f32x2", **MIXED_X2),
        form("mul.f16x2.f16x2.bf16x2 d, a, b:bf16x2", **MIXED_X2),
        form("mul.bf16x2.bf16x2.f16x2 d, a, b:f16x2", **MIXED_X2),
        form(
            "mul{.rnd}{.satfinite}.type.atype.btype d, a:atype, b:btype",
            rnd="rn", type=FP8X4, atype=SMALL_X4, btype=SMALL_X4, **X4,
        ),
    )  # fmt: skip


@instruction
class Mad(Instruction):
    """Multiply and add: d = a * b + c.

    Of the integer product `.lo` or `.hi` takes one half, `.wide` all (c and d are twice as wide);
    `.hi.sat.s32` clamps the sum; `.cc` writes the carry out for a following `madc` or `addc`. In floats it is
    `fma` (one rounding, `.rnd` must be given).
    """

    name = "ptx.mad"
    section = "9.7.1.4"
    takes_constants = True
    carries_address = True
    unit = "arithmetic"
    forms = (
        form("mad.^mode.type d, a, b, c", mode="lo hi", type=INTEGER),
        form("mad.^hi.sat.s32 d, a, b, c"),
        form("mad.^wide.type d:2*type, a, b, c:2*type", type="u16 u32 s16 s32"),
        form("mad.^mode.cc.type d, a, b, c", mode="lo hi", type="u32 s32", ptx="3.0", sm="20+"),
        form("mad.^mode.cc.type d, a, b, c", mode="lo hi", type="u64 s64", ptx="4.3", sm="20+"),
        form("mad.rnd{.ftz}{.sat}.f32 d, a, b, c", rnd=ROUND, ptx="2.0", sm="20+"),
        form("mad.rnd.f64 d, a, b, c", rnd=ROUND, needs={"rm": need("1.2"), "rp": need("1.2")}),
        form("mad{.ftz}{.sat}.f32 d, a, b, c", until="3.1", until_sm="20+", needs=FTZ),
    )


@instruction
class Mul24(Instruction):
    """Multiply the low 24 bits of two 32-bit integers.

    The result is the low (`.lo`) or high (`.hi`) 32 bits of the 48-bit product.
    """

    name = "ptx.mul24"
    section = "9.7.1.6"
    unit = "arithmetic"
    forms = (form("mul24.^mode.type d, a, b", mode="lo hi", type="u32 s32"),)


@instruction
class Mad24(Instruction):
    """Multiply the low 24 bits of a and b and add c.

    Of the 48-bit product `.lo` takes the low and `.hi` the high 32 bits.
    `.hi.sat.s32` clamps the sum to the range of s32.
    """

    name = "ptx.mad24"
    section = "9.7.1.7"
    unit = "arithmetic"
    forms = (
        form("mad24.^mode.type d, a, b, c", mode="lo hi", type="u32 s32"),
        form("mad24.^hi.sat.s32 d, a, b, c"),
    )


@instruction
class Sad(Instruction):
    """Sum of absolute differences: d = c + |a - b|."""

    name = "ptx.sad"
    section = "9.7.1.8"
    unit = "arithmetic"
    forms = (form("sad.type d, a, b, c", type=INTEGER),)


@instruction
class Div(Instruction):
    """Divide: d = a / b.

    Integers truncate towards zero; dividing by zero gives an unspecified value. f32 comes as `.approx` (fast,
    2 ulp in a limited range), `.full` (2 ulp in the full range) or correctly rounded with `.rnd`; f64 only
    correctly rounded.
    """

    name = "ptx.div"
    section = "9.7.1.9"
    identity = 1
    takes_constants = True
    unit = "arithmetic"
    forms = (
        form("div.type d, a, b", type="u16 u32 s16 s32"),
        form("div.type d, a, b", type="u64 s64", rule=no_displaced_symbol),
        form("div.approx{.ftz}.f32 d, a, b", ptx="1.4"),
        form("div.^full{.ftz}.f32 d, a, b", ptx="1.4"),
        form("div.rnd{.ftz}.f32 d, a, b", rnd=ROUND, ptx="2.0", sm="20+"),
        form(
            "div.rnd.f64 d, a, b",
            rnd=ROUND,
            ptx="1.4",
            needs={r: need("2.0", "20+") for r in ("rz", "rm", "rp")},
        ),
    )


@instruction
class Rem(Instruction):
    """Remainder of an integer division that truncates towards zero: d has the sign of a.

    A zero divisor gives an unspecified value.
    """

    name = "ptx.rem"
    section = "9.7.1.10"
    takes_constants = True
    unit = "arithmetic"
    forms = (
        form("rem.type d, a, b", type="u16 u32 s16 s32"),
        form("rem.type d, a, b", type="u64 s64", rule=no_displaced_symbol),
    )


@instruction
class Abs(Instruction):
    """Absolute value: d = |a|.

    The lowest negative integer stays itself; in floats only the sign bit goes (`.ftz` flushes subnormals).
    """

    name = "ptx.abs"
    section = "9.7.1.11"
    unit = "arithmetic"
    forms = (
        form("abs.type d, a", type=SIGNED),
        form("abs{.ftz}.f32 d, a", needs=FTZ),
        form("abs.f64 d, a"),
        form("abs{.ftz}.type d, a", type="f16 f16x2", ptx="6.5", sm="53+"),
        form("abs.type d, a", type="bf16 bf16x2", ptx="7.0", sm="80+"),
    )


@instruction
class Neg(Instruction):
    """Negate: d = -a. In floats only the sign bit flips (`.ftz` flushes subnormals to zero)."""

    name = "ptx.neg"
    section = "9.7.1.12"
    unit = "arithmetic"
    forms = (
        form("neg.type d, a", type=SIGNED),
        form("neg.s8x4 d, a", ptx="9.2", sm=BYTES),
        form("neg{.ftz}.f32 d, a", needs=FTZ),
        form("neg.f64 d, a"),
        form("neg{.ftz}.type d, a", type="f16 f16x2", ptx="5.1", sm="53+"),
        form("neg.type d, a", type="bf16 bf16x2", ptx="7.0", sm="80+"),
    )


NAN = {"NaN": need("7.0", "80+")}


@instruction
class Min(Instruction):
    """The smaller of two values, per element in packed types; f32 also of three.

    `.relu` clamps a negative result to zero. A NaN input gives the other operand, or NaN with `.NaN`.
    `.xorsign.abs` compares magnitudes and gives the smaller one the product of both signs; `.abs` (three
    inputs) compares magnitudes. `.ftz` flushes subnormals to zero.
    """

    name = "ptx.min"
    section = "9.7.1.13"
    commutative = True
    takes_constants = True
    unit = "arithmetic"
    forms = (
        form("min.type d, a, b", type=INTEGER),
        form("min.relu.s32 d, a, b", ptx="8.0", sm="90+"),
        form("min.u16x2 d, a, b", ptx="8.0", sm="90+"),
        form("min{.relu}.s16x2 d, a, b", ptx="8.0", sm="90+"),
        form("min.u8x4 d, a, b", ptx="9.2", sm=BYTES),
        form("min{.relu}.s8x4 d, a, b", ptx="9.2", sm=BYTES),
        form("min{.ftz}{.NaN}.f32 d, a, b", needs={**NAN, **FTZ}),
        form("min{.ftz}{.NaN}.xorsign.abs.f32 d, a, b", ptx="7.2", sm="86+"),
        form("min.f64 d, a, b"),
        form("min{.ftz}{.NaN}{.abs}.f32 d, a, b, c", ptx="8.8", sm="100+"),
        form("min{.ftz}{.NaN}.type d, a, b", type="f16 f16x2", ptx="7.0", sm="80+"),
        form("min{.ftz}{.NaN}.xorsign.abs.type d, a, b", type="f16 f16x2", ptx="7.2", sm="86+"),
        form("min{.NaN}.type d, a, b", type="bf16 bf16x2", ptx="7.0", sm="80+"),
        form("min{.NaN}.xorsign.abs.type d, a, b", type="bf16 bf16x2", ptx="7.2", sm="86+"),
    )


@instruction
class Max(Instruction):
    """The larger of two values, per element in packed types; f32 also of three.

    `.relu` clamps a negative result to zero. A NaN input gives the other operand, or NaN with `.NaN`.
    `.xorsign.abs` compares magnitudes and gives the larger one the product of both signs; `.abs` (three
    inputs) compares magnitudes. `.ftz` flushes subnormals to zero.
    """

    name = "ptx.max"
    section = "9.7.1.14"
    commutative = True
    takes_constants = True
    unit = "arithmetic"
    forms = (
        form("max.type d, a, b", type=INTEGER),
        form("max.relu.s32 d, a, b", ptx="8.0", sm="90+"),
        form("max.u16x2 d, a, b", ptx="8.0", sm="90+"),
        form("max{.relu}.s16x2 d, a, b", ptx="8.0", sm="90+"),
        form("max.u8x4 d, a, b", ptx="9.2", sm=BYTES),
        form("max{.relu}.s8x4 d, a, b", ptx="9.2", sm=BYTES),
        form("max{.ftz}{.NaN}.f32 d, a, b", needs={**NAN, **FTZ}),
        form("max{.ftz}{.NaN}.xorsign.abs.f32 d, a, b", ptx="7.2", sm="86+"),
        form("max.f64 d, a, b"),
        form("max{.ftz}{.NaN}{.abs}.f32 d, a, b, c", ptx="8.8", sm="100+"),
        form("max{.ftz}{.NaN}.type d, a, b", type="f16 f16x2", ptx="7.0", sm="80+"),
        form("max{.ftz}{.NaN}.xorsign.abs.type d, a, b", type="f16 f16x2", ptx="7.2", sm="86+"),
        form("max{.NaN}.type d, a, b", type="bf16 bf16x2", ptx="7.0", sm="80+"),
        form("max{.NaN}.xorsign.abs.type d, a, b", type="bf16 bf16x2", ptx="7.2", sm="86+"),
    )


@instruction
class Popc(Instruction):
    """Count the one bits of a; d is 32 bits wide."""

    name = "ptx.popc"
    section = "9.7.1.15"
    result_name = "count"
    unit = "logic"
    forms = (form("popc.type d:u32, a", type="b32 b64", ptx="2.0", sm="20+"),)


@instruction
class Clz(Instruction):
    """Count the zero bits above the highest one bit of a (for zero: all). The result is 32 bits wide."""

    name = "ptx.clz"
    section = "9.7.1.16"
    result_name = "zeros"
    unit = "logic"
    forms = (form("clz.type d:u32, a", type="b32 b64", ptx="2.0", sm="20+"),)


@instruction
class Bfind(Instruction):
    """Bit position of the highest bit of a that is not a sign or leading zero, or 0xffffffff if there is none.

    The result is 32 bits wide.

    With `.shiftamt` d is how far to shift left to bring that bit to the top.
    """

    name = "ptx.bfind"
    section = "9.7.1.17"
    unit = "logic"
    forms = (form("bfind{.shiftamt}.type d:u32, a", type=WORDS, ptx="2.0", sm="20+"),)


@instruction
class Fns(Instruction):
    """Find the n-th set bit: from bit `base` of mask upwards (offset > 0) or downwards (offset < 0).

    The result is its position, or 0xffffffff if there is none.

    Operands: mask, base (0..31) and offset are 32-bit; base is unsigned, offset signed.
    """

    name = "ptx.fns"
    section = "9.7.1.18"
    unit = "logic"
    forms = (form("fns.b32 d, mask, base, offset", ptx="5.1", sm="30+"),)


@instruction
class Brev(Instruction):
    """Reverse the order of the bits of a."""

    name = "ptx.brev"
    section = "9.7.1.19"
    unit = "logic"
    forms = (form("brev.type d, a", type="b32 b64", ptx="2.0", sm="20+"),)


@instruction
class Bfe(Instruction):
    """Extract a bit field.

    The result is c bits of a from bit b upwards, zero-extended (unsigned types) or sign-extended (signed).

    b and c are 32-bit, of which the low 8 bits count.
    """

    name = "ptx.bfe"
    section = "9.7.1.20"
    unit = "logic"
    forms = (
        form(
            "bfe.type d, a, b:u32, c:u32",
            type=WORDS,
            ptx="2.0",
            sm="20+",
            ranges={"b": (0, 255), "c": (0, 255)},
        ),
    )


@instruction
class Bfi(Instruction):
    """Insert a bit field: f is b with its bits c..c+len-1 replaced by the low bits of a.

    c and len are 32-bit, the low 8 bits count.
    """

    name = "ptx.bfi"
    section = "9.7.1.21"
    unit = "logic"
    forms = (
        form(
            "bfi.type d, a, b, c:u32, len:u32",
            type="b32 b64",
            ptx="2.0",
            sm="20+",
            ranges={"c": (0, 255), "len": (0, 255)},
        ),
    )


@instruction
class Szext(Instruction):
    """Sign-extend (s32) or zero-extend (u32) the low b bits of a.

    `.clamp` limits b to 32, `.wrap` takes it modulo 32.
    """

    name = "ptx.szext"
    section = "9.7.1.22"
    unit = "logic"
    forms = (form("szext.mode.type d, a, b:u32", mode="clamp wrap", type="u32 s32", ptx="7.6", sm="70+"),)


@instruction
class Bmsk(Instruction):
    """Bit mask: b ones from bit a upwards. `.clamp` limits a and b to 32, `.wrap` takes them modulo 32."""

    name = "ptx.bmsk"
    section = "9.7.1.23"
    unit = "logic"
    forms = (form("bmsk.mode.b32 d:u32, a:u32, b:u32", mode="clamp wrap", ptx="7.6", sm="70+"),)


@instruction
class Dp4a(Instruction):
    """Dot product of the four bytes of a and of b, added to c.

    Each of a and b holds unsigned (u32) or signed (s32) bytes.
    """

    name = "ptx.dp4a"
    section = "9.7.1.24"
    unit = "arithmetic"
    forms = (
        form(
            "dp4a.atype.btype d:u32, a:atype, b:btype, c:u32",
            atype="u32 s32",
            btype="u32 s32",
            ptx="5.0",
            sm="61+",
        ),
    )


@instruction
class Dp2a(Instruction):
    """Dot product of the two 16-bit halves of a with two bytes of b, added to c.

    `.lo` takes the low two bytes of b, `.hi` the high two. The types say which of a and b are signed.
    """

    name = "ptx.dp2a"
    section = "9.7.1.25"
    unit = "arithmetic"
    forms = (
        form(
            "dp2a.^mode.atype.btype d:u32, a:atype, b:btype, c:u32",
            mode="lo hi",
            atype="u32 s32",
            btype="u32 s32",
            ptx="5.0",
            sm="61+",
        ),
    )


@instruction
class Clmad(Instruction):
    """Carry-less multiply (polynomials over one bit) and xor.

    The result is the low or high half of the product of a and b, xor c.
    """

    name = "ptx.clmad"
    section = "9.7.1.5"
    unit = "arithmetic"
    forms = (form("clmad.^mode.type d, a, b, c", mode="lo hi", type="u64 s64", ptx="9.3", sm="80+"),)
