"""Tiles of a bf16 matrix copied to shared memory by `cp.async`, 32 columns (64 bytes) at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyptx import ptx, reg
from pyptx.reg import Reg
from pyptx.types import s32

COLUMNS = 32
CHUNKS = COLUMNS * 2 // 16
"""16-byte chunks in a row of a tile."""


class TileCopy:
    """The copies that a CTA makes for one operand: `rows` rows of a row-major matrix of `height` rows and K columns.

    Thread `tid` copies chunk tid % 4 of rows tid / 4, tid / 4 + threads / 4, ...: four threads read 64 contiguous
    bytes. `place(row, chunk)` is the byte in the tile where a chunk of row tid / 4 goes; `row_bytes` is the distance of
    rows there. Each call copies the next 32 columns. What lies beyond the matrix becomes 0.
    """

    def __init__(
        self, pointer: Reg, first: Reg, rows: int, height: int, K: int, tid: Reg, threads: int,
        place: Callable[[Reg, Reg], Reg], row_bytes: int,
    ):  # fmt: skip
        row, chunk = tid >> 2, tid & 3
        self.step = threads // CHUNKS
        self.pointer, self.pitch, self.row_bytes = pointer, K * 2, row_bytes
        self.count = rows // self.step
        self.place = place(row, chunk)
        top = first + row
        self.pointer += ptx.mul(s32, top, K * 2, mode="wide") + chunk * 16
        self.inside = [top + i * self.step < height if height % rows else None for i in range(self.count)]
        self.left: Any = None
        """Columns from this thread's chunk to the end of the row, if the last tile is not whole."""
        if K % COLUMNS:
            self.left = reg.scalar(s32, init=K)
            self.left -= chunk * 8

    def __call__(self, tile: Any, *, pred: Any = None, part: range | None = None) -> None:
        """Start the copies into the tile at byte `tile` from where `place` starts, all or a `part` of them."""
        part = range(self.count) if part is None else part
        present = self.left > 0 if self.left is not None else None
        for i in part:
            address = ptx.addr(self.pointer, i * self.step * self.pitch)
            size = self._size(present, self.inside[i])
            to = ptx.addr(self.place, tile + i * self.step * self.row_bytes)
            operands = (to, address, 16) if size is None else (to, address, 16, size)
            ptx.inst.cp.async_.cg.shared.global_.L2__128B(*operands, pred=pred)
        if part.stop == self.count:
            self.pointer += COLUMNS * 2
            if self.left is not None:
                self.left -= COLUMNS

    @staticmethod
    def _size(*conditions: Any) -> Reg | None:
        """Bytes to read: 16 where all conditions hold, 0 elsewhere. None: always 16."""
        some = [c for c in conditions if c is not None]
        if not some:
            return None
        both = some[0] if len(some) == 1 else some[0] & some[1]
        return ptx.selp(s32, reg.scalar(s32), 16, 0, both)


if __name__ == "__main__":
    raise SystemExit("this is a part of the examples: run one of them, such as python -m examples.ampere.gemm")
