"""Floating-point instructions that have no integer sibling (PTX ISA 9.7.3, 9.7.4).

See `integer` for add, sub, mul, div, min, max.
"""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction
from .integer import FP8X4, HALVES_X2, MIXED_X2, ROUND, SMALL_X4, X4
from .target import need

FIRST_DOUBLES = {r: need("2.0", "20+") for r in ("rz", "rm", "rp")}
"""Roundings other than to nearest in the f64 functions."""


@instruction
class Fma(Instruction):
    """Fused multiply-add with one rounding: d = a * b + c. The rounding must be given.

    `.ftz` flushes subnormals to zero, `.sat` clamps to [0, 1], `.relu` clamps a negative result (or NaN) to
    zero, `.oob` gives zero where an input is the out-of-bounds NaN that tensor copies fill in.

    Of several types the first is d's and c's, the next are a's and b's; with two (`fma.rn.f32.f16`) both are of
    the second. Of four small floats (`fma.e4m3x4.e2m1x4.e2m1x4`, always to nearest even) what is too large becomes
    infinity (e5m2) or NaN (e4m3), with `.satfinite` the largest number.
    """

    name = "ptx.fma"
    section = "9.7.3.6"
    takes_constants = True
    unit = "arithmetic"
    forms = (
        form("fma.rnd{.ftz}{.sat}.f32 d, a, b, c", rnd=ROUND, ptx="2.0", sm="20+"),
        form("fma.rnd.f64 d, a, b, c", rnd=ROUND, ptx="1.4", sm="13+"),
        form("fma.rnd{.ftz}.f32x2 d, a, b, c", rnd=ROUND, ptx="8.6", sm="100+"),
        form("fma.rn{.ftz}{.sat}.type d, a, b, c", type="f16 f16x2", ptx="4.2", sm="53+"),
        form("fma.rn{.ftz}.relu.type d, a, b, c", type="f16 f16x2", ptx="7.0", sm="80+"),
        form("fma.rnd{.relu}.type d, a, b, c", rnd=ROUND, type="bf16 bf16x2", ptx="7.0", sm="80+"),
        form("fma.rn.oob{.relu}.type d, a, b, c", type="f16 f16x2", ptx="8.1", sm="90+"),
        form("fma.rn.oob.sat.type d, a, b, c", type="f16 f16x2", ptx="8.1", sm="90+"),
        form("fma.rnd.oob{.relu}.type d, a, b, c", rnd=ROUND, type="bf16 bf16x2", ptx="8.1", sm="90+"),
        form(
            "fma.rnd{.sat}.f32.atype d, a:atype, b:atype, c",
            rnd=ROUND,
            atype="f16 bf16",
            ptx="8.6",
            sm="100+",
        ),
        form("fma.rnd.f32x2.atype.f32x2.f32x2 d, a:atype, b, c", rnd=ROUND, atype=HALVES_X2, **MIXED_X2),
        form(
            "fma{.rnd}{.satfinite}.type.atype.btype d, a:atype, b:btype, c",
            rnd="rn",
            type=FP8X4,
            atype=SMALL_X4,
            btype=SMALL_X4,
            **X4,
        ),
    )


@instruction
class Rcp(Instruction):
    """Reciprocal: d = 1 / a.

    `.approx` is fast (f32 to 1 ulp; f64 only with `.ftz`, to about 20 bits), `.rnd` correctly rounded.
    """

    name = "ptx.rcp"
    section = "9.7.3.13"
    unit = "special function"
    forms = (
        form("rcp.approx{.ftz}.f32 d, a", ptx="1.4"),
        form("rcp.rnd{.ftz}.f32 d, a", rnd=ROUND, ptx="2.0", sm="20+"),
        form("rcp.rnd{.ftz}.f64 d, a", rnd=ROUND, ptx="1.4", sm="13+", needs=FIRST_DOUBLES),
        form("rcp.approx.ftz.f64 d, a", ptx="2.1", sm="20+"),
    )


