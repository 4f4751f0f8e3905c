"""Values: instructions that make their own destination, operators that say exactly which instruction they are, and
control flow as `with` blocks; for the functions of a `Module` (the public module `pyptx.modules`).

    i = op.mad.lo.s32(ctaid, ntid, tid)          # a fresh register, written by mad.lo.s32
    with if_(i < n):                             # @!p bra past the block
        y = op.ld.global_.f32(addr(x + i * 4))   # mul.lo.s64, add.s64, ld.global.f32

Integers are two's complement: `+ - * // %` and comparisons are the signed instructions (`add.s32`, `setp.lt.s32`),
`>>` is `shr.u32`, bits are `and.b32` and so on; write `op.setp.lt.u32(a, b)` for the unsigned ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from ..dialects.ptx.instruction import find_opcode
from ..ssa.statement import Reg as Variable
from ..types import PtxType, from_name
from .instructions import Opcode, inst, opcode, spelled
from .left_early import leave_block
from .module_trace import ModuleTrace, type_of
from .registers import NegPred, PipeRef, Reg
from .statements import pair
from .trace import current

__all__ = [
    "Block",
    "If",
    "Loop",
    "Value",
    "block",
    "else_",
    "if_",
    "loop",
    "new",
    "op",
    "result_class",
    "result_type",
    "special",
]


def _trace() -> ModuleTrace:
    trace = current()
    if not isinstance(trace, ModuleTrace):
        raise trace.error("this belongs into a function of a pyptx.Module")
    return trace


class Value(Reg):
    """A register of a `Module`'s function. `dtype` is what operators take it for; its class is in `variable`."""

    __slots__ = ()
    __hash__ = Reg.__hash__

    @classmethod
    def fresh_predicate(cls, trace: Any) -> Value:
        """A predicate to be written."""
        return _fresh(trace, "pred", from_name("pred"))

    def __add__(self, other: Any) -> Any:
        return _emit("+", self.dtype, self, other)

    def __radd__(self, other: Any) -> Any:
        return _emit("+", self.dtype, other, self)

    def __iadd__(self, other: Any) -> Any:
        return _change("+", self, other)

    def __sub__(self, other: Any) -> Any:
        return _emit("-", self.dtype, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _emit("-", self.dtype, other, self)

    def __isub__(self, other: Any) -> Any:
        return _change("-", self, other)

    def __mul__(self, other: Any) -> Any:
        return _emit("*", self.dtype, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _emit("*", self.dtype, other, self)

    def __imul__(self, other: Any) -> Any:
        return _change("*", self, other)

    def __truediv__(self, other: Any) -> Any:
        return _emit("/", self.dtype, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _emit("/", self.dtype, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _emit("//", self.dtype, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _emit("//", self.dtype, other, self)

    def __mod__(self, other: Any) -> Any:
        return _emit("%", self.dtype, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _emit("%", self.dtype, other, self)

    def __lshift__(self, other: Any) -> Any:
        return _emit("<<", self.dtype, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _emit("<<", self.dtype, other, self)

    def __ilshift__(self, other: Any) -> Any:
        return _change("<<", self, other)

    def __rshift__(self, other: Any) -> Any:
        return _emit(">>", self.dtype, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _emit(">>", self.dtype, other, self)

    def __irshift__(self, other: Any) -> Any:
        return _change(">>", self, other)

    def __and__(self, other: Any) -> Any:
        return _emit("&", self.dtype, self, other)

    def __rand__(self, other: Any) -> Any:
        return _emit("&", self.dtype, other, self)

    def __iand__(self, other: Any) -> Any:
        return _change("&", self, other)

    def __or__(self, other: Any) -> Any:
        return _emit("|", self.dtype, self, other)

    def __ror__(self, other: Any) -> Any:
        return _emit("|", self.dtype, other, self)

    def __ior__(self, other: Any) -> Any:
        return _change("|", self, other)

    def __xor__(self, other: Any) -> Any:
        return _emit("^", self.dtype, self, other)

    def __rxor__(self, other: Any) -> Any:
        return _emit("^", self.dtype, other, self)

    def __ixor__(self, other: Any) -> Any:
        return _change("^", self, other)

    def __neg__(self) -> Any:
        return _emit("neg", self.dtype, self)

    def __invert__(self) -> Any:
        """`~p` negates a predicate where it is used; `~r` is `not` of an integer."""
        return NegPred(self) if self.dtype.name == "pred" else _emit("~", self.dtype, self)

    def __lt__(self, other: Any) -> Any:
        return _emit("lt", self.dtype, self, other)

    def __le__(self, other: Any) -> Any:
        return _emit("le", self.dtype, self, other)

    def __gt__(self, other: Any) -> Any:
        return _emit("gt", self.dtype, self, other)

    def __ge__(self, other: Any) -> Any:
        return _emit("ge", self.dtype, self, other)

    def __eq__(self, other: object) -> Any:
        return _emit("eq", self.dtype, self, other)

    def __ne__(self, other: object) -> Any:
        return _emit("ne", self.dtype, self, other)


_ARITHMETIC = {"+": "add", "-": "sub", "neg": "neg"}
_BITS = {"<<": "shl", "&": "and", "|": "or", "^": "xor", "~": "not"}
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


@lru_cache(maxsize=1024)
def operator_opcode(operator: str, dtype: str) -> str | None:
    """The instruction that an operator (`+`, `lt`, ...) is on values of a type; None if there is none."""
    if dtype == "pred":
        return {"&": "and.pred", "|": "or.pred", "^": "xor.pred"}.get(operator)
    if dtype in ("s16", "s32", "s64", "u16", "u32", "u64"):
        bits = dtype[1:]
        if operator in _ARITHMETIC:
            return f"{_ARITHMETIC[operator]}.{dtype}"
        if operator in _BITS:
            return f"{_BITS[operator]}.b{bits}"
        found = {"*": f"mul.lo.{dtype}", ">>": f"shr.u{bits}", "//": f"div.{dtype}", "%": f"rem.{dtype}"}.get(operator)
        return found or (f"setp.{operator}.{dtype}" if operator in COMPARISONS.values() else None)
    if dtype in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2"):
        if operator in _ARITHMETIC:
            return f"{_ARITHMETIC[operator]}.{dtype}"
        if operator == "*":
            return f"mul.{dtype}"
        if operator == "/" and dtype in ("f32", "f64"):
            return f"div.rn.{dtype}"
        return f"setp.{operator}.{dtype}" if operator in COMPARISONS.values() and "x" not in dtype else None
    return None


def _find(operator: str, dtype: PtxType) -> str:
    found = operator_opcode(operator, dtype.name)
    if found is None:
        raise _trace().error(f"{dtype} values have no {operator}", "name the instruction: op.<opcode>(a, b)")
    return found


def _emit(operator: str, dtype: PtxType, *operands: Any) -> Value:
    found = _find(operator, dtype)
    is_comparison = found.startswith("setp")
    trace = _trace()
    if is_comparison:
        result = _fresh(trace, "pred", from_name("pred"))
    else:
        same = next(o for o in operands if isinstance(o, Value))
        assert same.variable is not None
        result = _fresh(trace, same.variable.register_class, dtype)
    opcode(found)(result, *operands)
    return result


def _change(operator: str, target: Value, other: Any) -> Value:
    opcode(_find(operator, target.dtype))(target, target, other)
    return target


def _fresh(trace: ModuleTrace, register_class: str, dtype: PtxType) -> Value:
    variable = trace.fresh(type_of(register_class))
    return Value(variable.name, dtype, variable)


def new(register_class: str, dtype: str | None = None) -> Value:
    """A register to be written later, of a class such as `b32`; `dtype` is what operators take it for."""
    trace = _trace()
    return _fresh(trace, register_class, from_name(dtype) if dtype else _operator_type(register_class, trace.registers))


def value_of(trace: ModuleTrace, variable: Variable) -> Value:
    """A register of the trace as a value."""
    return Value(variable.name, _operator_type(variable.register_class, trace.registers), variable)


def _operator_type(name: str, registers: str) -> PtxType:
    if name[0] in "bus" and name[1:] in ("8", "16", "32", "64"):
        return from_name(operator_type(name, registers))
    return type_of(name)


# ------------------------------------------------------------------------------------------------------- instructions

_SCALARS = frozenset(
    "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64 f32x2 pred tf32".split()
)


@lru_cache(maxsize=8192)
def result_type(words: tuple[str, ...]) -> str:
    """What type an instruction's result has, going by its name: `mul.wide.s32` s64, `cvt.f32.f16` f32, `setp` pred."""
    if words[0] in ("setp", "testp", "vote", "elect", "isspacep", "istypep") and "ballot" not in words:
        return "pred"
    if words[:2] in (("mbarrier", "try_wait"), ("mbarrier", "test_wait")):
        return "pred"
    types = [w for w in words if w in _SCALARS]
    if not types:
        return "b32"
    if words[0] in ("cvt", "set", "mma", "wmma", "dp4a", "dp2a"):
        return types[0]
    if "wide" in words and words[0] in ("mul", "mad"):
        bits = int(types[-1][1:]) * 2
        return f"s{bits}" if bits <= 64 else "s64"
    if words[0] in ("popc", "clz", "bfind", "fns", "ldmatrix"):
        return "b32"
    return types[-1]


@lru_cache(maxsize=1024)
def result_class(dtype: str, registers: str) -> str:
    """The register class for a type: bits for integers, or `.u32` and so on with `unsigned` registers; floats of 32 and
    64 bits have their own unless registers are `bit`.
    """
    if dtype == "pred" or (dtype in ("f32", "f64") and registers != "bit"):
        return dtype
    is_integer = dtype[0] in "bus" and dtype[1:].isdigit()
    return f"{'u' if registers == 'unsigned' and is_integer else 'b'}{max(from_name(dtype).bits, 16)}"


@lru_cache(maxsize=1024)
def pair_classes(words: tuple[str, ...], registers: str, optional: bool = False) -> tuple[str, str] | None:
    """The register classes of an instruction that always has the results `d|p`, or that may have them."""
    found = find_opcode(words[0], words[1:])
    lists = [specs for form in found[0].forms for specs in form.alternatives] if found is not None else []
    if not lists or any(not s or s[0].kind != "pair" or (s[0].optional_part and not optional) for s in lists):
        return None
    types = [part.type if part.type in _SCALARS else result_type(words) for part in lists[0][0].parts]
    return result_class(types[0], registers), result_class(types[1], registers)


@lru_cache(maxsize=1024)
def element_class(words: tuple[str, ...], count: int, registers: str) -> str:
    """The class of each of the `count` registers that an instruction with a vector as result writes."""
    named = result_type(words)
    if words[0] == "mov" and named != "pred" and count:  # the parts of one value
        return f"{'u' if registers == 'unsigned' else 'b'}{max(from_name(named).bits // count, 8)}"
    return result_class(named, registers)


@lru_cache(maxsize=1024)
def operator_type(dtype: str, registers: str = "") -> str:
    """What operators take a result for: integers of any kind are signed, or with `unsigned` registers unsigned."""
    if dtype[0] in "bus" and dtype[1:] in ("8", "16", "32", "64"):
        sign = "u" if registers == "unsigned" else "s"
        return f"{sign}16" if dtype[1:] == "8" else f"{sign}{dtype[1:]}"
    return {"tf32": "f32"}.get(dtype, dtype)


class ValueOpcode:
    """`op.<opcode>(sources)`: the instruction, writing fresh registers, which are returned.

    into: the class of the result where the name does not say it; a number or list of classes makes a vector, a tuple of
    two the pair `d|p`, `pair` that of an instruction which may have one. `.v2` and the like in the name make a vector too.
    """

    def __init__(self, words: tuple[str, ...]):
        self._words = words
        self._opcode: Opcode = opcode(".".join(words))
        self._vector = next((int(w[1]) for w in words if w in ("v2", "v4", "v8")), 0)

    def __getattr__(self, name: str) -> ValueOpcode:
        if name[:2] == "__":
            raise AttributeError(name)
        found = _value_opcode((*self._words, *spelled(name).split(".")))
        self.__dict__[name] = found
        return found

    def __call__(self, *operands: Any, into: Any = None, pred: Any = None) -> Any:
        trace = _trace()
        named = result_type(self._words)
        classes: Sequence[str]
        if into is pair:
            into = pair_classes(self._words, trace.registers, True)
        if into is None:
            into = self._vector or pair_classes(self._words, trace.registers) or result_class(named, trace.registers)
        if isinstance(into, str):
            result = _fresh(trace, into, from_name(operator_type(named, trace.registers)))
            self._opcode(result, *operands, pred=pred)
            return result
        classes = [element_class(self._words, into, trace.registers)] * into if isinstance(into, int) else into
        dtype = from_name(operator_type(named, trace.registers))
        results = [_fresh(trace, c, dtype if c != "pred" else from_name("pred")) for c in classes]
        self._opcode(PipeRef(*results) if isinstance(into, tuple) else results, *operands, pred=pred)
        return results


@lru_cache(maxsize=8192)
def _value_opcode(words: tuple[str, ...]) -> ValueOpcode:
    return ValueOpcode(words)


class _Operations:
    def __getattr__(self, name: str) -> ValueOpcode:
        if name[:2] == "__":
            raise AttributeError(name)
        found = _value_opcode((spelled(name),))
        self.__dict__[name] = found
        return found


op = _Operations()
"""Every PTX instruction as a function of its sources: `d = op.add.s32(a, b)`."""


class _Special:
    """`special.tid.x()`: the value of `%tid.x`, by a `mov.u32`."""

    def __init__(self, name: str = ""):
        self._name = name

    def __getattr__(self, name: str) -> _Special:
        if name[:2] == "__":
            raise AttributeError(name)
        return _Special(f"{self._name}.{name}" if self._name else f"%{name}")

    def __call__(self) -> Value:
        return op.mov.u32(self._name)


special = _Special()
"""Special registers of 32 bits: `special.ctaid.x()`, `special.laneid()`. PTX ISA 10."""

# ------------------------------------------------------------------------------------------------------- control flow


def _branch(target: str, pred: Any, uni: bool) -> None:
    (inst.bra.uni if uni else inst.bra)(target, pred=pred)


class Block:
    """`with block() as b:`: `b.leave(p)` branches past the end of the block, always or where p (or `~p`) holds."""

    what = "block()"

    def __init__(self) -> None:
        self.end = ""

    def _label(self, stem: str) -> str:
        trace = _trace()
        while True:
            name = f"$_{stem}_{trace.count('label')}"
            if (trace.scope, name) not in trace.placed_labels:
                return name

    def __enter__(self) -> Self:
        return self

    def leave(self, pred: Any = None, *, uni: bool = False) -> None:
        self.end = self.end or self._label("end")
        _branch(self.end, pred, uni)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        trace = _trace()
        if leave_block(trace, sys._getframe(1), error, self.what) and self.end:
            trace.label(self.end)


class Loop(Block):
    """`with loop() as l:`: `l.again(p)` goes back to the start of the block, `l.leave(p)` past its end."""

    what = "loop()"

    def __init__(self) -> None:
        super().__init__()
        self.start = ""

    def __enter__(self) -> Self:
        self.start = self._label("loop")
        _trace().label(self.start)
        return self

    def again(self, pred: Any = None, *, uni: bool = False) -> None:
        _branch(self.start, pred, uni)


class If(Block):
    """`with if_(p):`: the block runs in the threads where p (or `~p`) holds."""

    what = "if_(p)"

    def __init__(self, pred: Any, uni: bool = False):
        super().__init__()
        self.pred, self.uni = pred, uni

    def __enter__(self) -> Self:
        self.leave(self.pred.reg if isinstance(self.pred, NegPred) else NegPred(self.pred), uni=self.uni)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        trace = _trace()
        trace.closed_if = (len(trace.statements), self.end)


class Else(Block):
    """`with else_():` directly behind an `if_`."""

    what = "else_()"

    def __init__(self, uni: bool):
        super().__init__()
        self.uni = uni

    def __enter__(self) -> Self:
        trace = _trace()
        closed = trace.closed_if
        if closed is None or closed[0] != len(trace.statements):
            raise trace.error("else_ must follow its if_ directly", "with if_(p): ...\nwith else_(): ...")
        label = trace.statements.pop()
        trace.placed_labels.discard((trace.scope, closed[1]))
        self.leave(uni=self.uni)
        trace.statements.append(label)
        trace.placed_labels.add((trace.scope, closed[1]))
        return self


def block() -> Block:
    """A piece of code that can be left early; emits nothing but the label behind it."""
    return Block()


def loop() -> Loop:
    """A piece of code that can be repeated; it falls out of its end."""
    return Loop()


def if_(pred: Any, *, uni: bool = False) -> If:
    """`@!p bra` past the block."""
    return If(pred, uni)


def else_(*, uni: bool = False) -> Else:
    """The other case of the `if_` before: its block ends with a `bra` past this one."""
    return Else(uni)
