"""Arithmetic whose first type is an integer, in all its types (PTX ISA 9.7.1, 9.7.3 to 9.7.6)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...numerics import alternate, approximate, floating, half, integer, native
from ..machine.program import Inst
from ..machine.registry import Pure, meaning
from .operands import HALVES, PACKED_INTEGERS, Array, Function, approximated, float_options, lanewise, with_options


def _half_options(inst: Inst) -> dict[str, Any]:
    return {name: True for name in ("ftz", "sat", "relu", "oob") if inst.has(name)}


def _floating(inst: Inst, name: str) -> Pure:
    """The function of that name in `floating` and in `native`, of f32 or f64."""
    options = float_options(inst)
    function = with_options(getattr(floating, name), **options)
    return lanewise(inst, function, inst.types[0], native=native.rounded_to_nearest(getattr(native, name), **options))


def _sum(inst: Inst, name: str, ufunc: np.ufunc) -> Pure:
    """add and sub."""
    kind = inst.types[0] if inst.types else "b32"
    if len(inst.types) > 1:
        return _mixed_sum(inst, name)
    if kind in HALVES:
        return lanewise(inst, partial(getattr(half, name), kind=kind, **_half_options(inst)), kind, whole=True)
    if kind in PACKED_INTEGERS:
        function = partial(integer.packed, getattr(integer, name), kind)
        return lanewise(inst, with_options(function, sat=inst.has("sat")), "b32", whole=True)
    if kind == "f32x2":
        function = partial(floating.packed_f32x2, getattr(floating, name), **float_options(inst))
        return lanewise(inst, function, "b64", whole=True)
    if kind in ("f32", "f64"):
        return _floating(inst, name)
    if inst.has("cc"):
        carry = integer.add_carry if name == "add" else integer.sub_carry
        assert inst.cc is not None
        return Pure(carry, [(inst.operands[0], kind), (inst.cc, "pred")], [(o, kind) for o in inst.operands[1:]])
    if inst.has("sat"):
        return lanewise(inst, partial(getattr(integer, name), sat=True), kind)
    return lanewise(inst, ufunc, kind, ufunc=True, native=native.operation(name))


def _mixed_sum(inst: Inst, name: str) -> Pure:
    """add and sub of several types: that of d, then those of the operands as far as they are not d's."""
    kind, first = inst.types[:2]
    if kind.endswith("x4"):
        return _alternate(inst, name, kind, first, kind)
    if kind == "f32x2":
        return _widened(inst, name, kind, first, kind)
    if first == "f32x2":
        return _narrowed(inst, floating.odd_sum if name == "add" else lambda x, y: floating.odd_sum(x, -y))
    mixed = half.mixed_add if name == "add" else half.mixed_sub
    return lanewise(inst, partial(mixed, kind=first, **float_options(inst)), "f32", first, "f32")


def _alternate(inst: Inst, name: str, *types: str) -> Pure:
    """Four small floats: the function of that name in `alternate`."""
    function = partial(getattr(alternate, name), types=inst.types)
    return lanewise(inst, with_options(function, satfinite=inst.has("satfinite")), *types, whole=True)


def _widened(inst: Inst, name: str, *types: str) -> Pure:
    """The function of that name in `floating` on two f32, of which the first operand's are written as halves."""
    narrow = inst.types[1].removesuffix("x2")
    function = partial(half.widened_f32x2, getattr(floating, name), kind=narrow, **float_options(inst))
    return lanewise(inst, function, *types, whole=True)


def _narrowed(inst: Inst, operation: Function) -> Pure:
    """An operation on two f32, whose results become halves."""
    kind = inst.types[0]
    function = partial(half.narrowed_f32x2, operation, kind=kind.removesuffix("x2"), ftz=inst.has("ftz"))
    return lanewise(inst, function, kind, "f32x2", "f32x2", whole=True)


@meaning("add")
def add(inst: Inst) -> Pure:
    return _sum(inst, "add", np.add)


@meaning("sub")
def sub(inst: Inst) -> Pure:
    return _sum(inst, "sub", np.subtract)


