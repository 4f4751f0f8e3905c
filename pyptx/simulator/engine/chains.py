"""Chains of segments that all living threads run together, without masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..machine.binding import Full, Masked, bind, meaning_of
from ..machine.program import Imm, Inst, Segment
from ..machine.registry import Barrier, Collective
from .batch import Batch
from .ends import Ends


class Fallback(Exception):
    """A waiting instruction in a chain cannot go on with all threads at once."""


@dataclass(slots=True)
class Chain:
    """Segments that follow each other without a decision, bound for all living lanes."""

    segments: list[int]
    steps: list[Full]
    end: Callable[[], int]
    """Where all threads go: a segment, or -1 if they are sent to groups."""
    length: int
    changes: bool
    runs: int = 0
    """Threads that executed it."""


class Chains:
    """The chains of a program by their first segments, made when they are first run."""

    def __init__(self, batch: Batch, ends: Ends, bind: Callable[[int], list[tuple[Full, Masked]]]):
        self.batch, self.ends, self._bind = batch, ends, bind
        self._known: list[Chain | None] = [None] * len(batch.segments)

    def at(self, segment: int) -> Chain:
        chain = self._known[segment]
        if chain is None:
            chain = self._known[segment] = self._made(segment)
        return chain

    def counts(self) -> list[int]:
        """Thread executions of each segment."""
        total = [0] * len(self._known)
        for chain in self._known:
            if chain is not None:
                for segment in chain.segments:
                    total[segment] += chain.runs
        return total

    def _made(self, first: int) -> Chain:
        batch = self.batch
        steps: list[Full] = []
        segments: list[int] = []
        at = first
        length = 0
        while True:
            segment = batch.segments[at]
            segments.append(at)
            steps += [full for full, _ in self._bind(at)]
            length += len(segment.body) + 1
            if segment.ends == "sync":
                assert segment.last is not None
                steps.append(self._sync_all(at, segment.last))
                at = segment.after
                continue
            if segment.ends == "next" and segment.after not in segments:
                at = segment.after
                continue
            changed = any(self.ends.changes[s] for s in segments)
            return Chain(segments, steps, self._end_all(at, segment), length, changed)

    def _sync_all(self, at: int, inst: Inst) -> Full:
        """A waiting instruction when all living threads are at it: it never has to wait."""
        batch, machine = self.batch, self.batch.machine
        what = meaning_of(machine, inst)
        if isinstance(what, Collective):
            return bind(machine, inst)[0]

        def fall_back() -> None:
            raise Fallback(at)

        if isinstance(what, Barrier) and inst.guard is None and not what.arrive_only and isinstance(what.number, Imm):
            count = what.count
            number = int(what.number.value)
            if count is None or (isinstance(count, Imm) and int(count.value) == machine.launch.threads):
                finish = self.ends.waiting.result_of(inst, what)

                def pass_barrier() -> None:
                    exited = count is not None and batch.alive_count < np.count_nonzero(machine.live)
                    if exited or batch.arrived[number].any():
                        raise Fallback(at)
                    if finish is not None:
                        finish(machine.executing(None))
                    if machine.observers:
                        everyone = machine.executing(None)
                        for observer in machine.observers:
                            observer.barrier_waits(inst, number, everyone)
                            observer.barrier_released(number, everyone)

                return pass_barrier
        return fall_back

    def _end_all(self, at: int, segment: Segment) -> Callable[[], int]:
        batch, machine, last = self.batch, self.batch.machine, segment.last
        kind = segment.ends
        if kind == "next":
            return lambda: segment.after
        if kind == "branch" and not machine.observers:
            assert last is not None
            target = segment.targets[0]
            if last.guard is None:
                return lambda: target
            after = segment.after if segment.after >= 0 else segment.targets[1]
            p = machine.row(last.guard)
            negated = last.negated
            count_nonzero = np.count_nonzero

            def branch() -> int:
                alive = machine.alive
                taken = count_nonzero(p if alive is None else p & alive)
                if taken == 0:
                    return target if negated else after
                if taken == batch.alive_count:
                    return after if negated else target
                t = ~p if negated else p.copy()
                n = ~t
                if alive is not None:
                    t &= alive
                    n &= alive
                batch.add(target, t)
                batch.add(after, n)
                return -1

            return branch
        alone = (last is None or last.guard is None) and not batch.has_calls and not machine.observers
        if kind in ("return", "exit") and alone:

            def finish() -> int:
                self.ends.exit(machine.executing(None))
                return -1

            return finish

        def generic() -> int:
            self.ends.send(at, segment, machine.executing(None))
            return -1

        return generic
