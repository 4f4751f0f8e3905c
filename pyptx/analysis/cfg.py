"""The control-flow graph of a function over block numbers."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block

from ..dialects.ptx.structure import FunctionOp
from ..ssa.graph import Dominators, dominators


@dataclass(slots=True)
class CFG:
    """Blocks in layout order, with the numbers of their successors."""

    blocks: list[Block]
    index: dict[Block, int]
    successors: list[list[int]]

    def dominators(self) -> Dominators:
        return dominators(self.successors)


def cfg_of(function: FunctionOp) -> CFG:
    """The CFG of a function that has a body."""
    blocks = list(function.regions[0].blocks)
    index = {block: i for i, block in enumerate(blocks)}
    successors = [[index[s] for s in block.last_op.successors] if block.last_op is not None else [] for block in blocks]
    return CFG(blocks, index, successors)
