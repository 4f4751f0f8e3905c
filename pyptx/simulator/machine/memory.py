"""The checked access of one instruction to memory.

.shared and .local live in their windows of the generic space (PTX ISA 5.1, 6.4.1). Every access is checked for its alignment and
its allocation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .global_memory import Allocation
from .program import (
    CLUSTER_SHIFT,
    LOCAL_BASE,
    LOCAL_WINDOW,
    PARAMETER_BASE,
    SHARED_BASE,
    SHARED_WINDOW,
    Address,
    Imm,
    Inst,
    Operand,
    Place,
    Reg,
    Special,
)
from .storage import Storage
from .types import Action, Mask

Array = Any
WINDOW_SIZE = 1 << 32


_WINDOWS = {
    "shared": (("shared", 0),),
    "shared::cluster": (("shared", 0),),
    "local": (("local", 0),),
    "generic": (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)),
}
"""Where the addresses of a state space are memory of CTAs or threads."""


class Window:
    """A stretch of memory that an access of one size goes to without further questions: index = (address -
    start) >> shift.
    """

    __slots__ = ("checked", "last", "low", "outside", "ranked", "read_only", "rows", "shift", "start", "view")

    def __init__(
        self,
        view: np.ndarray,
        start: int,
        dtype: np.dtype[Any],
        size: int,
        last: int,
        rows: Array,
        read_only: bool,
        ranks: Array = None,
    ):
        wrap = (1 << (8 * dtype.itemsize)) - 1
        self.view = view
        self.start = np.array(start & wrap, dtype)
        self.ranked = ranks is not None
        """Whether it starts elsewhere for each lane (shared memory in clusters)."""
        if self.ranked:
            self.start = self.start + ranks.astype(dtype)
        self.low = np.array(size - 1, dtype)
        self.shift = np.array(size.bit_length() - 1, dtype)
        self.last = np.array(max(last, 0), dtype)
        span = (last + 1) * size
        self.outside = np.array(wrap & -span, dtype) if span > 0 and span & (span - 1) == 0 else None
        """The bits that no offset inside has, where there are such: one test instead of a comparison."""
        self.rows = rows
        # an index below zero shows as a huge one, except for single bytes, where nothing is shifted out
        self.checked = rows is not None or size == 1 or last < 0
        self.read_only = read_only

    def holds(self, elements: np.ndarray) -> bool:
        """Whether all these numbers of elements are inside."""
        return not np.count_nonzero(elements > self.last) and self.view.size > 0

    def index(self, elements: np.ndarray, lanes: Array) -> np.ndarray:
        """Where in the view the lanes' elements are; each CTA or thread may have a row of its own."""
        index = elements.astype(np.int64)
        if self.rows is not None:
            index += self.rows if lanes is None else self.rows[lanes]
        return index


