"""Where the threads at the end of a segment go."""

from __future__ import annotations

import numpy as np

from ...diagnostics import counted
from ..machine.program import Segment
from .batch import Batch
from .calls import Calls
from .waiting import Waiting

NOT_COOPERATIVE = (
    "it reads %envreg1 and %envreg2, where a cooperative launch has its grid's barrier (cg::this_grid().sync()): "
    "launch it with cooperative=True"
)


class Ends:
    """Sends the threads of a batch from segment to segment."""

    def __init__(self, batch: Batch):
        self.batch, self.machine = batch, batch.machine
        self.waiting = Waiting(batch)
        self._calls = Calls(batch)
        self._polls = [any(inst.polls for inst in s.instructions) for s in batch.segments]
        self.changes = [
            any(inst.changes for inst in s.instructions) or s.ends in ("exit", "return") for s in batch.segments
        ]
        """Whether something other than registers may change in each segment."""

    def send(self, at: int, segment: Segment, mask: np.ndarray) -> None:
        """Send the lanes of a group to where their segment's end takes them."""
        machine, last = self.machine, segment.last
        if last is not None and machine.observers:
            for observer in machine.observers:
                observer.ended(last, mask)
        if segment.ends == "next":
            self.batch.add(segment.after, mask)
            return
        go = mask
        if last is not None and last.guard is not None:
            go = machine.guard_of(last, mask)
            stay = mask & ~go
            if np.count_nonzero(stay):
                self._stay(segment, stay)
                if not np.count_nonzero(go):
                    return
        match segment.ends:
            case "branch":
                self._branch(at, segment.targets[0], go)
            case "table":
                self._jump_table(segment, go)
            case "exit":
                self.exit(go)
            case "return":
                self._return(go)
            case "call":
                self._calls.call(segment, go)
            case "trap":
                assert last is not None
                hint = None if machine.launch.cooperative or not self.batch.program.syncs_grid else NOT_COOPERATIVE
                machine.fault(last, "the kernel trapped", int(np.flatnonzero(go)[0]), hint)
            case _:
                self.waiting.wait(at, segment, go)

    def _stay(self, segment: Segment, mask: np.ndarray) -> None:
        """The guard of the last instruction does not hold."""
        after = segment.after if segment.after >= 0 else next(iter(segment.targets[1:]), -1)
        if after >= 0:
            self.batch.add(after, mask)
        else:
            self._return(mask)  # past the last instruction

    def _branch(self, at: int, target: int, mask: np.ndarray) -> None:
        if target <= at and any(self._polls[target : at + 1]):
            self._looked(target, at)
        self.batch.add(target, mask)

    def _looked(self, first: int, last: int) -> None:
        """A group executes a loop that polls once more."""
        scheduler = self.batch.scheduler
        if scheduler is not None:
            scheduler.polled(first, idle=not any(self.changes[first : last + 1]))
        else:
            self.batch.turns.give_way(first)

    def _jump_table(self, segment: Segment, mask: np.ndarray) -> None:
        assert segment.last is not None
        index = self.machine.source(segment.last.operands[0], "u32")
        index = np.broadcast_to(index, self.machine.lanes)
        for value in np.unique(index[mask]):
            here = mask & (index == value)
            if value >= len(segment.targets):
                self.machine.fault(
                    segment.last,
                    f"index {value} is outside its table of {counted(len(segment.targets), 'target')}",
                    int(np.flatnonzero(here)[0]),
                )
            self.batch.add(segment.targets[int(value)], here)

    def exit(self, mask: np.ndarray) -> None:
        """Threads end."""
        machine, batch = self.machine, self.batch
        for observer in machine.observers:
            observer.exited(mask)
        alive = machine.executing(None) & ~mask
        batch.alive_count = int(np.count_nonzero(alive))
        machine.set_alive(alive)
        if batch.alive_count and (batch.waiting or batch.at_barrier or batch.cluster_waiting):
            self.waiting.retry()
            self.waiting.check_barriers()

    def _return(self, mask: np.ndarray) -> None:
        if not self.batch.has_calls:
            self.exit(mask)
            return
        depth = self.batch.depth
        top = mask & (depth == 0)
        if np.count_nonzero(top):
            self.exit(top)
        self._calls.come_back(mask & (depth > 0))
