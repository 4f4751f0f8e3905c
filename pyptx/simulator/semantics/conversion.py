"""Conversions (PTX ISA 9.7.10.24, 9.7.10.25)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...numerics import convert, native
from ..machine.program import Inst, Operand, Vec
from ..machine.registry import Pure, dtype_of, meaning
from .operands import Array

_LLVM = {"f32": "float", "f64": "double"}
_ROUNDINGS = ("rn", "rna", "rz", "rm", "rp", "rs", "rni", "rzi", "rmi", "rpi")


@meaning("cvt")
def cvt(inst: Inst) -> Pure:
    dst, src = inst.types[0], inst.types[1]
    options: dict[str, Any] = {name: True for name in ("ftz", "sat", "relu", "satfinite", "pzo") if inst.has(name)}
    rounding = inst.one_of(*_ROUNDINGS)
    if rounding:
        options["rounding"] = rounding
    d, *rest = inst.operands
    target = dtype_of(dst)
    scale_type = "u8" if inst.has("scaled::n1::ue8m0") else "u16"
    inputs: list[tuple[Operand, str]] = []
    if (dst.endswith("x2") and src == "f32") or dst.endswith("x4"):
        flat: list[Operand] = []
        for o in rest:
            flat += o.elements if isinstance(o, Vec) else (o,)
        values = 4 if dst.endswith("x4") else 2
        inputs = [(o, "f32") for o in flat[:values]]
        extra = flat[values:]
        name = "random" if inst.has("rs") else "scale"
        inputs += [(o, "u32" if name == "random" else scale_type) for o in extra]

        def pack(*xs: Array) -> Array:
            more = {name: xs[values]} if len(xs) > values else {}
            return _fit(convert.convert(tuple(xs[:values]), "f32", dst, **options, **more), target)

        return Pure(pack, [(d, dst)], inputs, whole=True)
    if src in ("f16x2", "bf16x2") or src.endswith("x2"):
        extra_inputs: list[tuple[Operand, str]] = [(o, scale_type) for o in rest[1:]]

        def unpack(x: Array, *more: Array) -> Array:
            scale = {"scale": more[0]} if more else {}
            return _fit(convert.convert(x, src, dst, **options, **scale), target)

        return Pure(unpack, [(d, dst)], [(rest[0], src), *extra_inputs], whole=True)
    fast = _fast(dst, src, options)
    if fast is not None:
        exact = partial(native.from_integer, type=_LLVM.get(dst) or f"i{dst[1:]}", signed=src[0] == "s")
        return Pure(fast, [(d, dst)], [(rest[0], src)], native=exact)
    if rest[1:]:
        return Pure(
            lambda x, r: _fit(convert.convert(x, src, dst, random=r, **options), target),
            [(d, dst)],
            [(rest[0], src), (rest[1], "u32")],
        )
    function = partial(convert.convert, src_type=src, dst_type=dst, **options)
    return Pure(lambda x: _fit(function(x), target), [(d, dst)], [(rest[0], src)])


def _fit(bits: Array, dtype: np.dtype[Any]) -> Array:
    """Unsigned patterns as the type the register is written in."""
    if bits.dtype == dtype:
        return bits
    if bits.dtype.itemsize == dtype.itemsize:
        return np.ascontiguousarray(bits).view(dtype)
    return bits.astype(dtype)


def _fast(dst: str, src: str, options: dict[str, Any]) -> Any:
    """Conversions that NumPy's assignment does exactly as PTX: integers without saturation, integers to
    f32/f64, f32 to f64.
    """
    if options.get("sat") or options.get("ftz"):
        return None
    rounding = options.get("rounding", "rn")
    if src[0] in "us" and dst[0] in "us" and src[1:].isdigit() and dst[1:].isdigit():
        target = dtype_of(dst)
        return lambda x: x.astype(target)
    if src[0] in "us" and src[1:].isdigit() and dst in ("f32", "f64") and rounding == "rn":
        target = dtype_of(dst)
        return lambda x: x.astype(target)
    return None


@meaning("cvt.pack")
def cvt_pack(inst: Inst) -> Pure:
    d, a, b, *rest = inst.operands
    dst = next(m for m in inst.modifiers if m in ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16"))
    sources: list[tuple[Operand, str]] = [(a, "s32"), (b, "s32"), *((c, "u32") for c in rest)]
    return Pure(lambda x, y, c=None: convert.pack(x, y, c, dst), [(d, "u32")], sources)  # pyright: ignore[reportArgumentType]
