"""A profile without a GPU: what a launch moves and computes, per line. A model of the memory system's granules,
not a measurement: no caches, no latencies, no clocks.

- global memory: 32-byte sectors that each warp's request touches; a perfect request touches as few as its bytes
  fill;
- shared memory: 32 banks of 4 bytes; a request of a warp is served 128 bytes at a time, and takes as many passes
  as the fullest bank has different words (`ways` is passes over the passes of a conflict-free request);
- divergence: threads that execute over 32 for each warp that issues.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...dialects.ptx.wgmma import WgmmaMmaAsync
from ...notebook import preformatted
from ..machine.machine import Action, Machine, Observer
from ..machine.memory import Access
from ..machine.pending import Copy
from ..machine.program import LOCAL_WINDOW, SHARED_WINDOW, Inst

Array = Any
SECTOR = 32
BANKS = 32
GPUS = {
    "H100": (3.35e12, {"bf16": 989e12, "f32": 67e12}),
    "H200": (4.8e12, {"bf16": 989e12, "f32": 67e12}),
    "A100": (2.04e12, {"bf16": 312e12, "f32": 19.5e12}),
    "B200": (8e12, {"bf16": 2250e12, "f32": 75e12}),
}
"""Name -> (bytes/s of global memory, FLOP/s of tensor cores in bf16 and of f32 units): the makers' dense peaks."""
_SUMMED = ("warps", "threads", "sectors", "requests", "passes", "ideal_passes", "flops")
"""What a `LineProfile` adds up."""
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")


