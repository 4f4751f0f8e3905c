"""Waits for mbarriers whose scope, or that of an arrival, does not reach the other thread: the cause of a race after them."""

from __future__ import annotations

from collections import deque
from typing import Any

from ...machine.program import Inst
from .clocks import Clock
from .context import Part
from .patterns import Released

Array = Any
MOST_MISSED = 16
"""Waits of a CTA whose scope is kept in mind."""


class Scopes(Part):
    """What threads did not learn at their last waits."""

    def start(self) -> None:
        self.missed: dict[int, deque[tuple[Clock, Inst]]] = {}
        """CTA -> what its threads did not learn at waits for mbarriers, for a scope did not reach them, and the last waits."""

    def waited(self, inst: Inst, cta: int, released: Released) -> None:
        """Threads of a CTA waited for what was released to an mbarrier."""
        if self.machine.cluster_size == 1 or not (released.near or released.mid):
            return
        hidden = [c for k, c in released.near.items() if k != cta]
        hidden += [released.far, *released.mid.values()] if inst.has("cta") else []
        known = self.missed.setdefault(cta, deque(maxlen=MOST_MISSED))
        known.extend((clock.copy(), inst) for clock in hidden if clock.rows)

    def fault(self, lane: int, who: int, time: int) -> str:
        """The hint where a thread has waited for an mbarrier at which another arrived after this time, and the scope of
        the arrival or of the wait does not reach the other's CTA; else nothing.
        """
        clocks, machine = self.clocks, self.machine
        key, local = who // clocks.per, who % clocks.per
        for clock, wait in self.missed.get(int(machine.cta_of_lane[lane]), ()):
            row = clock.rows.get(key)
            if row is None or local >= row.size or row[local] < time:
                continue
            if wait.has("cta"):
                return f"`{wait.text}`{_at(wait)} has the scope .cta: an acquire of what another CTA released needs .cluster"
            for inst in machine.program.instructions:
                if inst.has("cta") and (inst.family.access == "object" or inst.fences):
                    return f"`{inst.text}`{_at(inst)} has the scope .cta: a release to threads of another CTA needs .cluster"
        return ""


def _at(inst: Inst) -> str:
    return f" at line {inst.line}" if inst.line is not None else ""
