"""Fragments of matrix instructions: which thread holds an element, and in which bits of which register."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...dialects.ptx.fragments import fragment, mma_shapes
from ...simulator.machine.tensor_memory import PER_REPEAT, accumulator_places, register_places
from ...simulator.semantics.wgmma import accumulators, registers_a
from ...types import PtxType
from .picture import Cell, Grid, Picture, lane_colour, lane_legend, shade

__all__ = ["mma", "tcgen05", "tcgen05_accumulator", "wgmma"]

_PARTS = {16: ("lo", "hi"), 8: ("b0", "b1", "b2", "b3")}
_READING = {
    64: "r0, r1, ...: registers of 64 bits, one element each.",
    32: "r0, r1, ...: registers of 32 bits, one element each.",
    16: "r0.lo, r0.hi: the lower and the upper 16 bits of register r0.",
    8: "r0.b0 ... r0.b3: the bytes of register r0, least significant first.",
}


def mma(operand: str, shape: str | tuple[int, int, int], dtype: PtxType | int) -> Picture:
    """The fragment of `mma.sync`: operand "A", "B", "C" or "D" of a shape such as "m16n8k16" or (16, 8, 16).

    dtype: the operand's element type, or its bits (f16 accumulators have 16). ValueError for what `mma.sync` does not
    have; m8n8k4 of f16, which works by quads, is not drawn. PTX ISA 9.7.16.5.
    """
    operand = operand.upper()
    m, n, k = _mnk(shape)
    bits = dtype if isinstance(dtype, int) else dtype.bits
    _check_mma(operand, m, n, k, bits)
    known = mma_shapes(operand, bits, "" if isinstance(dtype, int) else dtype.name)
    if f"m{m}n{n}k{k}" not in known:
        raise ValueError(f"mma.sync with {operand} of {bits}-bit elements has {', '.join(known)}, not m{m}n{n}k{k}")
    rows, columns = {"A": (m, k), "B": (k, n)}.get(operand, (m, n))
    table = fragment("C" if operand == "D" else operand, m, n, k, bits)
    cells = [
        _element(*divmod(int(table[lane, value]), columns), lane, value, bits)
        for lane in range(32)
        for value in range(table.shape[1])
    ]
    element = "" if isinstance(dtype, int) else f" of {dtype.name}"
    row_axis, column_axis = {"A": ("row m", "column k"), "B": ("row k", "column n")}.get(operand, ("row m", "column n"))
    return Grid(
        f"mma.sync m{m}n{n}k{k}: {operand}{element}",
        f"{rows} x {columns}, {bits} bits an element, {_registers(table.shape[1] * bits // max(32, bits))}",
        row_axis, column_axis, _count(rows), _count(columns), cells, lane_legend(), (_reading(bits),),
        row_rule=_run(bits) if operand == "B" else 8, column_rule=_run(bits) if operand == "A" else 8,
    ).picture()  # fmt: skip


def _run(bits: int) -> int:
    """Elements along k that four neighbouring threads hold in one register each: 16 bytes, and 4 elements of 64 bits."""
    return 4 * max(32 // bits, 1)


def _check_mma(operand: str, m: int, n: int, k: int, bits: int) -> None:
    if operand not in ("A", "B", "C", "D"):
        raise ValueError(f'an operand of mma.sync is "A", "B", "C" or "D", not {operand!r}')
    if m not in (8, 16) or n != 8:
        raise ValueError(f"mma.sync has shapes m16n8k... and m8n8k..., not m{m}n{n}k{k}")
    if bits not in (1, 4, 8, 16, 32, 64):
        raise ValueError(f"mma.sync holds elements in 1, 4, 8, 16, 32 or 64 bits, not {bits}")
    if operand in ("C", "D"):
        if bits < 16:
            raise ValueError(f"accumulators of mma.sync have 16, 32 or 64 bits, not {bits}")
    elif (k not in (4, 8, 16)) if bits == 64 else (k * bits not in (128, 256)):
        raise ValueError(f"mma.sync with {bits}-bit elements has k = {_depths(bits)}, not {k}")


def _depths(bits: int) -> str:
    return "4, 8 or 16" if bits == 64 else f"{128 // bits} or {256 // bits}"


def wgmma(operand: str, dtype: PtxType | int, n: int = 16) -> Picture:
    """The fragment of `wgmma.mma_async`: the accumulator "D" (64 x n), or "A" (64 rows of 256 bits) from registers.

    dtype: the element type or its bits. n: columns of D, a multiple of 8 up to 256; all have the same rule.
    ValueError for what wgmma does not have. PTX ISA 9.7.17.5.
    """
    operand = operand.upper()
    bits = dtype if isinstance(dtype, int) else dtype.bits
    if operand == "D":
        if bits not in (16, 32) or n % 8 or not 8 <= n <= 256:
            raise ValueError(
                f"D of wgmma has 16 or 32 bits and 8, 16, ... 256 columns, not {bits} bits and {n} columns"
            )
        columns = n
        values = accumulators(np.arange(64 * n)).reshape(-1, 128)
        cells = [
            _element(*divmod(int(values[v, lane]), n), lane, v, bits) for lane in range(128) for v in range(len(values))
        ]
        what = f"m64n{n}, D"
    elif operand == "A":
        if bits not in (8, 16, 32):
            raise ValueError(f"A of wgmma has elements of 8, 16 or 32 bits, not {bits}")
        columns, per = 256 // bits, 32 // bits
        words = registers_a(np.arange(4 * 128, dtype=np.uint32).reshape(4, 128), 32)  # register * 128 + lane
        cells = [
            _element(row, column, int(words[row, column // per]) % 128,
                     int(words[row, column // per]) // 128 * per + column % per, bits)
            for row in range(64) for column in range(columns)
        ]  # fmt: skip
        what = f"m64k{columns}, A from registers"
    else:
        raise ValueError(f'wgmma has "D" and "A" in registers, not {operand!r}: B is always in shared memory')
    element = "" if isinstance(dtype, int) else f" of {dtype.name}"
    return Grid(
        f"wgmma {what}{element}",
        f"64 x {columns}, {bits} bits an element; the 128 threads of a warpgroup, warp w in rows 16w to 16w+15",
        "row m", "column n" if operand == "D" else "column k", _count(64), _count(columns), cells, lane_legend(),
        (_reading(bits), "Colours repeat from warp to warp: T32 has that of T0."),
        row_rule=16, column_rule=8 if operand == "D" else _run(bits),
    ).picture()  # fmt: skip


def tcgen05(shape: str, count: int = 1, *, pack: bool = False, split: int = 4) -> Picture:
    """`tcgen05.ld` and `.st`: which register of which thread each cell of tensor memory goes to, for one warp.

    shape: "32x32b", "16x64b", "16x128b", "16x256b" or "16x32bx2" (whose second half lies `split` columns further).
    count: repetitions, `.x1` to `.x128`. pack: `.pack::16b`, two columns in a register. ValueError for others.
    PTX ISA 9.7.18.8.
    """
    if shape not in PER_REPEAT:
        raise ValueError(f"tcgen05.ld has the shapes {', '.join(PER_REPEAT)}, not {shape!r}")
    if count < 1 or count & count - 1 or count * PER_REPEAT[shape] > 128:
        most = 128 // PER_REPEAT[shape]
        raise ValueError(f"{shape} is repeated 1, 2, 4, ... {most} times, not {count}")
    lanes, low, high = register_places(shape, count, split, pack)
    cells: list[Cell] = []
    for thread in range(32):
        for register in range(low.shape[1]):
            lane, columns = int(lanes[thread, register]), (int(low[thread, register]), int(high[thread, register]))
            for half, column in enumerate(dict.fromkeys(columns)):
                name = f"r{register}" + (f".{_PARTS[16][half]}" if pack else "")
                detail = f"lane {lane}, column {column}: thread {thread}, {name}"
                cells.append(Cell(lane, column, (f"T{thread}", name), lane_colour(thread), detail))
    rows, columns = max(c.row for c in cells) + 1, max(c.column for c in cells) + 1
    notes = ["Rows and columns count from the address; warp w of a warpgroup reaches lanes 32w to 32w+31."]
    if shape == "16x32bx2":
        notes.append(f"The second half begins as many columns further as the instruction says: {split} here.")
    if pack:
        notes.append("A register takes the lower 16 bits of two neighbouring columns.")
    return Grid(
        f"tcgen05.ld / .st .{shape}.x{count}{'.pack::16b' if pack else ''}",
        f"{rows} lanes x {columns} columns of 32 bits, {_registers(low.shape[1])}",
        "tensor memory lane", "column", _count(rows), _count(columns), cells, lane_legend(), notes,
        row_rule=8 if rows > 8 else 0, column_rule=8 if columns > 8 else 0,
    ).picture()  # fmt: skip


def tcgen05_accumulator(m: int, n: int = 16, *, cta_group: int = 1) -> Picture:
    """Where `tcgen05.mma` puts D in tensor memory: the element in each lane and column of one CTA.

    m: rows of the instruction: 64 or 128, with cta_group 2 128 or 256 (half of them in each CTA). n: columns of D.
    Cells say row, column of D. ValueError for others. PTX ISA 9.7.18.10.
    """
    allowed = {1: (64, 128), 2: (128, 256)}
    if cta_group not in allowed or m not in allowed[cta_group]:
        raise ValueError(f"tcgen05.mma has m = 64 or 128 in cta_group 1, 128 or 256 in 2, not m = {m} in {cta_group}")
    if n % 8 or not 8 <= n <= 256 or (n % 16 and m // cta_group == 128):
        raise ValueError(f"n is a multiple of {8 if m == 64 else 16} up to 256, not {n}")
    rows = m // cta_group
    lanes, columns = (np.broadcast_to(x, (rows, n)) for x in accumulator_places(rows, n, str(cta_group)))
    cells = [
        Cell(int(lanes[r, c]), int(columns[r, c]), (f"{r},{c}",), shade(r // 16 / 8, 0.86 - 0.05 * (c // 8 % 2)),
             f"lane {lanes[r, c]}, column {columns[r, c]}: row {r}, column {c} of D")
        for r in range(rows) for c in range(n)
    ]  # fmt: skip
    wide = max(c.column for c in cells) + 1
    which = " (CTA 0 of the pair; CTA 1 has rows " + f"{rows} to {m - 1})" if cta_group == 2 else ""
    legend = [([shade(r / 8, 0.86), shade(r / 8, 0.81)], f"rows {16 * r}-{16 * r + 15}") for r in range(rows // 16)]
    return Grid(
        f"tcgen05.mma m{m}n{n}, cta_group::{cta_group}: D in tensor memory",
        f"cells say row,column of D{which}",
        "tensor memory lane", "column", _count(128), _count(wide), cells, legend, cell_height=20.0, cell_width=48.0,
        row_rule=32,
    ).picture()  # fmt: skip


def _element(row: int, column: int, lane: int, value: int, bits: int) -> Cell:
    """The cell of an element that is the value number `value` of a thread's fragment."""
    register, part = divmod(value, max(32 // bits, 1))
    low = part * bits
    name = f"r{register}"
    if bits < 32:
        name += f".{_PARTS[bits][part]}" if bits in _PARTS else f".{low}"
    where = f"bits {low} to {low + bits - 1}" if bits > 1 else f"bit {low}"
    detail = f"({row}, {column}): thread {lane}, register {register}, {where}"
    return Cell(row, column, (f"T{lane}", name), lane_colour(lane), detail)


def _reading(bits: int) -> str:
    return _READING.get(bits, "r0.4: the element that begins at bit 4 of register r0.")


def _registers(count: int) -> str:
    return f"{count} register{'s' if count > 1 else ''} a thread"


def _mnk(shape: Any) -> tuple[int, int, int]:
    numbers = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape) if isinstance(shape, str) else None
    found = numbers.groups() if numbers else () if isinstance(shape, str) else tuple(shape)
    if len(found) != 3:
        raise ValueError(f'a shape is "m16n8k16" or (16, 8, 16), not {shape!r}')
    m, n, k = map(int, found)
    return m, n, k


def _count(n: int) -> list[str]:
    return [str(i) for i in range(n)]
