"""Four small floats at once, against the value tables of the headers and exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pyptx.numerics import alternate
from tests.numerics.small_floats import pack, rounded, values_of

SMALL = ("e5m2x4", "e4m3x4", "e3m2x4", "e2m3x4", "e2m1x4", "e2m1p4x4", "ue8m0x4")
RESULTS = ("e5m2x4", "e4m3x4")


def all_pairs(first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of codes, in an order that gives each element of a register every code."""
    a, b = np.meshgrid(np.arange(values_of(first).size), np.arange(values_of(second).size))
    return a.ravel(), b.ravel()


def check(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got.view(np.uint8), want)


@pytest.mark.parametrize("satfinite", [False, True])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("atype", SMALL[:-1])
def test_every_sum_and_difference(atype: str, result: str, satfinite: bool) -> None:
    rng = np.random.default_rng()
    a, c = all_pairs(atype, result)
    x, y = values_of(atype)[a], values_of(result)[c]
    registers = pack(a, atype, rng), pack(c, result, rng)
    types = (result, atype)
    check(alternate.add(*registers, types=types, satfinite=satfinite), rounded(x + y, result, satfinite))
    check(alternate.sub(*registers, types=types, satfinite=satfinite), rounded(x - y, result, satfinite))


@pytest.mark.parametrize("satfinite", [False, True])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("ctype", SMALL)
@pytest.mark.parametrize("atype", SMALL)
def test_every_product(atype: str, ctype: str, result: str, satfinite: bool) -> None:
    rng = np.random.default_rng()
    a, c = all_pairs(atype, ctype)
    got = alternate.mul(pack(a, atype, rng), pack(c, ctype, rng), types=(result, atype, ctype), satfinite=satfinite)
    check(got, rounded(values_of(atype)[a] * values_of(ctype)[c], result, satfinite))


def exactly(a: float, b: float, c: float) -> float:
    """a * b + c, where it is finite as the nearest float64 on the same side of every number of 8 bits."""
    product = a * b
    if not math.isfinite(product) or not math.isfinite(c) or product == 0:
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    near = float(exact)
    if exact == Fraction(near):
        return near if near else product + c
    # numbers of 8 bits and their midpoints are exact in float64: a step towards the exact value passes none
    return (
        near
        if len(f"{Fraction(near).numerator:b}".rstrip("0")) > 10
        else math.nextafter(near, math.copysign(math.inf, exact - Fraction(near)))
    )


@pytest.mark.parametrize("satfinite", [False, True])
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("btype", ["e5m2x4", "e3m2x4", "e2m1x4", "ue8m0x4"])
@pytest.mark.parametrize("atype", ["e4m3x4", "e2m3x4", "e2m1p4x4", "ue8m0x4"])
def test_fused_multiply_add_rounds_once(atype: str, btype: str, result: str, satfinite: bool) -> None:
    rng = np.random.default_rng()
    codes = [rng.integers(0, values_of(t).size, 2048) for t in (atype, btype, result)]
    if "ue8m0x4" in (atype, btype):  # half of the scales near one, where the sums are interesting
        for code, t in zip(codes, (atype, btype), strict=False):
            if t == "ue8m0x4":
                code[:1024] = rng.integers(108, 140, 1024)
    a, b, c = (values_of(t)[code] for t, code in zip((atype, btype, result), codes, strict=True))
    exact = np.array([exactly(*abc) for abc in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)])
    got = alternate.fma(
        *(pack(code, t, rng) for t, code in zip((atype, btype, result), codes, strict=True)),
        types=(result, atype, btype),
        satfinite=satfinite,
    )
    check(got, rounded(exact, result, satfinite))


@pytest.mark.parametrize("result", RESULTS)
def test_sums_with_a_power_of_two_far_away(result: str) -> None:
    """ue8m0 reaches 2^127 and 2^-127: the exact sum has up to 143 bits."""
    rng = np.random.default_rng()
    a, c = all_pairs("ue8m0x4", result)
    x, y = values_of("ue8m0x4")[a], values_of(result)[c]
    registers = pack(a, "ue8m0x4", rng), pack(c, result, rng)
    exact = np.array([exactly(p, 1.0, q) for p, q in zip(x.tolist(), y.tolist(), strict=True)])
    check(alternate.add(*registers, types=(result, "ue8m0x4")), rounded(exact, result, False))
