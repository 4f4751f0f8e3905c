"""`vector` without memory: elements are registers of their own, so most operations only rename."""

from __future__ import annotations

from itertools import product
from math import prod
from operator import mul
from typing import Any, cast

from xdsl.dialects.vector import BroadcastOp, ExtractOp, InsertOp, ReductionOp, ShuffleOp
from xdsl.ir import Operation

from .arith import extreme_of, float_instruction
from .emitter import Emitter, is_vector, lowers
from .values import Constant, ScalarValue, Unsupported, vector_shape

DYNAMIC = -(1 << 63)


@lowers("vector.broadcast")
def broadcast(e: Emitter, op: Operation) -> None:
    """As NumPy: missing and unit dimensions are repeated."""
    assert isinstance(op, BroadcastOp)
    source, shape = e.lanes(op.source), vector_shape(op.results[0].type)
    given = vector_shape(op.source.type)
    steps = [0 if n == 1 else prod(given[i + 1 :]) for i, n in enumerate(given)]
    steps = [0] * (len(shape) - len(given)) + steps
    e.values[op.results[0]] = tuple(source[sum(map(mul, place, steps))] for place in product(*map(range, shape)))


@lowers("vector.shape_cast")
def shape_cast(e: Emitter, op: Operation) -> None:
    e.values[op.results[0]] = e.lanes(op.operands[0])


@lowers("vector.from_elements")
def from_elements(e: Emitter, op: Operation) -> None:
    e.values[op.results[0]] = tuple(map(e.operand, op.operands))


@lowers("vector.to_elements")
def to_elements(e: Emitter, op: Operation) -> None:
    e.values.update(zip(op.results, e.lanes(op.operands[0]), strict=True))


def _part(positions: Any, shape: tuple[int, ...]) -> slice:
    """The elements at a position of the leading dimensions."""
    start = 0
    given = positions.get_values()
    for i, position in enumerate(given):
        if position == DYNAMIC:
            raise Unsupported("the position in a vector must be a number: registers have no index")
        start += int(position) * prod(shape[i + 1 :])
    return slice(start, start + prod(shape[len(given) :]))


@lowers("vector.extract")
def extract(e: Emitter, op: Operation) -> None:
    assert isinstance(op, ExtractOp)
    chosen = e.lanes(op.vector)[_part(op.static_position, vector_shape(op.vector.type))]
    e.values[op.results[0]] = chosen if is_vector(op.results[0].type) else chosen[0]


@lowers("vector.insert")
def insert(e: Emitter, op: Operation) -> None:
    assert isinstance(op, InsertOp)
    elements = list(e.lanes(op.dest))
    elements[_part(op.static_position, vector_shape(op.dest.type))] = e.lanes(op.source)
    e.values[op.results[0]] = tuple(elements)


@lowers("vector.shuffle")
def shuffle(e: Emitter, op: Operation) -> None:
    """The mask counts parts of the first dimension, of both vectors in a row."""
    assert isinstance(op, ShuffleOp)
    size = prod(vector_shape(op.v1.type)[1:])
    both = (*e.lanes(op.v1), *e.lanes(op.v2))
    chosen = [both[int(i) * size : (int(i) + 1) * size] for i in cast("Any", op.mask).get_values()]
    e.values[op.results[0]] = tuple(lane for part in chosen for lane in part)


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
