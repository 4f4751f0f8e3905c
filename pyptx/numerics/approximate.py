"""Approximate functions of PTX (``.approx``, ``div.full``): PTX ISA 9.7.3.8 and 9.7.3.13-22, 9.7.4.9-10.

The hardware's bits are not documented, only error bounds. By default results are computed in float64 and
rounded once: well inside every bound and the same everywhere. With ``perturb`` (a seed or a generator), finite non-zero
results move pseudo-randomly within the documented bound, to find code that relies on more accuracy than PTX
promises. Results that the manual's tables of special values state stay: of zeros, infinities and, where the result is
finite, subnormals (``ex2(±0)`` is 1).

f32 functions take and return ``float32`` arrays; special values follow the tables of the manual.
"""

from typing import Literal

import numpy as np

from . import floating, half
from .floating import Float32, Float64

Perturb = int | np.random.Generator | None
"""Where errors come from: a seed, a generator, or None for no errors."""

ERROR: dict[str, tuple[Literal["relative", "absolute"], float]] = {
    "rcp": ("relative", 2.0**-23),
    "sqrt": ("relative", 2.0**-23),
    "rsqrt": ("relative", 2.0**-22.9),
    "div": ("relative", 2.0**-22),  # 2 ulp, taken at the low end of the binade
    "sin": ("absolute", 2.0**-20.5),
    "cos": ("absolute", 2.0**-20.5),
    "lg2": ("relative", 2.0**-22),
    "ex2": ("relative", 2.0**-22.5),
    "tanh": ("relative", 2.0**-11),
    "ex2.f16": ("relative", 2.0**-9.9),
    "ex2.bf16": ("relative", 2.0**-7),
    "tanh.f16": ("absolute", 2.0**-10.987),
    "tanh.bf16": ("absolute", 2.0**-8),
}
"""Documented maximum errors, before the final rounding."""


_SMALLEST = {"f16": 2.0**-14}
"""The smallest normal number of types other than f32 and bf16."""


def _perturbed(exact: Float64, function: str, seed: Perturb, argument: Float64 | None) -> Float64:
    """The results with errors. ``argument``: of functions whose tables state finite results that are not zero."""
    if seed is None:
        return exact
    kind, bound = ERROR[function]
    # Half the bound leaves room for the rounding that follows.
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, exact.shape) * bound
    moved = exact * (1 + noise) if kind == "relative" else exact + noise
    name, _, kind_of_half = function.partition(".")
    if name in ("sin", "cos", "tanh"):
        moved = np.clip(moved, -1.0, 1.0)
    free = np.isfinite(exact) & (exact != 0)
    if argument is not None:
        free &= np.isfinite(argument) & (np.abs(argument) >= _SMALLEST.get(kind_of_half, 2.0**-126))
    return np.where(free, moved, exact)


def _finish(exact: Float64, function: str, ftz: bool, perturb: Perturb, argument: Float64 | None = None) -> Float32:
    r = _perturbed(exact, function, perturb, argument).astype(np.float32)
    if ftz:
        r = floating.flush(r)
    nan = r != r
    if np.count_nonzero(nan):
        r.view(np.uint32)[nan] = 0x7FFF_FFFF
    return r


def _input(a: Float32, ftz: bool) -> Float64:
    return (floating.flush(a) if ftz else a).astype(np.float64)


