"""Barriers of a CTA."""

from __future__ import annotations

from ..pieces import Pair

PAIRS = [
    Pair(
        "barrier-divergent",
        "    and.b32 %r10, %r1, 1;\n    setp.eq.u32 %p2, %r10, 0;\n    @%p2 bra $even;\n    bar.sync 0;\n"
        "    bra $join;\n$even:\n    bar.sync 0; //!\n$join:",
        "    and.b32 %r10, %r1, 1;\n    setp.eq.u32 %p2, %r10, 0;\n    @%p2 bra $even;\n    bra $join;\n$even:\n"
        "$join:\n    bar.sync 0;",
    ),
    Pair(  # producer and consumer do not agree on how many they are
        "barrier-count",
        "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 bra $consume;\n    bar.arrive 1, 64;\n    bra $end;\n"
        "$consume:\n    bar.sync 1, 32; //!\n$end:",
        "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 bra $consume;\n    bar.arrive 1, 64;\n    bra $end;\n"
        "$consume:\n    bar.sync 1, 64;\n$end:",
    ),
    Pair(  # the others have ended: a GPU goes on
        "barrier-divergent",
        "    setp.lt.u32 %p2, %r1, 40;\n    @!%p2 bra $end;\n    bar.sync 0; //!\n$end:",
        "    setp.lt.u32 %p2, %r1, 32;\n    @!%p2 bra $end;\n    bar.sync 0;\n$end:",
        {},
        "warning",
    ),
]  # fmt: skip
