"""Natural loops and their nesting; irreducible control flow."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ssa.graph import Dominators
from .cfg import CFG


@dataclass(slots=True)
class Loop:
    """A natural loop: its header dominates its blocks, and its latches branch back to the header. Blocks are
    numbers in layout order."""

    header: int
    latches: tuple[int, ...]
    blocks: tuple[int, ...]
    depth: int = 1
    """1 for an outermost loop."""
    parent: int | None = None
    """Index of the innermost loop around this one."""
    exits: tuple[tuple[int, int], ...] = ()
    """Edges (from, to) that leave the loop."""


@dataclass(slots=True)
class LoopForest:
    """All natural loops of a function, outer before inner, in layout order of their headers."""

    loops: list[Loop]
    innermost: list[int | None]
    """For each block the index of its innermost loop, or None."""
    irreducible: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Edges that enter a cycle other than at its header: no natural loop describes these cycles."""

    def depth(self, block: int) -> int:
        """How many loops surround a block."""
        loop = self.innermost[block]
        return 0 if loop is None else self.loops[loop].depth

    def around(self, block: int) -> list[int]:
        """Indices of the loops around a block, innermost first."""
        found: list[int] = []
        at = self.innermost[block]
        while at is not None:
            found.append(at)
            at = self.loops[at].parent
        return found


def find_loops(cfg: CFG, tree: Dominators | None = None) -> LoopForest:
    """The loop forest of a CFG; unreachable blocks are in no loop. Back edges to one header make one loop."""
    tree = tree or cfg.dominators()
    position = {block: i for i, block in enumerate(tree.order)}
    latches: dict[int, list[int]] = {}
    irreducible: list[tuple[int, int]] = []
    for block in tree.order:
        for successor in cfg.successors[block]:
            if tree.dominates(successor, block):
                latches.setdefault(successor, []).append(block)
            elif position[successor] <= position[block]:
                irreducible.append((block, successor))
    found: list[Loop] = []
    for header, sources in latches.items():
        body = {header}
        work = [s for s in sources if s != header]
        while work:
            block = work.pop()
            if block not in body:
                body.add(block)
                work += [p for p in tree.predecessors[block] if tree.reachable(p)]
        exits = tuple((b, s) for b in sorted(body) for s in cfg.successors[b] if s not in body)
        found.append(Loop(header, tuple(sorted(set(sources))), tuple(sorted(body)), exits=exits))
    # An outer loop has more blocks than the ones inside it.
    found.sort(key=lambda loop: (-len(loop.blocks), loop.header))
    innermost: list[int | None] = [None] * len(cfg.blocks)
    for i, loop in enumerate(found):
        loop.parent = innermost[loop.header]
        loop.depth = 1 if loop.parent is None else found[loop.parent].depth + 1
        for block in loop.blocks:
            innermost[block] = i
    return _in_layout_order(LoopForest(found, innermost, irreducible))


def _in_layout_order(forest: LoopForest) -> LoopForest:
    """Renumber the loops by header (outer first where a block heads two, which cannot happen: they would be
    one)."""
    order = sorted(range(len(forest.loops)), key=lambda i: (forest.loops[i].header, forest.loops[i].depth))
    new = {old: i for i, old in enumerate(order)}
    loops = [forest.loops[i] for i in order]
    for loop in loops:
        loop.parent = None if loop.parent is None else new[loop.parent]
    return LoopForest(loops, [None if i is None else new[i] for i in forest.innermost], forest.irreducible)
