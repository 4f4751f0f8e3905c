"""Matrix operands in shared memory, as wgmma and tcgen05 descriptors describe them (PTX ISA 9.7.17.5.1, 9.7.18.4).

An operand is read in chunks of 16 bytes, which no layout tears apart: along K for K-major operands, along M or N for
the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...numerics import formats
from ..machine.program import SHARED_BASE

if TYPE_CHECKING:
    from ..machine.machine import Machine, OperandRead
    from ..machine.program import Inst

Array = Any
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128}
_XOR = {"32B": (1, 4, 3), "64B": (2, 4, 3), "128B": (3, 4, 3), "128B_ATOM_32B": (2, 5, 2)}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A matrix descriptor: byte address and byte offsets, swizzle by name."""

    start: int
    leading: int
    stride: int
    base_offset: int
    swizzle: str
    absolute: bool = False
    """The leading field is an address, not a distance: that of the buffer where a row of 48 bytes goes on that reaches
    beyond 128 bytes (tcgen05).
    """
    second_half: bool = False
    """Of a row of 48 bytes with indices, the second half counts (tcgen05 with `.decompress::lut::b`)."""


_HOPPER = ("none", "128B", "64B", "32B")
_BLACKWELL = {0: "none", 1: "128B_ATOM_32B", 2: "128B", 4: "64B", 6: "32B"}


@lru_cache(maxsize=4096)
def hopper_descriptor(word: int) -> Descriptor:
    """A wgmma descriptor."""
    return Descriptor(
        (word & 0x3FFF) << 4,
        (word >> 16 & 0x3FFF) << 4,
        (word >> 32 & 0x3FFF) << 4,
        word >> 49 & 7,
        _HOPPER[word >> 62],
    )


_ZEROS = 1 << 15 | 1 << 31 | 0x7F << 54
"""Bits of a tcgen05 descriptor that must be 0."""


@lru_cache(maxsize=4096)
def blackwell_descriptor(word: int) -> Descriptor | str:
    """A tcgen05 descriptor, or what is wrong with it."""
    if word >> 46 & 7 != 1:
        return f"bits 46 to 48 of the descriptor 0x{word:016x} are {word >> 46 & 7:03b}, and must be 001"
    if word & _ZEROS:
        bits = ", ".join(str(i) for i in range(64) if (word & _ZEROS) >> i & 1)
        return f"bit {bits} of the descriptor 0x{word:016x} must be 0"
    swizzle = _BLACKWELL.get(word >> 61)
    if swizzle is None:
        return f"the swizzle mode {word >> 61} in bits 61 to 63 of the descriptor 0x{word:016x} does not exist"
    absolute = bool(word >> 52 & 1)
    if absolute and (swizzle != "128B" or word >> 49 & 7):
        return (
            f"the descriptor 0x{word:016x} has an absolute leading address, which needs 128-byte swizzle, base offset 0"
        )
    return Descriptor(
        (word & 0x7FFF) << 4, (word >> 16 & 0x7FFF) << 4, (word >> 32 & 0x3FFF) << 4, word >> 49 & 7, swizzle,
        absolute, bool(word >> 53 & 1),
    )  # fmt: skip


