"""Comparison and selection (PTX ISA 9.7.7, 9.7.8)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...numerics import floating, half, integer, native
from ..machine.program import Inst, Operand, Pair, Sink
from ..machine.registry import Pure, meaning
from .operands import HALVES, PACKED_INTEGERS, Array, Function, lanewise

_BOOL = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_UFUNCS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _comparison(inst: Inst, kind: str) -> tuple[Function, bool]:
    """(the comparison as booleans, whether it is a plain ufunc)."""
    name: Any = inst.modifiers[0]
    if kind in HALVES:
        return partial(half.compare, kind=kind, comparison=name, ftz=inst.has("ftz")), False
    if kind in ("f32", "f64"):
        if name in _UFUNCS and name != "ne" and not inst.has("ftz"):
            return _UFUNCS[name], True
        return partial(floating.compare, comparison=name, ftz=inst.has("ftz")), False
    if name in _UFUNCS:
        return _UFUNCS[name], True
    return partial(integer.compare, comparison=name), False


@meaning("setp")
def setp(inst: Inst) -> Pure:
    kind = inst.type
    compare, plain = _comparison(inst, kind)
    results = inst.operands[0]
    first, second = (results.first, results.second) if isinstance(results, Pair) else (results, Sink())
    a, b, *rest = inst.operands[1:]
    sources: list[tuple[Operand, str]] = [(a, kind), (b, kind), *((c, "pred") for c in rest)]
    combine = _BOOL[inst.one_of("and", "or", "xor") or "and"] if rest else None
    packed = kind.endswith("x2")
    known = kind not in HALVES and not packed
    test = partial(native.compare, comparison=inst.modifiers[0], signed=kind[0] == "s", ftz=inst.has("ftz"))
    if combine is None and not packed and isinstance(second, Sink):
        return Pure(compare, [(first, "pred")], sources, ufunc=plain, native=test if known else None)

    def both(x: Array, y: Array, c: Array = True) -> tuple[Array, Array]:
        r = compare(x, y)
        p, q = (r[..., 0], r[..., 1]) if packed else (r, ~r)
        return (p, q) if combine is None else (combine(p, c), combine(q, c))

    options = {"compare": test, "combine": inst.one_of("and", "or", "xor")}
    if isinstance(second, Sink):
        one = partial(native.compare_combined, **options) if known else None
        return Pure(lambda *xs: both(*xs)[0], [(first, "pred")], sources, whole=packed, native=one)
    two = partial(native.compare_pair, **options) if known else None
    return Pure(both, [(first, "pred"), (second, "pred")], sources, whole=packed, native=two)


@meaning("set")
def set_(inst: Inst) -> Pure:
    kind = inst.type
    compare, _ = _comparison(inst, kind)
    if kind in PACKED_INTEGERS:
        return lanewise(
            inst, partial(integer.packed, lambda x, y: -compare(x, y).astype(x.dtype), kind), "b32", whole=True
        )
    dtype, _ = inst.types
    a, b, *rest = inst.operands[1:]
    combine = _BOOL[inst.one_of("and", "or", "xor") or "and"] if rest else None

    def value(x: Array, y: Array, c: Array = True) -> Array:
        r = compare(x, y)
        if kind.endswith("x2"):
            if combine is not None:
                r = combine(r, np.asarray(c)[..., None])
            element = {"f16x2": "f16", "bf16x2": "bf16"}.get(dtype, "u16")
            low, high = (floating.set_value(r[..., i], element) for i in (0, 1))  # pyright: ignore[reportArgumentType]
            return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)
        if combine is not None:
            r = combine(r, c)
        return floating.set_value(r, dtype)  # pyright: ignore[reportArgumentType]

    sources: list[tuple[Operand, str]] = [(a, kind), (b, kind), *((c, "pred") for c in rest)]
    return Pure(value, [(inst.operands[0], dtype)], sources, whole=kind.endswith("x2"))


def _bits(kind: str) -> str:
    return "b" + kind[1:]


@meaning("selp")
def selp(inst: Inst) -> Pure:
    d, a, b, c = inst.operands
    kind = inst.type
    sources: list[tuple[Operand, str]] = [(a, kind), (b, kind), (c, "pred")]
    return Pure(lambda x, y, p: np.where(p, x, y), [(d, kind)], sources, native=native.selp)


@meaning("slct")
def slct(inst: Inst) -> Pure:
    d, a, b, c = inst.operands
    kind, ckind = inst.types[0], inst.types[-1]
    # ftz makes a negative subnormal -0, which is >= 0
    limit = np.float32(-(2.0**-126)) if inst.has("ftz") else None

    def choose(x: Array, y: Array, z: Array) -> Array:
        return np.where(z >= 0 if limit is None else z > limit, x, y)

    return Pure(choose, [(d, kind)], [(a, kind), (b, kind), (c, ckind)])
