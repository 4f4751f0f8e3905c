"""Integer, bit and carry arithmetic of PTX: PTX ISA 9.7.1 (integer), 9.7.2 (extended precision), 9.7.9
(logic, shift).

Operands are arrays of the NumPy integer type of the instruction (``.s32`` is ``int32``, ``.b32`` is
``uint32``); results have that type unless stated. Shift amounts, positions and lengths are ``uint32``.
Overflow wraps.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Integer: TypeAlias = NDArray[np.integer[Any]]
U32: TypeAlias = NDArray[np.unsignedinteger[Any]]
U64: TypeAlias = NDArray[np.unsignedinteger[Any]]
Bool: TypeAlias = NDArray[np.bool_]

TYPES: dict[str, type[np.integer[Any]]] = {
    f"{letter}{bits}": np.dtype(f"{'i' if letter == 's' else 'u'}{bits // 8}").type
    for letter in "sub"
    for bits in (8, 16, 32, 64)
}
"""NumPy scalar type of each PTX integer type."""


def _width(a: Integer) -> int:
    return a.dtype.itemsize * 8


def _unsigned(a: Integer) -> U64:
    return a.view(f"u{a.dtype.itemsize}")


def _signed(a: Integer) -> bool:
    return a.dtype.kind == "i"


def _saturated(exact: NDArray[np.int64], dtype: np.dtype[np.integer]) -> Integer:
    limits = np.iinfo(dtype)
    return np.clip(exact, limits.min, limits.max).astype(dtype)


# -- add, subtract, multiply
# --------------------------------------------------------------------------------------------


def add(a: Integer, b: Integer, *, sat: bool = False) -> Integer:
    """a + b; ``sat`` clamps to the range of the type (8, 16 and 32 bits). PTX ISA 9.7.1.1."""
    return _saturated(a.astype(np.int64) + b.astype(np.int64), a.dtype) if sat else a + b


def sub(a: Integer, b: Integer, *, sat: bool = False) -> Integer:
    """a - b; ``sat`` as in :func:`add`. PTX ISA 9.7.1.2."""
    return _saturated(a.astype(np.int64) - b.astype(np.int64), a.dtype) if sat else a - b


def mul_lo(a: Integer, b: Integer) -> Integer:
    """Low half of the product. PTX ISA 9.7.1.3."""
    return a * b


def mul_hi(a: Integer, b: Integer) -> Integer:
    """High half of the product. PTX ISA 9.7.1.3."""
    width = _width(a)
    if width < 64:
        return ((_widen(a) * _widen(b)) >> width).astype(a.dtype)
    high = _mul_hi_u64(_unsigned(a), _unsigned(b))
    if _signed(a):
        # Two's complement: a negative factor stands for itself minus 2**64.
        high = high - np.where(a < 0, _unsigned(b), np.uint64(0)) - np.where(b < 0, _unsigned(a), np.uint64(0))
    return high.view(a.dtype)


def _widen(a: Integer) -> Integer:
    return a.astype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")


def _mul_hi_u64(a: U64, b: U64) -> U64:
    half, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


def mul_wide(a: Integer, b: Integer) -> Integer:
    """Full product in the type of twice the width (16 and 32 bit operands). PTX ISA 9.7.1.3."""
    return _widen(a) * _widen(b)


def mad_lo(a: Integer, b: Integer, c: Integer) -> Integer:
    """Low half of the product, plus c. PTX ISA 9.7.1.4."""
    return a * b + c


def mad_hi(a: Integer, b: Integer, c: Integer, *, sat: bool = False) -> Integer:
    """High half of the product, plus c; ``sat`` for s32. PTX ISA 9.7.1.4."""
    return add(mul_hi(a, b), c, sat=sat)


def mad_wide(a: Integer, b: Integer, c: Integer) -> Integer:
    """Full product plus c of twice the width. PTX ISA 9.7.1.4."""
    return mul_wide(a, b) + c


def _low24(a: Integer) -> NDArray[np.int64]:
    wide = a.astype(np.int64)
    return (wide << 40) >> 40 if _signed(a) else wide & 0xFFFFFF


def mul24_lo(a: Integer, b: Integer) -> Integer:
    """Bits 31..0 of the 48-bit product of the low 24 bits. PTX ISA 9.7.1.6."""
    return (_low24(a) * _low24(b)).astype(a.dtype)


def mul24_hi(a: Integer, b: Integer) -> Integer:
    """Bits 47..16 of the 48-bit product of the low 24 bits. PTX ISA 9.7.1.6."""
    return ((_low24(a) * _low24(b)) >> 16).astype(a.dtype)


def mad24_lo(a: Integer, b: Integer, c: Integer) -> Integer:
    """mul24.lo plus c. PTX ISA 9.7.1.7."""
    return mul24_lo(a, b) + c


def mad24_hi(a: Integer, b: Integer, c: Integer, *, sat: bool = False) -> Integer:
    """mul24.hi plus c; ``sat`` for s32. PTX ISA 9.7.1.7."""
    return add(mul24_hi(a, b), c, sat=sat)


def sad(a: Integer, b: Integer, c: Integer) -> Integer:
    """c + abs(a - b), the difference taken without overflow. PTX ISA 9.7.1.8."""
    difference = np.maximum(a, b) - np.minimum(a, b)
    return c + difference


def div(a: Integer, b: Integer) -> Integer:
    """Quotient truncated toward zero. PTX ISA 9.7.1.9.

    Division by zero is undefined in PTX. ptxas 13 emits code that gives all ones for every type, and so does
    this (disassembly for sm_90: the last instruction replaces the result by ~b, or by -1, if b == 0). The
    most negative number divided by -1 gives itself.
    """
    return _divide(a, b)[0]


def rem(a: Integer, b: Integer) -> Integer:
    """Remainder with the sign of a. By zero it gives all ones, as :func:`div`. PTX ISA 9.7.1.10."""
    return _divide(a, b)[1]


def _divide(a: Integer, b: Integer) -> tuple[Integer, Integer]:
    zero = b == 0
    divisor = np.where(zero, b.dtype.type(1), b)
    if _signed(a):
        # Magnitudes as unsigned numbers, so that the most negative number needs no special case.
        u = _unsigned(np.abs(a)) // _unsigned(np.abs(divisor))
        quotient = u.view(a.dtype)
        quotient = np.where((a < 0) != (divisor < 0), -quotient, quotient)
    else:
        quotient = a // divisor
    remainder = a - quotient * divisor
    ones = np.array(-1).astype(a.dtype)
    return np.where(zero, ones, quotient), np.where(zero, ones, remainder)


def absolute(a: Integer) -> Integer:
    """Absolute value; the most negative number stays itself. PTX ISA 9.7.1.11."""
    return np.abs(a)


def neg(a: Integer) -> Integer:
    """0 - a. PTX ISA 9.7.1.12."""
    return -a


def minimum(a: Integer, b: Integer, *, relu: bool = False) -> Integer:
    """Smaller value; ``relu`` clamps a negative result to 0. PTX ISA 9.7.1.13."""
    r = np.minimum(a, b)
    return np.maximum(r, r.dtype.type(0)) if relu else r


def maximum(a: Integer, b: Integer, *, relu: bool = False) -> Integer:
    """Larger value; ``relu`` clamps a negative result to 0. PTX ISA 9.7.1.14."""
    r = np.maximum(a, b)
    return np.maximum(r, r.dtype.type(0)) if relu else r


def packed(
    function: Callable[..., Integer],
    kind: Literal["u16x2", "s16x2", "u8x4", "s8x4"],
    *operands: U32,
    **modifiers: bool,
) -> U32:
    """Apply add, sub, minimum, maximum or neg to the elements of 32-bit registers (low element first)."""
    element = TYPES[kind.split("x")[0]]
    lanes = [np.ascontiguousarray(x).view(element) for x in operands]
    return np.ascontiguousarray(function(*lanes, **modifiers)).view(np.uint32)


Comparison: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"]

_COMPARE: dict[str, Callable[[Integer, Integer], Bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lo": lambda a, b: _unsigned(a) < _unsigned(b),
    "ls": lambda a, b: _unsigned(a) <= _unsigned(b),
    "hi": lambda a, b: _unsigned(a) > _unsigned(b),
    "hs": lambda a, b: _unsigned(a) >= _unsigned(b),
}


def compare(a: Integer, b: Integer, comparison: Comparison) -> Bool:
    """Result of set/setp as booleans; lo, ls, hi, hs compare as unsigned. PTX ISA 9.3.1.1."""
    return _COMPARE[comparison](a, b)


# -- extended precision
# -----------------------------------------------------------------------------------------------


def add_carry(a: Integer, b: Integer, carry: Bool | None = None) -> tuple[Integer, Bool]:
    """a + b + carry and the carry out: add.cc (no ``carry``), addc{.cc}. PTX ISA 9.7.2.1-2."""
    x, y = _unsigned(a), _unsigned(b)
    s = x + y
    out = s < x
    if carry is not None:
        s = s + carry.astype(s.dtype)
        out = out | (carry & (s == 0))
    return s.view(a.dtype), out


def sub_carry(a: Integer, b: Integer, carry: Bool | None = None) -> tuple[Integer, Bool]:
    """a - b, less 1 where there is a ``carry`` and it is 0, and the carry out: sub.cc (no ``carry``), subc{.cc}. PTX
    ISA 9.7.2.3-4.

    The manual speaks of a borrow, but the hardware has one flag for sums and differences: the carry of a + ~b + 1, which is 1
    where nothing was borrowed (SASS: `IADD3.X d, a, ~b, RZ, P0`). It shows where a chain mixes them.
    """
    return add_carry(a, ~b, np.ones((), np.bool_) if carry is None else carry)


def mad_carry(a: Integer, b: Integer, c: Integer, *, hi: bool, carry: Bool | None = None) -> tuple[Integer, Bool]:
    """Half product + c + carry and the carry out: mad{.hi,.lo}.cc (no ``carry``), madc. PTX ISA 9.7.2.5-6."""
    return add_carry(mul_hi(a, b) if hi else mul_lo(a, b), c, carry)


# -- logic and shifts
# -------------------------------------------------------------------------------------------------


def not_(a: Integer) -> Integer:
    """One's complement. PTX ISA 9.7.9.4."""
    return ~a


