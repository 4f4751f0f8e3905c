"""Independent reference: rounding of exact rationals, one number at a time, in plain Python integers."""

import gzip
import json
import math
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

LAYOUTS = Path(__file__).parents[1] / "data" / "layouts"
MODES = ("rn", "rz", "rm", "rp")
# name: (mantissa bits, exponent of the smallest subnormal, largest finite number)
FORMATS = {
    "f16": (10, -24, Fraction(65504)),
    "bf16": (7, -133, Fraction(255) * 2**120),
    "tf32": (10, -136, Fraction(2047) * 2**117),
    "f32": (23, -149, Fraction(2**24 - 1) * 2**104),
    "f64": (52, -1074, Fraction(2**53 - 1) * 2**971),
}


def load(name: str) -> Any:
    path = LAYOUTS / name
    if path.exists():
        return json.loads(path.read_text())
    return json.loads(gzip.decompress(path.with_name(name + ".gz").read_bytes()))


def log2_floor(x: Fraction) -> int:
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def round_exact(x: Fraction, name: str, mode: str) -> float:
    """The number of the format that IEEE 754 gives for a non-zero rational, as a Python float."""
    mantissa, smallest, largest = FORMATS[name]
    magnitude = abs(x)
    unit = Fraction(2) ** max(log2_floor(magnitude) - mantissa, smallest)
    down = magnitude // unit
    rest = magnitude / unit - down
    if mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1)
    else:
        up = rest != 0 and mode == ("rp" if x > 0 else "rm")
    result = (down + up) * unit
    if result > largest:
        toward_zero = mode == "rz" or mode == ("rm" if x > 0 else "rp")
        value = float(largest) if toward_zero else math.inf
    else:
        value = float(result)
    return -value if x < 0 else value


def combine(x: Fraction, negative_addends: bool, name: str, mode: str) -> float:
    """Round a sum; exact zeros follow IEEE 754 section 6.3 (callers leave out sums of two zeros)."""
    if x == 0:
        return -0.0 if mode == "rm" and negative_addends else 0.0
    return round_exact(x, name, mode)


def same(got: Any, want: float) -> bool:
    got = float(got)
    if math.isnan(want):
        return math.isnan(got)
    return struct.pack("d", got) == struct.pack("d", want)


def fma(a: float, b: float, c: float, name: str, mode: str) -> float:
    """a * b + c for any operands, NaN for every NaN."""
    sign = math.copysign(1, a) * math.copysign(1, b)
    if any(map(math.isnan, (a, b, c))) or (math.isinf(a) and b == 0) or (a == 0 and math.isinf(b)):
        return math.nan
    if math.isinf(a) or math.isinf(b):
        return math.nan if math.isinf(c) and math.copysign(1, c) != sign else sign * math.inf
    if math.isinf(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0 and (a == 0 or b == 0):  # both addends are zeros
        if sign == math.copysign(1, c):
            return c
        return -0.0 if mode == "rm" else 0.0
    return combine(exact, True, name, mode)


def random_bits(rng: np.random.Generator, count: int, bits: int) -> np.ndarray:
    """Bit patterns that favour what breaks arithmetic: extreme exponents, few mantissa bits, specials."""
    exponent_bits = {16: 5, 32: 8, 64: 11}[bits]
    mantissa_bits = bits - 1 - exponent_bits
    top = (1 << exponent_bits) - 1
    near = rng.integers(top // 2 - 4, top // 2 + 4, count)
    edge = rng.choice(np.array([0, 1, 2, mantissa_bits, top - 2, top - 1, top]), count)
    anywhere = rng.integers(0, top + 1, count)
    exponent = np.choose(rng.integers(0, 3, count), [near, edge, anywhere]).astype(np.uint64)
    full = rng.integers(0, 1 << mantissa_bits, count, dtype=np.uint64)
    few = np.uint64(1) << rng.integers(0, mantissa_bits, count).astype(np.uint64)
    ones = (np.uint64(1) << np.uint64(mantissa_bits)) - few
    mantissa = np.choose(rng.integers(0, 4, count), [full, few, ones, np.zeros(count, np.uint64)])
    sign = rng.integers(0, 2, count).astype(np.uint64)
    value = sign << np.uint64(bits - 1) | exponent << np.uint64(mantissa_bits) | mantissa
    return value.astype(f"u{bits // 8}")
