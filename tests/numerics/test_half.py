import math

import numpy as np
import pytest

from pyptx.numerics import floating, half
from tests.numerics.reference import MODES, fma, load, random_bits, same

HOST = load("host_arith.json")["ops"]


def codes(values: list[str]) -> np.ndarray:
    return np.array([int(v, 16) for v in values], np.uint16)


@pytest.mark.parametrize("op", HOST, ids=lambda op: f"{op['fn']}-{op['dst']}-{op['src']}")
def test_host_vectors(op):
    kind = op["src"].split(",")[0]
    a, b, want = codes(op["a"]), codes(op["b"]), [int(v, 16) for v in op["out"]]
    name = op["fn"].removeprefix("__h")
    if name == "div":
        # Not an instruction; the headers divide in f32 and round.
        got = half.from_f32(floating.div(half.to_f32(a, kind), half.to_f32(b, kind)), kind)
    elif name.split("_")[0] in ("add", "sub", "mul"):
        got = getattr(half, name.split("_")[0])(a, b, kind, sat=name.endswith("_sat"))
    elif name.startswith(("max", "min")):
        function = half.maximum if name.startswith("max") else half.minimum
        got = function(a, b, kind, nan=name.endswith("_nan"))
    else:
        # __hne is true on NaN? In CUDA the plain comparisons are ordered ones.
        got = half.compare(a, b, kind, name)
    assert got.astype(int).tolist() == want


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("mode", MODES)
def test_arithmetic_is_correctly_rounded(kind, mode):
    rng = np.random.default_rng(1)
    a, b, c = (random_bits(rng, 3000, 16) for _ in range(3))
    if kind == "bf16":
        a, b, c = ((random_bits(rng, 3000, 32) >> 16).astype(np.uint16) for _ in range(3))
    c = np.where(rng.integers(0, 4, 3000) == 0, half.mul(a, b, kind) ^ np.uint16(0x8000), c)
    x, y, z = (half.to_f32(v, kind).tolist() for v in (a, b, c))
    one = [1.0] * len(x)
    cases = [(half.fma(a, b, c, kind, rounding=mode), (x, y, z))]
    if mode == "rn":
        cases += [
            (half.add(a, b, kind), (x, one, y)),
            (half.sub(a, b, kind), (x, one, [-v for v in y])),
        ]
    for got, operands in cases:
        for r, *values in zip(half.to_f32(got, kind).tolist(), *operands, strict=True):
            assert same(r, fma(*values, kind, mode)), (r, values)
    if mode == "rn":
        for r, u, v in zip(half.to_f32(half.mul(a, b, kind), kind).tolist(), x, y, strict=True):
            zero = math.copysign(0.0, math.copysign(1, u) * math.copysign(1, v))
            assert same(r, fma(u, v, zero, kind, mode)), (r, u, v)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_conversions_to_and_from_f32(kind):
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    wide = half.to_f32(every, kind)
    number = ~np.isnan(wide)
    assert np.array_equal(half.from_f32(wide, kind)[number], every[number])
    assert (half.from_f32(wide, kind)[~number] == 0x7FFF).all()
    assert np.array_equal(half.from_f64(wide.astype(np.float64), kind)[number], every[number])


def test_modifiers():
    f16 = lambda *values: np.array(values, np.float16).view(np.uint16)  # noqa: E731
    tiny = np.array([0x0001, 0x8001, 0x0400], np.uint16)
    one = f16(1, 1, 1)
    assert half.mul(tiny, one, "f16", ftz=True).tolist() == [0, 0x8000, 0x0400]
    assert half.mul(tiny, one, "bf16", ftz=False).tolist() != []
    assert half.fma(one, one, f16(-3, -1, 4), "f16", relu=True).tolist() == f16(0, 0, 5).tolist()
    nan = np.array([0xFE01], np.uint16)
    assert half.fma(nan, one[:1], one[:1], "f16", relu=True).tolist() == [0x7FFF]
    assert half.fma(nan, one[:1], one[:1], "f16", sat=True).tolist() == [0]
    oob = np.array([half.OOB_NAN], np.uint16)
    assert half.fma(oob, one[:1], one[:1], "f16", oob=True).tolist() == [0]
    assert half.neg(f16(1, 0), "f16").tolist() == f16(-1, -0.0).tolist()
    assert half.absolute(f16(-1, -0.0), "f16").tolist() == f16(1, 0).tolist()
    assert half.maximum(f16(-2), f16(1), "f16", xorsign_abs=True).tolist() == f16(-2).tolist()


def test_packed_registers():
    values = np.array([[1, 2], [-3, 0.5]], np.float16)
    register = values.view(np.uint32).ravel()
    assert half.add(register, register, "f16x2").view(np.float16).tolist() == [2, 4, -6, 1]
    zero = np.zeros(2, np.uint32)
    assert half.compare(register, zero, "f16x2", "gt").tolist() == [[True, True], [False, True]]


def test_mixed_precision():
    a = np.array([1.5, -2.0], np.float16).view(np.uint16)
    c = np.array([2.0**-30, 1.0], np.float32)
    assert half.mixed_add(a, c, "f16", rounding="rp").tolist() == [1.5 + 2.0**-23, -1.0]
    assert half.mixed_sub(a, c, "f16", rounding="rz").tolist() == [1.5 - 2.0**-23, -3.0]
    assert half.mixed_fma(a, a, c, "f16", sat=True).tolist() == [1.0, 1.0]
