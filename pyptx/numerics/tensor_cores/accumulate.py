"""The fused sum of a tensor core, on whole matrices.

Nothing here depends on the order in which NumPy adds, or on a BLAS: every addend is a product that a float holds exactly, cut off to an
integer, and integers add exactly in any order. The matrix products of a BLAS that occur are of small integers and exact, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import floating, formats
from ..floating import quiet
from ..formats import FORMATS
from . import native
from .rules import Kind, Rule
from .specials import NAN, put_specials

Float = NDArray[np.floating[Any]]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Bits = NDArray[np.unsignedinteger[Any]]

ZERO_EXPONENT = -126
"""What a zero counts as where the largest exponent is looked for, in every format."""
_CHUNK = 16
"""Products that are added as 32-bit integers: each is below 4 * 2**25."""
_NARROW = (-100, 126)
"""Exponents of products that float32 holds exactly, whose unit it holds, too."""
HOT = 1 << 23
"""Products of a process after which the native function is worth its compilation."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of one format: their values, float64 for f64 and float32 for all others, and the exponents that they are aligned by.

    `low` and `high` bound the exponents of those that are not zero; an infinity or NaN has 128.
    """

    value: Float
    exponent: Int32
    low: int
    high: int

    def __getitem__(self, at: Any) -> Numbers:
        return Numbers(self.value[at], self.exponent[at], self.low, self.high)

    @property
    def finite(self) -> bool:
        return self.high < 128


Scales = tuple[Numbers, Numbers] | None
"""The factors of A, (..., M, blocks), and of B, (..., blocks, N)."""


def numbers(bits: Bits, name: str) -> Numbers:
    """Codes of a format, decoded."""
    return of_values(formats.decode(bits, name), name)


def of_values(values: Float, name: str) -> Numbers:
    """Numbers of a format, of which the values are known. A subnormal number is aligned by the smallest exponent of the format."""
    f = FORMATS[name]
    if name == "f64":
        return Numbers(values, np.zeros(values.shape, np.int32), 0, 0)
    single = np.ascontiguousarray(values, np.float32)
    if single.size and _hot(0):
        found, low, high = native.exponents(single, f.min_exponent)
        return Numbers(single, found, low, high)
    exponent = single.view(np.int32) >> 23
    exponent &= 255
    exponent -= 127
    zero = single == 0
    np.maximum(exponent, f.min_exponent, out=exponent)
    high, low = int(exponent.max(initial=-127)), int(exponent.min(initial=128, where=~zero))
    np.copyto(exponent, ZERO_EXPONENT, where=zero)
    return Numbers(single, exponent, low, high)


def accumulate(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """C + A B of one instruction, as bits of D's type.

    a: (..., M, K) and b: (..., K, N) with K that of the instruction; c: (..., M, N), bits of D's type. The scale factors of A are
    (..., M, K / block), those of B (..., K / block, N). All have the same number of dimensions.
    """
    with quiet():
        return _METHODS[rule.emulation](kind, rule, a, b, c, scales)


def _units(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """A chain of fused sums along K, ascending: the D of one is the C of the next."""
    unit = rule.unit or kind.k
    for first in range(0, kind.k, unit):
        part = slice(first, first + unit)
        c = _fused(kind, rule, a[..., part], b[..., part, :], c, scales)
    return c


def _fused(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """One fused sum."""
    lead = np.broadcast_shapes(a.value.shape[:-2], b.value.shape[:-2], c.shape[:-2])
    shape = (*lead, a.value.shape[-2], b.value.shape[-1])
    before = np.ascontiguousarray(np.broadcast_to(c, shape))
    operands = _Operands.of(rule, a, b, scales, lead)
    flat = before.reshape(-1, *shape[-2:])
    bits = (_native if _hot(flat.size * kind.k) else _in_numpy)(operands, rule, kind.d, flat).reshape(shape)
    if not (a.finite and b.finite):
        put_specials(bits, kind.d, a.value, b.value, formats.decode(before, kind.d))
    if scales is not None and not (scales[0].finite and scales[1].finite):
        of_a, of_b = (s.exponent == 128 for s in scales)
        lost = of_a.any(axis=-1, keepdims=True) | of_b.any(axis=-2, keepdims=True)
        bits[np.broadcast_to(lost, bits.shape)] = NAN[kind.d]
    return bits


def fits_native_code(rule: Rule, a: Numbers, b: Numbers, scales: Scales) -> bool:
    """Whether `accumulate_in_place` can compute a product of two dimensions."""
    m, n = a.value.shape[0], b.value.shape[1]
    whole = m % native.ROWS == 0 and n % native.WIDTH == 0
    finite = all(v.finite for v in (a, b, *(scales or ())))
    return not rule.emulation and whole and finite and _hot(m * n * a.value.shape[1])


def accumulate_in_place(
    kind: Kind, rule: Rule, a: Numbers, b: Numbers, words: Bits, places: native.Places, scales: Scales
) -> None:
    """`accumulate` for two dimensions with C and D at `places` of an array; columns of B are in their order."""
    m, n = a.value.shape[0], b.value.shape[1]
    unit = rule.unit or kind.k
    at = words.ctypes.data
    for first in range(0, kind.k, unit):
        part = slice(first, first + unit)
        operands = _Operands.of(rule, a[:, part], b[part], scales, ())
        native.fused(operands.arrays, at, at, kind.d, places, (1, m, n), 0, rule.fraction, rule.kept, operands.chunk)


@dataclass(frozen=True)
class _Operands:
    """What one fused sum adds to C: arrays with one leading dimension, which is 1 where all sums share them.

    A, its exponents, B, its exponents: those of the products, or of groups of them, whose factors are then the last two. Infinities
    and NaNs are zeros here.
    """

    arrays: tuple[NDArray[Any], ...]
    chunk: int

    @staticmethod
    def of(rule: Rule, a: Numbers, b: Numbers, scales: Scales, lead: tuple[int, ...]) -> _Operands:
        x, y = (v.value if v.finite else np.where(v.exponent == 128, np.float32(0), v.value) for v in (a, b))
        of_a, of_b = a.exponent, b.exponent
        low, high = a.low + b.low, a.high + b.high
        if scales is not None and rule.group > 1:
            groups = x.shape[-1] // rule.group
            fa, fb = (_grown(f, axis, groups) for f, axis in zip(scales, (-1, -2), strict=True))
            found = x, fa.exponent, y, fb.exponent, fa.value, fb.value
            return _Operands(tuple(_flat(v, lead) for v in found), rule.group)
        factors: tuple[Float, ...] = ()
        if scales is not None:
            fa, fb = (_grown(f, axis, x.shape[-1]) for f, axis in zip(scales, (-1, -2), strict=True))
            low, high = low + fa.low + fb.low, high + fa.high + fb.high
            of_a, of_b = of_a + fa.exponent, of_b + fb.exponent
            factors = fa.value, fb.value
        if not (_NARROW[0] <= low and high <= _NARROW[1]):
            x, y = x.astype(np.float64), y.astype(np.float64)
        if factors:
            x, y = x * factors[0].astype(x.dtype), y * factors[1].astype(y.dtype)
        return _Operands(tuple(_flat(v, lead) for v in (x, of_a, y, of_b)), _CHUNK)


def _grown(f: Numbers, axis: int, count: int) -> Numbers:
    """Scale factors with each of them as often along K as `count` in all need."""
    each = count // f.value.shape[axis]
    if each == 1:
        return f
    return Numbers(np.repeat(f.value, each, axis=axis), np.repeat(f.exponent, each, axis=axis), f.low, f.high)


def _flat(x: NDArray[Any], lead: tuple[int, ...]) -> NDArray[Any]:
    """With one leading dimension."""
    own = x.shape[:-2]
    if any(n != 1 for n in own):
        x = np.broadcast_to(x, (*lead, *x.shape[-2:]))
    return np.ascontiguousarray(x).reshape(-1, *x.shape[-2:])


_done = 0


def _hot(products: int) -> bool:
    """Whether native code is there and this process has multiplied so much that it is worth its compilation."""
    global _done
    _done += products
    return _done > HOT and native.ready()


def _native(o: _Operands, rule: Rule, name: str, c: Bits) -> Bits:
    m, n = c.shape[1:]
    arrays, below, right = o.arrays, -m % native.ROWS, -n % native.WIDTH
    if below or right:  # A and what belongs to it come first of each two
        padding = ((0, 0), (0, below), (0, 0)), ((0, 0), (0, 0), (0, right))
        order = (0, 0, 1, 1, 0, 1)
        arrays = tuple(np.pad(x, padding[i]) for x, i in zip(arrays, order, strict=False))
        c = np.pad(c, ((0, 0), (0, below), (0, right)))
    d = np.empty_like(c)
    sizes = c.shape
    places = native.matrix_places(sizes[1], sizes[2])
    native.fused(
        arrays, c.ctypes.data, d.ctypes.data, name, places, sizes, c[0].size, rule.fraction, rule.kept, o.chunk
    )
    return np.ascontiguousarray(d[:, :m, :n])


def _in_numpy(o: _Operands, rule: Rule, name: str, c: Bits) -> Bits:
    a, of_a, b, of_b, *factors = o.arrays
    before = numbers(c, name)
    largest = np.array(before.exponent)
    exponent = np.empty_like(largest)
    for i in range(of_a.shape[-1]):
        np.add(of_a[:, :, i, None], of_b[:, i, None, :], out=exponent)
        np.maximum(largest, exponent, out=largest)
    shift = rule.fraction - largest
    unit = np.ldexp(1.0, shift)
    total = np.trunc(before.value * unit)
    for first in range(0, a.shape[-1], o.chunk):
        part = slice(first, first + o.chunk)
        x, y = a[:, :, part], b[:, part]
        if not factors:
            total += _products(x, y, shift)
            continue
        group = first // o.chunk
        factor = factors[0][:, :, group, None].astype(np.float64) * factors[1][:, group, None, :]
        total += np.trunc((x @ y) * factor * unit)
    bits = rounded(np.ldexp(total, -shift), rule, name)
    if not before.finite:
        bits = np.where(np.isinf(before.value), c, bits)
        bits[np.isnan(before.value)] = NAN[name]
    return bits


def _products(x: Float, y: Float, shift: Int32) -> Int32:
    """A few products, cut off and added."""
    kind = x.dtype.type
    # where a unit is above that of float32, all products are zero
    unit = np.ldexp(kind(1), np.minimum(shift, 127) if kind is np.float32 else shift)
    total, cut = np.zeros(shift.shape, np.int32), np.empty(shift.shape, np.int32)
    product = np.empty(shift.shape, kind)
    for i in range(x.shape[-1]):
        np.multiply(x[:, :, i, None], y[:, i, None, :], out=product)
        product *= unit
        np.copyto(cut, product, casting="unsafe")
        total += cut
    return total


def rounded(total: Float64, rule: Rule, name: str) -> Bits:
    """An exact sum as D: cut off toward zero to f32 or rounded to the nearest f16, in each case with infinity on overflow."""
    if name == "f16":
        return total.astype(np.float16).view(np.uint16)
    cut = (total.view(np.uint64) & ~np.uint64((1 << 29) - 1)).view(np.float64)
    small = np.abs(total) < 2.0**-126
    if small.any():
        cut[small] = np.ldexp(np.trunc(np.ldexp(total[small], 149)), -149)
    bits = cut.astype(np.float32).view(np.uint32)
    return bits & ~np.uint32((1 << 23 - rule.kept) - 1)


def _fma(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """A chain of fma along K, ascending, from C on."""
    total = _along_k(a.value, b.value, range(kind.k), formats.decode(c, kind.d))
    return _nearest(np.asarray(total, np.float64), kind.d)


def _chain(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """m8n8k4 of f16 as ptxas emulates it: `unit` products by fma in f32, from zero on, then an addition to C in f32."""
    unit = rule.unit or kind.k
    total = formats.decode(c, kind.d).astype(np.float32)
    x, y = a.value.astype(np.float32), b.value.astype(np.float32)
    for first in range(0, kind.k, unit):
        total = total + _along_k(x, y, range(first, first + unit), np.zeros_like(total))
    return _nearest(total.astype(np.float64), kind.d)


def _along_k(x: NDArray[Any], y: NDArray[Any], steps: range, total: NDArray[Any]) -> NDArray[Any]:
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2], total.shape[:-2]), x.shape[-2], y.shape[-1])
    total = np.broadcast_to(total, shape)
    for i in steps:
        left = np.broadcast_to(x[..., :, i : i + 1], shape)
        right = np.broadcast_to(y[..., i : i + 1, :], shape)
        total = floating.fma(np.ascontiguousarray(left), np.ascontiguousarray(right), np.ascontiguousarray(total))
    return total


def _nearest(total: Float64, name: str) -> Bits:
    bits = formats.encode(total, name)
    if name in NAN:
        bits[np.isnan(total)] = NAN[name]
    return bits


def _halves(kind: Kind, rule: Rule, a: Numbers, b: Numbers, c: Bits, scales: Scales) -> Bits:
    """FP8 as ptxas emulates it where mma.sync has none: two fused sums of f16 operands, then C in one addition, to nearest."""
    a, b = of_values(a.value, "f16"), of_values(b.value, "f16")  # no subnormal e4m3 number is one in f16
    shape = np.broadcast_shapes(a.value.shape[:-2], b.value.shape[:-2], c.shape[:-2])
    total = np.zeros((*shape, a.value.shape[-2], b.value.shape[-1]), FORMATS[kind.d].dtype)
    pair = np.arange(kind.k) % 4 < 2
    for half in (pair, ~pair):
        total = _fused(kind, rule, a[..., half], b[..., half, :], total, None)
    return _nearest(formats.decode(total, kind.d) + formats.decode(c, kind.d), kind.d)


_METHODS = {"": _units, "fma": _fma, "chain": _chain, "halves": _halves}
