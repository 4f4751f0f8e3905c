"""What sums of tensor cores lose: their errors against the true sum, and what alignment cuts off addends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import formats
from ..formats import FORMATS
from .accumulate import Bits, Numbers, Scales, accumulate, numbers, of_values
from .exact import true_sum
from .rules import Rule
from .sums import Factors, Sum, Values, scaled

Float64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Losses:
    """One number for each element of D. The error is zero where an operand is not finite or D is infinite."""

    exact: Float64
    """The true sum, to 53 digits."""
    error: Float64
    """D minus the true sum."""
    ulps: Float64
    """The size of the error in units in the last place of D's type, at the larger of D and the true sum."""
    cut: Flags
    """Whether alignment cut bits off an addend (a product, a group of products, or C)."""
    lost: Flags
    """Whether it cut all bits off an addend that is not zero."""
    overflowed: Flags
    """Whether D is infinite and the operands are finite."""
    finite: Flags
    """Whether the operands are finite."""


def losses(how: Sum, a: Values, b: Values, c: Bits, factors: Factors, result: Bits) -> Losses:
    """What a sum lost. `result` is D; the other arguments are those of `Sum`."""
    kind = how.kind
    d = np.asarray(formats.decode(result, kind.d), np.float64)
    x, y = (np.asarray(v, np.float64) for v in scaled(a, b, factors))
    z = np.asarray(formats.decode(c, kind.d), np.float64)
    finite = np.isfinite(x).all(axis=-1, keepdims=True) & np.isfinite(y).all(axis=-2, keepdims=True) & np.isfinite(z)
    overflowed = finite & ~np.isfinite(d)
    x, y, z = (np.where(np.isfinite(v), v, 0.0) for v in (x, y, z))
    kept = finite & ~overflowed
    exact, error = (_doubles if kind.d == "f64" else _narrower)(x, y, z, np.where(kept, d, 0.0))
    exact, error = np.where(kept, exact, 0.0), np.where(kept, error, 0.0)
    largest = np.maximum(np.abs(exact), np.abs(np.where(kept, d, 0.0)))
    cut, lost = _alignment(how, a, b, c, factors)
    return Losses(exact, error, np.abs(error) / _ulp(largest, kind.d), cut & finite, lost & finite, overflowed, finite)


def _ulp(value: Float64, name: str) -> Float64:
    f = FORMATS[name]
    exponent = np.maximum(np.frexp(value)[1] - 1, f.min_exponent)
    return np.ldexp(1.0, np.where(value == 0, f.min_exponent, exponent) - f.mantissa_bits)


def _narrower(x: Float64, y: Float64, z: Float64, d: Float64) -> tuple[Float64, Float64]:
    """The true sum and D's error where float64 has twice the digits of D, so that their difference is right to 29 digits."""
    exact = true_sum(x, y, z)
    return exact, d - exact


def _doubles(x: Float64, y: Float64, z: Float64, d: Float64) -> tuple[Float64, Float64]:
    """The same for numbers of f64, one by one."""
    exact, error = np.empty(d.shape), np.empty(d.shape)
    left = np.broadcast_to(x, (*d.shape[:-1], x.shape[-1]))
    right = np.broadcast_to(y, (*d.shape[:-2], *y.shape[-2:]))
    for at in np.ndindex(d.shape):
        row, column = left[at[:-1]].tolist(), right[(*at[:-2], slice(None), at[-1])].tolist()
        total = Fraction(float(z[at])) + sum(Fraction(p) * Fraction(q) for p, q in zip(row, column, strict=True))
        exact[at], error[at] = float(total), float(Fraction(float(d[at])) - total)
    return exact, error


# ------------------------------------------------------------------------------------------------------------ alignment


def _alignment(how: Sum, a: Values, b: Values, c: Bits, factors: Factors) -> tuple[Flags, Flags]:
    """Of which sums alignment cuts addends, and of which it loses some."""
    shape = np.broadcast_shapes((*a.shape[:-1], b.shape[-1]), c.shape)
    cut, lost = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    for rule_fraction, terms, exponent, before in _fused_sums(how, a, b, c, factors):
        largest = np.maximum(exponent.max(axis=0), before.exponent)
        unit = np.ldexp(1.0, rule_fraction - largest)
        for number in (*terms, before.value):
            aligned = np.abs(number * unit)
            cut |= (aligned != np.trunc(aligned)) & np.isfinite(aligned)
            lost |= (aligned < 1) & (aligned > 0)
    return cut, lost


def _fused_sums(
    how: Sum, a: Values, b: Values, c: Bits, factors: Factors
) -> Iterator[tuple[int, Float64, NDArray[np.int32], Numbers]]:
    """Fraction, addends, their exponents, and C, of each of the sums that align."""
    kind, rule = how.kind, how.rule
    for x, y, scales in how.instructions(a, b, factors):
        unit = rule.unit or kind.k
        parts: list[Any] = [slice(k, k + unit) for k in range(0, kind.k, unit)]
        if rule.emulation == "halves":
            x, y, c = of_values(x.value, "f16"), of_values(y.value, "f16"), np.zeros_like(c)
            pair = np.arange(kind.k) % 4 < 2
            parts = [pair, ~pair]
        elif rule.emulation:
            return
        for part in parts:
            left, right = x[..., part], y[..., part, :]
            terms, exponent = _addends(rule, left, right, scales)
            yield rule.fraction, terms, exponent, numbers(c, kind.d)
            depth = left.value.shape[-1]
            c = accumulate(replace(kind, k=depth), replace(rule, unit=None, emulation=""), left, right, c, scales)


def _addends(rule: Rule, a: Numbers, b: Numbers, scales: Scales) -> tuple[Float64, NDArray[np.int32]]:
    """The addends of a sum and their exponents: (products or groups of them, ..., M, N)."""
    products = _along(a.value, -1)[..., None].astype(np.float64) * _along(b.value, -2)[..., None, :]
    if rule.group == 1:
        exponent = _along(a.exponent, -1)[..., None] + _along(b.exponent, -2)[..., None, :]
    else:
        products = products.reshape(-1, rule.group, *products.shape[1:]).sum(axis=1)
        exponent = np.zeros(products.shape, np.int32)
    if scales is None:
        return products, exponent
    of_a, of_b = scales
    repeat = len(products) // of_a.value.shape[-1]
    factor = _along(of_a.value, -1)[..., None].astype(np.float64) * _along(of_b.value, -2)[..., None, :]
    shift = _along(of_a.exponent, -1)[..., None] + _along(of_b.exponent, -2)[..., None, :]
    return products * np.repeat(factor, repeat, axis=0), exponent + np.repeat(shift, repeat, axis=0)


def _along(x: NDArray[Any], axis: int) -> NDArray[Any]:
    """K first: sums over the first axis add whole matrices."""
    return np.ascontiguousarray(np.moveaxis(x, axis, 0))
