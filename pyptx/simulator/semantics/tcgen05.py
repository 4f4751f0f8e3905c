"""Tensor memory instructions of Blackwell (PTX ISA 9.7.18): allocation, loads, stores, copies, shifts, commit.

Asynchronous operations are complete when issued, which is one of the orders PTX allows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...numerics import floating
from ..machine.machine import Machine, OperandRead
from ..machine.memory import Access, address_of, seen_by
from ..machine.program import CLUSTER_SHIFT, Imm, Inst, Operand, Reg
from ..machine.registry import Action, Collective, Mask, Step, meaning
from ..machine.tensor_access import tensor_memory, touched
from ..machine.tensor_memory import LANES, PER_REPEAT, register_places
from ..tensor.shared_operand import (
    Descriptor,
    OperandError,
    blackwell_descriptor,
    chunk_addresses,
    read_patterns,
    tell_operands,
)
from .matrix import registers_of, unpacked
from .mbarrier import complete_tx
from .operands import receivers_of, scalar

Array = Any
_OFFSET = (1 << CLUSTER_SHIFT) - 1


def executing_warps(machine: Machine, mask: Mask) -> list[int]:
    """First lanes of the warps in a mask."""
    return (np.flatnonzero(machine.ballot(machine.executing(mask))) * 32).tolist()


def pair_of(machine: Machine, inst: Inst, lane: int) -> list[int]:
    """The CTAs that an instruction works on: the thread's own, or both of its pair, the even one first."""
    cta = int(machine.cta_of_lane[lane])
    if not inst.has("cta_group::2"):
        return [cta]
    if machine.cluster_size % 2:
        machine.fault(inst, ".cta_group::2 needs a cluster with an even number of CTAs", lane)
    return [cta & ~1, cta | 1]


@meaning(
    "tcgen05.wait::ld", "tcgen05.wait::st", "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"
)
def order(inst: Inst) -> Step:
    return Step(lambda machine, inst: lambda m: None)


# ----------------------------------------------------------------------------------------------------- allocation


@meaning("tcgen05.alloc", waits=True)
def alloc(inst: Inst) -> Collective:
    def bind(machine: Machine, inst: Inst) -> Action:
        dst, count = inst.operands
        space = "shared" if inst.has("shared::cta") else "generic"
        access = Access(machine, inst, dst, space, np.dtype(np.uint32))
        exclusive = inst.has("exclusive")

        def step(m: Mask) -> None:
            memory = tensor_memory(machine)
            for lane in executing_warps(machine, m):
                cta = int(machine.cta_of_lane[lane])
                columns = scalar(machine, count, lane)
                why = memory.refuses(columns, exclusive)
                if why:
                    machine.fault(inst, why, lane)
                if memory.relinquished[cta]:
                    machine.fault(inst, "the CTA has relinquished its permit to allocate tensor memory", lane)
                first = memory.allocate(cta, columns, exclusive)
                if first is None:
                    alone = " alone" if exclusive else ""
                    machine.fault(
                        inst,
                        f"there is no room for {columns} columns of tensor memory{alone}: {memory.taken(cta)} "
                        "(on a GPU the warp would wait here until some are given back)",
                        lane,
                    )
                access.store(np.array([lane]), np.array([first], np.uint32))
                for observer in machine.observers:
                    observer.tensor_allocated(inst, lane, cta, first, columns)

        return step

    return Collective(bind)


@meaning("tcgen05.dealloc", waits=True)
def dealloc(inst: Inst) -> Collective:
    def bind(machine: Machine, inst: Inst) -> Action:
        address, count = inst.operands

        def step(m: Mask) -> None:
            for lane in executing_warps(machine, m):
                cta = int(machine.cta_of_lane[lane])
                first, columns = scalar(machine, address, lane), scalar(machine, count, lane)
                why = tensor_memory(machine).free(cta, first, columns, inst.has("exclusive"))
                if why:
                    machine.fault(inst, why, lane)
                for observer in machine.observers:
                    observer.tensor_freed(inst, lane, cta, first, columns)

        return step

    return Collective(bind)


@meaning("tcgen05.relinquish_alloc_permit", waits=True)
def relinquish(inst: Inst) -> Collective:
    def bind(machine: Machine, inst: Inst) -> Action:
        def step(m: Mask) -> None:
            for lane in executing_warps(machine, m):
                tensor_memory(machine).relinquished[machine.cta_of_lane[lane]] = True

        return step

    return Collective(bind)


