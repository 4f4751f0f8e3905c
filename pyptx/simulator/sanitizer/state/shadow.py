"""Shadow memory: who last wrote and read each granule of shared, local and global memory.

A granule is as large as the smallest access of the program to the space, so that two accesses either touch
the same granule or do not overlap. A *stamp* tells time, kind and thread of an access:
`time << 32 | kind << 28 | thread`, 0 for none; asynchronous ones have bit 62 set, so that they look younger
than any barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...machine.global_memory import Allocation
from ...machine.machine import Machine
from ...machine.memory import Access
from ...machine.program import CLUSTER_SHIFT, LOCAL_WINDOW, SHARED_BASE, SHARED_WINDOW, Address, Imm, Inst, Place, Vec
from ...machine.registry import dtype_of
from .history import ASYNC, CLUSTER, CTA, GPU, SLOTS, THREAD, WEAK, History, Newest

__all__ = ["ASYNC", "CLUSTER", "CTA", "GPU", "THREAD", "WEAK", "Shadow", "Space", "granules"]

Array = Any
WINDOW = np.uint64(1 << 32)


class Space:
    """The shadow of one memory: by granule, the stamps of the last write and the last read, and of others that neither
    came after. `units`: how many groups of `unit` threads share it.
    """

    __slots__ = (
        "chain",
        "name",
        "never",
        "non_coherent",
        "reads",
        "seen",
        "shift",
        "size",
        "unit",
        "units",
        "updates",
        "write",
    )

    def __init__(self, name: str, size: int, granule: int, unit: int = 32, units: int = 1):
        self.name, self.size = name, size
        self.unit, self.units = unit, units
        self.shift = granule.bit_length() - 1
        count = (size >> self.shift) + 1
        self.write = np.zeros(count, np.int64)
        self.reads = Newest(count, unit, units)
        self.never: np.ndarray | None = None
        """Where nothing is before the first write; None: everywhere, but not in global memory."""
        self.updates: History | None = None
        """Writes that strong ones came after."""
        self.seen: Newest | None = None
        """Strong reads that observed the last write (PTX ISA 8.9.2), each with the chain as it was, from the first strong
        access on.
        """
        self.chain: np.ndarray | None = None
        """The write at which the observation order of a granule begins: the last one that was not an atomic, or that did not
        observe the one before.
        """
        self.non_coherent: np.ndarray | None = None
        """The last read that is outside the memory model (ld.global.nc)."""

    @property
    def read(self) -> np.ndarray:
        return self.reads.last

    def strong(self) -> np.ndarray:
        """A strong access happens. The chains."""
        if self.chain is None:
            self.chain = np.zeros(self.write.size, np.int64)
            self.seen = Newest(self.write.size, self.unit, self.units, noted=True)
        return self.chain

    def replaced(self, index: Array, stamps: Array, floor: Array) -> None:
        """Strong writes took the place of writes with these stamps, if any, and do not stand for them. What is not above
        `floor` is over.
        """
        which = stamps > floor
        if self.updates is None:
            if np.count_nonzero(which):
                self.updates = History(self.write.size, self.unit, self.units, goal=SLOTS)
        else:
            which &= self.updates.tells(index, stamps, floor)
        at = np.flatnonzero(which)
        if at.size and self.updates is not None:
            floors = floor[at] if np.ndim(floor) else np.full(at.size, floor)
            self.updates.keep(index[at], stamps[at], floors)

    def unwritten(self, index: Array, written: Array) -> Array:
        """Which of these granules, whose last writes are `written`, hold nothing yet."""
        if self.name == "global" and self.never is None:
            return ()
        nothing = written == 0
        if self.never is not None:
            nothing &= self.never[index]
        return np.flatnonzero(nothing) if np.count_nonzero(nothing) else ()

    def clear(self) -> None:
        self.write[...] = 0
        for part in (self.reads, self.updates, self.seen):
            if part is not None:
                part.clear()
        for table in (self.chain, self.non_coherent):
            if table is not None:
                table[...] = 0

    def grow(self, size: int) -> None:
        count = (size >> self.shift) + 1
        more = np.zeros(max(0, count - self.write.size), np.int64)
        self.size = size
        self.write = np.concatenate([self.write, more])
        for part in (self.reads, self.updates, self.seen):
            if part is not None:
                part.grow(count)
        if self.chain is not None:
            self.chain = np.concatenate([self.chain, more])
        if self.non_coherent is not None:
            self.non_coherent = np.concatenate([self.non_coherent, more])
        if self.never is not None:
            self.never = np.concatenate([self.never, np.zeros(more.size, np.bool_)])


def _sizes(inst: Inst) -> tuple[set[str], int] | None:
    """(spaces, bytes) of an instruction's access."""
    family = inst.family
    if not family.access and not family.access_bytes:
        return None
    spaces = {m.partition("::")[0] for m in inst.modifiers} & {"shared", "global", "local"}
    for operand in inst.operands:
        if isinstance(operand, Address) and isinstance(operand.base, Place) and not spaces:
            spaces = {operand.base.space}
    spaces = spaces or {"shared", "global", "local"}
    if family.access_bytes:
        return spaces, family.bytes_together(inst.modifiers)
    if not inst.types:  # cp.async: an operand says it
        return spaces, next((int(o.value) for o in inst.operands if isinstance(o, Imm)), 4)
    vector = 1 if family.whole_warp else next((len(o.elements) for o in inst.operands if isinstance(o, Vec)), 1)
    size = (16 if inst.type == "b128" else dtype_of(inst.type).itemsize) * vector
    return spaces, min(size, 16)


