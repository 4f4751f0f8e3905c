"""Python operators on registers: one operator is one instruction (two where an index must be widened to 64 bits
first).

The result is a fresh register of the left operand's type; `+=` and the like change the register itself. Integers of 16,
32 and 64 bits, f32, f64, f16, bf16 and their packed pairs. Integer division and remainder are PTX's: they truncate
towards zero.
"""

from __future__ import annotations

import sys
from dis import opname
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..types import PtxType, b32, pred, s64, u64
from .not_a_value import NotAValue
from .trace import NotABool, Trace, current

if TYPE_CHECKING:
    from .registers import NegPred, PipeRef, Reg

_INTEGERS = {f"{k}{n}": n for k in "bus" for n in (16, 32, 64)}
_UNSIGNED = {"b16": "u16", "b32": "u32", "b64": "u64"}
_FLOATS = {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "f32x2"}


def _opcode(operator: str, dtype: PtxType, constant: bool) -> str | None:
    """The instruction of an operator on a type; `constant`: the right operand is a Python number."""
    name = dtype.name
    if name == "pred":
        return {"&": "and.pred", "^": "xor.pred"}.get(operator)
    if name in _FLOATS:
        if name == "f32x2":
            return {"+": "add.rn.f32x2", "*": "mul.rn.f32x2", "-": "sub.rn.f32x2"}.get(operator)
        found = {"+": "add", "-": "sub", "*": "mul", "max": "max", "min": "min", "neg": "neg", "abs": "abs"}.get(
            operator
        )
        if found is None and name in ("f32", "f64"):
            found = {"/": "div.rn"}.get(operator)
        return found and f"{found}.{name}"
    bits = _INTEGERS.get(name)
    if bits is None:
        return None
    signed = f"s{bits}"
    plain = _UNSIGNED.get(name, name)
    match operator:
        case "+":
            return "add.s64" if bits == 64 else f"add.{plain}"
        case "-":
            return f"sub.{plain if bits == 16 else signed}"
        case "*":
            return f"mul.lo.{'u64' if bits == 64 else plain if bits == 16 else signed if constant else 'u32'}"
        case "<<":
            return f"shl.b{bits}"
        case ">>":
            return f"shr.{plain}"
        case "&" | "|" | "^":
            return f"{ {'&': 'and', '|': 'or', '^': 'xor'}[operator] }.b{bits}"
        case "//":
            return f"div.{plain}"
        case "%":
            return f"rem.{plain}"
        case "max" | "min":
            return f"{operator}.{plain}"
        case "neg":
            return f"neg.{signed}"
        case "abs":
            return f"abs.{signed}"
        case _:
            return None


_opcodes: dict[tuple[str, str, bool], Any] = {}


def _instruction(operator: str, dtype: PtxType, constant: bool, trace: Trace) -> Any:
    key = (operator, dtype.name, constant)
    found = _opcodes.get(key)
    if found is None:
        name = _opcode(operator, dtype, constant)
        if name is None:
            raise trace.error(f"{dtype} registers have no {operator}", _advice(operator, dtype))
        found = _opcodes[key] = instructions.opcode(name)
    return found


def _advice(operator: str, dtype: PtxType) -> str:
    if dtype.name == "pred":
        return "predicates have & ^ ~; for p or q write ptx.or_(pred, d, p, q)"
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
    return isinstance(value, (int, float))


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
                _functions(self.dtype)
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
                _functions(self.dtype),
            )
        return getattr(ufunc, method)(*[_boxed(i) for i in inputs], **options)

    # -------------------------------------------------------------------------------------------------- arithmetic

    def __add__(self, other: Any) -> Reg:
        if hasattr(other, "__ptx_address__"):
            return NotImplemented  # a typed pointer counts in elements
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Reg:
        return _binary("+", self, other)

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
        return _binary("*", self, other)

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
        return _binary("&", self, other)

    def __iand__(self, other: Any) -> Reg:
        return _in_place("&", self, other)

    def __xor__(self, other: Any) -> Reg:
        return _binary("^", self, other)

    def __rxor__(self, other: Any) -> Reg:
        return _binary("^", self, other)

    def __ixor__(self, other: Any) -> Reg:
        return _in_place("^", self, other)

    def __or__(self, other: Any) -> Reg | PipeRef:
        """`a | b` of integers; with a predicate on either side the operand pair `d|p`."""
        if not _number(other):
            right = registers.Reg if isinstance(other, registers.Reg) else None
            if right is None or pred in (self.dtype, other.dtype):
                return registers.PipeRef(self, other)
        return _binary("|", self, other)

    def __ror__(self, other: Any) -> Reg | PipeRef:
        return _binary("|", self, other) if _number(other) else registers.PipeRef(other, self)

    def __ior__(self, other: Any) -> Reg:
        return _in_place("|", self, other)

    def __invert__(self) -> Reg | NegPred:
        """`~p` negates a predicate where it is used; `~r` is `not` of an integer's bits."""
        if self.dtype.name == "pred":
            return registers.NegPred(self)  # pyright: ignore[reportArgumentType]
        trace = current()
        bits = _INTEGERS.get(self.dtype.name)
        if bits is None:
            raise trace.error(
                f"{self.dtype} registers have no ~", "bits of a float are inverted in an integer register"
            )
        result = registers.temporary(trace, self.dtype)
        instructions.opcode(f"not.b{bits}")(result, self)
        return _defined(trace, result)

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


