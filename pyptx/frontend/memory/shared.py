"""Shared memory: `smem.alloc`, mbarriers, tiles, and element access (the public module `pyptx.smem`).

An allocation is a `.shared` array. When a kernel's allocations exceed 48 KiB (or `Kernel(smem=...)` does), they become
pieces of one dynamic array `dyn_smem`; that is decided after tracing, when every recorded reference is rewritten to
symbol + offset (`place_allocations`). PTX ISA 5.1.7.
"""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any, Self

from xdsl.dialects.builtin import FileLineColLoc

from ...analysis.occupancy import limits_of
from ...diagnostics import PTXError, counted
from ...types import PtxType, b16, u32
from ...wgmma_layout import GmmaLayout, Major, pick_gmma_layout
from ..core.advice import refused_value, store_problem
from ..core.instructions import AddressOperand, bits_of, emit, move
from ..core.nonvalue import NotAValue, NoTruth, as_int
from ..core.registers import Guard, Reg, checked_type, temporary
from ..core.trace import OutOfRange, Trace, current
from .layouts import Placement, placement, row_major, swizzled_rows

STATIC_LIMIT = 48 * 1024
"""Bytes of static shared memory that a kernel may declare."""
DYNAMIC = "dyn_smem"
ATOMS = {"128B": 1024, "64B": 512, "32B": 256}
"""Bytes of the address after which each swizzle repeats."""


class SymbolName(str):
    """The name of an allocation, as a string that remembers it."""

    __slots__ = ("allocation",)
    allocation: Allocation

    def __new__(cls, text: str, allocation: Allocation) -> Self:
        made = super().__new__(cls, text)
        made.allocation = allocation
        return made


