"""`vector` without memory: elements are registers of their own, so most operations only rename."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.vector import BroadcastOp, ExtractOp, InsertOp, ReductionOp, ShuffleOp
from xdsl.ir import Operation

from .arith import extreme_of, float_instruction
from .emitter import Emitter, is_vector, lowers
from .values import Constant, ScalarValue, Unsupported, lanes_of

DYNAMIC = -(1 << 63)


@lowers("vector.broadcast")
def broadcast(e: Emitter, op: Operation) -> None:
    assert isinstance(op, BroadcastOp)
    source = e.lanes(op.source)
    e.values[op.results[0]] = source * lanes_of(op.results[0].type) if len(source) == 1 else source


def _position(positions: Any) -> int:
    (position,) = positions.get_values()
    if position == DYNAMIC:
        raise Unsupported("the position in a vector must be a number: registers have no index")
    return int(position)


@lowers("vector.extract")
def extract(e: Emitter, op: Operation) -> None:
    assert isinstance(op, ExtractOp)
    if is_vector(op.results[0].type):
        raise Unsupported("only scalars can be extracted")
    e.values[op.results[0]] = e.lanes(op.vector)[_position(op.static_position)]


@lowers("vector.insert")
def insert(e: Emitter, op: Operation) -> None:
    assert isinstance(op, InsertOp)
    elements = list(e.lanes(op.dest))
    elements[_position(op.static_position)] = e.operand(op.source)
    e.values[op.results[0]] = tuple(elements)


@lowers("vector.shuffle")
def shuffle(e: Emitter, op: Operation) -> None:
    assert isinstance(op, ShuffleOp)
    both = (*e.lanes(op.v1), *e.lanes(op.v2))
    e.values[op.results[0]] = tuple(both[int(i)] for i in cast("Any", op.mask).get_values())


_INTEGER = {
    "add": "add.s", "mul": "mul.lo.s", "minsi": "min.s", "minui": "min.u", "maxsi": "max.s", "maxui": "max.u",
    "and": "and.b", "or": "or.b", "xor": "xor.b",
}  # fmt: skip
_EXTREMES = {"maximumf": ("max", True), "minimumf": ("min", True), "maxnumf": ("max", False), "minnumf": ("min", False)}


@lowers("vector.reduction")
def reduction(e: Emitter, op: Operation) -> None:
    """From the first element to the last, then the accumulator; with `reassoc`, in any order, so in this one
    too."""
    assert isinstance(op, ReductionOp)
    kind = str(getattr(op.kind.data, "value", op.kind.data))
    scalar = e.scalar(op.vector)
    if scalar.bits < 32:
        raise Unsupported("vectors of 32 and 64 bits can be reduced; extend first")
    elements = [*e.lanes(op.vector)]
    if op.acc is not None:
        elements.append(e.operand(op.acc))
    found: ScalarValue = elements[0]
    for element in elements[1:]:
        if kind in _EXTREMES:
            name, nan = _EXTREMES[kind]
            found = extreme_of(e, name, nan, scalar, found, element)
        elif scalar.float and kind in ("add", "mul"):
            found = float_instruction(e, op, kind, scalar, found, element)
        elif not scalar.float and kind in _INTEGER:
            found = e.emit(f"{_INTEGER[kind]}{scalar.bits}", e.register(found), element, result=scalar.register_class)
        else:
            raise Unsupported(f"a reduction by {kind} has no lowering")
    e.values[op.results[0]] = found if not isinstance(found, Constant) else e.register(found)