def _functions(dtype: PtxType) -> str:
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
        other = value.dtype
        shift = operator in ("<<", ">>")
        if shift and other.bits == 64:
            narrow = registers.temporary(trace, b32)
            instructions.opcode("cvt.u32.u64")(narrow, value)
            return narrow
        if not shift and (
            other.bits != dtype.bits or (other.is_float != dtype.is_float and not _bits_alike(other, dtype))
        ):
            raise trace.error(
                f"{operator} of {dtype} and {other} registers", f"convert one of them: ptx.cvt({dtype}, {other}, d, a)"
            )
        return value
    if isinstance(value, registers.NegPred):
        if dtype.name == "pred":
            return value
        raise trace.error(f"{operator} of a {dtype} register and a predicate", "choose with ptx.selp")
    if isinstance(value, NotAValue):
        raise value.refusal()
    if not _number(value):
        what = "None" if value is None else type(value).__name__
        hint = "operands are registers and Python numbers"
        if value is None:
            hint += ": is it a dimension or template parameter that was not given?"
        raise trace.error(f"{_SIGNS.get(operator, operator)} of a register and {what}", hint)
    problem = _unreachable(operator, dtype, value)
    if problem is not None:
        raise trace.error(*problem)
    if isinstance(value, float) and not dtype.is_float and dtype.name not in _FLOATS:
        raise trace.error(
            f"{operator} of a {dtype} register and the float {value!r}", "use an int, or convert the register to f32"
        )
    if dtype.name in _FLOATS:
        if dtype.name in ("f32", "f64"):
            return float(value)
        return instructions.constant(dtype, value)
    return int(value)


_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _unreachable(operator: str, dtype: PtxType, value: float) -> tuple[str, str] | None:
    """Why a comparison of an integer register with a constant has one answer for all values, or no right one.

    -1 and the like are equal to the same bits in an unsigned register, but not less than anything in it.
    """
    sign = _SIGNS.get(operator)
    if sign is None or not dtype.is_integer or dtype.bits not in (16, 32, 64) or isinstance(value, float):
        return None
    if not -(1 << (dtype.bits - 1)) <= value < 1 << dtype.bits:
        return (
            f"{sign} of a {dtype} register and {value}, which has more than {dtype.bits} bits",
            "widen it with ptx.cvt",
        )
    if dtype.is_signed and value >= 1 << (dtype.bits - 1) and operator not in ("eq", "ne"):
        return (
            f"{value} is no {dtype} value: {sign} would compare with {value - (1 << dtype.bits)}",
            "compare as unsigned",
        )
    if not dtype.is_signed and value < 0 and operator not in ("eq", "ne"):
        signed = f"s{dtype.bits}"
        return (
            f"{sign} of a {dtype} register and {value}: it compares unsigned, as {value + (1 << dtype.bits)}",
            f"a signed register compares signed: reg.from_(r, {signed}) {sign} {value}",
        )
    return None


def _bits_alike(first: PtxType, second: PtxType) -> bool:
    return "b" in (first.name[0], second.name[0]) and first.name not in ("bf16",) and second.name not in ("bf16",)


