"""Floating-point instructions of their own (PTX ISA 9.7.3, 9.7.4). The approximate ones are correctly
rounded here.
"""

from __future__ import annotations

from functools import partial

from ..numerics import approximate, floating
from ..program import Inst
from .operands import HALVES, float_options, lanewise, with_options
from .registry import Pure, meaning


@meaning("rcp")
def rcp(inst: Inst) -> Pure:
    if inst.has("approx"):
        if inst.type == "f64":
            return lanewise(inst, approximate.rcp_f64, "f64")
        return lanewise(inst, with_options(approximate.rcp, ftz=inst.has("ftz")), "f32")
    return lanewise(inst, with_options(floating.rcp, **float_options(inst)), inst.type)


@meaning("sqrt")
def sqrt(inst: Inst) -> Pure:
    if inst.has("approx"):
        return lanewise(inst, with_options(approximate.sqrt, ftz=inst.has("ftz")), "f32")
    return lanewise(inst, with_options(floating.sqrt, **float_options(inst)), inst.type)


@meaning("rsqrt")
def rsqrt(inst: Inst) -> Pure:
    function = approximate.rsqrt_f64 if inst.type == "f64" else approximate.rsqrt
    return lanewise(inst, with_options(function, ftz=inst.has("ftz")), inst.type)


@meaning("sin")
def sin(inst: Inst) -> Pure:
    return lanewise(inst, with_options(approximate.sin, ftz=inst.has("ftz")), "f32")


@meaning("cos")
def cos(inst: Inst) -> Pure:
    return lanewise(inst, with_options(approximate.cos, ftz=inst.has("ftz")), "f32")


@meaning("lg2")
def lg2(inst: Inst) -> Pure:
    return lanewise(inst, with_options(approximate.lg2, ftz=inst.has("ftz")), "f32")


@meaning("ex2")
def ex2(inst: Inst) -> Pure:
    if inst.type in HALVES:
        return lanewise(inst, partial(approximate.ex2_half, kind=inst.type), inst.type)
    return lanewise(inst, with_options(approximate.ex2, ftz=inst.has("ftz")), "f32")


@meaning("tanh")
def tanh(inst: Inst) -> Pure:
    if inst.type in HALVES:
        return lanewise(inst, partial(approximate.tanh_half, kind=inst.type), inst.type)
    return lanewise(inst, approximate.tanh, "f32")


@meaning("testp")
def testp(inst: Inst) -> Pure:
    return lanewise(inst, with_options(floating.testp, property=inst.modifiers[0]), "pred", inst.type)


@meaning("copysign")
def copysign(inst: Inst) -> Pure:
    return lanewise(inst, floating.copysign, inst.type)
