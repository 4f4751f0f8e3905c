"""The functions of `floating` and `integer` that the compiler of runs knows, for one lane in LLVM IR.

Each has the name of its NumPy twin, which says what it computes and why; both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lane import Lane, Value

Native = Callable[..., Any]
"""`(lane, *values) -> value`, or a tuple of values."""

_FLOATS = ("float", "double")
_ORDERED = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
            "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
            "num": "ord", "nan": "uno"}  # fmt: skip
_UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}


def rounded_to_nearest(function: Native, *, rounding: str | None = None, **options: Any) -> Native | None:
    """The function with options, or None for a rounding other than to nearest even."""
    return None if rounding else partial(function, **options)


def operation(name: str) -> Native:
    """An operation of LLVM on two integers."""

    def native(lane: Lane, a: Value, b: Value) -> Value:
        return lane.binary(name, a, b)

    return native


# -- floating point
# ----------------------------------------------------------------------------------------------------------


def flush(lane: Lane, x: Value) -> Value:
    small = lane.compare("olt", lane.call("fabs", x), lane.constant(2.0**-126, x.type))
    return lane.select(small, lane.call("copysign", lane.constant(0.0, x.type), x), x)


def _is_nan(lane: Lane, x: Value) -> Value:
    return lane.compare("uno", x, x)


def _flushed(lane: Lane, ftz: bool, *values: Value) -> list[Value]:
    return [flush(lane, x) if ftz and x.type == "float" else x for x in values]


def _finish(lane: Lane, r: Value, operands: tuple[Value, ...], ftz: bool = False, sat: bool = False) -> Value:
    """Saturate, flush, and give NaNs the bits that `floating` gives them."""
    if r.type == "float":
        if sat:
            one, zero = lane.constant(1.0, r.type), lane.constant(0.0, r.type)
            low = lane.select(lane.compare("olt", r, one), r, one)
            r = lane.select(lane.compare("ogt", r, zero), low, zero)
        if ftz:
            r = flush(lane, r)
        return lane.select(_is_nan(lane, r), lane.bits(0x7FFF_FFFF, r.type), r)
    nan = lane.bits(0xFFF8_0000_0000_0000, r.type)
    for x in reversed(operands):
        quiet = lane.binary("or", lane.word(x), lane.bits(0x0008_0000_0000_0000, "i64"))
        nan = lane.select(_is_nan(lane, x), lane.convert("bitcast", quiet, r.type), nan)
    return lane.select(_is_nan(lane, r), nan, r)


def _two(name: str, lane: Lane, a: Value, b: Value, *, ftz: bool = False, sat: bool = False) -> Value:
    x, y = _flushed(lane, ftz, a, b)
    return _finish(lane, lane.binary(name, x, y), (a, b), ftz, sat)


add = partial(_two, "fadd")
sub = partial(_two, "fsub")
mul = partial(_two, "fmul")
div = partial(_two, "fdiv")


def fma(lane: Lane, a: Value, b: Value, c: Value, *, ftz: bool = False, sat: bool = False) -> Value:
    return _finish(lane, lane.call("fma", *_flushed(lane, ftz, a, b, c)), (a, b, c), ftz, sat)


_STEPS = {"rp": (True, "add"), "rm": (False, "sub"), "rz": (False, "sub")}
"""Directed rounding of a positive result that was rounded to nearest: whether it moves where it is too small (or too large),
and which way its bits go.
"""
_TINY, _UP, _DOWN = 2.0**-900, 2.0**200, 2.0**-100


def sqrt(lane: Lane, a: Value, *, rounding: str = "rn", ftz: bool = False) -> Value:
    """Scaled by powers of 4 where the rest of a double would underflow; else the rest is exact."""
    (x,) = _flushed(lane, ftz, a)
    if x.type == "float":
        # LLVM would take `x < 0 ? NaN : sqrt(x)` for sqrt(x), whose NaN has other bits
        legal = lane.compare("oge", x, lane.constant(0.0, x.type))
        r = lane.call("sqrt", lane.select(legal, x, lane.constant(0.0, x.type)))
        if rounding != "rn":
            root = lane.convert("fpext", r, "double")
            rest = lane.binary("fsub", lane.convert("fpext", x, "double"), lane.binary("fmul", root, root))
            r = _stepped(lane, r, rest, rounding)
        if ftz:
            r = flush(lane, r)
        return lane.select(legal, r, lane.bits(0x7FFF_FFFF, r.type))
    if rounding == "rn":
        return _finish(lane, lane.call("sqrt", x), (a,))
    tiny = lane.compare("olt", x, lane.constant(_TINY, "double"))
    x = lane.select(tiny, lane.binary("fmul", x, lane.constant(_UP, "double")), x)
    r = lane.call("sqrt", x)
    rest = lane.call("fma", lane.define(f"fneg double {r.name}", "double"), r, x)
    r = _stepped(lane, r, rest, rounding)
    return _finish(lane, lane.select(tiny, lane.binary("fmul", r, lane.constant(_DOWN, "double")), r), (a,))


def _stepped(lane: Lane, r: Value, rest: Value, rounding: str) -> Value:
    """A positive result with its directed rounding; `rest`: the sign of what is exact less it."""
    small, way = _STEPS[rounding]
    wrong = lane.compare("ogt" if small else "olt", rest, lane.constant(0.0, rest.type))
    word = lane.word(r)
    return lane.convert("bitcast", lane.binary(way, word, lane.convert("zext", wrong, word.type)), r.type)


def _sign(lane: Lane, r: Value, ftz: bool) -> Value:
    return _finish(lane, r, (), ftz) if r.type == "float" else r


def absolute(lane: Lane, a: Value, *, ftz: bool = False) -> Value:
    if a.type in _FLOATS:
        return _sign(lane, lane.call("fabs", a), ftz)
    negative = lane.compare("slt", a, lane.constant(0, a.type))
    return lane.select(negative, neg(lane, a), a)


def neg(lane: Lane, a: Value, *, ftz: bool = False) -> Value:
    if a.type in _FLOATS:
        return _sign(lane, lane.define(f"fneg {a.type} {a.name}", a.type), ftz)
    return lane.binary("sub", lane.constant(0, a.type), a)


def _extreme(
    condition: str, zeros: str, lane: Lane, *values: Value, ftz: bool = False, nan: bool = False, **others: bool
) -> Value:
    r, *rest = operands = _flushed(lane, ftz, *values)
    for x in rest:
        same = lane.convert("bitcast", lane.binary(zeros, lane.word(r), lane.word(x)), r.type)
        better = lane.select(lane.compare(condition, r, x), r, x)
        better = lane.select(_is_nan(lane, x), r, better)
        r = lane.select(lane.compare("oeq", r, x), same, better)
    if nan:
        for x in operands:
            r = lane.select(_is_nan(lane, x), x, r)
    return _finish(lane, r, tuple(operands))


minimum = partial(_extreme, "olt", "or")
maximum = partial(_extreme, "ogt", "and")


def compare(lane: Lane, a: Value, b: Value, *, comparison: str, signed: bool = False, ftz: bool = False) -> Value:
    """Of floats or integers, as the type of the operands says."""
    if a.type in _FLOATS:
        return lane.compare(_ORDERED[comparison], *_flushed(lane, ftz, a, b))
    condition = _UNSIGNED.get(comparison) or (
        comparison if comparison in ("eq", "ne") else ("s" if signed else "u") + comparison
    )
    return lane.compare(condition, a, b)


def compare_pair(
    lane: Lane, a: Value, b: Value, *rest: Value, compare: Native, combine: str | None
) -> tuple[Value, Value]:
    """setp with two results, perhaps combined with a predicate."""
    r = compare(lane, a, b)
    both = r, not_(lane, r)
    if combine is None:
        return both
    p, q = (lane.binary(combine, x, rest[0]) for x in both)
    return p, q


def compare_combined(lane: Lane, *values: Value, compare: Native, combine: str | None) -> Value:
    """The first result of `compare_pair`."""
    return compare_pair(lane, *values, compare=compare, combine=combine)[0]


# -- integers
# ----------------------------------------------------------------------------------------------------------


def not_(lane: Lane, a: Value) -> Value:
    return lane.binary("xor", a, lane.constant(-1, a.type))


def cnot(lane: Lane, a: Value) -> Value:
    return lane.convert("zext", lane.compare("eq", a, lane.constant(0, a.type)), a.type)


def integer_extreme(lane: Lane, a: Value, b: Value, *, smaller: bool, signed: bool, relu: bool = False) -> Value:
    letter = "s" if signed else "u"
    r = lane.call(f"{letter}{'min' if smaller else 'max'}", a, b)
    return lane.call("smax", r, lane.constant(0, r.type)) if relu and signed else r


def _wide(lane: Lane, a: Value, b: Value, signed: bool) -> Value:
    type = f"i{2 * int(a.type[1:])}"
    return lane.binary("mul", lane.resize(a, type, signed), lane.resize(b, type, signed))


def mul_wide(lane: Lane, a: Value, b: Value, *, signed: bool) -> Value:
    return _wide(lane, a, b, signed)


def mul_hi(lane: Lane, a: Value, b: Value, *, signed: bool) -> Value:
    product = _wide(lane, a, b, signed)
    return lane.resize(lane.binary("lshr", product, lane.constant(int(a.type[1:]), product.type)), a.type)


def mad_lo(lane: Lane, a: Value, b: Value, c: Value) -> Value:
    return lane.binary("add", lane.binary("mul", a, b), c)


def mad_wide(lane: Lane, a: Value, b: Value, c: Value, *, signed: bool) -> Value:
    return lane.binary("add", _wide(lane, a, b, signed), c)


def mad_hi(lane: Lane, a: Value, b: Value, c: Value, *, signed: bool) -> Value:
    return lane.binary("add", mul_hi(lane, a, b, signed=signed), c)


def shift(lane: Lane, a: Value, amount: Value, *, left: bool, signed: bool) -> Value:
    """shl and shr: LLVM leaves amounts of the width and more undefined."""
    width = int(a.type[1:])
    if left or not signed:
        inside = lane.compare("ult", amount, lane.constant(width, amount.type))
        small = lane.binary("and", amount, lane.constant(width - 1, amount.type))
        r = lane.binary("shl" if left else "lshr", a, lane.resize(small, a.type))
        return lane.select(inside, r, lane.constant(0, a.type))
    small = lane.call("umin", amount, lane.constant(width - 1, amount.type))
    return lane.binary("ashr", a, lane.resize(small, a.type))


def shf(lane: Lane, a: Value, b: Value, amount: Value, *, left: bool, wrap: bool) -> Value:
    high = lane.binary("shl", lane.resize(b, "i64"), lane.constant(32, "i64"))
    joined = lane.binary("or", high, lane.resize(a, "i64"))
    bound = lane.constant(31 if wrap else 32, "i32")
    n = lane.binary("and", amount, bound) if wrap else lane.call("umin", amount, bound)
    n = lane.resize(n, "i64")
    if not left:
        return lane.resize(lane.binary("lshr", joined, n), "i32")
    return lane.resize(lane.binary("lshr", lane.binary("shl", joined, n), lane.constant(32, "i64")), "i32")


def lop3(lane: Lane, a: Value, b: Value, c: Value, *, table: int) -> Value:
    r = lane.constant(0, "i32")
    for index in range(8):
        if table >> index & 1:
            picked = [x if index & bit else not_(lane, x) for x, bit in ((a, 4), (b, 2), (c, 1))]
            term = lane.binary("and", lane.binary("and", picked[0], picked[1]), picked[2])
            r = lane.binary("or", r, term)
    return r


def selp(lane: Lane, a: Value, b: Value, p: Value) -> Value:
    return lane.select(p, a, b)


# -- moves and conversions
# ----------------------------------------------------------------------------------------------------------


def same(lane: Lane, a: Value) -> Value:
    return a


def several(lane: Lane, *values: Value) -> tuple[Value, ...]:
    return values


def join(lane: Lane, *values: Value, type: str) -> Value:
    """The first value lowest."""
    r = lane.resize(values[0], type)
    for i, x in enumerate(values[1:], 1):
        up = lane.constant(i * int(x.type[1:]), type)
        r = lane.binary("or", r, lane.binary("shl", lane.resize(x, type), up))
    return r


def split(lane: Lane, a: Value, *, type: str) -> tuple[Value, ...]:
    width = int(type[1:])
    shifts = range(0, int(a.type[1:]), width)
    return tuple(lane.resize(lane.binary("lshr", a, lane.constant(n, a.type)), type) for n in shifts)


def from_integer(lane: Lane, a: Value, *, type: str, signed: bool) -> Value:
    """An integer in another integer type, or rounded to a float."""
    if type in _FLOATS:
        return lane.convert("sitofp" if signed else "uitofp", a, type)
    return lane.resize(a, type, signed)
