"""Registers for blank values: share one with the values they flow into where their lives do not overlap.

Lives are those of SSA: two values overlap where one is live right after the other is written (Budimlic et al.
2002).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from xdsl.ir import Block, SSAValue

from ..dialects.ptx.structure import FunctionOp
from ..dialects.ptx.types import RegType
from ..ssa.fastir import set_type
from .fresh import FreshRegisters
from .operands import passed_of, places_of


def name_blank_values(function: FunctionOp, fresh: FreshRegisters, returned: Sequence[RegType]) -> bool:
    """Give each blank value a register; whether there were any."""
    values = [v for block in function.blocks for v in block.args]
    values += [r for block in function.blocks for op in block.ops for r in op.results]
    blanks = [v for v in values if not _name(v)]
    if not blanks:
        return False
    groups = _Groups(function, values, blanks)
    for block in function.blocks:
        for op in block.ops:
            if not op.operands:
                continue
            places = places_of(op)
            for i, r in places.ties:
                groups.join(op.operands[i], op.results[r])
            for i, type_ in zip(places.returned, returned, strict=False):
                groups.take(op.operands[i], type_)
            for i, _, target, argument in passed_of(op, places):
                groups.join(op.operands[i], target.args[argument])
    types: dict[SSAValue, RegType] = {}
    for value in blanks:
        root = groups.find(value)
        type_ = groups.register.get(root) or types.get(root)
        if type_ is None:
            type_ = types[root] = fresh.type(cast(RegType, value.type).register_class)
        set_type(value, type_)
    return True


def _name(value: SSAValue) -> str:
    return cast(RegType, value.type).data[1]


class _Groups:
    """Disjoint sets of values that may share a register."""

    def __init__(self, function: FunctionOp, values: Sequence[SSAValue], blanks: Sequence[SSAValue]):
        self.parent: dict[SSAValue, SSAValue] = {}
        self.members: dict[SSAValue, _Members] = {}
        self.register: dict[SSAValue, RegType] = {}
        self.given: set[RegType] = set()
        self.by_type: dict[RegType, list[SSAValue]] = {}
        for value in values:
            if _name(value):
                self.by_type.setdefault(cast(RegType, value.type), []).append(value)
        self.lives = _Lives(function)
        self.blank = set(blanks)

    def find(self, value: SSAValue) -> SSAValue:
        root = value
        while (up := self.parent.get(root)) is not None:
            root = up
        while value is not root:
            self.parent[value], value = root, self.parent[value]
        return root

    def _root(self, value: SSAValue) -> SSAValue:
        """The set of a value; all values of one named register are one set from the start."""
        if value not in self.blank:
            type_ = cast(RegType, value.type)
            value = self.by_type[type_][0]
            if value not in self.members and value not in self.parent:
                self.members[value] = _Members(self.lives, self.by_type[type_])
                self._give(value, type_)
        root = self.find(value)
        if root not in self.members:
            self.members[root] = _Members(self.lives, [root])
        return root

    def _give(self, root: SSAValue, type_: RegType) -> None:
        self.register[root] = type_
        self.given.add(type_)

    def join(self, a: SSAValue, b: SSAValue) -> None:
        if a not in self.blank and b not in self.blank:
            return
        if cast(RegType, a.type).register_class != cast(RegType, b.type).register_class:
            return
        first, second = self._root(a), self._root(b)
        if first is second or (first in self.register and second in self.register):
            return
        small, large = sorted((self.members[first], self.members[second]), key=len)
        if any(large.overlap(value) for value in small):
            return
        if second in self.register:
            first, second = second, first
        self.parent[second] = first
        large.add(small)
        del self.members[second]
        self.members[first] = large

    def take(self, value: SSAValue, type_: RegType) -> None:
        """Let a blank value's set have a register of its own right."""
        if value not in self.blank:
            return
        root = self._root(value)
        if root in self.register or cast(RegType, value.type).register_class != type_.register_class:
            return
        if type_ in self.by_type:
            self.join(value, self.by_type[type_][0])
        elif type_ not in self.given:
            self._give(root, type_)


