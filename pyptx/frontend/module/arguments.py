"""Parameters and results of the functions of a `Module`: `a, n = load(a, n)`, `return value`, and the `ret` at the end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...dialects.ptx.structure import DeclarationAttr
from ...ssa.statement import Kind, Shape
from ...ssa.statement import Reg as Variable
from ...types import from_name
from ..core.instructions import AddressOperand, inst, opcode
from ..core.trace import current
from .values import Value, op

__all__ = ["Parameter", "ends_in_jump", "load", "load_type"]


Statement = tuple[Shape, Sequence[Variable], str, int, str]
"""As `ssa.statement.Statement`, to be read only."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function, to be loaded: `load(n)`, or `op.ld.param.u32(addr(n))`."""

    name: str
    dtype: str = ""
    """The declared type (`u32`); empty for an array."""

    def __ptx_symbol__(self) -> tuple[str, int]:
        return self.name, 0


def load_type(declared: str, registers: str) -> str:
    """The type in the `ld.param` (and `st.param`) of a parameter: its own, or `b32` for `f32` with `bit_registers`."""
    return f"b{from_name(declared).bits}" if registers == "bit" else declared


def load(*parameters: Any) -> Any:
    """The values of parameters, one `ld.param` of its type for each, in order: one value, or a list. PTX ISA 9.7.10."""
    trace = current()
    registers = str(getattr(trace, "registers", ""))
    found: list[Value] = []
    for parameter in parameters:
        if not isinstance(parameter, Parameter) or not parameter.dtype:
            raise trace.error(
                "load takes parameters of the function that are numbers or pointers",
                "for parts of an array: op.ld.param.u32(addr(array, 4))",
            )
        dtype = load_type(parameter.dtype, registers)
        found.append(getattr(op.ld.param, dtype)(AddressOperand(parameter)))
    return found[0] if len(found) == 1 else found


def give_back(value: object, returns: Sequence[DeclarationAttr]) -> None:
    """`return value` in a function: `st.param` into its one return parameter (PTX ISA 7.1)."""
    trace = current()
    if len(returns) != 1 or returns[0].space == "reg" or len(returns[0].items) != 1 or returns[0].items[0][1]:
        raise trace.error("return takes a value where the function has one return parameter that is a number")
    if not isinstance(value, (Value, int, float)):
        raise trace.error(f"a function returns a value or a number, not {type(value).__name__}")
    dtype = load_type(returns[0].type, str(getattr(trace, "registers", "")))
    opcode(f"st.param.{dtype}")(AddressOperand(returns[0].items[0][0]), value)


def ends_in_jump(statements: Sequence[Statement]) -> bool:
    """Whether nothing falls out of the end of a function: its last instruction always jumps, and no branch leads to a
    label after it.
    """
    behind: list[str] = []
    for shape, _, _, _, name in reversed(statements):
        if shape.kind == Kind.TERMINATOR:
            return shape.guard < 0 and not (behind and _wanted(statements, behind))
        if shape.kind == Kind.LABEL:
            behind.append(name)
        elif shape.kind not in (Kind.OTHER, Kind.REGISTERS, Kind.CLOSE):
            return False
    return False


def _wanted(statements: Sequence[Statement], labels: Collection[str]) -> bool:
    """Whether something branches to one of the labels."""
    for shape, _, _, _, name in statements:
        if shape.kind == Kind.TERMINATOR and name in labels:
            return True
        if shape.kind == Kind.TABLE and any(label in labels for label in shape.payload or ()):  # pyright: ignore
            return True
    return False


def finish(statements: Sequence[Statement], value: object, returns: Sequence[DeclarationAttr], implicit: bool) -> None:
    """What a function of a module does at its end: return its value, and `ret` unless it has left before."""
    if value is not None:
        give_back(value, returns)
    if value is not None or (implicit and not ends_in_jump(statements)):
        inst.ret()
