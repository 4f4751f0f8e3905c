"""Half precision arithmetic: f16, bf16, f16x2, bf16x2 (PTX ISA 9.7.4) and mixed precision (9.7.5).

Values are ``uint16`` bit patterns (scalar types) or ``uint32`` registers (x2 types, element 0 in the low
half). ``kind`` names the type. Every operation rounds once. ``ftz`` flushes f16 subnormals, ``sat`` clamps to
[0, 1] with NaN -> +0, ``relu`` clamps negative results to +0. NaN results are 0x7fff.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import floating, formats

Half: TypeAlias = NDArray[np.unsignedinteger[Any]]
Register: TypeAlias = Half
Kind: TypeAlias = Literal["f16", "bf16", "f16x2", "bf16x2"]

_NAN = np.uint16(0x7FFF)
OOB_NAN: int = 0xFFFF
"""The NaN that ``.oob`` takes for an out-of-bounds element.

The manual does not publish the pattern; this one is ours, chosen because no arithmetic here produces it. A
simulated TMA must fill with it for NAN_REQUEST_ZERO_FMA.
"""


def to_f32(a: Half, kind: str) -> floating.Float32:
    """Exact f32 values of f16 or bf16 bits; NaN stays NaN."""
    if kind == "f16":
        return a.view(np.float16).astype(np.float32)
    return (a.astype(np.uint32) << np.uint32(16)).view(np.float32)


def from_f32(x: floating.Float32, kind: str) -> Half:
    """f32 rounded to nearest even into f16 or bf16 bits, with canonical NaN."""
    if kind == "f16":
        r = x.astype(np.float16).view(np.uint16)
    else:
        bits = x.view(np.uint32)
        r = ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    nan = x != x
    if np.count_nonzero(nan):
        r[nan] = _NAN
    return r


def from_f64(t: floating.Float64, kind: str, rounding: floating.Rounding = "rn") -> Half:
    """Round float64 values (exact or rounded to odd)."""
    if rounding == "rn" and kind == "f16":
        r = t.astype(np.float16).view(np.uint16)
        nan = t != t
        if np.count_nonzero(nan):
            r[nan] = _NAN
        return r
    if rounding == "rn":
        # Narrow to f32 rounding to odd, so that the second rounding sees whether anything was lost.
        x = t.astype(np.float32)
        bits = x.view(np.uint32) - (np.abs(x) > np.abs(t)).astype(np.uint32)
        bits |= (np.abs(bits.view(np.float32)) < np.abs(t)) & np.isfinite(t)
        return from_f32(bits.view(np.float32), kind)
    r = formats.encode(t, kind, rounding)
    return r.view(np.uint16)


def _flush(a: Half) -> Half:
    subnormal = (a & np.uint16(0x7C00)) == 0
    return np.where(subnormal, a & np.uint16(0x8000), a)


def _apply(
    function: Callable[..., Half],
    kind: str,
    operands: tuple[Register, ...],
    ftz: bool,
    sat: bool = False,
    relu: bool = False,
) -> Register:
    """Split x2 registers, flush, compute on uint16 lanes, and clamp."""
    element = kind.removesuffix("x2")
    lanes = [np.ascontiguousarray(x).view(np.uint16) for x in operands]
    if ftz and element == "f16":
        lanes = [_flush(x) for x in lanes]
    r = function(*lanes, element)
    infinity = 0x7C00 if element == "f16" else 0x7F80
    if sat:
        one = np.uint16(0x3C00 if element == "f16" else 0x3F80)
        r = np.where(r <= infinity, np.minimum(r, one), np.uint16(0))
    elif relu:
        r = np.where((r & np.uint16(0x7FFF)) > infinity, _NAN, np.where(r >= 0x8000, np.uint16(0), r))
    if ftz and element == "f16":
        r = _flush(r)
    return np.ascontiguousarray(r).view(np.uint32) if kind.endswith("x2") else r


def add(a: Register, b: Register, kind: Kind, *, ftz: bool = False, sat: bool = False) -> Register:
    """a + b (add{.rn}{.ftz}{.sat}). PTX ISA 9.7.4.1."""

    def lanes(x: Half, y: Half, element: str) -> Half:
        # Rounding a sum to f32 first is harmless: 24 bits are at least twice 11 plus 2.
        return from_f32(to_f32(x, element) + to_f32(y, element), element)

    return _apply(lanes, kind, (a, b), ftz, sat)


def sub(a: Register, b: Register, kind: Kind, *, ftz: bool = False, sat: bool = False) -> Register:
    """a - b (sub{.rn}{.ftz}{.sat}). PTX ISA 9.7.4.2."""

    def lanes(x: Half, y: Half, element: str) -> Half:
        return from_f32(to_f32(x, element) - to_f32(y, element), element)

    return _apply(lanes, kind, (a, b), ftz, sat)


def mul(a: Register, b: Register, kind: Kind, *, ftz: bool = False, sat: bool = False) -> Register:
    """a * b (mul{.rn}{.ftz}{.sat}). PTX ISA 9.7.4.3."""

    def lanes(x: Half, y: Half, element: str) -> Half:
        if element == "f16":
            return from_f32(to_f32(x, element) * to_f32(y, element), element)  # 22 bits, no underflow: exact
        # bf16 products are exact in f32 too, but for those below its range.
        return from_f64(to_f32(x, element).astype(np.float64) * to_f32(y, element), element, "rn")

    return _apply(lanes, kind, (a, b), ftz, sat)


def fma(
    a: Register,
    b: Register,
    c: Register,
    kind: Kind,
    *,
    rounding: floating.Rounding = "rn",
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
    oob: bool = False,
) -> Register:
    """a * b + c rounded once (fma.rnd{.ftz}{.sat}{.relu}{.oob}). PTX ISA 9.7.4.4.

    ``oob``: the result is +0 where any operand is :data:`OOB_NAN`.
    """

    def lanes(x: Half, y: Half, z: Half, element: str) -> Half:
        product = to_f32(x, element).astype(np.float64) * to_f32(y, element).astype(np.float64)
        addend = to_f32(z, element).astype(np.float64)
        t = floating.odd_sum(product, addend)
        if rounding == "rm":
            t = np.where((t == 0) & (np.signbit(product) | np.signbit(addend)), -0.0, t)
        r = from_f64(t, element, rounding)
        if oob:
            r = np.where((x == OOB_NAN) | (y == OOB_NAN) | (z == OOB_NAN), np.uint16(0), r)
        return r

    return _apply(lanes, kind, (a, b, c), ftz, sat, relu)


def minimum(
    a: Register, b: Register, kind: Kind, *, ftz: bool = False, nan: bool = False, xorsign_abs: bool = False
) -> Register:
    """Smaller value (min{.ftz}{.NaN}{.xorsign.abs}), rules of :func:`floating.minimum`. PTX ISA 9.7.4.7."""

    def lanes(x: Half, y: Half, element: str) -> Half:
        r = floating.minimum(to_f32(x, element), to_f32(y, element), nan=nan, abs=xorsign_abs, xorsign=xorsign_abs)
        return from_f32(r, element)

    return _apply(lanes, kind, (a, b), ftz)


def maximum(
    a: Register, b: Register, kind: Kind, *, ftz: bool = False, nan: bool = False, xorsign_abs: bool = False
) -> Register:
    """Larger value (max{.ftz}{.NaN}{.xorsign.abs}), rules of :func:`floating.maximum`. PTX ISA 9.7.4.8."""

    def lanes(x: Half, y: Half, element: str) -> Half:
        r = floating.maximum(to_f32(x, element), to_f32(y, element), nan=nan, abs=xorsign_abs, xorsign=xorsign_abs)
        return from_f32(r, element)

    return _apply(lanes, kind, (a, b), ftz)


def _keep_nan(r: Half, element: str) -> Half:
    return np.where((r & np.uint16(0x7FFF)) > (0x7C00 if element == "f16" else 0x7F80), _NAN, r)


def neg(a: Register, kind: Kind, *, ftz: bool = False) -> Register:
    """Negation; NaN gives 0x7fff. PTX ISA 9.7.4.5."""
    return _apply(lambda x, element: _keep_nan(x ^ np.uint16(0x8000), element), kind, (a,), ftz)


def absolute(a: Register, kind: Kind, *, ftz: bool = False) -> Register:
    """Absolute value; NaN gives 0x7fff. PTX ISA 9.7.4.6."""
    return _apply(lambda x, element: _keep_nan(x & np.uint16(0x7FFF), element), kind, (a,), ftz)


def compare(
    a: Register, b: Register, kind: Kind, comparison: floating.Comparison, *, ftz: bool = False
) -> NDArray[np.bool_]:
    """set/setp comparison as booleans; x2 kinds add a last axis of 2 (low element first). PTX ISA 9.7.8."""
    element = kind.removesuffix("x2")
    x, y = (np.ascontiguousarray(v).view(np.uint16) for v in (a, b))
    if ftz and element == "f16":
        x, y = _flush(x), _flush(y)
    r = floating.compare(to_f32(x, element), to_f32(y, element), comparison)
    return r.reshape(*r.shape[:-1], r.shape[-1] // 2, 2) if kind.endswith("x2") else r


def mixed_add(
    a: Half,
    c: floating.Float32,
    kind: Literal["f16", "bf16"],
    *,
    rounding: floating.Rounding = "rn",
    sat: bool = False,
) -> floating.Float32:
    """a + c in f32, a of f16 or bf16 (add{.rnd}{.sat}.f32.atype). PTX ISA 9.7.5.1."""
    return floating.add(to_f32(a, kind), c, rounding=rounding, sat=sat)


def mixed_sub(
    a: Half,
    c: floating.Float32,
    kind: Literal["f16", "bf16"],
    *,
    rounding: floating.Rounding = "rn",
    sat: bool = False,
) -> floating.Float32:
    """a - c in f32, a of f16 or bf16 (sub{.rnd}{.sat}.f32.atype). PTX ISA 9.7.5.2."""
    return floating.sub(to_f32(a, kind), c, rounding=rounding, sat=sat)


def mixed_fma(
    a: Half,
    b: Half,
    c: floating.Float32,
    kind: Literal["f16", "bf16"],
    *,
    rounding: floating.Rounding = "rn",
    sat: bool = False,
) -> floating.Float32:
    """a * b + c in f32, a and b of f16 or bf16 (fma.rnd{.sat}.f32.abtype). PTX ISA 9.7.5.3."""
    return floating.fma(to_f32(a, kind), to_f32(b, kind), c, rounding=rounding, sat=sat)


def mixed_mul(a: Register, b: Register, *, kind: str, other: str) -> Register:
    """a * b in the type of a, b of the ``other`` type (mul.kind.kind.other). PTX ISA 9.7.5.4.

    The product of the values is rounded once to nearest even. The manual converts b to the type of a; whether the
    hardware rounds it there, it does not say, and a multiplier has no need to.
    """
    x = to_f32(np.ascontiguousarray(a).view(np.uint16), kind.removesuffix("x2"))
    y = to_f32(np.ascontiguousarray(b).view(np.uint16), other.removesuffix("x2"))
    return from_f64(x.astype(np.float64) * y, kind.removesuffix("x2")).view(np.uint32)


def widened_f32x2(
    function: Callable[..., floating.Float32],
    a: Register,
    *others: NDArray[np.uint64],
    kind: str,
    **modifiers: object,
) -> NDArray[np.uint64]:
    """A function of ``floating`` on pairs of f32: a holds two f16 or bf16 (``kind``), the others two f32.

    add, sub and fma.f32x2.f16x2.f32x2. PTX ISA 9.7.5.1-3.
    """
    pairs = [np.ascontiguousarray(x).view(np.float32) for x in others]
    first = to_f32(np.ascontiguousarray(a).view(np.uint16), kind)
    return np.ascontiguousarray(function(first, *pairs, **modifiers)).view(np.uint64)


def narrowed_f32x2(
    operation: Callable[[floating.Float64, floating.Float64], floating.Float64],
    a: NDArray[np.uint64],
    b: NDArray[np.uint64],
    *,
    kind: str,
    ftz: bool = False,
) -> Register:
    """An operation on pairs of f32 with halves as results, cut off (add, sub, mul.rz{.ftz}.f16x2.f32x2.f32x2).

    ``operation`` takes float64 and gives the exact result or that rounded to odd. ``ftz`` flushes subnormal inputs
    (of f32) and results (of f16), as it does elsewhere: the manual writes it without a word about it. PTX ISA 9.7.5.1,
    9.7.5.2, 9.7.5.4.
    """
    x, y = (np.ascontiguousarray(v).view(np.float32) for v in (a, b))
    if ftz:
        x, y = floating.flush(x), floating.flush(y)
    r = from_f64(operation(x.astype(np.float64), y.astype(np.float64)), kind, "rz")
    return np.ascontiguousarray(_flush(r) if ftz else r).view(np.uint32)
