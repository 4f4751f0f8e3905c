"""What depends on the order in which threads run."""

from __future__ import annotations

from ..pieces import Pair

IN_STEP = """
    mov.u32 %r7, 0; st.shared.u32 [%r5], %r7; bar.warp.sync -1;
    @%p1 st.volatile.shared.u32 [buf], 9;{}
    ld.volatile.shared.u32 %r7, [buf];{}
    st.global.u32 [%rd5], %r7;
"""
"""Lane 0 hands a value to the others of its warp."""
INDEX = """
    @%p1 st.volatile.shared.u32 [buf], 0x1000000;
    bar.sync 0;
    @%p1 st.volatile.shared.u32 [buf], 0;{}
    setp.lt.u32 %p2, %r1, 32;
    @%p2 bra $end;
    ld.volatile.shared.u32 %r10, [buf]; mul.wide.u32 %rd9, %r10, 4; add.s64 %rd9, %rd9, %rd1;
    ld.global.u32 %r11, [%rd9];{}
$end:
"""
"""Thread 0 hands an index to the second warp, which may find the one that was there before: it is out of bounds."""
PAIRS = [
    Pair("schedule-dependent", IN_STEP.format("", " //!"), IN_STEP.format(" bar.warp.sync -1;", ""), {"block": 32}),
    Pair("fault", INDEX.format("", " //!"), INDEX.format(" bar.sync 0;", "")),
]
