"""Every conversion of the ``cvt`` and ``cvt.pack`` instructions: PTX ISA 9.7.10.24-22 (and 6.5, type
conversion).
"""

from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from . import floating, formats, half, integer
from .formats import Float64, Unsigned

Bits: TypeAlias = NDArray[np.generic]
Rounding: TypeAlias = Literal["rn", "rna", "rz", "rm", "rp", "rs", "rni", "rzi", "rmi", "rpi"]

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_F32_NAN = 0x7FFF_FFFF


def convert(
    bits: Bits | tuple[Bits, ...],
    src_type: str,
    dst_type: str,
    *,
    rounding: Rounding | None = None,
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
    satfinite: bool = False,
    pzo: bool = False,
    random: NDArray[np.uint32] | None = None,
    scale: NDArray[np.uint8] | NDArray[np.uint16] | None = None,
) -> Unsigned:
    """cvt{.rounding}{.ftz}{.sat}{.relu}{.satfinite}{.pzo}{.scale}.dst_type.src_type on bit patterns.

    ``bits`` is an array of any dtype of the source's width or wider (low bits count), or a tuple of f32
    arrays in operand order for the forms that pack: (a, b) into x2 with a in the upper element, (a, b, e, f)
    into x4. Returns unsigned patterns of the destination's container: uint8 to uint64, uint8 for e2m1x2.

    ``random`` is the rbits operand (uint32) of ``.rs``, ``scale`` the scale-factor: one ue8m0 (uint8,
    ``.scaled::n1::ue8m0``) or two packed ones (uint16, ``.scaled::n2::ue8m0``). ``pzo`` turns -0 into +0.

    - float to integer: clamps to the range; NaN gives 0, or the lone top bit if the source is f64 or the
      destination has 64 bits.
    - integer to integer: wraps, or clamps with ``sat``.
    - float to float: NaN gives the canonical NaN of the destination (f64 keeps the payload, bf16 to f32 all
      bits, both unspecified by PTX). ``sat`` clamps to [0, 1] with NaN -> +0, ``relu`` turns negatives into
      +0, ``satfinite`` turns overflow and infinity into the largest number.
    """
    if isinstance(bits, tuple) or src_type[-2:] == "x2":
        return _convert_packed(bits, src_type, dst_type, rounding, relu, satfinite, pzo, random, scale)
    integer_source, integer_target = src_type in integer.TYPES, dst_type in integer.TYPES
    if integer_source and integer_target:
        return _integer_to_integer(_typed(bits, src_type), dst_type, sat)
    if integer_source:
        return _integer_to_float(_typed(bits, src_type), dst_type, rounding or "rn", ftz, sat)
    source = _source(bits, src_type)
    if integer_target:
        value = formats.decode(source, src_type)
        if ftz and src_type == "f32":
            value = _flush(value)
        return _float_to_integer(value, src_type, dst_type, rounding or "rzi")
    return _float_to_float(source, src_type, dst_type, rounding, ftz, sat, relu, satfinite, pzo, random)


def _typed(bits: Bits, type_: str) -> integer.Integer:
    return cast(integer.Integer, _low(bits, np.dtype(integer.TYPES[type_])))


def _source(bits: Bits, type_: str) -> Unsigned:
    return cast(Unsigned, _low(bits, np.dtype(formats.FORMATS[type_].dtype)))


def _low(bits: Bits, dtype: np.dtype[np.generic]) -> Bits:
    """The low bits of an array as ``dtype``, without a copy if the width is right."""
    if bits.dtype.itemsize == dtype.itemsize:
        return bits.view(dtype)
    return bits.view(f"u{bits.dtype.itemsize}").astype(f"u{dtype.itemsize}").view(dtype)


def _flush(value: Float64) -> Float64:
    return np.where(np.abs(value) < 2.0**-126, np.copysign(0.0, value), value)


# -- scalar conversions
# -----------------------------------------------------------------------------------------------


def _integer_to_integer(x: integer.Integer, dst_type: str, sat: bool) -> Unsigned:
    target = np.dtype(integer.TYPES[dst_type])
    if sat:
        have, want = np.iinfo(x.dtype), np.iinfo(target)
        x = np.clip(x, x.dtype.type(max(have.min, want.min)), x.dtype.type(min(have.max, want.max)))
    return x.astype(target).view(f"u{target.itemsize}")


