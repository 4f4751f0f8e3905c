"""Texture reads and queries (PTX ISA 9.7.12): `tex`, `tld4`, `txq`, `istypep`. See `numerics.sampling` for the
arithmetic and `machine/texture.py` for what a handle refers to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ...diagnostics import SimulationError
from ...numerics import sampling
from ..machine.machine import Machine
from ..machine.program import PARAMETER_BASE, Address, Imm, Inst, Operand, Pair, Place, Reg, Sink, Vec
from ..machine.registry import Action, Mask, Pure, Step, meaning
from ..machine.texture import ADDRESSES, COMPARISONS, FILTERS, GEOMETRIES, OPAQUE, Sampler, Texture

Array = Any


def handles(machine: Machine, operand: Operand) -> Array:
    """The handles an operand names, one per lane: a register's value, the address of a module variable, or what was
    passed for a parameter.
    """
    if isinstance(operand, Place) and operand.space == "param":
        at = operand.address - PARAMETER_BASE
        return np.full(machine.lanes, machine.parameters[at : at + 8].view(np.uint64)[0])
    return machine.source(operand, "u64", whole=True)


def named(machine: Machine, inst: Inst, handle: int, kind: str, lane: int) -> Any:
    """The object after a handle. SimulationError if there is none of that kind."""
    found = machine.memory.handles.objects.get(handle)
    wanted = OPAQUE[kind]
    if not isinstance(found, wanted):
        near = machine.memory.find(handle, 1)
        known = near is not None and near.base == handle
        what = f"{near.name} is not bound to" if near is not None and known else f"0x{handle:x} is not a handle of"
        name = wanted.__name__
        machine.fault(
            inst, f"{what} a .{kind}", lane, f"pass a pyptx.simulator.{name} as argument, or bind() it by name"
        )
    return found


def in_groups(lanes: Array, keys: list[Array]) -> list[tuple[tuple[int, ...], Array]]:
    """Lanes that have the same handles, together: (handles, lanes)."""
    rows = np.stack([k[lanes] for k in keys], axis=1)
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    return [(tuple(int(k) for k in u), lanes[inverse.reshape(-1) == i]) for i, u in enumerate(unique)]


def parts(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vec) else (operand,)


@meaning("tex", "tex.base")
@meaning("tex.level", leveled=True)
@meaning("tex.grad", gradient=True)
@meaning("tld4", gathers=True)
def tex(inst: Inst, **form: bool) -> Step:
    """`form`: what chooses the level, and whether four texels are gathered."""
    return Step(partial(_bind, **form))


def _bind(machine: Machine, inst: Inst, leveled: bool = False, gradient: bool = False, gathers: bool = False) -> Action:
    geometry = inst.one_of(*GEOMETRIES) or "2d"
    dtype, ctype = inst.types[:2]
    d, address, *rest = inst.operands
    assert isinstance(address, Address)
    resident = None
    if isinstance(d, Pair):
        d, resident = d.first, d.second
    *sampler_operand, coordinates = address.rest
    keys = [handles(machine, address.base)]
    if sampler_operand:
        keys.append(handles(machine, sampler_operand[0]))
    level_operand = rest.pop(0) if leveled else None
    gradient_operands = [rest.pop(0), rest.pop(0)] if gradient else []
    offset_operand = next((o for o in rest if _is_offset(o)), None)
    depth_operand = next((o for o in rest if not _is_offset(o)), None)
    indices, values = _coordinates(machine, geometry, coordinates, ctype)
    spatial = GEOMETRIES[geometry][1]
    offsets = [machine.source(o, "s32", whole=True) for o in parts(offset_operand)[:spatial]] if offset_operand else []
    level = None if level_operand is None else machine.source(level_operand, ctype, whole=True)
    gradients = [
        [machine.source(o, "f32", whole=True) for o in parts(g)[: 3 if "cube" in geometry else spatial]]
        for g in gradient_operands
    ]
    depth = None if depth_operand is None else machine.source(depth_operand, "f32", whole=True)
    rows = [machine.row(o) if isinstance(o, Reg) else None for o in parts(d)]
    loaded = machine.row(resident) if isinstance(resident, Reg) else None
    component = "rgba".index(inst.one_of(*"rgba") or "r") if gathers else None

    def read(keys: tuple[int, ...], lanes: Array) -> None:
        first = int(lanes[0])
        texture: Texture = named(machine, inst, keys[0], "texref", first)
        sampler = texture.sampler
        if len(keys) > 1:
            own: Sampler = named(machine, inst, keys[1], "samplerref", first)
            sampler = replace(own, normalized=own.normalized and sampler.normalized)
        if texture.geometry != geometry:
            machine.fault(inst, f"the texture has the geometry {texture.geometry}, not {geometry}", first)
        try:
            texture.check(sampler)
        except SimulationError as error:
            machine.fault(inst, str(error), first)
        picked = [v[lanes].astype(np.float64) for v in values]
        slopes = [[a[lanes].astype(np.float64) for a in g] for g in gradients]
        face = None
        if "cube" in geometry:
            slopes = [sampling.cube_slope(picked, slope) for slope in slopes]
            face, *picked = sampling.cube_face(*picked)
        compare = None
        if depth is not None:
            compare = _comparison(machine, inst, sampler, depth[lanes].astype(np.float64), first)
        layer = _layer(texture, [i[lanes] for i in indices], face)
        shift = [o[lanes].astype(np.int64) for o in offsets]
        integer = ctype == "s32"
        fetch = _Fetch(texture, sampler, layer, picked, shift, integer, compare)
        if component is not None:
            result = _bits(fetch.gather(component))
        elif level is None and not gradients:
            result = _bits(fetch.at_level(0, slice(None)))
        else:
            if level is not None:
                detail = level[lanes].astype(np.float64)
            else:
                sizes = fetch.sizes(0) if sampler.normalized else [1] * len(picked)
                detail = sampling.level_of_gradient(slopes, sizes)
            result = _bits(fetch.at_detail(detail))
        _write(rows, lanes, result, dtype, texture.returns_floats)
        if loaded is not None:
            loaded[lanes] = True

    def step(m: Mask) -> None:
        for keys_of_group, group in in_groups(np.flatnonzero(machine.executing(m)), keys):
            read(keys_of_group, group)

    return step


def _is_offset(operand: Operand) -> bool:
    """Offsets are vectors, or integer constants in one dimension; what else follows is the depth operand."""
    return isinstance(operand, Vec) or (isinstance(operand, Imm) and isinstance(operand.value, int))


def _comparison(
    machine: Machine, inst: Inst, sampler: Sampler, depth: Array, lane: int
) -> Callable[[Array, Any], Array]:
    """What makes texels (n, channels) of some of the lanes 1 or 0: each compared with its lane's depth operand."""
    if sampler.compare is None:
        machine.fault(
            inst,
            "the depth operand is compared as the host's sampler says, and this one says nothing",
            lane,
            'make the Texture or Sampler with compare="less_equal" or another comparison',
        )
    function = COMPARISONS[sampler.compare]
    return lambda texels, where: function(depth[where][:, None], texels).astype(np.float64)


