"""Numbers that have a name: a readable program defines those it uses at its top, `LOG2_E = 1.4426950408889634`."""

from __future__ import annotations

from collections.abc import Sequence

from ..frontend.module.async_objects import descriptor, swizzle_of
from .names import string

_NAMED = {
    "1.4426950408889634": ("LOG2_E", "log2(e)"),
    "1.4426950216293335": ("LOG2_E_F32", "log2(e) in f32"),
    "0.6931471805599453": ("LN_2", "ln(2)"),
    "0.6931471824645996": ("LN_2_F32", "ln(2) in f32"),
    "3.141592653589793": ("PI", "pi"),
    "3.1415927410125732": ("PI_F32", "pi in f32"),
    "1.5707963267948966": ("HALF_PI", "pi / 2"),
    "1.5707963705062866": ("HALF_PI_F32", "pi / 2 in f32"),
    "0.6366197723675814": ("TWO_OVER_PI", "2 / pi"),
    "0.6366197466850281": ("TWO_OVER_PI_F32", "2 / pi in f32"),
    "0.7071067811865476": ("SQRT_HALF", "sqrt(1 / 2)"),
    "0.7071067690849304": ("SQRT_HALF_F32", "sqrt(1 / 2) in f32"),
    "6755399441055744.0": ("ROUND_MAGIC", "1.5 * 2**52: adding it rounds an f64 to an integer"),
    "12582912.0": ("ROUND_MAGIC_F32", "1.5 * 2**23: adding it rounds an f32 to an integer"),
    "1.1754943508222875e-38": ("MIN_NORMAL_F32", "2**-126, the smallest normal f32"),
    "1.1920928955078125e-07": ("EPS_F32", "2**-23"),
    "3.4028234663852886e38": ("MAX_F32", "the largest f32"),
    '"0f7F800000"': ("INF_F32", "infinity"),
    '"0fFF800000"': ("NEG_INF_F32", "-infinity"),
    '"0f7FFFFFFF"': ("NAN_F32", "a NaN"),
    '"0f7FC00000"': ("QNAN_F32", "a quiet NaN"),
    '"0d7FF0000000000000"': ("INF_F64", "infinity"),
    '"0dFFF0000000000000"': ("NEG_INF_F64", "-infinity"),
    '"0d7FF8000000000000"': ("NAN_F64", "a NaN"),
}

_BITS = {
    "-8388608": ("NEG_INF_BITS", "0xFF800000, the bits of -infinity in f32"),
    "2139095040": ("INF_BITS", "0x7F800000, the bits of infinity in f32"),
    "2147483647": ("MAX_S32", "0x7FFFFFFF: all bits but the sign"),
    "1065353216": ("ONE_BITS", "0x3F800000, the bits of 1.0 in f32"),
    "2146435072": ("INF_HIGH", "0x7FF00000, the upper half of infinity in f64"),
    "1072693248": ("ONE_HIGH", "0x3FF00000, the upper half of 1.0 in f64"),
    "1065369472": ("ONES_BF16X2", "0x3F803F80, 1.0 twice in bf16"),
    "1006648320": ("ONES_F16X2", "0x3C003C00, 1.0 twice in f16"),
}
"""Integers that have a meaning as bits."""

_POLICIES = {
    str(0x1000000000000000): ("EVICT_NORMAL", "an L2 cache policy, as CUTLASS calls it"),
    str(0x12F0000000000000): ("EVICT_FIRST", "an L2 cache policy, as CUTLASS calls it"),
    str(0x14F0000000000000): ("EVICT_LAST", "an L2 cache policy, as CUTLASS calls it"),
}
"""Constants of 64 bits that are moved into registers."""

_BITWISE = frozenset(["and", "or", "xor", "lop3", "not", "prmt", "bfi"])
_FROM = 256
"""Masks from here on are written in hexadecimal."""

ALL_NAMES = frozenset(name for name, _ in (*_NAMED.values(), *_BITS.values(), *_POLICIES.values()))


def spelled(python: str, words: Sequence[str]) -> tuple[str, str | None]:
    """A constant (as Python) in the instruction `words`: how it is best written, and its name if it has one."""
    found = _NAMED.get(python)
    if found is None and words[-1] in ("b32", "s32", "u32", "f32"):
        found = _BITS.get(python)
    if found is None and words[0] == "mov" and words[-1][1:] == "64":
        found = _POLICIES.get(python)
    if found is not None:
        return found[0], found[0]
    if words[0] in _BITWISE and python.lstrip("-").isdigit() and abs(int(python)) >= _FROM:
        number = int(python)
        return ("-" if number < 0 else "") + f"0x{abs(number):X}", None
    return python, None


def definitions(names: set[str]) -> list[str]:
    """The lines that define these names."""
    known = {name: (value, comment) for table in (_NAMED, _BITS, _POLICIES) for value, (name, comment) in table.items()}
    values = {n: f"0x{int(value):X}" if value in _POLICIES else value for n, (value, _) in known.items()}
    return [f"{name} = {values[name]}  # {known[name][1]}" for name in sorted(names)]


def descriptor_call(number: int) -> str | None:
    """A number that is the constant part of a matrix descriptor, as the call that gives it."""
    swizzle = swizzle_of(number) if 0 < number < 1 << 64 else None
    if swizzle is None:
        return None
    stride, leading, version = (number >> 32 & 0x3FFF) << 4, (number >> 16 & 0x3FFF) << 4, number >> 46 & 3
    if not stride or descriptor(swizzle, stride, leading, version) != number:
        return None
    more = [f"leading={leading}"] if leading else []
    more += [f"version={version}"] if version else []
    return f"descriptor({', '.join([string(swizzle), f'stride={stride}', *more])})"
