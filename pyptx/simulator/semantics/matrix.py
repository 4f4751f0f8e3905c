"""Fragments of matrices in the registers of a warp, and their loads and stores (PTX ISA 9.7.16): ldmatrix, stmatrix,
movmatrix.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...dialects.ptx.fragments import fragment
from ...numerics import formats
from ..machine.machine import Machine
from ..machine.memory import Access
from ..machine.program import Address, Inst, Operand, Reg, Sink, Vec
from ..machine.registry import Action, Collective, Mask, meaning
from .movement import space_of

Array = Any
FLOATS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8}
BITS = {**FLOATS, "f32": 32, "f64": 64, "s32": 32, "u8": 8, "s8": 8, "u4": 4, "s4": 4, "b1": 1}
WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@lru_cache(maxsize=256)
def inverse(operand: str, m: int, n: int, k: int, bits: int) -> np.ndarray:
    """[row * columns + column] -> lane * values + value."""
    table = fragment(operand, m, n, k, bits).reshape(-1)
    found = np.empty(table.size, np.int64)
    found[table] = np.arange(table.size)
    return found


def elements(machine: Machine, operands: tuple[Operand, ...], bits: int) -> np.ndarray:
    """The unsigned bit patterns of a fragment: (warps, 32, values)."""
    width = "b64" if bits == 64 else "b32"
    rows = np.stack([np.broadcast_to(machine.source(o, width), machine.lanes) for o in operands], axis=-1)
    if bits >= 32:
        return rows.reshape(machine.warps, 32, -1)
    per = 32 // bits
    shifts = np.arange(per, dtype=np.uint32) * np.uint32(bits)
    split = (rows[..., None] >> shifts) & np.uint32((1 << bits) - 1)
    return split.reshape(machine.warps, 32, -1)


def numbers(patterns: np.ndarray, kind: str) -> np.ndarray:
    """Bit patterns as float64 numbers."""
    match kind:
        case "f64":
            return patterns.view(np.float64)
        case "tf32":
            # the multiplier does not see the low 13 bits
            return (patterns & np.uint32(0xFFFF_E000)).view(np.float32).astype(np.float64)
        case "s8" | "s4":
            bits = BITS[kind]
            signed = patterns.astype(np.int64)
            return (signed - ((signed >> (bits - 1)) << bits)).astype(np.float64)
        case "u8" | "u4" | "b1":
            return patterns.astype(np.float64)
        case "e2m1" | "e3m2" | "e2m3":
            # in a byte each: e2m1 in bits 2 to 5, the others in the low 6 bits
            code = patterns >> np.uint32(2) & np.uint32(15) if kind == "e2m1" else patterns & np.uint32(63)
            return formats.decode(code.astype(np.uint8), kind)
        case _:
            dtype = np.uint16 if BITS[kind] == 16 else np.uint8
            return formats.decode(patterns.astype(dtype), kind)


def sum_bits(patterns: np.ndarray, kind: str, dtype: str) -> np.ndarray:
    """Bit patterns of C, of type `kind`, as bits of D's type."""
    own = patterns.astype(WORDS[BITS[kind]])
    return own if kind == dtype else formats.encode(formats.decode(own, kind), dtype)


def registers_of(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vec) else (operand,)


def write_registers(machine: Machine, targets: list[Reg | None], values: np.ndarray, mask: Mask) -> None:
    """Registers from values of shape (warps, 32, registers)."""
    for i, target in enumerate(targets):
        if target is None:
            continue
        value = values[..., i].reshape(-1)
        row = machine.row(target)
        if mask is None:
            row[...] = value
        else:
            np.copyto(row, value, "unsafe", mask)


# ------------------------------------------------------------------------------------------------ loads and
# stores


def _matrices(inst: Inst) -> int:
    return int((inst.one_of("x1", "x2", "x4") or "x1")[1:])


