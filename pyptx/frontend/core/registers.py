"""Registers in Python: `Reg`, `RegArray`, and how to get them (the public module `pyptx.reg`).

Operators on registers emit one instruction each, at once (see `arithmetic` and `operators`). A `Reg` is a PTX variable, not a value: `r
+= 1` changes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dis import opname
from types import FrameType
from typing import Any, ClassVar, Protocol, Self, overload

import numpy as np

from ...diagnostics import counted
from ...ssa.statement import Reg as Variable
from ...ssa.statement import Shape
from ...types import PtxType, b32, pred
from .nonvalue import NotAValue, NoTruth, as_int
from .trace import ALLOC_PREFIXES, PREFIXES, InvalidTypeError, NotABool, OutOfRange, Trace, current

__all__ = ["Guard", "NegPred", "PipeRef", "Reg", "RegArray", "alloc", "alloc_array", "array", "from_", "scalar"]


class Emitter(Protocol):
    """What registers need of instructions, which take registers and are defined after them: operators and moves."""

    def binary(self, operator: str, left: Reg, right: object) -> Reg: ...
    def reflected(self, operator: str, right: Reg, left: object) -> Reg: ...
    def in_place(self, operator: str, left: Reg, right: object) -> None: ...
    def unary(self, operator: str, value: Reg) -> Reg: ...
    def compare(self, relation: str, left: Reg, right: object) -> Reg: ...
    def move(self, target: Reg, value: object) -> None: ...
    def shape_of_move(self, dtype: PtxType) -> Shape: ...


class Reg:
    """A register: `name` as in PTX (`%r0`), `dtype` a `pyptx.types` type."""

    emitter: ClassVar[Emitter]
    """Set by `arithmetic`."""

    __slots__ = ("_element", "_trace", "defined_at", "dtype", "name", "variable")

    def __init__(self, name: str, dtype: PtxType, variable: Variable | None = None):
        self.name = name
        self.dtype = dtype
        self.variable = variable
        """The register of the trace; None after an array element took this one's place (see `RegArray.__setitem__`)."""
        self.defined_at = -1
        """For the result of an operator: the index of the statement that defines it."""
        self._element: tuple[Variable, Reg] | None = None

    def __repr__(self) -> str:
        return f"Reg({self.name}, {self.dtype})"

    def __hash__(self) -> int:
        return hash(self.name)

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
        raise InvalidTypeError(
            current().diagnostic(
                f"{self!r} has no value while the kernel is traced: Python's range, indexing and int() cannot use it",
                "loop with `for i in ptx.range_(n):`, address memory with ptx.addr(base + offset)",
            )
        )

    def __float__(self) -> float:
        raise InvalidTypeError(
            current().diagnostic(
                f"{self!r} has no value while the kernel is traced: Python's float() and math cannot use it",
                functions_of(self.dtype)
                if self.dtype.is_float
                else f"convert it: d = reg.scalar(f32); ptx.cvt(f32, {self.dtype}, d, a)",
            )
        )

    def __int__(self) -> int:
        raise InvalidTypeError(
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
        return self.emitter.binary("+", self, other)

    def __radd__(self, other: Any) -> Reg:
        return self.emitter.reflected("+", self, other)

    def __iadd__(self, other: Any) -> Self:
        self.emitter.in_place("+", self, other)
        return self

    def __sub__(self, other: Any) -> Reg:
        return self.emitter.binary("-", self, other)

    def __rsub__(self, other: Any) -> Reg:
        return self.emitter.reflected("-", self, other)

    def __isub__(self, other: Any) -> Self:
        self.emitter.in_place("-", self, other)
        return self

    def __mul__(self, other: Any) -> Reg:
        return self.emitter.binary("*", self, other)

    def __rmul__(self, other: Any) -> Reg:
        return self.emitter.reflected("*", self, other)

    def __imul__(self, other: Any) -> Self:
        self.emitter.in_place("*", self, other)
        return self

    def __truediv__(self, other: Any) -> Reg:
        return self.emitter.binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Reg:
        return self.emitter.reflected("/", self, other)

    def __itruediv__(self, other: Any) -> Self:
        self.emitter.in_place("/", self, other)
        return self

    def __floordiv__(self, other: Any) -> Reg:
        return self.emitter.binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Reg:
        return self.emitter.reflected("//", self, other)

    def __ifloordiv__(self, other: Any) -> Self:
        self.emitter.in_place("//", self, other)
        return self

    def __mod__(self, other: Any) -> Reg:
        return self.emitter.binary("%", self, other)

    def __rmod__(self, other: Any) -> Reg:
        return self.emitter.reflected("%", self, other)

    def __imod__(self, other: Any) -> Self:
        self.emitter.in_place("%", self, other)
        return self

    def __pow__(self, other: Any) -> Reg:
        raise current().error(
            f"registers have no **, here of {self.dtype} and {other!r}",
            "multiply: v * v; other powers of f32 are ptx.math.exp(y * ptx.math.log(v))",
        )

    __rpow__ = __pow__

    def __neg__(self) -> Reg:
        return self.emitter.unary("neg", self)

    def __pos__(self) -> Reg:
        return self

    def __abs__(self) -> Reg:
        return self.emitter.unary("abs", self)

    # ------------------------------------------------------------------------------------------------------ bits

    def __lshift__(self, other: Any) -> Reg:
        return self.emitter.binary("<<", self, other)

    def __rlshift__(self, other: Any) -> Reg:
        return self.emitter.reflected("<<", self, other)

    def __ilshift__(self, other: Any) -> Self:
        self.emitter.in_place("<<", self, other)
        return self

    def __rshift__(self, other: Any) -> Reg:
        return self.emitter.binary(">>", self, other)

    def __rrshift__(self, other: Any) -> Reg:
        return self.emitter.reflected(">>", self, other)

    def __irshift__(self, other: Any) -> Self:
        self.emitter.in_place(">>", self, other)
        return self

    def __and__(self, other: Any) -> Reg:
        return self.emitter.binary("&", self, other)

    def __rand__(self, other: Any) -> Reg:
        return self.emitter.reflected("&", self, other)

    def __iand__(self, other: Any) -> Self:
        self.emitter.in_place("&", self, other)
        return self

    def __xor__(self, other: Any) -> Reg:
        return self.emitter.binary("^", self, other)

    def __rxor__(self, other: Any) -> Reg:
        return self.emitter.reflected("^", self, other)

    def __ixor__(self, other: Any) -> Self:
        self.emitter.in_place("^", self, other)
        return self

    def __or__(self, other: Any) -> Reg | PipeRef:
        """`a | b` of integers; with a predicate on either side the operand pair `d|p`."""
        if not is_number(other):
            right = Reg if isinstance(other, Reg) else None
            if right is None or pred in (self.dtype, other.dtype):
                return PipeRef(self, other)
        return self.emitter.binary("|", self, other)

    def either(self, other: Any) -> Reg:
        """`a | b` as a value, of predicates too."""
        return self.emitter.binary("|", self, other)

    def __ror__(self, other: Any) -> Reg | PipeRef:
        return self.emitter.reflected("|", self, other) if is_number(other) else PipeRef(other, self)

    def __ior__(self, other: Any) -> Self:
        self.emitter.in_place("|", self, other)
        return self

    def __invert__(self) -> Reg | NegPred:
        """`~p` negates a predicate where it is used; `~r` is `not` of an integer's bits."""
        if self.dtype.name == "pred":
            return NegPred(self)
        return self.emitter.unary("~", self)

    def max(self, other: Any) -> Reg:
        """The larger of the two."""
        return self.emitter.binary("max", self, other)

    def min(self, other: Any) -> Reg:
        """The smaller of the two."""
        return self.emitter.binary("min", self, other)

    # --------------------------------------------------------------------------------------------------- comparison

    def __lt__(self, other: Any) -> Reg:
        return self.emitter.compare("lt", self, other)

    def __le__(self, other: Any) -> Reg:
        return self.emitter.compare("le", self, other)

    def __gt__(self, other: Any) -> Reg:
        return self.emitter.compare("gt", self, other)

    def __ge__(self, other: Any) -> Reg:
        return self.emitter.compare("ge", self, other)

    def __eq__(self, other: object) -> Any:
        if not (is_number(other) or isinstance(other, Reg)):
            return NotImplemented
        return self.emitter.compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        if not (is_number(other) or isinstance(other, Reg)):
            return NotImplemented
        return self.emitter.compare("ne", self, other)

    def fresh(self, trace: Trace, dtype: PtxType) -> Reg:
        """A register for the result of an operator on this one."""
        return temporary(trace, dtype)

    def set(self, value: Reg | float | str) -> Reg:
        """One `mov`: a register, a number or a variable's address into this register. Returns it."""
        Reg.emitter.move(self, value)
        self.defined_at = -1
        return self

    def resolve(self, trace: Trace) -> Variable:
        """The register of the trace, when `variable` is not set: a replaced temporary that is used again, or a
        register made by name.
        """
        if self._element is not None:
            self._restore(trace)
        else:
            self.variable = trace.names.get(self.name)
            if self.variable is None:
                raise trace.error(
                    f"register {self.name} does not belong to this kernel", "declare it with reg.scalar(...)"
                )
        assert self.variable is not None
        return self.variable

    def give_up(self, trace: Trace, element: Reg) -> None:
        """Let the instruction that defines this temporary (the last one recorded) write `element` instead."""
        assert self.variable is not None
        assert element.variable is not None
        shape, regs, lead, place, name = trace.statements[-1]
        trace.statements[-1] = (shape, [element.variable, *regs[1:]], lead, place, name)
        trace.declarations[self.name].hidden = True
        self._element, self.variable = (self.variable, element), None

    def _restore(self, trace: Trace) -> None:
        """The temporary is used after all: its instruction writes it again, and the element gets a copy."""
        assert self._element is not None
        variable, element = self._element
        at = self.defined_at
        shape, regs, lead, place, name = trace.statements[at]
        trace.statements[at] = (shape, [variable, *regs[1:]], lead, place, name)
        copy = Reg.emitter.shape_of_move(self.dtype)
        assert element.variable is not None
        trace.insertions.setdefault(at, []).append((copy, [element.variable, variable], "", place, ""))
        trace.check(copy, place)
        trace.declarations[self.name].hidden = False
        self.variable, self._element, self.defined_at = variable, None, -1


class SpecialReg(Reg):
    """A predefined register such as `%tid.x`. Only `mov` and `cvt` read one; elsewhere it is moved to a fresh register
    first.
    """

    __slots__ = ()

    def resolve(self, trace: Trace) -> Variable:
        raise trace.error(f"{self.name} is a special register, it cannot stand here", "copy it first: reg.from_(...)")


class NegPred:
    """`~p`: a negated predicate, as guard or operand."""

    __slots__ = ("reg",)

    def __init__(self, reg: Reg):
        self.reg = reg

    def __invert__(self) -> Reg:
        return self.reg

    def __repr__(self) -> str:
        return f"~{self.reg!r}"

    @property
    def name(self) -> str:
        return "!" + self.reg.name

    def __bool__(self) -> bool:
        return bool(self.reg)

    def __or__(self, other: Any) -> PipeRef:
        return PipeRef(self, other)


Guard = Reg | NegPred | None
"""What `pred=` takes: a predicate register `p`, `~p`, or nothing."""


class PipeRef(NoTruth):
    """`p | q`: two destinations of one instruction, as `setp` has them."""

    __slots__ = ("left", "right")

    def __init__(self, left: Any, right: Any):
        self.left, self.right = left, right

    def described(self) -> tuple[str, str]:
        return "p | q, two destinations of one instruction as in PTX,", "p or q is ptx.or_(pred, p, q)"

    def __repr__(self) -> str:
        return f"{self.left!r} | {self.right!r}"


class RegArray(NotAValue):
    """`count` registers `base0`, `base1`, ... of one type.

    `a[i]` is an element and `a[i] = v` writes it. `a[i:j]` is an array of the same registers, `a[i:j] = v` writes each
    of them, with one value or with as many.
    """

    __slots__ = ("_regs", "base", "count", "dtype", "key", "variables")

    def __init__(self, base: str, count: int, dtype: PtxType, variables: list[Variable] | None = None):
        self.base, self.count, self.dtype = base, count, dtype
        if variables is None:
            trace = current()
            variables = [Reg(f"{base}{i}", dtype).resolve(trace) for i in range(count)]
        self.variables = variables
        self._regs = [Reg(v.name, dtype, v) for v in variables]
        self.key = ("{", *[v.register_class for v in variables])

    def described(self) -> tuple[str, str]:
        return f"{self!r}, {counted(self.count, 'register')},", "compute with its elements: a[i] + 1, a[i] = b[i] * 2"

    @overload
    def __getitem__(self, index: int) -> Reg: ...
    @overload
    def __getitem__(self, index: slice) -> RegArray: ...
    def __getitem__(self, index: int | slice) -> Reg | RegArray:
        if isinstance(index, slice):
            chosen = self.variables[index]
            if not chosen:
                raise IndexError(
                    f"register array {self.base}<{self.count}> has nothing in [{index.start}:{index.stop}]"
                )
            part = RegArray(chosen[0].name, len(chosen), self.dtype, chosen)
            part._regs = self._regs[index]
            return part
        index = as_int(index)
        if not isinstance(index, int):
            raise InvalidTypeError(
                current().diagnostic(
                    f"a register array is indexed with a Python int, not {type(index).__name__}: registers have no address",
                    "loop with Python's range, choose with ptx.selp, or keep the elements in shared memory",
                )
            )
        if not 0 <= index < self.count:
            raise OutOfRange(current().diagnostic(f"register array {self.base}<{self.count}> has no element {index}"))
        return self._regs[index]

    def __setitem__(self, index: int | slice, value: Any) -> None:
        if isinstance(index, slice):
            part = self[index]
            for i, v in enumerate(_each(value, len(part))):
                part[i] = v
            return
        element = self[index]
        if value is element:
            return
        trace = current()
        if (
            isinstance(value, Reg)
            and value.variable is not None
            and element.variable is not None
            and value.defined_at == len(trace.statements) - 1 >= 0
            and value.variable.register_class == element.variable.register_class
            and value.variable.scope == 0
            and value.name in trace.declarations
        ):
            value.give_up(trace, element)
            return
        Reg.emitter.move(element, value)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Reg]:
        return iter(self._regs)

    def regs(self) -> list[Reg]:
        """The registers as a list."""
        return list(self._regs)

    def hw_order(self, reverse: bool = False) -> list[Reg]:
        """The registers in index order, or from the last to the first."""
        return self._regs[::-1] if reverse else list(self._regs)

    def __repr__(self) -> str:
        return f"RegArray({self.base}<{self.count}>, {self.dtype})"