@lru_cache(maxsize=4096)
def chunk_addresses(rows: int, k_bytes: int, row_bytes: int, k: int, d: Descriptor, mn_major: bool) -> Array:
    """Addresses of an operand's 16-byte chunks, swizzled.

    K-major: shape (rows, k_bytes / 16). MN-major: shape (k, row_bytes / 16), where `row_bytes` are those of all rows at
    one k.
    """
    span = SPANS[d.swizzle]
    if not mn_major:
        row = np.arange(rows)[:, None]
        byte = 16 * np.arange(-(-k_bytes // 16))[None, :]
        if d.swizzle == "none":
            offset = row % 8 * 16 + row // 8 * d.stride + byte // 16 * d.leading
        elif d.absolute:
            place = d.start % span + byte
            line = np.where(place < span, d.start - d.start % span, d.leading)
            offset = row % 8 * span + row // 8 * d.stride + place % span + line - d.start
        else:
            # beyond the swizzle span (sparse B only), the next atom follows at the leading offset
            offset = row % 8 * span + row // 8 * d.stride + byte % span + byte // span * d.leading
    else:
        at = np.arange(k)[:, None]
        byte = 16 * np.arange(-(-row_bytes // 16))[None, :]
        if d.swizzle == "none":
            offset = byte // 16 * d.stride + at % 8 * 16 + at // 8 * d.leading
        elif d.swizzle == "128B_ATOM_32B":
            offset = byte % span + byte // span * d.leading + at % 4 * span + at // 4 * d.stride
        else:
            offset = byte % span + byte // span * d.leading + at % 8 * span + at // 8 * d.stride
    address = (d.start + offset).astype(np.int64)
    if d.swizzle != "none":
        bits, low, distance = _XOR[d.swizzle]
        phase = (address >> low + distance) - (d.base_offset if low + distance == 7 else 0)
        address ^= (phase & (1 << bits) - 1) << low
    return address


def tell_operands(machine: Machine, inst: Inst, reads: Sequence[OperandRead], *, of_a: bool = False) -> None:
    """Tell the observers which chunks tensor cores read; `of_a`: they are an A."""
    for observer in machine.observers:
        observer.operands_read(inst, reads, of_a=of_a)


class OperandError(Exception):
    """What is wrong with an operand, for the kernel's author."""


def read_patterns(
    shared: Array, shared_size: int, d: Descriptor, rows: int, k: int, bits: int, mn_major: bool
) -> Array:
    """The operand's elements as unsigned bit patterns: shape (rows, k), for 4 and 1 bit elements (rows, bytes).

    `shared`: the shared memory of a CTA, uint8, from SHARED_BASE on. OperandError.
    """
    addresses = chunk_addresses(rows, k * bits // 8, rows * bits // 8, k, d, mn_major)
    index = (addresses - SHARED_BASE) >> 4
    low, high = int(index.min()), int(index.max())
    if low < 0 or 16 * (high + 1) > (shared_size + 15) // 16 * 16:
        bad = low if low < 0 else high
        raise OperandError(
            f"the operand (descriptor: start 0x{d.start:x}, leading offset {d.leading}, stride offset {d.stride}, "
            f"swizzle {d.swizzle}) reaches 0x{16 * bad + SHARED_BASE:x}, out of bounds: the CTA has {shared_size} "
            f"bytes of shared memory at 0x{SHARED_BASE:x}"
        )
    chunks = shared[: shared.size // 16 * 16].view("V16")[index]
    dtype = np.dtype(f"u{max(1, bits // 8)}")
    if mn_major:
        return chunks.view(dtype).reshape(k, -1)[:, :rows].T
    width = k * bits // 8 // dtype.itemsize
    return chunks.view(dtype).reshape(rows, -1)[:, :width]


def packed_fields(raw: Array, bits: int) -> Array:
    """The unsigned fields of so many bits that fill rows of bytes, lowest first: (..., bytes) -> (..., fields)."""
    raw = np.ascontiguousarray(raw).view(np.uint8)
    if bits == 4:
        return np.stack([raw & np.uint8(15), raw >> np.uint8(4)], axis=-1).reshape(*raw.shape[:-1], -1)
    each = np.unpackbits(raw, axis=-1, bitorder="little").reshape(*raw.shape[:-1], -1, bits)
    return (each << np.arange(bits, dtype=np.uint8)).sum(axis=-1, dtype=np.uint8)


@lru_cache(maxsize=16)
def _table(kind: str) -> Array:
    """The number of each byte, float32; the upper bits of 4 and 6 bit types do not count."""
    codes = np.arange(256, dtype=np.uint8) & np.uint8({"e2m1": 15, "e3m2": 63, "e2m3": 63}.get(kind, 255))
    return formats.decode(codes, kind).astype(np.float32)


def numbers(patterns: Array, kind: str) -> Array:
    """Bit patterns as float32 numbers, all of which are exact, as are sums of products. b1: the bits of each byte, low
    first. s1z4m11: a sign and eleven bits of magnitude, float64; the four bits between them do not count.
    """
    match kind:
        case "bf16":
            return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "f16":
            return patterns.view(np.float16).astype(np.float32)
        case "tf32":
            return (patterns & np.uint32(0xFFFF_E000)).view(np.float32)
        case "s8":
            return patterns.view(np.int8).astype(np.float32)
        case "u8":
            return patterns.astype(np.float32)
        case "s1z4m11":
            magnitude = (patterns & np.uint16(0x7FF)).astype(np.float64)
            return np.where(patterns >> np.uint16(15), -magnitude, magnitude)
        case "b1":
            return np.unpackbits(np.ascontiguousarray(patterns).view(np.uint8), axis=-1, bitorder="little").astype(
                np.float32
            )
        case _:
            return _table(kind)[patterns]
