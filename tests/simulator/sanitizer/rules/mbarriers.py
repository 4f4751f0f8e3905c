"""Mbarriers as objects in memory."""

from __future__ import annotations

from ..pieces import INIT, LOAD, WAIT, Pair

PAIRS = [
    Pair(
        "mbarrier-init-fence",
        INIT.replace("    fence.mbarrier_init.release.cluster;\n", "")
        + LOAD.replace("1024, [bar];\n$", "1024, [bar]; //!\n$") + WAIT,
        INIT + LOAD + WAIT,
        {},
        "warning",
    ),
    Pair(
        "mbarrier-reinit",
        INIT + LOAD + WAIT + "    bar.sync 0;\n    @%p1 mbarrier.init.shared.b64 [bar], 1; //!",
        INIT + LOAD + WAIT + "    bar.sync 0;\n    @%p1 mbarrier.inval.shared.b64 [bar];\n"
        "    @%p1 mbarrier.init.shared.b64 [bar], 1;",
    ),
    Pair(  # a remote arrival needs the fence after mbarrier.init
        "mbarrier-init-fence",
        "    @%p1 mbarrier.init.shared.b64 [bar], 128;\n    barrier.cluster.arrive; barrier.cluster.wait;\n"
        "    mov.u32 %r10, bar; mapa.shared::cluster.u32 %r11, %r10, 0;\n"
        "    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11]; //!\n"
        "    barrier.cluster.arrive; barrier.cluster.wait;",
        "    @%p1 mbarrier.init.shared.b64 [bar], 128;\n    @%p1 fence.mbarrier_init.release.cluster;\n"
        "    barrier.cluster.arrive; barrier.cluster.wait;\n"
        "    mov.u32 %r10, bar; mapa.shared::cluster.u32 %r11, %r10, 0;\n"
        "    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];\n"
        "    barrier.cluster.arrive; barrier.cluster.wait;",
        {"grid": 2, "cluster": 2},
    ),
    Pair(
        "mbarrier-invalid",
        "    @%p1 mbarrier.inval.shared.b64 [bar]; //!",
        "    @%p1 mbarrier.init.shared.b64 [bar], 1;\n    @%p1 mbarrier.inval.shared.b64 [bar];",
    ),
    Pair(
        "mbarrier-touched",
        "    @%p1 mbarrier.init.shared.b64 [bar], 1;\n    @%p1 st.shared.u32 [bar], %r1; //!",
        "    @%p1 mbarrier.init.shared.b64 [bar], 1;\n    @%p1 mbarrier.inval.shared.b64 [bar];\n"
        "    @%p1 st.shared.u32 [bar], %r1;",
    ),
]  # fmt: skip
