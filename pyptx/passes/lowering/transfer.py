"""`vector.transfer_read` and `transfer_write` that are plain vector accesses: in bounds, no mask, no permutation."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.vector import TransferReadOp, TransferWriteOp
from xdsl.ir import Attribute, Operation

from .emitter import Emitter, lowers
from .memory import address, indices_of, loaded, rows_of_vector, set_vector, stored
from .values import Unsupported


def _plain(op: TransferReadOp | TransferWriteOp, type_: Attribute) -> None:
    if op.mask is not None:
        raise Unsupported("a mask: branch around the transfer, or load elements one by one")
    if not all(flag.value.data for flag in op.in_bounds):
        raise Unsupported("a transfer that may leave its memref: guard it with scf.if and say in_bounds = [true, ...]")
    map_ = cast("Any", op.permutation_map).data
    rank, dimensions = len(cast("Any", type_).get_shape()), map_.num_dims
    if [str(result) for result in map_.results] != [f"d{i}" for i in range(dimensions - rank, dimensions)]:
        raise Unsupported("a permutation: load rows and shuffle them, or transpose the memref")


@lowers("vector.transfer_read")
def transfer_read(e: Emitter, op: Operation) -> None:
    """The address must be aligned as for `vector.load`."""
    assert isinstance(op, TransferReadOp)
    type_ = op.result.type
    _plain(op, type_)
    memory = e.memory(op.source)
    where = address(e, memory, indices_of(e, op.indices))
    set_vector(e, op.result, loaded(e, memory, where, rows_of_vector(memory, type_)))


@lowers("vector.transfer_write")
def transfer_write(e: Emitter, op: Operation) -> None:
    """As for `vector.transfer_read`."""
    assert isinstance(op, TransferWriteOp)
    type_ = op.vector.type
    _plain(op, type_)
    memory = e.memory(op.source)
    stored(e, memory, address(e, memory, indices_of(e, op.indices)), rows_of_vector(memory, type_), e.lanes(op.vector))
