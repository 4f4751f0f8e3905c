"""`ptx.math`: elementary functions of f32 registers as instruction sequences, with the largest error that each has.

The sequences use `fma.rn`, `add.rn`, `div.rn` and the like only, whose bits PTX defines (PTX ISA 9.7.3), so a GPU and the
simulator compute the same bits. Polynomials are minimax fits. The errors in ulp are measured: `benchmarks/elementary.py` compares the PTX of a
function with float64, of exp (0.91), log (0.93) and erf (1.20) over all 2^32 arguments, of rsqrt (1.49), tanh (1.37) and sigmoid (2.41) over every
11th. With `fast=True` a function uses an
approximate instruction; the error is then the one that the PTX manual states for it, and what the operations around it add.
"""

from __future__ import annotations

import math
from typing import Any

from ...diagnostics import did_you_mean
from ...types import PtxType, f32, s32
from ..core.instructions import emit
from ..core.registers import Reg, predicate, temporary
from ..core.trace import current

__all__ = ["erf", "exp", "log", "rsqrt", "sigmoid", "tanh"]

_LOG2_E = 1.4426950216293335
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.428606765330187e-06  # the high part has 15 bits: n times it is exact
_EXP = (0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.008368715643882751, 0.0013814599951729178)
"""(exp(r) - 1 - r) / r^2 for abs(r) <= ln(2)/2, lowest power first."""
_LOG = (
    0.3333333134651184, -0.250008225440979, 0.20001226663589478, -0.16623356938362122, 0.14201761782169342,
    -0.131601944565773, 0.12761549651622772, -0.07634429633617401,
)  # fmt: skip
"""(log(1 + f) - f + f^2 / 2) / f^3 for 1 + f from sqrt(1/2) to sqrt(2)."""
_TANH = (
    -0.3333333134651184, 0.1333320587873459, -0.05394676327705383, 0.021700700744986534, -0.008177394978702068,
    0.0021429588086903095,
)  # fmt: skip
"""(tanh(x) / x - 1) / x^2 in powers of x^2, for abs(x) < 0.625."""
_ERF = (
    0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853810995817184, 0.00518832728266716,
    -0.000801019137725234, 7.853854185668752e-05,
)  # fmt: skip
"""erf(x) / x - 1 in powers of x^2, for abs(x) < 1."""
_LOG_ERFC = (
    0.0001880381751107052, -1.1295784711837769, -0.6332198977470398, -0.10841856151819229, 0.02520824782550335,
    -0.00420455913990736, 0.00044133589835837483, -2.1686813852284104e-05,
)  # fmt: skip
"""log(erfc(a)) for a from 1 to 4."""


def exp(x: Reg, *, fast: bool = False) -> Reg:
    """e to the power x, in a fresh f32 register. At most 1 ulp off, subnormal results included; exp(-inf) is 0, of NaN NaN.

    fast: `ex2.approx.ftz(x * log2(e))`, two instructions: relative error up to 2^-22.5 + abs(x) * 2^-23.3, subnormal
    results are 0 (PTX ISA 9.7.3.22).

        total += ptx.math.exp(value - largest)

    PTXError unless x is an f32 register.
    """
    x = _argument("exp", x)
    if fast:
        return _op("ex2.approx.ftz.f32", _op("mul.rn.f32", x, _LOG2_E))
    bounded = _op("max.f32", _op("min.f32", x, 89.0), -104.0)  # beyond, the result is infinite or 0
    power, half = _exp_parts(bounded)
    low = _op("shr.s32", half, 1, dtype=s32)
    result = _op("mul.rn.f32", power, _power_of_two(low))  # in two steps, of which the first is exact: one rounding
    result = _op("mul.rn.f32", result, _power_of_two(_op("sub.s32", half, low, dtype=s32)))
    return _selected("nan", x, x, x, result)


