"""Values of instructions on constants: the simulator's arithmetic (`numerics`) on one lane, less what PTX leaves open.
A constant is its bits, an unsigned int.

`evaluate(opcode, slots, bits)` answers the results' bits, or None where the value is not certain: approximate
functions, infinities and NaN payloads, division by zero, conversions out of range, subnormal results that are flushed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..dialects.ptx.types import SCALAR_TYPES
from ..numerics import convert, floating, integer

__all__ = ["FLOATS", "compare", "evaluate", "float_bits", "mask", "signed", "width"]

Slots = Mapping[str, str]
Lanes = Any
"""A NumPy array of one number."""
Evaluate = Callable[[Slots, Sequence[int]], "int | tuple[int, ...] | None"]

FLOATS = ("f32", "f64")


def width(type_: str) -> int:
    return SCALAR_TYPES[type_].bits


def mask(bits: int) -> int:
    return (1 << bits) - 1


def signed(value: int, bits: int) -> int:
    value &= mask(bits)
    return value - (1 << bits) if value >> (bits - 1) else value


def evaluate(opcode: str, slots: Slots, values: Sequence[int]) -> tuple[int, ...] | None:
    """The bits of each result of an instruction on constant operands, or None where pyptx does not say."""
    function = _FUNCTIONS.get(opcode)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        found = function(slots, values)
    return found if found is None or isinstance(found, tuple) else (found,)


def _lanes(bits: int, type_: str) -> Lanes:
    """Bits as a number of a type; of a type of bits, as an unsigned one."""
    scalar = SCALAR_TYPES[type_]
    size = max(scalar.bits // 8, 1)
    letter = {"signed": "i", "float": "f"}.get(scalar.kind, "u")
    return np.array([bits & mask(scalar.bits)], np.uint64).astype(f"u{size}").view(f"{letter}{size}")


def _bits(lanes: Lanes) -> int:
    return int(lanes.view(f"u{lanes.dtype.itemsize}")[0])


def float_bits(value: float, type_: str) -> int | None:
    """Bits of a finite decimal constant rounded to nearest even; None for infinities and NaN."""
    with np.errstate(over="ignore"):
        number = np.array([value], f"f{width(type_) // 8}")
    return _bits(number) if np.isfinite(number[0]) else None


# ---------------------------------------------------------------------- integers


def _arithmetic(
    on_integers: Callable[[Slots, Sequence[int], str], int | None] | None, on_floats: Evaluate | None = None
) -> Evaluate:
    def function(slots: Slots, values: Sequence[int]) -> int | tuple[int, ...] | None:
        type_ = slots.get("type", "")
        if "atype" in slots or "cc" in slots or "relu" in slots:  # several types, the carry
            return None
        if type_ in FLOATS:
            return on_floats(slots, values) if on_floats is not None else None
        if on_integers is None or not type_ or SCALAR_TYPES[type_].kind not in ("signed", "unsigned"):
            return None
        return on_integers(slots, values, type_)

    return function


def _integers(function: Callable[..., Lanes]) -> Callable[[Slots, Sequence[int], str], int]:
    def run(slots: Slots, values: Sequence[int], type_: str) -> int:
        options = {"sat": True} if "sat" in slots else {}
        return _bits(function(*(_lanes(v, type_) for v in values), **options))

    return run


def _half(name: str) -> Callable[[Slots, Sequence[int], str], int | None]:
    """mul and mad: the half of the product that the modifiers name, or all of it."""

    def run(slots: Slots, values: Sequence[int], type_: str) -> int | None:
        half = slots.get("mode") or next((m for m in ("wide", "hi") if m in slots), "")
        if half not in ("lo", "hi", "wide") or "sat" in slots:
            return None
        added = f"{type_[0]}{2 * width(type_)}" if half == "wide" else type_
        types = (type_, type_, added)
        lanes = [_lanes(v, t) for v, t in zip(values, types, strict=False)]
        return _bits(getattr(integer, f"{name}_{half}")(*lanes))

    return run


def _quotient(function: Callable[..., Lanes]) -> Callable[[Slots, Sequence[int], str], int | None]:
    """div and rem, unless by zero or out of range."""

    def run(slots: Slots, values: Sequence[int], type_: str) -> int | None:
        bits = width(type_)
        a, b = (v & mask(bits) for v in values)
        if b == 0 or (type_[0] == "s" and b == mask(bits) and a == 1 << (bits - 1)):
            return None
        return _bits(function(_lanes(a, type_), _lanes(b, type_)))

    return run


def _typed(function: Callable[..., Lanes], *types: str) -> Evaluate:
    """A function of operands of these types; the empty string is the instruction's."""

    def run(slots: Slots, values: Sequence[int]) -> int:
        own = slots.get("type", "b32")
        lanes = [_lanes(v, t or own) for v, t in zip(values, types, strict=True)]
        return _bits(function(*lanes)) & mask(max(width(own), 8) if own != "pred" else 1)

    return run