def cnot(a: Integer) -> Integer:
    """1 where a is zero, else 0. PTX ISA 9.7.9.5."""
    return (a == 0).astype(a.dtype)


def lop3(a: U32, b: U32, c: U32, table: int) -> U32:
    """Any bitwise function of three inputs; bit 4a+2b+c of ``table`` is the result for those input bits.
    9.7.9.6.
    """
    r = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
    invert = table.bit_count() > 4  # at most four terms this way
    for index in range(8):
        if bool(table >> index & 1) != invert:
            r |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
    return ~r if invert else r


def shl(a: Integer, amount: U32) -> Integer:
    """Shift left; amounts of the width and more give 0. PTX ISA 9.7.9.8."""
    # NumPy defines shifts by the width as PTX does; only the amount must survive the conversion of its type.
    return a << np.minimum(amount, np.uint32(_width(a))).astype(a.dtype)


def shr(a: Integer, amount: U32) -> Integer:
    """Shift right, filling with the sign for signed types; amounts clamp at the width. PTX ISA 9.7.9.9."""
    return a >> np.minimum(amount, np.uint32(_width(a))).astype(a.dtype)


def _funnel(a: U32, b: U32, amount: U32, wrap: bool) -> tuple[U64, U64]:
    joined = b.astype(np.uint64) << np.uint64(32) | a
    n = amount & np.uint32(31) if wrap else np.minimum(amount, np.uint32(32))
    return joined, n.astype(np.uint64)


