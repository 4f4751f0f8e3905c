"""`vector.transfer_read`, `transfer_write`, `maskedload` and `maskedstore`.

A transfer in bounds without a mask and without a permutation is a plain vector access. Any other goes element by
element, and each access is guarded by what decides whether it takes place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product as product_of
from math import prod
from typing import Any, cast

from xdsl.dialects.vector import CreateMaskOp, MaskedLoadOp, MaskedStoreOp, TransferReadOp, TransferWriteOp
from xdsl.ir import Attribute, Operation, SSAValue

from .emitter import At, Emitter, lowers
from .memory import Rows, address, indices_of, loaded, rows_of_vector, set_vector, stored, total
from .values import PREDICATE, Constant, Memory, Scalar, ScalarValue, Unsupported, vector_shape

MOST_ELEMENTS = 256
"""Elements of a vector that are accessed one by one."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a vector in memory: where, and the predicate that decides whether it is accessed (None: it is)."""

    where: At
    guard: ScalarValue | None


def _is_plain(op: TransferReadOp | TransferWriteOp, type_: Attribute) -> bool:
    dimensions = cast("Any", op.permutation_map).data.num_dims
    rank = len(vector_shape(type_))
    return (
        op.mask is None
        and all(flag.value.data for flag in op.in_bounds)
        and _dimensions(op) == list(range(dimensions - rank, dimensions))
    )


def _dimensions(op: TransferReadOp | TransferWriteOp) -> list[int | None]:
    """The dimension of the memref that each one of the vector walks along; None for those that repeat."""
    found: list[int | None] = []
    for result in cast("Any", op.permutation_map).data.results:
        text = str(result)
        if text == "0":
            found.append(None)
        elif text[:1] == "d" and text[1:].isdigit():
            found.append(int(text[1:]))
        else:
            raise Unsupported(f"the map of a transfer names dimensions and 0, not {text}")
    return found


def _elements(
    e: Emitter,
    memory: Memory,
    start: list[ScalarValue],
    shape: tuple[int, ...],
    dimensions: Sequence[int | None],
    checked: Iterable[int],
    mask: Sequence[ScalarValue] | None,
) -> Iterator[Element]:
    """The elements of a vector, the last dimension running fastest. `checked`: the vector's dimensions that may leave the memref."""
    if memory.element.shape:
        raise Unsupported("the elements of vectors in memory have no mask and no bounds; load them whole")
    if prod(shape) > MOST_ELEMENTS:
        raise Unsupported(f"a vector of more than {MOST_ELEMENTS} elements with a mask, bounds or a permutation")
    index = Scalar(f"b{e.index_bits}", e.index_bits)
    ends = {dimension for i in checked if (dimension := dimensions[i]) is not None}
    for number, place in enumerate(product_of(*map(range, shape))):
        indices = list(start)
        for step, dimension in zip(place, dimensions, strict=True):
            if dimension is not None:
                indices[dimension] = total(e, indices[dimension], Constant(step, index))
        guards = [_below(e, indices[d], memory.sizes[d]) for d in sorted(ends)]
        if mask is not None:
            guards.append(mask[number])
        yield Element(address(e, memory, indices), _all_of(e, guards))


def _below(e: Emitter, index: ScalarValue, size: ScalarValue) -> ScalarValue:
    if isinstance(index, Constant) and isinstance(size, Constant):
        return Constant(int(0 <= index.value < size.value), PREDICATE)
    return e.emit(f"setp.lt.u{e.index_bits}", e.register(index), size, result="pred")


def _all_of(e: Emitter, guards: list[ScalarValue]) -> ScalarValue | None:
    """The conjunction; None where nothing can be false."""
    if any(isinstance(guard, Constant) and not guard.value for guard in guards):
        return Constant(0, PREDICATE)
    found: ScalarValue | None = None
    for guard in guards:
        if isinstance(guard, Constant):
            continue
        found = guard if found is None else e.emit("and.pred", e.register(found), guard, result="pred")
    return found


def _load(
    e: Emitter, memory: Memory, elements: Iterable[Element], otherwise: Sequence[ScalarValue]
) -> list[ScalarValue]:
    """The elements that are accessed, and `otherwise` for the others."""
    scalar = memory.element.scalar
    found: list[ScalarValue] = []
    for element, other in zip(elements, otherwise, strict=True):
        if element.guard is None:
            found += loaded(e, memory, element.where, Rows(1))
        elif isinstance(element.guard, Constant):
            found.append(other)
        elif scalar == PREDICATE:
            byte = e.emit("selp.b16", Constant(1, scalar), Constant(0, scalar), e.register(other), result="b16")
            byte = e.emit_guarded(element.guard, byte, f"ld.{memory.space}.u8", element.where)
            found.append(e.emit("setp.ne.s16", byte, Constant(0, Scalar("b16", 16)), result="pred"))
        else:
            opcode = f"ld.{memory.space}.{scalar.memory}"
            found.append(e.emit_guarded(element.guard, e.register(other), opcode, element.where))
    return found