@dataclass(slots=True)
class LineProfile:
    """One instruction. Requests are executions by a warp."""

    text: str
    filename: str | None
    line: int | None
    warps: int = 0
    threads: int = 0
    bytes: Counter[str] = field(default_factory=Counter[str])
    """By state space: global, shared, local."""
    sectors: int = 0
    requests: int = 0
    """Of global memory."""
    passes: int = 0
    ideal_passes: int = 0
    """Of shared memory."""
    worst_ways: int = 0
    flops: int = 0
    matrix: bool = False
    """Whether it is a matrix instruction."""

    def merge(self, other: LineProfile) -> None:
        """Add other executions of it."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.bytes.update(other.bytes)
        self.worst_ways = max(self.worst_ways, other.worst_ways)

    @property
    def active(self) -> float:
        """Share of the threads of its warps that executed it."""
        return self.threads / (32 * self.warps) if self.warps else 1.0

    @property
    def ways(self) -> float:
        """Bank-conflict ways, as an average: 1 is free of conflicts."""
        return self.passes / self.ideal_passes if self.ideal_passes else 1.0

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0


class Profile(Observer):
    """Collects a `LineProfile` per instruction; `str()` is a table."""

    def __init__(self, lines: dict[int, LineProfile] | None = None) -> None:
        self.lines: dict[int, LineProfile] = lines or {}

    def attach(self, machine: Machine) -> None:
        self.machine = machine

    def _line(self, inst: Inst) -> LineProfile:
        found = self.lines.get(inst.number)
        if found is None:
            found = self.lines[inst.number] = LineProfile(
                inst.text, inst.filename, inst.line, matrix=inst.family.unit == "tensor core"
            )
        return found

    # -------------------------------------------------------------------------------------------------- events

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.copies:
            return action
        line, machine = self._line(inst), self.machine
        flops = _flops(inst)
        threads_of = 128 if inst.family is WgmmaMmaAsync else 32

        def counted(mask: Array) -> object:
            here = machine.active(inst, mask)
            warps = int(np.count_nonzero(machine.ballot(here)))
            threads = int(np.count_nonzero(here))
            line.warps += warps
            line.threads += threads
            if flops:
                line.flops += flops * (warps * 32 // threads_of if flops > 2 else threads)
            return action(mask)

        return counted

    def access(self, access: Access) -> None:
        inst = access.inst
        if inst.family.access in ("copy", "object") or access.space in ("param", "const"):
            return
        load, store, locate = access.load, access.store, access.locate

        def loaded(lanes: Array) -> Array:
            self._count(access, lanes)
            return load(lanes)

        def stored(lanes: Array, values: Array) -> None:
            self._count(access, lanes)
            store(lanes, values)

        def located(lanes: Array, write: bool) -> Any:
            if inst.family.access == "atomic":
                self._count(access, lanes)
            return locate(lanes, write)

        access.load, access.store, access.locate = loaded, stored, located

    def multiplied(self, inst: Inst, operations: int) -> None:
        self._line(inst).flops += operations

    def copy_issued(self, copy: Copy) -> None:
        line = self._line(copy.inst)
        if copy.source is not None and copy.target is not None:
            self._count(copy.source[0], copy.source[1])
            self._count(copy.target, copy.lanes)
        if copy.tensor_bytes:
            line.bytes["global"] += copy.tensor_bytes
            line.requests += 1
            line.sectors += -(-copy.tensor_bytes // SECTOR)
        for space, _, size in (*copy.reads, *copy.writes):
            line.bytes[space] += size
            if space == "global":
                line.requests += 1
                line.sectors += -(-size // SECTOR)

    # -------------------------------------------------------------------------------------------------- memory

    def _count(self, access: Access, lanes: Array) -> None:
        machine = self.machine
        everyone = machine.lane_numbers if lanes is None else lanes
        address = access.row[everyone].astype(np.uint64) + np.uint64(access.offset & (2**64 - 1))
        if access.row.itemsize == 4:
            address &= np.uint64(0xFFFF_FFFF)
        line = self._line(access.inst)
        space = access.space.partition("::")[0]
        if space == "generic":
            shared = address - np.uint64(SHARED_WINDOW) < np.uint64(1 << 32)
            local = address - np.uint64(LOCAL_WINDOW) < np.uint64(1 << 32)
            for name, which in (("shared", shared), ("local", local), ("global", ~(shared | local))):
                if np.count_nonzero(which):
                    self._add(line, name, address[which].astype(np.int64), everyone[which] // 32, access.size)
        else:
            self._add(line, space, address.astype(np.int64), everyone // 32, access.size)

    def _add(self, line: LineProfile, space: str, address: Array, warp: Array, size: int) -> None:
        line.bytes[space] += address.size * size
        if space == "global":
            first, last = address // SECTOR, (address + size - 1) // SECTOR
            key = warp << 44 | first & (1 << 44) - 1
            if np.count_nonzero(last != first):
                key = np.concatenate([key, warp << 44 | last & (1 << 44) - 1])
            line.sectors += np.unique(key).size
            line.requests += np.unique(warp).size
        elif space == "shared":
            words = max(1, size // 4)
            per_phase = 32 // words
            # the lanes of a warp in phases of 128 bytes
            position = np.arange(address.size)
            starts = np.flatnonzero(np.diff(warp, prepend=-1))
            order = position - np.repeat(position[starts], np.diff(np.append(starts, address.size)))
            phase = warp * 32 + order // per_phase
            word = (address[:, None] // 4 + np.arange(words)).reshape(-1)
            phases = np.repeat(phase, words)
            unique = np.unique(phases << 32 | word & 0xFFFF_FFFF)
            bank = (unique >> 32) * BANKS + unique % BANKS
            banks, counts = np.unique(bank, return_counts=True)
            owners = banks // BANKS
            cuts = np.flatnonzero(np.diff(owners, prepend=-1))
            worst = np.maximum.reduceat(counts, cuts)
            line.passes += int(worst.sum())
            line.ideal_passes += worst.size
            line.worst_ways = max(line.worst_ways, int(worst.max()))

    # -------------------------------------------------------------------------------------------------- totals

    def merge(self, other: Profile) -> None:
        """Add what other CTAs of the same launch did."""
        for number, line in other.lines.items():
            if number in self.lines:
                self.lines[number].merge(line)
            else:
                self.lines[number] = line

    @property
    def bytes(self) -> Counter[str]:
        """Bytes moved by space, as the threads and copies ask for them."""
        total: Counter[str] = Counter()
        for line in self.lines.values():
            total.update(line.bytes)
        return total

    @property
    def global_traffic(self) -> int:
        """Bytes of the sectors that requests touch."""
        return SECTOR * sum(line.sectors for line in self.lines.values())

    @property
    def flops(self) -> int:
        """Floating-point operations of matrix instructions and of f32 and f64 arithmetic (fma: 2)."""
        return sum(line.flops for line in self.lines.values())

    @property
    def intensity(self) -> float:
        """FLOP per byte of global memory asked for."""
        return self.flops / max(1, self.bytes["global"])

    def roofline(self, gpu: str, kind: str = "bf16") -> float:
        """Seconds that the bytes or the operations take at least at the peaks of a GPU: a bound, no prediction."""
        if gpu not in GPUS:
            raise ValueError(f"{gpu} is not among {', '.join(GPUS)}")
        bandwidth, peaks = GPUS[gpu]
        return max(self.bytes["global"] / bandwidth, self.flops / peaks[kind])

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return preformatted(str(self))

    def __str__(self) -> str:
        rows = ["model, not a measurement", f"{'warps':>10} {'active':>6} {'sect/req':>8} {'ways':>5}  instruction"]
        file: str | None = None
        for line in sorted(self.lines.values(), key=lambda x: (x.filename or "", x.line or 0)):
            if line.warps or line.bytes:
                if line.filename != file:
                    file = line.filename
                    rows.append(f"{'':>33}{file or ''}")
                sectors = f"{line.sectors_per_request:.1f}" if line.requests else ""
                ways = f"{line.ways:.1f}" if line.ideal_passes else ""
                place = f"{line.line}: " if line.line is not None else ""
                rows.append(f"{line.warps:>10,} {line.active:>6.0%} {sectors:>8} {ways:>5}  {place}{line.text}")
        moved = ", ".join(f"{space} {count:,} bytes" for space, count in sorted(self.bytes.items()))
        intensity = f"{self.intensity:.2f} FLOP/byte of global memory" if self.bytes["global"] else "no global memory"
        rows.append(f"{moved or 'no memory'}; {self.flops:,} FLOP; {intensity}")
        matrices = any(line.flops and line.matrix for line in self.lines.values())
        kind = "bf16" if matrices else "f32"
        bounds = ", ".join(f"{gpu} {1e6 * self.roofline(gpu, kind):.3g} us" for gpu in GPUS)
        rows.append(f"roofline ({kind} peak): at least {bounds}")
        return "\n".join(rows)


def _flops(inst: Inst) -> int:
    """Operations of one execution: of a warp (or warpgroup) for matrix instructions, else of a thread."""
    if inst.family.unit == "tensor core":
        for word in (*inst.opcode.split("."), *inst.modifiers):
            shape = _SHAPE.match(word)
            if shape:
                m, n, k = map(int, shape.groups())
                return 2 * m * n * k
        return 0
    if inst.type in ("f32", "f64", "f16x2", "bf16x2", "f16", "bf16"):
        return {"fma": 2, "mad": 2, "add": 1, "sub": 1, "mul": 1}.get(inst.opcode, 0)
    return 0
