"""What a deadlock is told as: who waits for what, causes before what follows from them.

Threads that wait for the same thing at the same instruction are told once, whichever CTAs they are in. A wait is a cause
where nobody can end it: a barrier for more threads than live, or one that the missing threads cannot come to from where
they are. A wait for threads that wait elsewhere, and could still come, follows from that other wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...diagnostics import Diagnostic, SimulationError, counted
from ..machine.binding import meaning_of
from ..machine.program import Imm, Inst
from ..machine.registry import Barrier, ClusterBarrier
from .batch import Batch

Array = Any
CAUSE, LIKELY, IDLE, FOLLOWS = range(4)
"""How a wait is ranked: nobody can end it; a part of what it needs has come; nothing has; it waits for others that wait."""
MOST = 12
"""Waits that are told."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Threads that wait at one instruction, in words, and how likely they are the cause."""

    inst: Inst
    lanes: Array
    text: str
    hint: str | None
    rank: int


def deadlock(engine: Batch, polls: Sequence[Wait] = ()) -> SimulationError:
    """The error of a launch in which no thread can go on. `polls`: threads that look at memory in vain."""
    waits = sorted([*polls, *_Waits(engine, polls).found()], key=lambda w: w.rank)
    found: list[Diagnostic] = []
    for wait in waits[:MOST]:
        cause = wait.rank >= IDLE and wait.rank > waits[0].rank
        hint = f"this wait may follow from the one {_line(waits[0].inst)}" if cause else wait.hint
        text = f"deadlock: {people(engine, wait.lanes)} {wait.text}"
        found.append(engine.machine.diagnostic(wait.inst, text, int(wait.lanes[0]), hint))
    if len(waits) > MOST:
        found.append(Diagnostic("note", f"{len(waits) - MOST} more groups of threads wait"))
    return SimulationError(found or [Diagnostic("error", "deadlock")])


def people(engine: Batch, lanes: Array) -> str:
    """How many threads of how many CTAs, in words."""
    machine = engine.machine
    counts = np.bincount(machine.cta_of_lane[lanes], minlength=1)
    counts = counts[counts > 0]
    threads = f"{lanes.size} thread{'' if lanes.size == 1 else 's'}"
    if counts.size == 1:
        return threads
    if (counts == counts[0]).all():
        return f"{counts[0]} thread{'' if counts[0] == 1 else 's'} in each of {counts.size} CTAs"
    return f"{threads} in {counts.size} CTAs"


def _line(inst: Inst) -> str:
    return f"at line {inst.line}" if inst.line is not None else f"at `{inst.text}`"


