"""Code that no path from the entry reaches."""

from __future__ import annotations

from ..dialects.ptx.instruction import Instruction
from ..ssa.graph import Dominators
from .cfg import CFG
from .finding import Finding
from .operands import line_of


def unreachable_blocks(cfg: CFG, tree: Dominators) -> list[int]:
    """Numbers of the blocks that are never entered and hold instructions."""
    return [
        b
        for b, block in enumerate(cfg.blocks)
        if not tree.reachable(b) and any(isinstance(op, Instruction) for op in block.ops)
    ]


def unreachable_code(cfg: CFG, tree: Dominators) -> list[Finding]:
    """One note per run of unreachable blocks; a lone `ret` or branch, which compilers leave after, is not
    worth one."""
    found: list[Finding] = []
    previous = -2
    for b in unreachable_blocks(cfg, tree):
        instructions = [op for op in cfg.blocks[b].ops if isinstance(op, Instruction)]
        adjacent, previous = previous == b - 1, b
        if adjacent or (len(instructions) == 1 and instructions[0].terminator):
            continue
        text = "this code is never reached"
        found.append(Finding("unreachable", "note", text, line_of(instructions[0])))
    return found
