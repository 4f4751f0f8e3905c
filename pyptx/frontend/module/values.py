"""Values and control flow as `with` blocks, for the functions of a `Module` (the public module `pyptx.modules`).

    i = op.mad.lo.s32(ctaid, ntid, tid)          # a fresh register, written by mad.lo.s32
    with if_(i < n):                             # @!p bra past the block
        y = op.ld.global_.f32(addr(x + i * 4))   # mul.lo.s64, add.s64, ld.global.f32

A value has the type that its instruction is named for, and operators mean what they mean for that type (see `operators`):
`>>` of an s32 is `shr.s32`, of a u32 or b32 `shr.u32`; `op.setp.lt.u32(a, b)` compares as unsigned whatever a and b are.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

from ...ssa.statement import Reg as Variable
from ...types import PtxType, from_name
from ..core.instructions import inst
from ..core.registers import Guard, NegPred, Reg
from ..core.results import operator_type
from ..core.trace import current
from ..lint.early_exit import leave_block
from .operations import Value, fresh_value, op
from .trace import ModuleTrace, type_of

__all__ = ["Block", "If", "Loop", "Value", "block", "else_", "if_", "loop", "new", "op", "special"]


def _trace() -> ModuleTrace:
    trace = current()
    if not isinstance(trace, ModuleTrace):
        raise trace.error("this belongs into a function of a pyptx.Module")
    return trace


def new(register_class: str, dtype: str | None = None) -> Value:
    """A register to be written later, of a class such as `b32`; `dtype` is what operators take it for."""
    trace = _trace()
    return fresh_value(trace, register_class, from_name(dtype) if dtype else _operator_type(register_class))


def value_of(variable: Variable) -> Value:
    """A register of the trace as a value."""
    return Value(variable.name, _operator_type(variable.register_class), variable)


def _operator_type(name: str) -> PtxType:
    return type_of(name) if name.startswith("v") else from_name(operator_type(name))


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

    def leave(self, pred: Guard = None, *, uni: bool = False) -> None:
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

    def again(self, pred: Guard = None, *, uni: bool = False) -> None:
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
    """`with else_():` directly after an `if_`."""

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
    """A piece of code that can be left early; emits nothing but the label after it."""
    return Block()


def loop() -> Loop:
    """A piece of code that can be repeated; it falls out of its end."""
    return Loop()


def if_(pred: Reg | NegPred, *, uni: bool = False) -> If:
    """`@!p bra` past the block."""
    return If(pred, uni)


def else_(*, uni: bool = False) -> Else:
    """The other case of the `if_` before: its block ends with a `bra` past this one."""
    return Else(uni)
