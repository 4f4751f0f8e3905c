"""Threads that wait for others: at warp-wide instructions, at the barriers of a CTA and of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..machine.binding import Masked, meaning_of
from ..machine.program import Inst, Not, Reg, Segment
from ..machine.registry import Barrier, ClusterBarrier, Collective
from .batch import Batch

Array = Any


class Waiting:
    """Holds threads of a batch back until those that they wait for have come."""

    def __init__(self, batch: Batch):
        self.batch, self.machine = batch, batch.machine
        self._bound_last: dict[int, Masked] = {}
        """What executes the warp-wide instructions, by their segments."""

    def wait(self, at: int, segment: Segment, mask: np.ndarray) -> None:
        inst = segment.last
        assert inst is not None
        what = meaning_of(self.machine, inst)
        if isinstance(what, Collective):
            self._collective(at, segment, inst, what, mask)
        elif isinstance(what, Barrier):
            self._barrier(at, segment, inst, what, mask)
        elif isinstance(what, ClusterBarrier):
            self._cluster_barrier(at, segment, what, mask)
        else:
            raise AssertionError(f"{inst.opcode} does not wait")

    def _collective(self, at: int, segment: Segment, inst: Inst, what: Collective, mask: np.ndarray) -> None:
        """A warp-wide instruction: the threads its mask names go on when all of them that are alive have
        come.
        """
        machine = self.machine
        before = self.batch.waiting.pop(at, None)
        if before is not None:
            mask = mask | before
        if what.mask == "active":
            ready = mask
        else:
            here = machine.ballot(mask)
            alive = machine.ballot(machine.executing(None))
            if what.mask is None:
                missing = alive & ~here
            elif what.mask == "warpgroup":
                missing = self._warpgroups_missing(alive & ~here)
            else:
                assert not isinstance(what.mask, str)
                members = np.broadcast_to(machine.source(what.mask, "u32"), machine.lanes)
                missing = members & machine.per_lane(alive & ~here)
            bad = missing != 0
            ready = mask & ~(bad if bad.size == machine.lanes else machine.per_lane(bad))
            late = mask & ~ready
            if np.count_nonzero(late):
                self.batch.waiting[at] = late
                if not np.count_nonzero(ready):
                    return
        bound = self._masked_last(at, inst)
        bound(ready)
        self.batch.add(segment.after, ready)

    def _warpgroups_missing(self, missing: np.ndarray) -> np.ndarray:
        """Per warp, not 0 if threads of its warpgroup (four warps of a CTA) are missing."""
        per_cta = self.machine.padded // 32
        warp = np.arange(missing.size)
        group = warp // per_cta * (-(-per_cta // 4)) + warp % per_cta // 4
        return (np.bincount(group, missing != 0)[group] > 0).astype(np.uint32)

    def _masked_last(self, at: int, inst: Inst) -> Masked:
        found = self._bound_last.get(at)
        if found is None:
            unguarded = meaning_of(self.machine, inst)
            assert isinstance(unguarded, Collective)
            found = self._bound_last[at] = self.machine.observed(inst, unguarded.bind(self.machine, inst))
        return found

    def retry(self) -> None:
        """Look again at warps that wait: their partners may have exited."""
        for at in list(self.batch.waiting):
            mask = self.batch.waiting.pop(at)
            mask = mask & self.machine.executing(None)
            segment = self.batch.segments[at]
            assert segment.last is not None
            what = meaning_of(self.machine, segment.last)
            assert isinstance(what, Collective)
            if np.count_nonzero(mask):
                self._collective(at, segment, segment.last, what, mask)

    def _barrier(self, at: int, segment: Segment, inst: Inst, what: Barrier, mask: np.ndarray) -> None:
        machine = self.machine
        numbers = np.broadcast_to(machine.source(what.number, "u32"), machine.lanes)
        for number in np.unique(numbers[mask]):
            here = mask & (numbers == number)
            if number > 15:
                machine.fault(
                    inst,
                    f"barrier {number} does not exist: a CTA has barriers 0 to 15",
                    int(np.flatnonzero(here)[0]),
                )
            lanes = np.flatnonzero(here)
            ctas = machine.cta_of_lane[lanes]
            if what.count is not None:
                counts = np.broadcast_to(machine.source(what.count, "u32"), machine.lanes)[lanes]
                wrong = np.flatnonzero((counts % 32 != 0) | (counts == 0))
                if wrong.size:
                    machine.fault(
                        inst,
                        f"the thread count {counts[wrong[0]]} of a barrier must be a multiple of 32",
                        int(lanes[wrong[0]]),
                    )
                self.batch.barrier_count[number, ctas] = counts
            elif not what.arrive_only:
                self.batch.barrier_count[number, ctas] = 0  # all threads
            if what.arrive_only:
                self.batch.arrived[number] += np.bincount(ctas, minlength=machine.ctas)
                for observer in machine.observers:
                    observer.barrier_arrived(inst, int(number), here)
                self.batch.add(segment.after, here)
            else:
                self.batch.barrier_of[lanes] = number
                for observer in machine.observers:
                    observer.barrier_waits(inst, int(number), here)
                known = self.batch.at_barrier.get(at)
                self.batch.at_barrier[at] = here if known is None else known | here
        self.check_barriers()

    def check_barriers(self) -> None:
        """Release the threads at barriers whose count is reached."""
        machine = self.machine
        if not self.batch.at_barrier:
            return
        there = np.zeros(machine.lanes, np.bool_)
        for mask in self.batch.at_barrier.values():
            there |= mask
        ctas = machine.ctas
        alive = np.count_nonzero(machine.executing(None).reshape(ctas, -1), axis=1)
        for number in np.unique(self.batch.barrier_of[there]):
            at = there & (self.batch.barrier_of == number)
            come = np.count_nonzero(at.reshape(ctas, -1), axis=1) + self.batch.arrived[number]
            wanted = np.where(self.batch.barrier_count[number] > 0, self.batch.barrier_count[number], alive)
            done = (come >= wanted) & (come > 0)
            if not done.any():
                continue
            released = at & done[machine.cta_of_lane]
            self.batch.arrived[number][done] = 0
            self.batch.barrier_of[released] = -1
            for observer in machine.observers:
                observer.barrier_released(int(number), released)
            for segment_number in list(self.batch.at_barrier):
                mask = self.batch.at_barrier[segment_number]
                go = mask & released
                if not np.count_nonzero(go):
                    continue
                rest = mask & ~released
                if np.count_nonzero(rest):
                    self.batch.at_barrier[segment_number] = rest
                else:
                    del self.batch.at_barrier[segment_number]
                segment = self.batch.segments[segment_number]
                assert segment.last is not None
                what = meaning_of(machine, segment.last)
                assert isinstance(what, Barrier)
                finish = self.result_of(segment.last, what)
                if finish is not None:
                    finish(go)
                self.batch.add(segment.after, go)

    def result_of(self, inst: Inst, what: Barrier) -> Callable[[np.ndarray], None] | None:
        """What barrier.red writes, over the threads of each CTA that are released together."""
        if not what.combine:
            return None
        machine = self.machine
        predicate, destination = what.predicate, what.destination
        assert predicate is not None
        assert destination is not None
        flip = isinstance(predicate, Not)
        p = machine.source(predicate.operand if isinstance(predicate, Not) else predicate, "pred")

        def finish(mask: np.ndarray) -> None:
            value = np.broadcast_to(~p if flip else p, machine.lanes)
            votes = np.count_nonzero((value & mask).reshape(machine.ctas, -1), axis=1)
            if what.combine == "popc":
                r: Array = votes.astype(np.uint32)
            elif what.combine == "or":
                r = votes > 0
            else:
                r = votes == np.count_nonzero(mask.reshape(machine.ctas, -1), axis=1)
            if isinstance(destination, Reg):
                row = machine.row(destination)
                np.copyto(row, r[machine.cta_of_lane], "unsafe", mask)

        return finish

    def _cluster_barrier(self, at: int, segment: Segment, what: ClusterBarrier, mask: np.ndarray) -> None:
        machine = self.machine
        if not what.wait:
            self.batch.cluster_arrived |= mask
            inst = segment.last
            assert inst is not None
            for observer in machine.observers:
                observer.cluster_arrived(inst, mask)
            self.batch.add(segment.after, mask)
        else:
            known = self.batch.cluster_waiting.get(at)
            self.batch.cluster_waiting[at] = mask if known is None else known | mask
        self._check_clusters()

    def _check_clusters(self) -> None:
        machine = self.machine
        per = machine.cluster_size * machine.padded
        alive = machine.executing(None)
        missing = (alive & ~self.batch.cluster_arrived).reshape(-1, per).any(axis=1)
        some = self.batch.cluster_arrived.reshape(-1, per).any(axis=1)
        complete = np.repeat(~missing & some, per)
        if complete.any():
            # the phase is over: threads that arrived in it may pass their wait, and the next phase begins
            self.batch.cluster_done |= self.batch.cluster_arrived & complete
            for observer in machine.observers:
                observer.cluster_completed(self.batch.cluster_arrived & complete)
            self.batch.cluster_arrived &= ~complete
        for at in list(self.batch.cluster_waiting):
            mask = self.batch.cluster_waiting[at]
            go = mask & self.batch.cluster_done
            if np.count_nonzero(go):
                self.batch.cluster_done &= ~go
                for observer in machine.observers:
                    observer.cluster_released(go)
                rest = mask & ~go
                if np.count_nonzero(rest):
                    self.batch.cluster_waiting[at] = rest
                else:
                    del self.batch.cluster_waiting[at]
                self.batch.add(self.batch.segments[at].after, go)
