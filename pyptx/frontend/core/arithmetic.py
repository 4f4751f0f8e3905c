"""Python operators on registers: one operator is one instruction (two where an index must be widened to 64 bits
first).

The result is a fresh register of the left operand's type; `+=` and the like change the register itself. Integers of 16,
32 and 64 bits, f32, f64, f16, bf16 and their packed pairs. Which instruction an operator is, `operators` says.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...types import PtxType, b32, from_name, pred, s64, u64
from .bytecode import instructions as author_instructions
from .instructions import Opcode, constant, move, opcode, shape_of_move
from .nonvalue import NotAValue
from .operators import COMMUTATIVE, COMPARISONS, operator_opcode
from .registers import NegPred, Reg, SpecialReg, is_number
from .trace import _SKIPPED, Trace, current

_FLOATS = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "f32x2"}


def _instruction(operator: str, dtype: PtxType, trace: Trace) -> Opcode:
    name = operator_opcode(operator, dtype.name, trace.unsigned_operators)
    if name is None:
        raise trace.error(*_refusal(operator, dtype))
    return opcode(name)


def _refusal(operator: str, dtype: PtxType) -> tuple[str, str]:
    """Why a type lacks an operator, and what to write instead."""
    if operator in _SIGNS:
        hint = "compare predicates with p ^ q" if dtype.name == "pred" else "compare in f32, or with ptx.inst.setp"
        return f"{dtype} registers cannot be compared", hint
    if operator == "abs" and dtype.is_integer and dtype.bits > 8:
        return f"abs of a {dtype} register", "unsigned values have no sign; use an s32 or s64 register"
    if operator == "~":
        return f"{dtype} registers have no ~", "bits of a float are inverted in an integer register"
    return f"{dtype} registers have no {operator}", _advice(operator, dtype)


def _advice(operator: str, dtype: PtxType) -> str:
    if dtype.name == "pred":
        return "predicates have & | ^ ~"
    if operator == "/":
        return "integers divide with //; floats of f32 and f64 with /"
    if operator in ("//", "%") and dtype.is_float:
        return "// and % are for integers"
    if dtype.bits == 8:
        return "convert to 32 bits first: ptx.cvt(u32, u8, d, a)"
    if dtype.name in ("f16", "bf16"):
        return "compute in f32: ptx.cvt(f32, bf16, d, a)"
    return f"use an instruction: ptx.inst.<opcode>.{dtype}(d, a, b)"


def _defined(trace: Trace, result: Reg) -> Reg:
    result.defined_at = len(trace.statements) - 1
    return result


def _operand(operator: str, dtype: PtxType, value: Any, trace: Trace) -> Any:
    """The other operand, as the instruction takes it: checked, and constants that PTX lacks (f16 and the like) in a
    register.
    """
    if isinstance(value, Reg):
        return _register_operand(operator, dtype, value, trace)
    if isinstance(value, NegPred):
        if dtype.name == "pred":
            return value
        raise trace.error(f"{operator} of a {dtype} register and a predicate", "choose with ptx.selp")
    if isinstance(value, NotAValue):
        raise value.refusal()
    if not is_number(value):
        if trace.faithful and isinstance(value, str):
            return value
        raise trace.error(f"{_SIGNS.get(operator, operator)} of a register and {_kind(value)}", _instead(value))
    number: int | float = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float) and not dtype.is_float and dtype.name not in _FLOATS:
        raise trace.error(
            f"{operator} of a {dtype} register and the float {number!r}", "use an int, or convert the register to f32"
        )
    if dtype.name in _FLOATS:
        return float(number) if dtype.name in ("f32", "f64") else constant(dtype, number)
    if not trace.faithful and dtype.is_integer:
        problem = constant_problem(operator, dtype, int(number))
        if problem is not None:
            raise trace.error(*problem)
        if (answer := one_answer(operator, dtype, int(number))) is not None and _is_literal():
            sign = _SIGNS[operator]
            trace.warn(
                f"{dtype} {sign} {number} {'always' if answer else 'never'} holds: {dtype} values are {_range_of(dtype)}",
                f"leave it out, or compare a signed register: reg.from_(r, s{dtype.bits}) {sign} {number}",
                trace.place(),
            )
    return int(number)


def _register_operand(operator: str, dtype: PtxType, value: Reg, trace: Trace) -> Any:
    other = value.dtype
    if operator in ("<<", ">>"):
        return value if _size(trace, value) == 32 or other.is_float else _as_amount(trace, value)
    alike = other.bits == dtype.bits and (other.is_float == dtype.is_float or _bits_alike(other, dtype))
    if not alike and not trace.faithful:
        raise trace.error(
            f"{operator} of {dtype} and {other} registers", f"convert one of them: ptx.cvt({dtype}, {other}, d, a)"
        )
    return value


def _kind(value: Any) -> str:
    """What stands where a number or register should, in words."""
    if value is None:
        return "None"
    shape = getattr(value, "shape", None)
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}" if shape else f"an array that holds one {value.dtype}"
    return type(value).__name__


def _instead(value: Any) -> str:
    hint = "operands are registers and Python numbers"
    if value is None:
        return hint + ": is it a dimension or template parameter that was not given?"
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return hint + ": take an element of it, with int(...) or float(...)"
    return hint


_SIGNS = {name: sign for sign, name in COMPARISONS.items()}
_BY_SIGN = frozenset(("//", "%", "max", "min", *_SIGNS)) - {"eq", "ne"}
"""Operators of integers whose result depends on the sign."""


def constant_problem(operator: str, dtype: PtxType, value: int) -> tuple[str, str] | None:
    """Why an integer constant is not one for an operator on a type, and what to do. -1 and the like stand for the same bits
    of an unsigned register where the sign does not matter.
    """
    sign, bits = _SIGNS.get(operator, operator), dtype.bits
    if operator in ("<<", ">>"):
        if value < 0:
            return f"{sign} of a {dtype} register by {value}", "shift the other way"
        return None
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        return (
            f"{sign} of a {dtype} register and {value}, which has more than {bits} bits",
            "widen it with ptx.cvt",
        )
    if operator not in _BY_SIGN:
        return None
    if dtype.is_signed and value >= 1 << (bits - 1):
        does = "compare with" if operator in _SIGNS else "take it for"
        return (
            f"{value} is not a {dtype} value: {sign} would {does} {value - (1 << bits)}",
            "use an unsigned register",
        )
    if not dtype.is_signed and value < 0:
        does = "compares" if operator in _SIGNS else "computes"
        return (
            f"{sign} of a {dtype} register and {value}: it {does} unsigned, as {value + (1 << bits)}",
            f"a signed register is signed: reg.from_(r, s{bits}) {sign} {value}",
        )
    return None


def one_answer(operator: str, dtype: PtxType, value: int) -> bool | None:
    """The result of a comparison with a constant that has the same one for all values of an integer type; else None."""
    least = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    most = least + (1 << dtype.bits) - 1
    if (operator == "lt" and value <= least) or (operator == "gt" and value >= most):
        return False
    return True if (operator == "ge" and value <= least) or (operator == "le" and value >= most) else None


def _is_literal() -> bool:
    """Whether the author's comparison that runs has a literal on its right: a number that was computed (how many elements
    are left over, say) may well be one that all or no values reach.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back
    if frame is None:
        return False
    before = [i for i in author_instructions(frame.f_code) if i.offset < frame.f_lasti]
    return bool(before) and before[-1].opname in ("LOAD_CONST", "LOAD_SMALL_INT")


