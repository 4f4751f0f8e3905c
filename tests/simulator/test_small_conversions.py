"""cvt to small floats with one scale, and without negative zeros, through the whole path."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.numerics.reference import round_exact
from tests.numerics.small_floats import values_of
from tests.simulator.test_mixed_types import COUNT, bits, half_pairs, run, singles, values

UE5M3 = np.array([(c & 7) / 8 * 2.0**-14 if c < 8 else (1 + (c & 7) / 8) * 2.0 ** ((c >> 3) - 15) for c in range(255)])
NAN = {"e4m3": 0x7F, "e5m2": 0x7F, "ue5m3": 0xFF}
"""The other formats have the largest number for it."""


def encoded(x: float, type_: str, mode: str, relu: bool, pzo: bool) -> int:
    """The code of an exact value under .satfinite, by a search among the numbers of the format."""
    numbers = UE5M3 if type_ == "ue5m3" else np.unique(np.abs(values_of(type_)[np.isfinite(values_of(type_))]))
    if math.isnan(x):
        return NAN.get(type_, numbers.size - 1)
    if relu and x <= 0:
        x = 0.0
    at = int(np.searchsorted(numbers, abs(x), "right")) - 1  # the number itself, or the next below
    if mode == "rn" and at + 1 < numbers.size:
        rest = 2 * Fraction(abs(x)) - Fraction(numbers[at]) - Fraction(numbers[at + 1])
        at += rest > 0 or (rest == 0 and at % 2 == 1)
    negative = math.copysign(1.0, x) < 0 and type_ != "ue5m3" and not (pzo and at == 0)
    sign = {"e2m1": 8, "e2m3": 32, "e3m2": 32}.get(type_, 128)
    return at + sign * negative


def small_sources(kind: str, rng: np.random.Generator) -> list[np.ndarray]:
    """Operands that hold two values each, or two operands."""
    if kind == "f32":
        pair = singles(rng).view(np.uint32)
        return [pair[:COUNT].copy(), pair[COUNT:].copy()]
    return [half_pairs(kind, rng)]


def pairs_of(operands: list[np.ndarray], kind: str) -> list[tuple[float, float]]:
    """(the upper value, the lower)."""
    if kind == "f32":
        return list(zip(values(operands[0], kind), values(operands[1], kind), strict=True))
    both = values(operands[0], kind)
    return list(zip(both[1::2], both[::2], strict=True))


@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("element", ["e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "ue5m3"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_one_scale_divides_both(element: str, source: str, mode: str) -> None:
    rng = np.random.default_rng()
    relu, pzo = (bool(b) for b in rng.integers(0, 2, 2)) if element != "ue5m3" else (False, False)
    operands = small_sources(source, rng)
    scale = rng.integers(110, 145, COUNT).astype(np.uint8)
    scale[:4] = [0, 254, 255, 127]
    names = ", ".join(f"%{n}" for n in "abc"[: len(operands) + 1])
    options = ".relu" * relu + ".pzo" * pzo
    kind = "f32" if source == "f32" else f"{source}x2"
    result = np.uint8 if element == "e2m1" else np.uint16
    line = f"cvt.{mode}.satfinite{options}.scaled::n1::ue8m0.{element}x2.{kind} %d, {names};"
    got = run("sm_107a", line, [*operands, scale], result)
    smallest = 2.0**-14 if source == "f16" else 2.0**-126
    width = 4 if element == "e2m1" else 8
    for r, s, pair in zip(got.tolist(), scale.tolist(), pairs_of(operands, source), strict=True):
        factor = math.nan if s == 255 else 2.0 ** (s - 127)
        upper, lower = (
            encoded((math.copysign(0, x) if abs(x) < smallest else x) / factor, element, mode, relu, pzo) for x in pair
        )
        assert r == upper << width | lower, (line, pair, s, hex(r))


@pytest.mark.parametrize("element", ["e4m3", "e5m2", "e2m1", "e2m3", "e3m2"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("pzo", [False, True])
def test_small_floats_without_negative_zeros(element: str, mode: str, pzo: bool) -> None:
    rng = np.random.default_rng()
    operands = small_sources("f32", rng)
    result = np.uint8 if element == "e2m1" else np.uint16
    line = f"cvt.{mode}.satfinite{'.pzo' * pzo}.{element}x2.f32 %d, %a, %b;"
    got = run("sm_107a", line, operands, result)
    width = 4 if element == "e2m1" else 8
    for r, pair in zip(got.tolist(), pairs_of(operands, "f32"), strict=True):
        upper, lower = (encoded(x, element, mode, False, pzo) for x in pair)
        assert r == upper << width | lower, (line, pair, hex(r))


@pytest.mark.parametrize("pzo", [False, True])
@pytest.mark.parametrize(
    ("kind", "mode"),
    [("f16", "rn"), ("f16", "rp"), ("bf16", "rm"), ("bf16", "rn"), ("tf32", "rz"), ("f16x2", "rz"), ("bf16x2", "rn")],
)
def test_floats_without_negative_zeros(kind: str, mode: str, pzo: bool) -> None:
    rng = np.random.default_rng()
    operands = small_sources("f32", rng)
    for x in operands:  # numbers that become zero, or nearly do
        x[::3] = (
            (rng.normal(size=x[::3].size) * 2.0 ** rng.integers(-150, -120, x[::3].size))
            .astype(np.float32)
            .view(np.uint32)
        )
    element = kind.removesuffix("x2")
    names = "%a, %b" if kind.endswith("x2") else "%a"
    operands = operands if kind.endswith("x2") else operands[:1]
    line = f"cvt.{mode}{'.pzo' * pzo}.{kind}.f32 %d, {names};"
    got = run("sm_107a", line, operands, np.uint16 if kind in ("f16", "bf16") else np.uint32)
    wanted = []
    for x in (values(o, "f32") for o in operands):
        rounded = [v if v == 0 or not math.isfinite(v) else round_exact(Fraction(v), element, mode) for v in x]
        wanted.append([bits(0.0 if pzo and v == 0 else v, "f32" if element == "tf32" else element) for v in rounded])
    if kind == "tf32":  # its NaN is not specified further than its upper 19 bits
        np.testing.assert_array_equal(got >> 13, np.array(wanted[0], np.uint32) >> 13)
    elif len(wanted) == 2:
        np.testing.assert_array_equal(got, np.array(wanted[0], np.uint32) << 16 | np.array(wanted[1], np.uint32))
    else:
        np.testing.assert_array_equal(got, np.array(wanted[0], np.uint16))
