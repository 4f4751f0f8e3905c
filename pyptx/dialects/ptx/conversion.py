"""Conversions between types: cvt, cvt.pack (PTX ISA 9.7.10.24, 9.7.10.25).

The first type is d's, the second the inputs'.

Where we are stricter than ptxas 13.5 on purpose: it takes a scale in `cvt.ue5m3x2.bf16x2` without
`.scaled::n2::ue8m0` (and then fails with an internal error), and `cvt.e2m1p4x4.f32` everywhere, which gives zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .forms import Form, Use, form
from .instruction import Instruction, instruction
from .integer import ROUND
from .lowered import single_constant
from .target import need
from .types import SCALAR_TYPES

INTEGERS = "u8 s8 u16 s16 u32 s32 u64 s64"
TO_INTEGRAL = "rni rzi rmi rpi"
FP8 = "e4m3x2 e5m2x2"
FP6 = "e2m3x2 e3m2x2"
FP6_FP4 = f"e2m1x2 {FP6}"
SMALL = f"{FP8} {FP6_FP4}"
SMALL_X4 = "e4m3x4 e5m2x4 e2m1x4 e2m3x4 e3m2x4"
NEWEST = "100af 103af 107af 110af 120af 121af"
NEWEST_A = "100a 103a 107a 110a 120a 121a"
STOCHASTIC = "100a 103a 107a"
SCALE = "scaled::n2::ue8m0"
ONE_SCALE = "scaled::n1::ue8m0"
NEWEST_ONLY: dict[str, Any] = {"ptx": "9.4", "sm": "107af"}
PZO = {"pzo": need("9.4", "107af")}

WIDE = "d:dtype+, a:atype+"
WIDE_TWO = "d:dtype+, a:atype+, b:atype+"
ONE = "d:dtype, a:atype"
ANY_WORD = "d:dtype, a:b32%*"
"""Two bf16 in any register of 32 bits: ptxas asks for .b32 elsewhere, but not here."""
TWO = "d:dtype, a:atype, b:atype"
"""Registers may be wider than their type between integers, f16, f32 and f64 only."""
FOUR = "d:dtype, a:atype[4], rbits:b32#%"
PACK = "d:u32+, a:s32+, b:s32+"


def cvt(
    modifiers: str,
    dtype: str,
    atype: str,
    operands: str = ONE,
    *,
    rule: Callable[[Use], str | None] | None = None,
    **more: Any,
) -> Form:
    return form(f"cvt{modifiers}.dtype.atype {operands}", dtype=dtype, atype=atype, rule=rule, **more)


def saturates(use: Use) -> str | None:
    """Between integers `.sat` is legal only where some value of the source does not fit."""
    d, a = SCALAR_TYPES[use.slots["dtype"]], SCALAR_TYPES[use.slots["atype"]]
    signed = d.kind == "signed", a.kind == "signed"
    always_fits = d.bits >= a.bits if signed[0] == signed[1] else signed[0] and d.bits > a.bits
    return f".sat does nothing from .{a.name} to .{d.name}: every value fits" if always_fits else None


def small(dtype: str, rnd: str, ptx: str, sm: str) -> Form:
    """To two small floats from two f32."""
    return cvt(".rnd.satfinite{.relu}{.pzo}", dtype, "f32", TWO, rnd=rnd, ptx=ptx, sm=sm, needs=PZO)


def small_from_halves(dtype: str, atype: str, rnd: str, ptx: str, sm: str, operands: str = ONE) -> Form:
    """To two small floats from one packed half."""
    return cvt(".rnd.satfinite{.relu}{.pzo}", dtype, atype, operands, rnd=rnd, ptx=ptx, sm=sm, needs=PZO)


def one_scale(options: str, dtype: str) -> tuple[Form, ...]:
    """To two small floats with one scale for both."""
    more: dict[str, Any] = {"rnd": "rn rz", "scale": ONE_SCALE, **NEWEST_ONLY}
    return (
        cvt(f".rnd{options}.scale", dtype, "f32", f"{TWO}, scale:ue8m0%", **more),
        cvt(f".rnd{options}.scale", dtype, "f16x2", f"{ONE}, scale:ue8m0%", **more),
        cvt(f".rnd{options}.scale", dtype, "bf16x2", f"{ANY_WORD}, scale:ue8m0%", **more),
    )


def fixed(rnd: str, ptx: str, sm: str) -> tuple[Form, ...]:
    """To two fixed-point numbers with six fraction bits, plain or scaled."""
    line = ".rnd.satfinite{.relu}"
    more: dict[str, Any] = {"rnd": rnd, "ptx": ptx, "sm": sm}
    one, two = "d:b16, a:atype", "d:b16, a:atype, b:atype"
    return (
        cvt(line, "s2f6x2", "f32", two.replace("b16", "b16*"), **more),
        cvt(line, "s2f6x2", "bf16x2", one, **more),
        cvt(f"{line}.scale", "s2f6x2", "f32", f"{two}, scale:ue8m0x2", scale=SCALE, **more),
        cvt(f"{line}.scale", "s2f6x2", "bf16x2", f"{one}, scale:ue8m0x2", scale=SCALE, **more),
    )


def scaled(atype: str, ptx: str, sm: str, options: str = "{.relu}{.satfinite}") -> tuple[Form, Form]:
    """From two small floats to bf16x2, plain or scaled."""
    return (
        cvt(f".rn{options}", "bf16x2", atype, ptx=ptx, sm=sm),
        cvt(f".rn{options}.scale", "bf16x2", atype, f"{ONE}, scale:ue8m0x2", scale=SCALE, ptx=ptx, sm=sm),
    )


@instruction
class Cvt(Instruction):
    """Convert a to another type.

    A float to an integer needs an integral rounding (`.rni .rzi .rmi .rpi`), anything to a narrower float, or
    an integer to a float, one of `.rn .rz .rm .rp`. `.sat` clamps to the integer type's range or to [0, 1],
    `.satfinite` to the largest finite value, `.relu` sets negatives to zero, `.ftz` flushes f32 subnormals.
    In conversions between integers, f16, f32 and f64 registers may be wider than their types.

    Types ending in x2 or x4 are packed: two f32 (or one packed half) become one register of small floats, the
    first input in the upper half, and back. `.rs` rounds stochastically with the random bits of the last
    operand. The last operand of `.scaled::n2::ue8m0` holds two power-of-two scales: results of wider types are
    multiplied by them, inputs of s2f6x2 divided. That of `.scaled::n1::ue8m0`, in a `.b8` register, divides both inputs,
    whose subnormals count as zero. `.pzo` gives +0 in place of -0.
    """

    name = "ptx.cvt"
    section = "9.7.10.24"
    reads_special = True
    unit = "convert"
    forms = (
        # integers
        cvt("", INTEGERS, INTEGERS, "d:dtype+, a:atype+@"),
        cvt(".sat", INTEGERS, INTEGERS, "d:dtype+, a:atype+@", rule=saturates),
        # floats to integers and back
        cvt(".rnd{.sat}", INTEGERS, "f16 f64", WIDE, rnd=TO_INTEGRAL),
        cvt(".rnd{.ftz}{.sat}", INTEGERS, "f32", WIDE, rnd=TO_INTEGRAL, needs={"ftz": need("1.4")}),
        cvt(".rnd", INTEGERS, "bf16", rnd=TO_INTEGRAL, ptx="7.8", sm="90+"),
        cvt(".rnd{.sat}", "f16 f64", INTEGERS, WIDE, rnd=ROUND),
        cvt(".rnd{.ftz}{.sat}", "f32", INTEGERS, WIDE, rnd=ROUND, needs={"ftz": need("1.4")}),
        cvt(".rnd", "bf16", INTEGERS, rnd=ROUND, ptx="7.8", sm="90+"),
        # floats: same type (rounding to an integral value), wider, narrower
        cvt("{.rnd}{.sat}", "f16", "f16", WIDE, rnd=TO_INTEGRAL),
        cvt("{.rnd}{.sat}", "f64", "f64", WIDE, rnd=TO_INTEGRAL),
        cvt("{.rnd}{.ftz}{.sat}", "f32", "f32", WIDE, rnd=TO_INTEGRAL, needs={"ftz": need("1.4")}),
        cvt("{.rnd}", "bf16", "bf16", rnd=TO_INTEGRAL, ptx="7.8", sm="90+"),
        cvt("{.ftz}{.sat}", "f32", "f16", WIDE, needs={"ftz": need("1.4")}),
        cvt("{.ftz}{.sat}", "f64", "f32", WIDE, needs={"ftz": need("1.5")}),
        cvt("{.sat}", "f64", "f16", WIDE),
        cvt(".rnd{.sat}", "f16", "f64", WIDE, rnd=ROUND),
        cvt(".rnd{.ftz}{.sat}", "f16", "f32", WIDE, rnd=ROUND, needs={"ftz": need("1.4")}),
        cvt(".rnd{.ftz}{.sat}", "f32", "f64", WIDE, rnd=ROUND, needs={"ftz": need("1.4")}),
        cvt(".rnd.pzo", "f16", "f32", WIDE, rnd=ROUND, **NEWEST_ONLY),
        cvt(".rnd.relu{.pzo}", "f16", "f32", WIDE, rnd="rn rz", ptx="7.0", sm="80+", needs=PZO),
        cvt(".rnd.satfinite{.pzo}", "f16", "f32", WIDE, rnd="rn rz", ptx="8.1", sm="70+", needs=PZO),
        cvt(".rnd.satfinite.relu{.pzo}", "f16", "f32", WIDE, rnd="rn rz", ptx="8.1", sm="80+", needs=PZO),
        # bf16, tf32
        cvt(".rnd{.ftz}{.pzo}", "bf16", "f32", rnd=ROUND, ptx="7.0", sm="80+", needs=PZO),
        cvt(".rnd.relu{.pzo}", "bf16", "f32", rnd="rn rz", ptx="7.0", sm="80+", needs=PZO),
        cvt(".rnd.satfinite{.relu}{.pzo}", "bf16", "f32", rnd="rn rz", ptx="8.1", sm="80+", needs=PZO),
        cvt("{.rnd}", "f32", "bf16", rnd=ROUND, ptx="7.1", sm="80+"),
        cvt("{.rnd}.ftz", "f32", "bf16", rnd=ROUND, ptx="7.8", sm="90+"),
        cvt("{.rnd}", "bf16", "f16", rnd=ROUND, ptx="7.8", sm="90+"),
        cvt("{.rnd}", "f16 f64", "bf16", rnd=ROUND, ptx="7.8", sm="90+"),
        cvt(".rnd", "bf16", "f64", rnd=ROUND, ptx="7.8", sm="90+"),
        cvt(".rna", "tf32", "f32", ptx="7.0", sm="80+", rule=single_constant),
        cvt(".rna.satfinite", "tf32", "f32", ptx="8.1", sm="80+", rule=single_constant),
        cvt(".rnd{.relu}{.pzo}", "tf32", "f32", rnd="rn rz", ptx="7.8", sm="90+", needs=PZO),
        cvt(".rnd{.relu}.satfinite{.pzo}", "tf32", "f32", rnd="rn rz", ptx="8.6", sm="100+", needs=PZO),
        # packed halves
        cvt(".rnd{.relu}{.pzo}", "f16x2", "f32", WIDE_TWO, rnd="rn rz", ptx="7.0", sm="80+", needs=PZO),
        cvt(".rnd{.relu}.satfinite{.pzo}", "f16x2", "f32", WIDE_TWO, rnd="rn rz", ptx="8.1", sm="80+", needs=PZO),
        cvt(".rs{.relu}{.satfinite}", "f16x2", "f32", f"{WIDE_TWO}, rbits:b32#%", ptx="8.7", sm=STOCHASTIC),
        cvt(".rnd{.relu}{.pzo}", "bf16x2", "f32", TWO, rnd="rn rz", ptx="7.0", sm="80+", needs=PZO),
        cvt(".rnd{.relu}.satfinite{.pzo}", "bf16x2", "f32", TWO, rnd="rn rz", ptx="8.1", sm="80+", needs=PZO),
        cvt(".rs{.relu}{.satfinite}", "bf16x2", "f32", f"{TWO}, rbits:b32#%", ptx="8.7", sm=STOCHASTIC),
        # to small floats
        small(FP8, "rn", "7.8", "90+"),
        small(FP8, "rn", "8.1", "89+"),
        small(FP6_FP4, "rn", "8.6", NEWEST),
        small(SMALL, "rz", "9.4", "107af"),
        small_from_halves(FP8, "f16x2", "rn", "7.8", "90+"),
        small_from_halves(FP8, "f16x2", "rn", "8.1", "89+"),
        small_from_halves(FP8, "bf16x2", "rn", "9.1", NEWEST),
        small_from_halves(FP6_FP4, "f16x2", "rn", "9.1", NEWEST),
        small_from_halves(FP6, "bf16x2", "rn", "9.1", NEWEST),
        small_from_halves("e2m1x2", "bf16x2", "rn", "9.1", NEWEST, ANY_WORD),
        small_from_halves(SMALL, "f16x2", "rz", "9.4", "107af"),
        small_from_halves(f"{FP8} {FP6}", "bf16x2", "rz", "9.4", "107af"),
        small_from_halves("e2m1x2", "bf16x2", "rz", "9.4", "107af", ANY_WORD),
        *one_scale(".satfinite{.relu}{.pzo}", SMALL),
        *one_scale("{.satfinite}", "ue5m3x2"),
        *fixed("rn", "9.1", NEWEST_A),
        *fixed("rz", "9.4", "107a"),
        cvt(".rnd{.satfinite}", "ue8m0x2", "f32", TWO, rnd="rz rp", ptx="8.6", sm=NEWEST),
        cvt(".rnd{.satfinite}", "ue8m0x2", "bf16x2", rnd="rz rp", ptx="8.6", sm=NEWEST),
        cvt(".rnd{.satfinite}", "ue5m3x2", "f32", TWO, rnd="rn rz rp", ptx="9.4", sm="107af"),
        cvt(".rnd{.satfinite}", "ue5m3x2", "f16x2 bf16x2", rnd="rn rz rp", ptx="9.4", sm="107af"),
        cvt(".rs.satfinite{.relu}", SMALL_X4, "f32", FOUR, ptx="8.7", sm=STOCHASTIC),
        # from small floats
        cvt(".rn{.relu}", "f16x2", FP8, ptx="7.8", sm="90+"),
        cvt(".rn{.relu}", "f16x2", FP8, ptx="8.1", sm="89+"),
        cvt(".rn{.relu}", "f16x2", FP6_FP4, ptx="8.6", sm=NEWEST),
        cvt(".rn", "f16x2", "ue5m3x2", ptx="9.4", sm="107af"),
        cvt(".rn", "bf16x2", "ue8m0x2", ptx="8.6", sm=NEWEST),
        *scaled(SMALL, "9.2", NEWEST),
        *scaled("s2f6x2", "9.1", NEWEST_A),
        *scaled("ue5m3x2", "9.4", "107af", "{.satfinite}"),
    )


@instruction
class CvtPack(Instruction):
    """Convert two s32 to a narrow integer type with saturation and pack them (a above b) into d.

    To 8, 4 or 2 bits, the third type is `.b32` and c is shifted up to make room for the two.
    """

    name = "ptx.cvt.pack"
    section = "9.7.10.25"
    unit = "convert"
    forms = (
        form(f"cvt.pack.sat.dtype.s32 {PACK}", dtype="u16 s16", ptx="6.5", sm="72+"),
        form(f"cvt.pack.sat.dtype.s32.b32 {PACK}, c:b32+", dtype="u8 s8", ptx="6.5", sm="72+"),
        form(f"cvt.pack.sat.dtype.s32.b32 {PACK}, c:b32+", dtype="u4 s4 u2 s2", ptx="6.5", sm="75+"),
    )
