"""Tensor copies of a kernel against the tensors' `Tile`s and the shared memory that they fill.

TMA places the 16-byte chunk c of the 128-byte row r of a box at chunk c ^ (r % 8) (for 128B), where r counts from a
multiple of 1024 bytes of the *address*. CUDA driver API, cuTensorMapEncodeTiled; PTX ISA 5.5.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...diagnostics import Diagnostic, PTXError
from .. import deferred
from ..core.instructions import AddressOperand
from ..core.registers import Reg
from ..core.tiles import Layout, Tile
from ..core.trace import Trace
from ..memory.layouts import row_major
from ..memory.parameters import TensorSpec
from ..memory.shared import SharedAlloc, SharedSlice

__all__ = ["TensorCopy", "note_copy", "tensor_copy_problems", "tensor_map_problems"]

SWIZZLES = {Layout.TMA_128B: "128B", Layout.TMA_64B: "64B", Layout.TMA_32B: "32B"}
_ATOMS = {"128B": 1024, "64B": 512, "32B": 256}


@dataclass(frozen=True, slots=True)
class TensorCopy:
    """A copy of a box between a tensor and shared memory. `start`: bytes into the allocation, None where only the running
    kernel knows; `rank`: the coordinates that it has, 0 for other modes than `tile`.
    """

    tile: Tile
    memory: SharedAlloc | None
    start: int | None
    rank: int
    place: int


def note_copy(trace: Trace, tensor: Any, shared: Any, rank: int, mode: str) -> None:
    """Remember a copy of a tensor that has a Tile."""
    tile = trace.described.get(tensor.name) if isinstance(tensor, Reg) else None
    if tile is None:
        return
    start: Any = 0
    if isinstance(shared, AddressOperand):
        start, shared = shared.offset or 0, shared.base
    if isinstance(shared, SharedSlice):
        start = start + shared.offset if isinstance(start, int) and isinstance(shared.stage, int) else None
        shared = shared.alloc
    memory = getattr(shared, "allocation", shared)
    memory = memory if isinstance(memory, SharedAlloc) else None
    if memory is not None and memory.whole is not memory:
        start = start + memory.first_byte if isinstance(start, int) and memory.moved is None else None
    known = start if isinstance(start, int) else None
    coordinates = rank if mode in ("", ".tile") else 0
    trace.notes(TensorCopy).append(TensorCopy(tile, memory, known, coordinates, trace.place()))


def tensor_copy_problems(trace: Trace, env: Mapping[str, int]) -> list[Diagnostic]:
    """At most one finding for each allocation, and for each copy that has the wrong number of coordinates."""
    found: dict[object, Diagnostic] = {}
    for copy in trace.notes(TensorCopy):
        key = copy.memory.symbol if copy.memory is not None else copy.place
        problem = None
        if key not in found:
            problem = _rank_problem(copy) or _memory_problem(copy, env)
        if problem is not None:
            message, hint, place = problem
            found[key] = trace.diagnostic(message, hint, place)
    return list(found.values())


def tensor_map_problems(trace: Trace, tensors: Sequence[TensorSpec], known: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What TMA cannot do with a tensor that is copied, at its first copy: the rules for boxes and strides, for row-major
    tensors of which all dimensions are known. Copies with a `known` problem are left out.
    """
    found: list[Diagnostic] = []
    for tensor in tensors:
        if tensor.name not in trace.descriptors or tensor.shape is None or trace.tiles[tensor.name].strides:
            continue
        strides = [prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape))]
        try:
            deferred.tile_maps.map_of_tile(trace.tiles[tensor.name], tensor.shape, strides, tensor.name)
        except PTXError as error:
            tile = trace.tiles[tensor.name]
            place = next((c.place for c in trace.notes(TensorCopy) if c.tile is tile), 0)
            found.append(
                trace.diagnostic(error.diagnostics[0].message, "give its Tile another tma_box or layout", place)
            )
    places = {d.location for d in known}
    return [d for d in found if d.location not in places]


_Problem = tuple[str, str, int] | None


