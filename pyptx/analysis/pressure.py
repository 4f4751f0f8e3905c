"""Register pressure: how many 32-bit registers (and predicates) hold live values at each point.

Two counts. *Written* takes the PTX at its word: every live register by its size (64 bits: an aligned pair).
*Estimated* is closer to what
ptxas needs: values that are the same bits share registers (moves, packing, cvta, zero-extension), and what
costs nothing to make again
where it is used (constants, addresses of variables, kernel parameters, launch dimensions) takes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import FunctionOp, UndefOp
from ..dialects.ptx.syntax import Immediate, SpecialRegister, Symbol
from ..dialects.ptx.types import class_bits
from .liveness import Liveness
from .operands import Bound, Group, Value, bound_operands, register_class, register_name

Units = tuple[int, ...]
"""The 32-bit registers a value occupies, low bits first; values that share bits share numbers, and what is
free has none."""


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
    top: Operation | None
    live_at_top: tuple[SSAValue, ...]
    """The values that occupy registers at `top`, widest first."""


def register_pressure(function: FunctionOp, live: Liveness) -> Pressure:
    """Pressure of a function; its CFG is that of the liveness."""
    storage = Storage(function.is_entry)
    for block in live.cfg.blocks:
        for argument in block.args:
            storage.fresh(argument)
        for op in block.ops:
            storage.define(op)
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
    return Pressure(points, written, estimated, predicates, top, _live_at(live, storage, top))


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


class Storage:
    """Which 32-bit registers each value occupies in the estimate, and its size as written."""

    def __init__(self, entry: bool):
        self.entry = entry
        self.units: dict[SSAValue, Units] = {}
        self.size: dict[SSAValue, tuple[int, int]] = {}
        self.next = 0

    def weight(self, value: SSAValue) -> int:
        """Registers of a value in the estimate."""
        return len(self.units[value])

    def fresh(self, value: SSAValue) -> None:
        """Registers of its own."""
        class_ = register_class(value)
        registers = 0 if class_ == "pred" else -(-class_bits(class_) // 32)
        self.size[value] = registers, int(class_ == "pred")
        self.units[value] = tuple(range(self.next, self.next + registers))
        self.next += registers

    def define(self, op: Operation) -> None:
        """The results of an op."""
        for value in op.results:
            self.fresh(value)
        if isinstance(op, UndefOp):
            for value in op.results:
                self.units[value] = ()
        if not isinstance(op, Instruction) or op.guard:
            return
        if op.opcode in ("mov", "cvta", "cvt"):
            self._copy(op)
        elif op.opcode == "ld" and self.entry and "param" in op.slots.get("space", ""):
            for value in op.results:
                self.units[value] = ()

    def _copy(self, op: Instruction) -> None:
        bound = bound_operands(op)
        if len(bound) != 2:
            return
        target, source = bound
        if op.opcode == "cvt":
            types = [m for m in op.modifiers if m[1:].isdigit() and m[0] in "bsu"]
            if len(types) != len(op.modifiers) or len(types) != 2:
                return
            wide, narrow = int(types[0][1:]), int(types[1][1:])
            if (
                (wide, narrow) == (64, 32)
                and types[1][0] == "u"
                and isinstance(source, Value)
                and isinstance(target, Value)
            ):
                self.units[target.value] = self._of(source)[:1]  # the high half is zero, which costs nothing
            elif (wide, narrow) == (64, 32) and isinstance(source, Value) and isinstance(target, Value):
                self.units[target.value] = (*self._of(source)[:1], *self.units[target.value][1:])
            elif (wide, narrow) == (32, 64) and isinstance(source, Value) and isinstance(target, Value):
                self.units[target.value] = self._of(source)[:1]
            return
        match target, source:
            case Value(value, True, ""), Value(_, False, "") if self.size[value][0] == self._size(source):
                self.units[value] = self._of(source)
            case Value(value, True, ""), (Immediate() | Symbol()):
                self.units[value] = ()
            case Value(value, True, ""), SpecialRegister(name) if name.partition(".")[0] in _LAUNCH:
                self.units[value] = ()
            case Value(value, True, ""), Group(elements) if self._whole(elements):
                self.units[value] = tuple(u for e in elements for u in self._of(e))
            case Group(elements), Value(_, False, ""):
                self._split(elements, self._of(source))
            case _:
                pass

    def _split(self, elements: tuple[Bound, ...], units: Units) -> None:
        """`mov.b64 {lo, hi}, pair`: parts of 32 bits are registers of the pair, smaller ones lie in one."""
        at = 0
        for i, element in enumerate(elements):
            size = self._size(element) or 1
            if isinstance(element, Value) and class_bits(register_class(element.value)) >= 32:
                self.units[element.value] = units[at : at + size] if len(units) >= at + size else ()
            elif isinstance(element, Value) and units:
                share = len(elements) // max(len(units), 1) or 1
                self.units[element.value] = units[i // share : i // share + 1]
            at += size

    def _whole(self, elements: tuple[Bound, ...]) -> bool:
        return all(
            isinstance(e, Immediate) or (isinstance(e, Value) and class_bits(register_class(e.value)) >= 32)
            for e in elements
        )

    def _of(self, source: Bound) -> Units:
        return self.units.get(source.value, ()) if isinstance(source, Value) else ()

    def _size(self, source: Bound) -> int:
        return self.size.get(source.value, (0, 0))[0] if isinstance(source, Value) else 0


_LAUNCH = frozenset({"%ntid", "%nctaid"})
"""Special registers that sit in the constant bank."""
