"""Barriers and other whole-warp instructions that threads of one warp may reach without each other.

`bar.sync`, `barrier.sync.aligned`, `mma.sync.aligned`, `ldmatrix.sync.aligned`, ... must be run by all
threads of a warp together. One is
divergent when a branch whose condition differs inside a warp decides whether a thread runs it (PTX ISA
9.7.15.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dialects.ptx.instruction import Instruction
from ..ssa.graph import dominators
from .cfg import CFG
from .finding import Finding
from .mix import spelled
from .operands import guard_value, line_of, register_name
from .threads import VARYING, Threads, branch_level


@dataclass(slots=True)
class PostDominators:
    """For each block its immediate post-dominator; None where that is the end of the function (or there is no
    way to it)."""

    immediate: list[int | None]


def post_dominators(successors: Sequence[Sequence[int]]) -> PostDominators:
    """Immediate post-dominators, from the reversed graph with one virtual end."""
    count = len(successors)
    reversed_: list[list[int]] = [[] for _ in range(count + 1)]
    for b, nexts in enumerate(successors):
        for s in nexts:
            reversed_[s + 1].append(b + 1)
        if not nexts:
            reversed_[0].append(b + 1)
    tree = dominators(reversed_)
    immediate: list[int | None] = []
    for b in range(count):
        parent = tree.immediate[b + 1] if tree.reachable(b + 1) else 0
        immediate.append(parent - 1 if parent > 0 else None)
    return PostDominators(immediate)


def is_aligned(op: Instruction) -> bool:
    """Whether all threads of a warp must run an instruction together. `bar.warp.sync` has a mask that says who must."""
    return op.aligned or "aligned" in op.modifiers


def divergent_barriers(cfg: CFG, threads: Threads) -> list[Finding]:
    """Findings about whole-warp instructions in divergent code: a warning, or a note where the other threads
    have left the kernel."""
    aligned = {
        b: [op for op in block.ops if isinstance(op, Instruction) and is_aligned(op)]
        for b, block in enumerate(cfg.blocks)
    }
    if not any(aligned.values()):
        return []
    found: list[Finding] = []
    reported: set[Instruction] = set()
    leaving = _leaves(cfg, {b for b, ops in aligned.items() if ops})
    ends = post_dominators(cfg.successors).immediate
    stays = [[s for s in nexts if s not in leaving] or list(nexts) for nexts in cfg.successors]
    ends_without_leaving = post_dominators(stays).immediate
    early: tuple[Instruction, int] | None = None
    for b, block in enumerate(cfg.blocks):
        for op in aligned[b]:
            guard = guard_value(op)
            if guard is not None and threads.level(guard) == VARYING and op not in reported:
                reported.add(op)
                which = f"its guard {register_name(guard)} differs inside a warp"
                text = f"{spelled(op)} must be run by whole warps, and {which}"
                found.append(Finding("divergence", "warning", text, line_of(op)))
        last = block.last_op
        if not isinstance(last, Instruction) or len(set(cfg.successors[b])) < 2:
            continue
        if branch_level(last, threads) < VARYING:
            continue
        exits = len(stays[b]) < 2
        region = _between(cfg.successors if not exits else stays, b, ends[b] if not exits else ends_without_leaving[b])
        if exits:
            early = early or (last, b)
            continue
        for inside in sorted(region):
            for op in aligned[inside]:
                if op not in reported:
                    reported.add(op)
                    found.append(_finding(op, last))
    if early is not None:
        branch, at = early
        after = _between(cfg.successors, at, None)
        first = next((op for b in sorted(after) for op in aligned[b] if op not in reported), None)
        if first is not None:
            text = f"threads that leave at line {line_of(branch)} do not take part in {spelled(first)} here"
            found.append(Finding("divergence", "note", text, line_of(first)))
    return found


def _finding(op: Instruction, branch: Instruction) -> Finding:
    guard = guard_value(branch)
    what = register_name(guard) if guard is not None else "the index"
    line = line_of(branch)
    where = f" at line {line}" if line is not None else ""
    parts = f"the branch{where} parts them ({what} differs inside a warp)"
    text = f"{spelled(op)} must be run by whole warps, and {parts}"
    return Finding("divergence", "warning", text, line_of(op))


def _leaves(cfg: CFG, busy: set[int]) -> set[int]:
    """Blocks from which every path ends the thread without meeting a whole-warp instruction."""
    predecessors: list[list[int]] = [[] for _ in cfg.blocks]
    staying = [len(set(nexts)) for nexts in cfg.successors]
    """How many successors of a block are not known to leave."""
    for b, nexts in enumerate(cfg.successors):
        for successor in set(nexts):
            predecessors[successor].append(b)
    work = [b for b, count in enumerate(staying) if not count and b not in busy]
    leaving = set(work)
    while work:
        for b in predecessors[work.pop()]:
            staying[b] -= 1
            if not staying[b] and b not in busy:
                leaving.add(b)
                work.append(b)
    return leaving


def _between(successors: Sequence[Sequence[int]], branch: int, end: int | None) -> set[int]:
    """Blocks on paths from a branch to where its paths meet again."""
    seen: set[int] = set()
    work = list(successors[branch])
    while work:
        block = work.pop()
        if block != end and block not in seen:
            seen.add(block)
            work += successors[block]
    return seen
