"""Values and control flow as `with` blocks, for the functions of a `Module` (the public module `pyptx.modules`).

    i = op.mad.lo.s32(ctaid, ntid, tid)          # a fresh register, written by mad.lo.s32
    with if_(i < n):                             # @!p bra past the block
        y = op.ld.global_.f32(addr(x + i * 4))   # mul.lo.s64, add.s64, ld.global.f32

A value has the type that its instruction is named for, and operators mean what they mean for that type (see `operators`):
`>>` of an s32 is `shr.s32`, of a u32 or b32 `shr.u32`; `op.setp.lt.u32(a, b)` compares as unsigned whatever a and b are.
"""

from __future__ import annotations

from ...ssa.statement import Reg as Variable
from ...types import PtxType, from_name
from ..core.registers import NegPred, Reg
from ..core.results import operator_type
from ..core.trace import current
from ..library.blocks import Block, Else, If, Loop
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
