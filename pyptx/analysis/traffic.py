"""Global memory traffic per CTA where addresses are known per thread: bytes asked for, and 32-byte sectors
per warp request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dialects.ptx.instruction import Instruction
from .access import Access, accesses, on_launch, tensor_of
from .active import ActiveThreads
from .banks import is_shared
from .cfg import CFG
from .loops import LoopForest
from .operands import line_of
from .threads import WARP, Threads

SECTOR = 32


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """One global access, each time the CTA runs it: `requested` bytes of all its threads, `sectors` of all
    its warps.

    `per_request` is sectors per warp request, `ideal` what the same bytes would need if they lay side by
    side. `times` is how often
    the CTA runs it (the product of known trip counts; None if a loop around it has an unknown one). What is
    not known is None.
    Addresses shared by all threads of a warp are taken to be aligned to a sector.
    """

    op: Instruction
    line: int | None
    writes: bool
    width: int
    address: str | None
    requested: int | None
    sectors: int | None
    per_request: float | None
    ideal: float | None
    times: int | None
    loop: int | None
    """Index of the innermost loop around it."""

    @property
    def efficiency(self) -> float | None:
        """Bytes asked for per byte moved, at most 1."""
        if not self.sectors or self.requested is None:
            return None
        return min(1.0, self.requested / (self.sectors * SECTOR))


@dataclass(slots=True)
class Traffic:
    """Global accesses of a function in layout order, and the totals of those that are known completely (bytes
    per CTA)."""

    accesses: list[GlobalAccess]
    uncounted: list[Instruction]
    """What moves data of global memory and does not tell how much: copies through tensor maps, textures, `wmma`."""
    read: int
    written: int
    complete: bool
    """Whether every access is in the totals."""

    @property
    def left_out(self) -> str:
        """What `uncounted` are, in words: "2 cp.async.bulk.tensor and 1 tex"; empty without any."""
        return " and ".join(f"{n} {opcode}" for opcode, n in Counter(op.opcode for op in self.uncounted).items())


def memory_traffic(
    cfg: CFG,
    loops: LoopForest,
    threads: Threads,
    active: ActiveThreads,
    trips: list[int | None],
    shared: frozenset[str] = frozenset(),
    boxes: Mapping[str, int] | None = None,
) -> Traffic:
    """Traffic of a function; `trips`: how often each loop of the forest runs; `boxes`: bytes of the box of each tensor map, by
    its parameter. One thread issues a tensor copy.
    """
    found: list[GlobalAccess] = []
    read = written = 0
    uncounted: list[Instruction] = []
    complete = True
    for b, block in enumerate(cfg.blocks):
        times: int | None = 1
        for i in loops.around(b):
            trip = trips[i]
            times = None if times is None or trip is None else times * trip
        for op in block.ops:
            if not isinstance(op, Instruction):
                continue
            tensor = tensor_of(op) if boxes else None
            entries: list[GlobalAccess] = []
            if tensor is not None and boxes is not None and tensor[0] in boxes:
                entries.append(_box(op, *tensor, boxes[tensor[0]], times, loops.innermost[b]))
            elif on_launch(op):
                uncounted.append(op)
            for access in accesses(op):
                lanes = threads.address(access.memory)
                if access.space not in ("global", "generic") or is_shared(access, lanes, shared):
                    continue
                entries.append(_entry(access, threads, active.of(op, b), times, loops.innermost[b]))
            for entry in entries:
                found.append(entry)
                if entry.requested is None or times is None:
                    complete = False
                elif entry.writes:
                    written += entry.requested * times
                else:
                    read += entry.requested * times
    return Traffic(found, uncounted, read, written, complete and not uncounted)


def _box(op: Instruction, name: str, writes: bool, size: int, times: int | None, loop: int | None) -> GlobalAccess:
    """A copy of one box of a tensor."""
    sectors = -(-size // SECTOR)
    return GlobalAccess(op, line_of(op), writes, size, f"a box of {name}", size, sectors, sectors, sectors, times, loop)


def _entry(
    access: Access, threads: Threads, mask: NDArray[np.bool_], times: int | None, loop: int | None
) -> GlobalAccess:
    op, line = access.op, line_of(access.op)
    if access.whole is not None:
        sectors = -(-access.whole // SECTOR)
        return GlobalAccess(
            op, line, access.writes, access.whole, None, access.whole, sectors, sectors, sectors, times, loop
        )
    running = int(mask.sum())
    lanes = threads.address(access.memory)
    if lanes is None:
        return GlobalAccess(
            op, line, access.writes, access.width, None, running * access.width, None, None, None, times, loop
        )
    addresses = threads.per_thread(lanes)
    sectors = requests = least = 0
    for start in range(0, threads.count, WARP):
        chosen = addresses[start : start + WARP][mask[start : start + WARP]]
        if not len(chosen):
            continue
        requests += 1
        touched, needed = warp_sectors(chosen, access.width)
        sectors += touched
        least += needed
    return GlobalAccess(
        op, line, access.writes, access.width, threads.describe(lanes), running * access.width, sectors,
        sectors / requests if requests else 0.0, least / requests if requests else 0.0, times, loop,
    )  # fmt: skip


def warp_sectors(addresses: NDArray[np.int64], width: int) -> tuple[int, int]:
    """(32-byte sectors that the lanes touch, sectors that as many different bytes need at least)."""
    starts = np.unique(addresses)
    last = (starts + width - 1) // SECTOR
    touched = np.unique(np.concatenate([starts // SECTOR, last] + ([starts // SECTOR + 1] if width > SECTOR else [])))
    return len(touched), -(-len(starts) * width // SECTOR)