class Access:
    """The memory operand of one instruction, bound to a machine: gathers and scatters elements of `dtype`,
    `count` at a time.

    Values have shape (lanes,) or, for vectors, (lanes, count). `own`: a generic address that is one of shared memory must be
    of the lane's own CTA, as .shared::cta ones.
    """

    def __init__(
        self,
        machine: Storage,
        inst: Inst,
        address: Operand,
        space: str,
        dtype: np.dtype[Any],
        count: int = 1,
        own: bool = False,
    ):
        assert isinstance(address, Address)
        self.machine, self.inst, self.dtype, self.count = machine, inst, dtype, count
        self.size = dtype.itemsize * count
        self.own = own
        self.offset = address.offset
        base = address.base
        self.space = space
        if isinstance(base, Place):
            self.space = (
                base.space if space in ("param", "param::func", "param::entry", "generic", base.space) else space
            )
            start = machine.address_of(base)
            if base.frame is not None:
                self.row = machine.row(base.frame)
                self.offset += start
            else:
                self.row = np.full(machine.lanes, start, np.uint32 if base.space in ("shared", "local") else np.uint64)
                if base.space == "shared" and machine.rank_bits is not None:
                    self.row += machine.rank_bits
                if space == "generic" and base.space in ("shared", "local"):
                    self.space = base.space
        elif isinstance(base, Imm):
            self.row = np.full(machine.lanes, int(base.value) & (2**64 - 1), np.uint64)
            if space in ("shared", "shared::cta") and machine.rank_bits is not None:
                self.row += machine.rank_bits  # a number is taken for an offset in the CTA's own memory
        else:
            self.row = address_row(machine, inst, base)
        if self.space.startswith("shared"):
            self.space = self.space.replace("shared::cta", "shared")
            self.own |= self.space == "shared"
        if self.space.startswith("param"):
            self.space = "param"
        self.window: Window | None = None
        if self.space in ("shared", "shared::cluster"):
            self.window = self._shared_window(0)
        elif self.space == "local":
            self.window = self._local_window(0)
        self.wide = self.row.itemsize == 8
        machine.add_access(self)

    #
    #
    #
    #
    # -------------------------------------------------------------------------------------------------------- windows

    def _typed(self, data: np.ndarray) -> np.ndarray:
        count = data.size // self.size
        view = data[: count * self.size].view(self.dtype)
        return view.reshape(count, self.count) if self.count > 1 else view

    def _rows(self, machine_rows: np.ndarray, stride: int) -> np.ndarray:
        return machine_rows * (stride // self.size)

    def _shared_window(self, window: int) -> Window:
        m = self.machine
        start = window + SHARED_BASE - self.offset
        if m.ctas == 1:
            return Window(
                self._typed(m.shared[0, : m.shared_size]),
                start,
                self.row.dtype,
                self.size,
                m.shared_size // self.size - 1,
                None,
                False,
            )
        rows = self._rows(m.cta_of_lane, m.shared.shape[1])
        return Window(
            self._typed(m.shared.reshape(-1)),
            start,
            self.row.dtype,
            self.size,
            m.shared_size // self.size - 1,
            rows,
            False,
            m.rank_bits,
        )

    def _local_window(self, window: int) -> Window:
        m = self.machine
        rows = self._rows(m.lane_numbers, m.local.shape[1])
        start = window + LOCAL_BASE - self.offset
        # the local array starts at LOCAL_BASE, so that 0 is not a valid address
        return Window(
            self._typed(m.local.reshape(-1)),
            start,
            self.row.dtype,
            self.size,
            m.local_size // self.size - 1,
            rows,
            False,
        )

    def _elements(self, allocation: Allocation) -> tuple[np.ndarray, int]:
        """The elements that lie at aligned addresses in an allocation, and the address of the first."""
        first = -allocation.base % self.size
        return self._typed(allocation.data[first:]), allocation.base + first

    def _global_window(self, allocation: Allocation) -> Window:
        view, start = self._elements(allocation)
        last = view.shape[0] - 1
        return Window(view, start - self.offset, self.row.dtype, self.size, last, None, allocation.read_only)

    #
    #
    #
    #
    # --------------------------------------------------------------------------------------------------------- access

    def load_all(self, d: np.ndarray) -> None:
        """`d[...] = load(None)`, for a register of the type, in buffers that are there already."""
        w = self.window
        if w is None or not w.checked or not w.view.size:
            d[...] = self.load(None)
            return
        off, bits, index = self.machine.index_buffers(self.row.dtype)
        np.subtract(self.row, w.start, off)
        wrong = w.low if w.outside is None else w.low | w.outside
        if np.count_nonzero(np.bitwise_and(off, wrong, bits)):
            d[...] = self.load(None)
            return
        np.right_shift(off, w.shift, off)
        if w.outside is None and np.count_nonzero(off > w.last):
            d[...] = self.load(None)
            return
        index[...] = off
        if w.rows is not None:
            np.add(index, w.rows, index)
        w.view.take(index, 0, d, "clip")  # "raise" would copy; they are inside

    def load(self, lanes: Array) -> Array:
        """The values at the lanes' addresses (`lanes`: their numbers, None for all)."""
        a = self.row if lanes is None else self.row[lanes]
        w = self.window
        if w is not None:
            off = a - (w.start if lanes is None or not w.ranked else w.start[lanes])
            if not np.count_nonzero(off & w.low):
                i = off >> w.shift
                # NumPy indexes several times faster with int64 than with any other type
                if not w.checked:
                    try:
                        return w.view.take(i.view(np.int64) if self.wide else i.astype(np.int64), 0)
                    except IndexError:
                        pass
                elif w.holds(i):
                    return w.view.take(w.index(i, lanes), 0)
        parts = self.locate(lanes, False)
        if len(parts) == 1 and parts[0][2] is None:
            return parts[0][0][parts[0][1]]
        r = np.empty((a.size, self.count) if self.count > 1 else a.size, self.dtype)
        for view, index, where in parts:
            r[where] = view[index]
        return r

    def store(self, lanes: Array, values: Array) -> None:
        """Write the lanes' values; of several lanes at one address the highest wins."""
        a = self.row if lanes is None else self.row[lanes]
        w = self.window
        if w is not None and not w.read_only:
            off = a - (w.start if lanes is None or not w.ranked else w.start[lanes])
            if not np.count_nonzero(off & w.low):
                i = off >> w.shift
                if not w.checked:
                    try:
                        w.view[i.view(np.int64) if self.wide else i.astype(np.int64)] = values
                        return
                    except IndexError:
                        pass
                elif w.holds(i):
                    w.view[w.index(i, lanes)] = values
                    return
        parts = self.locate(lanes, True)
        if len(parts) == 1 and parts[0][2] is None:
            parts[0][0][parts[0][1]] = values
            return
        values = np.broadcast_to(values, (a.size, self.count) if self.count > 1 else (a.size,))
        for view, index, where in parts:
            view[index] = values[where]

    def locate(self, lanes: Array, write: bool) -> list[tuple[Array, Array, Array]]:
        """[(typed view, index of each lane's element, which of the lanes; None: all)], checked.
        SimulationError on a fault.
        """
        a = self.row if lanes is None else self.row[lanes]
        if a.size == 0:
            return []
        w = self.window
        if w is not None and not (write and w.read_only):
            off = a - (w.start if lanes is None or not w.ranked else w.start[lanes])
            i = off >> w.shift
            if not np.count_nonzero((off & w.low) | (i > w.last)) and w.view.size:
                i = i.astype(np.int64)
                if w.rows is not None:
                    i += w.rows if lanes is None else w.rows[lanes]
                return [(w.view, i, None)]
        return self._resolve(a, lanes, write)

    def _outside_cluster(self, owner: Array, rank: Array) -> int | None:
        """The first thread whose address in shared memory is that of a CTA which it may not or cannot name."""
        cta = self.machine.cta_of_lane[owner]
        bad = self.machine.cluster_start(cta) + rank != cta if self.own else rank >= self.machine.cluster_size
        return int(np.flatnonzero(bad)[0]) if np.count_nonzero(bad) else None

    def _resolve(self, a: Array, lanes: Array, write: bool) -> list[tuple[Array, Array, Array]]:
        m = self.machine
        wrap = np.uint64(0xFFFF_FFFF if self.row.itemsize == 4 else 2**64 - 1)
        full = (a.astype(np.uint64) + np.uint64(self.offset & (2**64 - 1))) & wrap
        if self.space == "param" and self.row.itemsize == 4:
            full |= np.uint64(PARAMETER_BASE)  # which has no bits in common with addresses of 32 bits
        numbers = np.arange(m.lanes) if lanes is None else lanes
        wrong = np.flatnonzero(full & np.uint64(self.size - 1))
        if wrong.size:
            self._fault(
                full,
                numbers,
                int(wrong[0]),
                f"misaligned: an access of {self.size} bytes needs an address divisible by {self.size}",
                write,
            )
        parts: list[tuple[Array, Array, Array]] = []
        left = np.ones(a.size, np.bool_)
        for kind, window in _WINDOWS.get(self.space, ()):
            inside = (full >= np.uint64(window)) & (full < np.uint64(window + WINDOW_SIZE)) & left
            if not np.count_nonzero(inside):
                continue
            where = np.flatnonzero(inside)
            offset = full[where] - np.uint64(window)
            owner = numbers[where]
            if kind == "shared":
                rank = (offset >> np.uint64(CLUSTER_SHIFT)).astype(np.int64)
                offset = offset & np.uint64((1 << CLUSTER_SHIFT) - 1)
                cta = m.cluster_start(m.cta_of_lane[owner]) + rank
                if (at := self._outside_cluster(owner, rank)) is not None:
                    why = _elsewhere(m, int(rank[at]), self.own, int(owner[at]))
                    self._fault(full, numbers, int(where[at]), why, write)
                base, size, stride = SHARED_BASE, m.shared_size, m.shared.shape[1]
                flat, row = m.shared, cta
                what = f"shared memory of the CTA ({m.shared_size} bytes at 0x{SHARED_BASE:x})"
            else:
                base, size, stride = LOCAL_BASE, m.local_size, m.local.shape[1]
                flat, row = m.local, owner
                what = f"local memory of the thread ({m.local_size} bytes at 0x{LOCAL_BASE:x})"
            bad = np.flatnonzero((offset < base) | (offset + np.uint64(self.size) > base + size))
            if bad.size:
                self._fault(full, numbers, int(where[bad[0]]), f"out of bounds: outside the {what}", write)
            index = (offset.astype(np.int64) - base + row.astype(np.int64) * stride) // self.size
            parts.append((self._typed(flat.reshape(-1)), index, where))
            left[where] = False
            if where.size == a.size:
                if kind == "local" or not np.count_nonzero(row != m.cta_of_lane[owner]):
                    self.window = self._shared_window(window) if kind == "shared" else self._local_window(window)
                return [(parts[0][0], index, None)]
        rest = np.flatnonzero(left)
        for allocation, of_rest in m.memory.parted(full[rest], self.size) if rest.size else ():
            chosen = rest[of_rest]
            if allocation is None:
                address = int(full[chosen[0]])
                where_text = m.memory.describe(address)
                if self.space == "generic" and LOCAL_BASE <= address < 1 << 32:
                    where_text += "; it looks like a .shared or .local address used as a generic one (cvta is missing)"
                self._fault(full, numbers, int(chosen[0]), f"out of bounds: {where_text}", write)
                return parts
            if write and allocation.read_only:
                self._fault(full, numbers, int(chosen[0]), f"not allowed: {allocation.read_only_text}", write)
            view, first = self._elements(allocation)
            index = (full[chosen] - np.uint64(first)).astype(np.int64) // self.size
            if chosen.size == a.size:
                self.window = self._global_window(allocation)
                return [(view, index, None)]
            parts.append((view, index, chosen))
        return parts

    def _fault(self, full: Array, numbers: Array, at: int, why: str, write: bool) -> None:
        verb = "store" if write else "load"
        size = f"{self.size} byte{'s' if self.size > 1 else ''}"
        self.machine.fault(self.inst, f"{verb} of {size} at 0x{int(full[at]):x} is {why}", int(numbers[at]))


def address_row(machine: Storage, inst: Inst, base: Operand) -> np.ndarray:
    """A register, special ones too, as addresses of all lanes. SimulationError if it cannot hold one."""
    if isinstance(base, Special):
        return machine.special(base.name)
    if not isinstance(base, Reg) or base.pool in ("p", "8", "128"):
        machine.fault(inst, "an address needs a register of 16, 32 or 64 bits")
    return machine.row(base)


def aligned(machine: Storage, inst: Inst, operand: Operand, alignment: int) -> Action:
    """Checks the addresses of an instruction that changes no values. SimulationError where one is not aligned."""
    assert isinstance(operand, Address)
    base, low = operand.base, alignment - 1
    if isinstance(base, (Reg, Special)):
        row = address_row(machine, inst, base)
    else:
        start = machine.address_of(base) if isinstance(base, Place) else int(base.value) if isinstance(base, Imm) else 0
        row = np.full(machine.lanes, start & (2**64 - 1), np.uint64)

    def step(mask: Mask) -> None:
        wrong = (row.astype(np.uint64) + np.uint64(operand.offset & (2**64 - 1))) & np.uint64(low)
        bad = np.flatnonzero(machine.executing(mask) & (wrong != 0))
        if bad.size:
            at = int(row[bad[0]]) + operand.offset
            machine.fault(inst, f"0x{at:x} is misaligned: the address must be divisible by {alignment}", int(bad[0]))

    return step


def span(
    machine: Storage, inst: Inst, address: int, space: str, lane: int, size: int, *, write: bool, align: int = 1
) -> np.ndarray:
    """The `size` bytes at an address as seen by a lane, checked: a view, shape (size,). SimulationError on a fault.

    `space` is `global`, `generic`, `shared` or `shared::cluster`.
    """
    verb = "store" if write else "load"
    what = f"{verb} of {size} bytes at 0x{address:x} is"
    if address % align:
        machine.fault(inst, f"{what} misaligned: the address must be divisible by {align}", lane)
    offset = address
    if space == "generic" and SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE:
        space, offset = "shared::cluster", address - SHARED_WINDOW
    if space.startswith("shared"):
        rank = offset >> CLUSTER_SHIFT
        cta = _cta_of(machine, rank, lane)
        offset &= (1 << CLUSTER_SHIFT) - 1
        own = space != "shared::cluster"
        if rank >= machine.cluster_size or (own and cta != machine.cta_of_lane[lane]):
            machine.fault(inst, f"{what} {_elsewhere(machine, rank, own, lane)}", lane)
        start = offset - SHARED_BASE
        if start < 0 or start + size > machine.shared_size:
            machine.fault(
                inst,
                f"{what} out of bounds: the CTA has {machine.shared_size} bytes of shared memory at 0x{SHARED_BASE:x}",
                lane,
            )
        return machine.shared[cta, start : start + size]
    found = machine.memory.find(address, size)
    if found is None:
        machine.fault(inst, f"{what} out of bounds: {machine.memory.describe(address)}", lane)
    if write and found.read_only:
        machine.fault(inst, f"{what} not allowed: {found.read_only_text}", lane)
    return found.data[address - found.base : address - found.base + size]


def _cta_of(machine: Storage, rank: int, lane: int) -> int:
    """The CTA of the batch that a shared address with a rank is in."""
    return int(machine.cluster_start(machine.cta_of_lane[lane])) + rank


def _elsewhere(machine: Storage, rank: int, own: bool, lane: int) -> str:
    """What is wrong with a shared address of that rank; `own`: it must be of the lane's CTA."""
    if rank >= machine.cluster_size:
        return f"outside the shared memory of the {'CTA' if own else 'cluster'}"
    here = int(machine.cta_of_lane[lane]) % machine.cluster_size
    return (
        f"outside the shared memory of the CTA: it is an address of CTA {rank} of the cluster, and the thread is in "
        f"CTA {here}; only .shared::cluster reaches the other CTAs"
    )


def seen_by(machine: Storage, address: int, receiver: int, lane: int) -> int:
    """The .shared address that a multicast from `lane` reaches in the CTA of `receiver`: the same offset there."""
    if receiver == lane or machine.rank_bits is None:
        return address
    return address & ~(0xFF << CLUSTER_SHIFT) | int(machine.rank_bits[receiver])


def locate_span(machine: Storage, address: int, space: str, lane: int) -> tuple[str, int]:
    """("shared", byte in the flat shared memory of the batch) or ("global", address) of a checked address."""
    if space == "generic" and SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_SIZE:
        space, address = "shared::cluster", address - SHARED_WINDOW
    if not space.startswith("shared"):
        return "global", address
    cta = _cta_of(machine, address >> CLUSTER_SHIFT, lane)
    return "shared", cta * machine.shared.shape[1] + (address & ((1 << CLUSTER_SHIFT) - 1)) - SHARED_BASE


def address_of(machine: Storage, operand: Operand, lane: int) -> int:
    """The value of an address operand in one lane."""
    assert isinstance(operand, Address)
    base = operand.base
    if isinstance(base, Place):
        start = machine.address_of(base) + (int(machine.row(base.frame)[lane]) if base.frame is not None else 0)
        if base.space == "shared" and machine.rank_bits is not None:
            start += int(machine.rank_bits[lane])
        return start + operand.offset
    if isinstance(base, Imm):
        return int(base.value) + operand.offset
    assert isinstance(base, (Reg, Special))
    row = machine.row(base) if isinstance(base, Reg) else machine.special(base.name)
    return (int(row[lane]) + operand.offset) & ((1 << (8 * row.itemsize)) - 1)