# ------------------------------------------------------------------------------------------------ loads and stores


def _shape(inst: Inst) -> tuple[str, int]:
    shape = next(m for m in inst.modifiers if m in PER_REPEAT)
    return shape, int(next(m for m in inst.modifiers if m[0] == "x" and m[1:].isdigit())[1:])


def _window(machine: Machine, inst: Inst, address: int, shape: str, lane: int, last: int) -> tuple[int, int, int]:
    """(CTA, first lane, first column) of a warp's access, checked."""
    cta = int(machine.cta_of_lane[lane])
    row, column = address >> 16, address & 0xFFFF
    quarter = int(machine.thread_of_lane[lane]) // 32 % 4
    legal = {32 * quarter} if shape == "32x32b" else {32 * quarter, 32 * quarter + 16}
    if row not in legal:
        machine.fault(
            inst,
            f"the address 0x{address:08x} begins at lane {row}: this warp reaches lanes {32 * quarter} to "
            f"{32 * quarter + 31} only, and .{shape} begins at {' or '.join(map(str, sorted(legal)))}",
            lane,
        )
    why = tensor_memory(machine).check(cta, column, column + last)
    if why:
        machine.fault(inst, why, lane)
    return cta, row, column


def _places(inst: Inst, split: Operand | None, packed: bool) -> tuple[str, Array, Array, Array]:
    shape, count = _shape(inst)
    columns = int(split.value) if isinstance(split, Imm) else 0
    return (shape, *register_places(shape, count, columns, packed))


@meaning("tcgen05.ld", waits=True, reduces=False)
@meaning("tcgen05.ld.red", waits=True, reduces=True)
def load(inst: Inst, *, reduces: bool) -> Collective:
    return Collective(partial(_bind_load, reduces=reduces))


def _bind_load(machine: Machine, inst: Inst, reduces: bool) -> Action:
    registers, *rest = inst.operands
    result = rest.pop(0) if reduces else None
    address = rest[0]
    packed = inst.has("pack::16b")
    shape, lanes, low, high = _places(inst, rest[1] if len(rest) > 1 else None, packed)
    targets = [machine.row(r) if isinstance(r, Reg) else None for r in registers_of(registers)]
    last = int(max(low.max(), high.max()))
    reduction = _reduction(machine, inst, result) if result is not None else None

    def step(m: Mask) -> None:
        for lane in executing_warps(machine, m):
            cta, row, column = _window(machine, inst, address_of(machine, address, lane), shape, lane, last)
            data = tensor_memory(machine).data[cta]
            for part in (low, high) if packed else (low,):
                touched(machine, inst, lane, cta, row + lanes, column + part, reads=True)
            values = data[row + lanes, column + low]
            if packed:
                values = (values & np.uint32(0xFFFF)) | data[row + lanes, column + high] << np.uint32(16)
            for target, value in zip(targets, values.T, strict=True):
                if target is not None:
                    target[lane : lane + 32] = value
            if reduction is not None:
                reduction(values, lane)

    return step


def _reduction(machine: Machine, inst: Inst, result: Operand) -> Callable[[Array, int], None]:
    """The smallest or largest of a thread's values."""
    row = machine.row(result) if isinstance(result, Reg) else None
    kind = inst.types[0]
    smallest = inst.has("min")

    def reduce(values: Array, lane: int) -> None:
        if row is None:
            return
        if kind == "f32":
            x = np.ascontiguousarray(values).view(np.float32)
            x = np.abs(x) if inst.has("abs") else x
            choose = floating.minimum if smallest else floating.maximum
            found = x[:, 0].copy()
            for i in range(1, x.shape[1]):
                found = choose(found, np.ascontiguousarray(x[:, i]), nan=inst.has("NaN"))
        else:
            x = np.ascontiguousarray(values).view(np.int32 if kind == "s32" else np.uint32)
            found = x.min(axis=1) if smallest else x.max(axis=1)
        row[lane : lane + 32] = np.ascontiguousarray(found).view(np.uint32)

    return reduce


@meaning("tcgen05.ld.spcompress", waits=True, reduces=False)
@meaning("tcgen05.ld.red.spcompress", waits=True, reduces=True)
def compressing_load(inst: Inst, *, reduces: bool) -> Collective:
    """Of every four values the two smallest or largest, in their order; NaNs come first, -0 is less than +0 (PTX ISA
    9.7.10.30). Of equal ones the first, which PTX leaves open.
    """
    return Collective(partial(_bind_compressing_load, reduces=reduces))


