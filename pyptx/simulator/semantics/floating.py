"""Floating-point instructions of their own (PTX ISA 9.7.3, 9.7.4). The approximate ones are correctly
rounded unless the launch asks for errors.
"""

from __future__ import annotations

from functools import partial

from ...numerics import approximate, floating, native
from ..machine.program import Inst
from ..machine.registry import Pure, meaning
from .operands import HALVES, approximated, float_options, lanewise, with_options


@meaning("rcp")
def rcp(inst: Inst) -> Pure:
    if inst.has("approx"):
        if inst.type == "f64":
            return lanewise(inst, approximate.rcp_f64, "f64")
        return approximated(inst, approximate.rcp, ftz=inst.has("ftz"))
    return lanewise(inst, with_options(floating.rcp, **float_options(inst)), inst.type)


@meaning("sqrt")
def sqrt(inst: Inst) -> Pure:
    compiled = partial(native.sqrt, **float_options(inst))
    if inst.has("approx"):  # without errors it is that rounded to nearest
        return approximated(inst, approximate.sqrt, ftz=inst.has("ftz"), native=compiled)
    return lanewise(inst, with_options(floating.sqrt, **float_options(inst)), inst.type, native=compiled)


@meaning("rsqrt")
def rsqrt(inst: Inst) -> Pure:
    if inst.type == "f64":
        return lanewise(inst, with_options(approximate.rsqrt_f64, ftz=inst.has("ftz")), "f64")
    return approximated(inst, approximate.rsqrt, ftz=inst.has("ftz"))


@meaning("sin")
def sin(inst: Inst) -> Pure:
    return approximated(inst, approximate.sin_turns if inst.has("2pi") else approximate.sin, ftz=inst.has("ftz"))


@meaning("cos")
def cos(inst: Inst) -> Pure:
    return approximated(inst, approximate.cos_turns if inst.has("2pi") else approximate.cos, ftz=inst.has("ftz"))


@meaning("lg2")
def lg2(inst: Inst) -> Pure:
    return approximated(inst, approximate.lg2, ftz=inst.has("ftz"))


@meaning("ex2")
def ex2(inst: Inst) -> Pure:
    if inst.type in HALVES:
        return approximated(inst, approximate.ex2_half, inst.type, kind=inst.type)
    return approximated(inst, approximate.ex2, ftz=inst.has("ftz"))


@meaning("tanh")
def tanh(inst: Inst) -> Pure:
    if inst.type in HALVES:
        return approximated(inst, approximate.tanh_half, inst.type, kind=inst.type)
    return approximated(inst, approximate.tanh)


@meaning("testp")
def testp(inst: Inst) -> Pure:
    return lanewise(inst, with_options(floating.testp, property=inst.modifiers[0]), "pred", inst.type)


@meaning("copysign")
def copysign(inst: Inst) -> Pure:
    return lanewise(inst, floating.copysign, inst.type)
