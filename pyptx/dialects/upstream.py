"""What xDSL's `gpu`, `math`, `memref` and `vector` dialects lack of the generic form that MLIR prints today (LLVM 20 to 23).

xDSL's operations of the same names are extended, so text of either age is read. `register` puts these dialects in the place of
xDSL's own; plain `xdsl-opt` reads the older form only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import auto
from functools import partialmethod
from typing import Any

from xdsl.context import Context
from xdsl.dialects import gpu, math, memref, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, StringAttr, UnitAttr, VectorType, i1, i32
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Dialect, Operation, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    OpDef,
    OptPropertyDef,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

# -----------------------------------------------------------------------------------------------------------
# gpu


class AddressSpace(StrEnum):
    Global = auto()
    Workgroup = auto()
    Private = auto()
    Constant = auto()
    Cluster = auto()


class BarrierScope(StrEnum):
    Workgroup = auto()
    Cluster = auto()
    Subgroup = auto()


class ShuffleMode(StrEnum):
    Xor = auto()
    Up = auto()
    Down = auto()
    Idx = auto()


class ReduceKind(StrEnum):
    """With `min` and `max` of older versions."""

    Add = auto()
    Mul = auto()
    Min = auto()
    Max = auto()
    MinUI = "minui"
    MinSI = "minsi"
    MinNumF = "minnumf"
    MaxUI = "maxui"
    MaxSI = "maxsi"
    MaxNumF = "maxnumf"
    And = auto()
    Or = auto()
    Xor = auto()
    MinimumF = "minimumf"
    MaximumF = "maximumf"


class _Bracketed:
    """An enumeration that is written `#gpu.name<value>`, where others are `#gpu<name value>`."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)  # pyright: ignore

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)  # pyright: ignore


@irdl_attr_definition
class AddressSpaceAttr(_Bracketed, EnumAttribute[AddressSpace]):
    name = "gpu.address_space"


@irdl_attr_definition
class BarrierScopeAttr(_Bracketed, EnumAttribute[BarrierScope]):
    name = "gpu.barrier_scope"


@irdl_attr_definition
class ShuffleModeAttr(EnumAttribute[ShuffleMode], SpacedOpaqueSyntaxAttribute):
    name = "gpu.shuffle_mode"


@irdl_attr_definition
class ReduceKindAttr(EnumAttribute[ReduceKind], SpacedOpaqueSyntaxAttribute):
    name = "gpu.all_reduce_op"


@irdl_op_definition
class AllReduceOp(IRDLOperation):
    name = "gpu.all_reduce"
    op = opt_prop_def(ReduceKindAttr)
    uniform = opt_prop_def(UnitAttr)
    operand = operand_def(Attribute)
    result = result_def(Attribute)
    body = region_def()
    traits = traits_def(IsolatedFromAbove())

    def verify_(self) -> None:
        if bool(self.body.blocks) == (self.op is not None):
            raise VerifyException("gpu.all_reduce needs either an operation or a body")


@irdl_op_definition
class SubgroupReduceOp(IRDLOperation):
    name = "gpu.subgroup_reduce"
    op = prop_def(ReduceKindAttr)
    uniform = opt_prop_def(UnitAttr)
    cluster_size = opt_prop_def(IntegerAttr)
    cluster_stride = opt_prop_def(IntegerAttr)
    operand = operand_def(Attribute)
    result = result_def(Attribute)


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    name = "gpu.shuffle"
    mode = prop_def(ShuffleModeAttr)
    value = operand_def(Attribute)
    offset = operand_def(i32)
    width = operand_def(i32)
    shuffled = result_def(Attribute)
    valid = result_def(i1)


@irdl_op_definition
class DynamicSharedMemoryOp(IRDLOperation):
    name = "gpu.dynamic_shared_memory"
    result = result_def(MemRefType)


@irdl_op_definition
class PrintfOp(IRDLOperation):
    name = "gpu.printf"
    format = prop_def(StringAttr)
    args = var_operand_def(Attribute)


