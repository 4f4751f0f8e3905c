"""Registers for blank values: share one with the values they flow into where their lives do not overlap.

Lives are those of SSA: two values overlap where one is live right after the other is written (Budimlic et al.
2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Block, Operation, SSAValue

from ..dialects.ptx.structure import FunctionOp
from ..dialects.ptx.types import RegType
from ..ssa.fastir import set_type
from .fresh import FreshRegisters
from .operands import passed_of, places_of

_MOST_PAIRS = 20_000
"""Overlap tests for one merge; beyond it the values keep registers of their own, and a move."""


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
        self.members: dict[SSAValue, list[SSAValue]] = {}
        self.register: dict[SSAValue, RegType] = {}
        self.by_type: dict[RegType, list[SSAValue]] = {}
        for value in values:
            if _name(value):
                self.by_type.setdefault(cast(RegType, value.type), []).append(value)
        self.lives = _Lives(function, values)
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
                self.members[value] = list(self.by_type[type_])
                self.register[value] = type_
        root = self.find(value)
        self.members.setdefault(root, [root])
        return root

    def join(self, a: SSAValue, b: SSAValue) -> None:
        if a not in self.blank and b not in self.blank:
            return
        if cast(RegType, a.type).register_class != cast(RegType, b.type).register_class:
            return
        first, second = self._root(a), self._root(b)
        if first is second or (first in self.register and second in self.register):
            return
        left, right = self.members[first], self.members[second]
        if len(left) * len(right) > _MOST_PAIRS:
            return
        if any(self.lives.overlap(x, y) for x in left for y in right):
            return
        if second in self.register:
            first, second, left, right = second, first, right, left
        self.parent[second] = first
        self.members[first] = left + right
        del self.members[second]

    def take(self, value: SSAValue, type_: RegType) -> None:
        """Let a blank value's set have a register of its own right."""
        if value not in self.blank:
            return
        root = self._root(value)
        if root in self.register or cast(RegType, value.type).register_class != type_.register_class:
            return
        if type_ in self.by_type:
            self.join(value, self.by_type[type_][0])
        elif type_ not in self.register.values():
            self.register[root] = type_


class _Lives:
    """Where each value is live, over ints as bit sets."""

    def __init__(self, function: FunctionOp, values: Sequence[SSAValue]):
        blocks = function.blocks
        self.bit = {value: 1 << i for i, value in enumerate(values)}
        self.at: dict[SSAValue, tuple[Block, int]] = {}
        self.last_use: dict[Block, dict[SSAValue, int]] = {}
        defined: dict[Block, int] = {}
        used: dict[Block, int] = {}
        self.end: dict[Operation, int] = {}
        for block in blocks:
            bits = exposed = 0
            last: dict[SSAValue, int] = {}
            for argument in block.args:
                self.at[argument] = (block, -1)
                bits |= self.bit[argument]
            for position, op in enumerate(block.ops):
                for value in op.operands:
                    last[value] = position
                    if not self.bit[value] & bits:
                        exposed |= self.bit[value]
                for value in op.results:
                    self.at[value] = (block, position)
                    bits |= self.bit[value]
            self.last_use[block] = last
            defined[block], used[block] = bits, exposed
        self.leaving = dict.fromkeys(blocks, 0)
        entering = dict(used)
        changed = True
        while changed:
            changed = False
            for block in reversed(blocks):
                out = 0
                for successor in block.last_op.successors if block.last_op is not None else ():
                    out |= entering[successor]
                inside = used[block] | (out & ~defined[block])
                if out != self.leaving[block] or inside != entering[block]:
                    self.leaving[block], entering[block] = out, inside
                    changed = True
        self.entering = entering

    def overlap(self, a: SSAValue, b: SSAValue) -> bool:
        """Whether the two cannot share a register."""
        if self.at[a] == self.at[b]:
            return True
        return self._live_after(a, b) or self._live_after(b, a)

    def _live_after(self, a: SSAValue, b: SSAValue) -> bool:
        """Whether `a` is live right after `b` is written."""
        block, position = self.at[b]
        home, defined = self.at[a]
        if home is block:
            if defined > position:
                # written later, so live here only around a loop
                return bool(self.entering[block] & self.bit[a])
        elif not self.entering[block] & self.bit[a]:
            return False
        return bool(self.leaving[block] & self.bit[a]) or self.last_use[block].get(a, -1) > position
