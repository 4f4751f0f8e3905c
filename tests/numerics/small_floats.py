"""Independent reference for FP8, FP6 and FP4: the value tables of the headers and a search for the nearest number."""

from __future__ import annotations

import numpy as np

from tests.numerics.reference import load

TABLES = load("numeric_formats.json")["formats"]
BEYOND = {"e5m2": 65536.0, "e4m3": 480.0}
"""What the code above the largest number's would stand for."""
INFINITE = {"e5m2": 0x7C, "e4m3": 0x7F}


def element(type_: str) -> str:
    return type_.removesuffix("x4").removesuffix("p4")


def values_of(type_: str) -> np.ndarray:
    return np.array([float.fromhex(v) if "x" in v else float(v) for v in TABLES[element(type_)]["values_hexfloat"]])


def pack(codes: np.ndarray, type_: str, rng: np.random.Generator) -> np.ndarray:
    """Registers of four codes each, with noise where a byte has room above its number."""
    if type_ == "e2m1x4":
        nibbles = codes.astype(np.uint16).reshape(-1, 4)
        return (nibbles << np.array([0, 4, 8, 12], np.uint16)).sum(axis=1, dtype=np.uint16)
    count = len(TABLES[element(type_)]["values_hexfloat"])
    noise = rng.integers(0, 256 // count, codes.size, dtype=np.uint8) * np.uint8(count % 256)
    return (codes.astype(np.uint8) | noise).view("<u4")


def rounded(exact: np.ndarray, type_: str, satfinite: bool) -> np.ndarray:
    """The codes nearest to float64 values that are exact: a search among the numbers of the format."""
    numbers = np.sort(np.unique(np.abs(values_of(type_)[np.isfinite(values_of(type_))])))
    between = (numbers + np.append(numbers[1:], BEYOND[element(type_)])) / 2
    magnitude = np.where(np.isnan(exact), 0, np.abs(exact))
    low, high = np.searchsorted(between, magnitude, "left"), np.searchsorted(between, magnitude, "right")
    code = np.where((low != high) & (low % 2 == 1), high, low)
    code[code == numbers.size] = numbers.size - 1 if satfinite else INFINITE[element(type_)]
    code |= np.signbit(exact).astype(np.int64) << 7
    return np.where(np.isnan(exact) | (code & 0x7F == 0x7F), 0x7F, code).astype(np.uint8)