def _count(function: Callable[..., Lanes]) -> Evaluate:
    """A count of the bits of an operand, which is a u32."""
    return lambda slots, values: _bits(function(_lanes(values[0], slots["type"])))


def _funnel(slots: Slots, values: Sequence[int]) -> int:
    function = integer.shf_l if slots["direction"] == "l" else integer.shf_r
    return _bits(function(*(_lanes(v, "u32") for v in values), wrap=slots["mode"] == "wrap"))


def _find(slots: Slots, values: Sequence[int]) -> int:
    return _bits(integer.bfind(_lanes(values[0], slots["type"]), shiftamt="shiftamt" in slots))


def _look_up(slots: Slots, values: Sequence[int]) -> int | None:
    if "bool" in slots:
        return None
    a, b, c = (_lanes(v, "u32") for v in values[:3])
    return _bits(integer.lop3(a, b, c, values[3] & 255))


def _permute(slots: Slots, values: Sequence[int]) -> int:
    mode: Any = slots.get("mode")
    a, b, c = (_lanes(v, "u32") for v in values)
    return _bits(integer.prmt(a, b, c, mode))


# ---------------------------------------------------------------------- floats


def _floats(
    function: Callable[..., Lanes], certain: Callable[[Slots, Sequence[Lanes]], bool] = lambda slots, lanes: True,
    *, rounds: bool = True,
) -> Evaluate:  # fmt: skip
    """On finite numbers with a finite result, where `certain`, that `.ftz` does not flush and `.sat` makes no -0."""

    def run(slots: Slots, values: Sequence[int]) -> int | None:
        lanes = [_lanes(v, slots["type"]) for v in values]
        if "ftz" in slots:
            lanes = [floating.flush(x) for x in lanes]
        if not all(np.isfinite(x[0]) for x in lanes) or not certain(slots, lanes):
            return None
        result = function(*lanes, rounding=slots.get("rnd", "rn")) if rounds else function(*lanes)
        number = result[0]
        if not np.isfinite(number) or ("ftz" in slots and 0 < abs(number) < np.finfo(result.dtype).tiny):
            return None
        if "sat" in slots:
            return None if number == 0 and np.signbit(number) else _bits(floating.saturate(result))
        return _bits(result)

    return run


def _says_rounding(slots: Slots, lanes: Sequence[Lanes]) -> bool:
    return "rnd" in slots and not slots.keys() & {"relu", "oob"}


def _divides(slots: Slots, lanes: Sequence[Lanes]) -> bool:
    return "rnd" in slots and bool(lanes[1][0] != 0)


def _has_root(slots: Slots, lanes: Sequence[Lanes]) -> bool:
    return "rnd" in slots and bool(lanes[0][0] >= 0)


def _picks_one(slots: Slots, lanes: Sequence[Lanes]) -> bool:
    if len(lanes) != 2 or slots.keys() & {"xorsign", "abs"}:
        return False
    a, b = lanes
    return bool(a[0] != b[0]) or _bits(a) == _bits(b)


# ---------------------------------------------------------------------- comparison, conversion


def compare(comparison: str, a: int, b: int, type_: str, *, ftz: bool = False) -> bool | None:
    """Whether `a cmp b` holds; None for types that are not folded."""
    name: Any = comparison
    x, y = _lanes(a, type_), _lanes(b, type_)
    if type_ in FLOATS:
        return bool(floating.compare(x, y, name, ftz=ftz)[0])
    if SCALAR_TYPES[type_].kind not in ("signed", "unsigned", "bits"):
        return None
    return bool(integer.compare(x, y, name)[0])