def _integer_to_float(x: integer.Integer, dst_type: str, rounding: Rounding, ftz: bool, sat: bool) -> Unsigned:
    mode = cast(floating.Rounding, rounding)
    if x.dtype.itemsize < 8:
        value = x.astype(np.float64)
    else:
        high, low = (x >> 32).astype(np.float64) * 2.0**32, (x & 0xFFFF_FFFF).astype(np.float64)
        value = floating.add(high, low, rounding=mode) if dst_type == "f64" else floating.odd_sum(high, low)
    if sat:
        value = floating.saturate(value)
    return _encode(value, dst_type, mode, False, None, 0)


def _float_to_integer(value: Float64, src_type: str, dst_type: str, rounding: Rounding) -> Unsigned:
    target = np.dtype(integer.TYPES[dst_type])
    limits = np.iinfo(target)
    rounded = _TO_INTEGER[rounding](value)
    nan = value != value
    too_low, too_high = rounded < limits.min, rounded >= float(limits.max) + (target.itemsize < 8)
    safe = np.where(nan | too_low | too_high, 0.0, rounded)
    r = safe.astype(target)
    r[too_low] = limits.min
    r[too_high] = limits.max
    unsigned = r.view(f"u{target.itemsize}")
    unsigned[nan] = 1 << (8 * target.itemsize - 1) if src_type == "f64" or target.itemsize == 8 else 0
    return unsigned


def _encode(
    value: Float64,
    dst_type: str,
    rounding: formats.Rounding,
    satfinite: bool,
    random: NDArray[np.uint32] | None,
    random_width: int,
) -> Unsigned:
    if dst_type == "f32":
        r = floating.round32(value, cast(floating.Rounding, rounding)).view(np.uint32)
        r[value != value] = _F32_NAN
        return r
    if dst_type == "f64":
        bits = value.view(np.uint64)
        return np.where(value != value, bits | np.uint64(1 << 51), bits)
    if rounding == "rn" and not satfinite and dst_type in ("f16", "bf16"):
        return half.from_f64(value, dst_type)
    return formats.encode(value, dst_type, rounding, satfinite=satfinite, random=random, random_width=random_width)


def _float_to_float(
    source: Unsigned,
    src_type: str,
    dst_type: str,
    rounding: Rounding | None,
    ftz: bool,
    sat: bool,
    relu: bool,
    satfinite: bool,
    pzo: bool,
    random: NDArray[np.uint32] | None,
) -> Unsigned:
    if dst_type == "tf32" and rounding == "rna":
        return _tf32_away(source, satfinite)
    plain = not (ftz or sat or relu or satfinite or pzo)
    if plain and rounding == "rn" and src_type == "f32" and dst_type in ("f16", "bf16"):
        return half.from_f32(source.view(np.float32), dst_type)
    if plain and dst_type == "f32" and src_type == "bf16" and rounding not in _TO_INTEGER:
        return half.to_f32(source, "bf16").view(np.uint32)
    value = formats.decode(source, src_type)
    if ftz and src_type == "f32":
        value = _flush(value)
    if rounding in _TO_INTEGER:
        value = _TO_INTEGER[rounding](value)
        rounding = "rn"
    if sat:
        value = floating.saturate(value)
    r = _clamped(value, dst_type, rounding or "rn", relu, satfinite, pzo, random)
    if ftz and dst_type == "f32":
        r = floating.flush(r.view(np.float32)).view(np.uint32)
    return r


def _tf32_away(source: Unsigned, satfinite: bool) -> Unsigned:
    """cvt.rna{.satfinite}.tf32.f32 as ptxas translates it, to integer arithmetic: half an ulp is added to finite numbers and
    the low 13 bits are masked off, so NaNs keep the upper bits of their payload (of a payload in the low bits only, an
    infinity is left). `.satfinite` steps once below what is not finite. The other roundings are one instruction.
    """
    infinity = np.uint32(0x7F80_0000)

    def finite(bits: Unsigned) -> NDArray[np.bool_]:
        return bits & np.uint32(0x7FFF_FFFF) < infinity

    r = np.where(finite(source), source + np.uint32(0x1000), source) & np.uint32(0xFFFF_E000)
    return np.where(finite(r), r, r - np.uint32(0x2000)) if satfinite else r


