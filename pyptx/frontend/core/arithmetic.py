"""Python operators on registers: one operator is one instruction (two where an index must be widened to 64 bits
first).

The result is a fresh register of the left operand's type; `+=` and the like change the register itself. Integers of 16,
32 and 64 bits, f32, f64, f16, bf16 and their packed pairs. Which instruction an operator is, `operators` says.
"""

from __future__ import annotations

import sys
from dis import opname
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...types import PtxType, b32, from_name, pred, s64, u64
from .bytecode import instructions as author_instructions
from .nonvalue import NotAValue
from .operators import COMMUTATIVE, COMPARISONS, operator_opcode
from .trace import _SKIPPED, NotABool, Trace, current

if TYPE_CHECKING:
    from .registers import NegPred, PipeRef, Reg

_FLOATS = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "f32x2"}


def _instruction(operator: str, dtype: PtxType, trace: Trace) -> Any:
    name = operator_opcode(operator, dtype.name, trace.unsigned_operators)
    if name is None:
        raise trace.error(*_refusal(operator, dtype))
    return instructions.opcode(name)


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


def _number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating, np.bool_))


class Arithmetic:
    """The operators of `Reg`."""

    __slots__ = ()

    if TYPE_CHECKING:
        name: str
        dtype: PtxType

    def __bool__(self) -> bool:
        hint = (
            "branch with `with ptx.if_(p):`, choose with ptx.selp, guard one instruction with pred=p; "
            "`p and q` is p & q, `a < b < c` is (a < b) & (b < c), `not p` is ~p"
        )
        if _in_a_call(sys._getframe(1)):
            hint = "max(a, b) is a.max(b) or ptx.inst.max, min(a, b) is a.min(b) or ptx.inst.min; elsewhere " + hint
        raise NotABool(
            current().diagnostic(
                f"{self!r} has no truth value while the kernel is traced: Python's if, while, in, and, or, not "
                "cannot depend on it",
                hint,
            )
        )

    def __index__(self) -> int:
        raise NotABool(
            current().diagnostic(
                f"{self!r} has no value while the kernel is traced: Python's range, indexing and int() cannot use it",
                "loop with `for i in ptx.range_(n):`, address memory with ptx.addr(base + offset)",
            )
        )

    def __float__(self) -> float:
        raise NotABool(
            current().diagnostic(
                f"{self!r} has no value while the kernel is traced: Python's float() and math cannot use it",
                functions_of(self.dtype)
                if self.dtype.is_float
                else f"convert it: d = reg.scalar(f32); ptx.cvt(f32, {self.dtype}, d, a)",
            )
        )

    def __int__(self) -> int:
        raise NotABool(
            current().diagnostic(
                f"{self!r} has no value while the kernel is traced: Python's int() cannot use it",
                f"convert it: d = reg.scalar(s32); ptx.cvt(s32, {self.dtype}, d, a)",
            )
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions of one argument are refused; operators with NumPy scalars are Python's."""
        if ufunc.nin == 1:
            raise current().error(
                f"np.{ufunc.__name__} of a register: NumPy cannot compute while the kernel is traced",
                functions_of(self.dtype),
            )
        return getattr(ufunc, method)(*[_boxed(i) for i in inputs], **options)

    # -------------------------------------------------------------------------------------------------- arithmetic

    def __add__(self, other: Any) -> Reg:
        if hasattr(other, "__ptx_address__"):
            return NotImplemented  # a typed pointer counts in elements
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Reg:
        return _reflected("+", self, other)

    def __iadd__(self, other: Any) -> Reg:
        return _in_place("+", self, other)

    def __sub__(self, other: Any) -> Reg:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Reg:
        return _reflected("-", self, other)

    def __isub__(self, other: Any) -> Reg:
        return _in_place("-", self, other)

    def __mul__(self, other: Any) -> Reg:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Reg:
        return _reflected("*", self, other)

    def __imul__(self, other: Any) -> Reg:
        return _in_place("*", self, other)

    def __truediv__(self, other: Any) -> Reg:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Reg:
        return _reflected("/", self, other)

    def __itruediv__(self, other: Any) -> Reg:
        return _in_place("/", self, other)

    def __floordiv__(self, other: Any) -> Reg:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Reg:
        return _reflected("//", self, other)

    def __ifloordiv__(self, other: Any) -> Reg:
        return _in_place("//", self, other)

    def __mod__(self, other: Any) -> Reg:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Reg:
        return _reflected("%", self, other)

    def __imod__(self, other: Any) -> Reg:
        return _in_place("%", self, other)

    def __pow__(self, other: Any) -> Reg:
        raise current().error(
            f"registers have no **, here of {self.dtype} and {other!r}",
            "multiply: v * v; other powers of f32 are ex2.approx(y * lg2.approx(v))",
        )

    __rpow__ = __pow__

    def __neg__(self) -> Reg:
        return _unary("neg", self)

    def __pos__(self) -> Reg:
        return self  # pyright: ignore[reportReturnType]

    def __abs__(self) -> Reg:
        return _unary("abs", self)

    # ------------------------------------------------------------------------------------------------------ bits

    def __lshift__(self, other: Any) -> Reg:
        return _binary("<<", self, other)

    def __rlshift__(self, other: Any) -> Reg:
        return _reflected("<<", self, other)

    def __ilshift__(self, other: Any) -> Reg:
        return _in_place("<<", self, other)

    def __rshift__(self, other: Any) -> Reg:
        return _binary(">>", self, other)

    def __rrshift__(self, other: Any) -> Reg:
        return _reflected(">>", self, other)

    def __irshift__(self, other: Any) -> Reg:
        return _in_place(">>", self, other)

    def __and__(self, other: Any) -> Reg:
        return _binary("&", self, other)

    def __rand__(self, other: Any) -> Reg:
        return _reflected("&", self, other)

    def __iand__(self, other: Any) -> Reg:
        return _in_place("&", self, other)

    def __xor__(self, other: Any) -> Reg:
        return _binary("^", self, other)

    def __rxor__(self, other: Any) -> Reg:
        return _reflected("^", self, other)

    def __ixor__(self, other: Any) -> Reg:
        return _in_place("^", self, other)

    def __or__(self, other: Any) -> Reg | PipeRef:
        """`a | b` of integers; with a predicate on either side the operand pair `d|p`."""
        if not _number(other):
            right = registers.Reg if isinstance(other, registers.Reg) else None
            if right is None or pred in (self.dtype, other.dtype):
                return registers.PipeRef(self, other)
        return _binary("|", self, other)

    def either(self, other: Any) -> Reg:
        """`a | b` as a value, of predicates too."""
        return _binary("|", self, other)

    def __ror__(self, other: Any) -> Reg | PipeRef:
        return _reflected("|", self, other) if _number(other) else registers.PipeRef(other, self)

    def __ior__(self, other: Any) -> Reg:
        return _in_place("|", self, other)

    def __invert__(self) -> Reg | NegPred:
        """`~p` negates a predicate where it is used; `~r` is `not` of an integer's bits."""
        if self.dtype.name == "pred":
            return registers.NegPred(self)  # pyright: ignore[reportArgumentType]
        return _unary("~", self)

    def max(self, other: Any) -> Reg:
        """The larger of the two."""
        return _binary("max", self, other)

    def min(self, other: Any) -> Reg:
        """The smaller of the two."""
        return _binary("min", self, other)

    # --------------------------------------------------------------------------------------------------- comparison

    def __lt__(self, other: Any) -> Reg:
        return _compare("lt", self, other)

    def __le__(self, other: Any) -> Reg:
        return _compare("le", self, other)

    def __gt__(self, other: Any) -> Reg:
        return _compare("gt", self, other)

    def __ge__(self, other: Any) -> Reg:
        return _compare("ge", self, other)

    def __eq__(self, other: object) -> Any:
        if not (_number(other) or isinstance(other, registers.Reg)):
            return NotImplemented
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        if not (_number(other) or isinstance(other, registers.Reg)):
            return NotImplemented
        return _compare("ne", self, other)

    def __hash__(self) -> int:
        return hash(self.name)


def functions_of(dtype: PtxType) -> str:
    """What to write for a function of `math` or NumPy."""
    return (
        f"write PTX instructions: ptx.inst.<opcode>.{dtype}(d, a), such as sqrt.rn.f32, or ex2.approx.f32 for powers of 2: "
        "exp(v) is that of v * 1.4426950408889634"
    )


def _in_a_call(frame: FrameType) -> bool:
    """Whether the instruction that runs in a frame is a call (of max, min, any, ...) rather than a test."""
    return opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL")


def _boxed(value: Any) -> Any:
    """A register as an array of one object, for which NumPy calls its operators."""
    if not isinstance(value, Arithmetic):
        return value
    box = np.empty((), object)
    box[()] = value
    return box


def _defined(trace: Trace, result: Reg) -> Reg:
    result.defined_at = len(trace.statements) - 1
    return result


def _operand(operator: str, dtype: PtxType, value: Any, trace: Trace) -> Any:
    """The other operand, as the instruction takes it: checked, and constants that PTX lacks (f16 and the like) in a
    register.
    """
    if isinstance(value, registers.Reg):
        return _register_operand(operator, dtype, value, trace)
    if isinstance(value, registers.NegPred):
        if dtype.name == "pred":
            return value
        raise trace.error(f"{operator} of a {dtype} register and a predicate", "choose with ptx.selp")
    if isinstance(value, NotAValue):
        raise value.refusal()
    if not _number(value):
        if trace.faithful and isinstance(value, str):
            return value
        raise trace.error(f"{_SIGNS.get(operator, operator)} of a register and {_kind(value)}", _instead(value))
    number: int | float = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float) and not dtype.is_float and dtype.name not in _FLOATS:
        raise trace.error(
            f"{operator} of a {dtype} register and the float {number!r}", "use an int, or convert the register to f32"
        )
    if dtype.name in _FLOATS:
        return float(number) if dtype.name in ("f32", "f64") else instructions.constant(dtype, number)
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