def _coordinates(machine: Machine, geometry: str, operand: Operand, ctype: str) -> tuple[list[Array], list[Array]]:
    """(array indices and samples, coordinates in space) of a coordinate vector; what pads it is left out."""
    elements = parts(operand)
    layers, spatial = GEOMETRIES[geometry]
    if "cube" in geometry:
        layers, spatial = layers - 1, 3
    return (
        [machine.source(o, "u32", whole=True) for o in elements[:layers]],
        [machine.source(o, ctype, whole=True) for o in elements[layers : layers + spatial]],
    )


def _layer(texture: Texture, indices: list[Array], face: Array | None) -> Array | int:
    """The layer of the canonical array; array indices beyond the last one take the last."""
    total: Array | int = 0
    chosen = [*indices, *([face] if face is not None else [])]
    for index, size in zip(chosen, texture.shape, strict=False):
        total = total * size + np.minimum(index.astype(np.int64), size - 1)
    return total


class _Fetch:
    """One texture read for some lanes: coordinates x first, float64."""

    def __init__(
        self,
        texture: Texture,
        sampler: Sampler,
        layer: Array | int,
        coordinates: list[Array],
        offsets: list[Array],
        integer: bool,
        compare: Callable[[Array, Any], Array] | None = None,
    ):
        self.compare = compare
        """(texels, which lanes) -> 1 and 0, for reads that compare depth."""
        self.texture, self.sampler, self.coordinates = texture, sampler, coordinates
        self.offsets, self.integer = offsets, integer
        self.layer = np.broadcast_to(np.asarray(layer), coordinates[0].shape)

    def sizes(self, level: int) -> list[int]:
        """Width, height, depth of a level, as many as there are coordinates."""
        return list(self.texture.levels[level].shape[3:0:-1][: len(self.coordinates)])

    def _modes(self) -> tuple[str, ...]:
        if self.integer and self.texture.geometry == "1d":
            return ("border",) * 3  # tex1Dfetch: zero outside
        scaled = self.sampler.normalized and not self.integer
        return tuple(m if scaled or m == "border" else "clamp" for m in self.sampler.addresses)

    def _axes(self, level: int, where: Any, *, linear: bool) -> list[list[tuple[Array, Array, Array]]]:
        """For each axis the texels along it: (index, whether it is the border, weight)."""
        found: list[list[tuple[Array, Array, Array]]] = []
        for axis, (size, mode) in enumerate(zip(self.sizes(level), self._modes(), strict=False)):
            x = self.coordinates[axis][where]
            if self.sampler.normalized and not self.integer:
                x = x * size
            along: list[tuple[Array, Array, Array]] = []
            for i, w in sampling.positions(x, linear=linear):
                i = i + self.offsets[axis][where] if axis < len(self.offsets) else i
                along.append((*sampling.texel_index(i, size, mode), w))
            found.append(along)
        return found

    def _texels(self, level: int, where: Any, corner: tuple[tuple[Array, Array, Array], ...]) -> Array:
        """The texels of one corner of the footprint, zeros on the border: (n, channels)."""
        indices = [c[0] for c in corner]
        zero = np.zeros(indices[0].shape, np.int64)
        z, y, x = (*[zero] * (3 - len(indices)), *indices[::-1])
        values = self.texture.values(level, (self.layer[where], z, y, x))
        border = np.logical_or.reduce([c[1] for c in corner])
        values = np.where(border[:, None], values.dtype.type(0), values)
        return values if self.compare is None else self.compare(values, where)

    def at_level(self, level: int, where: Any) -> Array:
        linear = self.sampler.filter == "linear" and not self.integer
        axes = self._axes(level, where, linear=linear)
        if not linear:
            return self._texels(level, where, tuple(a[0] for a in axes))
        total: Array = 0.0
        for corner in product(*axes):
            w = np.multiply.reduce([c[2] for c in corner])
            total = total + w[:, None] * self._texels(level, where, corner)
        return total

    def at_detail(self, detail: Array) -> Array:
        """Filtered at a level of detail per lane."""
        last = len(self.texture.levels) - 1
        detail = np.clip(np.nan_to_num(detail + self.sampler.lod_bias, nan=0.0), 0, last)
        if self.sampler.mip_filter == "nearest":
            return self._by_level(np.floor(detail + 0.5).astype(np.int64))
        low = np.floor(detail)
        alpha = sampling.weight(detail - low)[:, None]
        low = low.astype(np.int64)
        return (1 - alpha) * self._by_level(low) + alpha * self._by_level(np.minimum(low + 1, last))

    def _by_level(self, level: Array) -> Array:
        level = np.minimum(level, len(self.texture.levels) - 1)
        result: Array = None
        for n in np.unique(level):
            where = np.flatnonzero(level == n)
            values = self.at_level(int(n), where)
            if result is None:
                result = np.zeros((level.size, values.shape[1]), values.dtype)
            result[where] = values
        return result

    def gather(self, component: int) -> Array:
        """One component of the four texels of the bilinear footprint, counter-clockwise from the lower left."""
        (x0, x1), (y0, y1) = self._axes(0, slice(None), linear=True)[:2]
        four = [self._texels(0, slice(None), c) for c in ((x0, y1), (x1, y1), (x1, y0), (x0, y0))]
        if component >= self.texture.channels:
            return np.zeros((four[0].shape[0], 4), four[0].dtype)
        return np.stack([texels[:, component] for texels in four], axis=1)