def _rank_problem(copy: TensorCopy) -> _Problem:
    rank = 3 if copy.tile.tma_rank == 3 else copy.tile.rank
    if copy.rank in (0, rank):
        return None
    return (
        f"the copy has {copy.rank} coordinates, and {copy.tile!r} is described to TMA with {rank} dimensions",
        f"copy it with tensor_{rank}d",
        copy.place,
    )


def _placement_problem(copy: TensorCopy, s: SharedAlloc, box: Sequence[Any]) -> _Problem:
    """A layout that puts the elements of a box in another order than TMA, which writes it row by row."""
    if s.placement is None or not copy.rank or copy.tile.tma_rank == 3 or tuple(s.shape[-len(box) :]) != tuple(box):
        return None
    written = row_major(box)
    for i, (own, wanted) in enumerate(zip(s.placement.modes[-len(box) :], written.modes, strict=True)):
        if box[i] > 1 and own != wanted:
            element = tuple(int(j == i) for j in range(len(box)))
            there, here = (
                p.linear((0,) * (len(p.modes) - len(box)) + element) * s.dtype.bits // 8 for p in (s.placement, written)
            )
            return (
                f"TMA writes the rows of a box one after the other, and the layout of {s.symbol} has element {element} {there} bytes after the first one, not {here}"
                if there != here
                else f"TMA writes dimension {i} of a box in equal steps of {here} bytes, and the layout of {s.symbol} does not",
                "copy boxes that are contiguous in the layout, such as stripes of 128 bytes, or take another layout",
                copy.place,
            )
    return None


def _memory_problem(copy: TensorCopy, env: Mapping[str, int]) -> _Problem:
    s, start, swizzle = copy.memory, copy.start, SWIZZLES.get(copy.tile.layout)
    if s is None:
        return None
    box = copy.tile.tma_box or tuple(env.get(d, 0) if isinstance(d, str) else d for d in copy.tile.dims)
    size = prod(n if isinstance(n, int) else 0 for n in box) * copy.tile.dtype.bits // 8
    if copy.rank and start is not None and start + size > s.size and not copy.tile.tma_padding:
        return (
            f"a box of {' x '.join(map(str, box))} {copy.tile.dtype} has {size} bytes, and {s.symbol} has "
            f"{max(s.size - start, 0)} from there on",
            "make the allocation larger, or the Tile's tma_box smaller",
            copy.place,
        )
    if s.swizzle is not None and s.swizzle != swizzle:
        return (
            f"TMA copies {s.symbol} {'without a swizzle' if swizzle is None else f'with the {swizzle} swizzle'}, and "
            f"its layout is {s.swizzle}",
            f"give the tensor's Tile the layout Layout.TMA_{s.swizzle}",
            copy.place,
        )
    torn = _placement_problem(copy, s, box)
    if torn is not None:
        return torn
    if swizzle is None:
        return None
    atom = _ATOMS[swizzle]
    if s.align % atom or (start or 0) % atom:
        what = (
            f"{start} bytes into {s.symbol}" if (start or 0) % atom else f"{s.symbol}, which is {s.align}-byte aligned"
        )
        return (
            f"TMA copies {what}, with the {swizzle} swizzle: its pattern repeats every {atom} bytes of the address",
            f"smem.alloc(..., align={atom}) or smem.wgmma_tile(...), and parts that are multiples of {atom} bytes",
            copy.place,
        )
    if s.element_place is None:
        return None
    if s.placement is not None:
        own = s.placement.hardware_swizzle(s.dtype.bits)
        if own == swizzle:
            return None
        return (
            f"the layout of {s.symbol} has {f'the {own} swizzle' if own else 'no swizzle of TMA'}, and TMA copies it with the {swizzle} swizzle",
            f"of bytes, the {swizzle} swizzle is Swizzle({_ATOMS[swizzle].bit_length() - 8}, 4, 3)",
            s.element_place,
        )
    return (
        f"{s.symbol} is indexed here as rows and columns, and TMA copies it with the {swizzle} swizzle",
        f'address the bytes: smem.apply_swizzle(offset, "{swizzle}"); or take Layout.ROW for the tensor',
        s.element_place,
    )