def _clamped(
    value: Float64,
    dst_type: str,
    rounding: Rounding,
    relu: bool,
    satfinite: bool,
    pzo: bool,
    random: NDArray[np.uint32] | None,
) -> Unsigned:
    if relu:
        value = np.where(value <= 0, 0.0, value)
    width = 13 if dst_type == "f16" else 16
    r = _encode(value, dst_type, cast(formats.Rounding, rounding), satfinite, random, width)
    if pzo:
        f = formats.FORMATS[dst_type]
        r[r == 1 << (f.code_bits - 1 + f.shift)] = 0
    return r


# -- packed conversions
# -----------------------------------------------------------------------------------------------


def _element_width(type_: str) -> int:
    """Bits between the elements of a packed type."""
    return 4 if type_ == "e2m1" else 16 if type_ in ("f16", "bf16") else 8


def _unpack(bits: Bits, type_: str) -> list[Unsigned]:
    """Elements of an x2 register, upper first."""
    width = _element_width(type_)
    container = np.dtype(f"u{max(2 * width // 8, 1)}")
    register = cast(Unsigned, _low(bits, container))
    dtype = np.uint16 if width == 16 else np.uint8
    upper = register >> container.type(width)
    return [cast(Unsigned, (x & container.type((1 << width) - 1)).astype(dtype)) for x in (upper, register)]


def _random_bits(random: NDArray[np.uint32] | None, dst_type: str, count: int) -> list[NDArray[np.uint32] | None]:
    """Random bits of each operand of ``.rs``, in operand order. PTX ISA 9.7.10.24."""
    if random is None:
        return [None] * count
    upper, lower = random >> np.uint32(16), random & np.uint32(0xFFFF)
    if count == 2:
        return [upper, lower]
    if dst_type == "e2m1":
        # The upper (lower) bytes of both halves serve a and b (e and f).
        byte = np.uint32(0xFF)
        first = (upper >> np.uint32(8)) << np.uint32(8) | lower >> np.uint32(8)
        second = (upper & byte) << np.uint32(8) | lower & byte
        return [first, first, second, second]
    return [upper, upper, lower, lower]


def _convert_packed(
    bits: Bits | tuple[Bits, ...],
    src_type: str,
    dst_type: str,
    rounding: Rounding | None,
    relu: bool,
    satfinite: bool,
    pzo: bool,
    random: NDArray[np.uint32] | None,
    scale: NDArray[np.uint8] | NDArray[np.uint16] | None,
) -> Unsigned:
    source_element, target_element = src_type.removesuffix("x2"), dst_type[:-2]
    sources = [_source(x, source_element) for x in bits] if isinstance(bits, tuple) else _unpack(bits, source_element)
    values = [formats.decode(x, source_element) for x in sources]
    if scale is not None and scale.dtype.itemsize == 1:
        # The manual flushes "subnormal values for inputs a and b": of the type that they have.
        factor, smallest = formats.decode(scale, "ue8m0"), 2.0 ** formats.FORMATS[source_element].min_exponent
        values = [np.where(np.abs(x) < smallest, np.copysign(0.0, x), x) / factor for x in values]
    elif scale is not None:
        factors = [formats.decode(x, "ue8m0") for x in _unpack(scale, "ue8m0")]
        up = target_element in ("f16", "bf16")
        values = [x * f if up else x / f for x, f in zip(values, factors, strict=True)]
    rbits = _random_bits(random, target_element, len(values))
    width = _element_width(target_element)
    container = np.dtype(f"u{max(len(values) * width // 8, 1)}")
    r = np.zeros(np.broadcast_shapes(*(x.shape for x in values)), container)
    for value, lane_bits in zip(values, rbits, strict=True):
        code = _clamped(value, target_element, rounding or "rn", relu, satfinite, pzo, lane_bits)
        r = (r << container.type(width)) | code.astype(container)
    return cast(Unsigned, r)


def pack(
    a: NDArray[np.int32],
    b: NDArray[np.int32],
    c: NDArray[np.uint32] | None,
    dst_type: Literal["u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"],
) -> NDArray[np.uint32]:
    """cvt.pack.sat: a and b clamped to ``dst_type``, b lowest, above them the low bits of c (8 bits and
    less).

    PTX ISA 9.7.10.25.
    """
    width = int(dst_type[1:])
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if dst_type[0] == "s" else (0, (1 << width) - 1)
    field = np.uint32((1 << width) - 1)
    upper, lower = (np.clip(x, low, high).astype(np.uint32) & field for x in (a, b))
    r = upper << np.uint32(width) | lower
    return r if c is None or width == 16 else c << np.uint32(2 * width) | r