def _binary(operator: str, left: Any, right: Any) -> Any:
    trace = current()
    dtype = left.dtype
    kind = dtype.bits
    if isinstance(right, registers.Reg) and kind != right.dtype.bits and operator not in ("<<", ">>"):
        if kind == 64 and right.dtype.bits == 32 and dtype.is_integer and right.dtype.is_integer:
            right = _widened(trace, right)
        elif kind == 32 and right.dtype.bits == 64 and dtype.is_integer and right.dtype.is_integer:
            both_signed = dtype.is_signed and right.dtype.is_signed
            left = _widened(trace, left)
            dtype = s64 if both_signed else u64
    constant = not isinstance(right, registers.Reg)
    run = _instruction(operator, dtype, constant, trace)
    operand = _operand(operator, dtype, right, trace)
    result = registers.temporary(trace, dtype)
    run(result, left, operand)
    return _defined(trace, result)


def _reflected(operator: str, right: Any, left: Any) -> Any:
    """`left operator right` with a number on the left."""
    trace = current()
    if not _number(left):
        return NotImplemented
    dtype = right.dtype
    run = _instruction(operator, dtype, False, trace)
    operand = _operand(operator, dtype, left, trace)
    result = registers.temporary(trace, dtype)
    if operator in ("<<", ">>") and dtype.bits == 64:
        narrow = registers.temporary(trace, b32)
        instructions.opcode("cvt.u32.u64")(narrow, right)
        right = narrow
    run(result, operand, right)
    return _defined(trace, result)


def _in_place(operator: str, left: Any, right: Any) -> Any:
    trace = current()
    if isinstance(left, registers.SpecialReg):
        raise trace.error(f"{left.name} is read-only", "copy it first: reg.from_(...)")
    dtype = left.dtype
    if operator == "|" and dtype.name == "pred":
        raise trace.error("predicates have no |=", "write ptx.or_(pred, p, p, q)")
    if (
        isinstance(right, registers.Reg)
        and dtype.bits == 64
        and right.dtype.bits == 32
        and operator not in ("<<", ">>")
    ):
        right = _widened(trace, right)
    run = _instruction(operator, dtype, not isinstance(right, registers.Reg), trace)
    run(left, left, _operand(operator, dtype, right, trace))
    left.defined_at = -1
    return left


def _unary(operator: str, value: Any) -> Any:
    trace = current()
    dtype = value.dtype
    if operator == "abs" and dtype.is_integer and not dtype.is_signed:
        raise trace.error(f"abs of a {dtype} register", "unsigned values have no sign; use an s32 or s64 register")
    run = _instruction(operator, dtype, False, trace)
    result = registers.temporary(trace, dtype)
    run(result, value)
    return _defined(trace, result)


def _widened(trace: Trace, value: Any) -> Any:
    """A 32-bit integer as 64 bits: sign-extended when its type is signed."""
    if value.dtype.is_float:
        raise trace.error(f"a {value.dtype} register is no index", "convert it to an integer with ptx.cvt")
    signed = value.dtype.is_signed
    wide = registers.temporary(trace, s64 if signed else u64)
    instructions.opcode("cvt.s64.s32" if signed else "cvt.u64.u32")(wide, value)
    return wide


_comparisons: dict[tuple[str, str], Any] = {}


def _compare(relation: str, left: Any, right: Any) -> Any:
    trace = current()
    dtype = left.dtype
    if (
        isinstance(right, registers.Reg)
        and right.dtype.bits != dtype.bits
        and dtype.is_integer
        and right.dtype.is_integer
    ):
        if dtype.bits == 64 and right.dtype.bits == 32:
            right = _widened(trace, right)
        elif dtype.bits == 32 and right.dtype.bits == 64:
            left = _widened(trace, left)
            dtype = left.dtype
    key = (relation, dtype.name)
    run = _comparisons.get(key)
    if run is None:
        name = _UNSIGNED.get(dtype.name, dtype.name)
        if name not in _INTEGERS and name not in ("f16", "bf16", "f32", "f64"):
            hint = "compare predicates with p ^ q" if name == "pred" else "compare in f32, or with ptx.inst.setp"
            raise trace.error(f"{dtype} registers cannot be compared", hint)
        run = _comparisons[key] = instructions.opcode(f"setp.{relation}.{name}")
    operand = _operand(relation, dtype, right, trace)
    result = registers.predicate(trace)
    run(result, left, operand)
    return result


from . import instructions, registers  # noqa: E402