def _set_predicate(slots: Slots, values: Sequence[int]) -> tuple[int, ...] | None:
    if slots["type"] not in SCALAR_TYPES:
        return None
    first = compare(slots["cmp"], values[0], values[1], slots["type"], ftz="ftz" in slots)
    if first is None:
        return None
    outcomes = [int(first), int(not first)]
    if "bool" in slots:
        if len(values) < 3:
            return None
        c = values[2] & 1
        joined = {"and": [o & c for o in outcomes], "or": [o | c for o in outcomes], "xor": [o ^ c for o in outcomes]}
        outcomes = joined[slots["bool"]]
    return tuple(outcomes)


def _select(slots: Slots, values: Sequence[int]) -> int | None:
    return values[0] if values[2] & 1 else values[1]


def _select_by_sign(slots: Slots, values: Sequence[int]) -> int | None:
    c = _lanes(values[2], slots["ctype"])
    if "ftz" in slots:
        c = floating.flush(c)
    return values[0] if c[0] >= 0 else values[1]


_TO_INTEGER = {"rzi": math.trunc, "rni": round, "rmi": math.floor, "rpi": math.ceil}


def _convert(slots: Slots, values: Sequence[int]) -> int | None:
    """`cvt` between integers, f32 and f64 where the value is exact or its rounding given and in range."""
    to, source = slots.get("dtype", ""), slots.get("atype", "")
    if slots.keys() - {"dtype", "atype", "rnd", "irnd", "frnd", "rnd2"} or to == source:
        return None
    if not all(
        t in FLOATS or (t in SCALAR_TYPES and SCALAR_TYPES[t].kind in ("signed", "unsigned")) for t in (to, source)
    ):
        return None
    rounding: Any = next((v for k, v in slots.items() if k not in ("dtype", "atype")), None)
    lanes = _lanes(values[0], source)
    number = lanes[0].item()
    if not math.isfinite(number):
        return None
    if to not in FLOATS:
        if source in FLOATS:
            whole = _TO_INTEGER[rounding](number) if rounding in _TO_INTEGER else None
            if whole is None or _lanes(whole, to)[0].item() != whole:
                return None
        elif rounding is not None:
            return None
    made = _as_bits(convert.convert(lanes, source, to, rounding=rounding), to)
    if to in FLOATS:
        result = _lanes(made, to)[0].item()
        if not math.isfinite(result) or (rounding is None and result != number):
            return None
    return made


def _as_bits(patterns: Lanes, type_: str) -> int:
    return int(patterns[0]) & mask(width(type_))


# ---------------------------------------------------------------------- table

_FUNCTIONS: dict[str, Evaluate] = {
    "add": _arithmetic(_integers(integer.add), _floats(floating.add)),
    "sub": _arithmetic(_integers(integer.sub), _floats(floating.sub)),
    "mul": _arithmetic(_half("mul"), _floats(floating.mul)),
    "mad": _arithmetic(_half("mad"), _floats(floating.fma, _says_rounding)),
    "fma": _arithmetic(None, _floats(floating.fma, _says_rounding)),
    "sad": _arithmetic(_integers(integer.sad)),
    "div": _arithmetic(_quotient(integer.div), _floats(floating.div, _divides)),
    "rem": _arithmetic(_quotient(integer.rem)),
    "abs": _arithmetic(_integers(integer.absolute), _floats(floating.absolute, rounds=False)),
    "neg": _arithmetic(_integers(integer.neg), _floats(floating.neg, rounds=False)),
    "min": _arithmetic(_integers(integer.minimum), _floats(floating.minimum, _picks_one, rounds=False)),
    "max": _arithmetic(_integers(integer.maximum), _floats(floating.maximum, _picks_one, rounds=False)),
    "sqrt": _arithmetic(None, _floats(floating.sqrt, _has_root)),
    "popc": _count(integer.popc),
    "clz": _count(integer.clz),
    "brev": _typed(integer.brev, ""),
    "bfind": _find,
    "bfe": _typed(integer.bfe, "", "u32", "u32"),
    "bfi": _typed(integer.bfi, "", "", "u32", "u32"),
    "and": _typed(np.bitwise_and, "", ""),
    "or": _typed(np.bitwise_or, "", ""),
    "xor": _typed(np.bitwise_xor, "", ""),
    "not": _typed(np.invert, ""),
    "cnot": _typed(integer.cnot, ""),
    "lop3": _look_up,
    "shl": _typed(integer.shl, "", "u32"),
    "shr": _typed(integer.shr, "", "u32"),
    "shf": _funnel,
    "prmt": _permute,
    "setp": _set_predicate,
    "selp": _select,
    "slct": _select_by_sign,
    "cvt": _convert,
}