class Allocation(NotAValue):
    """A piece of shared memory: its symbol, its size in bytes, its alignment, its place if the memory is dynamic.

    Made by a class of its own it is a view of what is declared elsewhere (by `ptx.var`, by `ptx.raw`, or the extern
    array): `start` bytes after a symbol. `_declare` makes it an allocation.
    """

    element_bytes = 1
    """Bytes of what an index counts."""
    author_name: str | None = None
    """Its name in the kernel's Python, if it is known."""

    def __init__(self, symbol: str, start: int):
        if not isinstance(symbol, str) or not isinstance(start, int):
            raise TypeError(f"shared memory is at the name of a variable and an offset, not {symbol!r} and {start!r}")
        self.symbol, self._start, self._declared = str(symbol), start, False

    def _declare(self, prefix: str, name: str | None, size: int, align: int, element: str, count: int) -> Self:
        """Declare it, as `size` bytes under a new name."""
        trace = current()
        self._start, self._declared = 0, True
        if name is None:
            name = f"{prefix}_{trace.count(prefix)}"
        trace.check_free(name)
        trace.symbols.add(name)
        trace.spaces[name] = trace.spaces[name + "'"] = "shared"
        if align < 1 or align & (align - 1):
            raise trace.error(f"an alignment is a power of two, not {align}")
        self.symbol, self.size, self.align = name, size, align
        self.declared = (".shared", ".align", str(align), element), ("[", str(count), "]")
        self._offset = -(-trace.shared_bytes // align) * align
        self._offset_read = False
        self._dynamic_name = trace.shared_is_dynamic
        trace.shared_bytes = self._offset + size
        most = limits_of(trace.target).shared_per_cta
        if trace.shared_bytes > most:
            raise trace.error(
                f"with these {size} bytes the kernel allocates {trace.shared_bytes} of shared memory, and a CTA has at most "
                f"{most} on {trace.target}",
                "use smaller tiles or fewer stages",
            )
        trace.allocations[name] = self
        self.author_name = _assigned(trace)
        return self

    @property
    def name(self) -> str:
        """The symbol: the allocation's own, or `dyn_smem` where the kernel asks for more than 48 KiB."""
        if not self._declared:
            return self.symbol
        return SymbolName(DYNAMIC if self._dynamic_name else self.symbol, self)

    @property
    def byte_offset(self) -> int:
        """Bytes before it in the kernel's shared memory: its offset in `dyn_smem` when the memory is dynamic; of a view,
        those from its symbol.
        """
        if not self._declared:
            return self._start
        self._offset_read = True
        return self._offset

    @property
    def by_name(self) -> str:
        """The symbol in references made by name: the author may add `byte_offset` to them."""
        return self.symbol + "'"

    def __ptx_symbol__(self) -> tuple[str, int]:
        return self.symbol, self._start

    def described(self) -> tuple[str, str]:
        return (
            f"{self.symbol}, an allocation in shared memory,",
            "s[row, col] loads an element; ptx.addr(s, bytes) is an address in it, smem.base(s.name) its number",
        )

    def resolved(self, dynamic: bool, marked: bool) -> tuple[str, int]:
        """(symbol, offset) of a reference, once it is known whether the memory is dynamic."""
        if not dynamic:
            return self.symbol, 0
        return DYNAMIC, 0 if marked and self._offset_read else self._offset


_ASSIGNMENT = re.compile(r"\s*(?:self\.)?([A-Za-z_]\w*)\s*=[^=]")


def _assigned(trace: Trace) -> str | None:
    """The Python name that the running line of the kernel assigns to, as far as the line alone tells."""
    location = trace.locations[trace.place()]
    if not isinstance(location, FileLineColLoc):
        return None
    found = _ASSIGNMENT.match(linecache.getline(location.filename.data, location.line.data))
    return found[1] if found else None


def author_names(allocations: Iterable[object], dynamic: bool) -> tuple[tuple[str, str, int, int, int], ...]:
    """The allocations of a finished trace that have a Python name of their own: (name, variable, offset in it, size, bytes of an
    element).
    """
    declared = [a for a in allocations if isinstance(a, Allocation) and a.author_name is not None]
    count = Counter(a.author_name for a in declared)
    return tuple(
        (a.author_name or "", *a.resolved(dynamic, False), a.size, a.element_bytes)
        for a in declared
        if count[a.author_name] == 1
    )


class SharedAlloc(Allocation):
    """An array in shared memory, row-major.

    All indices as a tuple are an element: `s[row, col]` loads it, `s[row, col] = r` stores to it, and
    `s.element((row, col))` is its address; of an array with one dimension `s[i,]`. One index is a part: `s[i]` is the
    address of row i (of element i, with one dimension), to be given to `smem.load`, `ptx.addr`, a copy or a descriptor,
    or to be indexed further, `s[i][j]`. Indices are ints or 32-bit or 64-bit integer registers.

    `SharedAlloc("buffer", f32, (8, 32))` declares nothing: it is an array in a variable that there is already.
    """

    def __init__(
        self, name: str, dtype: PtxType, shape: int | tuple[int, ...], swizzle: str | None = None,
        gmma_layout: GmmaLayout | None = None, gmma_major: str | None = None, byte_offset: int = 0,
    ):  # fmt: skip
        super().__init__(name, byte_offset)
        self.dtype, self.shape = checked_type(dtype, "the type of an allocation"), _shape(shape)
        self.swizzle = None if swizzle == "NONE" else swizzle
        self.gmma_layout, self.gmma_major = gmma_layout, gmma_major
        self.placement: Placement | None = None
        """Where its elements lie, if not row-major."""
        self.shaped = False
        """The author gave its layout, which says what an index is."""
        self.moved: Reg | None = None
        """Of a part that registers chose: the bytes from the start, besides those of its placement."""
        self.whole = self
        self.element_place: int | None = None
        """Where the author first asked for an element, row-major."""

    @classmethod
    def declare(
        cls, dtype: PtxType, shape: int | tuple[int, ...], swizzle: str | None, align: int, name: str | None,
        gmma_layout: GmmaLayout | None = None, gmma_major: str | None = None, placement: Placement | None = None,
    ) -> Self:  # fmt: skip
        """A new array."""
        made = cls(name or "", dtype, shape, swizzle, gmma_layout, gmma_major)
        made.placement = placement
        made.element_bytes = max(dtype.bits // 8, 1)
        size = (placement.elements if placement is not None else prod(made.shape)) * dtype.bits // 8
        return made._declare("smem", name, size, align, ".b8", size)

    def __repr__(self) -> str:
        return f"SharedAlloc({self.symbol}, {self.dtype}, {self.shape})"

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) or (isinstance(index, tuple) and any(isinstance(i, slice) for i in index)):
            return self._part(index if isinstance(index, tuple) else (index,))
        if isinstance(index, tuple):
            return load(self.dtype, self.element(index))
        if self.shaped and len(self.shape) > 2:
            return self._part((index,))
        if self.shaped or self.whole is not self:
            raise current().error(
                f"{self.symbol} has a layout, in which {self.symbol}[{index!r}] is not one place",
                f"an element is s[{', '.join('ijklm'[: len(self.shape)])}], of {self.shape}; s.element(...) is its address",
            )
        return SharedSlice(self, as_int(index))

    def __ptx_symbol__(self) -> tuple[str, int]:
        symbol, start = super().__ptx_symbol__()
        if self.moved is not None:
            raise current().error(f"a part of {symbol} that a register chose has no constant address")
        return symbol, start + self.first_byte

    @property
    def first_byte(self) -> int:
        """Where a part begins, in bytes from the start of the array; its swizzle is not applied to it."""
        return self.placement.start * self.dtype.bits // 8 if self.placement is not None else 0

    @property
    def T(self) -> SharedAlloc:
        """The same memory with its last two dimensions exchanged."""
        own = self.own_placement()
        return self._view(Placement((*own.modes[:-2], *own.modes[:-3:-1]), own.swizzle, own.start), self.moved)

    def own_placement(self) -> Placement:
        """Where its elements lie."""
        return self.placement if self.placement is not None else row_major(self.shape)

    def _part(self, index: tuple[Any, ...]) -> SharedAlloc:
        """The part that indices and slices choose; dimensions that are left out are kept."""
        trace = current()
        if len(index) > len(self.shape):
            raise trace.error(f"{self.symbol} has {counted(len(self.shape), 'dimension')}, and the index {len(index)}")
        index = (*(as_int(i) for i in index), *[slice(None)] * (len(self.shape) - len(index)))
        for i in index:
            if isinstance(i, slice) and any(isinstance(as_int(n), Reg) for n in (i.start, i.stop)):
                raise trace.error(
                    "a slice has constant ends: how many elements it has is known while tracing",
                    "s[stage] and s[stage, 0:64, 16:32] take a register for what is one index",
                )
        numbers = [
            slice(*map(as_int, (i.start, i.stop, i.step)))
            if isinstance(i, slice)
            else i
            if isinstance(i, int)
            else _index(trace, i)
            for i in index
        ]
        placed, moved = self.own_placement().part(trace, self.symbol, numbers, self.dtype.bits)
        if moved is not None and self.moved is not None:
            emit("add.u32", moved, moved, self.moved)
        return self._view(placed, moved if moved is not None else self.moved)

    def _view(self, placed: Placement, moved: Reg | None) -> SharedAlloc:
        view = copy(self)
        view.shape, view.placement, view.moved = placed.shape, placed, moved
        view.gmma_layout = None
        return view

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, tuple):
            index = (index,)
        store(self.dtype, self.element(index), value)

    def __iter__(self) -> Iterator[Any]:
        return (SharedSlice(self, i) for i in range(self.shape[0]))

    def element(self, *index: Any) -> AddressOperand:
        """The address of an element, `s.element((row, col))` or `s.element(row, col)`; indices are ints or registers."""
        return _element(self, 0, None, self.shape, _indices(index))

    def partition(self, layout: Any) -> SharedAlloc:
        """The same memory, indexed as a layout says that chooses its elements: `ptx.partition(s, layout)`."""
        trace = current()
        return self._view(self.own_placement().composed(trace, layout), self.moved)


