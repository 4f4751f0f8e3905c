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
from .accumulate import Bits, Numbers, Scales, accumulate, addends, numbers
from .exact import true_sum
from .sums import Factors, Sum, Values, of_values, scaled

Float64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Losses:
    """One number for each element of D. Where an operand is not finite, or D is infinite, there is no error: it is zero."""

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
    x, y = of_values(a, kind.a), of_values(b, kind.b)
    scales = None if factors is None else (of_values(factors[0], kind.scale), of_values(factors[1], kind.scale))
    parts: list[Any] = [slice(k, k + (rule.unit or kind.k)) for k in range(0, a.shape[-1], rule.unit or kind.k)]
    if rule.emulation == "halves":
        x, y, c = of_values(a, "f16"), of_values(b, "f16"), np.zeros_like(c)
        pair = np.arange(a.shape[-1]) % 4 < 2
        parts = [pair, ~pair]
    elif rule.emulation:
        return
    for part in parts:
        left, right = x[..., part], y[..., part, :]
        own: Scales = None
        if scales is not None:
            blocks = slice(part.start // kind.block, part.stop // kind.block)
            own = scales[0][..., blocks], scales[1][..., blocks, :]
        terms, exponent = addends(rule, left, right, own)
        yield rule.fraction, terms, exponent, numbers(c, kind.d)
        c = accumulate(
            replace(kind, k=left.value.shape[-1]), replace(rule, unit=None, emulation=""), left, right, c, own
        )
