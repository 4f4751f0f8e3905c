"""What a `Tile` and a tensor say about its TMA descriptor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..diagnostics import PTXError
from .driver import TENSOR_MAP_TYPES, Driver

__all__ = ["TensorMap", "tensor_map"]

_SWIZZLES = {"tma_32b": 1, "tma_64b": 2, "tma_128b": 3}
_SPANS = {1: 32, 2: 64, 3: 128}


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The arguments of cuTensorMapEncodeTiled but the address. `dims` and `box` in elements, innermost first; `strides`
    in bytes, of all dimensions but the innermost.
    """

    data_type: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int

    def encode(self, driver: Driver, pointer: int, what: str) -> bytes:
        """The 128 bytes for a tensor at `pointer`. PTXError if that is not 16-byte aligned; CudaError."""
        if pointer % 16:
            raise PTXError(f"{what} is at an address that is not a multiple of 16 bytes, which TMA needs: pass a copy")
        return driver.encode_tiled(
            self.data_type, pointer, self.dims, self.strides, self.box, swizzle=self.swizzle, what=what
        )


def tensor_map(tile: Any, shape: Sequence[int], strides: Sequence[int], what: str) -> TensorMap:
    """The map of a tensor of that shape and those strides (in elements, as torch gives them) for its `Tile`.

    The box is the tile's `tma_box`, or the whole tensor. `tma_rank=3`: a matrix seen as columns/64 panels of rows x 64,
    so that one copy fills several 128-byte wide panels. `tma_padding` adds 16 bytes to the box's rows, for stores from
    padded shared memory: the padding lies outside of the tensor and is not written.
    PTXError for what TMA cannot do, naming the limit. CUDA driver API, cuTensorMapEncodeTiled.
    """

    def wrong(why: str) -> PTXError:
        return PTXError(f"{what} cannot have a TMA descriptor: {why}")

    name = tile.dtype.name
    if name not in TENSOR_MAP_TYPES:
        raise wrong(f"TMA does not move elements of type {name}")
    size = tile.dtype.bits // 8
    layout = getattr(tile.layout, "value", tile.layout)
    swizzle = _SWIZZLES.get(str(layout), 0)
    if not all(shape):
        raise wrong(f"it is empty (shape {tuple(shape)})")
    if strides and strides[-1] != 1 and shape[-1] != 1:
        raise wrong(f"its innermost dimension is not contiguous (strides {tuple(strides)})")
    rank = len(shape)
    # the strides of dimensions of one element mean nothing, and TMA checks them
    pitch = list(strides)
    for i in reversed(range(rank)):
        if shape[i] == 1:
            pitch[i] = 1 if i == rank - 1 else pitch[i + 1] * shape[i + 1]
    box = list(tile.tma_box) if tile.tma_box else list(shape)
    if any(not isinstance(b, int) for b in box):
        raise wrong(f"its tma_box {tuple(box)} has symbolic dimensions")
    if len(box) != rank:
        raise wrong(f"its tma_box {tuple(box)} has {len(box)} dimensions, and the tensor {rank}")
    if tile.tma_rank == 3:
        if rank != 2:
            raise wrong(f"tma_rank=3 is for matrices, and it has {rank} dimensions")
        if shape[1] % 64 or box[1] % 64:
            raise wrong(f"tma_rank=3 needs columns in multiples of 64 (shape {tuple(shape)}, box {tuple(box)})")
        dims = [64, shape[0], shape[1] // 64]
        steps = [pitch[0] * size, 64 * size]
        extent = [64, box[0], box[1] // 64]
    else:
        dims = list(reversed(shape))
        steps = [p * size for p in reversed(pitch[:-1])]
        extent = list(reversed(box))
    if tile.tma_padding:
        extent[0] += 16 // size
    for step in steps:
        if step % 16:
            raise wrong(f"its rows are {step} bytes apart, and TMA needs multiples of 16: pad the innermost dimension")
    if any(e < 1 for e in extent):
        raise wrong(f"its box {tuple(box)} has an empty side")
    if any(e > 256 for e in extent):
        raise wrong(f"its box {tuple(box)} has a side above 256: give a smaller tma_box")
    if extent[0] * size % 16:
        raise wrong(f"the rows of its box are {extent[0] * size} bytes, and must be multiples of 16")
    if swizzle and extent[0] * size > _SPANS[swizzle]:
        raise wrong(
            f"the rows of its box are {extent[0] * size} bytes, and {layout} swizzles at most {_SPANS[swizzle]}"
        )
    if not 1 <= len(dims) <= 5:
        raise wrong(f"TMA takes 1 to 5 dimensions, not {len(dims)}")
    return TensorMap(TENSOR_MAP_TYPES[name], tuple(dims), tuple(steps), tuple(extent), swizzle)
