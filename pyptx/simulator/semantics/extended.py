"""The links of a carry chain (PTX ISA 9.7.2). The condition code is a hidden predicate register of the
function.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...numerics import integer
from ..machine.program import Inst
from ..machine.registry import Pure, meaning
from .operands import Array, Function


def _link(inst: Inst, function: Function) -> Pure:
    """`function(*operands, carry) -> (result, carry out)`."""
    assert inst.cc is not None
    sources = [*((o, inst.type) for o in inst.operands[1:]), (inst.cc, "pred")]
    if inst.has("cc"):
        return Pure(function, [(inst.operands[0], inst.type), (inst.cc, "pred")], sources)
    return Pure(lambda *xs: function(*xs)[0], [(inst.operands[0], inst.type)], sources)


def _saturated(inst: Inst, subtracts: bool) -> Pure:
    assert inst.cc is not None

    def exact(a: Array, b: Array, carry: Array) -> Array:
        value = a.astype(np.int64) + (~b if subtracts else b) + carry
        return np.clip(value, -(1 << 31), (1 << 31) - 1).astype(np.int32)

    sources = [*((o, "s32") for o in inst.operands[1:]), (inst.cc, "pred")]
    return Pure(exact, [(inst.operands[0], "s32")], sources)


@meaning("addc")
def addc(inst: Inst) -> Pure:
    return _saturated(inst, False) if inst.has("sat") else _link(inst, integer.add_carry)


@meaning("subc")
def subc(inst: Inst) -> Pure:
    return _saturated(inst, True) if inst.has("sat") else _link(inst, integer.sub_carry)


@meaning("madc")
def madc(inst: Inst) -> Pure:
    if inst.has("sat"):
        assert inst.cc is not None

        def exact(a: Array, b: Array, c: Array, carry: Array) -> Array:
            high = (a.astype(np.int64) * b.astype(np.int64)) >> 32
            return np.clip(high + c + carry, -(1 << 31), (1 << 31) - 1).astype(np.int32)

        sources = [*((o, "s32") for o in inst.operands[1:]), (inst.cc, "pred")]
        return Pure(exact, [(inst.operands[0], "s32")], sources)
    function = partial(integer.mad_carry, hi=inst.has("hi"))
    return _link(inst, lambda a, b, c, carry: function(a, b, c, carry=carry))