def _bits(values: Array) -> Array:
    """Texel values as the 32-bit patterns a read gives: floats as f32, integers extended. (n, channels)."""
    if values.dtype.kind == "f":
        return values.astype(np.float32).view(np.uint32)
    return values.astype(np.int64 if values.dtype.kind == "i" else np.uint64).astype(np.uint32)


def _write(rows: list[Array | None], lanes: Array, bits: Array, dtype: str, floats: bool) -> None:
    four = np.zeros((lanes.size, 4), np.uint32)
    four[:, : bits.shape[1]] = bits
    if dtype in ("f16", "f16x2"):
        values = four.view(np.float32) if floats else four.astype(np.float32)
        halves = values.astype(np.float16).view(np.uint16)
        four = halves if dtype == "f16" else np.ascontiguousarray(halves).view(np.uint32)
    for i, row in enumerate(rows):
        if row is not None:
            row[lanes] = four[:, i]


# ------------------------------------------------------------------------------------------------------- queries


def answer(inst: Inst, ask: Callable[[Machine, int, int, int], int]) -> Step:
    """A query: `ask(machine, handle, level, lane)` gives the answer."""

    def bind(machine: Machine, inst: Inst) -> Action:
        d, address, *rest = inst.operands
        assert isinstance(address, Address)
        if isinstance(d, Sink):
            return lambda m: None
        assert isinstance(d, Reg)
        row = machine.row(d)
        keys = [handles(machine, address.base)]
        if rest:
            keys.append(machine.source(rest[0], "u32", whole=True))

        def step(m: Mask) -> None:
            for group, lanes in in_groups(np.flatnonzero(machine.executing(m)), keys):
                row[lanes] = ask(machine, group[0], group[1] if rest else 0, int(lanes[0]))

        return step

    return Step(bind)


