"""Tensor copies and bulk reductions: cp.async.bulk.tensor, cp.reduce.async.bulk{.tensor}, tensormap (PTX ISA 9.7.10.28,
9.7.10.29).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..machine.memory import address_of, seen_by, span
from ..machine.payload import inspection_of
from ..machine.pending import Copy
from ..machine.program import CLUSTER_SHIFT, Address, Imm, Inst, Operand, Reg, Vec
from ..machine.registry import Action, Collective, Mask, Step, dtype_of, meaning
from ..tensor.tensor_box import (
    BoxError,
    Combine,
    bytes_inside,
    im2col_size,
    pixel_rows,
    pixels_of,
    pixels_of_row,
    read_pixels,
    read_tiled,
    rows_inside,
    tiled_size,
    write_pixels,
    write_tiled,
)
from ..tensor.tensor_map import FIELDS, TensorMap, check, replace_field, swizzled
from .atomic import update_for
from .mbarrier import complete_tx, needs_payload, report_on
from .movement import space_of
from .operands import receivers_of, scalar

Array = Any
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_PAIR = 1 << CLUSTER_SHIFT
"""The bit of a shared address that tells the two CTAs of a pair apart."""


@lru_cache(maxsize=256)
def _decoded(raw: bytes) -> tuple[TensorMap | None, str]:
    found = TensorMap.decode(raw)
    return found, "" if found is None else check(found)


def read_map(machine: Machine, inst: Inst, address: int, lane: int, space: str = "generic") -> TensorMap:
    """The tensor map at an address. SimulationError if there is none, or a wrong one."""
    raw = span(machine, inst, address, space, lane, 128, write=False, align=64)
    found, wrong = _decoded(raw.tobytes())
    if found is None:
        machine.fault(
            inst,
            f"there is no tensor map at 0x{address:x}",
            lane,
            "pass pyptx.simulator.tensor_map(array, box, swizzle=...) for it; maps of NVIDIA's driver cannot be read",
        )
    if wrong:
        machine.fault(inst, f"the tensor map at 0x{address:x} is not valid: {wrong}", lane)
    return found


def combine_of(operation: str | None, kind: str) -> Combine | None:
    """How a reduction makes the new bytes; None for a copy."""
    if operation is None:
        return None
    update = update_for(operation, kind)
    dtype = dtype_of(kind)

    def combine(old: Array, new: Array) -> Array:
        return np.asarray(update(old.view(dtype), new.view(dtype))).view(np.uint8)

    return combine


_REDUCED = {
    "add": ("u32", "s32", "u64", "f32", "f16", "bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
}
"""Element types of the reductions of a tensor; all integers for the others."""


def combine_for(machine: Machine, inst: Inst, lane: int, m: TensorMap) -> Combine | None:
    """How the instruction combines elements of a tensor; None for a copy. SimulationError for types that cannot be."""
    operation = inst.one_of(*REDUCTIONS)
    if operation is None:
        return None
    kind = m.type.removesuffix(".ftz")
    if kind not in _REDUCED.get(operation, ("u32", "s32", "u64", "s64")):
        machine.fault(inst, f".{operation} is not a valid reduction of a tensor of .{kind}", lane)
    return combine_of(operation, f"b{m.bits}" if operation in ("and", "or", "xor") else kind)


WIDE = ("im2col::w", "im2col::w::128")
"""Modes that take a halo and an offset along W in place of the im2col offsets."""


class _Box:
    """What a tensor copy moves, apart from where it lies in shared memory."""

    def __init__(
        self,
        machine: Machine,
        inst: Inst,
        lane: int,
        m: TensorMap,
        mode: str,
        at: Sequence[int],
        offsets: Sequence[int],
    ):
        self.machine, self.inst, self.lane, self.m, self.mode = machine, inst, lane, m, mode
        self.at, self.offsets = at, offsets
        self.size = (
            im2col_size(m, offsets[0] if mode in WIDE else 0)
            if mode.startswith("im2col")
            else 4 * tiled_size(m)
            if mode in ("tile::gather4", "tile::scatter4")
            else tiled_size(m)
        )

    def rows(self) -> tuple[Array, int]:
        """(addresses of the rows of the tensor that the box covers, bytes of each); what lies outside is left out."""
        m, at = self.m, self.at
        try:
            if self.mode == "tile":
                return rows_inside(m, at)
            if self.mode in ("tile::gather4", "tile::scatter4"):
                found = [rows_inside(m, (at[0], row)) for row in at[1:]]
                return np.concatenate([starts for starts, _ in found]), max(length for _, length in found)
            return pixel_rows(m, at[0], *self._pixels())
        except BoxError as error:
            self._fault(error)
            raise

    def read_parts(self, start: int) -> list[tuple[int, int]]:
        """(offset, bytes) of the parts of the box in shared memory, from address `start` on, that a store reads: what lies
        outside of the tensor is padding.
        """
        inside = bytes_inside(self.m, self.at) if self.mode == "tile" else None
        if inside is None:
            return [(0, self.size)]
        placed = np.empty_like(inside)
        place_box(placed, inside, self.m.swizzle, start)
        edges = np.flatnonzero(np.diff(placed, prepend=0, append=0))
        return [(int(a), int(b - a)) for a, b in edges.reshape(-1, 2)]

    def _pixels(self) -> tuple[Array, Array]:
        m, at = self.m, self.at
        if m.kind in WIDE:
            halo, offset = self.offsets or (0, 0)  # none in im2col_no_offs::w
            return pixels_of_row(m, at, halo, offset)
        return pixels_of(m, at, self.offsets or (0,) * (m.rank - 2), m.pixels)

    def _fault(self, error: BoxError) -> None:
        self.machine.fault(self.inst, str(error), self.lane)

    def read(self) -> Array:
        memory, m, at = self.machine.memory, self.m, self.at
        try:
            if self.mode == "tile":
                return read_tiled(memory, m, at)
            if self.mode == "tile::gather4":
                return np.concatenate([read_tiled(memory, m, (at[0], row)) for row in at[1:]])
            return read_pixels(memory, m, at[0], *self._pixels())
        except BoxError as error:
            self._fault(error)
            raise

    def write(self, box: Array, combine: Combine | None) -> None:
        memory, m, at = self.machine.memory, self.m, self.at
        try:
            if self.mode == "tile":
                write_tiled(memory, m, at, box, combine)
            elif self.mode == "tile::scatter4":
                for row, data in zip(at[1:], box.reshape(4, -1), strict=True):
                    write_tiled(memory, m, (at[0], row), data, combine)
            else:
                write_pixels(memory, m, at[0], *self._pixels(), box, combine)
        except BoxError as error:
            self._fault(error)


def _flipped(chunks: Array, places: Array, start: int) -> Array:
    """The two 8-byte halves of the chunks that go to odd 128-byte lines change places."""
    pairs = chunks.view(np.uint64).reshape(-1, 2).copy()
    odd = (start + 16 * places) >> 7 & 1 == 1
    pairs[odd] = pairs[odd][:, ::-1]
    return pairs.reshape(-1).view("V16")


def place_box(target: Array, box: Array, swizzle: str, start: int) -> None:
    """Write a box to shared memory (`target`, uint8) at address `start`, swizzled."""
    if swizzle == "none":
        target[...] = box
        return
    places = swizzled(box.size // 16, swizzle, start % 1024)
    chunks = box.view("V16")
    if swizzle.endswith("FLIP_8B"):
        chunks = _flipped(chunks, places, start)
    target.view("V16")[places] = chunks


def take_box(source: Array, swizzle: str, start: int) -> Array:
    """The box that lies swizzled in shared memory (`source`, uint8) at address `start`."""
    if swizzle == "none":
        return source.copy()
    places = swizzled(source.size // 16, swizzle, start % 1024)
    chunks = source.view("V16")[places]
    if swizzle.endswith("FLIP_8B"):
        chunks = _flipped(chunks, places, start)
    return chunks.view(np.uint8)


def flat_offset(machine: Machine, view: Array) -> int:
    """Where a view of shared memory begins in the shared memory of the whole batch."""
    return view.__array_interface__["data"][0] - machine.shared.__array_interface__["data"][0]


def tell_edit(machine: Machine, inst: Inst, lane: int, view: Array, address: int) -> None:
    """Tell the observers that an instruction writes the tensor map in a view of memory."""
    if machine.observers:
        offset = flat_offset(machine, view)
        shared = 0 <= offset < machine.shared.size
        for observer in machine.observers:
            observer.tensor_map_edited(inst, lane, "shared" if shared else "global", offset if shared else address)


def _mode_of(inst: Inst) -> str:
    return (
        inst.one_of("tile", "tile::gather4", "tile::scatter4", "im2col", *WIDE, "im2col_no_offs", "im2col_no_offs::w")
        or "tile"
    )


def _overridden(machine: Machine, extras: Sequence[Operand]) -> Callable[[int, TensorMap, int], TensorMap]:
    """(lane, map, address of the tensor) -> the map that a copy uses with its overrides: extents, strides and their high
    bits in `extras`, or nothing (PTX ISA 9.7.10.28.5).
    """
    extents = parts_of(extras[0]) if extras else ()
    strides = parts_of(extras[1]) if len(extras) > 1 else ()

    def edit(lane: int, m: TensorMap, address: int) -> TensorMap:
        if not extents:
            return replace(m, address=address)
        high = scalar(machine, extras[2], lane, "u16") if strides else 0
        lower = [scalar(machine, s, lane) for s in strides]
        return replace(
            m,
            address=address,
            shape=tuple(scalar(machine, e, lane, kind_of(e)) & 0xFF for e in extents),
            strides=tuple((low | (high >> 4 * i & 15) << 32) << 4 for i, low in enumerate(lower)),
        )

    return edit


def kind_of(element: Operand) -> str:
    """Extents stand in 8-bit registers or in the lower half of 16-bit ones."""
    return "u8" if isinstance(element, Reg) and element.pool == "8" else "u16"


def parts_of(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vec) else (operand,)


def prepare(
    machine: Machine, inst: Inst, tensor: Operand, skipped: int = 0
) -> Callable[[int, Sequence[int], int | None], _Box]:
    """(lane, im2col offsets, address of the tensor or None) -> the box of one copy.

    `skipped` operands after the map say where the tensor is; without them the first one does if it is overridden.
    """
    assert isinstance(tensor, Address)
    mode = _mode_of(inst)
    rank = int(next(x for x in inst.modifiers if len(x) == 2 and x[1] == "d" and x[0].isdigit())[0])
    *extras, places = tensor.rest
    coordinates = parts_of(places)
    kind = "tiled" if mode.startswith("tile") else mode.replace("_no_offs", "")
    moved = inst.has("override::global_address")
    base = extras[0] if moved and not skipped else None
    edit = _overridden(machine, extras[skipped or int(moved) :]) if moved else None
    whole = moved and len(extras) > (skipped or 1)

    def box(lane: int, offsets: Sequence[int], address: int | None = None) -> _Box:
        where = address_of(machine, tensor, lane)
        m = read_map(machine, inst, where, lane)
        for observer in machine.observers:
            observer.tensor_map_used(inst, lane, where)
        if m.rank != rank:
            machine.fault(inst, f"the tensor map has rank {m.rank} and the copy is .{rank}d", lane)
        if m.kind != kind:
            machine.fault(inst, f"the tensor map is for {m.kind} copies and the copy is .{mode}", lane)
        if "4" in mode and m.box[1] != 1:
            machine.fault(inst, f".{mode} needs a box of one row, not {m.box[1]}", lane)
        at = [scalar(machine, c, lane, "s32") for c in coordinates]
        if edit is not None:
            if base is not None:
                address = scalar(machine, base, lane, "u64")
            assert address is not None
            m = edit(lane, m, address)
            wrong = check(m)
            if wrong:
                machine.fault(inst, f"the tensor map is not valid with its overrides: {wrong}", lane)
            if whole and any(at):
                machine.fault(inst, f"with the extents overridden the coordinates must be 0, not {at}", lane)
        return _Box(machine, inst, lane, m, mode, at, offsets)

    return box


@meaning("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
def tensor_copy(inst: Inst) -> Step:
    return Step(
        _bind_load if isinstance(inst.operands[1], Address) and len(inst.operands) > 2 and _loads(inst) else _bind_store
    )


def _loads(inst: Inst) -> bool:
    spaces = [m for m in inst.modifiers if m in ("global", "shared::cta", "shared::cluster")]
    return spaces[0] != "global"


def _bind_load(machine: Machine, inst: Inst) -> Action:
    dst, tensor, barrier, *rest = inst.operands
    to = "shared" if inst.has("shared::cta") else "shared::cluster"
    box_of = prepare(machine, inst, tensor)
    offset_operands: tuple[Operand, ...] = ()
    if inst.one_of("im2col", *WIDE):
        found = rest.pop(0)
        offset_operands = found.elements if isinstance(found, Vec) else (found,)
    multicast = any(m.startswith("multicast") for m in inst.modifiers)
    two = inst.has("cta_group::2")
    inspect = inspection_of(inst.modifiers)

    def issue(lane: int) -> None:
        offsets = [scalar(machine, o, lane, "u16") for o in offset_operands]
        box = box_of(lane, offsets, None)
        target = address_of(machine, dst, lane)
        signal = address_of(machine, barrier, lane)
        receivers = [lane]
        if multicast:
            mask = scalar(machine, rest[0], lane, "u32" if inst.has("multicast::cluster::32b") else "u16")
            receivers = receivers_of(machine, lane, mask)

        def signal_of(receiver: int) -> int:
            """The mbarrier that hears of a receiver's bytes: in its CTA, or in the one of its pair that `mbar` names."""
            there = seen_by(machine, signal, receiver, lane)
            return there & ~_PAIR | signal & _PAIR if two and multicast else there

        if target % 128:
            machine.fault(inst, f"the box's place in shared memory 0x{target:x} must be a multiple of 128", lane)
        views = [span(machine, inst, seen_by(machine, target, r, lane), to, r, box.size, write=True) for r in receivers]

        if inspect is not None:
            for r in receivers:
                needs_payload(machine, inst, signal_of(r), r)

        def complete() -> None:
            data = box.read()
            reports = inspect is not None and inspect(data)
            for receiver, view in zip(receivers, views, strict=True):
                place_box(view, data, box.m.swizzle, target)
                if reports:
                    report_on(machine, signal_of(receiver), receiver)
                complete_tx(machine, inst, signal_of(receiver), receiver, box.size)

        copy = Copy(inst, np.array([lane]), "mbarrier", complete)
        if machine.observers:
            copy.writes = [("shared", flat_offset(machine, v), box.size) for v in views]
            copy.read_rows = box.rows()
            copy.barriers = [
                flat_offset(machine, span(machine, inst, signal_of(r), "shared::cluster", r, 8, write=True)) // 8
                for r in receivers
            ]
        machine.pending.issue(copy)

    return _each(machine, issue)


