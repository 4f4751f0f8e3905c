"""`memref.global` as a variable of the module, in shared, global or constant memory."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, MemRefType, UnitAttr
from xdsl.dialects.memref import GetGlobalOp
from xdsl.ir import Attribute, Operation

from ...dialects.ptx.structure import DeclarationAttr, VariableOp
from ...ssa.fastir import create
from .arith import number
from .emitter import LoweringError, Setting
from .memory import extent_of_type, space_of
from .values import Constant, Element, Unsupported, element_of


def check_globals(module: Operation, setting: Setting) -> None:
    """LoweringError where a `memref.get_global` names no variable of its `gpu.module`, or one of another type."""
    for op in module.walk():
        if not isinstance(op, GetGlobalOp):
            continue
        symbol, type_ = op.name_.string_value(), op.results[0].type
        _, declared = setting.symbols.get(symbol, ("", None))
        if declared is None or declared.name != "memref.global":
            raise LoweringError(f"memref.get_global @{symbol}: the gpu.module defines no memref.global of that name")
        if declared.properties["type"] != type_:
            raise LoweringError(f"memref.get_global @{symbol}: a {type_}, but it is a {declared.properties['type']}")


def lower_global(op: Operation, setting: Setting) -> Operation:
    """The declaration; LoweringError where there is none."""
    symbol = cast("Any", op.properties["sym_name"]).data
    type_ = cast("MemRefType[Attribute]", op.properties["type"])
    try:
        element = element_of(type_.element_type, setting.index_bits)
        space = space_of(type_)
        size = extent_of_type(type_) * element.size
        value = _initial(op.properties.get("initial_value"), element, space, size)
    except Unsupported as problem:
        raise LoweringError(f"memref.global {symbol}: {problem}") from None
    wanted = op.properties.get("alignment")
    alignment = wanted.value.data if isinstance(wanted, IntegerAttr) else 16
    head = ("." + space, ".align", str(max(alignment, element.size & -element.size)), ".b8")
    name, _ = setting.symbols[symbol]
    declaration = DeclarationAttr((head, ((name, ("[", str(size), "]", *value)),)))
    return create(VariableOp, (), (), {"declaration": declaration}, {}, (), op.location)


def _initial(attr: Attribute | None, element: Element, space: str, size: int) -> tuple[str, ...]:
    """The tokens of an initial value, byte by byte."""
    if attr is None or isinstance(attr, UnitAttr):
        return ()
    if space != "global":
        raise Unsupported("only variables in global memory can have an initial value in PTX")
    if not isinstance(attr, DenseIntOrFPElementsAttr) or element.shape:
        raise Unsupported("an initial value must be dense<...> of scalars")
    scalar = element.scalar
    data = b"".join(Constant(number(v, scalar), scalar).in_memory() for v in cast("Any", attr).get_values())
    data *= size // len(data) if data else 0
    listed = [token for byte in data for token in (str(byte), ",")]
    return ("=", "{", *listed[:-1], "}")
