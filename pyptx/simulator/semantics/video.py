"""Video instructions (PTX ISA 9.7.20): byte and half selectors stand on the operands (`%r1.b0`)."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...numerics import video
from ..machine.program import Inst, Negative, Operand, Part
from ..machine.registry import Pure, meaning

Array = Any
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")


def _plain(operand: Operand) -> tuple[Operand, str | None, bool]:
    """(register or constant, selector, negated)"""
    negative = isinstance(operand, Negative)
    inner = operand.operand if isinstance(operand, Negative) else operand
    if isinstance(inner, Part):
        return inner.operand, inner.selector, negative
    return inner, None, negative


def _pure(inst: Inst, function: Any) -> Pure:
    d = _plain(inst.operands[0])[0]
    return Pure(function, [(d, "u32")], [(_plain(o)[0], "u32") for o in inst.operands[1:]])


def _selectors(inst: Inst) -> dict[str, Any]:
    d, a, b = (_plain(o)[1] for o in inst.operands[:3])
    return {"dsel": d, "asel": a, "bsel": b, "sat": inst.has("sat"), "secondary": inst.one_of("add", "min", "max")}


@meaning("vadd", operation="add")
@meaning("vsub", operation="sub")
@meaning("vabsdiff", operation="absdiff")
@meaning("vmin", operation="min")
@meaning("vmax", operation="max")
def scalar(inst: Inst, *, operation: Any) -> Pure:
    dtype, atype, btype = inst.types[:3]
    options: dict[str, Any] = {"dtype": dtype, "atype": atype, "btype": btype, **_selectors(inst)}
    return _pure(inst, partial(video.scalar, operation, **options))


@meaning("vset")
def vset(inst: Inst) -> Pure:
    atype, btype = inst.types[:2]
    options: dict[str, Any] = {"dtype": "u32", "atype": atype, "btype": btype, **_selectors(inst)}
    comparison: Any = inst.one_of(*_COMPARISONS)
    return _pure(inst, partial(video.scalar, comparison, **options))


@meaning("vshl", direction="l")
@meaning("vshr", direction="r")
def shift(inst: Inst, *, direction: Any) -> Pure:
    options: dict[str, Any] = {"dtype": inst.types[0], "atype": inst.types[1], **_selectors(inst)}
    return _pure(inst, partial(video.shift, direction, wrap=inst.has("wrap"), **options))


@meaning("vmad")
def vmad(inst: Inst) -> Pure:
    _, a, b, c = (_plain(o) for o in inst.operands)
    dtype, atype, btype = inst.types[:3]
    scale = 7 if inst.has("shr7") else 15 if inst.has("shr15") else 0
    negate = "product" if a[2] != b[2] else "c" if c[2] else None
    # c is signed where the product is: the manual's table of intermediate types
    signed = negate == "product" or "s32" in (atype, btype)
    options: dict[str, Any] = {
        "dtype": dtype,
        "atype": atype,
        "btype": btype,
        "ctype": "s32" if signed else "u32",
        "asel": a[1],
        "bsel": b[1],
        "negate": negate,
        "plus_one": inst.has("po"),
        "scale": scale,
        "sat": inst.has("sat"),
    }
    return _pure(inst, partial(video.mad, **options))


def simd(inst: Inst, *, operation: str, lanes: int) -> Pure:
    dtype, atype, btype = inst.types[:3]
    return _simd(inst, lanes, operation, dtype, atype, btype)


for _lanes in (2, 4):
    for _name in ("add", "sub", "avrg", "absdiff", "min", "max"):
        meaning(f"v{_name}{_lanes}", operation=_name, lanes=_lanes)(simd)


@meaning("vset2", lanes=2)
@meaning("vset4", lanes=4)
def simd_set(inst: Inst, *, lanes: int) -> Pure:
    atype, btype = inst.types[:2]
    return _simd(inst, lanes, inst.one_of(*_COMPARISONS) or "eq", "u32", atype, btype)


def _simd(inst: Inst, lanes: int, operation: str, dtype: str, atype: str, btype: str) -> Pure:
    d, a, b = (_plain(o)[1] for o in inst.operands[:3])
    options: dict[str, Any] = {
        "lanes": lanes,
        "dtype": dtype,
        "atype": atype,
        "btype": btype,
        "asel": a and a[1:],
        "bsel": b and b[1:],
        "mask": d and d[1:],
        "sat": inst.has("sat"),
        "add": inst.has("add"),
    }
    return _pure(inst, partial(video.simd, operation, **options))
