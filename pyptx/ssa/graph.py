"""Control-flow graphs over block numbers: order, dominators, dominance frontiers (Cytron et al. 1991)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Successors = Sequence[Sequence[int]]


@dataclass(slots=True)
class Dominators:
    """Dominator tree of a graph entered at block 0. Unreachable blocks have `enter == -1`."""

    order: list[int]
    """Reachable blocks in reverse postorder."""
    immediate: list[int]
    enter: list[int]
    leave: list[int]
    preorder: list[int]
    """Reachable blocks in preorder of the dominator tree."""
    predecessors: list[list[int]]

    def dominates(self, a: int, b: int) -> bool:
        """Whether reachable block `a` dominates reachable block `b` (a block dominates itself)."""
        return self.enter[a] <= self.enter[b] < self.leave[a]

    def reachable(self, block: int) -> bool:
        return self.enter[block] >= 0


def reverse_postorder(successors: Successors) -> list[int]:
    """Reachable blocks from block 0, without recursion."""
    seen = [False] * len(successors)
    order: list[int] = []
    seen[0] = True
    stack = [(0, 0)]
    while stack:
        block, i = stack.pop()
        nexts = successors[block]
        while i < len(nexts) and seen[nexts[i]]:
            i += 1
        if i < len(nexts):
            stack.append((block, i + 1))
            seen[nexts[i]] = True
            stack.append((nexts[i], 0))
        else:
            order.append(block)
    order.reverse()
    return order


def dominators(successors: Successors) -> Dominators:
    count = len(successors)
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for block, nexts in enumerate(successors):
        for successor in nexts:
            predecessors[successor].append(block)
    order = reverse_postorder(successors)
    immediate = _immediate_dominators(successors, predecessors)
    children: list[list[int]] = [[] for _ in range(count)]
    for block in order[1:]:
        children[immediate[block]].append(block)
    enter, leave = [-1] * count, [-1] * count
    preorder: list[int] = []
    clock = 0
    stack = [0]
    while stack:
        block = stack.pop()
        if block < 0:
            leave[~block] = clock
            continue
        enter[block] = clock
        clock += 1
        preorder.append(block)
        stack.append(~block)
        stack.extend(reversed(children[block]))
    return Dominators(order, immediate, enter, leave, preorder, predecessors)


def _immediate_dominators(successors: Successors, predecessors: Sequence[Sequence[int]]) -> list[int]:
    """The immediate dominator of each block that is reachable, of the first itself; else -1. In n log n steps, also where many
    paths of different lengths meet (Lengauer and Tarjan 1979, with path compression).
    """
    count = len(successors)
    parent, number, vertices = [-1] * count, [-1] * count, list[int]()
    stack = [(0, -1)]
    while stack:
        block, above = stack.pop()
        if number[block] < 0:
            number[block], parent[block] = len(vertices), above
            vertices.append(block)
            stack += [(s, block) for s in successors[block] if number[s] < 0]
    semi = number.copy()
    best = list(range(count))
    ancestor, immediate = [-1] * count, [-1] * count
    waiting: list[list[int]] = [[] for _ in range(count)]

    def lowest(block: int) -> int:
        """The block with the smallest semidominator on the way up from this one, as far as the forest is linked."""
        path: list[int] = []
        at = block
        while ancestor[at] >= 0 and ancestor[ancestor[at]] >= 0:
            path.append(at)
            at = ancestor[at]
        for at in reversed(path):
            above = ancestor[at]
            if semi[best[above]] < semi[best[at]]:
                best[at] = best[above]
            ancestor[at] = ancestor[above]
        return best[block]

    for block in reversed(vertices[1:]):
        for before in predecessors[block]:
            if number[before] >= 0:
                semi[block] = min(semi[block], semi[lowest(before)])
        waiting[vertices[semi[block]]].append(block)
        above = ancestor[block] = parent[block]
        for other in waiting[above]:
            found = lowest(other)
            immediate[other] = found if semi[found] < semi[other] else above
        waiting[above].clear()
    immediate[0] = 0
    for block in vertices[1:]:
        if immediate[block] != vertices[semi[block]]:
            immediate[block] = immediate[immediate[block]]
    return immediate


def dominance_frontiers(tree: Dominators) -> list[dict[int, None]]:
    """Frontier of each block, as ordered sets (determinism)."""
    frontiers: list[dict[int, None]] = [{} for _ in tree.immediate]
    for block in tree.order:
        incoming = [p for p in tree.predecessors[block] if tree.enter[p] >= 0]
        if len(incoming) < 2 and not (block == 0 and incoming):
            continue
        for runner in incoming:
            while runner != tree.immediate[block] or block == 0:
                if block in frontiers[runner]:
                    break  # so it is in those above
                frontiers[runner][block] = None
                if runner == tree.immediate[runner]:
                    break
                runner = tree.immediate[runner]
    return frontiers
