import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyptx.numerics import floating
from tests.numerics.reference import MODES, combine, fma, random_bits, round_exact, same

TYPES = {"f32": (np.float32, np.uint32, 32), "f64": (np.float64, np.uint64, 64)}


def operands(name: str, count: int, seed: int, number: int = 2) -> list[np.ndarray]:
    dtype, _, bits = TYPES[name]
    rng = np.random.default_rng(seed)
    arrays = [random_bits(rng, count, bits).view(dtype) for _ in range(number)]
    # A share of sums that cancel, where the low half of a product decides.
    if number == 3:
        cancel = rng.integers(0, 4, count) == 0
        arrays[2] = np.where(cancel, -(arrays[0] * arrays[1]), arrays[2])
    else:
        arrays[1] = np.where(rng.integers(0, 8, count) == 0, -arrays[0], arrays[1])
    return arrays


def add_reference(a: float, b: float, name: str, mode: str) -> float:
    return fma(a, 1.0, b, name, mode)


def mul_reference(a: float, b: float, name: str, mode: str) -> float:
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and b == 0) or (a == 0 and math.isinf(b)):
        return math.nan
    sign = math.copysign(1, a) * math.copysign(1, b)
    if math.isinf(a) or math.isinf(b):
        return sign * math.inf
    exact = Fraction(a) * Fraction(b)
    return round_exact(exact, name, mode) if exact else sign * 0.0


def div_reference(a: float, b: float, name: str, mode: str) -> float:
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or (a == 0 and b == 0):
        return math.nan
    sign = math.copysign(1, a) * math.copysign(1, b)
    if math.isinf(a) or b == 0:
        return sign * math.inf
    if a == 0 or math.isinf(b):
        return sign * 0.0
    return round_exact(Fraction(a) / Fraction(b), name, mode)


def sqrt_reference(a: float, name: str, mode: str) -> float:
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    # A root to 2**-1300 with a sticky bit, far below the bits that decide.
    scaled = Fraction(a) * 4**1300
    root = math.isqrt(int(scaled))
    return round_exact(Fraction(2 * root + (root * root != scaled), 2 << 1300), name, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("function", "reference"),
    [(floating.add, add_reference), (floating.mul, mul_reference), (floating.div, div_reference)],
    ids=["add", "mul", "div"],
)
def test_binary_is_correctly_rounded(function, reference, name, mode):
    a, b = operands(name, 1500, 1)
    got = function(a, b, rounding=mode)
    for x, y, r in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        want = reference(x, y, name, mode)
        assert same(r, want), (x.hex(), y.hex(), r.hex(), want.hex())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TYPES)
def test_fma_is_correctly_rounded(name, mode):
    a, b, c = operands(name, 3000, 2, 3)
    got = floating.fma(a, b, c, rounding=mode)
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        want = fma(x, y, z, name, mode)
        assert same(r, want), (x.hex(), y.hex(), z.hex(), r.hex(), want.hex())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TYPES)
def test_sqrt_is_correctly_rounded(name, mode):
    a, _ = operands(name, 600, 3)
    got = floating.sqrt(a, rounding=mode)
    for x, r in zip(a.tolist(), got.tolist(), strict=True):
        assert same(r, sqrt_reference(x, name, mode)), (x.hex(), r.hex())


doubles = st.integers(0, 2**64 - 1).map(lambda i: struct.unpack("d", struct.pack("Q", i))[0])
singles = st.integers(0, 2**32 - 1).map(lambda i: struct.unpack("f", struct.pack("I", i))[0])


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.floats() | doubles, st.floats() | doubles, st.floats() | doubles, st.sampled_from(MODES))
def test_fma_f64_property(a, b, c, mode):
    got = floating.fma(np.array([a]), np.array([b]), np.array([c]), rounding=mode)
    assert same(got[0], fma(a, b, c, "f64", mode))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(*[st.floats(width=32) | singles] * 3, st.sampled_from(MODES))
def test_fma_f32_property(a, b, c, mode):
    got = floating.fma(*(np.array([x], np.float32) for x in (a, b, c)), rounding=mode)
    assert same(got[0], fma(a, b, c, "f32", mode))