def _twice(kind: str) -> str:
    return f"{kind[0]}{2 * int(kind[1:])}"


@meaning("mul")
def mul(inst: Inst) -> Pure:
    if len(inst.types) > 1:
        return _mixed_product(inst)
    kind = inst.type
    if kind in HALVES:
        return lanewise(inst, partial(half.mul, kind=kind, **_half_options(inst)), kind, whole=True)
    if kind == "f32x2":
        return lanewise(inst, partial(floating.packed_f32x2, floating.mul, **float_options(inst)), "b64", whole=True)
    if kind in ("f32", "f64"):
        return _floating(inst, "mul")
    signed = kind[0] == "s"
    if inst.has("wide"):
        wide = partial(native.mul_wide, signed=signed)
        return lanewise(inst, integer.mul_wide, _twice(kind), kind, kind, native=wide)
    if inst.has("hi"):
        return lanewise(inst, integer.mul_hi, kind, native=partial(native.mul_hi, signed=signed))
    return lanewise(inst, np.multiply, kind, ufunc=True, native=native.operation("mul"))


def _mixed_product(inst: Inst) -> Pure:
    """mul with the types of d, a and b."""
    kind, first, second = inst.types
    if kind.endswith("x4"):
        return _alternate(inst, "mul", *inst.types)
    if first == "f32x2":
        return _narrowed(inst, np.multiply)
    function = partial(half.mixed_mul, kind=kind, other=second)
    return lanewise(inst, function, *inst.types, whole=True)


@meaning("mad")
def mad(inst: Inst) -> Pure:
    kind = inst.type
    if kind in ("f32", "f64"):
        return _fma(inst)
    signed = kind[0] == "s"
    if inst.has("wide"):
        wide = _twice(kind)
        return lanewise(inst, integer.mad_wide, wide, kind, kind, wide, native=partial(native.mad_wide, signed=signed))
    if inst.has("cc"):
        assert inst.cc is not None
        function = partial(integer.mad_carry, hi=inst.has("hi"))
        return Pure(function, [(inst.operands[0], kind), (inst.cc, "pred")], [(o, kind) for o in inst.operands[1:]])
    if inst.has("hi"):
        high = None if inst.has("sat") else partial(native.mad_hi, signed=signed)
        return lanewise(inst, with_options(integer.mad_hi, sat=inst.has("sat")), kind, native=high)
    return lanewise(inst, lambda a, b, c: a * b + c, kind, native=native.mad_lo)


_LOW29 = np.array((1 << 29) - 1, np.uint64)
_HALF29 = np.array(1 << 28, np.uint64)
_NAN = np.array([0x7FFF_FFFF_E000_0000], np.uint64).view(np.float64)[0]
"""The float64 that becomes the canonical f32 NaN."""
_NORMAL = np.array(2.0**-126, np.float32)
_CHUNK = 8192
"""Lanes at a time: larger arrays leave the caches, smaller ones pay for their calls."""


def fused_multiply_add(lanes: int) -> Function:
    """`f(a, b, c, d)`: d = fma.rn.f32 of rows, with its buffers allocated once; without `d`, one of these.

    The product of two f32 is exact in f64. Rounding the sum to f64 and then to f32 goes wrong only where the
    f64 lies half-way between two f32 or below their normal range: there the sum is rounded to odd first,
    which makes the second rounding right.
    """
    size = min(lanes, _CHUNK)
    product, addend, total = (np.empty(size) for _ in range(3))
    bits, low = total.view(np.uint64), np.empty(size, np.uint64)
    magnitude, safe = np.empty(size, np.float32), np.empty((2, size), np.bool_)
    not_half, normal = safe
    multiply, add_, both, differ, some = np.multiply, np.add, np.bitwise_and, np.not_equal, np.count_nonzero
    absolute_, above = np.absolute, np.greater

    result = np.empty(lanes, np.float32)

    def piece(a: Array, b: Array, c: Array, d: Array = result) -> Array:
        product[...] = a
        addend[...] = b
        multiply(product, addend, product)
        addend[...] = c
        add_(product, addend, total)
        d[...] = total
        both(bits, _LOW29, low)
        differ(low, _HALF29, not_half)
        absolute_(d, magnitude)
        above(magnitude, _NORMAL, normal)  # not equal: what is rounded up to it may be wrong, too
        if some(safe) != 2 * size:
            _round_again(product, addend, total, ~(not_half & normal))
            d[...] = total
        return d

    if lanes == size:
        return piece
    whole = lanes - lanes % size
    rest = fused_multiply_add(lanes % size) if lanes % size else None

    def pieces(a: Array, b: Array, c: Array, d: Array = result) -> Array:
        for start in range(0, whole, size):
            end = start + size
            x, y, z = (v[start:end] if v.size > 1 else v for v in (a, b, c))
            piece(x, y, z, d[start:end])
        if rest is not None:
            rest(*(v[whole:] if v.size > 1 else v for v in (a, b, c)), d[whole:])
        return d

    return pieces


