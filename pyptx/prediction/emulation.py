"""CTAs of a launch, emulated: what their warps execute, and how often."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..diagnostics import SimulationError
from ..sass import Function
from ..simulator.machine.global_memory import Allocation
from . import accesses as a
from . import codes as e
from .emulate import emulate
from .encode import SPECIALS, Encoded
from .encode_asynchronous import encode_all
from .layout import ACCESS, FIRST_LINE, MBARRIER_INIT, RECORD
from .native import Ints
from .sm import Traces

WINDOW = 0x7F000000
"""The upper word of generic addresses of shared memory."""
STACK = 0xFFF000
PARAMETERS = 0x7E00000000000000
"""The generic address of the first constant bank, which has the parameters."""
MOST_RECORDS = 6_000_000
MOST_EXECUTED = 10_000_000
"""Instructions of the warps of a CTA; a kernel that executes more is taken not to end."""


@dataclass(frozen=True)
class Bank:
    """Offsets in the first constant bank, of an architecture: sm_80 to sm_89, sm_90, sm_100 and later (seen in nvdisasm's output)."""

    parameters: int
    block: int
    grid: int
    stack: int
    cluster: int
    """1 where the launch has clusters, then their size."""
    pointer: int = 0
    """Where ptxas finds the generic address of the parameters; 0: not known."""


def bank_of(arch: str) -> Bank:
    number = int(re.sub(r"\D", "", arch))
    if number >= 100:
        return Bank(0x380, 0x360, 0x370, 0x37C, 0x36C)
    if number >= 90:
        return Bank(0x210, 0x0, 0xC, 0x28, 0x140, 0x198)
    return Bank(0x160, 0x0, 0xC, 0x28, 0)


def in_bank(arch: str, parameters: bytes, places: Sequence[tuple[int, int, int]]) -> bytes:
    """The parameters as the constant bank has them: each of `places` (offset, size, alignment) is aligned there as a whole, from the
    bank's start on (seen in ptxas's output for tensor maps, which are aligned to 128 bytes).
    """
    start = at = bank_of(arch).parameters
    found = bytearray()
    for offset, size, alignment in places:
        at = -(-at // alignment) * alignment
        found += bytes(at - start - len(found)) + parameters[offset : offset + size]
        at += size
    return bytes(found)


@dataclass(frozen=True)
class Buffer:
    """Memory that a pointer argument points to; without an array its contents are not known."""

    address: int
    size: int
    array: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Geometry:
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: bytes
    buffers: Sequence[Buffer] = ()
    allocations: Sequence[Allocation] = ()
    """The same as the simulator has them."""
    shared: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def ranks(self) -> int:
        """CTAs of a cluster."""
        return math.prod(self.cluster)

    @property
    def ctas(self) -> int:
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        return (math.prod(self.block) + 31) // 32

    def cta(self, cluster: int, rank: int = 0) -> tuple[int, int, int]:
        """Where a CTA of a cluster is in the grid; clusters are numbered x first."""
        cx, cy, cz = self.cluster
        x, y = self.grid[0] // cx, self.grid[1] // cy
        first = cluster % x * cx, cluster // x % y * cy, cluster // (x * y) * cz
        return first[0] + rank % cx, first[1] + rank // cx % cy, first[2] + rank // (cx * cy)


@dataclass
class Emulated:
    """One CTA."""

    result: int
    executed: int
    """Instructions of warps."""
    counts: NDArray[np.int64]
    """(instructions, `codes.COUNTS`): executions by warps, by lanes, and so on."""
    flagged: Ints
    """Instructions whose branch (1) or address (2) depends on a value that is not known."""
    records: NDArray[np.int32] = field(repr=False)
    lines: Ints = field(repr=False)
    offsets: Ints = field(repr=False)


class Emulator:
    def __init__(self, function: Function, geometry: Geometry):
        self.function, self.geometry = function, geometry
        self.encoded: Encoded = encode_all(function)
        self.bank = self._bank()
        warps = geometry.warps * geometry.ranks
        self.warps = warps
        """Of a cluster."""
        self.regs = np.zeros((warps * e.CONSTANTS + self.encoded.slots + 2) * 32, np.uint32)
        self._constants()
        known = [(b.address, b.size, 0 if b.array is None else b.array.ctypes.data) for b in geometry.buffers]
        self.ranges = np.array([*known, (0, 0, 0)], np.int64)
        self.locals = np.zeros(warps * e.LOCAL_WORDS * 32, np.uint32)
        self.shared = np.zeros(geometry.ranks * e.SHARED_BYTES // 4, np.uint32)

    def _bank(self) -> NDArray[np.uint32]:
        """The words of the first constant bank."""
        g, at = self.geometry, bank_of(self.function.arch)
        raw = np.zeros(max(0x2000, at.parameters + len(g.parameters) + 64), np.uint8)
        raw[at.parameters : at.parameters + len(g.parameters)] = np.frombuffer(g.parameters, np.uint8)
        words = raw.view(np.uint32)
        words[at.block // 4 : at.block // 4 + 3] = g.block
        words[at.grid // 4 : at.grid // 4 + 3] = g.grid
        words[at.stack // 4] = STACK
        if at.cluster and g.ranks > 1:
            words[at.cluster // 4] = 1
            size = at.cluster + 4 if at.pointer else 0x2A0 - 0xA0 * g.ranks
            if size >= 0:
                words[size // 4 : size // 4 + 3] = g.cluster
        if at.pointer:
            words[at.pointer // 4 : at.pointer // 4 + 2] = np.array([PARAMETERS + at.parameters], np.uint64).view(
                np.uint32
            )
        return words

    def _constants(self) -> None:
        table = self.regs[self.warps * e.CONSTANTS * 32 :].reshape(-1, 32)
        for (kind, value), slot in self.encoded.constants.items():
            if kind == "c":
                inside = value // 4 + 1 < len(self.bank)
                table[slot] = self.bank[value // 4] if inside else 0
                table[slot + 1] = self.bank[value // 4 + 1] if inside else 0
            else:
                table[slot], table[slot + 1] = value & e.M32, value >> 32 & e.M32

    def run(
        self,
        number: int,
        *,
        record: bool = True,
        loop: tuple[int, int] = (-1, -1),
        kept: int = 0,
        most: int | None = None,
        records: int = MOST_RECORDS,
    ) -> Emulated:
        """Emulate a CTA, or all CTAs of a cluster. Of the loop between two instructions, the trace has `kept` iterations at most."""
        g = self.geometry
        warps, count = self.warps, len(self.function.instructions)
        threads = math.prod(g.block)
        self.regs[: warps * e.CONSTANTS * 32] = 0
        self._specials(number)
        self.shared[:] = 0
        predicates = np.zeros((warps, e.PREDICATES), np.int64)
        predicates[:, [e.TRUE, e.UNIFORM_TRUE]] = e.ALL
        states = np.zeros((warps, e.STATE), np.int64)
        for warp in range(warps):
            states[warp, e.T_LIVE] = (1 << min(32, threads - 32 * (warp % g.warps))) - 1
        meta = np.zeros(e.META, np.int64)
        room = records if record else 4
        meta[e.M_LIMIT] = MOST_EXECUTED if most is None else most
        meta[e.M_RECORD], meta[e.M_RECORD_LIMIT] = record, room
        meta[e.M_LINE_LIMIT] = max(4 * room, 4096)
        meta[e.M_LOOP_FIRST], meta[e.M_LOOP_LAST] = loop if kept else (-1, -1)
        meta[e.M_LOOP_KEPT] = kept
        meta[e.M_WARPS], meta[e.M_RANGES], meta[e.M_RUN] = warps, len(g.buffers), count
        meta[e.M_SHARED], meta[e.M_SHARED_SIZE], meta[e.M_WINDOW] = self.shared.ctypes.data, self.shared.nbytes, WINDOW
        meta[e.M_BANK], meta[e.M_PARAMETERS] = len(self.bank), PARAMETERS
        meta[e.M_CTA_WARPS], meta[e.M_RANKS] = g.warps, g.ranks
        lines = np.empty((int(meta[e.M_LINE_LIMIT]) + 64) * 2, np.int64)
        trace = np.empty((room + 4, RECORD), np.int32)
        owners = np.empty(room + 4, np.int32)
        counts = np.zeros((count, e.COUNTS), np.int64)
        flagged = np.zeros(count, np.int64)
        pcs = np.zeros(warps * 32, np.int64)
        sync = np.zeros(e.B_STATES + g.ranks * e.MBARRIERS * e.MBARRIER, np.int64)
        result = emulate.native(
            self.encoded.code, self.regs, predicates, pcs, states, np.zeros(warps * 1024, np.uint8),
            self.encoded.marks, self.ranges, self.bank, np.zeros(len(self.shared), np.uint8), _everything(np.uint8), _everything(np.uint32),
            np.zeros(64, np.int64), np.zeros(a.SCRATCH + 64, np.int64), np.zeros(64, np.int64), lines, trace, owners, counts, flagged,
            np.zeros(32 * g.ranks, np.int64), sync, self.locals.ctypes.data, meta,
        )  # fmt: skip
        if result == e.STUCK:
            raise SimulationError(f"{self.function.name}: the warps of CTA {number} wait for each other")
        if result == e.LOST:
            raise SimulationError(f"{self.function.name}: a warp of CTA {number} leaves the code of the kernel")
        done = int(meta[e.M_RECORDS]) if record else 0
        order = np.argsort(owners[:done], kind="stable")
        lengths = np.bincount(owners[:done], minlength=warps)
        if done:
            at_barrier = (states[:, e.T_STATUS] == e.WAITING) & (lengths > 0)
            order = np.delete(order, np.cumsum(lengths)[at_barrier] - 1)  # warps that a cut trace leaves at a barrier
            lengths[at_barrier] -= 1
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        touched = lines[: 2 * int(meta[e.M_LINES])].reshape(-1, 2).copy()
        return Emulated(int(result), int(meta[e.M_EXECUTED]), counts, flagged, trace[:done][order], touched, offsets)

    def _specials(self, cluster: int) -> None:
        g = self.geometry
        bx, by, _ = g.block
        file = self.regs[: self.warps * e.CONSTANTS * 32].reshape(-1, e.CONSTANTS, 32)
        lane = np.arange(32)
        for number, registers in enumerate(file):
            rank, warp = divmod(number, g.warps)
            cta = g.cta(cluster, rank)
            thread = lane + 32 * warp
            values = {
                "SR_TID.X": thread % bx, "SR_TID.Y": thread // bx % by, "SR_TID.Z": thread // (bx * by), "SR_LANEID": lane,
                "SR_CTAID.X": cta[0], "SR_CTAID.Y": cta[1], "SR_CTAID.Z": cta[2], "SR_WARPID": warp, "SR_SWINHI": WINDOW,
                "SR_LTMASK": (1 << lane) - 1, "SR_LEMASK": (2 << lane) - 1, "SR_EQMASK": 1 << lane,
                "SR_GTMASK": e.ALL - ((2 << lane) - 1), "SR_GEMASK": e.ALL - ((1 << lane) - 1), "SR_SMEMSZ": g.shared,
                "SR_TID": thread % bx | thread // bx % by << 16 | thread // (bx * by) << 26, "SR_CgaCtaId": rank,
                "SR_CgaSize": g.ranks,
            }  # fmt: skip
            for slot, name in enumerate(SPECIALS):
                if name in values:
                    registers[e.SPECIAL + slot] = values[name]


class _Everything:
    """All memory of this process, as an array that begins at address 0: the emulator works with addresses of its own."""

    def __init__(self, dtype: type):
        self.dtype = np.dtype(dtype)
        self.flags = np.zeros(1).flags
        self.ctypes = self
        self.data = 0


def _everything(dtype: type) -> _Everything:
    return _Everything(dtype)


def join(parts: Sequence[Emulated], warps: int, ranks: int = 1) -> Traces:
    """The traces of several CTAs as one."""
    records: list[NDArray[np.int32]] = []
    offsets = [np.zeros(1, np.int64)]
    lines = records_before = 0
    for part in parts:
        moved = part.records.copy()
        moved[moved[:, ACCESS] < MBARRIER_INIT, FIRST_LINE] += lines
        records.append(moved)
        offsets.append(part.offsets[1:] + records_before)
        lines += len(part.lines)
        records_before += len(part.records)
    return Traces(
        np.concatenate(records), np.concatenate([p.lines for p in parts]), np.concatenate(offsets), warps,
        [len(p.lines) for p in parts], ranks,
    )  # fmt: skip
