"""Which threads run a block or an instruction, where the branches and guards that decide it are known per
thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..dialects.ptx.control import Exit, Return
from ..dialects.ptx.instruction import Instruction
from .cfg import CFG
from .operands import guard_value
from .threads import Threads

Mask = NDArray[np.bool_]


class ActiveThreads:
    """Threads that may run a block: those for which every dominating branch on a known predicate went that
    way."""

    def __init__(self, cfg: CFG, threads: Threads):
        self.threads = threads
        tree = cfg.dominators()
        self.masks: list[Mask] = [np.ones(threads.count, bool) for _ in cfg.blocks]
        for b in tree.preorder:
            if b == 0:
                continue
            parent = tree.immediate[b]
            mask = self.masks[parent]
            last = cfg.blocks[parent].last_op
            successors = cfg.successors[parent]
            if len(successors) == 2 and tree.predecessors[b] == [parent] and isinstance(last, Instruction):
                taken = self._guard(last)
                if taken is not None and last.jumps:
                    mask = mask & (taken if successors[0] == b else ~taken)
            elif isinstance(last, (Return, Exit)) and tree.predecessors[b] == [parent]:
                taken = self._guard(last)
                mask = mask if taken is None else mask & ~taken
            self.masks[b] = mask

    def of(self, op: Instruction, block: int) -> Mask:
        """The threads that run an op of a block."""
        own = self._guard(op)
        return self.masks[block] if own is None else self.masks[block] & own

    def _guard(self, op: Instruction) -> Mask | None:
        guard = guard_value(op)
        lanes = self.threads.lanes(guard) if guard is not None else None
        if lanes is None or not lanes.known:
            return None
        return (self.threads.per_thread(lanes) != 0) != (op.guard == "@!")