def _row_lanes(machine: Machine, mask: Mask, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(warps that execute, the lanes whose addresses count: one per row)."""
    here = machine.executing(mask).reshape(-1, 32)
    warps = np.flatnonzero(here.any(axis=1))
    lanes = (warps[:, None] * 32 + np.arange(count)).reshape(-1)
    return warps, lanes


def unpacked(rows: np.ndarray, source: str | None) -> np.ndarray:
    """Rows of 16 bytes, those of 4 or 6 bit elements with each element in a byte of its own (signed for s4)."""
    if source is None:
        return rows
    if source in ("b4x16_p64", "s4"):
        packed = rows[..., :8]
        nibbles = np.stack([packed & np.uint8(15), packed >> np.uint8(4)], axis=-1).reshape(*rows.shape[:-1], 16)
        return nibbles if source != "s4" else nibbles | (nibbles >> np.uint8(3)) * np.uint8(0xF0)
    bits = np.unpackbits(rows[..., :12], axis=-1, bitorder="little").reshape(*rows.shape[:-1], 16, 6)
    return (bits << np.arange(6, dtype=np.uint8)).sum(axis=-1, dtype=np.uint8)


@meaning("ldmatrix", waits=True)
def ldmatrix(inst: Inst) -> Collective:
    return Collective(_bind_ldmatrix)


def _bind_ldmatrix(machine: Machine, inst: Inst) -> Action:
    count = _matrices(inst)
    address = inst.operands[1]
    assert isinstance(address, Address)
    source = inst.one_of("b4x16_p64", "b6x16_p32", "s4")
    words = inst.family.bytes_together(inst.modifiers) // 4  # of a row
    access = Access(machine, inst, address, space_of(inst), np.dtype(np.uint32), words)
    targets = [o if isinstance(o, Reg) else None for o in registers_of(inst.operands[0])]
    lane = np.arange(32)
    transposed = inst.has("trans")
    tall = inst.has("m16n16")
    per = 16 if tall else 8

    def step(mask: Mask) -> None:
        warps, lanes = _row_lanes(machine, mask, per * count)
        loaded = np.ascontiguousarray(access.load(lanes))
        rows = np.ascontiguousarray(unpacked(loaded.view(np.uint8), source)).view(np.uint32)
        rows = rows.reshape(warps.size, count, per, 4)
        if tall:
            # register 2i + q, byte j: row 4 * (t % 4) + j, column t // 4 + 8q of matrix i
            bytes_ = rows.view(np.uint8)  # (warps, matrices, 16, 16)
            picked = [
                bytes_[:, :, 4 * (lane % 4)[:, None] + np.arange(4), (lane // 4 + 8 * q)[:, None]] for q in range(2)
            ]
            values = np.ascontiguousarray(np.stack(picked, axis=2)).view(np.uint32).reshape(warps.size, 2 * count, 32)
        elif transposed:
            halves = rows.view(np.uint16)  # (warps, matrices, 8, 8)
            low = halves[:, :, 2 * (lane % 4), lane // 4].astype(np.uint32)
            high = halves[:, :, 2 * (lane % 4) + 1, lane // 4].astype(np.uint32)
            values = low | high << np.uint32(16)
        else:
            values = rows[:, :, lane // 4, lane % 4]
        for i, target in enumerate(targets):
            if target is not None:
                row = machine.row(target).reshape(-1, 32)
                if mask is None:
                    row[warps] = values[:, i]
                else:
                    row[warps] = np.where(mask.reshape(-1, 32)[warps], values[:, i], row[warps])

    return step


@meaning("stmatrix", waits=True)
def stmatrix(inst: Inst) -> Collective:
    return Collective(_bind_stmatrix)


def _bind_stmatrix(machine: Machine, inst: Inst) -> Action:
    count = _matrices(inst)
    access = Access(machine, inst, inst.operands[0], space_of(inst), np.dtype(np.uint32), 4)
    sources = [machine.source(o, "b32") for o in registers_of(inst.operands[1])]
    transposed = inst.has("trans")
    bytewise = inst.has("b8")
    lane = np.arange(32)

    def step(mask: Mask) -> None:
        warps, lanes = _row_lanes(machine, mask, 8 * count)
        rows = np.zeros((warps.size, count, 8, 4), np.uint32)
        halves = rows.view(np.uint16)
        bytes_ = rows.view(np.uint8)
        for i, source in enumerate(sources):
            value = np.broadcast_to(source, machine.lanes).reshape(-1, 32)[warps]
            if bytewise:
                for j in range(4):
                    byte = (value >> np.uint32(8 * j)).astype(np.uint8)
                    bytes_[:, i, 2 * (lane % 4) + j % 2, lane // 4 + 8 * (j // 2)] = byte
            elif transposed:
                halves[:, i, 2 * (lane % 4), lane // 4] = value.astype(np.uint16)
                halves[:, i, 2 * (lane % 4) + 1, lane // 4] = (value >> np.uint32(16)).astype(np.uint16)
            else:
                rows[:, i, lane // 4, lane % 4] = value
        access.store(lanes, rows.reshape(-1, 4))

    return step


@meaning("movmatrix", waits=True)
def movmatrix(inst: Inst) -> Collective:
    """Transpose an 8x8 matrix of 16-bit elements held one register per thread."""

    def bind(machine: Machine, inst: Inst) -> Action:
        d, a = inst.operands
        source = machine.source(a, "b32")
        target = None if isinstance(d, Sink) else d
        lane = np.arange(32)
        assert target is None or isinstance(target, Reg)

        def step(mask: Mask) -> None:
            halves = np.ascontiguousarray(source).view(np.uint16).reshape(-1, 8, 8)
            low = halves[:, 2 * (lane % 4), lane // 4].astype(np.uint32)
            high = halves[:, 2 * (lane % 4) + 1, lane // 4].astype(np.uint32)
            write_registers(machine, [target], (low | high << np.uint32(16))[..., None], mask)

        return step

    return Collective(bind)
