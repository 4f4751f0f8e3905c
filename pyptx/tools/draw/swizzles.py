"""Shared-memory swizzles: which part of a tile lies at which address."""

from __future__ import annotations

import numpy as np

from ...analysis.banks import conflicts
from ...simulator.tensor.tensor_map import swizzled
from .picture import Cell, Grid, Picture, shade

__all__ = ["swizzle"]

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


def _colour(chunk: int) -> str:
    return shade(chunk / 8, 0.80)
