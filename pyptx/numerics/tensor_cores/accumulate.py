"""The fused sum of a tensor core, on whole matrices.

Nothing here depends on the order in which NumPy adds, or on a BLAS: every addend is a product that float64 holds exactly, cut off
to an integer below 2**53, and integers of that size add exactly in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import floating, formats, quiet
from ..formats import FORMATS, Format
from .rules import Kind, Rule
from .specials import NAN, put_specials

Float64 = NDArray[np.float64]
Bits = NDArray[np.unsignedinteger[Any]]

ZERO_EXPONENT = -126
"""What a zero counts as where the largest exponent is looked for, in every format."""
_STEP = 1 << 18
"""Products that are in memory at a time, about: they stay in a cache."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of one format: their values and the exponents that they are aligned by."""

    value: Float64
    exponent: NDArray[np.int32]

    def __getitem__(self, at: Any) -> Numbers:
        return Numbers(self.value[at], self.exponent[at])


Scales = tuple[Numbers, Numbers] | None
"""The factors of A, (..., M, blocks), and of B, (..., blocks, N)."""


def exponents(bits: Bits, f: Format) -> NDArray[np.int32]:
    """The exponent of each code as the hardware aligns it: that of a subnormal number is the smallest of the format."""
    magnitude = (bits.astype(np.int64) >> f.shift & f.magnitude_mask).astype(np.int32)
    field = magnitude >> f.mantissa_bits
    if not f.mantissa_bits:
        return field - f.bias
    return np.where(magnitude == 0, ZERO_EXPONENT, np.maximum(field, 1) - f.bias).astype(np.int32)


def numbers(bits: Bits, name: str) -> Numbers:
    """Codes of a format, decoded."""
    return Numbers(np.asarray(formats.decode(bits, name), np.float64), exponents(bits, FORMATS[name]))