def log(x: Reg, *, fast: bool = False) -> Reg:
    """The natural logarithm of x, in a fresh f32 register. At most 1 ulp off, for subnormal x, too; log(0) is -inf, of
    negative numbers and NaN NaN.

    fast: `lg2.approx.ftz(x) * ln(2)`, two instructions: error up to 2^-22.5 absolute for x from 0.5 to 2, else 2^-21.4
    relative; subnormal x counts as 0 (PTX ISA 9.7.3.21).

    PTXError unless x is an f32 register.
    """
    x = _argument("log", x)
    if fast:
        return _op("mul.rn.f32", _op("lg2.approx.ftz.f32", x), math.log(2))
    tiny = _compared("lt", x, 2.0**-126)
    scaled = _op("selp.f32", _op("mul.rn.f32", x, 2.0**23), x, tiny)
    exponent = _op("selp.f32", -23.0, 0.0, tiny)
    bits = _op("mov.b32", scaled, dtype=s32)
    above = _op("shr.s32", _op("sub.s32", bits, 0x3F3504F3, dtype=s32), 23, dtype=s32)  # the bits of sqrt(1/2)
    significand = _op("sub.s32", bits, _op("shl.b32", above, 23, dtype=s32), dtype=s32)
    f = _op("add.rn.f32", _op("mov.b32", significand), -1.0)
    exponent = _op("add.rn.f32", exponent, _op("cvt.rn.f32.s32", above))
    square = _op("mul.rn.f32", f, f)
    series = _fma(_polynomial(_LOG, f), f, -0.5)
    ordinary = _fma(exponent, math.log(2), _fma(series, square, f))
    special = _selected("ge", x, 0.0, x, math.nan)  # +inf of infinity, NaN of negative numbers and NaN
    special = _selected("eq", x, 0.0, -math.inf, special)
    inside = predicate(current())
    emit("setp.gt.f32", inside, x, 0.0)
    emit("setp.lt.and.f32", inside, x, math.inf, inside)
    return _op("selp.f32", ordinary, special, inside)


def rsqrt(x: Reg, *, fast: bool = False) -> Reg:
    """1 / sqrt(x), in a fresh f32 register: `sqrt.rn` and `rcp.rn`. At most 2 ulp off; rsqrt(±0) is ±inf, of negative
    numbers and NaN NaN.

    fast: `rsqrt.approx.ftz`, one instruction: relative error up to 2^-22.9, subnormal x counts as 0 (PTX ISA 9.7.3.16).

    PTXError unless x is an f32 register.
    """
    x = _argument("rsqrt", x)
    if fast:
        return _op("rsqrt.approx.ftz.f32", x)
    return _op("rcp.rn.f32", _op("sqrt.rn.f32", x))


def tanh(x: Reg, *, fast: bool = False) -> Reg:
    """The hyperbolic tangent of x, in a fresh f32 register. At most 2 ulp off; of ±inf ±1, of NaN NaN.

    fast: `tanh.approx`, one instruction: relative error up to 2^-11 (PTX ISA 9.7.3.23; sm_75 and newer).

    PTXError unless x is an f32 register.
    """
    x = _argument("tanh", x)
    if fast:
        return _op("tanh.approx.f32", x)
    size = _op("abs.f32", x)
    bounded = _op("min.f32", size, 10.0)  # beyond, the result is 1
    power = _exp_of_small(_op("add.rn.f32", bounded, bounded))
    large = _fma(_op("rcp.rn.f32", _op("add.rn.f32", power, 1.0)), -2.0, 1.0)
    square = _op("mul.rn.f32", x, x)
    small = _fma(_op("mul.rn.f32", _polynomial(_TANH, square), square), x, x)
    return _op("copysign.f32", x, _selected("ltu", size, 0.625, small, large))  # of -0, too


def sigmoid(x: Reg, *, fast: bool = False) -> Reg:
    """1 / (1 + exp(-x)), in a fresh f32 register. At most 3 ulp off, subnormal results included; of NaN NaN.

    fast: `0.5 * tanh.approx(0.5 * x) + 0.5`, three instructions: absolute error up to 2^-11.9 (PTX ISA 9.7.3.23; sm_75 and
    newer).

    PTXError unless x is an f32 register.
    """
    x = _argument("sigmoid", x)
    if fast:
        return _fma(_op("tanh.approx.f32", _op("mul.rn.f32", x, 0.5)), 0.5, 0.5)
    power = exp(_op("neg.f32", _op("abs.f32", x)))  # at most 1, so that nothing overflows
    upper = _selected("lt", x, 0.0, power, 1.0)
    return _op("div.rn.f32", upper, _op("add.rn.f32", power, 1.0))


