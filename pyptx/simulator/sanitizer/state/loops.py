"""The loops of a program, for findings that name one."""

from __future__ import annotations

from ....ssa.graph import Dominators, dominators
from ...machine.program import Inst, Program


def loop_of(program: Program, inst: Inst) -> Inst | None:
    """The first instruction with a place of the innermost loop around an instruction; None if it is in none."""
    at = next((n for n, segment in enumerate(program.segments) if inst in segment.instructions), None)
    if at is None:
        return None
    entry = next(f.entry for f in program.functions if f.number == program.segments[at].function)
    # the graph is entered at block 0
    order = [entry, *(n for n in range(len(program.segments)) if n != entry)]
    number = {segment: block for block, segment in enumerate(order)}
    graph = [[number[t] for t in (*program.segments[n].targets, program.segments[n].after) if t >= 0] for n in order]
    tree = dominators(graph)
    block = number[at]
    header: int | None = _innermost(tree, block) if tree.reachable(block) else None
    while header is not None:
        for found in program.segments[order[header]].instructions:
            if found.line is not None:
                return found
        header = graph[header][0] if graph[header] else None  # what only moves registers has no place
    return None


def _innermost(tree: Dominators, block: int) -> int | None:
    """The header of the innermost natural loop with a block."""
    header = block
    while True:
        latches = [p for p in tree.predecessors[header] if tree.reachable(p) and tree.dominates(header, p)]
        if latches and block in _body(tree, header, latches):
            return header
        if header == tree.immediate[header]:
            return None
        header = tree.immediate[header]


def _body(tree: Dominators, header: int, latches: list[int]) -> set[int]:
    body, work = {header}, list(latches)
    while work:
        block = work.pop()
        if block not in body:
            body.add(block)
            work += [p for p in tree.predecessors[block] if tree.reachable(p)]
    return body