def _bind_compressing_load(machine: Machine, inst: Inst, reduces: bool) -> Action:
    places, kept, *rest = inst.operands
    result = rest.pop(0) if reduces else None
    address = rest[0]
    shape, lanes, low, _ = _places(inst, None, False)
    rows = [machine.row(r) if isinstance(r, Reg) else None for r in (*registers_of(places), *registers_of(kept))]
    reduction = _reduction(machine, inst, result) if result is not None else None
    last = int(low.max())

    def step(m: Mask) -> None:
        for lane in executing_warps(machine, m):
            cta, row, column = _window(machine, inst, address_of(machine, address, lane), shape, lane, last)
            touched(machine, inst, lane, cta, row + lanes, column + low, reads=True)
            values = tensor_memory(machine).data[cta][row + lanes, column + low]
            chosen, indices = compressed(values, smallest=inst.has("min"), absolute=inst.has("abs"))
            for target, found in zip(rows, np.concatenate([indices, chosen], axis=1).T, strict=True):
                if target is not None:
                    target[lane : lane + 32] = found
            if reduction is not None:
                reduction(values, lane)

    return step


def compressed(values: Array, *, smallest: bool, absolute: bool) -> tuple[Array, Array]:
    """(kept values, where they were: two bits for each, from the lowest up) of rows of f32 bits, shape (rows, n)."""
    fours = values.reshape(len(values), -1, 4)
    magnitude = (fours & np.uint32(0x7FFF_FFFF)).astype(np.int64)
    rank = magnitude if absolute else np.where(fours >> 31, ~magnitude, magnitude)
    rank = np.where(magnitude > 0x7F80_0000, -(1 << 40), rank if smallest else -rank)
    where = np.sort(np.argsort(rank, axis=2, kind="stable")[:, :, :2], axis=2)
    kept = np.take_along_axis(fours, where, axis=2).reshape(len(values), -1)
    codes = where.reshape(len(values), -1).astype(np.uint64)
    words: list[Array] = []
    for first in range(0, codes.shape[1], 16):
        part = codes[:, first : first + 16]
        words.append((part << (2 * np.arange(part.shape[1], dtype=np.uint64))).sum(axis=1, dtype=np.uint64))
    return kept, np.stack(words, axis=1).astype(np.uint32)


@meaning("tcgen05.st", waits=True)
def store(inst: Inst) -> Collective:
    return Collective(_bind_store)


def _bind_store(machine: Machine, inst: Inst) -> Action:
    address, *rest = inst.operands
    registers = registers_of(rest[-1])
    packed = inst.has("unpack::16b")
    shape, lanes, low, high = _places(inst, rest[0] if len(rest) > 1 else None, packed)
    sources = [machine.source(r, "b32", whole=True) for r in registers]
    last = int(max(low.max(), high.max()))

    def step(m: Mask) -> None:
        for lane in executing_warps(machine, m):
            cta, row, column = _window(machine, inst, address_of(machine, address, lane), shape, lane, last)
            data = tensor_memory(machine).data[cta]
            values = np.stack([s[lane : lane + 32] for s in sources], axis=1)
            for part in (low, high) if packed else (low,):
                touched(machine, inst, lane, cta, row + lanes, column + part, writes=True)
            if packed:
                data[row + lanes, column + low] = values & np.uint32(0xFFFF)
                data[row + lanes, column + high] = values >> np.uint32(16)
            else:
                data[row + lanes, column + low] = values

    return step


# --------------------------------------------------------------------------------------------------- copy, shift


def descriptor_of(machine: Machine, inst: Inst, operand: Operand, lane: int) -> Descriptor:
    """The shared-memory descriptor in an operand. SimulationError if it is not valid."""
    found = blackwell_descriptor(scalar(machine, operand, lane, "u64"))
    if isinstance(found, str):
        machine.fault(inst, found, lane)
    return found


COPY_LANES: dict[str, Callable[[], Array]] = {
    "128x256b": lambda: np.arange(128),
    "128x128b": lambda: np.arange(128),
    "4x256b": lambda: np.array([0, 32, 64, 96]),
    "32x128b.warpx4": lambda: np.arange(128),
    "64x128b.warpx2::02_13": lambda: np.arange(128),
    "64x128b.warpx2::01_23": lambda: np.arange(128),
}
"""The lanes that each shape of tcgen05.cp writes."""
COPY_ROWS: dict[str, Callable[[Array], Array]] = {
    "4x256b": lambda lane: lane // 32,
    "32x128b.warpx4": lambda lane: lane % 32,
    "64x128b.warpx2::02_13": lambda lane: lane % 64,
    "64x128b.warpx2::01_23": lambda lane: lane // 64 * 32 + lane % 32,
}
"""The row of the source that each of them gets, where it is not the lane's number."""


