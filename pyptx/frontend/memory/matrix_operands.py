"""Matrix operands in shared memory: what the descriptors of wgmma and tcgen05 say of an array's layout (PTX ISA 9.7.17.5.1, 9.7.18.4.1).

The hardware reads an operand along M (or N) and along K by two strides and a swizzle. Whether an array lies so is compared element by element: what an
index adds along one dimension does not depend on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.trace import Trace
from .layouts import HARDWARE
from .shared import SharedAlloc, SharedSlice

__all__ = ["MatrixOperand", "array_of", "matrix_operand"]

CHUNK = 16
"""Bytes that no layout tears apart."""
_SPANS = {None: CHUNK, "32B": 32, "64B": 64, "128B": 128, "128B_32B": 128}


@dataclass(frozen=True)
class MatrixOperand:
    """Fields of a descriptor, in bytes. `major`: "K", or "MN" where M or N is contiguous."""

    major: str
    leading: int
    stride: int
    swizzle: str | None


def array_of(operand: Any) -> SharedAlloc | None:
    """The array that an operand is, or the part of one, whose layout is to be described; None for tiles of `wgmma_tile`, which know their own, and for
    what is not an array.
    """
    if isinstance(operand, SharedSlice) and operand.alloc.gmma_layout is None:
        return operand.alloc[operand.stage, *[slice(None)] * len(operand.shape)]
    if isinstance(operand, SharedAlloc) and operand.gmma_layout is None:
        return operand.T if operand.gmma_major == "MN" and len(operand.shape) == 2 else operand
    return None


def matrix_operand(
    trace: Trace, array: SharedAlloc, *, rows: int | None = None, k_bytes: int = 32, swizzles: Sequence[str | None]
) -> MatrixOperand:
    """How an array of the shape (M or N, K) lies, for an instruction that reads `rows` (all of them, if None) and `k_bytes` of each.

    PTXError, with the first element that lies elsewhere, for a layout that the hardware cannot read.
    """
    name, bits = array.symbol, array.dtype.bits
    placed = array.own_placement()
    if len(placed.modes) != 2:
        raise trace.error(
            f"a matrix operand has two dimensions, (M or N, K), and {name} has {len(placed.modes)}",
            "s[stage] is the part at an index, s[0:64, 16:32] a part with both dimensions",
        )
    extent, depth = placed.shape
    rows, k = extent if rows is None else rows, 8 * k_bytes // bits
    if extent < rows or depth < k:
        raise trace.error(
            f"the instruction reads {rows} x {k} elements of {name}, which is {extent} x {depth}",
            "the array's dimensions are (M or N, K); s.T exchanges them",
        )
    swizzle = placed.hardware_swizzle(bits)
    if (placed.swizzle is not None and swizzle is None) or swizzle not in swizzles:
        known = ", ".join(f"Swizzle{_numbers(s, bits)}" for s in swizzles if s is not None)
        raise trace.error(
            f"the swizzle of {name}, Swizzle({placed.swizzle.bits}, {placed.swizzle.base}, {placed.swizzle.shift}), is not one that matrix descriptors have"
            if placed.swizzle is not None
            else f"{name} has no swizzle",
            f"for elements of {bits} bits those are {known}, or none",
        )
    if array.first_byte % CHUNK:
        raise trace.error(
            f"an operand starts at a multiple of {CHUNK} bytes, and this part of {name} at {array.first_byte}"
        )
    along = [placed.linear((i, 0)) for i in range(rows)]
    deep = [placed.linear((0, j)) for j in range(k)]
    chunk, width = 8 * CHUNK // bits, 8 * _SPANS[swizzle] // bits
    k_major = deep[1] == 1
    if not k_major and along[1:2] != [1]:
        raise trace.error(
            f"neither dimension of {name} is contiguous: M or N has the stride {along[1] if rows > 1 else 0}, K {deep[1]}",
            "a descriptor reads chunks of 16 bytes along K or along M (N)",
        )
    group = 4 if swizzle == "128B_32B" else 8
    if k_major:
        stride = along[8] if rows > 8 else 8 * width
        leading = (deep[chunk] if k > chunk else 0) if swizzle is None else deep[width] if k > width else chunk
        step = chunk if swizzle is None else width
        wanted_along, wanted_deep = _grouped(8, width, stride), _grouped(step, 1, leading)
    elif swizzle is None:
        stride = along[chunk] if rows > chunk else 0
        leading = deep[8] if k > 8 else 0
        wanted_along, wanted_deep = _grouped(chunk, 1, stride), _grouped(8, chunk, leading)
    else:
        leading = along[width] if rows > width else 0
        stride = deep[group] if k > group else 0
        wanted_along, wanted_deep = _grouped(width, 1, leading), _grouped(group, width, stride)
    if rows % 8:
        raise trace.error(f"an operand has a multiple of 8 of M or N, and {name} has {rows}")
    _compare(trace, name, bits, swizzle, k_major, (along, wanted_along), (deep, wanted_deep))
    leading, stride = leading * bits // 8, stride * bits // 8
    for what, distance in (("leading", leading), ("stride", stride)):
        if distance % CHUNK or not 0 <= distance < 1 << 18:
            raise trace.error(
                f"the {what} byte offset of {name} would be {distance}; it is a multiple of 16 below 2^18"
            )
    return MatrixOperand("K" if k_major else "MN", leading, stride, swizzle)


def _grouped(count: int, inner: int, outer: int) -> Callable[[int], int]:
    return lambda i: i % count * inner + i // count * outer


def _numbers(swizzle: str, bits: int) -> tuple[int, int, int]:
    made = HARDWARE[swizzle].of_elements(bits)
    return made.bits, made.base, made.shift


_Pair = tuple[list[int], Callable[[int], int]]


def _compare(trace: Trace, name: str, bits: int, swizzle: str | None, k_major: bool, along: _Pair, deep: _Pair) -> None:
    for number, (found, wanted) in enumerate((along, deep)):
        bad = next((i for i, at in enumerate(found) if at != wanted(i)), None)
        if bad is None:
            continue
        element = (bad, 0) if number == 0 else (0, bad)
        kind = f"{'a K-major' if k_major else 'an MN-major'} operand {'without a swizzle' if swizzle is None else f'with the {swizzle} swizzle'}"
        raise trace.error(
            f"{name} does not lie as {kind} is read: element {element} is {found[bad] * bits // 8} bytes after the first one, not {wanted(bad) * bits // 8}",
            _lines(k_major, swizzle, bits),
        )


def _lines(k_major: bool, swizzle: str | None, bits: int) -> str:
    chunk, width = 8 * CHUNK // bits, 8 * _SPANS[swizzle] // bits
    if swizzle is None:
        where = "8 rows" if k_major else "8 of K"
        return f"without a swizzle, {where} of {chunk} contiguous elements follow each other, 16 bytes apart"
    rows = f"{4 if swizzle == '128B_32B' else 8} of {'M or N' if k_major else 'K'}"
    return f"with the {swizzle} swizzle, {width} contiguous elements make a row, and {rows} follow each other {_SPANS[swizzle]} bytes apart"
