"""Lanes of a warp that hold one element."""

from __future__ import annotations

from ..pieces import Pair

KERNEL = """
    and.b32 %r20, %r1, 15; mul.wide.u32 %rd10, %r20, 4; add.s64 %rd10, %rd10, %rd2;
    setp.lt.u32 %p3, %r1, 16;
    ld.global.u32 %r21, [%rd10];
    add.u32 %r21, %r21, 1;{}
    @%p3 st.global.u32 [%rd10], %r21;{}
"""
PAIRS = [
    Pair("replicated-lanes", KERNEL.format("", " //!"), KERNEL.format(" bar.warp.sync -1;", ""), {"block": 32}),
]