def check_fma(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    for mode in MODES:
        got = floating.fma(a, b, c, rounding=mode)
        for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
            assert same(r, fma(x, y, z, name, mode)), (x.hex(), y.hex(), z.hex(), r.hex())


def test_fma_f32_next_to_a_tie_that_float64_cannot_tell_from_it():
    """What the fast path must notice: products half-way, addends below float64's last bit."""
    rng = np.random.default_rng(4)
    k, m = 2 * rng.integers(0, 1 << 10, 500) + 1, 2 * rng.integers(0, 1 << 10, 500) + 1
    a, b = (1 + k / 2**12).astype(np.float32), (1 + m / 2**12).astype(np.float32)
    c = np.ldexp(rng.choice([-1.0, 1.0], 500), -rng.integers(60, 140, 500)).astype(np.float32)
    check_fma("f32", a, b, c)


def test_fma_f32_next_to_a_tie_of_subnormals():
    """Half-way moves there: the product is 2**-150 * (1 - 2**-46), half a unit less a trifle."""
    a = np.full(64, 2.0**-75 * (1 + 2.0**-23), np.float32)
    b = np.full(64, 2.0**-75 * (1 - 2.0**-23), np.float32)
    c = ((1 << 22) + np.arange(64, dtype=np.uint32)).view(np.float32)
    check_fma("f32", a, b, c)
    check_fma("f32", a, -b, c)


def test_fma_f64_next_to_a_tie():
    """a * a = 1 + 2**-26 + 2**-54, and c completes it to half-way plus or minus 2**-106 or less."""
    a = np.full(40, 1 + 2.0**-27)
    c = 2.0**-54 * (1 + np.arange(-20, 20) * 2.0**-52)
    check_fma("f64", a, a, c)
    check_fma("f64", a, -a, -c)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_large_arrays_equal_small_ones_and_broadcast(name, mode):
    a, b, c = operands(name, 20000, 5, 3)
    word = TYPES[name][1]
    whole = floating.fma(a, b, c, rounding=mode).view(word)
    pieces = [floating.fma(a[i : i + 100], b[i : i + 100], c[i : i + 100], rounding=mode) for i in range(0, 20000, 100)]
    assert np.array_equal(whole, np.concatenate(pieces).view(word))
    scalar = floating.fma(a.reshape(200, 100), b[:1], c[:100], rounding=mode)
    assert scalar.shape == (200, 100)
    full = floating.fma(a, np.repeat(b[:1], 20000), np.tile(c[:100], 200), rounding=mode)
    assert np.array_equal(scalar.ravel().view(word), full.view(word))


def test_nan_results_are_canonical():
    nan = np.array([0x7F800001, 0xFFC12345, 0x7FC00000], np.uint32).view(np.float32)
    one = np.ones(3, np.float32)
    inf = np.full(3, np.inf, np.float32)
    for mode in MODES:
        for r in (
            floating.add(nan, one, rounding=mode),
            floating.sub(inf, inf, rounding=mode),
            floating.mul(one * 0, inf, rounding=mode),
            floating.fma(one, nan, one, rounding=mode),
            floating.fma(one, one, nan, rounding=mode),
            floating.div(inf, inf, rounding=mode),
            floating.sqrt(-one, rounding=mode),
        ):
            assert (r.view(np.uint32) == 0x7FFFFFFF).all()
    assert (floating.minimum(nan, nan).view(np.uint32) == 0x7FFFFFFF).all()
    a = np.array([0x7FF0000000000123], np.uint64).view(np.float64)
    b = np.array([0xFFF8000000000456], np.uint64).view(np.float64)
    assert floating.add(a, b).view(np.uint64)[0] == 0x7FF8000000000123
    assert floating.fma(np.ones(1), np.ones(1), b).view(np.uint64)[0] == 0xFFF8000000000456
    assert floating.mul(np.zeros(1), np.array([np.inf])).view(np.uint64)[0] == 0xFFF8000000000000


def test_flush_to_zero():
    tiny = np.array([1, 0x80000001, 0x007FFFFF, 0x00800000], np.uint32).view(np.float32)
    one = np.ones(4, np.float32)
    assert floating.mul(tiny, one, ftz=True).view(np.uint32).tolist() == [0, 0x80000000, 0, 0x00800000]
    assert floating.add(tiny, one * 0, ftz=True).view(np.uint32).tolist() == [0, 0, 0, 0x00800000]
    half = one * np.float32(0.5)
    least = np.full(4, 2.0**-126, np.float32)
    assert floating.mul(least, -half, ftz=True).view(np.uint32).tolist() == [0x80000000] * 4
    assert floating.fma(least, half, one * 0, ftz=True).view(np.uint32).tolist() == [0] * 4
    assert floating.rcp(tiny[:3], ftz=True).tolist() == [np.inf, -np.inf, np.inf]


def test_saturation():
    a = np.array([-1.0, -0.0, 0.25, 1.0, 3.0, np.inf, -np.inf, np.nan], np.float32)
    r = floating.add(a, np.array([-0.0], np.float32), sat=True)
    assert r.view(np.uint32).tolist() == np.array([0, 0, 0.25, 1, 1, 1, 0, 0], np.float32).view(np.uint32).tolist()
    assert (floating.fma(a, np.ones_like(a), a, rounding="rz", sat=True) == np.array([0, 0, 0.5, 1, 1, 1, 0, 0])).all()


@pytest.mark.parametrize("name", TYPES)
def test_min_max(name):
    dtype = TYPES[name][0]
    specials = [0.0, -0.0, 1.0, -1.0, 2.0, math.inf, -math.inf, math.nan]
    a = np.array([x for x in specials for _ in specials], dtype)
    b = np.array([y for _ in specials for y in specials], dtype)

    def key(x: float) -> tuple[float, float]:
        return (x, math.copysign(1, x))

    for function, pick in ((floating.minimum, min), (floating.maximum, max)):
        plain, strict = function(a, b).tolist(), function(a, b, nan=True).tolist()
        xorsign = function(a, b, abs=True, xorsign=True).tolist()
        for x, y, r, s, t in zip(a.tolist(), b.tolist(), plain, strict, xorsign, strict=True):
            numbers = [v for v in (x, y) if not math.isnan(v)]
            want = pick(numbers, key=key) if numbers else math.nan
            assert same(r, want)
            assert same(s, math.nan if len(numbers) < 2 else want)
            magnitude = pick(map(abs, numbers)) if numbers else math.nan
            assert same(t, math.copysign(magnitude, math.copysign(1, x) * math.copysign(1, y)))
    three = floating.maximum(a, b, np.full_like(a, 1.5))
    assert np.array_equal(three, np.fmax(np.fmax(a, b), 1.5))


def test_comparisons():
    values = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]
    a = np.array([x for x in values for _ in values], np.float32)
    b = np.array([y for _ in values for y in values], np.float32)
    ordered = {
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y,
    }
    for name, test in ordered.items():
        for suffix, on_nan in (("", False), ("u", True)):
            got = floating.compare(a, b, name + suffix).tolist()
            for x, y, r in zip(a.tolist(), b.tolist(), got, strict=True):
                assert r == (on_nan if math.isnan(x) or math.isnan(y) else test(x, y)), (name, suffix, x, y)
    nan = np.isnan(a) | np.isnan(b)
    assert np.array_equal(floating.compare(a, b, "nan"), nan)
    assert np.array_equal(floating.compare(a, b, "num"), ~nan)
    assert floating.compare(np.array([1e-40], np.float32), np.zeros(1, np.float32), "eq", ftz=True).all()
    truth = np.array([True, False])
    assert floating.set_value(truth, "u32").tolist() == [0xFFFFFFFF, 0]
    assert floating.set_value(truth, "s16").tolist() == [-1, 0]
    assert floating.set_value(truth, "f32").tolist() == [1.0, 0.0]
    assert floating.set_value(truth, "f16").view(np.float16).tolist() == [1.0, 0.0]


