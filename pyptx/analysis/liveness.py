"""Which SSA values are live where: still read on some path from there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from .cfg import CFG


@dataclass(slots=True)
class Liveness:
    """Values live at the edges of each block, as bitsets over the values that cross a block boundary.

    A block argument is defined by its block: it is not live into it. What a branch passes is read by the
    branch.
    """

    cfg: CFG
    crossing: list[SSAValue]
    into: list[int]
    out_of: list[int]

    def values(self, bits: int) -> Iterator[SSAValue]:
        """The values of a bitset, in order of definition."""
        while bits:
            low = bits & -bits
            yield self.crossing[low.bit_length() - 1]
            bits ^= low

    def live_out(self, block: int) -> list[SSAValue]:
        return list(self.values(self.out_of[block]))

    def backwards(self, block: int) -> Iterator[tuple[Operation, set[SSAValue]]]:
        """The ops of a block from last to first, each with the values live right after it. The set is reused:
        copy it to keep it."""
        live = set(self.values(self.out_of[block]))
        op = self.cfg.blocks[block].last_op
        while op is not None:
            yield op, live
            live.difference_update(op.results)
            live.update(op.operands)
            op = op.prev_op


def liveness(cfg: CFG) -> Liveness:
    """Liveness by backward data flow to a fixed point."""
    crossing: list[SSAValue] = []
    bit: dict[SSAValue, int] = {}
    used: list[int] = []
    home: list[dict[SSAValue, None]] = []
    for block in cfg.blocks:
        own: dict[SSAValue, None] = dict.fromkeys(block.args)
        exposed = 0
        for op in block.ops:
            for value in op.operands:
                if value not in own:
                    index = bit.get(value)
                    if index is None:
                        index = bit[value] = len(crossing)
                        crossing.append(value)
                    exposed |= 1 << index
            own.update(dict.fromkeys(op.results))
        used.append(exposed)
        home.append(own)
    defined = [sum(1 << bit[v] for v in own if v in bit) for own in home]
    count = len(cfg.blocks)
    into = list(used)
    out_of = [0] * count
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for b, successors in enumerate(cfg.successors):
        for s in successors:
            predecessors[s].append(b)
    work = list(range(count))
    waiting = [True] * count
    while work:
        b = work.pop()
        waiting[b] = False
        out = 0
        for s in cfg.successors[b]:
            out |= into[s]
        out_of[b] = out
        new = used[b] | (out & ~defined[b])
        if new != into[b]:
            into[b] = new
            for p in predecessors[b]:
                if not waiting[p]:
                    waiting[p] = True
                    work.append(p)
    return Liveness(cfg, crossing, into, out_of)
