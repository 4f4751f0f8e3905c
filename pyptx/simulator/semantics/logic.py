"""Logic and shifts (PTX ISA 9.7.9)."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...numerics import integer, native
from ..machine.program import Imm, Inst, Pair
from ..machine.registry import Pure, meaning
from .operands import Array, lanewise


@meaning("and")
def and_(inst: Inst) -> Pure:
    return lanewise(inst, np.bitwise_and, inst.type, ufunc=True, native=native.operation("and"))


@meaning("or")
def or_(inst: Inst) -> Pure:
    return lanewise(inst, np.bitwise_or, inst.type, ufunc=True, native=native.operation("or"))


@meaning("xor")
def xor(inst: Inst) -> Pure:
    return lanewise(inst, np.bitwise_xor, inst.type, ufunc=True, native=native.operation("xor"))


@meaning("not")
def not_(inst: Inst) -> Pure:
    return lanewise(inst, np.invert, inst.type, ufunc=True, native=native.not_)


@meaning("cnot")
def cnot(inst: Inst) -> Pure:
    return lanewise(inst, integer.cnot, inst.type, native=native.cnot)


@meaning("lop3")
def lop3(inst: Inst) -> Pure:
    d, a, b, c, lut, *rest = inst.operands
    assert isinstance(lut, Imm)
    function = partial(integer.lop3, table=int(lut.value) & 0xFF)
    sources = [(o, "u32") for o in (a, b, c)]
    if not rest:
        return Pure(function, [(d, "u32")], sources, native=partial(native.lop3, table=int(lut.value) & 0xFF))
    assert isinstance(d, Pair)
    combine = np.logical_or if inst.has("or") else np.logical_and

    def both(x: Array, y: Array, z: Array, q: Array) -> tuple[Array, Array]:
        r = function(x, y, z)
        return r, combine(r != 0, q)

    return Pure(both, [(d.first, "u32"), (d.second, "pred")], [*sources, (rest[0], "pred")])


@meaning("shf")
def shf(inst: Inst) -> Pure:
    function = integer.shf_l if inst.has("l") else integer.shf_r
    wrap = inst.has("wrap")
    return lanewise(
        inst, partial(function, wrap=wrap), "u32", native=partial(native.shf, left=inst.has("l"), wrap=wrap)
    )


def _shift(inst: Inst, left: bool) -> Pure:
    kind = inst.type
    width = int(kind[1:])
    amount = inst.operands[2]
    shift = partial(native.shift, left=left, signed=kind[0] == "s")
    if isinstance(amount, Imm) and 0 <= int(amount.value) < width:
        # the usual case: a constant below the width needs no clamping
        return lanewise(inst, np.left_shift if left else np.right_shift, kind, ufunc=True, native=shift)
    return lanewise(inst, integer.shl if left else integer.shr, kind, kind, "u32", native=shift)


@meaning("shl")
def shl(inst: Inst) -> Pure:
    return _shift(inst, True)


@meaning("shr")
def shr(inst: Inst) -> Pure:
    return _shift(inst, False)
