"""Instructions on packed operands of several types through the whole path, against exact arithmetic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pyptx.simulator import load
from tests.numerics.reference import fma, round_exact
from tests.numerics.small_floats import pack, rounded, values_of

COUNT = 256
POISON = 0xA5A5A5A5A5A5A5A5


def run(target: str, instruction: str, operands: list[np.ndarray], result: type[np.unsignedinteger[Any]]) -> np.ndarray:
    """`instruction` names its operands %d, %a, %b, %c; registers are as wide as the arrays' elements."""
    arrays = dict(zip("abcd", operands, strict=False))
    wide = {name: 8 * x.itemsize for name, x in arrays.items()} | {"d": 8 * np.dtype(result).itemsize}
    loads = "".join(
        f"ld.param.b64 %p, [p{n}]; mad.wide.u32 %p, %t, {wide[n] // 8}, %p; ld.global.b{wide[n]} %{n}, [%p];\n"
        for n in arrays
    )
    text = f""".version 9.5
.target {target}
.address_size 64
.visible .entry k({", ".join(f".param .b64 p{n}" for n in (*arrays, "d"))})
{{
.reg .b32 %t;
.reg .b64 %p;
{"".join(f".reg .b{wide[n]} %{n};" for n in wide)}
mov.u32 %t, %tid.x;
{loads}{instruction}
ld.param.b64 %p, [pd];
mad.wide.u32 %p, %t, {wide["d"] // 8}, %p;
st.global.b{wide["d"]} [%p], %d;
ret;
}}
"""
    d = np.full(COUNT, POISON & (2 ** wide["d"] - 1), result)
    load(text)["k"].simulate(*arrays.values(), d, grid=1, block=COUNT)
    return d


# -- four small floats


@pytest.mark.parametrize(
    ("op", "types", "function"),
    [
        ("add", "e4m3x4.e2m1x4.e4m3x4", operator.add),
        ("add.rn.satfinite", "e5m2x4.e3m2x4.e5m2x4", operator.add),
        ("sub", "e5m2x4.e2m3x4.e5m2x4", operator.sub),
        ("sub.satfinite", "e4m3x4.e4m3x4.e4m3x4", operator.sub),
        ("mul", "e4m3x4.e2m1p4x4.e2m1x4", operator.mul),
        ("mul.rn.satfinite", "e5m2x4.ue8m0x4.e4m3x4", operator.mul),
        ("mul", "e4m3x4.e5m2x4.e3m2x4", operator.mul),
    ],
)
def test_small_floats(op: str, types: str, function: Callable[[Any, Any], Any]) -> None:
    rng = np.random.default_rng()
    result, *operands = types.split(".")
    codes = [rng.integers(0, values_of(t).size, 4 * COUNT) for t in operands]
    written = types if op.startswith("mul") else types.rpartition(".")[0]
    registers = [pack(c, t, rng) for c, t in zip(codes, operands, strict=True)]
    got = run("sm_100a", f"{op}.{written} %d, %a, %b;", registers, np.uint32)
    with np.errstate(all="ignore"):
        exact = function(*(values_of(t)[c] for c, t in zip(codes, operands, strict=True)))
    np.testing.assert_array_equal(got.view(np.uint8), rounded(exact, result, "satfinite" in op))


def test_small_floats_are_fused() -> None:
    rng = np.random.default_rng()
    types = ("e2m1x4", "e4m3x4", "e5m2x4")
    codes = [rng.integers(0, values_of(t).size, 4 * COUNT) for t in types]
    registers = [pack(c, t, rng) for c, t in zip(codes, types, strict=True)]
    got = run("sm_100a", "fma.rn.e5m2x4.e2m1x4.e4m3x4 %d, %a, %b, %c;", registers, np.uint32)
    a, b, c = (values_of(t)[code] for t, code in zip(types, codes, strict=True))
    with np.errstate(all="ignore"):
        exact = a * b + c  # at most 2 + 4 + 3 bits over 40 binades: exact in float64
    np.testing.assert_array_equal(got.view(np.uint8), rounded(exact, "e5m2x4", False))


# -- pairs of different types

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    2.0**-149,
    -(2.0**-140),
    2.0**-24,
    65504.0,
    -65520.0,
    3e38,
]


def singles(rng: np.random.Generator) -> np.ndarray:
    """Pairs of f32 of all sizes that halves know, and some that they do not."""
    x = (rng.normal(size=2 * COUNT) * 2.0 ** rng.integers(-30, 18, 2 * COUNT)).astype(np.float32)
    x[: len(SPECIAL) * 8] = rng.choice(np.array(SPECIAL, np.float32), len(SPECIAL) * 8)
    return rng.permutation(x).view(np.uint64)


def half_pairs(kind: str, rng: np.random.Generator) -> np.ndarray:
    x = rng.integers(0, 2**16, 2 * COUNT, dtype=np.uint16)
    if kind == "bf16":  # of sizes that f32 numbers of `singles` can be added to
        x[::2] = singles(rng).view(np.uint32)[::2] >> 16
    return x.view(np.uint32)


def values(x: np.ndarray, kind: str) -> list[float]:
    if kind == "f32":
        return x.view(np.float32).astype(float).tolist()
    if kind == "f16":
        return x.view(np.float16).astype(float).tolist()
    with np.errstate(invalid="ignore"):
        return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(float).tolist()


def bits(x: float, kind: str) -> int:
    """Of a number of that type; every NaN is the canonical one."""
    if math.isnan(x):
        return 0x7FFFFFFF if kind == "f32" else 0x7FFF
    if kind == "f16":
        return int(np.float16(x).view(np.uint16))
    return int(np.float32(x).view(np.uint32)) >> (0 if kind == "f32" else 16)


