"""Exact values of instructions on constants, as PTX defines them. A constant is its bits, an unsigned int.

`evaluate(opcode, slots, bits)` answers the results' bits, or None where the value is not certain: approximate
functions, NaN payloads, division by zero, conversions out of range, subnormal results that are flushed.
Floats are computed as fractions and rounded once. Sections of the PTX ISA are those of the op classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..dialects.ptx.types import SCALAR_TYPES

Slots = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE binary format: fraction bits and largest exponent."""

    fraction: int
    top: int

    @property
    def bits(self) -> int:
        return 2 + self.top.bit_length() + self.fraction

    @property
    def lowest(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.top


F32, F64 = Format(23, 127), Format(52, 1023)
FORMATS = {"f32": F32, "f64": F64}


def width(type_: str) -> int:
    return SCALAR_TYPES[type_].bits


def mask(bits: int) -> int:
    return (1 << bits) - 1


def signed(value: int, bits: int) -> int:
    value &= mask(bits)
    return value - (1 << bits) if value >> (bits - 1) else value


def integer(value: int, type_: str) -> int:
    """The number that bits of an integer type stand for."""
    return signed(value, width(type_)) if type_[0] == "s" else value & mask(width(type_))


def evaluate(opcode: str, slots: Slots, values: Sequence[int]) -> tuple[int, ...] | None:
    """The bits of each result of an instruction on constant operands, or None where pyptx does not say."""
    function = _FUNCTIONS.get(opcode)
    if function is None:
        return None
    found = function(slots, values)
    if found is None:
        return None
    return found if isinstance(found, tuple) else (found,)


# ---------------------------------------------------------------------- integers


def _arithmetic(
    on_integers: Callable[[Slots, Sequence[int], str], int | None],
    on_floats: Callable[[Slots, Sequence[Fraction], Sequence[int], Format], int | None] | None = None,
) -> Callable[[Slots, Sequence[int]], int | None]:
    def function(slots: Slots, values: Sequence[int]) -> int | None:
        type_ = slots.get("type", "")
        if "atype" in slots:  # mixed precision
            return None
        if type_ in FORMATS:
            return _on_floats(on_floats, slots, values, FORMATS[type_]) if on_floats is not None else None
        if not type_ or SCALAR_TYPES[type_].kind not in ("signed", "unsigned") or "cc" in slots:
            return None
        return on_integers(slots, values, type_)

    return function


def _wrap(operation: Callable[..., int]) -> Callable[[Slots, Sequence[int], str], int | None]:
    def function(slots: Slots, values: Sequence[int], type_: str) -> int | None:
        result = operation(*(integer(v, type_) for v in values))
        if "relu" in slots:
            return None
        if "sat" in slots:
            if type_ != "s32":
                return None
            result = max(-(1 << 31), min((1 << 31) - 1, result))
        return result & mask(width(type_))

    return function


def _product(slots: Slots, values: Sequence[int], type_: str) -> int | None:
    return _half(slots, integer(values[0], type_) * integer(values[1], type_), 0, type_)


def _multiply_add(slots: Slots, values: Sequence[int], type_: str) -> int | None:
    mode = slots.get("mode") or ("wide" if "wide" in slots else "hi" if "hi" in slots else "")
    if mode == "wide":
        wide = 2 * width(type_)
        return (integer(values[0], type_) * integer(values[1], type_) + values[2]) & mask(wide)
    return _half(slots, integer(values[0], type_) * integer(values[1], type_), integer(values[2], type_), type_)


def _half(slots: Slots, product: int, added: int, type_: str) -> int | None:
    bits = width(type_)
    mode = slots.get("mode") or ("wide" if "wide" in slots else "")
    if "sat" in slots or "cc" in slots:
        return None
    if mode == "wide":
        return product & mask(2 * bits)
    if mode == "lo":
        return (product + added) & mask(bits)
    if mode == "hi":
        return ((product >> bits) + added) & mask(bits)
    return None


def _divide(slots: Slots, values: Sequence[int], type_: str) -> int | None:
    a, b = (integer(v, type_) for v in values)
    if b == 0 or (b == -1 and a == -(1 << (width(type_) - 1))):
        return None
    return (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) & mask(width(type_))


def _remainder(slots: Slots, values: Sequence[int], type_: str) -> int | None:
    a, b = (integer(v, type_) for v in values)
    if b == 0 or (b == -1 and a == -(1 << (width(type_) - 1))):
        return None
    return (abs(a) % abs(b) * (1 if a >= 0 else -1)) & mask(width(type_))


def _bits(operation: Callable[..., int]) -> Callable[[Slots, Sequence[int]], int | None]:
    """A function of the operands' bits and the width of the type."""

    def function(slots: Slots, values: Sequence[int]) -> int | None:
        bits = width(slots["type"])
        return operation(bits, *(v & mask(bits) for v in values)) & mask(bits)

    return function


def _shift_right(slots: Slots, values: Sequence[int]) -> int | None:
    bits = width(slots["type"])
    return (integer(values[0], slots["type"]) >> min(values[1] & mask(32), bits)) & mask(bits)


def _shift_left(slots: Slots, values: Sequence[int]) -> int | None:
    bits = width(slots["type"])
    return (values[0] << min(values[1] & mask(32), bits)) & mask(bits)


def _funnel(slots: Slots, values: Sequence[int]) -> int | None:
    a, b, c = (v & mask(32) for v in values)
    amount = min(c, 32) if slots["mode"] == "clamp" else c & 31
    whole = b << 32 | a
    return (whole << amount >> 32 if slots["direction"] == "l" else whole >> amount) & mask(32)


def _find(slots: Slots, values: Sequence[int]) -> int | None:
    bits = width(slots["type"])
    a = integer(values[0], slots["type"])
    at = (~a if a < 0 else a).bit_length() - 1
    if at < 0:
        return mask(32)
    return bits - 1 - at if "shiftamt" in slots else at


def _extract(slots: Slots, values: Sequence[int]) -> int | None:
    bits = width(slots["type"])
    a, start, length = values[0] & mask(bits), values[1] & 255, values[2] & 255
    if slots["type"][0] == "u":
        return (a >> start) & mask(length) & mask(bits)
    if length == 0:
        return 0
    top = min(start + length - 1, bits - 1)
    sign = a >> top & 1
    field = (a >> start) & mask(length) if start < bits else 0
    if start >= bits:
        return mask(bits) if sign else 0
    have = min(length, bits - start)
    field &= mask(have)
    return (field | (mask(bits) << have if sign else 0)) & mask(bits)


def _insert(slots: Slots, values: Sequence[int]) -> int | None:
    bits = width(slots["type"])
    a, b, start, length = values[0] & mask(bits), values[1] & mask(bits), values[2] & 255, values[3] & 255
    hole = (mask(length) << start) & mask(bits)
    return (b & ~hole) | ((a << start) & hole)


def _look_up(slots: Slots, values: Sequence[int]) -> int | None:
    if "bool" in slots:
        return None
    a, b, c, table = (v & mask(32) for v in values)
    result = 0
    for i in range(8):
        if table >> i & 1:
            result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return result & mask(32)


def _permute(slots: Slots, values: Sequence[int]) -> int | None:
    if "mode" in slots:
        return None
    a, b, selector = (v & mask(32) for v in values)
    whole = b << 32 | a
    result = 0
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = whole >> 8 * (nibble & 7) & 255
        if nibble & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * i
    return result


# ---------------------------------------------------------------------- floats


def decode(bits: int, format_: Format) -> Fraction | None:
    """The number, or None for infinities and NaN. The sign of a zero is in the bits."""
    exponent = bits >> format_.fraction & (2 * format_.top + 1)
    fraction = bits & mask(format_.fraction)
    if exponent == 2 * format_.top + 1:
        return None
    significand = fraction if exponent == 0 else fraction | 1 << format_.fraction
    scale = max(exponent, 1) - format_.top - format_.fraction
    value = Fraction(significand) * Fraction(2) ** scale
    return -value if bits >> (format_.bits - 1) else value


def is_nan(bits: int, format_: Format) -> bool:
    return bits & mask(format_.bits - 1) > (2 * format_.top + 1) << format_.fraction


def is_subnormal(bits: int, format_: Format) -> bool:
    magnitude = bits & mask(format_.bits - 1)
    return 0 < magnitude < 1 << format_.fraction


def encode(value: Fraction, format_: Format, rounding: str = "rn", *, negative_zero: bool = False) -> int | None:
    """Bits of a number rounded once (`rn`, `rz`, `rm`, `rp`); None where it overflows (the result depends on
    more than the number).
    """
    sign = value < 0 or (value == 0 and negative_zero)
    top_bit = sign << (format_.bits - 1)
    if value == 0:
        return top_bit
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    scale = max(exponent, format_.lowest) - format_.fraction
    scaled = magnitude / Fraction(2) ** scale
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    twice = 2 * rest
    up = {
        "rn": twice > scaled.denominator or (twice == scaled.denominator and whole & 1 == 1),
        "rz": False,
        "rm": bool(rest) and sign,
        "rp": bool(rest) and not sign,
    }[rounding]
    whole += up
    if whole >> (format_.fraction + 1):
        whole >>= 1
        scale += 1
    if scale + format_.fraction > format_.top:
        return None
    if whole >> format_.fraction:
        biased = scale + format_.fraction + format_.top
        return top_bit | biased << format_.fraction | whole & mask(format_.fraction)
    return top_bit | whole


def encode_python_float(value: float, format_: Format) -> int | None:
    """Bits of a finite decimal constant rounded to nearest even; None for infinities and NaN."""
    if not math.isfinite(value):
        return None
    return encode(Fraction(value), format_, negative_zero=math.copysign(1.0, value) < 0)


def _on_floats(
    operation: Callable[[Slots, Sequence[Fraction], Sequence[int], Format], int | None],
    slots: Slots, values: Sequence[int], format_: Format,
) -> int | None:  # fmt: skip
    """Run on finite numbers: flush subnormal inputs, clamp, refuse results that `.ftz` would flush."""
    top = 1 << (format_.bits - 1)
    bits = [v & mask(format_.bits) for v in values]
    if "ftz" in slots:
        bits = [v & top if is_subnormal(v, format_) else v for v in bits]
    numbers = [decode(v, format_) for v in bits]
    if any(n is None for n in numbers):
        return None
    result = operation(slots, [n for n in numbers if n is not None], bits, format_)
    if result is None or ("ftz" in slots and result & mask(format_.bits - 1) < 1 << format_.fraction and result & ~top):
        return None
    if "sat" in slots:
        number = decode(result, format_)
        if number is None or (number == 0 and result):
            return None
        return encode(max(Fraction(0), min(Fraction(1), number)), format_)
    return result


def _round(slots: Slots, value: Fraction, format_: Format, *, zero_sign: bool | None) -> int | None:
    """Round a result. `zero_sign` is the sign of a zero, None where it comes from cancelling (then `.rm`
    gives -0).
    """
    rounding = slots.get("rnd", "rn")
    negative = rounding == "rm" if zero_sign is None else zero_sign
    return encode(value, format_, rounding, negative_zero=negative)


def _sign(bits: int, format_: Format) -> bool:
    return bool(bits >> (format_.bits - 1))


def _add_floats(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
    same = _sign(bits[0], f) == _sign(bits[1], f)
    return _round(slots, n[0] + n[1], f, zero_sign=_sign(bits[0], f) if same else None)


def _subtract_floats(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
    return _add_floats(slots, [n[0], -n[1]], [bits[0], bits[1] ^ 1 << (f.bits - 1)], f)


def _multiply_floats(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
    return _round(slots, n[0] * n[1], f, zero_sign=_sign(bits[0], f) != _sign(bits[1], f))


def _fuse_floats(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
    if "rnd" not in slots or "relu" in slots or "oob" in slots:
        return None
    product = _sign(bits[0], f) != _sign(bits[1], f)
    same = product == _sign(bits[2], f)
    return _round(slots, n[0] * n[1] + n[2], f, zero_sign=product if same else None)


def _divide_floats(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
    if "rnd" not in slots or n[1] == 0:
        return None
    return _round(slots, n[0] / n[1], f, zero_sign=_sign(bits[0], f) != _sign(bits[1], f))


def _root(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
    if "rnd" not in slots or n[0] < 0:
        return None
    if n[0] == 0:
        return bits[0]
    # bracket the root so tightly that it rounds like the exact one, unless it is exact
    shift = 4 * (f.fraction + f.top)
    scaled = n[0] * 4**shift
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    exact = whole * whole == scaled
    value = Fraction(2 * whole + (0 if exact else 1), 2 << shift)
    return _round(slots, value, f, zero_sign=False)


def _pick(larger: bool) -> Callable[[Slots, Sequence[Fraction], Sequence[int], Format], int | None]:
    def function(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
        if len(n) != 2 or "xorsign" in slots or "abs" in slots or (n[0] == n[1] and bits[0] != bits[1]):
            return None
        return bits[0] if (n[0] > n[1]) == larger else bits[1]

    return function


def _negate(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
    return bits[0] ^ 1 << (f.bits - 1)


def _magnitude(slots: Slots, n: Sequence[Fraction], bits: Sequence[int], f: Format) -> int | None:
    return bits[0] & mask(f.bits - 1)


# ---------------------------------------------------------------------- comparison, conversion


def compare(comparison: str, a: int, b: int, type_: str, *, ftz: bool = False) -> bool | None:
    """Whether `a cmp b` holds; None for types that are not folded."""
    if type_ in FORMATS:
        f = FORMATS[type_]
        if ftz:
            a, b = (v & 1 << (f.bits - 1) if is_subnormal(v, f) else v for v in (a, b))
        unordered = is_nan(a, f) or is_nan(b, f)
        if comparison in ("num", "nan"):
            return unordered == (comparison == "nan")
        if unordered:
            return comparison.endswith("u")
        x, y = _ordered(a, f), _ordered(b, f)
        comparison = comparison.removesuffix("u")
    elif SCALAR_TYPES[type_].kind in ("signed", "unsigned", "bits"):
        x, y = integer(a, type_), integer(b, type_)
    else:
        return None
    comparison = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(comparison, comparison)
    table = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    return table.get(comparison)


def _ordered(bits: int, format_: Format) -> int:
    """A whole number that orders floats, infinities included, as their values."""
    magnitude = bits & mask(format_.bits - 1)
    return -magnitude if _sign(bits, format_) else magnitude


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
        joined = {
            "and": [o & c for o in outcomes],
            "or": [o | c for o in outcomes],
            "xor": [o ^ c for o in outcomes],
        }
        outcomes = joined[slots["bool"]]
    return tuple(outcomes)


def _select(slots: Slots, values: Sequence[int]) -> int | None:
    return values[0] if values[2] & 1 else values[1]


def _select_by_sign(slots: Slots, values: Sequence[int]) -> int | None:
    if "ftz" in slots or slots.get("type2", "s32") != "s32":
        return None
    return values[0] if signed(values[2], 32) >= 0 else values[1]


def convert(slots: Slots, values: Sequence[int]) -> int | None:
    """`cvt` between integers, f32 and f64 where the value is exact or its rounding given and in range."""
    to, source = slots.get("dtype", ""), slots.get("atype", "")
    if set(slots) - {"dtype", "atype", "rnd", "irnd", "frnd", "rnd2"} or to == source:
        return None
    rounding = next((v for k, v in slots.items() if k not in ("dtype", "atype")), "")
    if source in FORMATS:
        number = decode(values[0] & mask(FORMATS[source].bits), FORMATS[source])
        negative = _sign(values[0], FORMATS[source])
        if number is None:
            return None
    elif source in SCALAR_TYPES and SCALAR_TYPES[source].kind in ("signed", "unsigned"):
        number, negative = Fraction(integer(values[0], source)), False
    else:
        return None
    if to in FORMATS:
        bits = encode(number, FORMATS[to], rounding or "rn", negative_zero=negative)
        if bits is None or (not rounding and decode(bits, FORMATS[to]) != number):
            return None
        return bits
    if to not in SCALAR_TYPES or SCALAR_TYPES[to].kind not in ("signed", "unsigned"):
        return None
    if source in FORMATS:
        whole = {"rzi": math.trunc, "rni": round, "rmi": math.floor, "rpi": math.ceil}.get(rounding)
        if whole is None:
            return None
        result = whole(number)
        bits = width(to)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if to[0] == "s" else (0, mask(bits))
        return result & mask(bits) if low <= result <= high else None
    return int(number) & mask(width(to)) if not rounding else None


# ---------------------------------------------------------------------- table

_FUNCTIONS: dict[str, Callable[[Slots, Sequence[int]], int | tuple[int, ...] | None]] = {
    "add": _arithmetic(_wrap(lambda a, b: a + b), _add_floats),
    "sub": _arithmetic(_wrap(lambda a, b: a - b), _subtract_floats),
    "mul": _arithmetic(_product, _multiply_floats),
    "mad": _arithmetic(_multiply_add, _fuse_floats),
    "fma": _arithmetic(lambda slots, values, type_: None, _fuse_floats),
    "sad": _arithmetic(_wrap(lambda a, b, c: c + abs(a - b))),
    "div": _arithmetic(_divide, _divide_floats),
    "rem": _arithmetic(_remainder),
    "abs": _arithmetic(_wrap(lambda a: abs(a)), _magnitude),
    "neg": _arithmetic(_wrap(lambda a: -a), _negate),
    "min": _arithmetic(_wrap(min), _pick(larger=False)),
    "max": _arithmetic(_wrap(max), _pick(larger=True)),
    "sqrt": _arithmetic(lambda slots, values, type_: None, _root),
    "popc": lambda slots, values: (values[0] & mask(width(slots["type"]))).bit_count(),
    "clz": lambda slots, values: width(slots["type"]) - (values[0] & mask(width(slots["type"]))).bit_length(),
    "brev": _bits(lambda bits, a: int(f"{a:0{bits}b}"[::-1], 2)),
    "bfind": _find,
    "bfe": _extract,
    "bfi": _insert,
    "and": _bits(lambda bits, a, b: a & b),
    "or": _bits(lambda bits, a, b: a | b),
    "xor": _bits(lambda bits, a, b: a ^ b),
    "not": _bits(lambda bits, a: ~a),
    "cnot": _bits(lambda bits, a: int(a == 0)),
    "lop3": _look_up,
    "shl": _shift_left,
    "shr": _shift_right,
    "shf": _funnel,
    "prmt": _permute,
    "setp": _set_predicate,
    "selp": _select,
    "slct": _select_by_sign,
    "cvt": convert,
}