def erf(x: Reg) -> Reg:
    """The error function of x, in a fresh f32 register. At most 2 ulp off; of ±inf ±1, of NaN NaN.

    GELU is `x * 0.5 * (1 + erf(x / sqrt(2)))`. PTXError unless x is an f32 register.
    """
    x = _argument("erf", x)
    size = _op("abs.f32", x)
    bounded = _op("min.f32", size, 4.0)  # beyond, the result is 1
    large = _op("sub.rn.f32", 1.0, _exp_of_small(_polynomial(_LOG_ERFC, bounded)))
    small = _fma(_polynomial(_ERF, _op("mul.rn.f32", x, x)), x, x)
    return _selected("ltu", size, 1.0, small, _op("copysign.f32", x, large))


def _argument(function: str, x: object) -> Reg:
    if isinstance(x, Reg) and x.dtype == f32:
        return x
    if isinstance(x, Reg):
        hint = f"convert it: v = reg.scalar(f32); ptx.cvt(f32, {x.dtype}, v, x)"
    else:
        hint = "a number is computed while tracing: math.exp and the like of Python"
    what = f"a register of {x.dtype}" if isinstance(x, Reg) else f"{type(x).__name__} {x!r:.40}"
    raise current().error(f"math.{function} takes an f32 register, not {what}", hint)


def _op(instruction: str, *operands: Any, dtype: PtxType = f32) -> Reg:
    result = temporary(current(), dtype)
    emit(instruction, result, *operands)
    return result


def _fma(a: Any, b: Any, c: Any) -> Reg:
    return _op("fma.rn.f32", a, b, c)


def _compared(relation: str, a: Reg, b: Reg | float) -> Reg:
    result = predicate(current())
    emit(f"setp.{relation}.f32", result, a, b)
    return result


def _selected(relation: str, a: Reg, b: Reg | float, yes: Reg | float, no: Reg | float) -> Reg:
    """`yes` where the relation holds between a and b, else `no`."""
    return _op("selp.f32", yes, no, _compared(relation, a, b))


def _polynomial(coefficients: tuple[float, ...], x: Reg) -> Reg:
    """By Horner's rule; the lowest power comes first."""
    *rest, value, highest = coefficients
    result = _fma(x, highest, value)
    for coefficient in reversed(rest):
        result = _fma(result, x, coefficient)
    return result


def _exp_parts(x: Reg) -> tuple[Reg, Reg]:
    """(p, n) with exp(x) = p * 2^n: p between sqrt(1/2) and sqrt(2), n an s32 register."""
    rounded = _op("cvt.rni.f32.f32", _op("mul.rn.f32", x, _LOG2_E))
    rest = _fma(rounded, -_LN2_LOW, _fma(rounded, -_LN2_HIGH, x))
    power = _fma(_fma(_polynomial(_EXP, rest), rest, 1.0), rest, 1.0)
    return power, _op("cvt.rzi.s32.f32", rounded, dtype=s32)


def _exp_of_small(x: Reg) -> Reg:
    """exp(x) for abs(x) up to 80."""
    power, exponent = _exp_parts(x)
    return _op("mul.rn.f32", power, _power_of_two(exponent))


def _power_of_two(exponent: Reg) -> Reg:
    """2 to the power of an s32 register from -126 to 127, exactly."""
    bits = _op("shl.b32", _op("add.s32", exponent, 127, dtype=s32), 23, dtype=s32)
    return _op("mov.b32", bits)


def __getattr__(name: str) -> Any:
    hint = (
        did_you_mean(name, __all__)
        or f"it has {', '.join(__all__)}; single instructions are ptx.op.sqrt.rn.f32(x), ..."
    )
    raise AttributeError(f"ptx.math has no {name!r}; {hint}")
