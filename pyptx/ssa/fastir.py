"""The one place that writes xDSL's private fields: bulk creation of operations.

`Operation.create` costs about 11 us, this 2 to 4 us for the same object graph (tests/ssa/test_fastir.py compares them
and fails when xDSL changes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, LocationAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.core import SSAValues, Use

from ..dialects.ptx.foundation import data_attr
from .collector import gc_paused as gc_paused

_OpT = TypeVar("_OpT", bound=Operation)
_new = object.__new__
_EMPTY: SSAValues[SSAValue] = SSAValues()
_NO_RESULTS: SSAValues[OpResult] = SSAValues()


def create(
    cls: type[_OpT],
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    properties: dict[str, Attribute],
    attributes: dict[str, Attribute],
    successors: Sequence[Block] = (),
    location: LocationAttr = UNKNOWN_LOC,
    regions: Sequence[Region] = (),
) -> _OpT:
    """The same operation as `cls.create(...)`. `properties` and `attributes` are copied."""
    op = _new(cls)
    if operands:
        uses: list[Use] = []
        index = 0
        for value in operands:
            first = value.first_use
            use = _new(Use)  # its constructor is half the cost of all this
            use._operation = op
            use._index = index
            use._prev_use = None
            use._next_use = first
            if first is not None:
                first._prev_use = use
            value.first_use = use
            uses.append(use)
            index += 1
        op._operands = SSAValues(operands)
        op._operand_uses = tuple(uses)
    else:
        op._operands = _EMPTY
        op._operand_uses = ()
    if result_types:
        results: list[OpResult] = []
        index = 0
        for type_ in result_types:
            result = _new(OpResult)
            result._name = result.first_use = None
            result._type = type_
            result.op = op
            result.index = index
            results.append(result)
            index += 1
        op.results = SSAValues(results)
    else:
        op.results = _NO_RESULTS
    op.properties = properties.copy()
    op.attributes = attributes.copy() if attributes else {}
    op.location = location
    op.regions = ()
    op.parent = op._next_op = op._prev_op = None
    if successors:
        uses = []
        index = 0
        for block in successors:
            first = block.first_use
            use = Use(op, index, None, first)
            if first is not None:
                first._prev_use = use
            block.first_use = use
            uses.append(use)
            index += 1
        op._successors = tuple(successors)
        op._successor_uses = tuple(uses)
    else:
        op._successors = op._successor_uses = ()
    for region in regions:
        op.add_region(region)
    return op


def add_ops(block: Block, ops: Sequence[Operation]) -> None:
    """Append detached operations to a block."""
    previous = block._last_op
    for op in ops:
        op.parent = block
        if previous is None:
            block._first_op = op
        else:
            previous._next_op = op
            op._prev_op = previous
        previous = op
    block._last_op = previous


def set_type(value: SSAValue, type_: Attribute) -> None:
    """Change a value's type in place: renaming a register keeps its uses."""
    value._type = type_


_ints: list[IntAttr] = []


def line_location(filename: StringAttr, line: int, column: int) -> FileLineColLoc:
    """`FileLineColLoc` with shared integers, made without its checking constructor."""
    top = line if line > column else column
    while len(_ints) <= top:
        _ints.extend(data_attr(IntAttr, i) for i in range(len(_ints), max(top + 1, 2 * len(_ints), 256)))
    location = _new(FileLineColLoc)
    fields = cast("dict[str, Any]", location.__dict__)
    fields["filename"] = filename
    fields["line"] = _ints[line]
    fields["column"] = _ints[column]
    return location
