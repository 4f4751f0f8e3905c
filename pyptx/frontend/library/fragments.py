"""Register arrays that know which elements of a matrix they hold: `reg.mma_frag`, `reg.wgmma_frag`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ...dialects.ptx.fragments import fragment, mma_shapes, wgmma_accumulator
from ...types import PtxType, b32, u32
from ..core.instructions import emit
from ..core.registers import Reg, RegArray, array, checked_type, temporary
from ..core.trace import current
from ..memory.shared import SharedAlloc
from .matrix import extents

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Fragment", "mma_frag", "partition", "wgmma_frag"]


class Fragment(RegArray):
    """A thread's share of a matrix, as an instruction takes it.

    A thread's elements lie at the same distances from its first one in every thread: `row, column = d.origin(lane)` is
    where that one is, and `d[8, 1]` is the register with the element 8 rows below and 1 column right of it. `d[i]` is
    register i. Elements of less than 32 bits share registers, from the least significant bits up. `draw.mma` and
    `draw.wgmma` show the whole matrix. PTX ISA 9.7.16.5, 9.7.17.5.
    """

    __slots__ = ("_places", "_table", "columns", "per")

    def __init__(self, registers: RegArray, table: np.ndarray, columns: int, per: int):
        """table: [thread, value] -> row * columns + column; `per` values share a register."""
        super().__init__(registers.base, registers.count, registers.dtype, registers.variables)
        self._regs = registers.regs()
        self._table, self.columns, self.per = table, columns, per
        self._places = {divmod(int(at), columns): divmod(v, per) for v, at in enumerate(table[0])}

    @overload
    def __getitem__(self, index: int | tuple[int, int]) -> Reg: ...
    @overload
    def __getitem__(self, index: slice) -> RegArray: ...
    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, tuple):
            return super().__getitem__(index)
        place = self._places.get((index[0], index[1]))
        if place is None:
            raise IndexError(
                f"a thread of this fragment holds the elements at {', '.join(map(str, self._places))} from its first "
                f"one, not {index}"
            )
        return self._regs[place[0]]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, tuple):
            if self.per > 1:
                raise current().error(f"{self.per} elements share a register here", "write the register: d[i] = ...")
            super().__setitem__(
                self._places[index][0] if index in self._places else self._regs.index(self[index]), value
            )
            return
        super().__setitem__(index, value)

    def items(self) -> Iterator[tuple[int, int, Reg, int]]:
        """(row, column, register, part) of each element: its place from the thread's first one, and which part of the
        register it is, 0 the least significant.
        """
        for (row, column), (register, part) in self._places.items():
            yield row, column, self._regs[register], part

    def where(self, row: int, column: int) -> tuple[int, int, int]:
        """(thread, register, part) of an element of the matrix. IndexError outside of it."""
        found = np.argwhere(self._table == row * self.columns + column)
        if not found.size or not 0 <= column < self.columns:
            raise IndexError(f"the matrix has no element ({row}, {column})")
        thread, value = map(int, found[0])
        return thread, *divmod(value, self.per)

    def origin(self, thread: Any) -> tuple[Reg, Reg]:
        """Row and column of the thread's first element, u32 registers. `thread`: its number in the warp (`%laneid`) or,
        for wgmma, in the warpgroup.
        """
        trace = current()
        group, within, warp = temporary(trace, u32), temporary(trace, u32), None
        if len(self._table) > 32:
            warp = temporary(trace, u32)
            emit("shr.u32", warp, thread, 5)
            emit("and.b32", group, thread, 31)
            emit("shr.u32", group, group, 2)
        else:
            emit("shr.u32", group, thread, 2)
        emit("and.b32", within, thread, 3)
        found: list[Reg] = []
        for axis in range(2):
            result = temporary(trace, u32)
            emit("mov.u32", result, 0)
            for part, first in ((within, 1), (group, 4), (warp, 32)):
                if part is not None and (step := divmod(int(self._table[first, 0]), self.columns)[axis]):
                    emit("mad.lo.u32", result, part, step, result)
            found.append(result)
        return found[0], found[1]


def mma_frag(operand: str, shape: Any, dtype: PtxType, name: str | None = None, init: Any = None) -> Fragment:
    """The registers of operand "A", "B", "C" or "D" of `mma.sync` with a shape such as (16, 8, 16), of elements of `dtype`.

    Elements of 32 and 64 bits have a register each, smaller ones share b32 registers. `init` as for `reg.array`.
    PTXError for what `mma.sync` does not have. PTX ISA 9.7.16.5.
    """
    trace = current()
    checked_type(dtype, "the type of a fragment")
    m, n, k = extents(shape)
    operand = operand.upper()
    bits = dtype.bits
    known = mma_shapes(operand, bits, dtype.name)
    if f"m{m}n{n}k{k}" not in known:
        raise trace.error(
            f"mma.sync has no operand {operand} of m{m}n{n}k{k} with elements of {dtype}",
            f"with elements of {bits} bits it has {', '.join(known)}" if known else "operands are A, B, C and D",
        )
    table = fragment("C" if operand == "D" else operand, m, n, k, bits)
    per = max(32 // bits, 1)
    registers = array(dtype if per == 1 and dtype.name != "tf32" else b32, table.shape[1] // per, name, init)
    return Fragment(registers, table, {"A": k}.get(operand, n), per)


def wgmma_frag(*, m: int, n: int, dtype: PtxType, name: str | None = None, init: Any = None) -> RegArray:
    """The accumulator of an m x n wgmma tile: m*n/128 registers per thread (2 elements each for 16-bit types are not
    packed here). For m = 64 and 32-bit types it is a `Fragment`, indexable by (row, column).

    ValueError unless m*n is a multiple of 128 (the threads of a warpgroup). PTX ISA 9.7.17.
    """
    if m * n % 128:
        raise ValueError(f"a {m}x{n} tile does not spread evenly over the 128 threads of a warpgroup")
    registers = array(dtype, m * n // 128, name, init)
    return Fragment(registers, wgmma_accumulator(n), n, 1) if m == 64 and n % 8 == 0 and dtype.bits == 32 else registers


def partition(tensor: SharedAlloc, layout: Any) -> SharedAlloc:
    """A view of an array in shared memory, indexed by the coordinates of `layout`, which numbers the array's elements (the first index of the array
    is the fastest, as in tensor_layouts). With the thread-value layout of an atom, `view[thread, value]` are the elements that a thread holds.

    The view has the array's memory, layout and swizzle. PTXError for what is not a layout, one that reaches beyond the array, and where the two
    layouts have no composition.
    """
    if not isinstance(tensor, SharedAlloc):
        raise current().error(f"partition takes an array of smem.alloc, not {type(tensor).__name__}")
    return tensor.partition(layout)