def _verify_function(self: gpu.FuncOp) -> None:
    """Workgroup and private memory are arguments of the body, after those of the function type."""
    inputs = self.function_type.inputs.data
    if self.body.blocks and inputs != self.body.blocks[0].arg_types[: len(inputs)]:
        raise VerifyException("the first arguments of the body must have the function's input types")
    if self.kernel is not None and self.function_type.outputs.data:
        raise VerifyException("a kernel returns nothing")


def _verify_as(op: IRDLOperation, definition: OpDef) -> None:
    definition.verify(op)


def _with(cls: type[IRDLOperation], *properties: str, **members: Any) -> type[IRDLOperation]:
    """The operation with more optional properties, which may be any attribute."""
    known = cls.get_irdl_definition()
    more: dict[str, Any] = {name: OptPropertyDef(AnyAttr()) for name in properties}
    definition = replace(known, properties={**known.properties, **more})
    members.setdefault(
        "verify_", partialmethod(_verify_as, definition)
    )  # xDSL's own would verify the definition it was made with
    return type(cls.__name__, (cls,), {"get_irdl_definition": classmethod(lambda _: definition), **members})


_PLACES = (
    gpu.ThreadIdOp, gpu.BlockIdOp, gpu.BlockDimOp, gpu.GridDimOp, gpu.GlobalIdOp, gpu.LaneIdOp, gpu.SubgroupIdOp,
    gpu.NumSubgroupsOp, gpu.SubgroupSizeOp,
)  # fmt: skip

# -----------------------------------------------------------------------------------------------------------
# math, memref, vector


@irdl_op_definition
class ErfcOp(math.FloatingPointLikeUnaryMathOperation):
    name = "math.erfc"


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    name = "vector.from_elements"
    elements = var_operand_def(Attribute)
    dest = result_def(VectorType)


@irdl_op_definition
class ToElementsOp(IRDLOperation):
    name = "vector.to_elements"
    source = operand_def(VectorType)
    elements = var_result_def(Attribute)


@irdl_op_definition
class ShapeCastOp(IRDLOperation):
    name = "vector.shape_cast"
    source = operand_def(VectorType)
    result = result_def(VectorType)


# -----------------------------------------------------------------------------------------------------------
# dialects


def _extended(dialect: Dialect, operations: tuple[type[Operation], ...], attributes: tuple[type[Attribute], ...] = ()):
    """A dialect with operations and attributes more, or in the place of those of the same name."""
    new = {op.name for op in operations} | {attribute.name for attribute in attributes}
    return Dialect(
        dialect.name,
        [*(op for op in dialect.operations if op.name not in new), *operations],
        [*(attribute for attribute in dialect.attributes if attribute.name not in new), *attributes],
    )


def _gpu() -> Dialect:
    function = _with(
        gpu.FuncOp,
        *(
            "known_block_size",
            "known_grid_size",
            "known_cluster_size",
            "workgroup_attributions",
            "arg_attrs",
            "res_attrs",
        ),
        *("workgroup_attrib_attrs", "private_attrib_attrs"),
        verify_=_verify_function,
    )
    barrier = _with(gpu.BarrierOp, "scope", "address_spaces", "named_barrier")
    places = [_with(op, "upper_bound") for op in _PLACES]
    operations = (AllReduceOp, SubgroupReduceOp, ShuffleOp, DynamicSharedMemoryOp, PrintfOp, function, barrier, *places)
    return _extended(gpu.GPU, operations, (AddressSpaceAttr, BarrierScopeAttr, ShuffleModeAttr, ReduceKindAttr))


def _memref() -> Dialect:
    """Without an initial value a variable is defined elsewhere, or in shared memory."""
    return _extended(memref.MemRef, (_with(memref.GlobalOp, "initial_value", "sym_visibility"),))


DIALECTS: dict[str, Callable[[], Dialect]] = {
    "gpu": _gpu,
    "math": lambda: _extended(math.Math, (ErfcOp,)),
    "memref": _memref,
    "vector": lambda: _extended(vector.Vector, (FromElementsOp, ToElementsOp, ShapeCastOp)),
}
"""The dialects by name; each takes the place of xDSL's own."""


def register(context: Context) -> None:
    """Register these dialects in a context that has none of their names yet."""
    for name, dialect in DIALECTS.items():
        context.register_dialect(name, dialect)
