"""Surface accesses and queries (PTX ISA 9.7.13): `suld`, `sust`, `sured`, `suq`.

Threads of one instruction that touch one element take effect in the order of their numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..machine.program import Address, Inst, Operand, Reg
from ..machine.registry import Action, Mask, Step, dtype_of, meaning
from ..machine.texture import GEOMETRIES, Surface
from .texture import answer, handles, in_groups, named, parts

Array = Any


class _Places:
    """The coordinates of one surface access, and where they lie in a surface."""

    def __init__(self, machine: Machine, inst: Inst, address: Operand):
        assert isinstance(address, Address)
        self.machine, self.inst = machine, inst
        self.keys = [handles(machine, address.base)]
        self.geometry = inst.one_of(*GEOMETRIES) or "2d"
        layers, spatial = GEOMETRIES[self.geometry]
        elements = parts(address.rest[0])
        self.layer = machine.source(elements[0], "u32", whole=True) if layers else None
        self.xyz = [machine.source(o, "s32", whole=True) for o in elements[layers : layers + spatial]]
        self.outside = inst.one_of("trap", "clamp", "zero") or "trap"

    def groups(self, mask: Mask) -> list[tuple[Surface, Array]]:
        """The surfaces that the lanes of a mask name: (surface, lanes)."""
        machine, inst = self.machine, self.inst
        found: list[tuple[Surface, Array]] = []
        for (handle,), lanes in in_groups(np.flatnonzero(machine.executing(mask)), self.keys):
            surface: Surface = named(machine, inst, handle, "surfref", int(lanes[0]))
            if surface.geometry != self.geometry:
                machine.fault(
                    inst, f"the surface has the geometry {surface.geometry}, not {self.geometry}", int(lanes[0])
                )
            found.append((surface, lanes))
        return found

    def locate(self, shape: tuple[int, ...], lanes: Array, size: int) -> tuple[tuple[Array, ...], Array]:
        """((layer, z, y, x) of each lane, whether it is inside). `shape`: layers, depth, height, and width in the
        unit of x; `size`: units of one access, to which x is aligned.
        """
        x, *more = [c[lanes].astype(np.int64) for c in self.xyz]
        wrong = np.flatnonzero(x % size)
        if wrong.size:
            at = int(wrong[0])
            why = f"misaligned: x is {x[at]} bytes, and an access of {size} bytes needs a multiple of {size}"
            self.machine.fault(self.inst, f"the surface access is {why}", int(lanes[at]))
        y = more[0] if more else np.zeros(lanes.size, np.int64)
        z = more[1] if len(more) > 1 else np.zeros(lanes.size, np.int64)
        layer = np.zeros(lanes.size, np.int64) if self.layer is None else self.layer[lanes].astype(np.int64)
        place = (layer, z, y, x)
        limits = (*shape[:3], shape[3] // size * size - size + 1)
        inside = np.logical_and.reduce([(c >= 0) & (c < n) for c, n in zip(place, limits, strict=True)])
        if self.outside == "trap" and not inside.all():
            at = int(np.flatnonzero(~inside)[0])
            where = ", ".join(f"{name} {c[at]}" for name, c in zip(("layer", "z", "y", "x"), place, strict=True))
            self.machine.fault(
                self.inst,
                f"out of bounds: {where} of a surface of {shape[0]} x {shape[1]} x {shape[2]} rows of {shape[3]}",
                int(lanes[at]),
                "`.clamp` and `.zero` accesses may be outside",
            )
        clamped = tuple(np.clip(c, 0, max(n - 1, 0)) for c, n in zip(place, limits, strict=True))
        return clamped, inside | (self.outside == "clamp")


def _flat(shape: tuple[int, ...], place: tuple[Array, ...]) -> Array:
    """Numbers of elements in C order."""
    index = place[0]
    for size, c in zip(shape[1:], place[1:], strict=True):
        index = index * size + c
    return index


@meaning("suld.b")
def load(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        d, address = inst.operands
        places = _Places(machine, inst, address)
        rows = [machine.row(o) if isinstance(o, Reg) else None for o in parts(d)]
        dtype = dtype_of(inst.type)
        size = dtype.itemsize * len(rows)

        def step(m: Mask) -> None:
            for surface, lanes in places.groups(m):
                data = surface.bytes
                place, inside = places.locate(data.shape, lanes, size)
                index = _flat(data.shape, place)[:, None] + np.arange(size)
                # a row shorter than one access has no place inside
                raw = data.reshape(-1)[np.where(inside[:, None], index, 0)]
                values = np.where(inside[:, None], np.ascontiguousarray(raw).view(dtype), dtype.type(0))
                for i, row in enumerate(rows):
                    if row is not None:
                        row[lanes] = values[:, i]

        return step

    return Step(bind)


@meaning("sust.b")
def store(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        address, value = inst.operands
        places = _Places(machine, inst, address)
        sources = [machine.source(o, inst.type, whole=True) for o in parts(value)]
        size = dtype_of(inst.type).itemsize * len(sources)

        def step(m: Mask) -> None:
            for surface, lanes in places.groups(m):
                data = surface.bytes
                place, inside = places.locate(data.shape, lanes, size)
                index = _flat(data.shape, place)[inside][:, None] + np.arange(size)
                values = np.stack([s[lanes][inside] for s in sources], axis=1)
                data.reshape(-1)[index] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, size)

        return step

    return Step(bind)


@meaning("sust.p")
def store_formatted(inst: Inst) -> Step:
    """Components beyond the surface's are dropped; components that the instruction does not have stay as they are.
    Integers that do not fit are clamped.
    """

    def bind(machine: Machine, inst: Inst) -> Action:
        address, value = inst.operands
        places = _Places(machine, inst, address)
        sources = [machine.source(o, "b32", whole=True) for o in parts(value)]

        def step(m: Mask) -> None:
            for surface, lanes in places.groups(m):
                data = surface.levels[0]
                place, inside = places.locate(data.shape[:4], lanes, 1)
                where = tuple(c[inside] for c in place)
                for channel, source in enumerate(sources[: surface.channels]):
                    data[(*where, channel)] = _formatted(source[lanes][inside], data.dtype)

        return step

    return Step(bind)


def _formatted(bits: Array, dtype: np.dtype[Any]) -> Array:
    """32-bit patterns, which are f32, s32 or u32 as the format is, in the format."""
    if dtype.kind == "f":
        return bits.view(np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(bits.view(np.int32) if dtype.kind == "i" else bits, limits.min, limits.max).astype(dtype)


_COMBINE = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip


@meaning("sured.b", formatted=False)
@meaning("sured.p", formatted=True)
def reduce(inst: Inst, *, formatted: bool) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        address, value = inst.operands
        places = _Places(machine, inst, address)
        combine = _COMBINE[inst.one_of(*_COMBINE) or "add"]
        source = machine.source(parts(value)[0], inst.type, whole=True)

        def step(m: Mask) -> None:
            for surface, lanes in places.groups(m):
                dtype = dtype_of(inst.type)
                data = surface.levels[0]
                if formatted:
                    if data.dtype.kind == "f" or surface.channels * data.itemsize != dtype.itemsize:
                        machine.fault(
                            inst,
                            f"sured.p of .{inst.type} needs elements of that many bits, one integer each; the surface "
                            f"has {surface.channels} x {data.dtype}",
                            int(lanes[0]),
                        )
                    dtype = data.dtype
                    place, inside = places.locate(data.shape[:4], lanes, 1)
                    index = _flat(data.shape[:4], place)
                else:
                    data = surface.bytes
                    place, inside = places.locate(data.shape, lanes, dtype.itemsize)
                    index = _flat(data.shape, place)
                    if data.shape[3] % dtype.itemsize:
                        machine.fault(inst, f"rows of {data.shape[3]} bytes do not hold .{inst.type}", int(lanes[0]))
                    index = index // dtype.itemsize
                combine.at(data.reshape(-1).view(dtype), index[inside], source[lanes][inside].view(dtype))

        return step

    return Step(bind)


@meaning("suq")
def suq(inst: Inst) -> Step:
    name = inst.modifiers[0]

    def ask(machine: Machine, handle: int, level: int, lane: int) -> int:
        surface: Surface = named(machine, inst, handle, "surfref", lane)
        return surface.query(name) or 0

    return answer(inst, ask)
