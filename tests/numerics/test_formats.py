import math

import ml_dtypes
import numpy as np
import pytest

from pyptx.numerics import formats
from tests.numerics.reference import load

TABLES = load("numeric_formats.json")["formats"]
ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
}


@pytest.mark.parametrize("name", [n for n, t in TABLES.items() if "values_hexfloat" in t])
def test_decode_matches_the_header_tables(name):
    want = TABLES[name]["values_hexfloat"]
    got = formats.decode(np.arange(len(want), dtype=np.uint8), name)
    for code, (r, text) in enumerate(zip(got.tolist(), want, strict=True)):
        try:
            value = float.fromhex(text)
        except ValueError:
            value = float(text)
        if math.isnan(value):
            assert math.isnan(r), hex(code)
        else:
            assert (r, math.copysign(1, r)) == (value, math.copysign(1, value)), hex(code)


@pytest.mark.parametrize("name", TABLES)
def test_parameters_match_the_header_tables(name):
    table, f = TABLES[name], formats.FORMATS[name]
    assert (f.bits, f.exponent_bits, f.mantissa_bits, f.bias) == tuple(table[k] for k in ("bits", "exp", "man", "bias"))
    if "max" in table:
        assert f.max == eval(table["max"].replace("^", "**"))
    if "canonical_nan" in table:
        assert f.canonical_nan == int(table["canonical_nan"], 16)


@pytest.mark.parametrize("name", ML_DTYPES)
def test_encode_matches_ml_dtypes(name):
    """Every number, every midpoint between two and its neighbours."""
    f = formats.FORMATS[name]
    codes = np.arange(f.max_code + 1).astype(f.dtype)
    numbers = formats.decode(codes, name)
    middles = (numbers[1:] + numbers[:-1]) / 2
    points = np.concatenate([numbers, middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf)])
    if f.signed:
        points = np.concatenate([points, -points])
    if name == "ue8m0":
        points = numbers  # ml_dtypes rounds ue8m0 to nearest, which PTX does not have
    # ml_dtypes goes through f32: keep what that represents, it holds all midpoints.
    points = points[points.astype(np.float32) == points]
    got = formats.encode(points, name)
    want = points.astype(np.float32).astype(ML_DTYPES[name]).view(f.dtype)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("name", [n for n in formats.FORMATS if n != "f64"])
def test_encode_inverts_decode(name):
    f = formats.FORMATS[name]
    count = min(f.max_code, 1 << 16)
    codes = (np.linspace(0, f.max_code, count + 1).astype(np.int64) << f.shift).astype(f.dtype)
    for rounding in ("rn", "rna", "rz", "rm", "rp"):
        assert np.array_equal(formats.encode(formats.decode(codes, name), name, rounding), codes)
    nan = formats.encode(np.array([np.nan]), name)[0]
    assert nan == (f.max_code if f.nan == "none" else f.canonical_nan)


def test_directed_rounding_and_overflow_of_small_formats():
    x = np.array([1e9, -1e9, np.inf, -np.inf, 1e-9, -1e-9])
    assert formats.encode(x, "e4m3", "rz", satfinite=True).tolist() == [0x7E, 0xFE, 0x7E, 0xFE, 0, 0x80]
    assert formats.encode(x, "e5m2", "rz").tolist() == [0x7B, 0xFB, 0x7C, 0xFC, 0, 0x80]
    assert formats.encode(x, "e5m2", "rp").tolist() == [0x7C, 0xFB, 0x7C, 0xFC, 1, 0x80]
    assert formats.encode(x, "e5m2", "rm").tolist() == [0x7B, 0xFC, 0x7C, 0xFC, 0, 0x81]
    assert formats.encode(x, "e2m1", "rn").tolist() == [7, 15, 7, 15, 0, 8]


def test_s2f6_is_twos_complement_fixed_point():
    assert formats.decode(np.array([0x40, 0xC0, 0x7F, 0x80], np.uint8), "s2f6").tolist() == [
        1,
        -1,
        1.984375,
        -2,
    ]
    x = np.array([1.0, -1.0, 5.0, -5.0, np.nan, 1 / 128])
    assert formats.encode(x, "s2f6").tolist() == [0x40, 0xC0, 0x7F, 0x80, 0x7F, 0]