class _Waits:
    """The waits at barriers and warp-wide instructions."""

    def __init__(self, engine: Batch, polls: Sequence[Wait]):
        self.engine, self.machine, self.segments = engine, engine.machine, engine.segments
        self.place = np.full(self.machine.lanes, -1, np.int64)
        """The segment at which each living thread is."""
        for groups in (engine.groups, engine.waiting, engine.at_barrier, engine.cluster_waiting):
            for at, mask in groups.items():
                self.place[mask] = at
        where = {inst.number: n for n, s in enumerate(self.segments) for inst in s.instructions}
        for poll in polls:
            self.place[poll.lanes] = where[poll.inst.number]
        self._reached: dict[int, set[int]] = {}

    def found(self) -> Iterator[Wait]:
        engine = self.engine
        for at, mask in engine.at_barrier.items():
            for number in np.unique(engine.barrier_of[mask]).tolist():
                yield self._barrier(at, int(number), np.flatnonzero(mask & (engine.barrier_of == number)))
        for at, mask in engine.cluster_waiting.items():
            yield self._cluster(at, np.flatnonzero(mask))
        for at, mask in engine.waiting.items():
            lanes = np.flatnonzero(mask)
            missing = self._others(lanes, 32)
            text = f"wait here for the others of their warps{self._where(missing)}"
            rank = FOLLOWS if missing.size else LIKELY
            hint = (
                "all threads that the instruction is for execute it together: is it in a branch that some do not take?"
            )
            yield Wait(self._last(at), lanes, text, hint, rank)

    def _last(self, at: int) -> Inst:
        inst = self.segments[at].last
        assert inst is not None
        return inst

    def _barrier(self, at: int, number: int, lanes: Array) -> Wait:
        engine, machine = self.engine, self.machine
        cta = int(machine.cta_of_lane[lanes[0]])
        start = cta * machine.padded
        here = start + np.flatnonzero(engine.barrier_of[start : start + machine.padded] == number)
        alive = np.flatnonzero(machine.executing(None)[start : start + machine.padded]) + start
        arrived = int(engine.arrived[number, cta])
        wanted = int(engine.barrier_count[number, cta]) or alive.size
        text = f"wait at barrier {number}: {here.size + arrived} of {wanted} threads have come"
        others = np.setdiff1d(alive, here)
        if wanted - arrived - here.size > others.size:
            gone = int(np.count_nonzero(machine.live[start : start + machine.padded])) - alive.size
            exited = f", and {gone} threads of the CTA have exited" if gone else ""
            hint = f"the thread count of the barrier, {wanted}, is too large: at most {arrived + here.size + others.size} can come"
            return Wait(self._last(at), lanes, text + exited, hint, CAUSE)
        text += self._where(others)
        never = self._cannot_come(others, lambda last: self._is_barrier(last, number))
        if never.size:
            hint = (
                f"{never.size} of the threads that are missing cannot reach a barrier {number} from there: is it in a branch that "
                "some threads do not take?"
            )
            return Wait(self._last(at), lanes, text, hint, CAUSE)
        hint = "a barrier needs all its threads: is it in a branch that some do not take, or is a count wrong?"
        # those that wait at a barrier, too, wait for each other
        mutual = others.size == 0 or bool((engine.barrier_of[others] >= 0).any())
        return Wait(self._last(at), lanes, text, hint, LIKELY if mutual else FOLLOWS)

    def _is_barrier(self, inst: Inst, number: int) -> bool:
        what = meaning_of(self.machine, inst)
        return isinstance(what, Barrier) and (not isinstance(what.number, Imm) or what.number.value == number)

    def _cluster(self, at: int, lanes: Array) -> Wait:
        engine, machine = self.engine, self.machine
        per = machine.cluster_size * machine.padded
        start = int(lanes[0]) // per * per
        alive = start + np.flatnonzero(machine.executing(None)[start : start + per])
        missing = alive[~engine.cluster_arrived[alive]]
        text = f"wait for the barrier of the cluster: {alive.size - missing.size} of {counted(alive.size, 'thread')} {'has' if alive.size == 1 else 'have'} arrived"
        unready = lanes[~engine.cluster_arrived[lanes]]
        if unready.size:
            hint = "each thread executes barrier.cluster.arrive before barrier.cluster.wait"
            return Wait(self._last(at), lanes, f"{text}, and {unready.size} of those that wait have not", hint, CAUSE)
        text += self._where(missing)
        if self._cannot_come(missing, self._is_arrival).size:
            hint = "the threads that are missing cannot reach a barrier.cluster.arrive from there: all threads of all CTAs arrive"
            return Wait(self._last(at), lanes, text, hint, CAUSE)
        hint = "all threads of all CTAs of the cluster arrive, in each phase once: is the barrier in a branch that some do not take?"
        return Wait(self._last(at), lanes, text, hint, FOLLOWS)

    def _is_arrival(self, inst: Inst) -> bool:
        what = meaning_of(self.machine, inst)
        return isinstance(what, ClusterBarrier) and not what.wait

    def _others(self, lanes: Array, size: int) -> Array:
        """Living threads of the groups of this size (warps) that are not among these."""
        groups = np.unique(lanes // size)
        alive = np.flatnonzero(self.machine.executing(None))
        return np.setdiff1d(alive[np.isin(alive // size, groups)], lanes)

    def _where(self, lanes: Array) -> str:
        """Where the missing threads are."""
        places = [p for p in np.unique(self.place[lanes]).tolist() if p >= 0]
        told = [f"{int(np.count_nonzero(self.place[lanes] == p))} are {self._at(p)}" for p in places[:3]]
        return f"; of the others {' and '.join(told)}" if told else ""

    def _at(self, at: int) -> str:
        inst = self.segments[at].last or next(iter(reversed(self.segments[at].body)), None)
        return "elsewhere" if inst is None else _line(inst)

    def _cannot_come(self, lanes: Array, is_it: Callable[[Inst], bool]) -> Array:
        """Those of the threads that cannot reach such an instruction from where they are."""
        if self.engine.has_calls or not lanes.size:
            return lanes[:0]
        there = {n for n, s in enumerate(self.segments) if s.ends == "sync" and s.last is not None and is_it(s.last)}
        stuck = [p for p in np.unique(self.place[lanes]).tolist() if p >= 0 and not self._after(p) & there]
        return lanes[np.isin(self.place[lanes], stuck)]

    def _after(self, at: int) -> set[int]:
        """The segments that can follow one."""
        found = self._reached.get(at)
        if found is None:
            found = self._reached[at] = set()
            work = [at]
            while work:
                segment = self.segments[work.pop()]
                for following in (*segment.targets, segment.after):
                    if 0 <= following < len(self.segments) and following not in found:
                        found.add(following)
                        work.append(following)
        return found
