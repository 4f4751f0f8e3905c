"""Dominators and their frontiers by definition: a block dominates what cannot be reached without it."""

from __future__ import annotations

import random

import pyptx
from pyptx.dialects.ptx.instruction import Instruction
from pyptx.dialects.ptx.structure import LabelOp, ModuleOp
from pyptx.ssa.graph import dominance_frontiers, dominators, reverse_postorder


def reached(successors: list[list[int]], without: int = -1) -> set[int]:
    """What can be reached from block 0 if one block is taken out."""
    found: set[int] = set()
    left = [0] if without != 0 else []
    while left:
        block = left.pop()
        if block not in found and block != without:
            found.add(block)
            left += successors[block]
    return found


def random_graphs() -> list[list[list[int]]]:
    rng = random.Random(4)
    graphs: list[list[list[int]]] = []
    for _ in range(300):
        count = rng.randrange(1, 9)
        graphs.append([[rng.randrange(count) for _ in range(rng.randrange(3))] for _ in range(count)])
    return graphs


def test_dominance_by_definition() -> None:
    for successors in random_graphs():
        tree = dominators(successors)
        inside = reached(successors)
        assert [b for b in range(len(successors)) if tree.reachable(b)] == sorted(inside)
        dominates = {a: inside - reached(successors, a) for a in inside}
        for a in inside:
            assert {b for b in inside if tree.dominates(a, b)} == dominates[a], successors
            strict = {b for b in inside if b != a and a in dominates[b]}
            # the closest of those that dominate it strictly: it is dominated by all of them
            closest = [b for b in strict if all(b in dominates[c] for c in strict)]
            assert [tree.immediate[a]] == (closest or [0]), successors
        assert sorted(tree.preorder) == sorted(inside)
        assert all(tree.preorder.index(tree.immediate[b]) <= tree.preorder.index(b) for b in inside)


def test_frontiers_by_definition() -> None:
    """Where dominance ends: blocks of which a predecessor is dominated, and which are not strictly dominated themselves."""
    for successors in random_graphs():
        inside = reached(successors)
        dominates = {a: inside - reached(successors, a) for a in inside}
        frontiers = dominance_frontiers(dominators(successors))
        for a in inside:
            wanted = {
                s for b in dominates[a] for s in successors[b] if s in inside and (s == a or s not in dominates[a])
            }
            assert set(frontiers[a]) == wanted, (successors, a)


def test_reverse_postorder() -> None:
    """Every block follows one of its predecessors; without cycles all of them."""
    for successors in random_graphs():
        order = reverse_postorder(successors)
        assert sorted(order) == sorted(reached(successors))
        place = {block: i for i, block in enumerate(order)}
        before = [[p for p in order if b in successors[p]] for b in range(len(successors))]
        assert all(min(place[p] for p in before[b]) < place[b] for b in order[1:])
        if all(place[s] > place[b] for b in order for s in successors[b]):
            assert all(place[p] < place[b] for b in order for p in before[b])


REGISTERS = ".reg .pred %p<3>;\n.reg .b32 %r<4>;\n"


def blocks_of(body: str) -> list[list[str]]:
    text = f".version 8.0\n.target sm_80\n.entry k()\n{{\n{body}\nret;\n}}\n"
    module = pyptx.parse(text, verify=True).body.block.first_op
    assert isinstance(module, ModuleOp)
    (function,) = module.functions
    return [
        [
            op.opcode if isinstance(op, Instruction) else "label"
            for op in b.ops
            if isinstance(op, (Instruction, LabelOp))
        ]
        for b in function.blocks
    ]


def test_the_entry_is_no_target_of_a_branch() -> None:
    """MLIR: an entry block has no predecessors, however short what precedes the loop is."""
    loop = "add.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 9;\n@%p1 bra L;"
    for before in ([], ["mov.b32 %r1, 0;"], ["mov.b32 %r1, 0;", "mov.b32 %r2, 0;"]):
        entry, *others = blocks_of(REGISTERS + "\n".join([*before, "L:", loop]))
        assert entry == ["mov"] * len(before)
        assert [op for block in others for op in block][:3] == ["label", "add", "setp"]


def test_nor_is_an_entry_of_one_statement() -> None:
    for before in ("", "bar.sync 0;", ".reg .b32 %r;"):
        entry, loop, *_ = blocks_of(f"{before}\nL:\nbar.sync 1;\nbra L;")
        assert entry == ["bar"] * before.startswith("bar")
        assert loop == ["label", "bar", "bra"]
