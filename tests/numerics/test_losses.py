"""What sums lose, against exact rationals: the errors of D and the addends that alignment cuts, by the rules as they are published."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import numerics
from pyptx.numerics.tensor_cores.losses import Losses, losses
from pyptx.numerics.tensor_cores.sums import sum_for

DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "e2m1": ml_dtypes.float4_e2m1fn, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
SMALLEST = {"f16": -14, "bf16": -126, "f32": -126, "e4m3": -6, "e5m2": -14, "f64": -1022}
DIGITS = {"f32": 23, "f16": 10, "f64": 52}
WORDS = {"f32": np.uint32, "f16": np.uint16, "f64": np.uint64}


def exponent(value: Fraction, name: str) -> int:
    """The block exponent of a number: subnormal numbers have the smallest one of the format, zeros -126."""
    if not value:
        return -126
    top = abs(value.numerator).bit_length() - value.denominator.bit_length()
    top -= abs(value) < Fraction(2) ** top
    return max(top, SMALLEST[name])


def aligned(addends: list[tuple[Fraction, int]], fraction: int) -> tuple[bool, bool]:
    """Whether one addend loses bits, and whether one loses all of them."""
    unit = Fraction(2) ** (max(x for _, x in addends) - fraction)
    cut = any((value / unit).denominator != 1 for value, _ in addends)
    return cut, any(value and abs(value) < unit for value, _ in addends)


def operands(name: str, shape: tuple[int, int], spread: int) -> np.ndarray:
    rng = np.random.default_rng(len(name) + 7 * spread + shape[0])
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    return np.where(rng.random(shape) < 0.1, 0, values).astype(DTYPES[name])


def matrix(values: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(v)) for v in row] for row in values]


def lost_by(kind: str, arch: str, a: Any, b: Any, c: Any, d: Any, sparse: bool = False) -> Losses:
    instruction, *_, k, dt, at, bt = kind.split(".")
    how = sum_for(instruction, (dt, at, bt), (a.shape[0], int(k[1:])), arch, sparse=sparse)
    wide = [np.asarray(x, np.float64) for x in (a, b)]
    return losses(how, wide[0], wide[1], c.view(WORDS[dt]), None, d.view(WORDS[dt]))


def check_errors(found: Losses, a: Any, b: Any, c: Any, d: Any, name: str) -> None:
    left, right, before, result = (matrix(np.asarray(x, np.float64)) for x in (a, b, c, d))
    for i, row in enumerate(left):
        for j in range(len(right[0])):
            true = before[i][j] + sum(p * right[k][j] for k, p in enumerate(row))
            assert abs(Fraction(float(found.exact[i, j])) - true) <= abs(true) / 2**52
            error = result[i][j] - true
            close = abs(error) if name == "f64" else abs(true)
            assert abs(Fraction(float(found.error[i, j])) - error) <= close / 2**51
            largest = max(abs(true), abs(result[i][j]))
            ulp = Fraction(2) ** ((exponent(largest, name) if largest else SMALLEST[name]) - DIGITS[name])
            assert found.ulps[i, j] == pytest.approx(float(abs(error) / ulp), rel=1e-5, abs=1e-8)


CASES = [
    # kind, architecture, bits of fraction, units of K: the kind that computes one of them, for C of the next
    ("wgmma.k32.f32.e4m3.e5m2", "sm_90a", 13, ""),
    ("wgmma.k32.f16.e5m2.e4m3", "sm_90a", 13, ""),
    ("wgmma.k16.f32.bf16.bf16", "sm_90a", 25, ""),
    ("tcgen05.k16.f16.f16.f16", "sm_100a", 25, ""),
    ("mma.k16.f32.f16.f16", "sm_80", 24, "mma.m16n8k8.f32.f16.f16.f32"),
    ("mma.k32.f32.e4m3.e4m3", "sm_89", 13, "mma.m16n8k16.f32.e4m3.e4m3.f32"),
]


@pytest.mark.parametrize(("kind", "arch", "fraction", "unit"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
@pytest.mark.parametrize("spread", [1, 6])
def test_units(kind: str, arch: str, fraction: int, unit: str, spread: int) -> None:
    _, k, dt, at, bt = kind.split(".")
    depth = int(k[1:])
    a, b = operands(at, (5, depth), spread), operands(bt, (depth, 7), spread)
    c = operands(dt, (5, 7), spread)
    d = numerics.dot(a, b, c, kind=kind, arch=arch)
    found = lost_by(kind, arch, a, b, c, d)
    check_errors(found, a, b, c, d, dt)
    assert found.finite.all() and not found.overflowed.any()
    parts = [c] if not unit else [c, numerics.dot(a[:, : depth // 2], b[: depth // 2], c, kind=unit, arch=arch)]
    size = depth // len(parts)
    left, right = matrix(a), matrix(b)
    want = np.zeros((2, 5, 7), bool)
    for part, before in enumerate(map(matrix, parts)):
        for i, j in np.ndindex(5, 7):
            products = [
                (left[i][x] * right[x][j], exponent(left[i][x], at) + exponent(right[x][j], bt))
                for x in range(part * size, (part + 1) * size)
            ]
            want[:, i, j] |= aligned([*products, (before[i][j], exponent(before[i][j], dt))], fraction)
    assert np.array_equal(found.cut, want[0]) and np.array_equal(found.lost, want[1])
    assert spread == 1 or (want[0].any() and (fraction > 13 or want[1].any()))


def test_emulated_fp8_adds_c_to_nearest() -> None:
    """mma.sync of FP8 on sm_90: two sums of f16 without C, which is not aligned and cannot lose anything."""
    a, b = operands("e4m3", (4, 32), 6), operands("e5m2", (32, 6), 6)
    c = np.full((4, 6), 2.0**40, np.float32)
    d = numerics.dot(a, b, c, kind="mma.m16n8k32.f32.e4m3.e5m2.f32", arch="sm_90")
    found = lost_by("mma.k32.f32.e4m3.e5m2", "sm_90", a, b, c, d)
    check_errors(found, a, b, c, d, "f32")
    left, right = matrix(a), matrix(b)
    pair = [k for k in range(32) if k % 4 < 2]
    half = numerics.dot(
        a[:, pair].astype(np.float16), b[pair].astype(np.float16), kind="mma.m16n8k16.f32.f16.f16.f32", arch="sm_90"
    )
    want = np.zeros((2, 4, 6), bool)
    for i, j in np.ndindex(4, 6):
        for chosen, before in ((pair, Fraction(0)), ([k for k in range(32) if k % 4 > 1], Fraction(float(half[i, j])))):
            products = [
                (left[i][x] * right[x][j], exponent(left[i][x], "f16") + exponent(right[x][j], "f16")) for x in chosen
            ]
            want[:, i, j] |= aligned([*products, (before, exponent(before, "f32"))], 25)
    assert np.array_equal(found.cut, want[0]) and np.array_equal(found.lost, want[1])


def test_f64_has_no_alignment() -> None:
    a, b, c = (operands("f64", s, 6) for s in ((8, 4), (4, 8), (8, 8)))
    d = numerics.dot(a, b, c, kind="mma.m8n8k4.f64.f64.f64.f64", arch="sm_80")
    found = lost_by("mma.k4.f64.f64.f64", "sm_80", a, b, c, d)
    check_errors(found, a, b, c, d, "f64")
    assert found.error.any() and not found.cut.any() and not found.lost.any()


def test_block_scaled_groups() -> None:
    """Sixteen products are summed exactly, times their factors, whose exponents alone count for the alignment."""
    rng = np.random.default_rng(3)
    a, b = operands("e2m1", (4, 64), 1), operands("e2m1", (64, 5), 1)
    c = operands("f32", (4, 5), 1)
    of_a, of_b = (np.exp2(rng.integers(-8, 9, s)).astype(ml_dtypes.float8_e4m3fn) for s in ((4, 4), (4, 5)))
    kind = "tcgen05.block16.f32.e2m1.e2m1.ue4m3"
    d = numerics.dot(a, b, c, kind=kind, arch="sm_100", scale_a=of_a.view(np.uint8), scale_b=of_b.view(np.uint8))
    how = sum_for("tcgen05", ("f32", "e2m1", "e2m1"), (128, 64), "sm_100a", block=16, scale="ue4m3", packed=True)
    factors = of_a.astype(np.float64), of_b.astype(np.float64)
    found = losses(how, a.astype(np.float64), b.astype(np.float64), c.view(np.uint32), factors, d.view(np.uint32))
    x = np.repeat(factors[0], 16, axis=1) * a.astype(np.float64)
    y = np.repeat(factors[1], 16, axis=0) * b.astype(np.float64)
    check_errors(found, x, y, c, d, "f32")
    left, right, before = matrix(a), matrix(b), matrix(c)
    want = np.zeros((2, 4, 5), bool)
    for i, j in np.ndindex(4, 5):
        addends = [(before[i][j], exponent(before[i][j], "f32"))]
        for g in range(4):
            scale = Fraction(float(factors[0][i, g])) * Fraction(float(factors[1][g, j]))
            total = sum(left[i][k] * right[k][j] for k in range(16 * g, 16 * g + 16))
            shift = sum(exponent(Fraction(float(v)), "e4m3") for v in (factors[0][i, g], factors[1][g, j]))
            addends.append((total * scale, shift))
        want[:, i, j] = aligned(addends, 35)
    assert np.array_equal(found.cut, want[0]) and np.array_equal(found.lost, want[1])


def test_what_is_not_finite() -> None:
    """Overflow counts where the operands are finite; infinities and NaNs among them are set apart."""
    a = np.array([[2.0**120], [np.inf], [1.0], [np.nan]], np.float64) * np.ones(16)
    b = np.full((16, 2), 2.0**8)
    c = np.zeros((4, 2), np.float32)
    a = a.astype(ml_dtypes.bfloat16)
    b = b.astype(ml_dtypes.bfloat16)
    d = numerics.dot(a, b, c, kind="wgmma.f32.bf16.bf16", arch="sm_90")
    found = lost_by("wgmma.k16.f32.bf16.bf16", "sm_90a", a, b, c, d)
    assert found.finite.tolist() == [[True] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert found.overflowed.tolist() == [[True] * 2, [False] * 2, [False] * 2, [False] * 2]
    assert not found.error.any() and not found.ulps.any()
    assert found.exact[2].tolist() == [4096.0, 4096.0]