def temporary(trace: Trace, dtype: PtxType) -> Reg:
    """A fresh register for the result of the next instruction."""
    variable = trace.fresh(dtype)
    return Reg(variable.name, dtype, variable)


def checked_type(dtype: object, whose: str = "a register's type") -> PtxType:
    """The argument, if it is a type; else an error at the kernel's line."""
    if not isinstance(dtype, PtxType):
        raise current().error(
            f"{whose} is one of pyptx.types, such as u32 or f32, not {dtype!r}",
            "from pyptx.types import u32, f32, pred",
        )
    return dtype


def scalar(dtype: PtxType, init: float | Reg | None = None, name: str | None = None) -> Reg:
    """A register. With `init` (a number or register) one `mov` writes it; without `name` it is named by its type's
    prefix and a number.

    Unnamed predicates come from the pool `%p<N>`. Constants are rounded to the type (`f16` and `bf16` included).
    """
    trace = current()
    checked_type(dtype)
    if name is None:
        variable = trace.fresh(dtype)
    else:
        stem = name.rstrip("0123456789")
        variable = trace.declare(dtype.register_class, _register_name(trace, name))
        if stem != name:
            trace.at_least(stem, int(name[len(stem) :]) + 1)
    result = Reg(variable.name, dtype, variable)
    if init is not None:
        Reg.emitter.move(result, init)
    return result