def accumulate(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """C + A B of one instruction, as bits of D's type.

    a: (..., M, K) and b: (..., K, N) with K that of the instruction; c: (..., M, N), bits of D's type. The scale factors of A are
    (..., M, K / block), those of B (..., K / block, N). All have the same number of dimensions.
    """
    with quiet():
        return _METHODS[rule.emulation](kind, rule, a, b, c, scales)


def _units(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """A chain of fused sums along K, ascending: the D of one is the C of the next."""
    unit = rule.unit or kind.k
    for first in range(0, kind.k, unit):
        part = slice(first, first + unit)
        c = _fused(kind, rule, a[..., part], b[..., part, :], c, scales)
    return c


def _fused(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """One fused sum, in pieces of rows."""
    shape = np.broadcast_shapes(a.value.shape[:-2], b.value.shape[:-2], c.shape[:-2])
    rows, depth, columns = a.value.shape[-2], a.value.shape[-1], b.value.shape[-1]
    whole = np.broadcast_to(c, (*shape, rows, columns))
    step = max(1, _STEP // max(1, depth * columns * int(np.prod(shape))))
    found = np.empty((*shape, rows, columns), FORMATS[kind.d].dtype)
    for first in range(0, rows, step):
        at = (..., slice(first, first + step), slice(None))
        part = None if scales is None else (scales[0][at], scales[1])
        found[at] = _sum(kind, rule, a[at], b, whole[at], part)
    return found


def _sum(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    addend, exponent = addends(rule, a, b, scales)
    before = numbers(c, kind.d)
    largest = np.maximum(exponent.max(axis=0), before.exponent)
    unit = np.ldexp(1.0, rule.fraction - largest)
    addend *= unit
    total = np.trunc(addend, out=addend).sum(axis=0)
    total += np.trunc(before.value * unit)
    bits = rounded(np.ldexp(total, largest - rule.fraction), rule, kind.d)
    factors = () if scales is None else (scales[0].value, scales[1].value)
    if not all(np.isfinite(x).all() for x in (a.value, b.value, before.value, *factors)):
        put_specials(bits, kind.d, a.value, b.value, before.value)
        if scales is not None:
            lost = np.isnan(factors[0]).any(axis=-1, keepdims=True) | np.isnan(factors[1]).any(axis=-2, keepdims=True)
            bits[np.broadcast_to(lost, bits.shape)] = NAN[kind.d]
    return bits


def addends(rule: Rule, a: Numbers, b: Numbers, scales: Scales) -> tuple[Float64, NDArray[np.int32]]:
    """The addends of a sum and their exponents: (products or groups of them, ..., M, N)."""
    products = _along(a.value, -1)[..., None] * _along(b.value, -2)[..., None, :]
    if rule.group == 1:
        exponent = _along(a.exponent, -1)[..., None] + _along(b.exponent, -2)[..., None, :]
    else:
        products = products.reshape(-1, rule.group, *products.shape[1:]).sum(axis=1)
        exponent = np.zeros(products.shape, np.int32)
    if scales is None:
        return products, exponent
    of_a, of_b = scales
    repeat = len(products) // of_a.value.shape[-1]
    factor = _along(of_a.value, -1)[..., None] * _along(of_b.value, -2)[..., None, :]
    shift = _along(of_a.exponent, -1)[..., None] + _along(of_b.exponent, -2)[..., None, :]
    return products * np.repeat(factor, repeat, axis=0), exponent + np.repeat(shift, repeat, axis=0)


def _along(x: NDArray[Any], axis: int) -> NDArray[Any]:
    """K first: sums over the first axis add whole matrices."""
    return np.ascontiguousarray(np.moveaxis(x, axis, 0))


def rounded(total: Float64, rule: Rule, name: str) -> Bits:
    """An exact sum as D: cut off toward zero to f32 or rounded to the nearest f16, in each case with infinity on overflow."""
    if name == "f16":
        return total.astype(np.float16).view(np.uint16)
    cut = (total.view(np.uint64) & ~np.uint64((1 << 29) - 1)).view(np.float64)
    small = np.abs(total) < 2.0**-126
    if small.any():
        cut[small] = np.ldexp(np.trunc(np.ldexp(total[small], 149)), -149)
    bits = cut.astype(np.float32).view(np.uint32)
    return bits & ~np.uint32((1 << 23 - rule.kept) - 1)


def _fma(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """A chain of fma along K, ascending, from C on."""
    total = _along_k(a.value, b.value, range(kind.k), formats.decode(c, kind.d))
    return _nearest(np.asarray(total, np.float64), kind.d)


def _chain(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """m8n8k4 of f16 as ptxas emulates it: `unit` products by fma in f32, from zero on, then an addition to C in f32."""
    unit = rule.unit or kind.k
    total = formats.decode(c, kind.d).astype(np.float32)
    x, y = a.value.astype(np.float32), b.value.astype(np.float32)
    for first in range(0, kind.k, unit):
        total = total + _along_k(x, y, range(first, first + unit), np.zeros_like(total))
    return _nearest(total.astype(np.float64), kind.d)


def _along_k(x: NDArray[Any], y: NDArray[Any], steps: range, total: NDArray[Any]) -> NDArray[Any]:
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2], total.shape[:-2]), x.shape[-2], y.shape[-1])
    total = np.broadcast_to(total, shape)
    for i in steps:
        left = np.broadcast_to(x[..., :, i : i + 1], shape)
        right = np.broadcast_to(y[..., i : i + 1, :], shape)
        total = floating.fma(np.ascontiguousarray(left), np.ascontiguousarray(right), np.ascontiguousarray(total))
    return total


def _nearest(total: Float64, name: str) -> Bits:
    bits = formats.encode(total, name)
    if name in NAN:
        bits[np.isnan(total)] = NAN[name]
    return bits


def _halves(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """FP8 as ptxas emulates it where mma.sync has none: two fused sums of f16 operands, then C in one addition, to nearest."""
    a, b = (numbers(formats.encode(x.value, "f16"), "f16") for x in (a, b))  # no subnormal e4m3 number is one in f16
    shape = np.broadcast_shapes(a.value.shape[:-2], b.value.shape[:-2], c.shape[:-2])
    total = np.zeros((*shape, a.value.shape[-2], b.value.shape[-1]), FORMATS[kind.d].dtype)
    pair = np.arange(kind.k) % 4 < 2
    for half in (pair, ~pair):
        total = _fused(kind, rule, a[..., half], b[..., half, :], total, None)
    return _nearest(formats.decode(total, kind.d) + formats.decode(c, kind.d), kind.d)


_METHODS = {"": _units, "fma": _fma, "chain": _chain, "halves": _halves}