def multiply(a: float, b: float, kind: str, mode: str) -> float:
    with np.errstate(all="ignore"):
        plain = float(np.float64(a) * np.float64(b))
    return plain if plain == 0 or not math.isfinite(plain) else round_exact(Fraction(a) * Fraction(b), kind, mode)


def compare(got: np.ndarray, kind: str, want: list[float]) -> None:
    dtype = np.uint32 if kind == "f32" else np.uint16
    np.testing.assert_array_equal(got.view(dtype), np.array([bits(x, kind) for x in want], dtype))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_a_pair_of_halves_is_widened(narrow: str, mode: str) -> None:
    rng = np.random.default_rng()
    a, b, c = half_pairs(narrow, rng), singles(rng), singles(rng)
    x, y, z = values(a, narrow), values(b, "f32"), values(c, "f32")
    types = f"{mode}.f32x2.{narrow}x2.f32x2"
    got = run("sm_107a", f"add.{types} %d, %a, %b;", [a, b], np.uint64)
    compare(got, "f32", [fma(p, 1.0, q, "f32", mode) for p, q in zip(x, y, strict=True)])
    got = run("sm_107a", f"sub.{types} %d, %a, %b;", [a, b], np.uint64)
    compare(got, "f32", [fma(p, 1.0, -q, "f32", mode) for p, q in zip(x, y, strict=True)])
    got = run("sm_107a", f"fma.{types}.f32x2 %d, %a, %b, %c;", [a, b, c], np.uint64)
    compare(got, "f32", [fma(p, q, r, "f32", mode) for p, q, r in zip(x, y, z, strict=True)])


def flushed(x: float, kind: str) -> float:
    smallest = 2.0**-126 if kind == "f32" else 2.0**-14
    return math.copysign(0.0, x) if abs(x) < smallest else x


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs_of_singles_are_cut_off_to_halves(kind: str) -> None:
    rng = np.random.default_rng()
    a, b = singles(rng), singles(rng)
    x, y = values(a, "f32"), values(b, "f32")
    modifiers = "rz.ftz" if kind == "f16" else "rz"
    if kind == "f16":
        x, y = [flushed(v, "f32") for v in x], [flushed(v, "f32") for v in y]
    pairs = list(zip(x, y, strict=True))
    for op, want in {
        "add": [fma(p, 1.0, q, kind, "rz") for p, q in pairs],
        "sub": [fma(p, 1.0, -q, kind, "rz") for p, q in pairs],
        "mul": [multiply(p, q, kind, "rz") for p, q in pairs],
    }.items():
        got = run("sm_107a", f"{op}.{modifiers}.{kind}x2.f32x2.f32x2 %d, %a, %b;", [a, b], np.uint32)
        compare(got, kind, [flushed(v, kind) for v in want] if kind == "f16" else want)


@pytest.mark.parametrize(("kind", "other"), [("f16", "bf16"), ("bf16", "f16")])
def test_halves_of_two_kinds_are_multiplied(kind: str, other: str) -> None:
    rng = np.random.default_rng()
    a, b = half_pairs(kind, rng), half_pairs(other, rng)
    got = run("sm_107a", f"mul.{kind}x2.{kind}x2.{other}x2 %d, %a, %b;", [a, b], np.uint32)
    pairs = zip(values(a, kind), values(b, other), strict=True)
    compare(got, kind, [multiply(p, q, kind, "rn") for p, q in pairs])


# -- packed integers


COMPARISONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "comparison"),
    [
        (k, c)
        for k in ("u8x4", "s8x4", "u16x2", "s16x2")
        for c in COMPARISONS
        if k[0] == "u" or c[0] not in "lh" or c in ("lt", "le")
    ],
)
def test_set_of_packed_integers(kind: str, comparison: str) -> None:
    function = COMPARISONS[comparison]
    rng = np.random.default_rng()
    a, b = rng.integers(0, 2**32, (2, COUNT), dtype=np.uint32)
    b[::2] ^= rng.integers(0, 256, COUNT // 2, dtype=np.uint32) << 8  # where a and b differ in one place
    b[1::4] = a[1::4]
    got = run("sm_107a", f"set.{comparison}.{kind} %d, %a, %b;", [a, b], np.uint32)
    width = int(kind[1:].partition("x")[0])
    element = {"u": {8: np.uint8, 16: np.uint16}, "s": {8: np.int8, 16: np.int16}}[kind[0]][width]
    want = [
        2**width - 1 if function(p, q) else 0
        for p, q in zip(a.view(element).tolist(), b.view(element).tolist(), strict=True)
    ]
    np.testing.assert_array_equal(got.view(f"u{width // 8}"), want)


# -- turns


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_angles_in_turns(op: str) -> None:
    rng = np.random.default_rng()
    x = (rng.normal(size=COUNT) * 2.0 ** rng.integers(-20, 30, COUNT)).astype(np.float32)
    x[:12] = [0, -0.0, 0.25, 0.5, -0.75, 1, 3.5, 2.0**25, 1e-40, math.inf, -math.inf, math.nan]
    got = run("sm_90", f"{op}.approx.ftz.2pi.f32 %d, %a;", [x.view(np.uint32)], np.uint32).view(np.float32)
    for a, r in zip(x.tolist(), got.tolist(), strict=True):
        if not math.isfinite(a):
            assert math.isnan(r)
            continue
        turn = float(Fraction(a) % 1)
        assert abs(r - getattr(math, op)(2 * math.pi * turn)) < 2**-20.5, a
