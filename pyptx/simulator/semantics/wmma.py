"""wmma: matrix multiplication whose fragments are opaque (PTX ISA 9.7.14.4).

PTX leaves open which element a thread holds where; here thread `t` holds the elements `t * count` and on of the
row-major matrix. Fragments with more places than elements hold them again.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..machine import Machine
from ..memory import address_of, span
from ..numerics import floating
from ..program import Imm, Inst, Operand, Reg
from .matrix import BITS, elements, numbers, registers_of, rounded, write_registers
from .movement import space_of
from .registry import Action, Collective, Mask, meaning

Array = Any


def _extent(inst: Inst) -> tuple[int, int, int]:
    found = re.findall(r"\d+", next(x for x in inst.modifiers if re.fullmatch(r"m\d+n\d+k\d+", x)))
    return int(found[0]), int(found[1]), int(found[2])


def _size(which: str, shape: tuple[int, int, int]) -> tuple[int, int]:
    m, n, k = shape
    return {"a": (m, k), "b": (k, n)}.get(which, (m, n))


def _places(rows: int, columns: int, slots: int) -> Array:
    """(32, slots) -> row * columns + column of the element there."""
    return (np.arange(32 * slots) % (rows * columns)).reshape(32, slots)


def _memory(inst: Inst, which: str, rows: int, columns: int, bits: int, stride: int) -> tuple[Array, int]:
    """(bit offset of each element of the row-major matrix in memory, bytes from the first to the last)."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    offset = (row * stride + column if inst.has("row") else column * stride + row) * bits
    return offset, (int(offset.max()) + bits + 7) // 8


def _stride(machine: Machine, inst: Inst, rest: list[Operand], rows: int, columns: int, lane: int) -> int:
    if not rest:
        return columns if inst.has("row") else rows
    if isinstance(rest[0], Imm):
        return int(rest[0].value)
    source = machine.source(rest[0], "u32")
    return int(source[lane % source.size])


def _warps(machine: Machine, mask: Mask) -> list[int]:
    return np.flatnonzero(machine.ballot(machine.executing(mask))).tolist()


@meaning("wmma.load.a", "wmma.load.b", "wmma.load.c", waits=True)
def load(inst: Inst) -> Collective:
    return Collective(_bind_load)


def _bind_load(machine: Machine, inst: Inst) -> Action:
    which = inst.opcode[-1]
    d, address, *rest = inst.operands
    rows, columns = _size(which, _extent(inst))
    kind = inst.type
    bits = BITS[kind]
    targets = [o if isinstance(o, Reg) else None for o in registers_of(d)]
    width = 64 if bits == 64 else 32
    slots = len(targets) * width // bits
    places = _places(rows, columns, slots)
    space = space_of(inst)

    def step(mask: Mask) -> None:
        words = np.zeros((machine.warps, 32, len(targets)), np.dtype(f"u{width // 8}"))
        for warp in _warps(machine, mask):
            lane = 32 * warp
            offset, size = _memory(inst, which, rows, columns, bits, _stride(machine, inst, rest, rows, columns, lane))
            view = span(
                machine,
                inst,
                address_of(machine, address, lane),
                space,
                lane,
                size,
                write=False,
                align=max(1, bits // 8),
            )
            at = offset[places]
            if bits < 8:
                patterns = (view[at >> 3] >> (at & 7).astype(np.uint8)) & np.uint8((1 << bits) - 1)
                shifts = np.arange(width // bits, dtype=np.uint32) * np.uint32(bits)
                parts = patterns.reshape(32, len(targets), -1).astype(np.uint32) << shifts
                words[warp] = np.bitwise_or.reduce(parts, axis=-1)
            else:
                index = (at >> 3)[..., None] + np.arange(bits // 8)
                words[warp] = np.ascontiguousarray(view[index]).reshape(32, -1).view(words.dtype)
        write_registers(machine, targets, words, mask)

    return step


@meaning("wmma.store.d", waits=True)
def store(inst: Inst) -> Collective:
    return Collective(_bind_store)


def _bind_store(machine: Machine, inst: Inst) -> Action:
    address, source, *rest = inst.operands
    rows, columns = _size("d", _extent(inst))
    bits = BITS[inst.type]
    registers = registers_of(source)
    space = space_of(inst)

    def step(mask: Mask) -> None:
        patterns = elements(machine, registers, bits)
        dtype = np.dtype(f"u{bits // 8}")
        for warp in _warps(machine, mask):
            lane = 32 * warp
            offset, size = _memory(inst, "d", rows, columns, bits, _stride(machine, inst, rest, rows, columns, lane))
            view = span(
                machine, inst, address_of(machine, address, lane), space, lane, size, write=True, align=bits // 8
            )
            values = np.ascontiguousarray(patterns[warp]).reshape(-1)[: rows * columns].astype(dtype)
            view[(offset >> 3)[:, None] + np.arange(bits // 8)] = values.view(np.uint8).reshape(rows * columns, -1)

    return step


@meaning("wmma.mma", waits=True)
def multiply(inst: Inst) -> Collective:
    return Collective(_bind_mma)


def _bind_mma(machine: Machine, inst: Inst) -> Action:
    shape = _extent(inst)
    m, n, _ = shape
    d, a, b, c = inst.operands
    if len(inst.types) == 2:  # of half precision A and B
        dtype, ctype = inst.types
        atype = btype = "f16"
    else:
        dtype, atype, btype, ctype = inst.types
    targets = [o if isinstance(o, Reg) else None for o in registers_of(d)]
    rounding: Any = inst.one_of("rz", "rm", "rp")
    clamp = inst.has("satfinite")
    dbits = BITS[dtype]

    def matrix(operand: Operand, which: str, kind: str) -> Array:
        rows, columns = _size(which, shape)
        patterns = elements(machine, registers_of(operand), BITS[kind]).reshape(machine.warps, -1)[:, : rows * columns]
        return numbers(np.ascontiguousarray(patterns), kind).reshape(machine.warps, rows, columns)

    def step(mask: Mask) -> None:
        x, y, z = matrix(a, "a", atype), matrix(b, "b", btype), matrix(c, "c", ctype)
        if inst.has("xor"):
            total = x @ (1 - y) + (1 - x) @ y + z
        elif rounding:
            total = z
            for i in range(shape[2]):
                left, right = np.broadcast_arrays(x[:, :, i : i + 1], y[:, i : i + 1, :])
                total = floating.fma(np.ascontiguousarray(left), np.ascontiguousarray(right), total, rounding=rounding)
        else:
            total = x @ y + z
        if inst.has("satfinite") and dtype in ("f16", "f32"):
            most = 65504.0 if dtype == "f16" else float(np.finfo(np.float32).max)
            total = np.where(np.isnan(total), 0.0, np.clip(total, -most, most))
        bits = rounded(total, dtype, clamp).reshape(machine.warps, m * n)
        slots = len(targets) * (64 if dbits == 64 else 32) // dbits
        values = bits[:, _places(m, n, slots)]
        if dbits == 16:
            values = values[..., ::2] | values[..., 1::2] << np.uint32(16)
        write_registers(machine, targets, values, mask)

    return step