@dataclass(frozen=True, eq=False)
class SharedSlice(NoTruth):
    """`alloc[stage]`: the part of an allocation at one index of its first dimension; `stage` is an int or a
    register.
    """

    alloc: SharedAlloc
    stage: Any

    def __post_init__(self) -> None:
        extent = self.alloc.shape[0]
        if isinstance(self.stage, int) and not 0 <= self.stage < extent:
            raise IndexError(f"{self.alloc.symbol} has {extent} parts, and [{self.stage}] is not one of them")
        if not isinstance(self.stage, (int, Reg)):
            raise TypeError(
                f"a part of {self.alloc.symbol} is chosen by an int or a register, not {type(self.stage).__name__}"
            )

    def described(self) -> tuple[str, str]:
        instead = f"smem.load({self.dtype}, s[i]) or s[i,] loads the element that is there"
        if self.shape:
            instead = f"all indices together load an element: s[{', '.join('ijklm'[: len(self.alloc.shape)])}]"
        return f"{self.alloc.symbol}[{self.stage!r}], a place in shared memory,", instead

    @property
    def shape(self) -> tuple[int, ...]:
        return self.alloc.shape[1:]

    @property
    def dtype(self) -> PtxType:
        return self.alloc.dtype

    @property
    def stride(self) -> int:
        """Bytes from one part to the next."""
        return prod(self.alloc.shape[1:]) * self.alloc.dtype.bits // 8

    @property
    def name(self) -> str:
        return self.alloc.name

    @property
    def offset(self) -> int:
        """Bytes from the start of the allocation (0 when the stage is a register)."""
        return self.stage * self.stride if isinstance(self.stage, int) else 0

    @property
    def byte_offset(self) -> int:
        """Bytes before it in the kernel's shared memory."""
        return self.alloc.byte_offset + self.offset

    def __ptx_symbol__(self) -> tuple[str, int]:
        if not isinstance(self.stage, int):
            indices = ", ".join("ijklm"[: len(self.alloc.shape)]) + ("," if len(self.alloc.shape) == 1 else "")
            raise current().error(
                f"{self.alloc.symbol}[register] has no constant address",
                f"s[{indices}] loads an element; ptx.addr(s[i]) computes the address",
            )
        symbol, start = self.alloc.__ptx_symbol__()
        return symbol, start + self.offset

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        return load(self.dtype, self.element(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        index = index if isinstance(index, tuple) else (index,)
        store(self.dtype, self.element(index), value)

    def element(self, *index: Any) -> AddressOperand:
        """The address of an element of the part; indices as for the allocation's."""
        if self.alloc.placement is not None:
            return self.alloc.element((self.stage, *_indices(index)))
        scaled = None if isinstance(self.stage, int) else (self.stage, self.stride)
        return _element(self.alloc, self.offset, scaled, self.shape, _indices(index))


def _indices(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return index[0] if len(index) == 1 and isinstance(index[0], tuple) else index


def _element(
    alloc: SharedAlloc, start: int, scaled: tuple[Any, int] | None, shape: tuple[int, ...], index: tuple[Any, ...]
) -> AddressOperand:
    """Address of an element: what is constant goes into the offset, register indices into one register."""
    if len(index) != len(shape):
        parts = ", ".join("ijklm"[: len(shape)]) + ("," if len(shape) == 1 else "")
        raise current().error(
            f"{alloc.symbol} has {counted(len(shape), 'dimension')} here, and the index {len(index)}",
            f"an element is s[{parts}], of {shape}; s[i] alone is the address of a part",
        )
    size = alloc.dtype.bits // 8
    if not size:
        raise current().error(f"elements of type {alloc.dtype} have no address of their own")
    if alloc.element_place is None:
        alloc.element_place = current().place()
    index = tuple(as_int(position) for position in index)
    for i, (position, extent) in enumerate(zip(index, shape, strict=True)):
        if isinstance(position, int) and not 0 <= position < extent:
            message = f"index {position} is outside dimension {i} of {alloc.symbol}, which has {extent}"
            raise OutOfRange(current().diagnostic(message))
    if alloc.placement is not None:
        return _placed(alloc, alloc.placement, index, size)
    offset = start
    terms: list[tuple[Any, int]] = [scaled] if scaled is not None else []
    for i, position in enumerate(index):
        step = prod(shape[i + 1 :]) * size
        if isinstance(position, int):
            offset += position * step
        else:
            terms.append((position, step))
    if not terms:
        return AddressOperand(alloc, offset)
    trace = current()
    address = temporary(trace, u32)
    move(address, alloc)
    for register, step in terms:
        if step == 1:
            emit("add.u32", address, address, _index(trace, register))
        else:
            emit("mad.lo.u32", address, _index(trace, register), step, address)
    return AddressOperand(address, offset or None)


def _placed(alloc: SharedAlloc, placement: Placement, index: tuple[Any, ...], size: int) -> AddressOperand:
    """Address of an element where the layout has it."""
    trace = current()
    constant, rest = placement.offset([i if isinstance(i, int) else _index(trace, i) for i in index], size)
    terms = [register for register in (rest, alloc.moved) if register is not None]
    if not terms:
        return AddressOperand(alloc.whole, constant)
    address = temporary(trace, u32)
    move(address, alloc.whole)
    for register in terms:
        emit("add.u32", address, address, register)
    return AddressOperand(address, constant or None)


def _index(trace: Trace, register: Any) -> Any:
    if not isinstance(register, Reg) or not register.dtype.is_integer:
        raise trace.error(f"an index is an int or an integer register, not {register!r}")
    if register.dtype.bits == 64:
        narrow = temporary(trace, u32)
        emit("cvt.u32.u64", narrow, register)
        return narrow
    return register


class MbarrierArray(Allocation):
    """`count` mbarrier objects (64 bits each, 8-byte aligned) in shared memory; `bars[i]` is one.

    `MbarrierArray("bars", 2)` declares nothing: it is the mbarriers in a variable that there is already.
    """

    def __init__(self, name: str, count: int, byte_offset: int = 0):
        super().__init__(name, byte_offset)
        count = as_int(count)
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"the number of mbarriers is a positive int, not {count!r}")
        self.count = count

    @classmethod
    def declare(cls, count: int, name: str | None) -> Self:
        """New mbarriers."""
        made = cls(name or "", count)
        made.element_bytes = 8
        return made._declare("mbar", name, 8 * count, 8, ".b64", count)

    def __repr__(self) -> str:
        return f"MbarrierArray({self.symbol}, {self.count})"

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: Any) -> MbarrierRef | AddressOperand:
        if isinstance(index, Reg):
            trace = current()
            address = temporary(trace, u32)
            move(address, self)
            emit("mad.lo.u32", address, _index(trace, index), 8, address)
            return AddressOperand(address)
        index = as_int(index)
        if not isinstance(index, int):
            raise TypeError(f"an mbarrier is chosen by an int or a register, not {type(index).__name__}")
        if not 0 <= index < self.count:
            raise IndexError(f"{self.symbol} has {counted(self.count, 'mbarrier')}, and [{index}] is not one of them")
        return MbarrierRef(self, index)

    def __iter__(self) -> Iterator[MbarrierRef]:
        return (MbarrierRef(self, i) for i in range(self.count))


@dataclass(frozen=True)
class MbarrierRef(NotAValue):
    """One mbarrier of an array."""

    array: MbarrierArray
    idx: int

    def described(self) -> tuple[str, str]:
        instead = "wait for it with ptx.mbarrier.wait(bar, phase); ptx.addr(bar) is its address"
        return f"{self.array.symbol}[{self.idx}], an mbarrier,", instead

    @property
    def name(self) -> str:
        return self.array.name

    @property
    def offset(self) -> int:
        """Bytes from the start of the array."""
        return 8 * self.idx

    @property
    def byte_offset(self) -> int:
        """Bytes before it in the kernel's shared memory."""
        return self.array.byte_offset + self.offset

    def __ptx_symbol__(self) -> tuple[str, int]:
        symbol, start = self.array.__ptx_symbol__()
        return symbol, start + self.offset


# ------------------------------------------------------------------------------------------------------------ functions


def alloc(
    dtype: PtxType,
    shape: int | tuple[int, ...] | None = None,
    swizzle: str | None = None,
    align: int | None = None,
    name: str | None = None,
    *,
    layout: Any = None,
) -> SharedAlloc:
    """An array in shared memory, 128-byte aligned unless `align` says otherwise.

    swizzle: "32B", "64B" or "128B", as TMA writes and matrix descriptors read it. `s[i, j]` and `s.element(i, j)` apply it, and the memory is
    aligned to its pattern, of which `align` must be a multiple; the offsets of `ptx.addr(s, bytes)` are those of memory.

    layout: where its elements lie, a `Layout` of the library tensor_layouts or a `Swizzle` composed with one, which is applied: `s[i, j]` and
    `s.element(i, j)` are at `layout(i, j)`. The shape is then the layout's, and the memory is aligned so that the swizzle is a function of the
    address. PTXError for a shape that is not the layout's, negative strides, and what is not a layout.
    """
    if layout is None:
        if shape is None:
            raise current().error("an array needs its shape, or a layout")
        return alloc_with_layout(dtype, shape, swizzle, align, name)
    trace = current()
    made = placement(trace, layout)
    if shape is not None and _shape(shape) != made.shape:
        raise trace.error(f"the shape is {_shape(shape)}, and that of the layout {made.shape}", "leave the shape out")
    if swizzle is not None:
        raise trace.error(f'swizzle="{swizzle}" is that of an array without layout=: compose a Swizzle with the layout')
    least = made.alignment(max(dtype.bits // 8, 1))
    if align is not None and made.swizzle is not None and align % least:
        raise trace.error(
            f"the swizzle of the layout repeats every {least} bytes of the address, and align is {align}: it must be a multiple of {least}",
            "leave align out",
        )
    array = SharedAlloc.declare(dtype, made.shape, None, max(align or 128, least), name, placement=made)
    array.shaped = True
    return array


def alloc_with_layout(
    dtype: PtxType,
    shape: int | tuple[int, ...],
    swizzle: str | None = None,
    align: int | None = None,
    name: str | None = None,
    *,
    gmma_layout: GmmaLayout | None = None,
    gmma_major: str | None = None,
) -> SharedAlloc:
    """An array that a wgmma or TMA layout describes; aligned to its swizzle atom at least. The swizzle is the layout's
    where it is left out.
    """
    if swizzle is None and gmma_layout is not None:
        swizzle = gmma_layout.smem_swizzle
    swizzle = None if swizzle == "NONE" else swizzle
    if swizzle is not None and swizzle not in ATOMS:
        raise current().error(f'a swizzle is "32B", "64B", "128B" or None, not {swizzle!r}')
    checked_type(dtype, "the type of an allocation")
    atom = ATOMS[swizzle] if swizzle is not None else 0 if align else 128
    if swizzle is not None and align is not None and align % atom:
        raise current().error(
            f"the {swizzle} swizzle repeats every {atom} bytes of the address, and align is {align}: it must be a multiple of {atom}",
            "leave align out",
        )
    shape = _shape(shape)
    panels = gmma_layout is not None
    placed = swizzled_rows(shape, dtype.bits, swizzle, panels=panels) if swizzle is not None else None
    return SharedAlloc.declare(dtype, shape, swizzle, max(align or 0, atom), name, gmma_layout, gmma_major, placed)


def wgmma_tile(
    dtype: PtxType, shape: tuple[int, ...], major: str = "K", *, align: int | None = None, name: str | None = None
) -> SharedAlloc:
    """A tile for wgmma: shape (M, K) for major "K", (K, N) for "MN", with optional stages in front. Its layout is
    `pick_gmma_layout`'s.

    128-byte swizzled tiles are 1024-byte aligned, as the swizzle is a function of the address (64B: 512, 32B: 256); `align` must be a multiple of that.
    """
    shape = _shape(shape)
    checked_type(dtype, "the type of a tile")
    if len(shape) < 2:
        raise ValueError("a wgmma tile has the shape (M, K) or (K, N), with stages in front of it if any")
    if major not in ("K", "MN"):
        raise ValueError(f'major is "K" or "MN", not {major!r}')
    rows, columns = shape[-2:]
    m_or_n, k = (rows, columns) if major == "K" else (columns, rows)
    layout = pick_gmma_layout(
        elem_bytes=dtype.bits // 8, m_or_n=m_or_n, k=k, major=Major.K if major == "K" else Major.MN
    )
    return alloc_with_layout(dtype, shape, gmma_layout=layout, gmma_major=major, align=align, name=name)


def total() -> int:
    """Bytes of shared memory that the kernel has allocated up to here, alignment included."""
    return current().shared_bytes


def mbarrier(count: int = 1, name: str | None = None) -> MbarrierArray:
    """`count` mbarriers in shared memory. They need `ptx.mbarrier.init` before use."""
    return MbarrierArray.declare(count, name)


def base(name: str | None = None) -> Reg:
    """A u32 register with the address of the kernel's extern shared array (`@kernel(extern_smem=...)`), or of the
    variable `name`.
    """
    trace = current()
    result = temporary(trace, u32)
    move(result, name or (trace.externs[0] if trace.externs else "smem"))
    return result


def load(dtype: PtxType, address: Any) -> Reg:
    """`ld.shared` from an address (`ptx.addr(...)`, an allocation or part of one, or a register) into a fresh
    register.
    """
    result = temporary(current(), dtype)
    emit(f"ld.shared.{memory_type(dtype)}", result, bracketed(address))
    return result


def store(dtype: PtxType, address: Any, value: Any) -> None:
    """`st.shared` of a register or number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not isinstance(value, Reg):
        value = bits_of(dtype, value)
        if isinstance(value, int) and dtype.bits < 32:
            register = temporary(current(), b16)
            move(register, value)
            value = register
    emit_store(f"st.shared.{memory_type(dtype)}", dtype, bracketed(address), value)


def emit_store(text: str, dtype: PtxType, address: Any, value: Any, pred: Guard = None) -> None:
    """The `st` of a value as a type. PTXError, with how to convert, for a register of another."""
    problem = store_problem(dtype, value)
    if problem is not None:
        raise current().error(*problem)
    try:
        emit(text, address, value, pred=pred)
    except PTXError as error:
        raise refused_value(dtype, value, error) from None


def memory_type(dtype: PtxType) -> str:
    """The type of a load or store of such values: 16-bit floats, packed pairs and 8-bit floats travel as bits."""
    name = dtype.name
    return name if name in ("f32", "f64") or (name[0] in "us" and dtype.is_integer) else f"b{dtype.bits}"


def bracketed(address: Any) -> Any:
    """What a wrapper was given as an address, as an address operand: registers, allocations, mbarriers and names get
    their brackets.
    """
    if isinstance(address, AddressOperand):
        return address
    pointer = getattr(address, "__ptx_address__", None)
    if pointer is not None:
        return pointer()
    if isinstance(address, SharedSlice) and isinstance(address.stage, Reg):
        trace = current()
        register = temporary(trace, u32)
        move(register, address.alloc)
        emit("mad.lo.u32", register, _index(trace, address.stage), address.stride, register)
        return AddressOperand(register)
    if isinstance(address, SharedAlloc) and address.moved is not None:
        trace = current()
        register = temporary(trace, u32)
        move(register, address.whole)
        emit("add.u32", register, register, address.moved)
        return AddressOperand(register, address.first_byte or None)
    if isinstance(address, str) and address[:1] == "[":
        return address
    return AddressOperand(address)


def address_register(address: Any) -> Any:
    """A shared address as a register: allocations and mbarriers are moved into a fresh u32 one."""
    if isinstance(address, Reg):
        return address
    operand = bracketed(address)
    if isinstance(operand, AddressOperand) and not operand.rest:
        trace = current()
        if isinstance(operand.base, Reg):
            if not operand.offset:
                return operand.base
            result = temporary(trace, u32)
            emit("add.u32", result, operand.base, operand.offset)
            return result
        symbol = getattr(operand.base, "__ptx_symbol__", None)
        result = temporary(trace, u32)
        if symbol is not None and (operand.offset is None or isinstance(operand.offset, int)):
            name, offset = symbol()
            move(result, _Place(name, offset + (operand.offset or 0)))
        else:
            move(result, operand.base)
            if operand.offset:
                emit("add.u32", result, result, operand.offset)
        return result
    raise current().error(f"{address!r} is not a shared address")


@dataclass(frozen=True)
class _Place:
    symbol: str
    offset: int

    def __ptx_symbol__(self) -> tuple[str, int]:
        return self.symbol, self.offset


def apply_swizzle(logical_reg: Reg, swizzle: str | None) -> Reg:
    """A byte offset in a tile as the swizzle places it: 16-byte chunk index XOR row (bits 7.. into bits 4..). None
    (or "NONE") leaves it alone.
    """
    if swizzle in (None, "NONE"):
        return logical_reg
    masks = {"32B": 0x80, "64B": 0x180, "128B": 0x380}
    if swizzle not in masks:
        raise ValueError(f'a swizzle is "32B", "64B", "128B" or None, not {swizzle!r}')
    return logical_reg ^ ((logical_reg & masks[swizzle]) >> 3)


def _shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    shape = tuple(map(as_int, shape)) if isinstance(shape, (tuple, list)) else (as_int(shape),)
    if not shape or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"a shape is a tuple of positive ints, not {shape!r}")
    return shape


__all__ = [
    "Allocation", "MbarrierArray", "MbarrierRef", "SharedAlloc", "SharedSlice", "alloc", "alloc_with_layout",
    "apply_swizzle", "base", "bracketed", "load", "mbarrier", "store", "total", "wgmma_tile",
]  # fmt: skip