@meaning("tcgen05.cp")
def copy(inst: Inst) -> Step:
    return Step(_bind_copy)


def _bind_copy(machine: Machine, inst: Inst) -> Action:
    address, source = inst.operands
    shape = next(m for m in inst.modifiers if m.endswith("b") and "x" in m and m[0].isdigit())
    multicast = next((m for m in inst.modifiers if m.startswith("warpx")), "")
    name = f"{shape}.{multicast}" if multicast else shape
    lanes = COPY_LANES[name]()
    rows = COPY_ROWS.get(name, lambda lane: lane)(lanes)
    count = int(shape.split("x")[0])
    size = int(shape.split("x")[1][:-1]) // 8
    packing = inst.one_of("b4x16_p64", "b6x16_p32")

    def issue(lane: int) -> None:
        where = address_of(machine, address, lane)
        column = where & 0xFFFF
        d = descriptor_of(machine, inst, source, lane)
        for cta in pair_of(machine, inst, lane):
            why = tensor_memory(machine).check(cta, column, column + size // 4 - 1)
            if why:
                machine.fault(inst, why, lane)
            try:
                data = read_patterns(machine.shared[cta], machine.shared_size, d, count, size, 8, False)
            except OperandError as error:
                machine.fault(inst, str(error), lane)
            words = unpacked(np.ascontiguousarray(data).reshape(count, -1, 16), packing)
            words = np.ascontiguousarray(words).reshape(count, size).view(np.uint32)
            tell_operands(machine, inst, [OperandRead(lane, cta, chunk_addresses(count, size, count, size, d, False))])
            touched(
                machine, inst, lane, cta, (where >> 16) + lanes[:, None], column + np.arange(size // 4), writes=True
            )
            target = tensor_memory(machine).data[cta]
            target[((where >> 16) + lanes)[:, None], column + np.arange(size // 4)] = words[rows]

    return each(machine, issue)


@meaning("tcgen05.shift")
def shift(inst: Inst) -> Step:
    """Rows of 32 bytes move to the next lane, from the address to the last lane."""

    def bind(machine: Machine, inst: Inst) -> Action:
        address = inst.operands[0]

        def issue(lane: int) -> None:
            where = address_of(machine, address, lane)
            row, column = where >> 16, where & 0xFFFF
            if row % 32:
                machine.fault(inst, f"the lane {row} of the address must be a multiple of 32", lane)
            for cta in pair_of(machine, inst, lane):
                why = tensor_memory(machine).check(cta, column, column + 7)
                if why:
                    machine.fault(inst, why, lane)
                places = np.arange(row, LANES)[:, None], column + np.arange(8)
                touched(machine, inst, lane, cta, *places, reads=True, writes=True)
                block = tensor_memory(machine).data[cta, row:, column : column + 8]
                block[1:] = block[:-1].copy()

        return each(machine, issue)

    return Step(bind)


def each(machine: Machine, issue: Callable[[int], None]) -> Action:
    """An instruction that single threads issue."""

    def step(m: Mask) -> None:
        for lane in np.flatnonzero(machine.executing(m)).tolist():
            issue(lane)

    return step


# --------------------------------------------------------------------------------------------------------- commit


@meaning("tcgen05.commit")
def commit(inst: Inst) -> Step:
    """Everything is complete: the mbarrier gets its arrival at once."""

    def bind(machine: Machine, inst: Inst) -> Action:
        barrier, *rest = inst.operands
        space = "shared::cluster" if inst.has("shared::cluster") else "generic"
        wide = inst.has("multicast::cluster::32b")

        def issue(lane: int) -> None:
            address = address_of(machine, barrier, lane)
            if not rest:
                complete_tx(machine, inst, address, lane, 0, space, 1)
                return
            for receiver in receivers_of(machine, lane, scalar(machine, rest[0], lane, "u32" if wide else "u16")):
                complete_tx(machine, inst, seen_by(machine, address, receiver, lane), receiver, 0, "shared::cluster", 1)

        return each(machine, issue)

    return Step(bind)
