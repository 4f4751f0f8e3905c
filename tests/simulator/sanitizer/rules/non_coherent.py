"""Loads through the non-coherent cache."""

from __future__ import annotations

from ..pieces import Pair

READ = "    st.global.u32 [%rd5], %r1;\n    bar.sync 0;\n    ld.global{}.u32 %r10, [%rd5+4];"
WRITE = "    ld.global{}.u32 %r10, [%rd5+4];\n    bar.sync 0;\n    st.global.u32 [%rd5], %r1;"
PAIRS = [
    Pair("non-coherent-load", READ.format(".nc") + " //!", READ.format(""), {"block": 32}),
    Pair("non-coherent-load", WRITE.format(".nc") + " //!", WRITE.format(""), {"block": 32}),
]