@instruction
class Sqrt(Instruction):
    """Square root.

    `.approx` is fast, `.rnd` correctly rounded (the only kind for f64); `.ftz` flushes f32 subnormals to
    zero.
    """

    name = "ptx.sqrt"
    section = "9.7.3.15"
    unit = "special function"
    forms = (
        form("sqrt.approx{.ftz}.f32 d, a", ptx="1.4"),
        form("sqrt.rnd{.ftz}.f32 d, a", rnd=ROUND, ptx="2.0", sm="20+"),
        form("sqrt.rnd.f64 d, a", rnd=ROUND, ptx="1.4", sm="13+", needs=FIRST_DOUBLES),
    )


@instruction
class Rsqrt(Instruction):
    """Approximate reciprocal square root: d = 1 / sqrt(a). `.ftz` flushes subnormals to zero."""

    name = "ptx.rsqrt"
    section = "9.7.3.16"
    unit = "special function"
    forms = (
        form("rsqrt.approx{.ftz}.f32 d, a", ptx="1.4"),
        form("rsqrt.approx.f64 d, a", ptx="1.4", sm="13+"),
        form("rsqrt.approx.ftz.f64 d, a", ptx="4.0", sm="20+"),
    )


@instruction
class Sin(Instruction):
    """Approximate sine of a: absolute error at most 2^-20.5 in [-2 pi, 2 pi], 2^-14.7 in [-100 pi, 100 pi].

    a is in radians, with `.2pi` in turns: d = sin(2 pi a).
    """

    name = "ptx.sin"
    section = "9.7.3.18"
    unit = "special function"
    forms = (
        form("sin.approx{.ftz}.f32 d, a", ptx="1.4"),
        form("sin.approx.ftz.2pi.f32 d, a", ptx="9.5"),
    )


@instruction
class Cos(Instruction):
    """Approximate cosine of a: absolute error at most 2^-20.5 in [-2 pi, 2 pi], 2^-14.7 in [-100 pi, 100 pi].

    a is in radians, with `.2pi` in turns: d = cos(2 pi a).
    """

    name = "ptx.cos"
    section = "9.7.3.19"
    unit = "special function"
    forms = (
        form("cos.approx{.ftz}.f32 d, a", ptx="1.4"),
        form("cos.approx.ftz.2pi.f32 d, a", ptx="9.5"),
    )


@instruction
class Lg2(Instruction):
    """Approximate logarithm to base 2."""

    name = "ptx.lg2"
    section = "9.7.3.20"
    unit = "special function"
    forms = (form("lg2.approx{.ftz}.f32 d, a", ptx="1.4"),)


@instruction
class Ex2(Instruction):
    """Approximate 2 to the power of a. Subnormals are flushed with `.ftz`, always in bf16."""

    name = "ptx.ex2"
    section = "9.7.3.21"
    unit = "special function"
    forms = (
        form("ex2.approx{.ftz}.f32 d, a", ptx="1.4"),
        form("ex2.approx.type d, a", type="f16 f16x2", ptx="7.0", sm="75+"),
        form("ex2.approx.ftz.type d, a", type="bf16 bf16x2", ptx="7.8", sm="90+"),
    )


@instruction
class Tanh(Instruction):
    """Approximate hyperbolic tangent."""

    name = "ptx.tanh"
    section = "9.7.3.22"
    unit = "special function"
    forms = (
        form("tanh.approx.type d, a", type="f32 f16 f16x2", ptx="7.0", sm="75+"),
        form("tanh.approx.type d, a", type="bf16 bf16x2", ptx="7.8", sm="90+"),
    )


@instruction
class Testp(Instruction):
    """Test what kind of number a is.

    The predicate is true if it is finite, infinite, a number, not a number, normal or subnormal.
    """

    name = "ptx.testp"
    section = "9.7.3.1"
    unit = "compare"
    forms = (
        form(
            "testp.op.type p:pred, a",
            op="finite infinite number notanumber normal subnormal", type="f32 f64", ptx="2.0", sm="20+",
        ),
    )  # fmt: skip


@instruction
class Copysign(Instruction):
    """The magnitude of b with the sign of a."""

    name = "ptx.copysign"
    section = "9.7.3.2"
    unit = "arithmetic"
    forms = (form("copysign.type d, a, b", type="f32 f64", ptx="2.0", sm="20+"),)
