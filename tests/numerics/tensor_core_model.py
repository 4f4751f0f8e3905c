"""What tensor cores compute, once more: integers and fractions of Python, from a description of the hardware alone.

Shares nothing with `pyptx.numerics` but the codes of the formats. One dot product at a time, as slow as it is plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

FORMATS = {
    # exponent bits, mantissa bits, bias, specials
    "f32": (8, 23, 127, "ieee"), "tf32": (8, 10, 127, "ieee"), "f16": (5, 10, 15, "ieee"), "bf16": (8, 7, 127, "ieee"),
    "e5m2": (5, 2, 15, "ieee"), "e4m3": (4, 3, 7, "ones"), "e3m2": (3, 2, 3, ""), "e2m3": (2, 3, 1, ""), "e2m1": (2, 1, 1, ""),
    "ue4m3": (4, 3, 7, "ones"),
}  # fmt: skip
NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}
INFINITY = {"f32": 0x7F800000, "f16": 0x7C00}

Number = tuple[str, Fraction, int]
"""("finite", value, exponent), ("inf", sign, 0) or ("nan", 0, 0)."""


def read(code: int, name: str) -> Number:
    if name == "ue8m0":
        return ("nan", Fraction(0), 0) if code == 255 else ("finite", Fraction(2) ** (code - 127), code - 127)
    exponent_bits, mantissa_bits, bias, specials = FORMATS[name]
    if name == "tf32":
        code >>= 13
    mantissa = code % 2**mantissa_bits
    exponent = code >> mantissa_bits & 2**exponent_bits - 1
    negative = 0 if name == "ue4m3" else code >> mantissa_bits + exponent_bits & 1
    top = exponent == 2**exponent_bits - 1
    if specials == "ieee" and top:
        return ("nan", Fraction(0), 0) if mantissa else ("inf", Fraction(1 - 2 * negative), 0)
    if specials == "ones" and top and mantissa == 2**mantissa_bits - 1:
        return ("nan", Fraction(0), 0)
    if not exponent and not mantissa:
        return ("finite", Fraction(0), -126)
    x = max(exponent, 1) - bias
    significand = Fraction(mantissa, 2**mantissa_bits) + (exponent > 0)
    return ("finite", (-1) ** negative * significand * Fraction(2) ** x, x)


def toward_zero(value: Fraction, step: Fraction) -> Fraction:
    count = abs(value) // step
    return count * step if value >= 0 else -count * step


def exponent_of(value: Fraction) -> int:
    """The exponent of the leading bit of a number that is not zero."""
    guess = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
    return guess if abs(value) >= Fraction(2) ** guess else guess - 1


def write(value: Fraction, name: str, kept: int, nearest: bool) -> int:
    """The code of a number: cut off with `kept` bits of fraction, or to nearest even."""
    exponent_bits, mantissa_bits, bias, _ = FORMATS[name]
    if value == 0:
        return 0
    lowest = 1 - bias
    x = max(exponent_of(value), lowest)
    ulp = Fraction(2) ** (x - mantissa_bits)
    count = round(abs(value) / ulp) if nearest else int(toward_zero(abs(value), Fraction(2) ** (x - kept)) / ulp)
    code = count + (x - lowest) * 2**mantissa_bits  # a carry goes into the exponent
    code = min(code, INFINITY[name])
    return code | (value < 0) << exponent_bits + mantissa_bits


def special(products: list[tuple[Number, Number]], others: list[Number]) -> Number | None:
    """What infinities and NaNs make of a sum of products and other addends; None if all are finite."""
    signs: set[Fraction] = set()
    for x, y in products:
        if "nan" in (x[0], y[0]):
            return ("nan", Fraction(0), 0)
        if "inf" in (x[0], y[0]):
            if x[1] * y[1] == 0:
                return ("nan", Fraction(0), 0)
            signs.add(Fraction(1 if x[1] * y[1] > 0 else -1))
    for z in others:
        if z[0] == "nan":
            return z
        if z[0] == "inf":
            signs.add(z[1])
    if len(signs) > 1:
        return ("nan", Fraction(0), 0)
    return ("inf", signs.pop(), 0) if signs else None


def special_code(found: Number, name: str) -> int:
    if found[0] == "nan":
        return NAN[name]
    return INFINITY[name] | (found[1] < 0) << (31 if name == "f32" else 15)


def fused(addends: list[tuple[Fraction, int]], bits: int) -> Fraction:
    """Addends with their exponents, each cut off `bits` below the largest one, and summed."""
    step = Fraction(2) ** (max(x for _, x in addends) - bits)
    return sum((toward_zero(value, step) for value, _ in addends), Fraction(0))


def unit(
    a: list[Number],
    b: list[Number],
    c: int,
    d: str,
    bits: int,
    kept: int,
    scales: list[tuple[Number, Number]],
    group: int,
) -> int:
    """One fused sum; `scales` has the pair of each element, or nothing."""
    accumulator = read(c, d)
    lost = [s for pair in scales for s in pair if s[0] == "nan"]
    found = special(list(zip(a, b, strict=True)), [*lost, accumulator])
    if found:
        return special_code(found, d)
    factors = scales or [(("finite", Fraction(1), 0),) * 2] * len(a)
    addends = [(accumulator[1], accumulator[2])]
    for first in range(0, len(a), group):
        part = range(first, first + group)
        sa, sb = factors[first]
        total = sum((a[i][1] * b[i][1] for i in part), Fraction(0)) * sa[1] * sb[1]
        x = sa[2] + sb[2] + (a[first][2] + b[first][2] if group == 1 else 0)
        addends.append((total, x))
    return write(fused(addends, bits), d, kept, d == "f16")


def dot(
    a: list[int], b: list[int], c: int, types: tuple[str, str, str], how: dict[str, int | str],
    scale_a: Sequence[int] = (), scale_b: Sequence[int] = (), scale: str = "",
) -> int:  # fmt: skip
    """One dot product of codes. `how`: unit (0: all), bits, kept, group, or emulated = halves or chain."""
    d, ta, tb = types
    x, y = [read(code, ta) for code in a], [read(code, tb) for code in b]
    if how.get("emulated") == "halves":
        return _halves(x, y, c, d)
    if how.get("emulated") == "chain":
        return _chain(x, y, c, d, int(how["unit"]))
    size, group = int(how["unit"]) or len(a), int(how.get("group", 1))
    block = len(a) // len(scale_a) if scale_a else 0
    scales = (
        [(read(scale_a[i // block], scale), read(scale_b[i // block], scale)) for i in range(len(a))] if block else []
    )
    for first in range(0, len(a), size):
        part = slice(first, first + size)
        c = unit(x[part], y[part], c, d, int(how["bits"]), int(how.get("kept", 23)), scales[part], group)
    return c


def _as_half(number: Number) -> Number:
    kind, value, _ = number
    return number if kind != "finite" or not value else (kind, value, max(exponent_of(value), -14))


def _halves(x: list[Number], y: list[Number], c: int, d: str) -> int:
    total = 0
    for low in (0, 2):
        at = [i for i in range(len(x)) if i % 4 in (low, low + 1)]
        total = unit([_as_half(x[i]) for i in at], [_as_half(y[i]) for i in at], total, d, 25, 23, [], 1)
    return _add(read(total, d), read(c, d), d)


def _add(x: Number, y: Number, d: str) -> int:
    found = special([], [x, y])
    return special_code(found, d) if found else write(x[1] + y[1], d, 23, True)


def _fma(x: Number, y: Number, total: int) -> int:
    before = read(total, "f32")
    found = special([(x, y)], [before])
    return special_code(found, "f32") if found else write(x[1] * y[1] + before[1], "f32", 23, True)


def _narrowed(code: int, d: str) -> int:
    value = read(code, "f32")
    found = special([], [value])
    return special_code(found, d) if found else write(value[1], d, 23, True)


def _chain(x: list[Number], y: list[Number], c: int, d: str, size: int) -> int:
    """`size` products by fma in f32 from zero on, added to C in f32, and so on; f16 is rounded at the end."""
    accumulator = read(c, d)
    found = special([], [accumulator])
    total = special_code(found, "f32") if found else write(accumulator[1], "f32", 23, True)
    for first in range(0, len(x), size):
        part = 0
        for pair in list(zip(x, y, strict=True))[first : first + size]:
            part = _fma(*pair, part)
        total = _add(read(total, "f32"), read(part, "f32"), "f32")
    return total if d == "f32" else _narrowed(total, d)
