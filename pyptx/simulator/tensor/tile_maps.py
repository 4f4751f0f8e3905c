"""Tensor maps of arrays, and of the tensors that a `Tile` describes: for the simulator and the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...diagnostics import PTXError, SimulationError, counted
from ...frontend.core.tiles import Tile, row_major_strides
from .strided import in_memory, strides_of
from .tensor_map import ELEMENT_TYPES, INTERLEAVES, SPANS, SWIZZLES, TensorArgument, TensorMap, check

__all__ = ["map_of_tile", "tensor_map", "with_tensor_maps"]

_SWIZZLES = {"tma_32b": "32B", "tma_64b": "64B", "tma_128b": "128B"}
ELEMENT_OF = {
    "s8": "u8", "b8": "u8", "e4m3": "u8", "e5m2": "u8", "ue8m0": "u8", "s16": "u16", "b16": "u16", "b32": "u32", "b64": "u64",
    **{name: name for name in ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "tf32")},
}  # fmt: skip
"""The type of the elements in a tensor map, by that of the tensor: what TMA moves."""
_ARRAY_TYPES = {
    "uint8": "u8", "int8": "u8", "uint16": "u16", "int16": "u16", "uint32": "u32", "int32": "s32", "uint64": "u64",
    "int64": "s64", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16", "float8_e4m3fn": "u8",
    "float8_e5m2": "u8", "float8_e8m0fnu": "u8", "bool": "u8",
}  # fmt: skip


def tensor_map(
    array: Any,
    box: Sequence[int] | Tile,
    *,
    swizzle: str = "none",
    type: str | None = None,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    element_strides: Sequence[int] | None = None,
    interleave: str = "none",
    nan_fill: bool = False,
    offset: int = 0,
    lower: Sequence[int] | None = None,
    upper: Sequence[int] | None = None,
    channels: int = 0,
    pixels: int = 0,
    kind: str = "",
) -> TensorArgument:
    """A tensor map of an array, to pass where a kernel takes a tensor map (by value or by pointer).

    All sizes are slowest dimension first, as in `array.shape`. `box`: elements of one copy, or a `Tile` that says box and
    swizzle. `shape` and `strides`
    (bytes, of all but the last dimension): another view of the array's memory, from byte `offset` on. `type`: an
    element type of `ELEMENT_TYPES` (default: the array's). With `lower` and `upper` corners of the spatial dimensions,
    `channels` and `pixels` it is an im2col map and `box` is not used.

    SimulationError where `cuTensorMapEncodeTiled` (or Im2col) would refuse.
    """
    _check_array(array, "the tensor of a tensor map")
    if isinstance(box, Tile):
        return _argument(box, array, "the tensor")
    dtype = str(array.dtype).removeprefix("torch.")
    found = type or _ARRAY_TYPES.get(dtype)
    if found is None or found not in ELEMENT_TYPES:
        raise SimulationError(
            f"a tensor map has no elements of type {type or dtype}; it has {', '.join(ELEMENT_TYPES)}"
        )
    if swizzle not in SWIZZLES or interleave not in INTERLEAVES:
        raise SimulationError(
            f"swizzles are {', '.join(SWIZZLES)}, interleaves {', '.join(INTERLEAVES)}; not {swizzle}, {interleave}"
        )
    sizes = tuple(int(n) for n in (array.shape if shape is None else shape))
    if strides is None:
        row: list[int] = []
        pitch = ELEMENT_TYPES[found]
        for n in reversed(sizes[1:]):
            pitch *= n
            row.append(pitch // 8)
        fast = tuple(row)
    else:
        fast = tuple(int(n) for n in reversed(strides))
    made = TensorMap(
        found,
        offset,
        sizes[::-1],
        fast,
        tuple(int(n) for n in reversed(box)) if box else (1,) * len(sizes),
        tuple(int(n) for n in reversed(element_strides)) if element_strides else (1,) * len(sizes),
        interleave,
        swizzle,
        "none",
        nan_fill,
        kind or ("im2col" if lower is not None else "tiled"),
        tuple(int(n) for n in reversed(lower or ())),
        tuple(int(n) for n in reversed(upper or ())),
        channels,
        pixels,
    )
    wrong = check(made)
    if wrong:
        raise SimulationError(f"tensor map of an array {tuple(array.shape)} of {dtype}: {wrong}")
    return TensorArgument(array, made)


def map_of_tile(tile: Any, shape: Sequence[int], strides: Sequence[int], what: str) -> TensorMap:
    """The map of a tensor of that shape and those strides (in elements, as torch gives them) for its `Tile`.

    The box is the tile's `tma_box`, or the whole tensor. `tma_rank=3`: a matrix seen as columns/64 panels of rows x 64,
    so that one copy fills several 128-byte wide panels. `tma_padding` adds 16 bytes to the box's rows, for stores from
    padded shared memory: the padding lies outside of the tensor and is not written.
    PTXError for what TMA cannot do, naming the limit. CUDA driver API, cuTensorMapEncodeTiled.
    """

    def wrong(why: str) -> PTXError:
        return PTXError(f"{what} cannot have a TMA descriptor: {why}")

    name = tile.dtype.name
    if name not in ELEMENT_OF:
        raise wrong(f"TMA does not move elements of type {name}")
    size = tile.dtype.bits // 8
    layout = getattr(tile.layout, "value", tile.layout)
    swizzle = _SWIZZLES.get(str(layout), "none")
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
        raise wrong(f"its tma_box {tuple(box)} has {counted(len(box), 'dimension')}, and the tensor {rank}")
    if tile.tma_rank == 3:
        if rank != 2:
            raise wrong(f"tma_rank=3 is for matrices, and it has {counted(rank, 'dimension')}")
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
    made = TensorMap(ELEMENT_OF[name], 0, tuple(dims), tuple(steps), tuple(extent), swizzle=swizzle)
    limit = _limit(made, size, f"its box {tuple(box)}", layout)
    if limit is not None:
        raise wrong(limit)
    return made


def _limit(made: TensorMap, size: int, box: str, layout: object) -> str | None:
    """Which limit of TMA a map of elements of `size` bytes exceeds, or None."""
    for step in made.strides:
        if step % 16:
            return f"its rows are {step} bytes apart, and TMA needs multiples of 16: pad the innermost dimension"
    if any(e < 1 for e in made.box):
        return f"{box} has an empty side"
    if any(e > 256 for e in made.box):
        return f"{box} has a side above 256: give a smaller tma_box"
    row = made.box[0] * size
    if row % 16:
        return f"the rows of its box are {row} bytes, and must be multiples of 16"
    span = SPANS.get(made.swizzle, 128)
    if span and row > span:
        return f"the rows of its box are {row} bytes, and {layout} swizzles at most {span}"
    return None if 1 <= made.rank <= 5 else f"TMA takes 1 to 5 dimensions, not {made.rank}"


def _check_array(array: Any, what: str) -> None:
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise SimulationError(f"{what} must be an array, not {type(array).__name__}")


def _argument(tile: Any, array: Any, what: str) -> TensorArgument:
    _check_array(array, what)
    shape = tuple(int(n) for n in array.shape)
    strides = row_major_strides(shape)
    if tile.strides is not None:
        strides = strides_of(array)
    return TensorArgument(in_memory(array), map_of_tile(tile, shape, strides, what))


def with_tensor_maps(
    parameters: Sequence[Any], args: Sequence[Any], dims: Mapping[str, int] | None = None
) -> list[Any]:
    """The arguments of a traced kernel with the tensor maps its parameters ask for (`EntryParameter`, kind "tma"), and the sizes of
    dimensions at run time (kind "dim"), if `dims` has them.

    `args`: tensors and raw parameters in order, without the maps.
    """
    found: list[Any] = []
    tensors: dict[int, Any] = {}
    rest = list(args)
    for p in parameters:
        if p.kind == "tma" and p.tile is not None and p.tensor in tensors:
            found.append(_argument(p.tile, tensors[p.tensor], p.name.removesuffix("_tma_desc")))
        elif p.kind == "dim" and dims is not None:
            found.append(dims[p.name])
        elif rest:
            found.append(rest.pop(0))
            if p.kind == "tensor":
                tensors[p.tensor] = found[-1]
                if p.tile is not None and p.tile.strides is not None:
                    found[-1] = in_memory(found[-1])
    return found + rest
