"""Data races."""

from __future__ import annotations

from ..pieces import FENCE, FILL, INIT, LOAD, STORE, WAIT, Pair

PAIRS = [
    Pair(  # no barrier between the store and a neighbour's load
        "race",
        FILL + "    ld.shared.u32 %r10, [buf+28]; //!\n    st.global.u32 [%rd5], %r10;",
        FILL + "    bar.sync 0;\n    ld.shared.u32 %r10, [buf+28];\n    st.global.u32 [%rd5], %r10;",
    ),
    Pair(  # the second round overwrites what others still read
        "race",
        FILL + "    bar.sync 0;\n    ld.shared.u32 %r10, [buf+28];\n    add.u32 %r10, %r10, %r1;\n"
        "    st.shared.u32 [%r5], %r10; //!",
        FILL + "    bar.sync 0;\n    ld.shared.u32 %r10, [buf+28];\n    add.u32 %r10, %r10, %r1;\n"
        "    bar.sync 0;\n    st.shared.u32 [%r5], %r10;",
    ),
    Pair(  # threads of a warp, without a warp barrier
        "race",
        FILL + "    xor.b32 %r6, %r5, 4;\n    ld.shared.u32 %r10, [%r6]; //!\n    st.global.u32 [%rd5], %r10;",
        FILL + "    bar.warp.sync 0xffffffff;\n    xor.b32 %r6, %r5, 4;\n    ld.shared.u32 %r10, [%r6];\n"
        "    st.global.u32 [%rd5], %r10;",
    ),
    Pair(  # a warp barrier does not reach the other warp
        "race",
        FILL + "    bar.warp.sync 0xffffffff;\n    xor.b32 %r6, %r5, 128;\n    ld.shared.u32 %r10, [%r6]; //!\n"
        "    st.global.u32 [%rd5], %r10;",
        FILL + "    bar.sync 0;\n    xor.b32 %r6, %r5, 128;\n    ld.shared.u32 %r10, [%r6];\n"
        "    st.global.u32 [%rd5], %r10;",
    ),
    Pair(  # different values to one place in one instruction
        "race",
        "    st.shared.u32 [buf], %r1; //!",
        "    @%p1 st.shared.u32 [buf], %r1;",
    ),
    Pair(  # a barrier of one warp is not a barrier of both
        "race",
        "    shr.u32 %r10, %r1, 5; add.u32 %r10, %r10, 1;\n" + FILL + "    barrier.sync %r10, 32;\n"
        "    ld.shared.u32 %r11, [buf+4]; //!\n    st.global.u32 [%rd5], %r11;",
        FILL + "    barrier.sync 1, 64;\n    ld.shared.u32 %r11, [buf+4];\n    st.global.u32 [%rd5], %r11;",
    ),
    Pair(  # whoever arrives with bar.arrive does not wait
        "race",
        "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 bra $consume;\n" + FILL + "    bar.sync 1, 64;\n    bra $end;\n"
        "$consume:\n    bar.arrive 1, 64;\n    ld.shared.u32 %r10, [buf+4]; //!\n$end:",
        "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 bra $consume;\n" + FILL + "    bar.arrive 1, 64;\n    bra $end;\n"
        "$consume:\n    bar.sync 1, 64;\n    ld.shared.u32 %r10, [buf+4];\n$end:",
    ),
    Pair(  # global memory of two CTAs
        "race",
        "    st.global.u32 [%rd5], %r2; //!",
        "    mul.wide.u32 %rd6, %r2, 256; add.s64 %rd5, %rd5, %rd6;\n    st.global.u32 [%rd5], %r2;",
        {"grid": 2},
    ),
    Pair(  # the last CTA reads what the others wrote: the counter must release and acquire
        "race",
        """
    mul.wide.u32 %rd6, %r2, 4; add.s64 %rd6, %rd2, %rd6;
    @%p1 st.global.u32 [%rd6+64], %r2;
    @!%p1 bra $end;
    atom.global.add.u32 %r10, [%rd2], 1;
    setp.ne.u32 %p2, %r10, 3;
    @%p2 bra $end;
    ld.global.u32 %r11, [%rd2+64]; //!
$end:""",
        """
    mul.wide.u32 %rd6, %r2, 4; add.s64 %rd6, %rd2, %rd6;
    @%p1 st.global.u32 [%rd6+64], %r2;
    @!%p1 bra $end;
    membar.gl;
    atom.global.add.u32 %r10, [%rd2], 1;
    membar.gl;
    setp.ne.u32 %p2, %r10, 3;
    @%p2 bra $end;
    ld.global.u32 %r11, [%rd2+64];
$end:""",
        {"grid": 4},
    ),
    Pair(  # the same with an atomic that releases and acquires; here the barrier before it is missing
        "race",
        """
    mul.wide.u32 %rd6, %r2, 256; add.s64 %rd6, %rd5, %rd6;
    st.global.u32 [%rd6+256], %r2;
    @!%p1 bra $end;
    atom.acq_rel.gpu.global.add.u32 %r10, [%rd2], 1;
    setp.ne.u32 %p2, %r10, 1;
    @%p2 bra $end;
    ld.global.u32 %r11, [%rd2+300]; //!
    ld.global.u32 %r11, [%rd2+556]; //!
$end:""",
        """
    mul.wide.u32 %rd6, %r2, 256; add.s64 %rd6, %rd5, %rd6;
    st.global.u32 [%rd6+256], %r2;
    bar.sync 0;
    @!%p1 bra $end;
    atom.acq_rel.gpu.global.add.u32 %r10, [%rd2], 1;
    setp.ne.u32 %p2, %r10, 1;
    @%p2 bra $end;
    ld.global.u32 %r11, [%rd2+300];
    ld.global.u32 %r11, [%rd2+556];
$end:""",
        {"grid": 2},
    ),
    Pair(  # atomics of CTA scope do not reach another CTA
        "race",
        "    red.relaxed.cta.global.add.u32 [%rd2], 1; //!",
        "    red.relaxed.gpu.global.add.u32 [%rd2], 1;",
        {"grid": 2},
    ),
    Pair(  # a flag in shared memory
        "race",
        FILL + """
    bar.sync 0;
    setp.eq.u32 %p2, %r1, 32;
    @%p1 st.shared.u32 [buf+4], 77;
    @%p1 st.release.cta.shared.u32 [buf], 99;
    @!%p2 bra $end;
$spin:
    ld.relaxed.cta.shared.u32 %r10, [buf];
    setp.ne.u32 %p3, %r10, 99;
    @%p3 bra $spin;
    ld.shared.u32 %r11, [buf+4]; //!
$end:""",
        FILL + """
    bar.sync 0;
    setp.eq.u32 %p2, %r1, 32;
    @%p1 st.shared.u32 [buf+4], 77;
    @%p1 st.release.cta.shared.u32 [buf], 99;
    @!%p2 bra $end;
$spin:
    ld.acquire.cta.shared.u32 %r10, [buf];
    setp.ne.u32 %p3, %r10, 99;
    @%p3 bra $spin;
    ld.shared.u32 %r11, [buf+4];
$end:""",
    ),
    Pair(  # an mbarrier is used before its initialisation is visible
        "race",
        "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    mbarrier.arrive.shared.b64 %rd6, [bar]; //!",
        "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar];",
    ),
    Pair(  # arriving at an mbarrier is not waiting for it
        "race",
        "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n" + FILL
        + "    mbarrier.arrive.shared.b64 %rd6, [bar];\n    ld.shared.u32 %r10, [buf+28]; //!",
        "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n" + FILL
        + "    mbarrier.arrive.shared.b64 %rd6, [bar];\n$w:\n    mbarrier.try_wait.shared.b64 %p2, [bar], %rd6;\n"
        "    @!%p2 bra $w;\n    ld.shared.u32 %r10, [buf+28];",
    ),
    Pair(  # a wait is only for the thread that waits
        "race",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.wait_all;\n"
        "    ld.shared.u32 %r10, [buf+28]; //!\n    st.global.u32 [%rd5], %r10;",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.wait_all;\n    bar.sync 0;\n"
        "    ld.shared.u32 %r10, [buf+28];\n    st.global.u32 [%rd5], %r10;",
    ),
    Pair(  # the consumers have not released the stage that is refilled
        "race",
        INIT + LOAD + WAIT + """
    ld.shared.u32 %r10, [%r5];
    st.global.u32 [%rd5], %r10;
    @!%p1 bra $done;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 1024, [bar]; //!
$refilled:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1;
    @!%p2 bra $refilled;
$done:""",
        INIT + LOAD + WAIT + """
    ld.shared.u32 %r10, [%r5];
    st.global.u32 [%rd5], %r10;
    bar.sync 0;
    @!%p1 bra $done;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 1024, [bar];
$refilled:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1;
    @!%p2 bra $refilled;
$done:""",
    ),
    Pair(  # the barrier is missing
        "race",
        FILL + FENCE + "    bar.warp.sync 0xffffffff;\n" + STORE.format(" //!", "    cp.async.bulk.wait_group 0;"),
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group 0;"),
    ),
    Pair(  # the others wait_group for nothing: the group is the issuer's
        "race",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group.read 0;")
        + "    st.shared.u32 [%r5], %r2; //!",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group.read 0;")
        + "    bar.sync 0;\n    st.shared.u32 [%r5], %r2;",
    ),
    Pair(  # distributed shared memory without a barrier of the cluster
        "race",
        "    barrier.cluster.arrive.relaxed; barrier.cluster.wait;\n" + FILL + "    bar.sync 0;\n    mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1;\n"
        "    mapa.shared::cluster.u32 %r11, %r5, %r10;\n    ld.shared::cluster.u32 %r12, [%r11]; //!\n"
        "    barrier.cluster.arrive; barrier.cluster.wait;",
        FILL + "    barrier.cluster.arrive; barrier.cluster.wait;\n"
        "    mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1;\n"
        "    mapa.shared::cluster.u32 %r11, %r5, %r10;\n    ld.shared::cluster.u32 %r12, [%r11];\n"
        "    barrier.cluster.arrive; barrier.cluster.wait;",
        {"grid": 2, "cluster": 2},
    ),
]  # fmt: skip
