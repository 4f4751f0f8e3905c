"""Tensor maps: the 128-byte objects that describe a tensor in global memory to tensor copies (PTX ISA 5.5).

NVIDIA keeps the bits of a `CUtensorMap` to itself, so these are our own; what may be in them is checked as
`cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` check it. Sizes are given fastest dimension first, as there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...diagnostics import counted

__all__ = ["ELEMENT_TYPES", "SWIZZLES", "TensorArgument", "TensorMap", "check", "swizzled"]

Array = Any
SIZE = 128
"""Bytes of a tensor map."""

ELEMENT_TYPES: dict[str, int] = {
    "u8": 8, "u16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64, "f16": 16, "f32": 32, "f32.ftz": 32, "f64": 64,
    "bf16": 16, "tf32": 32, "tf32.ftz": 32, "b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6,
}  # fmt: skip
"""Element type -> bits, in the order of `tensormap.replace.elemtype`. The last three are packed: 16 values are 8 bytes,
8 bytes with a gap of 8 in shared memory, 12 bytes with a gap of 4.
"""
_TYPE_NAMES = tuple(ELEMENT_TYPES)
PADDED = ("b4x16_p64", "b6x16_p32")
FLOATS = ("f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz")

SWIZZLES: dict[str, tuple[int, int]] = {
    "none": (0, 0), "32B": (1, 0), "64B": (2, 0), "128B": (3, 0), "96B": (4, 0), "128B_ATOM_32B": (3, 1),
    "128B_ATOM_32B_FLIP_8B": (3, 2), "128B_ATOM_64B": (3, 3),
}  # fmt: skip
"""Swizzle -> (mode, atomicity) as `tensormap.replace` numbers them."""
_SWIZZLE_NAMES = {v: k for k, v in SWIZZLES.items()}
SPANS = {"none": 0, "32B": 32, "64B": 64, "96B": 96}
"""Bytes of the inner box dimension that a swizzle admits (128 for those not listed)."""
_XOR = {
    "32B": (1, 4, 3), "64B": (2, 4, 3), "96B": (1, 4, 3), "128B": (3, 4, 3), "128B_ATOM_32B": (2, 5, 2),
    "128B_ATOM_32B_FLIP_8B": (2, 5, 2), "128B_ATOM_64B": (1, 6, 1),
}  # fmt: skip
"""(bits, lowest bit, distance): these bits of an address are changed by those `distance` above them."""
INTERLEAVES = ("none", "16B", "32B")
KINDS = ("tiled", "im2col", "im2col::w", "im2col::w::128")
PROMOTIONS = ("none", "64B", "128B", "256B")
_MAGIC = 0x50414D54
_LAYOUT = struct.Struct("<I4BQ5B3x5I4x4Q5H5Bx6h2H16x")
assert _LAYOUT.size == SIZE


@dataclass(frozen=True, slots=True)
class TensorMap:
    """What a tensor map says. `shape`, `box` and `element_strides` fastest dimension first; `strides` in bytes, for all
    dimensions but the first, which is dense.

    im2col kinds: `lower` and `upper` corners (spatial dimensions, fastest first), `channels` and `pixels` in place of
    the box.
    """

    type: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    interleave: str = "none"
    swizzle: str = "none"
    promotion: str = "none"
    nan_fill: bool = False
    kind: str = "tiled"
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    large: bool = False
    """Whether the tensor's allocation is of the large class."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def bits(self) -> int:
        return ELEMENT_TYPES[self.type]

    @property
    def steps(self) -> tuple[int, ...]:
        """Element strides, 1 where they do not count."""
        steps = self.element_strides or (1,) * self.rank
        return steps if self.interleave != "none" else (1, *steps[1:])

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements that a copy moves along each dimension."""
        return tuple(-(-b // s) for b, s in zip(self.box, self.steps, strict=True))

    def encode(self) -> bytes:
        """The 128 bytes."""
        pad = (0,) * (5 - self.rank)
        mode, atomicity = SWIZZLES[self.swizzle]
        corners = (*self.lower, *(0,) * (3 - len(self.lower)), *self.upper, *(0,) * (3 - len(self.upper)))
        steps = self.element_strides or (1,) * self.rank
        return _LAYOUT.pack(
            _MAGIC, KINDS.index(self.kind), _TYPE_NAMES.index(self.type), self.rank - 1,
            INTERLEAVES.index(self.interleave), self.address, mode, atomicity, PROMOTIONS.index(self.promotion),
            self.nan_fill, self.large, *(n - 1 for n in self.shape), *pad, *self.strides, *pad[: 5 - self.rank],
            *self.box, *pad, *steps, *pad, *corners, self.channels, self.pixels,
        )  # fmt: skip

    @staticmethod
    def decode(raw: bytes) -> TensorMap | None:
        """What 128 bytes say, or None if they are not a tensor map."""
        fields = _LAYOUT.unpack(raw)
        if fields[0] != _MAGIC or fields[2] >= len(_TYPE_NAMES) or fields[3] > 4 or fields[4] > 2:
            return None
        swizzle = _SWIZZLE_NAMES.get((fields[6], fields[7]), "none")
        rank = fields[3] + 1
        kind = KINDS[fields[1]]
        spatial = rank - 2 if kind != "tiled" else 0
        f = fields[11:]
        return TensorMap(
            _TYPE_NAMES[fields[2]], fields[5], tuple(n + 1 for n in f[:rank]), f[5 : 5 + rank - 1], f[9 : 9 + rank],
            f[14 : 14 + rank], INTERLEAVES[fields[4]], swizzle, PROMOTIONS[fields[8]], bool(fields[9]), kind,
            f[19 : 19 + spatial], f[22 : 22 + spatial], f[25], f[26], bool(fields[10]),
        )  # fmt: skip


FIELDS = {
    "global_address": (8, 8), "rank": (6, 1), "elemtype": (5, 1), "interleave_layout": (7, 1), "swizzle_mode": (16, 1),
    "swizzle_atomicity": (17, 1), "fill_mode": (19, 1), "alloc_large": (20, 1), "global_dim": (24, 4), "global_stride": (48, 8),
    "box_dim": (80, 2), "element_stride": (90, 1),
}  # fmt: skip
"""Field of `tensormap.replace` -> (first byte, bytes for each dimension); `alloc_large` is 1 for that class of allocations."""


def replace_field(raw: Array, field: str, index: int, value: int) -> None:
    """`tensormap.replace` on the 128 bytes of a tensor map (a writable uint8 array), or on 128 zeros."""
    raw[:4] = np.frombuffer(_MAGIC.to_bytes(4, "little"), np.uint8)
    start, size = FIELDS[field]
    if field == "global_dim":
        value -= 1
    start += index * size
    raw[start : start + size] = np.frombuffer((value & (1 << 8 * size) - 1).to_bytes(size, "little"), np.uint8)


def check(m: TensorMap) -> str:
    """What `cuTensorMapEncode*` would refuse, in one sentence; empty if the map is fine."""
    shape = _check_tiled if m.kind == "tiled" else _check_im2col
    return _check_rank(m) or _check_shape(m) or _check_format(m) or shape(m)


def _check_rank(m: TensorMap) -> str:
    rank = m.rank
    if m.kind == "tiled":
        if not 1 <= rank <= 5:
            return f"the rank is 1 to 5, not {rank}"
        if m.interleave != "none" and rank < 3:
            return f"an interleaved tensor has rank 3 to 5, not {rank}"
    elif not 3 <= rank <= 5:
        return f"an im2col tensor has rank 3 to 5, not {rank}"
    if len(m.strides) != rank - 1:
        return f"a tensor of rank {rank} has {rank - 1} strides, not {len(m.strides)}: the first dimension is dense"
    return ""


def _check_shape(m: TensorMap) -> str:
    padded = m.type in PADDED
    wide = m.interleave == "32B" or padded
    aligned = 32 if wide else 16
    why = " (32B interleave or padded elements)" if wide else ""
    if m.address % aligned:
        return f"the tensor's address 0x{m.address:x} must be a multiple of {aligned}{why}"
    for i, n in enumerate(m.shape):
        if not 1 <= n <= 1 << 32:
            return f"size {n} of dimension {i} is outside 1 to 2**32"
    if padded and m.shape[0] % 128:
        return f"the size {m.shape[0]} of dimension 0 must be a multiple of 128 for .{m.type}"
    if m.type == "b4x16" and m.shape[0] % 2:
        return f"the size {m.shape[0]} of dimension 0 must be even for .{m.type}"
    for i, n in enumerate(m.strides):
        if n % aligned or not 0 <= n < 1 << 40:
            return f"the stride of dimension {i + 1} is {n} bytes; it must be a multiple of {aligned} below 2**40{why}"
    for i, n in enumerate(m.element_strides):
        if not 1 <= n <= 8 and not (i == 0 and m.interleave == "none"):
            return f"element stride {n} of dimension {i} is outside 1 to 8"
    return ""


def _check_format(m: TensorMap) -> str:
    padded = m.type in PADDED
    if m.interleave == "32B" and m.swizzle != "32B":
        return "a 32B interleave needs the 32B swizzle"
    if m.type == "b6x16_p32" and m.interleave != "none":
        return f".{m.type} cannot be interleaved"
    if padded and m.swizzle not in ("none", "128B", "128B_ATOM_32B", *(("128B_ATOM_64B",) * (m.type == "b6x16_p32"))):
        return f".{m.type} has no {m.swizzle} swizzle"
    if m.nan_fill and m.type not in FLOATS:
        return f"out-of-bounds elements of .{m.type} are zeros: NaNs need a floating-point type"
    return ""


def _check_tiled(m: TensorMap) -> str:
    if len(m.box) != m.rank:
        return f"the box has {counted(len(m.box), 'dimension')} and the tensor {m.rank}"
    for i, n in enumerate(m.box):
        if not 1 <= n <= 256:
            return f"box size {n} of dimension {i} is outside 1 to 256"
    if m.type in PADDED:
        return f"the inner box size is 128 for .{m.type}, not {m.box[0]}" if m.box[0] != 128 else ""
    if m.interleave == "none":
        inner = m.box[0] * m.bits // 8
        if m.box[0] * m.bits % 128:
            return f"rows of the box have {counted(m.box[0], 'element')}, {inner} bytes: they must be a multiple of 16 bytes"
        span = SPANS.get(m.swizzle, 128)
        if span and inner > span:
            return f"rows of the box have {inner} bytes, more than the {span} bytes of the {m.swizzle} swizzle"
    return ""


def _check_im2col(m: TensorMap) -> str:
    limit = 1 << (15 if m.kind != "im2col" else {3: 15, 4: 7, 5: 4}[m.rank])
    for i, (low, high) in enumerate(zip(m.lower, m.upper, strict=True)):
        if not -limit <= low < limit or not -limit <= high < limit:
            return f"corners of spatial dimension {i} must be in {-limit} to {limit - 1}, not {low} and {high}"
        if m.shape[i + 1] + high - low <= 0:
            return f"the bounding box is empty along spatial dimension {i}"
    if len(m.lower) != m.rank - 2:
        return f"a tensor of rank {m.rank} has corners for {m.rank - 2} spatial dimensions, not {len(m.lower)}"
    if not 1 <= m.channels <= 256 or (m.type in PADDED and m.channels != 128):
        return f"channels per pixel are 1 to 256 (128 for padded types), not {m.channels}"
    if m.kind != "im2col::w::128" and not 1 <= m.pixels <= 1024:
        return f"pixels per column are 1 to 1024, not {m.pixels}"
    span = SPANS.get(m.swizzle, 128)
    if m.interleave == "none" and span and m.channels * m.bits // 8 > span:
        return f"{m.channels} channels are {m.channels * m.bits // 8} bytes, more than the {m.swizzle} swizzle admits"
    if m.kind != "im2col" and m.swizzle not in ("64B", "128B", "128B_ATOM_32B"):
        return f"the mode {m.kind} needs a swizzle of 64B, 128B or 128B_ATOM_32B"
    return ""


@lru_cache(maxsize=1024)
def swizzled(count: int, swizzle: str, start: int) -> Array:
    """Where the 16-byte chunks of a box go: chunk i of a box at shared address `start` lies at chunk `[i]` after it.

    The exclusive-or works on the address, so `start` counts modulo 1024 bytes.
    """
    chunk = np.arange(count, dtype=np.int64)
    if swizzle == "none":
        return chunk
    bits, low, distance = _XOR[swizzle]
    address = start + 16 * chunk
    moved = address ^ (address & ((1 << bits) - 1) << low + distance) >> distance
    return (moved - start) >> 4


# ------------------------------------------------------------------------------------------------- arguments


@dataclass(frozen=True, slots=True, eq=False)
class TensorArgument:
    """A tensor map of an array as an argument of a launch; its address is known when the launch lays out memory."""

    array: Any
    map: TensorMap

    def at(self, address: int) -> bytes:
        """The 128 bytes for an array at that address."""
        return replace(self.map, address=address + self.map.address).encode()