@meaning("txq", "txq.level")
def txq(inst: Inst) -> Step:
    name = inst.modifiers[0]

    def ask(machine: Machine, handle: int, level: int, lane: int) -> int:
        found = machine.memory.handles.objects.get(handle)
        sampler = found if isinstance(found, Sampler) else getattr(found, "sampler", None)
        if isinstance(sampler, Sampler):
            of_sampler = _sampler_property(sampler, name)
            if of_sampler is not None:
                return of_sampler
        texture: Texture = named(machine, inst, handle, "texref", lane)
        return texture.query(name, level) or 0

    return answer(inst, ask)


def _sampler_property(sampler: Sampler, name: str) -> int | None:
    if name == "filter_mode":
        return FILTERS.index(sampler.filter)
    if name.startswith("addr_mode_"):
        return ADDRESSES.index(sampler.addresses[int(name[-1])])
    if name == "normalized_coords":
        return int(sampler.normalized)
    return int(not sampler.normalized) if name == "force_unnormalized_coords" else None


@meaning("istypep")
def istypep(inst: Inst) -> Pure | Step:
    """Whether a 64-bit value is the handle of a texture, sampler or surface."""
    wanted = OPAQUE[inst.modifiers[0]]

    def bind(machine: Machine, inst: Inst) -> Action:
        d, a = inst.operands
        if not isinstance(d, Reg):
            return lambda m: None
        row, source = machine.row(d), machine.source(a, "u64", whole=True)

        def step(m: Mask) -> None:
            known = [h for h, o in machine.memory.handles.objects.items() if isinstance(o, wanted)]
            np.copyto(row, np.isin(source, np.array(known, np.uint64)), "unsafe", machine.executing(m))

        return step

    return Step(bind)