def rcp(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """rcp.approx{.ftz}.f32. 1/±0 = ±inf, 1/±inf = ±0."""
    return _finish(1.0 / _input(a, ftz), "rcp", ftz, perturb)


def sqrt(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """sqrt.approx{.ftz}.f32. sqrt(-0) = -0, negative gives NaN."""
    return _finish(np.sqrt(_input(a, ftz)), "sqrt", ftz, perturb)


def rsqrt(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """rsqrt.approx{.ftz}.f32. ±0 gives ±inf, +inf gives +0, negative gives NaN."""
    return _finish(1.0 / np.sqrt(_input(a, ftz)), "rsqrt", ftz, perturb)


def sin(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """sin.approx{.ftz}.f32, argument in radians. ±inf gives NaN."""
    x = _input(a, ftz)
    return _finish(np.sin(x), "sin", ftz, perturb, x)


def cos(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """cos.approx{.ftz}.f32, argument in radians. ±inf gives NaN."""
    x = _input(a, ftz)
    return _finish(np.cos(x), "cos", ftz, perturb, x)


def sin_turns(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """sin.approx.ftz.2pi.f32: sin(2 pi a). ±inf gives NaN. The error of a within one turn is taken to be that of sin;
    PTX 9.5 does not say.
    """
    x = _input(a, ftz)
    return _finish(_sine_of_turns(x), "sin", ftz, perturb, x)


def cos_turns(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """cos.approx.ftz.2pi.f32: cos(2 pi a). ±inf gives NaN. Its error as in :func:`sin_turns`."""
    x = _input(a, ftz)
    return _finish(_sine_of_turns(np.abs(np.fmod(x, 1.0)) + 0.25), "cos", ftz, perturb, x)


def _sine_of_turns(turns: Float64) -> Float64:
    """sin(2 pi x), exact at multiples of a quarter; zeros have the sign of x."""
    half_turns = np.rint(2.0 * turns)
    rest = turns - 0.5 * half_turns  # exact, within a quarter of a turn
    sine = np.sin(2.0 * np.pi * rest)
    return np.where(rest == 0, np.copysign(0.0, turns), np.where(half_turns % 2 == 0, sine, -sine))


def lg2(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """lg2.approx{.ftz}.f32. ±0 gives -inf, negative gives NaN, subnormals with ftz count as zero."""
    return _finish(np.log2(_input(a, ftz)), "lg2", ftz, perturb)


def ex2(a: Float32, *, ftz: bool = False, perturb: Perturb = None) -> Float32:
    """ex2.approx{.ftz}.f32. -inf gives +0; with ftz subnormal results are +0."""
    x = _input(a, ftz)
    return _finish(np.exp2(x), "ex2", ftz, perturb, x)


def tanh(a: Float32, *, perturb: Perturb = None) -> Float32:
    """tanh.approx.f32. Subnormals are supported, ±inf gives ±1."""
    x = _input(a, False)
    return _finish(np.tanh(x), "tanh", False, perturb, x)


def div(a: Float32, b: Float32, *, ftz: bool = False, full: bool = False, perturb: Perturb = None) -> Float32:
    """div.approx{.ftz}.f32 and, with ``full``, div.full{.ftz}.f32.

    div.approx multiplies by a reciprocal, so for 2**126 < abs(b) < 2**128 it gives 0, or NaN if a is
    infinite.
    """
    x, y = _input(a, ftz), _input(b, ftz)
    exact = x / y
    if not full:
        huge = (np.abs(y) > 2.0**126) & np.isfinite(y)
        exact = np.where(huge, x * np.copysign(0.0, y), exact)
    return _finish(exact, "div", ftz, perturb)


def _half_function(function: np.ufunc, name: str, a: half.Register, kind: half.Kind, seed: Perturb) -> half.Register:
    element = kind.removesuffix("x2")
    x = half.to_f32(np.ascontiguousarray(a).view(np.uint16), element).astype(np.float64)
    if name == "ex2" and element == "bf16":
        x = np.where(np.abs(x) < 2.0**-126, np.copysign(0.0, x), x)  # .ftz is part of this form
    exact = _perturbed(function(x), f"{name}.{element}", seed, x)
    r = half.from_f64(exact, element)
    if name == "ex2" and element == "bf16":
        r = np.where((r & np.uint16(0x7F80)) == 0, np.uint16(0), r)
    return r.view(np.uint32) if kind.endswith("x2") else r


def ex2_half(a: half.Register, kind: half.Kind, *, perturb: Perturb = None) -> half.Register:
    """ex2.approx.f16/f16x2 and ex2.approx.ftz.bf16/bf16x2, on bit patterns. PTX ISA 9.7.4.10."""
    return _half_function(np.exp2, "ex2", a, kind, perturb)


def tanh_half(a: half.Register, kind: half.Kind, *, perturb: Perturb = None) -> half.Register:
    """tanh.approx.f16/f16x2/bf16/bf16x2, on bit patterns. PTX ISA 9.7.4.9."""
    return _half_function(np.tanh, "tanh", a, kind, perturb)


def _upper_word(x: Float64) -> Float64:
    return (x.view(np.uint64) & np.uint64(0xFFFF_FFFF_0000_0000)).view(np.float64)


def _flush64(x: Float64) -> Float64:
    return np.where(np.abs(x) < 2.0**-1022, np.copysign(0.0, x), x)


def rcp_f64(a: Float64) -> Float64:
    """rcp.approx.ftz.f64: only the upper words of input and result count, subnormals are flushed. PTX ISA
    9.7.3.14.
    """
    return _upper_word(_flush64(1.0 / _flush64(_upper_word(a))))


def rsqrt_f64(a: Float64, *, ftz: bool = False) -> Float64:
    """rsqrt.approx.f64, and with ``ftz`` rsqrt.approx.ftz.f64, on upper words as rcp. PTX ISA 9.7.3.16-17."""
    if ftz:
        return _upper_word(_flush64(1.0 / np.sqrt(_flush64(_upper_word(a)))))
    return 1.0 / np.sqrt(a)
