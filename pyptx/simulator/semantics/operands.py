"""Shared shapes of meanings: unary, binary and ternary functions of one type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..machine.program import Inst, Operand
from ..machine.registry import Pure

Array = Any
Function = Callable[..., Array]
HALVES = ("f16", "bf16", "f16x2", "bf16x2")
PACKED_INTEGERS = ("u16x2", "s16x2", "u8x4", "s8x4")


def lanewise(
    inst: Inst,
    function: Function,
    *types: str,
    ufunc: bool = False,
    whole: bool = False,
    sources: tuple[Operand, ...] | None = None,
    native: Function | None = None,
) -> Pure:
    """d = function(a, b, ...): `types` are those of d and of the sources; one type stands for all."""
    inputs = inst.operands[1:] if sources is None else sources
    if len(types) == 1:
        types = types * (len(inputs) + 1)
    pairs = list(zip(inputs, types[1:], strict=False))
    return Pure(function, [(inst.operands[0], types[0])], pairs, ufunc, whole, native=native)


def with_options(function: Function, **options: Any) -> Function:
    """The function with the options that are not False or None; without any, the function itself."""
    chosen = {k: v for k, v in options.items() if v is not None and v is not False}
    return partial(function, **chosen) if chosen else function


def approximated(
    inst: Inst, function: Function, type_name: str = "f32", native: Function | None = None, **options: Any
) -> Pure:
    """`lanewise` for a function of `numerics.approximate`, whose error a launch may choose; `native` has none."""
    pure = lanewise(inst, with_options(function, **options), type_name, native=native)
    pure.approximate = True
    return pure


def float_options(inst: Inst) -> dict[str, Any]:
    """rounding, ftz and sat of a floating-point instruction, as far as they are not the default."""
    options: dict[str, Any] = {}
    if inst.rounding != "rn":
        options["rounding"] = inst.rounding
    if inst.has("ftz"):
        options["ftz"] = True
    if inst.has("sat"):
        options["sat"] = True
    return options


def u32(value: int) -> np.ndarray:
    return np.array([value], np.uint32)


def scalar(machine: Machine, operand: Operand, lane: int, kind: str = "u32") -> int:
    """The value of an operand in one lane."""
    source = machine.source(operand, kind)
    return int(source[lane % source.size])


def receivers_of(machine: Machine, lane: int, mask: int) -> list[int]:
    """A lane in each CTA of the cluster that a multicast mask names."""
    first = int(machine.cta_of_lane[lane]) // machine.cluster_size * machine.cluster_size
    return [(first + r) * machine.padded for r in range(machine.cluster_size) if mask >> r & 1]
