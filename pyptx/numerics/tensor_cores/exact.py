"""The exact sum of products, rounded once: the other answer to what a matrix instruction computes.

Products of whole matrices in float64 are exact in any order where the operands' exponents lie close enough together; operands are
split by exponent until they do. So the result does not depend on how a BLAS adds.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import formats
from .specials import put_specials

Float64 = NDArray[np.float64]
Bits = NDArray[np.unsignedinteger[Any]]
_DIGITS = 53


def exact(a: NDArray[Any], b: NDArray[Any], c: Bits, name: str) -> Bits:
    """C + A B for numbers in A and B; C and the result are bits of the type `name`, f32 or f16."""
    x, y, z = (np.asarray(v, np.float64) for v in (a, b, formats.decode(c, name)))
    special = not all(np.isfinite(v).all() for v in (x, y, z))
    left, right = (np.where(np.isfinite(v), v, 0.0) if special else v for v in (x, y))
    total = true_sum(left, right, np.where(np.isfinite(z), z, 0.0) if special else z)
    found = total.astype(np.float16 if name == "f16" else np.float32)
    bits = found.view(np.uint16 if name == "f16" else np.uint32)
    if special:
        put_specials(bits, name, x, y, z)
    return bits


def true_sum(x: Float64, y: Float64, z: Float64) -> Float64:
    """Z + X Y for finite numbers, rounded to odd: rounding it again to fewer digits is as rounding the true sum."""
    return _sum([*(part @ other for part, other in _pieces(x, y)), z])


def _pieces(x: Float64, y: Float64) -> list[tuple[Float64, Float64]]:
    """Pairs of matrices whose products are exact and add up to that of `x` and `y`."""
    spans = [_span(v) for v in (x, y)]
    free = _DIGITS - 1 - (x.shape[-1] - 1).bit_length() - sum(digits for _, _, digits in spans)
    if sum(high - low for low, high, _ in spans) <= free:
        return [(x, y)]
    window = max(1, free // 2)
    return list(product(_windows(x, spans[0], window), _windows(y, spans[1], window)))


def _span(v: Float64) -> tuple[int, int, int]:
    """The exponents of the smallest and the largest number, and how many binary digits numbers have at most."""
    fraction, exponent = np.frexp(v)
    used = exponent[v != 0]
    if not used.size:
        return 0, 0, 1
    word = int(np.bitwise_or.reduce(np.ascontiguousarray(fraction).view(np.uint64), axis=None)) & (1 << 52) - 1
    digits = _DIGITS + 1 - (word & -word).bit_length() if word else 1
    return int(used.min()), int(used.max()), digits


def _windows(v: Float64, span: tuple[int, int, int], size: int) -> list[Float64]:
    """The numbers of `v` by their exponents, `size` + 1 of them in each matrix, zeros for the others."""
    low, high, _ = span
    group = (np.frexp(v)[1] - low) // (size + 1)
    found = [np.where((group == i) & (v != 0), v, 0.0) for i in range((high - low) // (size + 1) + 1)]
    return [part for part in found if part.any()]


def _sum(terms: list[Float64]) -> Float64:
    """The sum, rounded to odd: rounding it again to fewer digits is as rounding the true sum."""
    parts: list[Float64] = []
    for term in terms:
        carried, kept = term, []
        for part in parts:
            carried, rest = _two_sum(carried, part)
            kept.append(rest)
        parts = [*kept, carried]
    total = parts[0]
    for part in parts[1:]:
        total = _odd_sum(total, part)
    return total


def _two_sum(x: Float64, y: Float64) -> tuple[Float64, Float64]:
    """The nearest sum and what it lacks."""
    total = x + y
    other = total - x
    return total, (x - (total - other)) + (y - other)


def _odd_sum(x: Float64, y: Float64) -> Float64:
    total, rest = _two_sum(x, y)
    inexact = rest != 0
    if not inexact.any():
        return total
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    toward = np.where(rest > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(total, toward), total)