def shf_l(a: U32, b: U32, amount: U32, *, wrap: bool) -> U32:
    """Upper word of {b, a} << amount, the amount wrapped at 32 or clamped to 32. PTX ISA 9.7.9.7."""
    joined, n = _funnel(a, b, amount, wrap)
    return ((joined << n) >> np.uint64(32)).astype(np.uint32)


def shf_r(a: U32, b: U32, amount: U32, *, wrap: bool) -> U32:
    """Lower word of {b, a} >> amount, the amount wrapped at 32 or clamped to 32. PTX ISA 9.7.9.7."""
    joined, n = _funnel(a, b, amount, wrap)
    return (joined >> n).astype(np.uint32)


# -- bit fields
# -------------------------------------------------------------------------------------------------------


def _mask(length: U32, dtype: np.dtype[np.integer]) -> Integer:
    """The low ``length`` bits set."""
    return ~shl(np.full(length.shape, -1).astype(dtype), length)


def bfe(a: Integer, position: U32, length: U32) -> Integer:
    """Extract a field; signed types replicate its top bit (or the sign, past the end). PTX ISA 9.7.1.20."""
    position, length = position & np.uint32(0xFF), length & np.uint32(0xFF)
    x = _unsigned(a)
    mask = _mask(length, x.dtype)
    field = shr(x, position) & mask
    if _signed(a):
        top = np.minimum(position + length - np.uint32(1), np.uint32(_width(a) - 1))
        # Bits above the field, and those that would come from beyond the register, equal the sign bit.
        available = np.maximum(np.uint32(_width(a)), position) - position
        fill = ~(mask & _mask(np.minimum(available, np.uint32(255)), x.dtype))
        negative = (shr(x, top) & x.dtype.type(1)).astype(np.bool_) & (length != 0)
        field = np.where(negative, field | fill, field)
    return field.view(a.dtype)


