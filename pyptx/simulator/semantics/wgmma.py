"""Warpgroup matrix instructions (PTX ISA 9.7.17): wgmma.mma_async and what orders it.

A wgmma is complete when issued, which is one of the orders PTX allows. Sums are those of `machine/matrix_sum.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from ...numerics.tensor_cores.native import Places
from ..machine.machine import Machine, OperandRead
from ..machine.matrix_sum import matrix_sum
from ..machine.program import Imm, Inst, Not, Operand, Reg, Sink, Vec
from ..machine.registry import Action, Collective, Mask, Step, meaning
from ..tensor.shared_operand import (
    OperandError,
    chunk_addresses,
    hopper_descriptor,
    numbers,
    read_patterns,
    tell_operands,
)
from ..tensor.sparsity import place_nonzeros, quad_codes

Array = Any
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}


def warpgroups(machine: Machine, inst: Inst, mask: Mask) -> list[int]:
    """First lanes of the warpgroups in a mask. SimulationError if one is not complete."""
    here = machine.executing(mask)
    if machine.padded % 128 == 0:
        groups = here.reshape(-1, 128)
        some = groups.any(axis=1)
        if np.array_equal(some, groups.all(axis=1)):
            return (np.flatnonzero(some) * 128).tolist()
    found: list[int] = []
    for cta in range(machine.ctas):
        for first in range(cta * machine.padded, (cta + 1) * machine.padded, 128):
            part = here[first : min(first + 128, (cta + 1) * machine.padded)]
            count = np.count_nonzero(part)
            if not count:
                continue
            if count < 128:
                machine.fault(
                    inst,
                    f"{inst.opcode} needs all 128 threads of a warpgroup (four warps, the first a multiple of four); "
                    f"{count} are here",
                    first + int(np.flatnonzero(part)[0]),
                )
            found.append(first)
    return found


class Fragment:
    """Registers of a warpgroup as one array: rows are registers, columns lanes."""

    def __init__(self, machine: Machine, operand: Operand):
        registers = operand.elements if isinstance(operand, Vec) else (operand,)
        self.registers = registers
        self.block: Array = None
        slots = [r.slot if isinstance(r, Reg) else -1 for r in registers]
        first = registers[0]
        if isinstance(first, Reg) and all(isinstance(r, Reg) and r.pool == "32" for r in registers):
            if slots == list(range(slots[0], slots[0] + len(slots))):
                self.block = machine.pools["32"][slots[0] : slots[0] + len(slots)]
        self.rows = [
            None
            if isinstance(r, Sink)
            else machine.row(r)
            if isinstance(r, Reg)
            else machine.source(r, "b32", whole=True)
            for r in registers
        ]

    def view(self, first: int) -> Array:
        """The registers of the lanes from `first` on: (registers, 128), uint32. A copy if they are not neighbours."""
        if self.block is not None:
            return self.block[:, first : first + 128]
        return np.stack([np.zeros(128, np.uint32) if r is None else r[first : first + 128] for r in self.rows])

    def put(self, first: int, values: Array) -> None:
        """Write what `view` gave, changed; nothing to do if it was not a copy."""
        if self.block is None:
            for row, value in zip(self.rows, values, strict=True):
                if row is not None:
                    row[first : first + 128] = value


@meaning("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group")
def order(inst: Inst) -> Step:
    return Step(lambda machine, inst: lambda m: None)


@meaning("wgmma.mma_async", waits=True)
def mma_async(inst: Inst) -> Collective:
    return Collective(_bind, "warpgroup")


def _uniform(machine: Machine, operand: Operand, lane: int, kind: str) -> int:
    if isinstance(operand, Not):
        return not _uniform(machine, operand.operand, lane, kind)
    source = machine.source(operand, kind)
    return int(source[lane % source.size])


def registers_a(registers: Array, bits: int) -> Array:
    """A from registers, as bit patterns: (4, 128) uint32 -> (64, k of 128 bits a row)."""
    per = 32 // bits
    # register: m/8 (fast), k/4 words; lane: k word (4), m (8), m/16 (4)
    words = registers.reshape(2, 2, 4, 8, 4).transpose(2, 1, 3, 0, 4)  # m/16, m/8, m, k/4, k word
    words = np.ascontiguousarray(words).reshape(64, 8)
    if per == 1:
        return words
    return words.view(np.dtype(f"u{max(1, bits // 8)}"))


def _immediate(operand: Operand) -> int:
    assert isinstance(operand, Imm)
    return int(operand.value)


def _bind(machine: Machine, inst: Inst) -> Action:
    _, n, k = map(int, re.findall(r"\d+", next(x for x in inst.modifiers if re.fullmatch(r"m\d+n\d+k\d+", x))))
    dtype, atype, btype = inst.types[:3]
    sparse = inst.has("sp")
    d, a, b, *rest = inst.operands
    metadata = selector = None
    if sparse:
        metadata, selector = rest[0], _immediate(rest[1])
        rest = rest[2:]
    scale_d, *immediates = rest
    negative = dtype != "s32" and _immediate(immediates[0]) * _immediate(immediates[1]) < 0
    from_registers = isinstance(a, Vec)
    turned = [bool(_immediate(i)) for i in immediates[2:]]
    turned_a = bool(turned[0]) if turned and not from_registers else False
    turned_b = bool(turned[-1]) if turned else False
    abits, bbits = BITS[atype], BITS[btype]
    accumulator = Fragment(machine, d)
    fragment_a = Fragment(machine, a) if from_registers else None
    k_a = k // 2 if sparse else k
    metadata_row = None if metadata is None else machine.source(metadata, "b32", whole=True)

    total = matrix_sum(
        machine, inst, "wgmma", (dtype, atype, btype), (64, k), sparse=sparse, clamp=inst.has("satfinite")
    )

    def operand(which: Operand, lane: int, rows: int, depth: int, bits: int, kind: str, mn_major: bool) -> Array:
        descriptor = hopper_descriptor(_uniform(machine, which, lane, "u64"))
        cta = int(machine.cta_of_lane[lane])
        try:
            patterns = read_patterns(machine.shared[cta], machine.shared_size, descriptor, rows, depth, bits, mn_major)
        except OperandError as error:
            machine.fault(inst, str(error), lane)
        if machine.observers:
            where = chunk_addresses(rows, depth * bits // 8, rows * bits // 8, depth, descriptor, mn_major)
            read.append(OperandRead(lane, cta, where))
        return numbers(patterns, kind)

    read: list[OperandRead] = []

    def step(mask: Mask) -> None:
        try:
            multiply(mask)
        finally:  # those before one that faults, too
            if read:
                tell_operands(machine, inst, read)
                read.clear()

    def multiply(mask: Mask) -> None:
        for first in warpgroups(machine, inst, mask):
            if fragment_a is None:
                x = operand(a, first, 64, k_a, abits, atype, turned_a)
            else:
                x = numbers(registers_a(fragment_a.view(first), abits), atype)
            if metadata_row is not None:
                assert selector is not None
                x = place_nonzeros(x, metadata_codes(metadata_row[first : first + 128], selector, abits), abits)
            y = operand(b, first, n, k, bbits, btype, turned_b)
            accumulate = _uniform(machine, scale_d, first, "pred" if not isinstance(scale_d, Imm) else "u32")
            registers = accumulator.view(first)
            if not accumulate:
                registers[...] = 0
            x = -x if negative else x
            if not total.in_place(x, y.T, registers, _places(dtype, registers.strides[0] // 4)):
                registers[...] = _registers(total(x, y.T, _matrix(registers, dtype), lane=first), dtype)
            accumulator.put(first, registers)

    return step


def accumulators(matrix: Array) -> Array:
    """D, (64, n), as the accumulators of the 128 threads hold it: (n/8, 2, 2, 4, 8, 4). The first three axes count
    values (n/8, m/8, n%2), the others lanes (m/16, m%8, n/2%4).
    """
    return matrix.reshape(4, 2, 8, -1, 4, 2).transpose(3, 1, 5, 0, 2, 4)


@lru_cache(maxsize=64)
def _places(kind: str, lanes: int) -> Places:
    """Where D is in registers of so many lanes: words of 32 bits, or halves of them for f16."""
    row = np.arange(64, dtype=np.int64)
    word = row // 8 % 2 * (2 if kind == "f32" else 1) * lanes + row // 16 * 32 + row % 8 * 4
    if kind == "f32":  # a register has one column of each pair, a lane and its neighbours those of the next pairs
        return Places(word, 4 * lanes, lanes, (0, 2, 4, 6, 1, 3, 5, 7))
    return Places(2 * word, 4 * lanes)


def _matrix(registers: Array, kind: str) -> Array:
    """The bits of D, (64, n), from the accumulators."""
    if kind != "f16":
        return _back(registers.reshape(-1, 2, 2, 4, 8, 4))
    halves = np.ascontiguousarray(registers).view(np.uint16).reshape(-1, 2, 4, 8, 4, 2)
    return _back(halves.transpose(0, 1, 5, 2, 3, 4))


def _back(parts: Array) -> Array:
    """What `accumulators` took apart."""
    return parts.transpose(3, 1, 4, 0, 5, 2).reshape(64, -1)


def _registers(bits: Array, kind: str) -> Array:
    """The accumulators from bit patterns of D, (64, n), a word each."""
    parts = accumulators(bits)
    if kind != "f16":
        return parts.reshape(-1, 128)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 5, 2)).view(np.uint32).reshape(-1, 128)


def metadata_codes(metadata: Array, selector: int, bits: int) -> Array:
    """The 4-bit code of each group of A, (64, groups), from the metadata registers of the 128 threads."""
    return quad_codes(metadata.reshape(4, 8, 4), selector, 16 if bits == 8 else 8).reshape(64, -1)
