"""The engine's own fma.rn.f32 against exact rational arithmetic, where rounding twice would go wrong and
everywhere else.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pyptx.numerics import quiet
from pyptx.simulator.semantics.integer import fused_multiply_add


def exact(a: np.float32, b: np.float32, c: np.float32) -> float:
    """a * b + c rounded to the nearest f32, ties to even."""
    value = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if value == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c))  # the sign of zero is IEEE's in any precision
    exponent = -149
    size = abs(value)
    while size >= Fraction(2) ** (exponent + 24):
        exponent += 1
    quotient = size / Fraction(2) ** exponent
    whole = int(quotient)
    rest = quotient - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)
    result = Fraction(whole) * Fraction(2) ** exponent
    result = float(result) if result < Fraction(2) ** 128 else float("inf")
    return -result if value < 0 else result


def awkward(rng: np.random.Generator, count: int) -> np.ndarray:
    """f32 values of every magnitude, many with few significant bits so that sums fall on ties."""
    bits = rng.integers(0, 2**32, count, dtype=np.uint32)
    mantissa = rng.integers(0, 24, count).astype(np.uint32)
    bits &= ~((np.uint32(1) << mantissa) - np.uint32(1))
    near = rng.random(count) < 0.7
    exponent = rng.integers(100, 155, count).astype(np.uint32) << np.uint32(23)
    bits = np.where(near, (bits & np.uint32(0x807F_FFFF)) | exponent, bits)
    return bits.view(np.float32)


@pytest.mark.parametrize("lanes", [1, 96, 2048, 8192, 3000])
def test_fma_is_rounded_once(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    a, b, c = (awkward(rng, lanes) for _ in range(3))
    # sums that are half-way in f64 but not exactly: 1 + 2**-24 + a tiny part
    third = slice(0, lanes // 3)
    a[third] = np.float32(1 + 2**-12)
    b[third] = np.float32(1 + 2**-12)
    c[third] = (rng.choice([-1, 1], lanes // 3) * 2.0 ** rng.integers(-60, -20, lanes // 3)).astype(np.float32)
    tiny = slice(lanes // 3, lanes // 2)
    a[tiny] *= np.float32(2.0**-70)
    b[tiny] *= np.float32(2.0**-70)
    c[tiny] *= np.float32(2.0**-126)
    with quiet():
        got = np.empty(lanes, np.float32)
        got[...] = fused_multiply_add(lanes)(a, b, c)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    want = np.array([exact(*v) if ok else 0.0 for *v, ok in zip(a, b, c, finite, strict=True)], np.float64).astype(
        np.float32
    )
    assert np.array_equal(got.view(np.uint32)[finite], want.view(np.uint32)[finite])
    with quiet():
        other = (a.astype(np.float64) * b + c)[~finite]
    nan = np.isnan(other)
    assert (got[~finite].view(np.uint32)[nan] == 0x7FFF_FFFF).all()
    assert np.array_equal(got[~finite][~nan], other[~nan].astype(np.float32))