def _store(e: Emitter, memory: Memory, elements: Iterable[Element], values: Sequence[ScalarValue]) -> None:
    """Store the elements that are accessed."""
    scalar = memory.element.scalar
    for element, value in zip(elements, values, strict=True):
        if element.guard is None:
            stored(e, memory, element.where, Rows(1), (value,))
        elif isinstance(element.guard, SSAValue):
            given = e.register(value)
            if scalar == PREDICATE:
                given = e.emit("selp.b16", Constant(1, scalar), Constant(0, scalar), given, result="b16")
            e.effect_guarded(element.guard, f"st.{memory.space}.{scalar.memory}", element.where, given)


def _transferred(
    e: Emitter, op: TransferReadOp | TransferWriteOp, memory: Memory, shape: tuple[int, ...]
) -> Iterator[Element]:
    dimensions = _dimensions(op)
    count = cast("Any", op.permutation_map).data.num_dims
    if op.mask is not None and dimensions != list(range(count - len(shape), count)):
        raise Unsupported("a mask together with a permutation; transpose the vector, or the memref")
    outside = [i for i, flag in enumerate(op.in_bounds) if not flag.value.data]
    mask = None if op.mask is None else e.lanes(op.mask)
    return _elements(e, memory, indices_of(e, op.indices), shape, dimensions, outside, mask)


@lowers("vector.transfer_read")
def transfer_read(e: Emitter, op: Operation) -> None:
    """The padding where the mask is false and outside of the memref. A plain one must be aligned as for `vector.load`."""
    assert isinstance(op, TransferReadOp)
    memory = e.memory(op.source)
    if _is_plain(op, op.result.type):
        where = address(e, memory, indices_of(e, op.indices))
        set_vector(e, op.result, loaded(e, memory, where, rows_of_vector(memory, op.result.type)))
        return
    shape = vector_shape(op.result.type)
    padding = [e.operand(op.padding)] * prod(shape)
    e.values[op.result] = tuple(_load(e, memory, _transferred(e, op, memory, shape), padding))


@lowers("vector.transfer_write")
def transfer_write(e: Emitter, op: Operation) -> None:
    """As for `vector.transfer_read`."""
    assert isinstance(op, TransferWriteOp)
    memory = e.memory(op.source)
    type_ = op.vector.type
    if _is_plain(op, type_):
        where = address(e, memory, indices_of(e, op.indices))
        stored(e, memory, where, rows_of_vector(memory, type_), e.lanes(op.vector))
        return
    if None in _dimensions(op):
        raise Unsupported("a write that stores several elements of a vector to one place; write a slice of it")
    _store(e, memory, _transferred(e, op, memory, vector_shape(type_)), e.lanes(op.vector))


def _masked(e: Emitter, op: MaskedLoadOp | MaskedStoreOp, memory: Memory, shape: tuple[int, ...]) -> Iterator[Element]:
    indices = indices_of(e, op.indices)
    return _elements(e, memory, indices, shape, [len(indices) - 1], (), e.lanes(op.mask))


@lowers("vector.maskedload")
def masked_load(e: Emitter, op: Operation) -> None:
    assert isinstance(op, MaskedLoadOp)
    memory = e.memory(op.base)
    elements = _masked(e, op, memory, vector_shape(op.result.type))
    e.values[op.result] = tuple(_load(e, memory, elements, e.lanes(op.pass_thru)))


@lowers("vector.maskedstore")
def masked_store(e: Emitter, op: Operation) -> None:
    assert isinstance(op, MaskedStoreOp)
    memory = e.memory(op.base)
    shape = vector_shape(op.value_to_store.type)
    _store(e, memory, _masked(e, op, memory, shape), e.lanes(op.value_to_store))


@lowers("vector.create_mask")
def create_mask(e: Emitter, op: Operation) -> None:
    """True where each index is less than the size given for its dimension, which may be negative."""
    assert isinstance(op, CreateMaskOp)
    index = Scalar(f"b{e.index_bits}", e.index_bits)
    sizes = [e.operand(size) for size in op.mask_dim_sizes]
    lanes: list[ScalarValue] = []
    for place in product_of(*map(range, vector_shape(op.mask_vector.type))):
        guards = [_more_than(e, size, Constant(at, index)) for size, at in zip(sizes, place, strict=True)]
        found = _all_of(e, guards)
        lanes.append(Constant(1, PREDICATE) if found is None else found)
    e.values[op.mask_vector] = tuple(lanes)


def _more_than(e: Emitter, size: ScalarValue, index: Constant) -> ScalarValue:
    if isinstance(size, Constant):
        return Constant(int(size.value > index.value), PREDICATE)
    return e.once(
        ("more than", size, index.value), lambda: e.emit(f"setp.gt.s{e.index_bits}", size, index, result="pred")
    )