def bfi(a: Integer, b: Integer, position: U32, length: U32) -> Integer:
    """Insert the low ``length`` bits of a into b at ``position``. PTX ISA 9.7.1.21."""
    position, length = position & np.uint32(0xFF), length & np.uint32(0xFF)
    mask = shl(_mask(length, a.dtype), position)
    return (b & ~mask) | (shl(a, position) & mask)


def bfind(a: Integer, *, shiftamt: bool = False) -> U32:
    """Position (uint32) of the highest bit that differs from the sign, 0xffffffff if none. PTX ISA 9.7.1.17.

    ``shiftamt`` gives the left shift that brings it to the top instead.
    """
    x = _unsigned(np.where(a < 0, ~a, a)) if _signed(a) else a
    zeros = clz(x)
    r = zeros if shiftamt else np.uint32(_width(a) - 1) - zeros
    return np.where(x == 0, np.uint32(0xFFFF_FFFF), r)


def popc(a: Integer) -> U32:
    """Number of one bits, as uint32. PTX ISA 9.7.1.15."""
    return np.bitwise_count(_unsigned(a)).astype(np.uint32)


def clz(a: Integer) -> U32:
    """Number of leading zeros (the width for 0), as uint32. PTX ISA 9.7.1.16."""
    x = _unsigned(a)
    shift = 1
    while shift < _width(a):  # smear the top bit downwards, then count
        x = x | x >> x.dtype.type(shift)
        shift *= 2
    return np.uint32(_width(a)) - popc(x)


def brev(a: Integer) -> Integer:
    """Bits in reverse order. PTX ISA 9.7.1.19."""
    x = _unsigned(a).byteswap()
    for shift, pattern in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        mask = x.dtype.type(int.from_bytes(bytes([pattern]) * x.dtype.itemsize))
        n = x.dtype.type(shift)
        x = (x >> n & mask) | ((x & mask) << n)
    return x.view(a.dtype)


def fns(mask: U32, base: U32, offset: NDArray[np.int32]) -> U32:
    """Position of the n-th set bit of ``mask`` from ``base``, 0xffffffff if there is none. PTX ISA 9.7.1.18.

    A positive offset counts upwards (1 is the first set bit at or above base), a negative one downwards, and
    0 asks about the bit at base.
    """
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    position = base.astype(np.int64)
    remaining = np.maximum(np.abs(offset.astype(np.int64)), 1)
    step = np.where(offset < 0, -1, 1)
    r = np.full(mask.shape, 0xFFFF_FFFF, np.uint32)
    searching = (position >= 0) & (position < 32)
    for _ in range(32):
        bit = mask >> np.where(searching, position, 0).astype(np.uint32) & np.uint32(1)
        remaining -= searching & (bit == 1)
        found = searching & (remaining == 0)
        r[found] = position[found]
        position = position + step
        searching &= ~found & (offset != 0) & (position >= 0) & (position < 32)
    return r


def bmsk(position: U32, width: U32, *, wrap: bool) -> U32:
    """A mask of ``width`` ones from ``position``; clamp mode clamps both at 32. PTX ISA 9.7.1.23."""
    p, w = position & np.uint32(31), width & np.uint32(31)
    ones = np.uint32(0xFFFF_FFFF)
    low: U32 = ones << p
    end = p + w
    beyond = end >= 32
    if not wrap:
        low = np.where(position >= 32, np.uint32(0), low)
        beyond = beyond | (position >= 32) | (width >= 32)
    high = np.where(beyond, np.uint32(0), ones << np.minimum(end, np.uint32(31)))
    r: U32 = low & ~high
    return r