def granules(instructions: list[Inst]) -> dict[str, int]:
    """Space -> bytes of its granules."""
    found = {"shared": 16, "global": 16, "local": 16}
    for inst in instructions:
        access = _sizes(inst)
        if access is not None:
            for space in access[0] & found.keys():
                found[space] = min(found[space], access[1])
    return found


class Shadow:
    """The shadow of a machine's memories, and where its accesses go in them."""

    def __init__(self, machine: Machine):
        self.machine = machine
        sizes = granules(machine.program.instructions)
        alone = machine.cluster_size == 1
        threads = (32, machine.padded // 32) if alone else (machine.padded, machine.cluster_size)
        self.shared = Space("shared", machine.shared.size, sizes["shared"], *threads)
        self.local = Space("local", machine.local.size, sizes["local"])
        self.starts: dict[int, int] = {}
        self.top = 0
        for allocation in machine.memory.allocations:
            self._place(allocation)
        ctas = machine.launch.grid_size
        threads = (machine.padded, ctas) if ctas > 1 else (32, machine.padded // 32)
        self.memory = Space("global", self.top, sizes["global"], *threads)
        fresh = [a for a in machine.memory.allocations if a.uninitialised and a.size]
        never = np.zeros(self.memory.write.size, np.bool_)
        for a in fresh:
            first = self.starts[a.base]
            never[first >> self.memory.shift : (first + a.size - 1 >> self.memory.shift) + 1] = True
        self.memory.never = never if fresh else None
        self.shared_rows = machine.cta_of_lane * machine.shared.shape[1]
        self.local_rows = machine.lane_numbers * machine.local.shape[1]
        self._last: Allocation | None = None

    def clear(self) -> None:
        """A new batch has fresh shared and local memory."""
        self.shared.clear()
        self.local.clear()

    def start_of(self, allocation: Allocation) -> int:
        found = self.starts.get(allocation.base)
        if found is None:
            found = self._place(allocation)
            self.memory.grow(self.top)
        return found

    def _place(self, allocation: Allocation) -> int:
        """Where the shadow of an allocation begins, which is aligned as the allocation is."""
        found = self.starts[allocation.base] = self.top + allocation.base % 16
        self.top = (found + allocation.size + 31) // 16 * 16
        return found

    def fresh(self, allocation: Allocation) -> None:
        """Memory that malloc gave out again."""
        self.starts.pop(allocation.base, None)

    def of_address(self, address: int) -> int | None:
        """The byte of the global shadow of an address."""
        found = self.machine.memory.find(address, 1)
        return None if found is None else self.start_of(found) + address - found.base

    def address(self, space: Space, byte: int) -> int:
        """The address of a byte of the shadow, in its space."""
        m = self.machine
        if space.name == "tensor":
            return byte
        if space.name == "shared":
            return byte % m.shared.shape[1] + SHARED_BASE
        if space.name == "local":
            return byte % m.local.shape[1] + 0x10
        base, start = max(((b, s) for b, s in self.starts.items() if s <= byte), key=lambda x: x[1])
        return base + byte - start

    def name(self, space: Space, byte: int) -> str:
        """A byte of the shadow in the author's terms: its variable with the index, and its address."""
        address = self.address(space, byte)
        known = self.machine.shared_names.at(address) if space.name == "shared" else ""
        plain = f".{space.name} 0x{address:x}"
        return f"{known} ({plain})" if known else plain

    def mbarriers(self, slots: Sequence[int]) -> str:
        """Mbarriers, by their 8-byte words of all shared memory, in the author's terms."""
        names = list(dict.fromkeys(self.name(self.shared, 8 * slot) for slot in slots))
        return f"mbarrier{'s' if len(names) > 1 else ''} {', '.join(names)}"

    def tensor_at(self, byte: int) -> str:
        """The name of the argument that a byte of the global shadow belongs to."""
        found = self.machine.memory.find(self.address(self.memory, byte), 1)
        return "" if found is None else found.name.partition(" (argument")[0]

    def places(self, access: Access, lanes: Array) -> list[tuple[Space, Array, Array]]:
        """[(space, first byte in its shadow, which of the lanes; None: all)] of an access that does not fault."""
        a = access.row if lanes is None else access.row[lanes]
        space = access.space
        if space == "shared":
            rows = self.shared_rows if lanes is None else self.shared_rows[lanes]
            offset = a.astype(np.int64) + access.offset
            if self.machine.rank_bits is not None:
                offset &= (1 << CLUSTER_SHIFT) - 1
            return [(self.shared, rows + (offset - SHARED_BASE), None)]
        if space == "local":
            rows = self.local_rows if lanes is None else self.local_rows[lanes]
            return [(self.local, rows + (a.astype(np.int64) + (access.offset - 0x10)), None)]
        if space in ("param", "const"):
            return []
        mask = np.uint64((1 << (8 * a.itemsize)) - 1)
        full = (a.astype(np.uint64) + np.uint64(access.offset & (2**64 - 1))) & mask
        if space == "shared::cluster":
            return [(self.shared, self._shared(full, lanes), None)]
        last = self._last
        if last is not None and full.size:
            offset = full - np.uint64(last.base)
            if not np.count_nonzero(offset >= np.uint64(last.size)):
                return [(self.memory, offset.view(np.int64) + self.starts[last.base], None)]
        return self._general(full, lanes)

    def _shared(self, full: Array, lanes: Array) -> Array:
        m = self.machine
        cta = m.cta_of_lane if lanes is None else m.cta_of_lane[lanes]
        rank = (full >> np.uint64(CLUSTER_SHIFT)).astype(np.int64) & 0xFF
        cta = m.cluster_start(cta) + rank
        offset = (full & np.uint64((1 << CLUSTER_SHIFT) - 1)).astype(np.int64) - SHARED_BASE
        return cta * m.shared.shape[1] + offset

    def _general(self, full: Array, lanes: Array) -> list[tuple[Space, Array, Array]]:
        m = self.machine
        parts: list[tuple[Space, Array, Array]] = []
        left = np.ones(full.size, np.bool_)
        for kind, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            offset = full - np.uint64(window)
            where = np.flatnonzero(offset < WINDOW)
            if not where.size:
                continue
            owner = where if lanes is None else lanes[where]
            if kind == "shared":
                parts.append((self.shared, self._shared(offset[where], owner), where))
            else:
                parts.append((self.local, self.local_rows[owner] + offset[where].astype(np.int64) - 0x10, where))
            left[where] = False
        rest = np.flatnonzero(left)
        for allocation, of_rest in m.memory.parted(full[rest], 1) if rest.size else ():
            if allocation is None or (allocation.read_only and allocation.name.find("argument") <= 0):
                continue
            where = rest[of_rest]
            offset = full[where] - np.uint64(allocation.base)
            self._last = allocation
            parts.append((self.memory, offset.view(np.int64) + self.start_of(allocation), where))
        return parts
