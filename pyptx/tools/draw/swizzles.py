"""Shared-memory swizzles: which part of a tile lies at which address."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...analysis.banks import conflicts
from ...simulator.tensor.tensor_map import swizzled
from ...types import PtxType, b16
from .picture import Cell, Grid, Picture, shade

__all__ = ["layout", "swizzle"]

_SPAN = {"none": 128, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128}
_CHUNK, _LINE = 16, 128


def swizzle(mode: str | None, *, row_bytes: int | None = None, rows: int = 8) -> Picture:
    """A tile in shared memory under a swizzle: each line is 128 bytes of memory (32 banks), each cell a chunk of 16.

    mode: "none", "32B", "64B", "128B" or "128B_ATOM_32B" (TMA's and the matrix descriptors' names). row_bytes: bytes of
    a row of the tile, by default the swizzle's span (128 without one); rows: how many. The tile starts at a multiple of
    1024 bytes. A cell `3:5` holds chunk 5 of row 3; chunks of one number have one colour. ValueError for other modes.
    PTX ISA 5.5.7.
    """
    mode = mode or "none"
    if mode not in _SPAN:
        raise ValueError(f"a swizzle is one of {', '.join(_SPAN)}, not {mode!r}")
    row_bytes = _SPAN[mode] if row_bytes is None else row_bytes
    if row_bytes % _CHUNK or row_bytes <= 0 or rows <= 0:
        raise ValueError(f"a tile has rows of 16, 32, ... bytes, not {rows} rows of {row_bytes}")
    chunks = row_bytes // _CHUNK
    places = swizzled(rows * chunks, mode, 0)
    cells: list[Cell] = []
    for i, place in enumerate(places.tolist()):
        row, chunk = divmod(i, chunks)
        line, column = divmod(place, _LINE // _CHUNK)
        detail = f"byte {_CHUNK * place}: row {row}, bytes {_CHUNK * chunk} to {_CHUNK * chunk + 15} of the row"
        cells.append(Cell(line, column, (f"{row}:{chunk}",), _colour(chunk), detail))
    lines = max(c.row for c in cells) + 1
    column = places.reshape(rows, chunks)[:8, 0] * _CHUNK
    ways, _, _ = conflicts(column.astype(np.int64), _CHUNK)
    return Grid(
        f"swizzle {mode}: {rows} rows of {row_bytes} bytes in shared memory",
        f"reading chunk 0 of {len(column)} rows (one 8x8 matrix of ldmatrix): "
        + ("no bank conflict" if ways == 1 else f"{ways}-way bank conflict"),
        "byte offset",
        "banks (16 bytes each)",
        [str(_LINE * i) for i in range(lines)],
        [f"{4 * i}-{4 * i + 3}" for i in range(_LINE // _CHUNK)],
        cells,
        [([_colour(c)], f"chunk {c}") for c in range(min(chunks, 8))],
        ("row:chunk, chunks of 16 bytes (8 elements of 16 bits)",),
        cell_width=60.0,
    ).picture()


def layout(shown: Any, dtype: PtxType = b16) -> Picture:
    """Where a layout of tensor_layouts puts the elements of an array: a cell for each coordinate, of the first dimension downwards and of the others to
    the right, with its offset in elements, coloured by the 16 bytes of a line of banks in which it lies.

    shown: a Layout, a Swizzle composed with one, or any function of coordinates with a `shape`. dtype: the type of its elements. Beneath the title are
    the bank conflicts of a warp whose lanes read down the first column, and along the first row, an element each. ValueError for a layout of more than
    4096 elements.
    """
    function: Any = shown
    inner = getattr(shown, "inner", shown)
    shape: Any = getattr(inner, "shape", None)
    if shape is None or not callable(shown):
        raise ValueError(f"a layout has a shape and gives the offset of a coordinate, unlike {shown!r:.60}")
    modes: Any = shape if isinstance(shape, tuple) else (shape,)
    extents = [_extent(mode) for mode in modes]
    rows, columns = extents[0], prod(extents[1:])
    if rows * columns > 4096:
        raise ValueError(f"a picture has 4096 elements at most, and the layout {rows * columns}")
    cells, offsets = list[Cell](), np.zeros((rows, columns), np.int64)
    for row, (column, rest) in product(range(rows), enumerate(product(*map(range, extents[:0:-1])))):
        index = (row, *rest[::-1])
        offset: int = function(*index)
        offsets[row, column] = offset
        byte = offset * dtype.bits // 8
        chunk = byte % _LINE // _CHUNK
        detail = (
            f"element {index[0] if len(index) == 1 else index}: number {offset}, byte {byte}, bank {byte // 4 % 32}"
        )
        cells.append(Cell(row, column, (str(offset),), _colour(chunk), detail))
    seen = [
        f"{what}: {_ways(line[:32] * dtype.bits // 8, max(dtype.bits // 8, 1))}"
        for what, line in (("down the first column", offsets[:, 0]), ("along the first row", offsets[0]))
        if len(line) > 1
    ]
    return Grid(
        f"layout {shown}",
        f"reading elements of {dtype} " + ", ".join(seen or ["one at a time"]),
        "first dimension",
        "other dimensions",
        [str(i) for i in range(rows)],
        [str(i) for i in range(columns)],
        cells,
        [([_colour(c)], f"banks {4 * c} to {4 * c + 3}") for c in range(8)],
    ).picture()


def _extent(mode: Any) -> int:
    return prod(map(_extent, mode)) if isinstance(mode, tuple) else mode


def _ways(addresses: np.ndarray, width: int) -> str:
    ways, _, _ = conflicts(addresses, width)
    return "no bank conflict" if ways == 1 else f"{ways}-way bank conflict"


def _colour(chunk: int) -> str:
    return shade(chunk / 8, 0.80)
