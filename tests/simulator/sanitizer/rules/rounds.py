"""Rounds of barriers and phases of mbarriers."""

from __future__ import annotations

from ..pieces import Pair

GROUPS = """    st.shared.u32 [%r5], %r1; xor.b32 %r7, %r4, 128; add.u32 %r8, %r3, %r7; setp.lt.u32 %p2, %r1, 64;
    @!%p2 bra $other;
    bar.sync 1, 64;
    bra $go;
$other:
    bar.sync {0}, 64;{1}
$go:
    ld.shared.u32 %r9, [%r8]; st.global.u32 [%rd5], %r9;"""
"""Two pairs of warps meet at barriers 1 and {0}."""
TWICE = """    @%p1 mbarrier.init.shared.b64 [bar], {};
    bar.sync 0;
    mbarrier.arrive.shared.b64 _, [bar];{}"""
"""All 64 threads arrive at an mbarrier for so many."""
PAIRS = [
    Pair("barrier-round", GROUPS.format(1, " //!"), GROUPS.format(2, ""), {"block": 128}),
    Pair("mbarrier-phase", TWICE.format(32, " //!"), TWICE.format(64, "")),
]
