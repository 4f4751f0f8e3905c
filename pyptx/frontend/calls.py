"""Calls of device functions with the parameter blocks around them, for the functions of a `Module` (PTX ISA 7.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..types import from_name
from .instructions import AddressOperand, inst, opcode
from .registers import Reg
from .statements import close_scope, open_scope, variable
from .values import op

__all__ = ["call", "default_type"]


def default_type(register_class: str) -> str:
    """The type by which an argument in a register is stored: bits of its size."""
    return f"b{from_name(register_class).bits}"


def call(
    function: Any, *arguments: Any, types: Sequence[str] | None = None, returns: str = "", style: str = "llvm"
) -> Any:
    """Call a function with scalar arguments; its value, of the type `returns`, or None.

    A `{ }` block with a `.param` for each argument and the result, `st.param`, `call.uni` and `ld.param`. types: those of
    the arguments (default: bits of the registers' size, b32 for numbers). style: `llvm` declares all before it stores,
    `nvcc` each one before its store, with `+0` in the addresses.
    """
    stored = list(types) if types is not None else [_type_of(a) for a in arguments]
    if len(stored) != len(arguments):
        raise ValueError(f"call: {len(arguments)} arguments and {len(stored)} types")
    offset = "+0" if style == "nvcc" else None
    names = [f"param{i}" for i in range(len(arguments))]
    open_scope()
    if style != "nvcc":
        for name, dtype in zip(names, stored, strict=True):
            variable(f".param .{default_type(dtype)}", name)
        if returns:
            variable(f".param .{default_type(returns)}", "retval0")
    for name, dtype, argument in zip(names, stored, arguments, strict=True):
        if style == "nvcc":
            variable(f".param .{default_type(dtype)}", name)
        opcode(f"st.param.{dtype}")(AddressOperand(name, offset), argument)
    if style == "nvcc" and returns:
        variable(f".param .{default_type(returns)}", "retval0")
    found = None
    if returns:
        inst.call.uni(("retval0",), function, tuple(names))
        found = getattr(op.ld.param, returns)(AddressOperand("retval0", offset))
    else:
        inst.call.uni(function, tuple(names))
    close_scope()
    return found


def _type_of(argument: Any) -> str:
    if isinstance(argument, Reg) and argument.variable is not None:
        return default_type(argument.variable.register_class)
    return "b64" if isinstance(argument, str) else "b32"
