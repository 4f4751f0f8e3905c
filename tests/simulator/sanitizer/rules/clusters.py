"""Shared memory of other CTAs."""

from __future__ import annotations

from ..pieces import FILL, Pair

PEER = "    mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1; mapa.shared::cluster.u32 %r11, %r5, %r10;\n"
MEET = "    barrier.cluster.arrive; barrier.cluster.wait;\n"
PAIRS = [
    Pair(  # the CTA that is read may be gone
        "cluster-exit",
        FILL + "    barrier.cluster.arrive; barrier.cluster.wait;\n"
        "    mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1;\n"
        "    mapa.shared::cluster.u32 %r11, %r5, %r10;\n    ld.shared::cluster.u32 %r12, [%r11]; //!",
        FILL + "    barrier.cluster.arrive; barrier.cluster.wait;\n"
        "    mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1;\n"
        "    mapa.shared::cluster.u32 %r11, %r5, %r10;\n    ld.shared::cluster.u32 %r12, [%r11];\n"
        "    barrier.cluster.arrive.release; barrier.cluster.wait.acquire;",
        {"grid": 2, "cluster": 2},
    ),
    Pair(  # the CTA that is written may not have begun
        "cluster-start",
        PEER + "    st.shared::cluster.u32 [%r11], %r1; //!\n" + MEET,
        MEET + PEER + "    st.shared::cluster.u32 [%r11], %r1;\n" + MEET,
        {"grid": 2, "cluster": 2},
    ),
]  # fmt: skip
