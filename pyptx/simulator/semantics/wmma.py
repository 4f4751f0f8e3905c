"""wmma: matrix multiplication whose fragments are opaque (PTX ISA 9.7.16.4).

PTX leaves open which element a thread holds where; here thread `t` holds the elements `t * count` and on of the
row-major matrix. Fragments with more places than elements hold them again.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..machine.matrix_sum import matrix_sum
from ..machine.memory import Access, aligned
from ..machine.program import Inst, Operand, Reg
from ..machine.registry import Action, Collective, Mask, meaning
from .matrix import BITS, elements, numbers, registers_of, sum_bits, write_registers
from .mma import both, pairs
from .movement import space_of

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


class _Matrix:
    """A matrix in memory, accessed one place of the fragment at a time: `lanes` go to elements of their own. It begins at a
    multiple of `fragment`, the bytes that each thread has of it (PTX ISA 9.7.16.4.2).
    """

    def __init__(
        self,
        machine: Machine,
        inst: Inst,
        address: Operand,
        rest: list[Operand],
        which: str,
        bits: int,
        fragment: int,
    ):
        rows, columns = _size(which, _extent(inst))
        self.dtype = np.dtype(f"u{max(8, bits) // 8}")
        self.bits, self.columns = bits, columns
        self.by_rows = inst.has("row")
        self.check = aligned(machine, inst, address, fragment)
        self.access = Access(machine, inst, address, space_of(inst), self.dtype)
        self.start = self.access.row
        self.access.row = np.zeros_like(self.start)
        if not rest:
            self.stride: Array = np.array([columns if self.by_rows else rows])
        else:
            self.stride = machine.source(rest[0], "u32", whole=True)

    def _aim(self, lanes: Array, places: Array) -> Array:
        """Point the access of each lane at the element (row * columns + column) it is to have; its bit in the byte."""
        row, column = np.divmod(places, self.columns)
        stride = self.stride if self.stride.size == 1 else self.stride[lanes].astype(np.int64)
        at = (row * stride + column if self.by_rows else column * stride + row) * self.bits
        self.access.row[lanes] = self.start[lanes] + (at >> 3).astype(self.start.dtype)
        return at & 7

    def load(self, lanes: Array, places: Array) -> Array:
        bit = self._aim(lanes, places)
        value = self.access.load(lanes)
        return value >> bit.astype(self.dtype) & self.dtype.type((1 << self.bits) - 1) if self.bits < 8 else value

    def store(self, lanes: Array, places: Array, values: Array) -> None:
        self._aim(lanes, places)
        self.access.store(lanes, values)


def _lanes(machine: Machine, mask: Mask) -> Array:
    """All lanes of the warps that execute: the instruction is `.aligned`."""
    warps = np.flatnonzero(machine.ballot(machine.executing(mask)))
    return (warps[:, None] * 32 + np.arange(32)).reshape(-1)


@meaning("wmma.load.a", waits=True, which="a")
@meaning("wmma.load.b", waits=True, which="b")
@meaning("wmma.load.c", waits=True, which="c")
def load(inst: Inst, *, which: str) -> Collective:
    return Collective(partial(_bind_load, which=which))


def _bind_load(machine: Machine, inst: Inst, which: str) -> Action:
    d, address, *rest = inst.operands
    rows, columns = _size(which, _extent(inst))
    kind = inst.type
    bits = BITS[kind]
    targets = [o if isinstance(o, Reg) else None for o in registers_of(d)]
    width = 64 if bits == 64 else 32
    per = width // bits
    places = _places(rows, columns, len(targets) * per)
    matrix = _Matrix(machine, inst, address, rest, which, bits, len(targets) * width // 8)

    def step(mask: Mask) -> None:
        lanes = _lanes(machine, mask)
        matrix.check(mask)
        words = np.zeros((machine.warps * 32, len(targets)), np.dtype(f"u{width // 8}"))
        for slot in range(places.shape[1]):
            value = matrix.load(lanes, places[lanes % 32, slot]).astype(words.dtype)
            words[lanes, slot // per] |= value << words.dtype.type(slot % per * bits)
        write_registers(machine, targets, words.reshape(machine.warps, 32, -1), mask)

    return step


@meaning("wmma.store.d", waits=True)
def store(inst: Inst) -> Collective:
    return Collective(_bind_store)


def _bind_store(machine: Machine, inst: Inst) -> Action:
    address, source, *rest = inst.operands
    rows, columns = _size("d", _extent(inst))
    bits = BITS[inst.type]
    registers = registers_of(source)
    places = _places(rows, columns, rows * columns // 32)
    matrix = _Matrix(machine, inst, address, rest, "d", bits, len(registers) * (64 if bits == 64 else 32) // 8)

    def step(mask: Mask) -> None:
        lanes = _lanes(machine, mask)
        matrix.check(mask)
        patterns = elements(machine, registers, bits).reshape(machine.warps * 32, -1).astype(matrix.dtype)
        for slot in range(places.shape[1]):
            matrix.store(lanes, places[lanes % 32, slot], patterns[lanes, slot])

    return step


@meaning("wmma.mma", waits=True)
def multiply(inst: Inst) -> Collective:
    return Collective(_bind_mma)


def _bind_mma(machine: Machine, inst: Inst) -> Action:
    shape = _extent(inst)
    m, n, k = shape
    d, a, b, c = inst.operands
    if len(inst.types) == 2:  # of half precision A and B
        dtype, ctype = inst.types
        atype = btype = "f16"
    else:
        dtype, atype, btype, ctype = inst.types
    targets = [o if isinstance(o, Reg) else None for o in registers_of(d)]
    clamp = inst.has("satfinite")
    total = matrix_sum(machine, inst, "wmma", (dtype, atype, btype), (m, k), clamp=clamp)
    dbits = BITS[dtype]

    def matrix(operand: Operand, which: str, kind: str) -> Array:
        rows, columns = _size(which, shape)
        patterns = elements(machine, registers_of(operand), BITS[kind]).reshape(machine.warps, -1)[:, : rows * columns]
        return np.ascontiguousarray(patterns).reshape(machine.warps, rows, columns)

    def step(mask: Mask) -> None:
        x, y = numbers(matrix(a, "a", atype), atype), numbers(matrix(b, "b", btype), btype)
        if inst.has("xor"):
            x, y = both(x, y)
        bits = total(x, y, sum_bits(matrix(c, "c", ctype), ctype, dtype))
        if clamp and dtype in ("f16", "f32"):
            sums = bits.view(np.float16 if dtype == "f16" else np.float32)
            most = np.finfo(sums.dtype).max
            bits = np.where(np.isnan(sums), sums.dtype.type(0), np.clip(sums, -most, most)).view(bits.dtype)
        bits = bits.reshape(machine.warps, m * n)
        slots = len(targets) * (64 if dbits == 64 else 32) // dbits
        values = bits[:, _places(m, n, slots)]
        if dbits == 16:
            values = pairs(values)
        write_registers(machine, targets, values, mask)

    return step