def _bind_store(machine: Machine, inst: Inst) -> Action:
    tensor, src, *_ = inst.operands
    box_of = prepare(machine, inst, tensor)

    def issue(lane: int) -> None:
        box = box_of(lane, (), None)
        combine = combine_for(machine, inst, lane, box.m)
        start = address_of(machine, src, lane)
        if start % 128:
            machine.fault(inst, f"the box's place in shared memory 0x{start:x} must be a multiple of 128", lane)
        view = span(machine, inst, start, "shared", lane, box.size, write=False)

        def complete() -> None:
            box.write(take_box(view, box.m.swizzle, start), combine)

        copy = Copy(inst, np.array([lane]), "bulk_group", complete)
        if machine.observers:
            first = flat_offset(machine, view)
            copy.reads = [("shared", first + at, length) for at, length in box.read_parts(start)]
            copy.written_rows = box.rows()
        machine.pending.issue(copy)

    return _each(machine, issue)


def _each(machine: Machine, issue: Callable[[int], None]) -> Action:
    def step(m: Mask) -> None:
        for lane in np.flatnonzero(machine.executing(m)).tolist():
            issue(lane)

    return step


# ------------------------------------------------------------------------------------------------ bulk reductions


@meaning("cp.reduce.async.bulk", "multimem.cp.reduce.async.bulk")
def bulk_reduce(inst: Inst) -> Step:
    return Step(_bind_bulk_reduce)