def array(dtype: PtxType, count: int, name: str | None = None, init: Any = None) -> RegArray:
    """`count` registers, declared as a range `base<count>`. The first array of a type takes the type's prefix as
    base. `init`: one number or register for all of them, or one for each; a `mov` writes each.
    """
    checked_type(dtype)
    count = _count(count)
    made = _array(current(), dtype, count, name)
    if init is not None:
        for register, value in zip(made, _each(init, count), strict=True):
            Reg.emitter.move(register, value)
    return made


def _each(values: Any, count: int) -> list[Any]:
    """The values of `count` registers: those of a sequence, or one for all."""
    if not isinstance(values, (list, tuple, RegArray)):
        return [values] * count
    listed: list[Any] = list(values)
    if len(listed) != count:
        raise current().error(f"{counted(len(listed), 'value')} for {counted(count, 'register')}")
    return listed


def _array(trace: Trace, dtype: PtxType, count: int, name: str | None) -> RegArray:
    if name is not None:
        base = _register_name(trace, name)
        trace.at_least(base, count)
        return RegArray(base, count, dtype, trace.declare_range(dtype.register_class, base, count))
    prefix = PREFIXES.get(dtype.name, "%b")
    if dtype.name == "pred":
        if trace.pool == 0:
            return RegArray("%p", count, dtype, [trace.fresh_predicate() for _ in range(count)])
    elif trace.peek(prefix) == 0 and not any(f"{prefix}{i}" in trace.names for i in range(count)):
        trace.at_least(prefix, count)
        return RegArray(prefix, count, dtype, trace.declare_range(dtype.register_class, prefix, count))
    base = f"{prefix}arr{trace.count(prefix + 'arr')}_"
    return RegArray(base, count, dtype, trace.declare_range(dtype.register_class, base, count))


