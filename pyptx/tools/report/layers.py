"""A layered drawing of a control-flow graph: ranks from top to bottom, few crossings, long edges bent around
boxes.

The usual four steps (Sugiyama, Tagawa, Toda 1981), each in its simplest form: reverse the back edges, rank by longest
path, order each rank by the mean position of its neighbours, place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...ssa.graph import dominators

GAP_X, GAP_Y = 26.0, 44.0
LANE = 10.0


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is drawn: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """An edge as the points of a line, from the lower side of one box to the upper side of another. `back`:
    it closes a loop."""

    source: int
    target: int
    points: tuple[tuple[float, float], ...]
    back: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    boxes: dict[int, Box]
    routes: list[Route]
    width: float
    height: float


def draw(successors: Sequence[Sequence[int]], sizes: Sequence[tuple[float, float]]) -> Drawing:
    """Lay out a graph entered at node 0, given the (width, height) of each node. Unreachable nodes come last,
    below the others."""
    count = len(successors)
    tree = dominators(successors)
    order = tree.order + [b for b in range(count) if not tree.reachable(b)]
    position = {b: i for i, b in enumerate(order)}
    forward: list[list[int]] = [[] for _ in range(count)]
    back: list[tuple[int, int]] = []
    for b in order:
        for s in dict.fromkeys(successors[b]):
            if position[s] <= position[b]:
                back.append((b, s))
            else:
                forward[b].append(s)
    rank = [0] * count
    for b in order:
        for s in forward[b]:
            rank[s] = max(rank[s], rank[b] + 1)
    if len(tree.order) < count:
        bottom = max((rank[b] for b in tree.order), default=0) + 1
        for b in order[len(tree.order) :]:
            rank[b] += bottom
    # A long edge runs through one bend (a node without size) in every rank between its ends.
    ranks: list[list[int]] = [[] for _ in range(max(rank) + 1)]
    up: dict[int, list[int]] = {b: [] for b in range(count)}
    down: dict[int, list[int]] = {b: [] for b in range(count)}
    for b in order:
        ranks[rank[b]].append(b)
    chains: dict[tuple[int, int], list[int]] = {}
    nodes = count
    for b in order:
        for s in forward[b]:
            chain = [b]
            for r in range(rank[b] + 1, rank[s]):
                ranks[r].append(nodes)
                up[nodes], down[nodes] = [], []
                chain.append(nodes)
                nodes += 1
            chain.append(s)
            chains[b, s] = chain
            for a, c in pairwise(chain):
                down[a].append(c)
                up[c].append(a)
    _untangle(ranks, up, down)
    return _place(ranks, up, down, chains, back, sizes, count)


def _untangle(ranks: list[list[int]], up: dict[int, list[int]], down: dict[int, list[int]]) -> None:
    """Order each rank by the mean position of the neighbours above, then below, a few times."""
    for sweep in range(6):
        downward = sweep % 2 == 0
        sequence = ranks[1:] if downward else ranks[-2::-1]
        neighbours = up if downward else down
        where = {node: float(i) for row in ranks for i, node in enumerate(row)}
        for row in sequence:
            old = {node: i for i, node in enumerate(row)}

            means = {
                node: sum(where[n] for n in neighbours[node]) / len(neighbours[node]) if neighbours[node] else old[node]
                for node in row
            }
            row.sort(key=means.__getitem__)
            where.update({node: float(i) for i, node in enumerate(row)})


def _place(
    ranks: list[list[int]],
    up: dict[int, list[int]],
    down: dict[int, list[int]],
    chains: dict[tuple[int, int], list[int]],
    back: list[tuple[int, int]],
    sizes: Sequence[tuple[float, float]],
    count: int,
) -> Drawing:
    def width(node: int) -> float:
        return sizes[node][0] if node < count else LANE

    centre: dict[int, float] = {}
    for row in ranks:
        x = 0.0
        for node in row:
            centre[node] = x + width(node) / 2
            x += width(node) + GAP_X
    for sweep in range(8):  # pull each node over its neighbours as far as the ones next to it let it
        rows = ranks if sweep % 2 == 0 else ranks[::-1]
        for row in rows:
            near = {n: (up if sweep % 2 == 0 else down)[n] or (down if sweep % 2 == 0 else up)[n] for n in row}
            wish = {n: sum(centre[m] for m in near[n]) / len(near[n]) if near[n] else centre[n] for n in row}
            _settle(row, wish, centre, width)
    left = min(centre[n] - width(n) / 2 for row in ranks for n in row)
    boxes: dict[int, Box] = {}
    y = 0.0
    middle: dict[int, tuple[float, float]] = {}
    for row in ranks:
        height = max((sizes[n][1] for n in row if n < count), default=0.0)
        for n in row:
            if n < count:
                boxes[n] = Box(centre[n] - width(n) / 2 - left, y, *sizes[n])
            else:
                middle[n] = (centre[n] - left, y + height / 2)
        y += height + GAP_Y
    routes: list[Route] = []
    for (b, s), chain in chains.items():
        routes.append(Route(b, s, _points(boxes[b], boxes[s], [middle[n] for n in chain[1:-1]]), False))
    right = max(box.x + box.width for box in boxes.values())
    right = max([right, *(x for x, _ in middle.values())])
    for i, (b, s) in enumerate(sorted(back, key=lambda e: abs(boxes[e[0]].y - boxes[e[1]].y))):
        routes.append(_loop_back(boxes[b], boxes[s], right + 16 + i * LANE, b, s))
    far = right + 16 + len(back) * LANE
    return Drawing(boxes, routes, far + 8, y - GAP_Y + (18 if back else 0))


def _settle(row: list[int], wish: dict[int, float], centre: dict[int, float], width: Callable[[int], float]) -> None:
    """Move the nodes of a rank towards their wishes without overlap or change of order: blocks of nodes that
    touch move as one."""
    groups: list[tuple[list[int], float, float]] = []  # nodes, left edge wished for, width of the group
    for node in row:
        size = width(node) + GAP_X
        groups.append(([node], wish[node] - size / 2, size))
        while len(groups) > 1 and groups[-2][1] + groups[-2][2] > groups[-1][1]:
            nodes, start, size = groups.pop()
            before, start_before, size_before = groups.pop()
            # both parts get what they want on average
            wanted = (start_before * len(before) + (start - size_before) * len(nodes)) / (len(before) + len(nodes))
            groups.append((before + nodes, wanted, size_before + size))
    for nodes, start, _ in groups:
        x = start
        for node in nodes:
            size = width(node) + GAP_X
            centre[node] = x + size / 2
            x += size


def _points(a: Box, b: Box, bends: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return ((a.x + a.width / 2, a.y + a.height), *bends, (b.x + b.width / 2, b.y))


def _loop_back(a: Box, b: Box, lane: float, source: int, target: int) -> Route:
    start = (a.x + a.width * 0.75, a.y + a.height)
    end = (b.x + b.width * 0.75, b.y)
    below, above = a.y + a.height + 12, b.y - 12
    return Route(source, target, (start, (start[0], below), (lane, below), (lane, above), (end[0], above), end), True)
