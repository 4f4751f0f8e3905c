"""Loops of hand-drawn graphs."""

from __future__ import annotations

from xdsl.ir import Block

from pyptx.analysis.cfg import CFG
from pyptx.analysis.divergence import post_dominators
from pyptx.analysis.loops import find_loops


def cfg(*successors: list[int]) -> CFG:
    blocks = [Block() for _ in successors]
    return CFG(blocks, {b: i for i, b in enumerate(blocks)}, [list(s) for s in successors])


def test_nested_loops() -> None:
    #   0 -> 1 -> 2 -> 3 -> 2 (inner), 3 -> 4 -> 1 (outer), 4 -> 5
    forest = find_loops(cfg([1], [2], [3], [2, 4], [1, 5], []))
    assert [(loop.header, loop.blocks, loop.depth, loop.parent) for loop in forest.loops] == [
        (1, (1, 2, 3, 4), 1, None),
        (2, (2, 3), 2, 0),
    ]
    assert [forest.depth(b) for b in range(6)] == [0, 1, 2, 2, 1, 0]
    assert forest.around(3) == [1, 0]
    assert forest.loops[1].exits == ((3, 4),)
    assert not forest.irreducible


def test_two_latches_make_one_loop() -> None:
    forest = find_loops(cfg([1], [2, 3], [1], [1, 4], []))
    assert [(loop.header, loop.latches, loop.blocks) for loop in forest.loops] == [(1, (2, 3), (1, 2, 3))]


def test_self_loop() -> None:
    (loop,) = find_loops(cfg([1], [1, 2], [])).loops
    assert (loop.header, loop.latches, loop.blocks) == (1, (1,), (1,))


def test_a_cycle_with_two_entries_is_irreducible() -> None:
    forest = find_loops(cfg([1, 2], [2], [1, 3], []))
    assert forest.loops == []
    assert len(forest.irreducible) == 1


def test_unreachable_blocks_are_in_no_loop() -> None:
    forest = find_loops(cfg([1], [], [2, 1]))
    assert forest.loops == []
    assert forest.innermost == [None, None, None]


def test_post_dominators() -> None:
    # a diamond, then a block that may return early
    assert post_dominators([[1, 2], [3], [3], [4, 5], [], []]).immediate == [3, 3, 3, None, None, None]
    assert post_dominators([[1], [1]]).immediate == [None, None]  # never ends
