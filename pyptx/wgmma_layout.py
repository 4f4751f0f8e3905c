"""Shared-memory layouts of wgmma operands: which swizzle, and the two strides of the matrix descriptor (PTX ISA
9.7.17.5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .types import PtxType

__all__ = ["GmmaLayout", "LayoutType", "Major", "layout_for_a", "layout_for_b", "pick_gmma_layout"]


class LayoutType(IntEnum):
    """The swizzle field of the descriptor (bits 62-63)."""

    INTERLEAVE = 0
    B128 = 1
    B64 = 2
    B32 = 3


class Major(IntEnum):
    """Which index of the operand is contiguous in memory: K, or M (N)."""

    K = 0
    MN = 1


@dataclass(frozen=True)
class GmmaLayout:
    """A canonical layout: the swizzle, and the leading and stride byte offsets of the descriptor.

    K-major: `stride_byte_offset` is the distance of two groups of 8 rows; `leading_byte_offset` that of two stripes of
    one swizzle width along K (unused by swizzled layouts with one stripe). MN-major: stride is the distance of two
    groups of 8 k, leading that of two stripes along M or N. `tma_swizzle` and `smem_swizzle` name the swizzle ("128B",
    ...); without one they are "NONE" and None.
    """

    layout_type: LayoutType
    leading_byte_offset: int
    stride_byte_offset: int
    tma_swizzle: str
    smem_swizzle: str | None

    @property
    def swizzle_code(self) -> int:
        return int(self.layout_type)


_SWIZZLES = {
    16: (LayoutType.INTERLEAVE, None),
    32: (LayoutType.B32, "32B"),
    64: (LayoutType.B64, "64B"),
    128: (LayoutType.B128, "128B"),
}


def pick_gmma_layout(*, elem_bytes: int, m_or_n: int, k: int, major: Major) -> GmmaLayout:
    """The layout for an operand tile of m_or_n x k elements, as TMA writes it with the swizzle as wide as its rows
    (128 bytes at most).

    The contiguous extent must be 16, 32 or 64 bytes or a multiple of 128; the other one a multiple of 8. ValueError
    otherwise.
    """
    contiguous, other = (k, m_or_n) if major == Major.K else (m_or_n, k)
    name, other_name = ("k", "m or n") if major == Major.K else ("m or n", "k")
    if other % 8:
        raise ValueError(f"{other_name} = {other} must be a multiple of 8")
    row_bytes = contiguous * elem_bytes
    if row_bytes not in _SWIZZLES and (row_bytes < 128 or row_bytes % 128):
        raise ValueError(
            f"rows of {row_bytes} bytes ({name} = {contiguous}) must be 16, 32, 64 or a multiple of 128 bytes"
        )
    stripe = min(row_bytes, 128)
    layout_type, swizzle = _SWIZZLES[stripe]
    # stripes of 128 bytes lie one after the other, each with all rows
    leading = other * 128 if row_bytes > 128 else 16
    if major == Major.MN and swizzle is None:
        leading = 8 * stripe  # without swizzle, the leading offset steps along K
    return GmmaLayout(layout_type, leading, 8 * stripe, swizzle or "NONE", swizzle)


def layout_for_a(*, dtype: PtxType, m: int, k: int) -> GmmaLayout:
    """The layout of a K-major A tile of m x k."""
    return pick_gmma_layout(elem_bytes=dtype.bits // 8, m_or_n=m, k=k, major=Major.K)


def layout_for_b(*, dtype: PtxType, k: int, n: int) -> GmmaLayout:
    """The layout of an MN-major B tile of k x n (rows of n, as a row-major K x N matrix is loaded)."""
    return pick_gmma_layout(elem_bytes=dtype.bits // 8, m_or_n=n, k=k, major=Major.MN)
