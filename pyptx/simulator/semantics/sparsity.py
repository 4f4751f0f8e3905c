"""Structured sparsity in registers: spcompress, spdecompress (PTX ISA 9.7.10.30, 9.7.10.31).

What the manual leaves to the implementation: kept elements stay in their order; of equal ones, and of three and more NaNs, the first are
kept; MAXABS and MINABS do not tell -0 from +0; where two indices of a group are equal, the later element stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...numerics.formats import FORMATS
from ..machine.machine import Machine
from ..machine.program import Inst, Operand, Reg
from ..machine.registry import Action, Mask, Step, meaning
from .matrix import registers_of

Array = Any
TYPES = {8: ("u8", "s8", "e5m2", "e4m3", "e3m2", "e2m3"), 16: ("f16", "bf16")}
"""The types that bits 2 to 4 of a descriptor name, by the size of an element."""
_COMPARED = 0b11
_SHORTER = 0b01
_SMALLEST = 0b10


def _read(machine: Machine, operand: Operand, lanes: Array, bits: int) -> Array:
    """The elements of so many bits in some lanes of a vector: (lanes, elements)."""
    rows = [machine.source(o, "b32", whole=True)[lanes] for o in registers_of(operand)]
    words = np.stack(rows, axis=1)
    if bits >= 8:
        return words.view(f"u{bits // 8}")
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return (words[..., None] >> shifts & np.uint32((1 << bits) - 1)).reshape(len(lanes), -1)


def _write(machine: Machine, operand: Operand, lanes: Array, elements: Array, bits: int) -> None:
    """Fill the registers of a vector with elements of so many bits, and with zeros after them."""
    registers = registers_of(operand)
    per = 32 // bits
    padded = np.zeros((len(lanes), len(registers) * per), np.uint32)
    padded[:, : elements.shape[1]] = elements
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    words = np.bitwise_or.reduce(padded.reshape(len(lanes), -1, per) << shifts, axis=2)
    for register, word in zip(registers, words.T, strict=True):
        assert isinstance(register, Reg)
        machine.row(register)[lanes] = word


def rank(codes: Array, kind: str, comparison: int) -> Array:
    """How eagerly each element is kept, by the comparison in a descriptor: larger first. int64, NaNs above all."""
    absolute, smallest = comparison & _SHORTER, comparison & _SMALLEST
    if kind in ("u8", "s8"):
        value = codes.view(np.int8 if kind == "s8" else np.uint8).astype(np.int64)
        value = np.abs(value) if absolute else value
        return -value if smallest else value
    form = FORMATS[kind]
    magnitude = codes.astype(np.int64) & form.magnitude_mask
    negative = codes >> (form.code_bits - 1) & 1 == 1
    value = magnitude if absolute else np.where(negative, ~magnitude, magnitude)  # ~0 is -1: -0 is below +0
    value = -value if smallest else value
    largest = form.infinity_code if form.nan == "ieee" else form.magnitude_mask - (form.nan == "all_ones")
    return np.where(magnitude > largest, 1 << 32, value)


@meaning("spcompress")
def spcompress(inst: Inst) -> Step:
    return Step(_bind_spcompress)


def _bind_spcompress(machine: Machine, inst: Inst) -> Action:
    mdata, cdata, data, spdesc = inst.operands
    bits, index_bits = (16 if inst.has("b16") else 8), (4 if inst.has("b4") else 2)
    descriptor = machine.source(spdesc, "b32", whole=True)

    def compress(lanes: Array, found: int) -> None:
        kind = found >> 2
        if kind >= len(TYPES[bits]):
            known = ", ".join(f"{i} {name}" for i, name in enumerate(TYPES[bits]))
            message = f"the descriptor {found:#x} has type {kind} in bits 2 to 31; with .b{bits} there is {known}"
            machine.fault(inst, message, int(lanes[0]))
        groups = _read(machine, data, lanes, bits).reshape(len(lanes), -1, 4)
        order = np.argsort(-rank(groups, TYPES[bits][kind], found & _COMPARED), axis=2, kind="stable")
        places = np.sort(order[:, :, :2], axis=2)
        kept = np.take_along_axis(groups, places, axis=2)
        _write(machine, mdata, lanes, places.reshape(len(lanes), -1), index_bits)
        _write(machine, cdata, lanes, kept.reshape(len(lanes), -1), bits)

    def step(m: Mask) -> None:
        lanes = np.flatnonzero(machine.executing(m))
        descriptors = descriptor[lanes].copy()  # a result may overwrite them
        for found in np.unique(descriptors):
            compress(lanes[descriptors == found], int(found))

    return step


@meaning("spdecompress")
def spdecompress(inst: Inst) -> Step:
    return Step(_bind_spdecompress)


def _bind_spdecompress(machine: Machine, inst: Inst) -> Action:
    data, mdata, cdata = inst.operands
    bits, index_bits = (16 if inst.has("b16") else 8), (4 if inst.has("b4") else 2)
    factor = next(m for m in inst.modifiers if m.startswith("sp::"))
    kept, size = map(int, factor.removeprefix("sp::").split(":"))
    count = int(next(m for m in inst.modifiers if m[0] == "x")[1:])

    def step(m: Mask) -> None:
        lanes = np.flatnonzero(machine.executing(m))
        places = _read(machine, mdata, lanes, index_bits)[:, : count * kept].reshape(len(lanes), count, kept)
        elements = _read(machine, cdata, lanes, bits)[:, : count * kept].reshape(len(lanes), count, kept)
        beyond = np.argwhere(places >= size)
        if len(beyond):
            lane, group, _ = beyond[0]
            message = f"an index of group {group} is {places[tuple(beyond[0])]}, and a group has {size} elements"
            machine.fault(inst, message, int(lanes[lane]))
        dense = np.zeros((len(lanes), count, size), elements.dtype)
        every = np.arange(len(lanes))[:, None], np.arange(count)
        for i in range(kept):
            dense[(*every, places[..., i])] = elements[..., i]
        _write(machine, data, lanes, dense.reshape(len(lanes), -1), bits)

    return step