def _round_again(product: Array, addend: Array, total: Array, doubtful: Array) -> None:
    """Make the doubtful ones of `total` = product + addend such that rounding them to f32 is right."""
    again = np.flatnonzero(doubtful)
    values = total[again]
    nan = values != values
    if np.count_nonzero(nan):
        total[again[nan]] = _NAN
    again = again[(values != 0) & ~nan]  # zeros are exact
    if again.size:
        total[again] = floating.odd_sum(product[again], addend[again])


@meaning("fma")
def fma(inst: Inst) -> Pure:
    return _fma(inst)


def _fma(inst: Inst) -> Pure:
    kind = inst.types[0]
    if kind.endswith("x4"):
        return _alternate(inst, "fma", *inst.types, kind)
    if len(inst.types) == 4:
        return _widened(inst, "fma", *inst.types)
    if len(inst.types) == 2:
        narrow = inst.types[1]
        function: Function = partial(half.mixed_fma, kind=narrow, **float_options(inst))
        return lanewise(inst, function, "f32", narrow, narrow, "f32")
    if kind in HALVES:
        options = _half_options(inst)
        if inst.rounding != "rn":
            options["rounding"] = inst.rounding
        return lanewise(inst, partial(half.fma, kind=kind, **options), kind, whole=True)
    if kind == "f32x2":
        return lanewise(inst, partial(floating.packed_f32x2, floating.fma, **float_options(inst)), "b64", whole=True)
    if kind == "f32" and not float_options(inst):
        pure = lanewise(inst, fused_multiply_add, "f32", ufunc=True, native=native.fma)
        pure.scratch = True
        return pure
    return _floating(inst, "fma")


@meaning("mul24")
def mul24(inst: Inst) -> Pure:
    return lanewise(inst, integer.mul24_hi if inst.has("hi") else integer.mul24_lo, inst.type)


@meaning("mad24")
def mad24(inst: Inst) -> Pure:
    if inst.has("hi"):
        return lanewise(inst, with_options(integer.mad24_hi, sat=inst.has("sat")), inst.type)
    return lanewise(inst, integer.mad24_lo, inst.type)


@meaning("sad")
def sad(inst: Inst) -> Pure:
    return lanewise(inst, integer.sad, inst.type)


@meaning("div")
def div(inst: Inst) -> Pure:
    kind = inst.type
    if kind in ("f32", "f64"):
        if inst.has("approx") or inst.has("full"):
            return approximated(inst, approximate.div, kind, ftz=inst.has("ftz"), full=inst.has("full"))
        return _floating(inst, "div")
    return lanewise(inst, integer.div, kind)


@meaning("rem")
def rem(inst: Inst) -> Pure:
    return lanewise(inst, integer.rem, inst.type)


def _sign(inst: Inst, name: str) -> Pure:
    """abs and neg."""
    kind = inst.type
    if kind in HALVES:
        return lanewise(inst, partial(getattr(half, name), kind=kind, **_half_options(inst)), kind, whole=True)
    if kind in ("f32", "f64"):
        return _floating(inst, name)
    if kind in PACKED_INTEGERS:
        return lanewise(inst, partial(integer.packed, getattr(integer, name), kind), "b32", whole=True)
    return lanewise(inst, getattr(integer, name), kind, native=getattr(native, name))