def _range_of(dtype: PtxType) -> str:
    return f"-2**{dtype.bits - 1} to 2**{dtype.bits - 1} - 1" if dtype.is_signed else f"0 to 2**{dtype.bits} - 1"


def _bits_alike(first: PtxType, second: PtxType) -> bool:
    return "b" in (first.name[0], second.name[0]) and first.name not in ("bf16",) and second.name not in ("bf16",)


def _binary(operator: str, left: Reg, right: object) -> Reg:
    trace = current()
    dtype = left.dtype
    if isinstance(right, Reg) and operator not in ("<<", ">>"):
        both_signed = dtype.is_signed and right.dtype.is_signed
        left, right = _as_wide(trace, left, right)
        if left.dtype is not dtype:
            dtype = s64 if both_signed else u64
    run = _instruction(operator, dtype, trace)
    operand = _operand(operator, dtype, right, trace)
    result = left.fresh(trace, dtype)
    run(result, left, operand)
    return _defined(trace, result)


def _reflected(operator: str, right: Reg, left: object) -> Reg:
    """`left operator right` with a number on the left; it comes second where that is the same, as PTX is written."""
    trace = current()
    if operator in COMMUTATIVE and not trace.faithful:
        return _binary(operator, right, left)
    if not is_number(left):
        return NotImplemented
    dtype = right.dtype
    run = _instruction(operator, dtype, trace)
    operand = _operand(operator, dtype, left, trace)
    result = right.fresh(trace, dtype)
    if operator in ("<<", ">>") and _size(trace, right) != 32:
        right = _as_amount(trace, right)
    run(result, operand, right)
    return _defined(trace, result)


