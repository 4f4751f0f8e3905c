"""Memory that nobody wrote."""

from __future__ import annotations

from ..pieces import FILL, Pair

PAIRS = [
    Pair(
        "uninitialised-shared",
        "    @%p1 st.shared.u32 [%r5], %r1;\n    bar.sync 0;\n    ld.shared.u32 %r10, [%r5]; //!\n"
        "    st.global.u32 [%rd5], %r10;",
        FILL + "    bar.sync 0;\n    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;",
    ),
    Pair(
        "uninitialised-local",
        "    .local .align 4 .b8 mine[16];\n    mov.u32 %r10, mine;\n    ld.local.u32 %r11, [%r10+4]; //!\n"
        "    st.global.u32 [%rd5], %r11;",
        "    .local .align 4 .b8 mine[16];\n    mov.u32 %r10, mine;\n    st.local.u32 [%r10+4], %r1;\n"
        "    ld.local.u32 %r11, [%r10+4];\n    st.global.u32 [%rd5], %r11;",
    ),
    Pair(  # an output that a call allocated is read before it is written
        "uninitialised-global",
        "    ld.global.u32 %r10, [%rd5]; //!\n    st.global.u32 [%rd5], %r10;",
        "    st.global.u32 [%rd5], %r1;\n    ld.global.u32 %r10, [%rd5];",
        {"fresh": True},
    ),
]  # fmt: skip
