"""Barriers of a CTA (PTX ISA 9.7.15.1): all who meet name one count, and the threads of a warp come together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....diagnostics import counted
from ...machine.binding import meaning_of
from ...machine.program import Inst
from ...machine.registry import Barrier
from ..rule import Rule, Tolerated
from ..state.context import Context, Part
from .rounds import Rounds

Array = Any
DIVERGENT = Rule(
    "barrier-divergent",
    ("9.7.15.1",),
    "some threads of a warp execute an aligned barrier, and the others another one or none",
    "move the barrier out of the branch, or use barrier.sync (without .aligned)",
    tolerated=Tolerated(
        "an aligned barrier does not wait for threads of the warp that have ended", "where the other threads have ended"
    ),
)
COUNT = Rule(
    "barrier-count",
    ("9.7.15.1",),
    "those who meet at a barrier name different numbers of threads, or more come than a round is for",
    "everyone who arrives at or waits for a barrier in one round names the same number of threads; without a number it is all "
    "threads of the CTA",
)


class BarrierUse(Part):
    """Who comes to the barriers of CTAs."""

    rules = (DIVERGENT, COUNT)

    def __init__(self, context: Context):
        super().__init__(context)
        self.rounds = context.part(Rounds)
        self.at = np.full(self.machine.lanes, -1, np.int64)
        """The instruction at which each lane waits."""

    def start(self) -> None:
        self.counts: dict[tuple[int, int], tuple[int, Inst]] = {}
        """(barrier, CTA) -> threads that this round is for, and who said so first."""
        self.come: dict[tuple[int, int], int] = {}
        """(barrier, CTA) -> threads that have come in this round."""
        self.at[...] = -1

    def barrier_waits(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self.at[mask] = inst.number
        self.check_count(inst, number, mask)

    def released(self, number: int, mask: np.ndarray) -> None:
        """The round of a barrier is over: threads that waited go on."""
        self._check_divergence(mask)
        self.at[mask] = -1
        for cta in np.flatnonzero(mask.reshape(self.machine.ctas, -1).any(axis=1)).tolist():
            self.counts.pop((number, cta), None)
            self.come.pop((number, cta), None)

    def check_count(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        """All who meet at a barrier name the same number of threads."""
        machine = self.machine
        what = meaning_of(machine, inst)
        assert isinstance(what, Barrier)
        if what.count is None:
            counts = np.array([machine.padded], np.int64)
        else:
            counts = machine.source(what.count, "u32").astype(np.int64)
        lanes = np.flatnonzero(mask)
        starts = np.flatnonzero(np.diff(machine.cta_of_lane[lanes], prepend=-1))
        for here in np.split(lanes, starts[1:]) if lanes.size else ():
            lane = int(here[0])
            key = number, int(machine.cta_of_lane[lane])
            count = int(counts[lane if counts.size > 1 else 0])
            known, other = self.counts.setdefault(key, (count, inst))
            if count < machine.launch.threads and not self.clocks.too_large:
                self.rounds.at_barrier(inst, number, key[1], here)
            self.come[key] = come = self.come.get(key, 0) + here.size
            if come > known == count:
                self.report(
                    COUNT,
                    inst,
                    f"{come} threads are at barrier {number} at once, and a round of it is for {count}: which of them meet is "
                    "left to chance",
                    lane,
                    hint="give each set of threads that meet a barrier number of its own",
                    key="many",
                )
            if known != count:
                self.report(
                    COUNT,
                    inst,
                    f"a barrier is for {counted(count, 'thread')} here and for {known} elsewhere in the same round",
                    lane,
                    other=other,
                )

    def _check_divergence(self, mask: np.ndarray) -> None:
        """The threads of a warp must execute an aligned barrier together (9.7.15.1)."""
        machine = self.machine
        instructions = machine.program.instructions
        here = machine.ballot(mask)
        began = machine.ballot(machine.live)
        alive = machine.ballot(machine.executing(None))
        table = self.at.reshape(-1, 32)
        both = mask.reshape(-1, 32)
        warps = here != 0
        low = np.where(both, table, 1 << 60).min(axis=1)
        high = np.where(both, table, -1).max(axis=1)
        bad = np.flatnonzero(warps & ((low != high) | (here != began)))
        for warp in bad.tolist():
            lanes = 32 * warp + np.flatnonzero(both[warp])
            inst = instructions[int(self.at[lanes[0]])]
            if not inst.family.aligned and not inst.has("aligned"):
                continue
            other = None
            if low[warp] != high[warp]:
                other = instructions[int(high[warp] if low[warp] == inst.number else low[warp])]
            living = int(np.bitwise_count(alive[warp]))
            ended = other is None and here[warp] == alive[warp]
            self.report(
                DIVERGENT,
                inst,
                _divergence(lanes.size, living, other),
                lanes,
                other=other,
                severity="warning" if ended else "error",
            )


def _divergence(count: int, living: int, other: Inst | None) -> str:
    """What is wrong where so many threads of a warp execute a barrier."""
    if other is not None:
        return "threads of one warp execute different barrier instructions"
    if count == living:
        return (
            f"{counted(count, 'thread')} of a warp {'executes' if count == 1 else 'execute'} this barrier, and the others have ended without it. A barrier "
            "does not wait for threads that have exited, but an aligned one is for all threads of a warp"
        )
    return f"{count} of the {living} living threads of a warp execute this barrier: all of them must, together"