def test_testp_and_copysign():
    a = np.array([0.0, 1e-40, 1.0, np.inf, np.nan], np.float32)
    want = {
        "finite": [1, 1, 1, 0, 0],
        "infinite": [0, 0, 0, 1, 0],
        "number": [1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 1],
        "normal": [1, 0, 1, 0, 0],
        "subnormal": [0, 1, 0, 0, 0],
    }
    for name, row in want.items():
        assert floating.testp(a, name).tolist() == [bool(x) for x in row], name
    assert floating.copysign(np.array([-1.0]), np.array([2.0])).tolist() == [-2.0]


def test_packed_f32x2():
    a = np.array([[1.5, -2.0], [np.nan, 1.0]], np.float32).view(np.uint64).ravel()
    b = np.array([[2.0, 3.0], [1.0, 0.25]], np.float32).view(np.uint64).ravel()
    r = floating.packed_f32x2(floating.fma, a, b, a, rounding="rz").view(np.float32)
    assert r[[0, 1, 3]].tolist() == [4.5, -8.0, 1.25]
    assert np.isnan(r[2])


def test_rm_gives_negative_zero_for_exact_cancellation():
    x = np.array([1.5], np.float32)
    for values in (x, x.astype(np.float64)):
        assert np.signbit(floating.sub(values, values, rounding="rm"))[0]
        assert not np.signbit(floating.sub(values, values, rounding="rz"))[0]
        assert np.signbit(floating.fma(values, values, -values * values, rounding="rm"))[0]
    assert same(combine(Fraction(0), True, "f32", "rm"), -0.0)
