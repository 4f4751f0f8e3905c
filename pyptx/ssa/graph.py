"""Control-flow graphs over block numbers: order, dominators (Cooper, Harvey, Kennedy 2001), dominance frontiers (Cytron
et al. 1991).
"""

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


def dominators(successors: Successors) -> Dominators:  # noqa: C901  one algorithm over shared arrays
    count = len(successors)
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for block, nexts in enumerate(successors):
        for successor in nexts:
            predecessors[successor].append(block)
    order = reverse_postorder(successors)
    number = [-1] * count
    for i, block in enumerate(order):
        number[block] = i
    immediate = [-1] * count
    immediate[0] = 0
    changed = count > 1
    while changed:
        changed = False
        for block in order[1:]:
            new = -1
            for predecessor in predecessors[block]:
                if immediate[predecessor] < 0:
                    continue
                if new < 0:
                    new = predecessor
                    continue
                a, b = predecessor, new
                while a != b:
                    while number[a] > number[b]:
                        a = immediate[a]
                    while number[b] > number[a]:
                        b = immediate[b]
                new = a
            if immediate[block] != new:
                immediate[block] = new
                changed = True
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


def dominance_frontiers(tree: Dominators) -> list[dict[int, None]]:
    """Frontier of each block, as ordered sets (determinism)."""
    frontiers: list[dict[int, None]] = [{} for _ in tree.immediate]
    for block in tree.order:
        incoming = [p for p in tree.predecessors[block] if tree.enter[p] >= 0]
        if len(incoming) < 2 and not (block == 0 and incoming):
            continue
        for runner in incoming:
            while runner != tree.immediate[block] or block == 0:
                frontiers[runner][block] = None
                if runner == tree.immediate[runner]:
                    break
                runner = tree.immediate[runner]
    return frontiers
