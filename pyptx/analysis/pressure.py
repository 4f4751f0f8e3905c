"""Register pressure: how many 32-bit registers (and predicates) hold live values at each point.

Three counts. *Written* takes the PTX at its word: every live register by its size (64 bits: an aligned pair).
*Estimated* lets values that are the same bits share registers (moves, packing, cvta, zero-extension).
*Relaxed* also moves
loads and arithmetic to their uses, as ptxas may: what it allocates lies mostly between the last two. On the
corpus
(`python -m benchmarks.pressure`) the relaxed count correlates best with ptxas's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from ..dialects.ptx.structure import FunctionOp
from .liveness import Liveness
from .operands import register_class, register_name
from .schedule import relaxed_pressure
from .storage import Storage, storage_of


@dataclass(frozen=True, slots=True)
class Point:
    """Registers at one op: the larger of what is live before it and what is live after it with its own
    results."""

    written: int
    estimated: int
    predicates: int


@dataclass(slots=True)
class Pressure:
    """Pressure at every op of a function, and the peaks. `top` is the first op with the highest estimate."""

    points: dict[Operation, Point]
    written: int
    estimated: int
    predicates: int
    relaxed: int
    """The estimate if ptxas moved loads and arithmetic to their uses as far as it may; it ends up somewhere
    above."""
    top: Operation | None
    live_at_top: tuple[SSAValue, ...]
    """The values that occupy registers at `top`, widest first."""

    def __repr__(self) -> str:
        top = "" if self.top is None else f", top={self.top.name} at {self.top.location}"
        counts = ", ".join(f"{n}={getattr(self, n)}" for n in ("written", "estimated", "relaxed", "predicates"))
        return f"Pressure({counts}{top}, {len(self.live_at_top)} values live there)"


def register_pressure(function: FunctionOp, live: Liveness) -> Pressure:
    """Pressure of a function; its CFG is that of the liveness."""
    storage = storage_of(function, live.cfg)
    points: dict[Operation, Point] = {}
    top: Operation | None = None
    written = estimated = predicates = 0
    for b, block in enumerate(live.cfg.blocks):
        held = _Held(storage, live.values(live.out_of[b]))
        op = block.last_op
        while op is not None:
            for value in op.results:
                held.add(value)
            after = held.point()
            for value in op.results:
                held.remove(value)
            for value in op.operands:
                held.add(value)
            before = held.point()
            point = points[op] = Point(*map(max, zip(after, before, strict=True)))
            written, predicates = max(written, point.written), max(predicates, point.predicates)
            if point.estimated >= estimated and (top is None or point.estimated > estimated or top.parent is op.parent):
                top = op  # walking backwards, so within a block the last one seen is the first in the text
                estimated = point.estimated
            op = op.prev_op
    blocks = enumerate(live.cfg.blocks)
    relaxed = max((relaxed_pressure(block, live.live_out(b), storage) for b, block in blocks), default=0)
    relaxed = min(relaxed, estimated)
    return Pressure(points, written, estimated, predicates, relaxed, top, _live_at(live, storage, top))


def _live_at(live: Liveness, storage: Storage, at: Operation | None) -> tuple[SSAValue, ...]:
    if at is None or at.parent is None:
        return ()
    for op, after in live.backwards(live.cfg.index[at.parent]):
        if op is at:
            chosen = after.union(op.results) if op.results else after.union(op.operands)
            found = [v for v in chosen if storage.weight(v)]
            return tuple(sorted(found, key=lambda v: (-storage.weight(v), register_class(v), register_name(v))))
    return ()


class _Held:
    """Live values and what they take, updated value by value."""

    def __init__(self, storage: Storage, values: Iterator[SSAValue]):
        self.storage = storage
        self.live: set[SSAValue] = set()
        self.units: dict[int, int] = {}
        self.written = self.predicates = 0
        for value in values:
            self.add(value)

    def add(self, value: SSAValue) -> None:
        if value in self.live:
            return
        self.live.add(value)
        registers, predicates = self.storage.size[value]
        self.written += registers
        self.predicates += predicates
        for unit in self.storage.units[value]:
            self.units[unit] = self.units.get(unit, 0) + 1

    def remove(self, value: SSAValue) -> None:
        self.live.remove(value)
        registers, predicates = self.storage.size[value]
        self.written -= registers
        self.predicates -= predicates
        for unit in self.storage.units[value]:
            left = self.units[unit] - 1
            if left:
                self.units[unit] = left
            else:
                del self.units[unit]

    def point(self) -> tuple[int, int, int]:
        return self.written, len(self.units), self.predicates