def _binary(operator: str, left: Any, right: Any) -> Any:
    trace = current()
    dtype = left.dtype
    if isinstance(right, registers.Reg) and operator not in ("<<", ">>"):
        both_signed = dtype.is_signed and right.dtype.is_signed
        left, right = _as_wide(trace, left, right)
        if left.dtype is not dtype:
            dtype = s64 if both_signed else u64
    run = _instruction(operator, dtype, trace)
    operand = _operand(operator, dtype, right, trace)
    result = left.fresh(trace, dtype)
    run(result, left, operand)
    return _defined(trace, result)


def _reflected(operator: str, right: Any, left: Any) -> Any:
    """`left operator right` with a number on the left; it comes second where that is the same, as PTX is written."""
    trace = current()
    if operator in COMMUTATIVE and not trace.faithful:
        return _binary(operator, right, left)
    if not _number(left):
        return NotImplemented
    dtype = right.dtype
    run = _instruction(operator, dtype, trace)
    operand = _operand(operator, dtype, left, trace)
    result = right.fresh(trace, dtype)
    if operator in ("<<", ">>") and _size(trace, right) != 32:
        right = _as_amount(trace, right)
    run(result, operand, right)
    return _defined(trace, result)


def _in_place(operator: str, left: Any, right: Any) -> Any:
    trace = current()
    if isinstance(left, registers.SpecialReg):
        raise trace.error(f"{left.name} is read-only", "copy it first: reg.from_(...)")
    dtype = left.dtype
    if operator == "|" and dtype.name == "pred":
        raise trace.error("predicates have no |=", "write ptx.or_(pred, p, p, q)")
    if isinstance(right, registers.Reg) and dtype.bits == 64 and operator not in ("<<", ">>"):
        right = _as_wide(trace, left, right)[1]
    run = _instruction(operator, dtype, trace)
    run(left, left, _operand(operator, dtype, right, trace))
    left.defined_at = -1
    return left


