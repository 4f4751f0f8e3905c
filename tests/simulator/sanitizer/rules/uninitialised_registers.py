"""Registers that nobody wrote."""

from __future__ import annotations

from ..pieces import Pair

PAIRS = [
    Pair(
        "uninitialised-register",
        "    add.u32 %r10, %r11, 1; //!\n    st.global.u32 [%rd5], %r10;",
        "    mov.u32 %r11, 5;\n    add.u32 %r10, %r11, 1;\n    st.global.u32 [%rd5], %r10;",
    ),
    Pair(  # only some threads write it
        "uninitialised-register",
        "    setp.lt.u32 %p2, %r1, 40;\n    @%p2 mov.u32 %r11, 5;\n    st.global.u32 [%rd5], %r11; //!",
        "    setp.lt.u32 %p2, %r1, 40;\n    @%p2 mov.u32 %r11, 5;\n    @!%p2 mov.u32 %r11, 6;\n"
        "    st.global.u32 [%rd5], %r11;",
    ),
    Pair(  # a predicate decides a branch
        "uninitialised-register",
        "    @%p3 bra $x; //!\n    st.global.u32 [%rd5], %r1;\n$x:",
        "    setp.lt.u32 %p3, %r1, 3;\n    @%p3 bra $x;\n    st.global.u32 [%rd5], %r1;\n$x:",
    ),
]  # fmt: skip