def alloc(dtype: PtxType) -> Reg:
    """A register with a prefix of its own (`%af0`, `%ar0`, ...), apart from those of `scalar`."""
    variable = current().fresh(checked_type(dtype), ALLOC_PREFIXES.get(dtype.name, "%ax"))
    return Reg(variable.name, dtype, variable)


def alloc_array(dtype: PtxType, count: int) -> RegArray:
    """`count` registers `%afarr0_0`, ...: an array with the prefixes of `alloc`."""
    trace = current()
    checked_type(dtype)
    count = _count(count)
    prefix = ALLOC_PREFIXES.get(dtype.name, "%ax") + "arr"
    base = f"{prefix}{trace.count(prefix)}_"
    return RegArray(base, count, dtype, trace.declare_range(dtype.register_class, base, count))


def from_(src: Reg | float | str, dtype: PtxType) -> Reg:
    """A new register of type `dtype` holding `src`: a register, a number, or a variable's name (its address)."""
    result = scalar(dtype)
    Reg.emitter.move(result, src)
    return result


def _count(count: int) -> int:
    count = as_int(count)
    if not isinstance(count, int) or count < 1:
        raise current().error(f"the size of a register array is a positive int, not {count!r}")
    return count


def _register_name(trace: Trace, name: str) -> str:
    body = name[1:] if name[:1] in ("%", "_", "$") else name
    ok = (
        body.replace("_", "a").replace("$", "a").isalnum()
        and body.isascii()
        and (name[:1] in ("%", "_", "$") or name[:1].isalpha())
    )
    if not ok:
        raise trace.error(
            f"{name!r} is not a PTX register name", "letters, digits, _ and $, with an optional % in front"
        )
    return name


def predicate(trace: Trace) -> Reg:
    """A fresh predicate of the pool."""
    variable = trace.fresh_predicate()
    return Reg(variable.name, pred, variable)


def word(trace: Trace) -> Reg:
    """A fresh 32-bit register."""
    return temporary(trace, b32)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating, np.bool_))


def functions_of(dtype: PtxType) -> str:
    """What to write for a function of `math` or NumPy."""
    whole = "ptx.math.exp, log, tanh, rsqrt, sigmoid and erf take f32 registers; " if dtype.name == "f32" else ""
    return f"{whole}single instructions are ptx.op.<opcode>.{dtype}(v), such as ptx.op.sqrt.rn.{dtype}(v)" + (
        "" if dtype.name in ("f32", "f64") else ": convert to f32 where there is none for the type"
    )


def _in_a_call(frame: FrameType) -> bool:
    """Whether the instruction that runs in a frame is a call (of max, min, any, ...) rather than a test."""
    return opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL")


def _boxed(value: Any) -> Any:
    """A register as an array of one object, for which NumPy calls its operators."""
    if not isinstance(value, Reg):
        return value
    box = np.empty((), object)
    box[()] = value
    return box
