"""Video instructions on 32-bit registers: PTX ISA 9.7.20.1 (scalar) and 9.7.20.2 (SIMD).

Registers are ``uint32`` arrays, types are given by name (``u32``, ``s32``), and results are ``uint32`` bit
patterns. Since sm_50 (scalar) and sm_30 (SIMD, partly) ptxas emulates them, with the meaning below.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

U32: TypeAlias = NDArray[np.uint32]
I64: TypeAlias = NDArray[np.int64]
Type: TypeAlias = Literal["u32", "s32"]
Part: TypeAlias = Literal["b0", "b1", "b2", "b3", "h0", "h1"]
Operation: TypeAlias = Literal["add", "sub", "absdiff", "min", "max", "avrg"]
Comparison: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]

_OPERATIONS: dict[str, Callable[[I64, I64], I64]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: np.abs(a - b),
    "min": np.minimum,
    "max": np.maximum,
    # Rounds half away from zero, as the manual writes it.
    "avrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "eq": lambda a, b: (a == b).astype(np.int64),
    "ne": lambda a, b: (a != b).astype(np.int64),
    "lt": lambda a, b: (a < b).astype(np.int64),
    "le": lambda a, b: (a <= b).astype(np.int64),
    "gt": lambda a, b: (a > b).astype(np.int64),
    "ge": lambda a, b: (a >= b).astype(np.int64),
}


def _part(a: U32, type_: Type, part: Part | None) -> I64:
    """A byte, half or the whole register, extended by type."""
    width, index = (32, 0) if part is None else (8 if part[0] == "b" else 16, int(part[1]))
    shifted = a.astype(np.int64) << (64 - width * (index + 1))
    if type_ == "s32":
        return shifted >> (64 - width)
    return (shifted.view(np.uint64) >> np.uint64(64 - width)).view(np.int64)


def _clamp(value: I64, width: int, signed: bool) -> I64:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return np.clip(value, low, high)


def _finish(
    value: I64,
    c: U32 | None,
    dtype: Type,
    sat: bool,
    part: Part | None,
    secondary: Literal["add", "min", "max"] | None,
) -> U32:
    """Saturate to the destination part, then combine with c: merge into it, or a secondary operation."""
    width = 32 if part is None else 8 if part[0] == "b" else 16
    if sat:
        value = _clamp(value, width, dtype == "s32")
    r = value.astype(np.uint32)
    if c is None:
        return r
    if secondary is None:
        if part is None:
            return r
        shift = np.uint32(width * int(part[1]))
        mask = np.uint32((1 << width) - 1) << shift
        return (c & ~mask) | (r << shift & mask)
    if secondary == "add":
        return r + c
    order = np.int32 if dtype == "s32" else np.uint32
    choose = np.minimum if secondary == "min" else np.maximum
    return choose(r.view(order), c.view(order)).view(np.uint32)


def scalar(
    operation: Operation | Comparison,
    a: U32,
    b: U32,
    c: U32 | None = None,
    *,
    dtype: Type,
    atype: Type,
    btype: Type,
    asel: Part | None = None,
    bsel: Part | None = None,
    dsel: Part | None = None,
    sat: bool = False,
    secondary: Literal["add", "min", "max"] | None = None,
) -> U32:
    """vadd, vsub, vabsdiff, vmin, vmax and vset (a comparison as operation). PTX ISA 9.7.20.1.1 and
    9.7.20.1.4.

    ``asel``/``bsel`` pick a byte or half; with ``dsel`` the result replaces that part of c; with
    ``secondary`` it is added to c or the smaller or larger of both is taken.
    """
    value = _OPERATIONS[operation](_part(a, atype, asel), _part(b, btype, bsel))
    return _finish(value, c, dtype, sat, dsel, secondary)


def shift(
    direction: Literal["l", "r"],
    a: U32,
    b: U32,
    c: U32 | None = None,
    *,
    wrap: bool,
    dtype: Type,
    atype: Type,
    asel: Part | None = None,
    bsel: Part | None = None,
    dsel: Part | None = None,
    sat: bool = False,
    secondary: Literal["add", "min", "max"] | None = None,
) -> U32:
    """vshl and vshr; the amount wraps at 32 or clamps to 32. PTX ISA 9.7.20.1.2."""
    amount = _part(b, "u32", bsel)
    amount = amount & 31 if wrap else np.minimum(amount, 32)
    value = _part(a, atype, asel)
    if direction == "r":
        return _finish(value >> amount, c, dtype, sat, dsel, secondary)
    wide = value.astype(object) << amount.astype(object)  # up to 65 bits: Python integers
    # Saturation only asks on which side of the 32-bit range a result lies; without it only the low word
    # counts.
    kept = np.clip(wide, -(1 << 40), 1 << 40) if sat else wide & 0xFFFF_FFFF
    return _finish(kept.astype(np.int64), c, dtype, sat, dsel, secondary)


def mad(
    a: U32,
    b: U32,
    c: U32,
    *,
    dtype: Type,
    atype: Type,
    btype: Type,
    ctype: Type = "u32",
    asel: Part | None = None,
    bsel: Part | None = None,
    negate: Literal["product", "c"] | None = None,
    plus_one: bool = False,
    scale: Literal[0, 7, 15] = 0,
    sat: bool = False,
) -> U32:
    """vmad: (±(a * b) ± c [+ 1]) >> scale. PTX ISA 9.7.20.1.3.

    ``negate`` names what carries a minus sign, ``plus_one`` is ``.po``. The sum is exact and, with ``sat``,
    clamps to 32 bits: signed if an operand is signed or negated. ``dtype`` only names the register.
    """
    signed = atype == "s32" or btype == "s32" or negate is not None
    x = _part(a, atype, asel).astype(object)  # 66 bits and more: Python integers
    y = _part(b, btype, bsel).astype(object)
    z = (c.view(np.int32) if signed and ctype == "s32" else c).astype(object)
    value = x * y
    if negate == "product":
        value = -value
    value = value + (-z if negate == "c" else z) + int(plus_one)
    value = value >> scale
    if sat:
        low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
        value = np.minimum(np.maximum(value, low), high)
    return (value & 0xFFFF_FFFF).astype(np.uint32)


def simd(
    operation: Operation | Comparison,
    a: U32,
    b: U32,
    c: U32,
    *,
    lanes: Literal[2, 4],
    dtype: Type,
    atype: Type,
    btype: Type,
    asel: str | None = None,
    bsel: str | None = None,
    mask: str | None = None,
    sat: bool = False,
    add: bool = False,
) -> U32:
    """vadd2/4, vsub2/4, vavrg2/4, vabsdiff2/4, vmin2/4, vmax2/4, vset2/4. PTX ISA 9.7.20.2.

    Selectors are written as in PTX without the letter, most significant element first: element numbers
    0..lanes-1 come from a, the rest from b (defaults "10"/"32" and "3210"/"7654"). ``mask`` lists the
    destination elements to write, e.g. "10"; others come from c. ``add`` sums the masked elements onto c
    instead.
    """
    width = 32 // lanes
    joined = (b.astype(np.uint64) << np.uint64(32) | a).view(np.int64)

    def pick(selector: str, type_: Type, index: int) -> I64:
        element = int(selector[lanes - 1 - index])
        shifted = joined << (64 - width * (element + 1))
        if type_ == "s32":
            return shifted >> (64 - width)
        return (shifted.view(np.uint64) >> np.uint64(64 - width)).view(np.int64)

    asel = asel or {2: "10", 4: "3210"}[lanes]
    bsel = bsel or {2: "32", 4: "7654"}[lanes]
    written = range(lanes) if mask is None else sorted(int(x) for x in mask)
    r = c.copy() if not add else c
    for index in written:
        value = _OPERATIONS[operation](pick(asel, atype, index), pick(bsel, btype, index))
        if sat:
            value = _clamp(value, width, dtype == "s32")
        if add:
            r = r + value.astype(np.uint32)
        else:
            shift_ = np.uint32(width * index)
            field = np.uint32((1 << width) - 1) << shift_
            r = (r & ~field) | (value.astype(np.uint32) << shift_ & field)
    return r