@meaning("abs")
def absolute(inst: Inst) -> Pure:
    return _sign(inst, "absolute")


@meaning("neg")
def neg(inst: Inst) -> Pure:
    return _sign(inst, "neg")


def _extreme(inst: Inst, name: str) -> Pure:
    """min and max."""
    kind = inst.type
    if kind in (*HALVES, "f32", "f64"):
        options: dict[str, Any] = {"ftz": inst.has("ftz"), "nan": inst.has("NaN")}
        if inst.has("xorsign"):
            options.update({"xorsign_abs": True} if kind in HALVES else {"xorsign": True, "abs": True})
        elif inst.has("abs"):
            options["abs"] = True
        if kind in HALVES:
            return lanewise(inst, partial(with_options(getattr(half, name), **options), kind=kind), kind, whole=True)
        extreme = None if options.get("abs") else partial(getattr(native, name), **options)
        return lanewise(inst, with_options(getattr(floating, name), **options), kind, native=extreme)
    function = getattr(integer, name)
    if kind in PACKED_INTEGERS:
        packed = partial(integer.packed, function, kind)
        return lanewise(inst, with_options(packed, relu=inst.has("relu")), "b32", whole=True)
    options = {"smaller": name == "minimum", "signed": kind[0] == "s", "relu": inst.has("relu")}
    extreme = partial(native.integer_extreme, **options)
    return lanewise(inst, with_options(function, relu=inst.has("relu")), kind, native=extreme)


@meaning("min")
def minimum(inst: Inst) -> Pure:
    return _extreme(inst, "minimum")


@meaning("max")
def maximum(inst: Inst) -> Pure:
    return _extreme(inst, "maximum")


@meaning("popc")
def popc(inst: Inst) -> Pure:
    return lanewise(inst, integer.popc, "u32", inst.type)


@meaning("clz")
def clz(inst: Inst) -> Pure:
    return lanewise(inst, integer.clz, "u32", inst.type)


@meaning("bfind")
def bfind(inst: Inst) -> Pure:
    return lanewise(inst, with_options(integer.bfind, shiftamt=inst.has("shiftamt")), "u32", inst.type)


@meaning("fns")
def fns(inst: Inst) -> Pure:
    return lanewise(inst, integer.fns, "u32", "u32", "u32", "s32")


@meaning("brev")
def brev(inst: Inst) -> Pure:
    return lanewise(inst, integer.brev, inst.type)


@meaning("bfe")
def bfe(inst: Inst) -> Pure:
    return lanewise(inst, integer.bfe, inst.type, inst.type, "u32", "u32")


@meaning("bfi")
def bfi(inst: Inst) -> Pure:
    return lanewise(inst, integer.bfi, inst.type, inst.type, inst.type, "u32", "u32")


@meaning("szext")
def szext(inst: Inst) -> Pure:
    return lanewise(inst, partial(integer.szext, wrap=inst.has("wrap")), inst.type, inst.type, "u32")


@meaning("bmsk")
def bmsk(inst: Inst) -> Pure:
    return lanewise(inst, partial(integer.bmsk, wrap=inst.has("wrap")), "u32")


@meaning("dp4a")
def dp4a(inst: Inst) -> Pure:
    return lanewise(inst, with_options(integer.dp4a, atype=inst.types[0], btype=inst.types[1]), "u32", whole=True)


@meaning("dp2a")
def dp2a(inst: Inst) -> Pure:
    options = {"hi": inst.has("hi"), "atype": inst.types[0], "btype": inst.types[1]}
    return lanewise(inst, partial(integer.dp2a, **options), "u32", whole=True)


@meaning("clmad")
def clmad(inst: Inst) -> Pure:
    return lanewise(inst, partial(integer.clmad, hi=inst.has("hi")), "u64")
