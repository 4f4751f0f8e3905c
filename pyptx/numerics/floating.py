"""Single and double precision arithmetic of PTX: PTX ISA 9.7.3 (floating point) and 9.7.7 (comparison).

All functions take ``float32`` or ``float64`` arrays (all operands of one type, shapes broadcast) and return a
new array of that type. ``rounding`` is one of rn, rz, rm, rp. ``ftz`` (f32 only) flushes subnormal inputs and
results to sign-preserving zero; a result is flushed when it is subnormal after rounding. ``sat`` clamps to
[0, 1] with NaN -> +0.

NaN results: f32 always gives 0x7fffffff. f64 gives the first NaN operand, quieted, and 0xfff8000000000000
when no operand is NaN; the manual promises only *a* NaN there.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rounding: TypeAlias = Literal["rn", "rz", "rm", "rp"]
Float: TypeAlias = NDArray[np.floating[Any]]
"""float32 or float64: which one decides the operation, and the result has it too."""
Float32: TypeAlias = Float
Float64: TypeAlias = Float
Bool: TypeAlias = NDArray[np.bool_]

_F32 = np.dtype(np.float32)
_NAN32 = np.uint32(0x7FFF_FFFF)
_NAN64 = np.uint64(0xFFF8_0000_0000_0000)
_QUIET64 = np.uint64(0x0008_0000_0000_0000)
_MIN_NORMAL32 = np.float32(2.0**-126)


# -- helpers
# ----------------------------------------------------------------------------------------------------------


def quiet() -> np.errstate:
    """Context manager that silences NumPy's floating-point warnings."""
    return np.errstate(all="ignore")


def flush(x: Float32) -> Float32:
    """Subnormals of an f32 array become zeros of the same sign (``.ftz``)."""
    small = np.abs(x) < _MIN_NORMAL32
    if np.count_nonzero(small):
        return np.where(small, np.copysign(np.float32(0), x), x)
    return x


def saturate(x: Float) -> Float:
    """Clamp to [0, 1]; NaN and -0 become +0 (``.sat``)."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


def _canonical32(r: Float32) -> Float32:
    nan = r != r
    if np.count_nonzero(nan):
        r.view(np.uint32)[nan] = _NAN32
    return r


def _payload64(r: Float64, *operands: Float64) -> Float64:
    nan = r != r
    if np.count_nonzero(nan):
        bits = r.view(np.uint64)
        bits[nan] = _NAN64
        for operand in reversed(operands):
            source = np.broadcast_to(operand, r.shape)
            lanes = nan & (source != source)
            bits[lanes] = source[lanes].view(np.uint64) | _QUIET64
    return r


def _finish32(r: Float32, ftz: bool, sat: bool) -> Float32:
    if sat:
        r = saturate(r)
    if ftz:
        r = flush(r)
    return _canonical32(r)


def _rounded32(
    nearest: np.ufunc,
    directed: Callable[..., Float32],
    a: Float32,
    b: Float32,
    rounding: Rounding,
    ftz: bool,
    sat: bool,
) -> Float32:
    """An operation on f32 by its modifiers: `nearest` rounds to nearest even, `directed` otherwise."""
    if ftz:
        a, b = flush(a), flush(b)
    r = nearest(a, b) if rounding == "rn" else _in_chunks(directed, (a, b), rounding)
    return _finish32(r, ftz, sat)


def _two_sum(x: Float64, y: Float64) -> tuple[Float64, Float64]:
    """x + y exactly as a rounded sum and its error (Knuth)."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def _split(x: Float64) -> tuple[Float64, Float64]:
    t = x * 134217729.0  # 2**27 + 1 (Veltkamp)
    high = t - (t - x)
    return high, x - high


def _two_product(x: Float64, y: Float64) -> tuple[Float64, Float64]:
    """x * y exactly as a rounded product and its error (Dekker); no overflow or underflow allowed."""
    p = x * y
    xh, xl = _split(x)
    yh, yl = _split(y)
    return p, ((xh * yh - p) + xh * yl + xl * yh) + xl * yl