def _unary(operator: str, value: Any) -> Any:
    trace = current()
    dtype = value.dtype
    run = _instruction(operator, dtype, trace)
    result = value.fresh(trace, dtype)
    run(result, value)
    return _defined(trace, result)


def _size(trace: Trace, value: Any) -> int:
    """The bits of a register; in PTX taken as it is those of its class, as `ld.u32` fills a register of 64 bits."""
    named = value.variable.register_class if trace.faithful and value.variable else ""
    return from_name(named).bits if named and "." not in named else value.dtype.bits


def _as_amount(trace: Trace, value: Any) -> Any:
    """An integer of 16 or 64 bits as the 32 bits that shifts take."""
    amount = value.fresh(trace, b32)
    instructions.opcode(f"cvt.u32.u{_size(trace, value)}")(amount, value)
    return amount


def _as_wide(trace: Trace, left: Any, right: Any) -> tuple[Any, Any]:
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


def _widened(trace: Trace, value: Any) -> Any:
    """A 32-bit integer as 64 bits: sign-extended when its type is signed."""
    if value.dtype.is_float:
        raise trace.error(f"a {value.dtype} register is no index", "convert it to an integer with ptx.cvt")
    signed = value.dtype.is_signed
    wide = value.fresh(trace, s64 if signed else u64)
    instructions.opcode("cvt.s64.s32" if signed else "cvt.u64.u32")(wide, value)
    return wide


def _compare(relation: str, left: Any, right: Any) -> Any:
    trace = current()
    dtype = left.dtype
    if isinstance(right, registers.Reg):
        left, right = _as_wide(trace, left, right)
        dtype = left.dtype
    run = _instruction(relation, dtype, trace)
    operand = _operand(relation, dtype, right, trace)
    result = left.fresh(trace, pred)
    run(result, left, operand)
    return result


from . import instructions, registers  # noqa: E402