def _in_place(operator: str, left: Reg, right: object) -> None:
    trace = current()
    if isinstance(left, SpecialReg):
        raise trace.error(f"{left.name} is read-only", "copy it first: reg.from_(...)")
    dtype = left.dtype
    if operator == "|" and dtype.name == "pred":
        raise trace.error("predicates have no |=", "write ptx.or_(pred, p, p, q)")
    if isinstance(right, Reg) and dtype.bits == 64 and operator not in ("<<", ">>"):
        right = _as_wide(trace, left, right)[1]
    run = _instruction(operator, dtype, trace)
    run(left, left, _operand(operator, dtype, right, trace))
    left.defined_at = -1


def _unary(operator: str, value: Reg) -> Reg:
    trace = current()
    dtype = value.dtype
    run = _instruction(operator, dtype, trace)
    result = value.fresh(trace, dtype)
    run(result, value)
    return _defined(trace, result)


def _size(trace: Trace, value: Reg) -> int:
    """The bits of a register; in PTX taken as it is those of its class, as `ld.u32` fills a register of 64 bits."""
    named = value.variable.register_class if trace.faithful and value.variable else ""
    return from_name(named).bits if named and "." not in named else value.dtype.bits


def _as_amount(trace: Trace, value: Reg) -> Reg:
    """An integer of 16 or 64 bits as the 32 bits that shifts take."""
    amount = value.fresh(trace, b32)
    opcode(f"cvt.u32.u{_size(trace, value)}")(amount, value)
    return amount


def _as_wide(trace: Trace, left: Reg, right: Reg) -> tuple[Reg, Reg]:
    """Two registers, of which an integer of 32 bits is widened where the other has 64. In PTX taken as it is, what counts is
    the register's size: `ld.u32` fills one of 64 bits.
    """
    bits = [
        from_name(r.variable.register_class).bits if trace.faithful and r.variable else r.dtype.bits
        for r in (left, right)
    ]
    if sorted(bits) != [32, 64] or not all(r.dtype.is_integer or r.dtype.bits == 64 for r in (left, right)):
        return left, right
    return (_widened(trace, left), right) if bits[0] == 32 else (left, _widened(trace, right))


def _widened(trace: Trace, value: Reg) -> Reg:
    """A 32-bit integer as 64 bits: sign-extended when its type is signed."""
    if value.dtype.is_float:
        raise trace.error(f"a {value.dtype} register is not an index", "convert it to an integer with ptx.cvt")
    signed = value.dtype.is_signed
    wide = value.fresh(trace, s64 if signed else u64)
    opcode("cvt.s64.s32" if signed else "cvt.u64.u32")(wide, value)
    return wide


def _compare(relation: str, left: Reg, right: object) -> Reg:
    trace = current()
    dtype = left.dtype
    if isinstance(right, Reg):
        left, right = _as_wide(trace, left, right)
        dtype = left.dtype
    run = _instruction(relation, dtype, trace)
    operand = _operand(relation, dtype, right, trace)
    result = left.fresh(trace, pred)
    run(result, left, operand)
    return result


class _Emitter:
    """Operators as instructions."""

    binary = staticmethod(_binary)
    reflected = staticmethod(_reflected)
    in_place = staticmethod(_in_place)
    unary = staticmethod(_unary)
    compare = staticmethod(_compare)
    move = staticmethod(move)
    shape_of_move = staticmethod(shape_of_move)


Reg.emitter = _Emitter()