def odd_sum(x: Float64, y: Float64) -> Float64:
    """x + y rounded to odd: truncated, with the last bit set if anything was lost.

    Rounding such a value again, to a format at least two bits narrower, equals rounding the exact sum once.
    """
    s, error = _two_sum(x, y)
    bits = s.view(np.int64)
    inexact_even = (np.abs(error) > 0) & ((bits & 1) == 0)  # the error of an infinite sum is NaN: not greater
    toward = np.where((error > 0) == (s > 0), 1, -1)
    return (bits + toward * inexact_even).view(np.float64)


def _directed(r: Float, above: Bool, below: Bool, rounding: Rounding) -> Float:
    """Turn a result rounded to nearest into a directed one; above/below: the exact value is greater/less than
    it.
    """
    bits: NDArray[np.signedinteger[Any]] = r.view(np.int32 if r.dtype == _F32 else np.int64)
    negative = bits < 0
    if rounding == "rp":
        step = np.where(negative, -1, 1) * above
    elif rounding == "rm":
        step = np.where(negative, 1, -1) * below
    else:
        step = -np.where(negative, above, below).astype(np.int64)
    return (bits + step.astype(bits.dtype)).view(r.dtype)


def round32(exact: Float64, rounding: Rounding) -> Float32:
    """Round float64 values (exact, or rounded to odd) to f32; NaN bits are not canonical."""
    r = exact.astype(np.float32)
    if rounding == "rn":
        return r
    return _directed(r, exact > r, exact < r, rounding)


def _exact_zero(r: Float, zero: Bool, negative: Bool, rounding: Rounding) -> Float:
    """Sign of an exactly zero sum: under rm it is -0 as soon as one addend is negative (IEEE 754, 6.3)."""
    if rounding == "rm":
        lanes = zero & negative
        if np.count_nonzero(lanes):
            return np.where(lanes, r.dtype.type(-0.0), r)
    return r


# -- exact arithmetic for the rare lanes where the float64 tricks over- or underflow
# -----------------------------------


def _round_fraction(value: Fraction, rounding: Rounding, *, inexact: bool = False) -> float:
    """Round a non-zero rational to float64. ``inexact``: the true magnitude is slightly larger than
    ``value``.
    """
    negative = value < 0
    n, d = abs(value.numerator), value.denominator
    exponent = max(n.bit_length() - d.bit_length() - 53, -1074)
    while True:
        q, rest = divmod(n << max(-exponent, 0), d << max(exponent, 0))
        if q < 1 << 53:
            break
        exponent += 1
    if rounding == "rn":
        twice = 2 * rest - (d << max(exponent, 0))
        up = twice > 0 or (twice == 0 and (inexact or q & 1 == 1))
    else:
        up = (rest != 0 or inexact) and rounding == ("rm" if negative else "rp")
    q += up
    if q and q.bit_length() + exponent > 1024:
        largest = rounding == "rz" or rounding == ("rp" if negative else "rm")
        r = math.ldexp(float((1 << 53) - 1), 971) if largest else math.inf
    else:
        r = math.ldexp(float(q), exponent)
    return -r if negative else r