class _Members:
    """Values that share a register, by the block that they are written in."""

    def __init__(self, lives: _Lives, values: Iterable[SSAValue]) -> None:
        self.lives = lives
        self.in_block: dict[Block, list[tuple[int, int, SSAValue]]] = {}
        """(position, number, value), in order."""
        self.count = 0
        self.bits = 0
        """Those that are live at the start of some block."""
        for value in values:
            self._insert(value)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[SSAValue]:
        for entries in self.in_block.values():
            for _, _, value in entries:
                yield value

    def add(self, others: _Members) -> None:
        for value in others:
            self._insert(value)

    def _insert(self, value: SSAValue) -> None:
        block, position = self.lives.at[value]
        insort(self.in_block.setdefault(block, []), (position, self.count, value))
        self.count += 1
        self.bits |= self.lives.bit.get(value, 0)

    def overlap(self, value: SSAValue) -> bool:
        """Whether one of them cannot share a register with the value."""
        lives = self.lives
        block, position = lives.at[value]
        live = lives.entering[block] & self.bits
        while live:  # those that are live where its block starts: where they are one register's, at most one
            lowest = live & -live
            if lives.live_after(lives.value_of(lowest), value):
                return True
            live ^= lowest
        entries = self.in_block.get(block, ())
        after = bisect_left(entries, (position,))
        for _, _, other in entries[max(after - 1, 0) : after + 1]:
            if lives.at[other] == (block, position) or lives.live_after(other, value) or lives.live_after(value, other):
                return True
        # elsewhere it is live from the start of a block on, to the first of them at least
        return any(
            lives.live_after(value, self.in_block[b][0][2]) for b in lives.blocks_of(value) if b in self.in_block
        )


class _Lives:
    """Where each value is live. Sets of values that are live where a block starts are ints, a bit for each."""

    def __init__(self, function: FunctionOp):
        blocks = function.blocks
        self.at: dict[SSAValue, tuple[Block, int]] = {}
        self.last_use: dict[Block, dict[SSAValue, int]] = {}
        self.predecessors: dict[Block, list[Block]] = {block: [] for block in blocks}
        exposed: dict[Block, list[SSAValue]] = {}
        for block in blocks:
            last: dict[SSAValue, int] = {}
            read_first: dict[SSAValue, None] = {}
            here: set[SSAValue] = set(block.args)
            for argument in block.args:
                self.at[argument] = (block, -1)
            for position, op in enumerate(block.ops):
                for value in op.operands:
                    last[value] = position
                    if value not in here:
                        read_first[value] = None
                for value in op.results:
                    self.at[value] = (block, position)
                    here.add(value)
            self.last_use[block], exposed[block] = last, list(read_first)
            for successor in block.last_op.successors if block.last_op is not None else ():
                self.predecessors[successor].append(block)
        self.crossing = list(dict.fromkeys(value for values in exposed.values() for value in values))
        self.bit = {value: 1 << i for i, value in enumerate(self.crossing)}
        defined = dict.fromkeys(blocks, 0)
        for value, bit in self.bit.items():
            defined[self.at[value][0]] |= bit
        self.entering = {block: sum(self.bit[value] for value in values) for block, values in exposed.items()}
        self.leaving = dict.fromkeys(blocks, 0)
        changed = True
        while changed:
            changed = False
            for block in reversed(blocks):
                out = 0
                for successor in block.last_op.successors if block.last_op is not None else ():
                    out |= self.entering[successor]
                inside = self.entering[block] | (out & ~defined[block])
                if out != self.leaving[block] or inside != self.entering[block]:
                    self.leaving[block], self.entering[block] = out, inside
                    changed = True
        self._blocks: dict[SSAValue, list[Block]] = {}

    def value_of(self, bit: int) -> SSAValue:
        return self.crossing[bit.bit_length() - 1]

    def blocks_of(self, value: SSAValue) -> list[Block]:
        """The blocks at whose start a value is live."""
        bit = self.bit.get(value)
        if bit is None:
            return []
        found = self._blocks.get(value)
        if found is None:
            home = self.at[value][0]
            seen = dict.fromkeys(use.operation.parent_block() for use in value.uses)
            work = [block for block in seen if block is not None and block is not home]
            reached = dict.fromkeys(work)
            while work:
                for before in self.predecessors[work.pop()]:
                    if before is not home and before not in reached:
                        reached[before] = None
                        work.append(before)
            found = self._blocks[value] = list(reached)
        return found

    def live_after(self, a: SSAValue, b: SSAValue) -> bool:
        """Whether `a` is live right after `b` is written."""
        block, position = self.at[b]
        home, defined = self.at[a]
        bit = self.bit.get(a, 0)
        if home is block:
            if defined > position:
                # written later, so live here only around a loop
                return bool(self.entering[block] & bit)
        elif not self.entering[block] & bit:
            return False
        return bool(self.leaving[block] & bit) or self.last_use[block].get(a, -1) > position
