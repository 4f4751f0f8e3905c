"""Number formats of PTX: their parameters, decoding to float64 and encoding with every rounding mode.

PTX ISA sections 5.2.2 (restricted use of sub-word types) and 5.2.3 (alternate floating-point data formats).
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Unsigned: TypeAlias = NDArray[np.unsignedinteger[Any]]
Float64: TypeAlias = NDArray[np.floating[Any]]
Rounding: TypeAlias = Literal["rn", "rna", "rz", "rm", "rp", "rs"]


@dataclass(frozen=True)
class Format:
    """One number format.

    ``code_bits`` counts sign, exponent and mantissa; ``bits`` is what a value occupies (tf32 keeps its 19
    code bits in the upper part of 32). ``nan`` says which codes are NaN: ``ieee`` (top exponent, non-zero
    mantissa), ``all_ones`` (one magnitude) or ``none``. Where there is no infinity, the top exponent holds
    ordinary numbers.
    """

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    signed: bool = True
    infinity: bool = True
    nan: Literal["ieee", "all_ones", "none"] = "ieee"

    @property
    def code_bits(self) -> int:
        return self.exponent_bits + self.mantissa_bits + self.signed

    @property
    def shift(self) -> int:
        """Unused low bits of the container."""
        return self.bits - self.code_bits if self.name == "tf32" else 0

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number. ue8m0 has no subnormals, its code 0 is an ordinary power of
        two.
        """
        return -self.bias if self.mantissa_bits == 0 else 1 - self.bias

    @property
    def magnitude_mask(self) -> int:
        return (1 << (self.exponent_bits + self.mantissa_bits)) - 1

    @property
    def infinity_code(self) -> int:
        """Magnitude code of infinity (only meaningful where the format has one)."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def max_code(self) -> int:
        """Magnitude code of the largest finite number."""
        if self.infinity:
            return self.infinity_code - 1
        return self.magnitude_mask - (self.nan == "all_ones")

    @property
    def max(self) -> float:
        """The largest finite number."""
        code = self.max_code
        exponent, mantissa = code >> self.mantissa_bits, code & ((1 << self.mantissa_bits) - 1)
        if self.mantissa_bits == 0:
            return 2.0 ** (exponent - self.bias)
        return (1 + mantissa / (1 << self.mantissa_bits)) * 2.0 ** (exponent - self.bias)

    @property
    def canonical_nan(self) -> int:
        """Bits of the NaN that conversions produce: all ones, sign clear (PTX writes 0x7fffffff for f32)."""
        if self.name == "f64":
            return 0xFFF8_0000_0000_0000
        return self.magnitude_mask << self.shift

    @property
    def dtype(self) -> type[np.uint8] | type[np.uint16] | type[np.uint32] | type[np.uint64]:
        """The unsigned NumPy type that carries a code."""
        if self.bits <= 8:
            return np.uint8
        return {16: np.uint16, 32: np.uint32, 64: np.uint64}[self.bits]


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("f64", 64, 11, 52, 1023),
        Format("f32", 32, 8, 23, 127),
        Format("tf32", 32, 8, 10, 127),
        Format("f16", 16, 5, 10, 15),
        Format("bf16", 16, 8, 7, 127),
        Format("e5m2", 8, 5, 2, 15),
        Format("e4m3", 8, 4, 3, 7, infinity=False, nan="all_ones"),
        Format("e3m2", 6, 3, 2, 3, infinity=False, nan="none"),
        Format("e2m3", 6, 2, 3, 1, infinity=False, nan="none"),
        Format("e2m1", 4, 2, 1, 1, infinity=False, nan="none"),
        Format("ue8m0", 8, 8, 0, 127, signed=False, infinity=False, nan="all_ones"),
        Format("ue4m3", 8, 4, 3, 7, signed=False, infinity=False, nan="all_ones"),
        Format("ue5m3", 8, 5, 3, 15, signed=False, infinity=False, nan="all_ones"),
    )
}
"""Every binary floating-point format of PTX, by its name in the manual. (s2f6 is fixed point: see
``decode``.)
"""


def _decode_scalar(code: int, f: Format) -> float:
    magnitude = code & f.magnitude_mask
    sign = -1.0 if f.signed and code >> (f.code_bits - 1) & 1 else 1.0
    exponent, mantissa = magnitude >> f.mantissa_bits, magnitude & ((1 << f.mantissa_bits) - 1)
    if f.infinity and magnitude >= f.infinity_code:
        return sign * (np.nan if mantissa else np.inf)
    if f.nan == "all_ones" and magnitude == f.magnitude_mask:
        return np.nan
    if f.mantissa_bits == 0:
        return 2.0 ** (exponent - f.bias)
    if exponent == 0:
        return sign * mantissa * 2.0 ** (f.min_exponent - f.mantissa_bits)
    return sign * (1 + mantissa / (1 << f.mantissa_bits)) * 2.0 ** (exponent - f.bias)


@cache
def _decode_table(name: str) -> Float64:
    if name == "s2f6":
        return np.arange(256, dtype=np.uint8).view(np.int8) / 64.0
    f = FORMATS[name]
    # Bits above the code are ignored, as the hardware ignores them (the padding of fp6 and fp4, the sign of
    # ue4m3).
    return np.array([_decode_scalar(code & ((1 << f.code_bits) - 1), f) for code in range(256)])


def decode(bits: Unsigned, name: str) -> Float64:
    """Exact values of codes.

    ``bits``: any shape, unsigned dtype of the container (uint8 for 8 bits and less). Returns float64 of that
    shape. NaN codes give NaN. ``s2f6`` is an 8-bit two's complement number of 1/64ths.
    """
    if name == "f16":
        return bits.view(np.float16).astype(np.float64)
    if name == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if name == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if name == "f32":
        return bits.view(np.float32).astype(np.float64)
    if name == "f64":
        return bits.view(np.float64)
    return _decode_table(name)[bits]


def encode(
    values: Float64,
    name: str,
    rounding: Rounding = "rn",
    *,
    satfinite: bool = False,
    random: NDArray[np.uint32] | None = None,
    random_width: int = 0,
) -> Unsigned:
    """Round float64 values into a format.

    Rounding happens once; a value not exact in float64 must come rounded to odd. Overflow gives infinity or
    the largest number as IEEE 754 says for the mode. Formats without infinity give NaN (the largest number
    under rz) or, if they have no NaN either, the largest number. With ``satfinite`` the largest number
    replaces every overflow and infinity. NaN gives the canonical NaN, or the positive largest number where
    the format has none. ue8m0 and other unsigned formats take the magnitude before rounding, as NVIDIA's
    conversion headers do.

    ``rs`` adds the low ``random_width`` bits of ``random`` to as many of the discarded mantissa bits, most
    significant first, and rounds away from zero on carry.

    PTX ISA 9.7.10 (cvt), 6.5.2 (rounding modifiers). Returns the unsigned container dtype, same shape.
    """
    if name == "s2f6":
        return _encode_s2f6(values, rounding)
    f = FORMATS[name]
    if name == "f64":
        bits = values.view(np.uint64)
        return np.where(values != values, np.uint64(f.canonical_nan), bits)
    magnitude = np.abs(values)
    negative = np.signbit(values) if f.signed else np.zeros(values.shape, np.bool_)
    _, exponent = np.frexp(magnitude)
    steps = np.maximum(exponent - (1 + f.min_exponent), 0)  # exponent steps above the smallest normal binade
    steps[magnitude == 0] = 0  # frexp calls the exponent of zero 0
    quotient = np.ldexp(magnitude, f.mantissa_bits - f.min_exponent - steps)  # in units in the last place
    if rounding == "rn":
        rounded = np.rint(quotient)
    elif rounding == "rz":
        rounded = np.floor(quotient)
    elif rounding == "rna":
        # quotient has at most 53 bits and is below 2**24: the sum is exact wherever the fraction matters.
        floor = np.floor(quotient)
        rounded = floor + (quotient - floor >= 0.5)
    elif rounding == "rs":
        if random is None:
            raise ValueError("rounding 'rs' needs random bits")
        floor = np.floor(quotient)
        kept = np.floor(np.ldexp(quotient - floor, random_width))  # the discarded bits that meet random bits
        carry = kept + (random & np.uint32((1 << random_width) - 1)) >= 1 << random_width
        rounded = floor + carry
    else:
        upward = ~negative if rounding == "rp" else negative
        rounded = np.where(upward, np.ceil(quotient), np.floor(quotient))
    special = ~np.isfinite(values)
    rounded[special] = 0
    if f.mantissa_bits == 0:
        code = steps + np.maximum(rounded.astype(np.int64), 1) - 1
    else:
        code = (steps.astype(np.int64) << f.mantissa_bits) + rounded.astype(np.int64)
    over = code > f.max_code
    infinite = np.isinf(values)
    if satfinite or f.nan == "none":
        code[over | infinite] = f.max_code
    else:
        overflow_code = f.infinity_code if f.infinity else f.magnitude_mask
        if rounding in ("rn", "rna", "rs"):
            code[over] = overflow_code
        elif rounding == "rz":
            code[over] = f.max_code
        else:
            away = ~negative if rounding == "rp" else negative
            code[over] = np.where(away, overflow_code, f.max_code)[over] if f.infinity else overflow_code
        code[infinite] = overflow_code
    if f.signed:
        code |= negative.astype(np.int64) << (f.code_bits - 1)
    code <<= f.shift
    code[values != values] = f.canonical_nan if f.nan != "none" else f.max_code
    return code.astype(f.dtype)


def _encode_s2f6(values: Float64, rounding: Rounding) -> NDArray[np.uint8]:
    scaled = values * 64.0
    rounded = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}[rounding](scaled)
    # The manual promises a "sign-preserved MAX_NORM" and calls -2.0 the negative maximum of the format.
    clamped = np.clip(np.where(values != values, 127.0, rounded), -128, 127)
    return clamped.astype(np.int8).view(np.uint8)
