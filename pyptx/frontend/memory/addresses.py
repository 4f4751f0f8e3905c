"""Addresses, parameters and variables: `ptx.addr`, `ptx.param`, `ptx.global_ptrs`, `ptx.var`, `ptx.cvta`."""

from __future__ import annotations

from typing import Any

from ...dialects.ptx.structure import VariableOp
from ...types import PtxType, b64, u64
from ..core.instructions import AddressOperand, emit
from ..core.nonvalue import as_int
from ..core.registers import Guard, Reg, RegArray, temporary
from ..core.trace import current, declaration_shape
from .shared import address_register, bracketed, memory_type

__all__ = ["Cvta", "addr", "global_ptrs", "param", "var"]


def addr(base: Any, offset: int | str | Reg | RegArray | list[Any] | tuple[Any, ...] | None = None) -> AddressOperand:
    """`[base+offset]` as an operand. `base`: a register, an allocation or part of one, an mbarrier, a parameter or
    variable by name.

    A register as offset costs an add (a u32 offset to a 64-bit base is widened first). A list (or register array) of coordinates gives
    `[base, {c0, c1}]`, and so does their PTX text after a comma, `", {%r0, %r1}"`.
    """
    if isinstance(base, (bool, float)) or base is None:
        raise current().error(f"an address starts with a register, an allocation, an int or a name, not {base!r}")
    if isinstance(offset, (list, tuple, RegArray)):
        return AddressOperand(_base(base), None, (list(offset),))
    if isinstance(offset, Reg):
        start = base if isinstance(base, Reg) else None
        if start is None:
            start = address_register(base)
        return AddressOperand(start + offset)
    offset = as_int(offset)
    if offset is not None and not isinstance(offset, (int, str)):
        raise current().error(
            f"the offset of an address is an int, an integer register or a list of coordinates, not {offset!r}"
        )
    if isinstance(offset, str) and offset.lstrip().startswith(","):
        return AddressOperand(_base(base), None, (offset.lstrip(" ,"),))
    operand = bracketed(base)
    if isinstance(operand, AddressOperand) and offset is not None:
        if operand.offset is None:
            return AddressOperand(operand.base, offset, operand.rest, operand.space)
        if isinstance(operand.offset, int) and isinstance(offset, int):
            return AddressOperand(operand.base, operand.offset + offset, operand.rest, operand.space)
        return AddressOperand(operand.base, f"{operand.offset}+{offset}", operand.rest, operand.space)
    return operand


def _base(base: Any) -> Any:
    return base.base if isinstance(base, AddressOperand) else base


def param(dtype: PtxType, name: str, dst: Reg | None = None) -> Reg:
    """A parameter's value (`ld.param`), or the address of an array parameter (`mov` of its name; 64 bits)."""
    trace = current()
    words = trace.parameters.get(name)
    if words is None and name not in trace.symbols:
        known = ", ".join(trace.parameters) or "none"
        raise trace.error(f"the kernel has no parameter {name}", f"raw parameters: {known}")
    is_array = words is not None and any(w.startswith("array") for w in words.split("."))
    result = dst if dst is not None else temporary(trace, dtype)
    if is_array:
        emit(f"mov.b{dtype.bits}", result, name)
    else:
        emit(f"ld.param.{memory_type(dtype)}", result, AddressOperand(name))
    return result


def global_ptrs(*tensors: Any) -> tuple[Reg, ...]:
    """The global addresses of tensors (parameters): `ld.param.u64` and `cvta.to.global.u64` for each, in b64
    registers.
    """
    trace = current()
    found: list[Reg] = []
    for tensor in tensors:
        name = tensor if isinstance(tensor, str) else getattr(tensor, "name", None)
        if not isinstance(name, str) or name not in trace.symbols:
            raise trace.error(
                f"{name or tensor!r} is not a parameter of this kernel",
                "tensors need in_specs and out_specs in @kernel(...)",
            )
        pointer = temporary(trace, b64)
        emit("ld.param.u64", pointer, AddressOperand(name))
        emit("cvta.to.global.u64", pointer, pointer)
        found.append(pointer)
    return tuple(found)


def var(
    space: str,
    dtype: PtxType,
    name: str,
    *,
    size: int | None = None,
    align: int | None = None,
    linking: str | None = None,
) -> str:
    """Declare a variable and return its name. `size` makes it an array; `.shared` and `.local` ones belong to the
    function, and `.param` ones (for calls) too; the others and those with `linking` ("visible", "extern", "weak",
    "common") belong to the module.
    """
    trace = current()
    space = space.lstrip(".")
    if space not in ("global", "const", "shared", "local", "param"):
        raise trace.error(f"variables live in global, const, shared, local or param memory, not {space!r}")
    trace.check_free(name)
    trace.symbols.add(name)
    trace.spaces[name] = "argument" if space == "param" else space  # as symbol_uses calls it
    head: list[str] = []
    if linking:
        head.append("." + linking.lstrip("."))
    head.append("." + space)
    if align is not None:
        head += [".align", str(align)]
    head.append("." + (dtype.name if dtype.name not in ("bf16", "tf32") else dtype.register_class))
    tail = () if size is None else ("[", str(size), "]") if size else ("[", "]")
    statement = (declaration_shape(VariableOp, tuple(head), name, tail=tail), (), "", trace.place(), "")
    if linking or space in ("global", "const"):
        if space == "shared" and linking == "extern":
            trace.externs.append(name)
        trace.module_statements.append(statement)
    else:
        trace.variables.append(statement)
    return name


class Cvta:
    """`ptx.cvta`: generic addresses to addresses of a state space."""

    @staticmethod
    def param(src: Any, dst: Reg | None = None, *, pred: Guard = None) -> Reg:
        """`cvta.param.u64`: the generic address of a parameter (its name or a register with its address)."""
        result = dst if dst is not None else temporary(current(), u64)
        emit("cvta.param.u64", result, src, pred=pred)
        return result

    @staticmethod
    def to_global(src: Any, dst: Reg | None = None, *, pred: Guard = None) -> Reg:
        """`cvta.to.global.u64`: the global address that a generic one stands for."""
        result = dst if dst is not None else temporary(current(), u64)
        emit("cvta.to.global.u64", result, src, pred=pred)
        return result
