"""What to write instead, for operands that an instruction does not take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...diagnostics import PTXError
from ...dialects.ptx.instruction import Instruction
from ...types import PtxType
from .nonvalue import NotAValue
from .operators import UNSIGNED
from .registers import PipeRef, Reg

__all__ = ["refused", "refused_value", "store_problem"]


def refused(cls: type[Instruction], modifiers: tuple[str, ...], operands: Sequence[Any], error: PTXError) -> PTXError:
    """The error of an instruction, with advice for a place in memory as value, `p | q` as predicate, and a destination
    that is missing.
    """
    message = error.diagnostics[0].message
    if "not the symbol" in message:
        for operand in operands:
            if isinstance(operand, NotAValue) and hasattr(operand, "__ptx_symbol__"):
                return operand.refusal()
    if message.endswith("must be a .pred register, not a pair"):
        pair = next(o for o in operands if isinstance(o, PipeRef))
        return _advised(error, f"p | q is a pair of operands; the predicate `p or q` is {_either(pair)}")
    missing = _destination(cls, modifiers, len(operands))
    if missing is not None:
        return _advised(error, f"the destination comes first: {missing}")
    return error


def refused_value(dtype: PtxType, value: Any, error: PTXError) -> PTXError:
    """The error of a `mov` or `st` of a value into what has another type, with how to convert. The author wrote an
    assignment or `p.store(v)`, and no opcode: what to change in its words is left out.
    """
    if not isinstance(value, Reg) or value.dtype == dtype:
        return error
    first, *rest = error.diagnostics
    lines = [line for line in (first.hint or "").split("\n") if not line.startswith(_OF_OPCODES)]
    return _advised(type(error)([replace(first, hint="\n".join(lines), fixes=()), *rest]), _conversion(dtype, value))


_OF_OPCODES = ("replace .", "remove .", "add .", "syntax: ")


def store_problem(dtype: PtxType, value: Any) -> tuple[str, str] | None:
    """What is wrong with storing a register as a type: of a float of another size only a part would be written."""
    if not isinstance(value, Reg) or value.dtype.bits == dtype.bits or "x" in value.dtype.name:
        return None
    if not (value.dtype.is_float and dtype.is_float):
        return None
    return f"{value.name} of type {value.dtype} is stored as {dtype}, and its bits are none", _conversion(dtype, value)


def _conversion(dtype: PtxType, value: Reg) -> str:
    if dtype.name == "pred":
        return "compare it: p = a != 0"
    if value.dtype.name == "pred":
        return f"choose with it: d = ptx.selp({dtype}, a, b, p)"
    to, source = (UNSIGNED.get(t.name, t.name) for t in (dtype, value.dtype))
    return f"convert it: d = reg.scalar({to}); ptx.cvt({to}, {source}, d, a)"


def _either(pair: PipeRef) -> str:
    names = [getattr(part, "name", "p").lstrip("%") for part in (pair.left, pair.right)]
    return f"ptx.or_(pred, {', '.join(names)})"


def _destination(cls: type[Instruction], modifiers: tuple[str, ...], count: int) -> str | None:
    """How to make the destination that is missing where there are `count` operands; None if that is not it."""
    forms = [(specs, slots) for form, slots in cls.candidates(modifiers) for specs in form.alternatives]
    if any(len(specs) == count for specs, _ in forms):
        return None
    for specs, slots in forms:
        first = specs[0] if specs else None
        if first is not None and first.kind == "pair":
            first = first.parts[0]
        if len(specs) != count + 1 or first is None or first.kind != "value" or first.role != "=":
            continue
        dtype = slots.get(first.type, first.type)
        vector = slots.get(first.count, first.count).removeprefix("v")
        if vector.isdigit():
            return f"d = reg.array({dtype}, {vector})"
        return "p = reg.scalar(pred)" if dtype == "pred" else f"d = reg.scalar({dtype})"
    return None


def _advised(error: PTXError, advice: str) -> PTXError:
    first, *rest = error.diagnostics
    return type(error)([replace(first, hint="\n".join(filter(None, (advice, first.hint)))), *rest])