def _sqrt_fraction(value: Fraction, rounding: Rounding) -> float:
    shift = 1200  # even, and enough for a subnormal to keep more than 55 bits of root
    n, d = value.numerator << (2 * shift), value.denominator
    root = math.isqrt(n // d)
    return _round_fraction(Fraction(root, 1 << shift), rounding, inexact=root * root * d != n)


def _exact_lanes(
    r: Float64,
    hard: Bool,
    rounding: Rounding,
    function: Callable[..., float],
    *operands: Float64,
) -> None:
    """Recompute lanes of ``r`` in place with rational arithmetic."""
    if not np.count_nonzero(hard):
        return
    columns = [np.broadcast_to(x, r.shape)[hard].tolist() for x in operands]
    r[hard] = [function(rounding, *map(Fraction, lane)) for lane in zip(*columns, strict=True)]


def _fma_fraction(rounding: Rounding, a: Fraction, b: Fraction, c: Fraction) -> float:
    value = a * b + c
    if value == 0:  # cancellation: hard lanes have a non-zero product
        return -0.0 if rounding == "rm" else 0.0
    return _round_fraction(value, rounding)


_CHUNK = 8192  # lanes of f32 (half as many of f64) whose temporaries stay in the caches and out of mmap


def _in_chunks(kernel: Callable[..., Float], operands: tuple[Float, ...], rounding: Rounding) -> Float:
    """Run a kernel with many temporaries over pieces of large arrays: several times faster than in one go."""
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    lanes = _CHUNK * 4 // operands[0].itemsize
    if math.prod(shape) <= lanes:
        return kernel(*operands, rounding)
    flat = [np.broadcast_to(x, shape).ravel() for x in operands]
    r = np.empty(flat[0].size, flat[0].dtype)
    for start in range(0, r.size, lanes):
        r[start : start + lanes] = kernel(*(x[start : start + lanes] for x in flat), rounding)
    return r.reshape(shape)


# -- f64 kernels
# ------------------------------------------------------------------------------------------------------

_BIG = 2.0**990
_SMALL = 2.0**-950


def _add64(a: Float64, b: Float64, rounding: Rounding) -> Float64:
    r, error = _two_sum(a, b)
    if rounding == "rn":
        return r
    over = np.isinf(r) & np.isfinite(a) & np.isfinite(b)
    directed = _directed(r, (error > 0) | (over & (r < 0)), (error < 0) | (over & (r > 0)), rounding)
    return _exact_zero(directed, r == 0, np.signbit(a) | np.signbit(b), rounding)


def _mul64(a: Float64, b: Float64, rounding: Rounding) -> Float64:
    if rounding == "rn":
        return a * b
    r, error = _two_product(a, b)
    magnitude = np.abs(r)
    ordinary = (np.abs(a) < _BIG) & (np.abs(b) < _BIG) & (magnitude > _SMALL) & (magnitude < _BIG)
    r = _directed(r, ordinary & (error > 0), ordinary & (error < 0), rounding)
    hard = ~ordinary & np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    _exact_lanes(r, hard, rounding, lambda mode, x, y: _round_fraction(x * y, mode), a, b)
    return r


def _div64(a: Float64, b: Float64, rounding: Rounding) -> Float64:
    r = a / b
    if rounding == "rn":
        return r
    p, error = _two_product(r, b)
    rest = (a - p) - error  # a - p is exact, so the sign of the rest is
    rest = np.where(np.signbit(b), -rest, rest)
    ordinary = (
        (np.abs(r) < _BIG) & (np.abs(r) > _SMALL) & (np.abs(b) < _BIG) & (np.abs(p) < _BIG) & (np.abs(p) > _SMALL)
    )
    r = _directed(r, ordinary & (rest > 0), ordinary & (rest < 0), rounding)
    hard = ~ordinary & np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    _exact_lanes(r, hard, rounding, lambda mode, x, y: _round_fraction(x / y, mode), a, b)
    return r


def _sqrt64(a: Float64, rounding: Rounding) -> Float64:
    r = np.sqrt(a)
    if rounding == "rn":
        return r
    p, error = _two_product(r, r)
    rest = (a - p) - error
    ordinary = (a > _SMALL) & (a < _BIG)
    r = _directed(r, ordinary & (rest > 0), ordinary & (rest < 0), rounding)
    hard = ~ordinary & (a > 0) & np.isfinite(a)
    _exact_lanes(r, hard, rounding, lambda mode, x: _sqrt_fraction(x, mode), a)
    return r


def _fma64(a: Float64, b: Float64, c: Float64, rounding: Rounding) -> Float64:
    # Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008: round to odd what remains
    # after two error-free sums, then round once more.
    p, product_error = _two_product(a, b)
    th, tl = _two_sum(c, product_error)
    vh, vl = _two_sum(p, th)
    z = odd_sum(tl, vl)
    r, error = _two_sum(vh, z)
    if rounding != "rn":
        r = _directed(r, error > 0, error < 0, rounding)
    zero = r == 0
    if np.count_nonzero(zero):
        # Here p + c is exact; the sums above lose the sign of a zero.
        r = _exact_zero(np.where(zero, p + c, r), zero, np.signbit(p) | np.signbit(c), rounding)
    magnitude = np.abs(p)
    ordinary = (np.abs(a) < _BIG) & (np.abs(b) < _BIG) & (np.abs(c) < _BIG) & (magnitude < _BIG)
    ordinary &= (magnitude > _SMALL) | (a == 0) | (b == 0)
    if np.count_nonzero(ordinary) == ordinary.size:
        return r
    product_finite = np.isfinite(a) & np.isfinite(b)
    hard = ~ordinary & product_finite & np.isfinite(c)
    # A zero product adds exactly; an infinite c wins over any finite product, even one that overflows.
    simple = np.where(product_finite & np.isinf(c), c, a * b + c)
    simple = _exact_zero(simple, simple == 0, np.signbit(p) | np.signbit(c), rounding)
    r = np.where(ordinary, r, simple)
    hard &= (a != 0) & (b != 0)
    _exact_lanes(r, hard, rounding, _fma_fraction, a, b, c)
    return r


# -- arithmetic
# -------------------------------------------------------------------------------------------------------


def add(a: Float, b: Float, *, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> Float:
    """a + b (add{.rnd}{.ftz}{.sat}.f32/.f64). PTX ISA 9.7.3.3."""
    if a.dtype == _F32:
        if rounding == "rn" and not ftz and not sat:
            return _canonical32(a + b)
        return _rounded32(np.add, _add32_directed, a, b, rounding, ftz, sat)
    return _payload64(_in_chunks(_add64, (a, b), rounding), a, b)


def sub(a: Float, b: Float, *, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> Float:
    """a - b (sub{.rnd}{.ftz}{.sat}.f32/.f64). PTX ISA 9.7.3.4."""
    if a.dtype == _F32:
        if rounding == "rn" and not ftz and not sat:
            return _canonical32(a - b)
        return add(a, -b, rounding=rounding, ftz=ftz, sat=sat)
    return _payload64(_in_chunks(_add64, (a, -b), rounding), a, b)


def mul(a: Float, b: Float, *, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> Float:
    """a * b (mul{.rnd}{.ftz}{.sat}.f32/.f64). PTX ISA 9.7.3.5."""
    if a.dtype == _F32:
        if rounding == "rn" and not ftz and not sat:
            return _canonical32(a * b)
        return _rounded32(np.multiply, _mul32_directed, a, b, rounding, ftz, sat)
    return _payload64(_in_chunks(_mul64, (a, b), rounding), a, b)


def fma(a: Float, b: Float, c: Float, *, rounding: Rounding = "rn", ftz: bool = False, sat: bool = False) -> Float:
    """a * b + c rounded once (fma and mad, .f32/.f64). PTX ISA 9.7.3.6."""
    if a.dtype == _F32:
        if ftz:
            a, b, c = flush(a), flush(b), flush(c)
        if rounding == "rn":
            r = _fma32(a, b, c)
            return _finish32(r, ftz, sat) if ftz or sat else r
        return _finish32(_in_chunks(_fma32_directed, (a, b, c), rounding), ftz, sat)
    return _payload64(_in_chunks(_fma64, (a, b, c), rounding), a, b, c)


# 0-d arrays: NumPy combines them with an array faster than scalars.
_LOW29 = np.array((1 << 29) - 1, np.uint64)
_HALF29 = np.array(1 << 28, np.uint64)
_NORMAL = np.array(2.0**-126)


def _fma32(a: Float32, b: Float32, c: Float32) -> Float32:
    """Round-to-nearest fma with canonical NaN."""
    if a.size > _CHUNK or b.size > _CHUNK or c.size > _CHUNK:
        return _in_chunks(lambda x, y, z, _: _fma32(x, y, z), (a, b, c), "rn")
    product = a.astype(np.float64) * b.astype(np.float64)  # 48 bits: exact
    addend = c.astype(np.float64)
    s = product + addend
    # Rounding to float64 and then to float32 goes wrong only if the float64 sum sits exactly half-way between
    # two float32 numbers: low 29 bits 100..0, or anything in the subnormal range, where half-way moves.
    normal = np.abs(s) >= _NORMAL
    half = (s.view(np.uint64) & _LOW29) == _HALF29
    if np.count_nonzero(normal) == s.size:
        if not np.count_nonzero(half):
            return s.astype(np.float32)
    elif not np.count_nonzero(half) and not np.count_nonzero(s[~normal]):  # zeros only, no NaN
        return s.astype(np.float32)
    return _canonical32(odd_sum(product, addend).astype(np.float32))


def _add32_directed(a: Float32, b: Float32, rounding: Rounding) -> Float32:
    t = odd_sum(a.astype(np.float64), b.astype(np.float64))
    return _exact_zero(round32(t, rounding), t == 0, np.signbit(a) | np.signbit(b), rounding)


def _mul32_directed(a: Float32, b: Float32, rounding: Rounding) -> Float32:
    return round32(a.astype(np.float64) * b.astype(np.float64), rounding)


def _fma32_directed(a: Float32, b: Float32, c: Float32, rounding: Rounding) -> Float32:
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    t = odd_sum(product, addend)
    return _exact_zero(round32(t, rounding), t == 0, np.signbit(product) | np.signbit(addend), rounding)


def div(a: Float, b: Float, *, rounding: Rounding = "rn", ftz: bool = False) -> Float:
    """a / b, correctly rounded (div.rnd{.ftz}.f32/.f64). PTX ISA 9.7.3.8."""
    if a.dtype == _F32:
        if ftz:
            a, b = flush(a), flush(b)
        r = a / b
        if rounding != "rn":
            divisor, quotient = b.astype(np.float64), r.astype(np.float64)
            rest = a.astype(np.float64) - quotient * divisor  # exact: a 24 by 24 bit product, close to a
            rest = np.where(np.signbit(b), -rest, rest)
            over = np.isinf(r) & np.isfinite(a) & (b != 0)
            r = _directed(r, (rest > 0) | (over & (r < 0)), (rest < 0) | (over & (r > 0)), rounding)
        return _finish32(r, ftz, False)
    return _payload64(_in_chunks(_div64, (a, b), rounding), a, b)


def rcp(a: Float, *, rounding: Rounding = "rn", ftz: bool = False) -> Float:
    """1 / a, correctly rounded (rcp.rnd{.ftz}.f32/.f64). PTX ISA 9.7.3.13."""
    return div(np.ones_like(a), a, rounding=rounding, ftz=ftz)


def sqrt(a: Float, *, rounding: Rounding = "rn", ftz: bool = False) -> Float:
    """Square root, correctly rounded (sqrt.rnd{.ftz}.f32/.f64); NaN if negative. PTX ISA 9.7.3.15."""
    if a.dtype == _F32:
        if ftz:
            a = flush(a)
        r = np.sqrt(a)
        if rounding != "rn":
            root = r.astype(np.float64)
            rest = a.astype(np.float64) - root * root
            r = _directed(r, rest > 0, rest < 0, rounding)
        return _finish32(r, ftz, False)
    return _payload64(_in_chunks(_sqrt64, (a,), rounding), a)


def absolute(a: Float, *, ftz: bool = False) -> Float:
    """Absolute value. f32 NaN gives the canonical NaN, f64 only clears the sign. PTX ISA 9.7.3.9."""
    r = np.abs(a)
    return _finish32(r, ftz, False) if a.dtype == _F32 else r


def neg(a: Float, *, ftz: bool = False) -> Float:
    """Negation. f32 NaN gives the canonical NaN, f64 only flips the sign. PTX ISA 9.7.3.10."""
    r = -a
    return _finish32(r, ftz, False) if a.dtype == _F32 else r


def copysign(a: Float, b: Float) -> Float:
    """The value of ``b`` with the sign of ``a``; NaNs keep their bits. PTX ISA 9.7.3.2."""
    return np.copysign(b, a)


def minimum(
    a: Float,
    b: Float,
    c: Float | None = None,
    *,
    ftz: bool = False,
    nan: bool = False,
    abs: bool = False,
    xorsign: bool = False,
) -> Float:
    """Smaller of two or three values (min{.ftz}{.NaN}{.xorsign}{.abs}); -0 is less than +0. PTX ISA 9.7.3.11.

    A NaN operand is ignored unless ``nan`` (then it makes the result NaN); all NaN gives NaN. ``abs``
    compares magnitudes and returns one; ``xorsign`` gives a result that is not NaN the exclusive-or of the
    operands' signs.
    """
    return _extreme(np.fmin, np.bitwise_or, (a, b) if c is None else (a, b, c), ftz, nan, abs, xorsign)


def maximum(
    a: Float,
    b: Float,
    c: Float | None = None,
    *,
    ftz: bool = False,
    nan: bool = False,
    abs: bool = False,
    xorsign: bool = False,
) -> Float:
    """Larger of two or three values (max{.ftz}{.NaN}{.xorsign}{.abs}), as in minimum. PTX ISA 9.7.3.12."""
    return _extreme(np.fmax, np.bitwise_and, (a, b) if c is None else (a, b, c), ftz, nan, abs, xorsign)


def _extreme(
    choose: np.ufunc,
    zeros: np.ufunc,
    operands: tuple[Float, ...],
    ftz: bool,
    nan: bool,
    magnitude: bool,
    xorsign: bool,
) -> Float:
    single = operands[0].dtype == _F32
    word = np.uint32 if single else np.uint64
    if ftz and single:
        operands = tuple(flush(x) for x in operands)
    signs = [np.signbit(x) for x in operands]
    if magnitude:
        operands = tuple(np.abs(x) for x in operands)
    r = operands[0]
    for x in operands[1:]:
        # Equal operands have equal bits except for zeros of different sign, where or/and keeps/drops the
        # sign.
        same = zeros(r.view(word), x.view(word)).view(r.dtype)
        r = np.where(r == x, same, choose(r, x))
    if xorsign:
        negative = np.logical_xor.reduce(np.broadcast_arrays(*signs))
        r = np.where(r == r, np.copysign(r, np.where(negative, -1.0, 1.0).astype(r.dtype)), r)
    if nan:
        for x in operands:
            r = np.where(x != x, x, r)
    if single:
        return _canonical32(r)
    return _payload64(r, *operands)


def packed_f32x2(
    function: Callable[..., Float32], *operands: NDArray[np.uint64], **modifiers: object
) -> NDArray[np.uint64]:
    """Apply a function of this module to both halves of f32x2 registers (uint64, low word first). PTX ISA
    9.7.3.3-6.
    """
    halves = [np.ascontiguousarray(x).view(np.float32) for x in operands]
    return np.ascontiguousarray(function(*halves, **modifiers)).view(np.uint64)


# -- tests and comparisons
# --------------------------------------------------------------------------------------------

Property: TypeAlias = Literal["finite", "infinite", "number", "notanumber", "normal", "subnormal"]


def testp(a: Float32 | Float64, property: Property) -> Bool:
    """Floating-point property as a boolean array; zeros count as normal. PTX ISA 9.7.3.1."""
    match property:
        case "finite":
            return np.isfinite(a)
        case "infinite":
            return np.isinf(a)
        case "number":
            return a == a
        case "notanumber":
            return a != a
        case "normal" | "subnormal":
            subnormal = (np.abs(a) < np.finfo(a.dtype).smallest_normal) & (a != 0)
            return subnormal if property == "subnormal" else np.isfinite(a) & ~subnormal


testp.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]  # not a pytest test

Comparison: TypeAlias = Literal[
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"
]

_ORDERED: dict[str, Callable[[NDArray[np.floating], NDArray[np.floating]], Bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}


def compare(a: Float, b: Float, comparison: Comparison, *, ftz: bool = False) -> Bool:
    """Result of set/setp as booleans. Ordered comparisons (eq..ge) are false on NaN, the ...u ones true.
    9.3.1.2.
    """
    if ftz and a.dtype == _F32:
        a, b = flush(a), flush(b)
    return _ORDERED[comparison](a, b)


def set_value(predicate: Bool, dtype: Literal["u32", "s32", "f32", "f16", "bf16", "u16", "s16"]) -> NDArray[np.generic]:
    """What ``set`` writes: all ones or 1.0 for true, zero for false, in the type of the result. PTX ISA
    9.7.7.1.
    """
    match dtype:
        case "f32":
            return predicate.astype(np.float32)
        case "f16" | "bf16":
            return predicate * np.uint16(0x3C00 if dtype == "f16" else 0x3F80)
        case _:
            return -predicate.astype({"u32": np.uint32, "s32": np.int32, "u16": np.uint16, "s16": np.int16}[dtype])
