"""Boxes of tensors: reading and writing what one tensor copy moves (PTX ISA 5.5.3 to 5.5.7).

A box is a flat array of bytes in the order of shared memory before swizzling. Out-of-bounds elements read as zeros or
NaNs and are not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..machine.global_memory import Allocation, GlobalMemory
from .tensor_map import PADDED, TensorMap

Array = Any
Combine = Callable[[Array, Array], Array]
"""new bytes = combine(bytes in the tensor, bytes of the box)"""


class BoxError(Exception):
    """What is wrong with a copy, for the kernel's author."""


def tiled_size(m: TensorMap) -> int:
    """Bytes of a tiled box in shared memory: what its mbarrier counts."""
    size = 1
    for n in m.extents:
        size *= n
    bits = 8 if m.type in PADDED else m.bits
    if m.interleave != "none":
        per = int(m.interleave[:-1]) * 8 // bits
        size = size // m.extents[0] * (-(-m.extents[0] // per) * per)
    return size * bits // 8


def _slices(m: TensorMap, coordinates: Sequence[int]) -> tuple[TensorMap, list[int]]:
    """An interleaved tensor as one with its channel slices as a dimension of their own: slices lie between the spatial
    dimensions and the last one, in memory and in the box.
    """
    per = int(m.interleave[:-1]) * 8 // m.bits
    if coordinates[0] % per:
        raise BoxError(f"channel {coordinates[0]} is not the first of a slice of {per} channels")
    spatial = m.rank - 2
    slice_stride = m.strides[spatial - 1] * m.shape[spatial] if spatial else m.strides[0]
    count = -(-m.shape[0] // per)
    made = replace(
        m,
        shape=(per, *m.shape[1:-1], count, m.shape[-1]),
        strides=(*m.strides[:-1], slice_stride, m.strides[-1]),
        box=(per, *m.box[1:-1], -(-m.box[0] // per), m.box[-1]),
        element_strides=(1, *m.steps[1:-1], 1, m.steps[-1]),
        interleave="none",
    )
    return made, [0, *coordinates[1:-1], coordinates[0] // per, coordinates[-1]]


def _find(memory: GlobalMemory, m: TensorMap, first: int, last: int, write: bool) -> Allocation:
    """The allocation that holds bytes `first` to `last` of the address map."""
    found = memory.find(first, last - first + 1)
    if found is None:
        bad = first if memory.find(first, 1) is None else last
        raise BoxError(
            f"the tensor map (shape {m.shape} of .{m.type}, strides {m.strides}, at 0x{m.address:x}) reaches "
            f"0x{bad:x}, which is out of bounds: {memory.describe(bad)}"
        )
    if write and found.read_only:
        raise BoxError(found.read_only_text)
    return found


def _inside(m: TensorMap, coordinates: Sequence[int]) -> list[tuple[int, int]] | None:
    """Per dimension, the part [first, last) of the box that lies in the tensor; None if nothing does."""
    parts: list[tuple[int, int]] = []
    for c, n, step, size in zip(coordinates, m.extents, m.steps, m.shape, strict=True):
        low = 0 if c >= 0 else -(c // step)
        high = min(n, -((c - size) // step) if c < size else 0)
        if low >= high:
            return None
        parts.append((low, high))
    return parts


def rows_inside(m: TensorMap, coordinates: Sequence[int]) -> tuple[Array, int]:
    """(addresses of the rows of the tensor that a tiled box covers, bytes of each); parts outside are left out."""
    if m.interleave != "none":
        m, coordinates = _slices(m, coordinates)
    parts = _inside(m, coordinates)
    if parts is None:
        return np.empty(0, np.int64), 0
    (low, high), *outer = parts
    starts = np.array([m.address + (coordinates[0] + low) * m.bits // 8])
    for (a, b), c, step, stride in zip(outer, coordinates[1:], m.steps[1:], m.strides, strict=True):
        starts = (starts + (c + np.arange(a, b) * step)[:, None] * stride).reshape(-1)
    return starts, (high - low) * m.bits // 8


def bytes_inside(m: TensorMap, coordinates: Sequence[int]) -> Array | None:
    """Which bytes of a tiled box belong to elements of the tensor (uint8, flat, 0 or 1); None: all, or it is not told."""
    parts = _inside(m, coordinates) if m.interleave == "none" and m.type not in PADDED else []
    if parts is not None and all(part == (0, n) for part, n in zip(parts, m.extents, strict=False)):
        return None
    shape = list(m.extents[::-1])
    shape[-1] = shape[-1] * m.bits // 8
    found = np.zeros(shape, np.uint8)
    if parts is not None:
        found[_within(m, parts)] = 1
    return found.reshape(-1)


def _view(
    memory: GlobalMemory, m: TensorMap, coordinates: Sequence[int], parts: list[tuple[int, int]], write: bool
) -> Array:
    """The part of the tensor that a box covers, as bytes: slowest dimension first, the last one bytes of a row."""
    bits = m.bits
    (low, high), *outer = parts
    start = (coordinates[0] + low) * bits
    length = (high - low) * bits
    if start % 8 or length % 8:
        raise BoxError(f"column {coordinates[0]} of a tensor of {bits}-bit elements does not begin a byte")
    address = m.address + start // 8
    span = length // 8 - 1
    shape, strides = [length // 8], [1]
    for (a, b), c, step, stride in zip(outer, coordinates[1:], m.steps[1:], m.strides, strict=True):
        address += (c + a * step) * stride
        span += (b - a - 1) * step * stride
        shape.insert(0, b - a)
        strides.insert(0, step * stride)
    found = _find(memory, m, address, address + span, write)
    return np.ndarray(shape, np.uint8, found.data, address - found.base, strides)


def _blank(m: TensorMap, shape: Sequence[int]) -> Array:
    """A box of out-of-bounds elements: (..., bytes of a row)."""
    if not m.nan_fill:
        return np.zeros(shape, np.uint8)
    pattern = {16: b"\xff\x7f", 32: b"\xff\xff\xff\x7f", 64: b"\xff" * 7 + b"\x7f"}[m.bits]
    row = np.frombuffer(pattern * (shape[-1] // len(pattern)), np.uint8)
    return np.broadcast_to(row, shape).copy()


def _packed(m: TensorMap, box: Array) -> Array:
    """Rows with the gaps of padded elements: 16 values in 16 bytes."""
    if m.type not in PADDED:
        return box
    used = 2 * m.bits
    rows = np.zeros((box.size // used, 16), np.uint8)
    rows[:, :used] = box.reshape(-1, used)
    return rows


def _flushed(m: TensorMap, box: Array) -> Array:
    """The `.ftz` types read subnormals as zeros."""
    if not m.type.endswith(".ftz"):
        return box
    words = box.reshape(-1).view(np.uint32)
    small = (words & np.uint32(0x7F80_0000)) == 0
    words[small] &= np.uint32(0x8000_0000)
    return box


def read_tiled(memory: GlobalMemory, m: TensorMap, coordinates: Sequence[int]) -> Array:
    """The box at these coordinates (fastest dimension first): uint8, flat. BoxError."""
    if m.interleave != "none":
        m, coordinates = _slices(m, coordinates)
    shape = list(m.extents[::-1])
    shape[-1] = shape[-1] * m.bits // 8
    parts = _inside(m, coordinates)
    if parts is None:
        box = _blank(m, shape)
    else:
        view = _view(memory, m, coordinates, parts, False)
        if view.shape == tuple(shape):
            box = np.ascontiguousarray(view)
            if box is view or box.base is not None:
                box = view.copy()
        else:
            box = _blank(m, shape)
            box[_within(m, parts)] = view
    return _packed(m, _flushed(m, box)).reshape(-1)


def _within(m: TensorMap, parts: list[tuple[int, int]]) -> tuple[slice, ...]:
    (low, high), *outer = parts
    return (*(slice(a, b) for a, b in reversed(outer)), slice(low * m.bits // 8, high * m.bits // 8))


def write_tiled(
    memory: GlobalMemory, m: TensorMap, coordinates: Sequence[int], box: Array, combine: Combine | None = None
) -> None:
    """Write a box (uint8, flat) at these coordinates; `combine` makes the new bytes. BoxError."""
    if m.type in PADDED:
        box = box.reshape(-1, 16)[:, : 2 * m.bits].reshape(-1)
    if m.interleave != "none":
        m, coordinates = _slices(m, coordinates)
    parts = _inside(m, coordinates)
    if parts is None:
        return
    shape = list(m.extents[::-1])
    shape[-1] = shape[-1] * m.bits // 8
    view = _view(memory, m, coordinates, parts, True)
    data = box.reshape(shape)[_within(m, parts)]
    view[...] = data if combine is None else combine(np.ascontiguousarray(view), np.ascontiguousarray(data))


# ----------------------------------------------------------------------------------------------------- im2col


def pixels_of(m: TensorMap, coordinates: Sequence[int], offsets: Sequence[int], count: int) -> tuple[Array, Array]:
    """(coordinates of each pixel after the offsets, shape (count, rank - 1), fastest first; which are in the tensor).

    Pixels are visited along the bounding box [lower, size - 1 + upper], fastest dimension first, from the start pixel
    on, in steps of the element strides.
    """
    spatial = m.rank - 2
    steps = m.steps[1:-1]
    lengths = [
        -(-(n + high - low) // s) for n, low, high, s in zip(m.shape[1:-1], m.lower, m.upper, steps, strict=True)
    ]
    number = 0
    for i in range(spatial - 1, -1, -1):
        at, rest = divmod(coordinates[1 + i] - m.lower[i], steps[i])
        if rest or not 0 <= at < lengths[i]:
            raise BoxError(
                f"the start pixel {tuple(coordinates[1:-1])} is outside the bounding box that begins at {m.lower} and "
                f"has {tuple(lengths)} steps of {tuple(steps)}"
            )
        number = number * lengths[i] + at
    index = number + np.arange(count)
    found = np.empty((count, spatial + 1), np.int64)
    good = np.ones(count, np.bool_)
    for i, n in enumerate(lengths):
        index, at = np.divmod(index, n)
        x = at * steps[i] + m.lower[i] + offsets[i]
        found[:, i] = x
        good &= (x >= 0) & (x < m.shape[1 + i])
    found[:, spatial] = coordinates[-1] + index
    good &= (found[:, spatial] >= 0) & (found[:, spatial] < m.shape[-1])
    return found, good


def pixels_of_row(m: TensorMap, coordinates: Sequence[int], halo: int, offset: int) -> tuple[Array, Array]:
    """As `pixels_of`, for the modes im2col::w and im2col::w::128: along W only, from one image to the next.

    `halo` more pixels follow the last one, or every 32 with ::128; `offset` moves the box and the start along W. PTX ISA
    5.5.5. The manual leaves open where the halo of a pixel at the end of its box lies: here it goes on in the same image.
    """
    step = m.steps[1]
    low, length = m.lower[0] + offset, -(-(m.shape[1] + m.upper[0] - m.lower[0]) // step)
    first, rest = divmod(coordinates[1] - m.lower[0], step)
    if rest or first >= length:
        raise BoxError(
            f"the start pixel {coordinates[1]} is not on the left of the bounding box along W or in it: it begins at "
            f"{m.lower[0]} and has {length} steps of {step}"
        )
    wide = m.kind == "im2col::w::128"
    main = np.arange(128 if wide else m.pixels)
    # steps on the left of the box belong to the first image
    image = np.maximum(first + main, 0) // length
    at = first + main - image * length
    group = 32 if wide else main.size
    images, places = image.reshape(-1, group), at.reshape(-1, group)
    more = places[:, -1:] + 1 + np.arange(halo)
    places = np.concatenate([places, more], axis=1).reshape(-1)
    images = np.concatenate([images, np.broadcast_to(images[:, -1:], more.shape)], axis=1).reshape(-1)
    found = np.empty((places.size, m.rank - 1), np.int64)
    found[:, 0] = low + step * places
    found[:, 1:-1] = coordinates[2:-1]
    found[:, -1] = coordinates[-1] + images
    return found, ((found >= 0) & (found < np.array(m.shape[1:]))).all(axis=1)


def im2col_size(m: TensorMap, halo: int = 0) -> int:
    """Bytes of an im2col box; `halo`: as in `pixels_of_row`."""
    bits = 8 if m.type in PADDED else m.bits
    return m.channels * bits // 8 * (128 + 4 * halo if m.kind == "im2col::w::128" else m.pixels + halo)


def _pixel_rows(m: TensorMap, channel: int, pixels: Array, good: Array) -> tuple[Array, Array, int, int]:
    """(pixels in the tensor, their addresses, first and last byte of the box's rows that are channels of the tensor)."""
    low, high = max(0, -channel), max(0, min(m.channels, m.shape[0] - channel))
    chosen = np.flatnonzero(good) if low < high else np.empty(0, np.int64)
    starts = m.address + channel * m.bits // 8 + pixels[chosen] @ np.array(m.strides, np.int64)
    return chosen, starts, low * m.bits // 8, high * m.bits // 8


def pixel_rows(m: TensorMap, channel: int, pixels: Array, good: Array) -> tuple[Array, int]:
    """As `rows_inside`, of pixels."""
    _, starts, a, b = _pixel_rows(m, channel, pixels, good)
    return starts + a, b - a


def read_pixels(memory: GlobalMemory, m: TensorMap, channel: int, pixels: Array, good: Array) -> Array:
    """Rows of `channels` elements of each pixel: uint8, flat. BoxError."""
    row = m.channels * m.bits // 8
    box = _blank(m, (len(good), row))
    chosen, starts, a, b = _pixel_rows(m, channel, pixels, good)
    if chosen.size:
        found = _find(memory, m, int(starts.min()) + a, int(starts.max()) + b - 1, False)
        box[chosen, a:b] = found.data[(starts - found.base)[:, None] + np.arange(a, b)]
    return _packed(m, _flushed(m, box)).reshape(-1)


def write_pixels(
    memory: GlobalMemory, m: TensorMap, channel: int, pixels: Array, good: Array, box: Array, combine: Combine | None
) -> None:
    """The reverse of `read_pixels`. BoxError."""
    row = m.channels * m.bits // 8
    box = box.reshape(len(good), row)
    chosen, starts, a, b = _pixel_rows(m, channel, pixels, good)
    if not chosen.size:
        return
    found = _find(memory, m, int(starts.min()) + a, int(starts.max()) + b - 1, True)
    index = (starts - found.base)[:, None] + np.arange(a, b)
    data = np.ascontiguousarray(box[chosen, a:b])
    found.data[index] = data if combine is None else combine(found.data[index], data)
