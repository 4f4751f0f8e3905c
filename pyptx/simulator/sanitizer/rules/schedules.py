"""What other orders of threads than the first show (PTX ISA 3.1); `launch.explore` tries them."""

from __future__ import annotations

from ..rule import Rule
from ..state.context import Part

SCHEDULE_DEPENDENT = Rule(
    "schedule-dependent",
    ("3.1",),
    "another order of threads gives other results, and nothing in the kernel asks for that",
    "lanes of a warp do not run in step: put bar.warp.sync between what one lane stores and another loads; .volatile and .relaxed "
    "order nothing",
    symptom=True,
)
FAULT = Rule(
    "fault",
    (),
    "another order of threads ends in a deadlock or a fault",
    "order the accesses of different threads by barriers, or by a release and an acquire",
    symptom=True,
)


class Schedules(Part):
    """Nothing is watched: what a schedule leaves is compared when it has ended."""

    rules = (SCHEDULE_DEPENDENT, FAULT)