def _bind_bulk_reduce(machine: Machine, inst: Inst) -> Action:
    dst, src, size, *rest = inst.operands
    to = "shared::cluster" if _loads(inst) else "global"
    barrier = rest[0] if to != "global" else None
    combine = combine_of(inst.one_of(*REDUCTIONS), inst.type)
    assert combine is not None

    def issue(lane: int) -> None:
        count = scalar(machine, size, lane)
        if count % 16:
            machine.fault(inst, f"a bulk reduction takes a multiple of 16 bytes, not {count}", lane)
        source = span(machine, inst, address_of(machine, src, lane), "shared", lane, count, write=False, align=16)
        target_address = address_of(machine, dst, lane)
        target = span(machine, inst, target_address, to, lane, count, write=True, align=16)
        signal = None if barrier is None else address_of(machine, barrier, lane)

        def complete() -> None:
            target[...] = combine(target, source)
            if signal is not None:
                complete_tx(machine, inst, signal, lane, count)

        copy = Copy(inst, np.array([lane]), "bulk_group" if signal is None else "mbarrier", complete)
        if machine.observers:
            copy.reads = [("shared", flat_offset(machine, source), count)]
            copy.writes = [
                ("global", target_address, count) if to == "global" else ("shared", flat_offset(machine, target), count)
            ]
            if signal is not None:
                word = span(machine, inst, signal, "shared::cluster", lane, 8, write=True)
                copy.barriers = [flat_offset(machine, word) // 8]
        machine.pending.issue(copy)

    return _each(machine, issue)


# ---------------------------------------------------------------------------------------------------- tensor maps


_CLASSES = ("alloc_same", "alloc_small", "alloc_large")


def _map_space(inst: Inst) -> str:
    return {"shared::cta": "shared", "global": "global"}.get(space_of(inst), "generic")


@meaning("tensormap.replace")
def tensormap_replace(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        allocation = inst.one_of(*_CLASSES)
        address, *values = inst.operands
        space = _map_space(inst)
        field = next((m for m in inst.modifiers if m in FIELDS and m not in _CLASSES), None)
        index = 0
        if len(values) > 1:
            first = values.pop(0)
            assert isinstance(first, Imm)
            index = int(first.value)
        kind = "u64" if inst.has("b64") else "u32"

        def edit(lane: int) -> None:
            start = address_of(machine, address, lane)
            raw = span(machine, inst, start, space, lane, 128, write=True, align=64)
            if raw.any() and TensorMap.decode(raw.tobytes()) is None:
                machine.fault(inst, f"there is neither a tensor map nor zeros at 0x{start:x}", lane)
            tell_edit(machine, inst, lane, raw, start)
            if field is not None:
                replace_field(raw, field, index, scalar(machine, values[0], lane, kind))
            if allocation in ("alloc_small", "alloc_large"):
                replace_field(raw, "alloc_large", 0, int(allocation == "alloc_large"))

        return _each(machine, edit)

    return Step(bind)


@meaning("tensormap.query.alloc_class_large")
def alloc_class(inst: Inst) -> Step:
    """True where `tensormap.replace` said so: no allocation here is of the large class by itself."""

    def bind(machine: Machine, inst: Inst) -> Action:
        answer, address = inst.operands
        space = _map_space(inst)

        def query(lane: int) -> None:
            found = read_map(machine, inst, address_of(machine, address, lane), lane, space)
            if isinstance(answer, Reg):
                machine.row(answer)[lane] = found.large

        return _each(machine, query)

    return Step(bind)


@meaning("tensormap.cp_fenceproxy", waits=True)
def tensormap_copy(inst: Inst) -> Collective:
    """The warp copies 128 bytes: once, for its lowest thread."""

    def bind(machine: Machine, inst: Inst) -> Action:
        dst, src, _ = inst.operands

        def step(m: Mask) -> None:
            for warp in np.flatnonzero(machine.ballot(machine.executing(m))).tolist():
                lane = warp * 32
                source = span(
                    machine, inst, address_of(machine, src, lane), "shared", lane, 128, write=False, align=128
                )
                target = span(machine, inst, address_of(machine, dst, lane), "global", lane, 128, write=True, align=128)
                tell_edit(machine, inst, lane, target, address_of(machine, dst, lane))
                target[...] = source

        return step

    return Collective(bind)