def szext(a: Integer, length: U32, *, wrap: bool) -> Integer:
    """Sign- (int32) or zero-extend (uint32) the low ``length`` bits. PTX ISA 9.7.1.22."""
    x = _unsigned(a)
    n = length & np.uint32(31)
    mask = np.uint32(0xFFFF_FFFF) << n
    if not wrap:
        mask = np.where(length >= 32, np.uint32(0), mask)
    r = x & ~mask
    if _signed(a):
        negative = (n != 0) & (x >> (n - np.uint32(1) & np.uint32(31)) & np.uint32(1)).astype(np.bool_)
        r = np.where(negative, r | mask, r)
    return r.view(a.dtype)


_PRMT: dict[str, list[int]] = {  # selector nibbles for c = 0, 1, 2, 3; low byte in the low nibble
    "f4e": [0x3210, 0x4321, 0x5432, 0x6543],
    "b4e": [0x5670, 0x6701, 0x7012, 0x0123],
    "rc8": [0x0000, 0x1111, 0x2222, 0x3333],
    "ecl": [0x3210, 0x3211, 0x3222, 0x3333],
    "ecr": [0x0000, 0x1110, 0x2210, 0x3210],
    "rc16": [0x1010, 0x3232, 0x1010, 0x3232],
}


def prmt(a: U32, b: U32, c: U32, mode: Literal["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"] | None = None) -> U32:
    """Pick four bytes of {b, a}; without a mode each nibble of c selects one, bit 3 replicates its sign.
    9.7.10.7.
    """
    if mode is not None:
        c = np.array(_PRMT[mode], np.uint32)[c & np.uint32(3)]
    pool = b.astype(np.uint64) << np.uint64(32) | a
    r = np.zeros(np.broadcast_shapes(pool.shape, c.shape), np.uint32)
    for index in range(4):
        nibble = c >> np.uint32(4 * index) & np.uint32(15)
        byte = (pool >> ((nibble & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint8)
        sign = (byte.view(np.int8) >> 7).view(np.uint8)
        r |= np.where(nibble & np.uint32(8), sign, byte).astype(np.uint32) << np.uint32(8 * index)
    return r


# -- dot products, carry-less product
# -----------------------------------------------------------------------------------


def _elements(a: U32, dtype: type[np.integer]) -> NDArray[np.int64]:
    return np.ascontiguousarray(a)[..., None].view(dtype).astype(np.int64)


def dp4a(a: U32, b: U32, c: U32, atype: Literal["u32", "s32"], btype: Literal["u32", "s32"]) -> U32:
    """Dot product of four bytes each, plus c, as 32 bits. PTX ISA 9.7.1.24."""
    x, y = _elements(a, TYPES[atype[0] + "8"]), _elements(b, TYPES[btype[0] + "8"])
    return (x * y).sum(-1).astype(np.uint32) + c


def dp2a(a: U32, b: U32, c: U32, atype: Literal["u32", "s32"], btype: Literal["u32", "s32"], *, hi: bool) -> U32:
    """Dot product of the halves of a and the low or high two bytes of b, plus c, as 32 bits. PTX ISA
    9.7.1.25.
    """
    x, y = _elements(a, TYPES[atype[0] + "16"]), _elements(b, TYPES[btype[0] + "8"])
    y = y[..., 2:] if hi else y[..., :2]
    return (x * y).sum(-1).astype(np.uint32) + c


def clmad(a: U64, b: U64, c: U64, *, hi: bool) -> U64:
    """Low or high 64 bits of the carry-less product of a and b, exclusive-or c. PTX ISA 9.7.1.5 (clmad, PTX
    9.3).
    """
    r = np.zeros(np.broadcast_shapes(a.shape, b.shape), np.uint64)
    for bit in range(64):
        if hi and bit == 0:
            continue
        term = b >> np.uint64(64 - bit) if hi else b << np.uint64(bit)
        r ^= np.where(a >> np.uint64(bit) & np.uint64(1), term, np.uint64(0))
    return r ^ c
