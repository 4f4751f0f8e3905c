"""Copies and operands that are still in flight."""

from __future__ import annotations

from .. import tensor_pieces as tensor
from .. import wgmma_pieces as wgmma
from ..pieces import FENCE, FILL, INIT, LOAD, STORE, WAIT, Pair

COMMITTED = wgmma.READY + wgmma.BEGIN + wgmma.MMA + "\n    wgmma.commit_group.sync.aligned;\n"
WAITED = "    wgmma.wait_group.sync.aligned 0;\n"
OVERWRITE = "    bar.sync 0;\n    st.shared.u32 [%r5], %r1;"
PAIRS = [
    Pair(
        "cp-async-not-waited",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;\n"
        "    ld.shared.u32 %r10, [%r5]; //!\n    st.global.u32 [%rd5], %r10;\n    cp.async.wait_all;",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;\n    cp.async.wait_group 0;\n"
        "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;",
    ),
    Pair(  # the group that is read is the latest, which wait_group 1 leaves in flight
        "cp-async-not-waited",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;\n"
        "    cp.async.ca.shared.global [%r5+512], [%rd4], 4;\n    cp.async.commit_group;\n    cp.async.wait_group 1;\n"
        "    ld.shared.u32 %r10, [%r5+512]; //!\n    st.global.u32 [%rd5], %r10;\n    cp.async.wait_all;",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;\n"
        "    cp.async.ca.shared.global [%r5+512], [%rd4], 4;\n    cp.async.commit_group;\n    cp.async.wait_group 1;\n"
        "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;\n    cp.async.wait_all;",
    ),
    Pair(
        "bulk-copy-not-waited",
        INIT + LOAD + "    bar.sync 0;\n    ld.shared.u32 %r10, [%r5]; //!\n    st.global.u32 [%rd5], %r10;\n" + WAIT,
        INIT + LOAD + WAIT + "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;\n",
    ),
    Pair(  # the wrong stage's barrier
        "bulk-copy-not-waited",
        INIT + LOAD + """
    @%p1 mbarrier.arrive.shared.b64 _, [bar+8];
$other:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar+8], 0;
    @!%p2 bra $other;
    ld.shared.u32 %r10, [%r5]; //!
    st.global.u32 [%rd5], %r10;
""" + WAIT,
        INIT + LOAD + """
    @%p1 mbarrier.arrive.shared.b64 _, [bar+8];
$other:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar+8], 0;
    @!%p2 bra $other;
""" + WAIT + "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;\n",
    ),
    Pair(
        "bulk-source-reused",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "") + "    bar.sync 0;\n"
        "    st.shared.u32 [%r5], %r2; //!\n    @%p1 cp.async.bulk.wait_group 0;",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group.read 0;")
        + "    bar.sync 0;\n    st.shared.u32 [%r5], %r2;",
    ),
    Pair(  # .read says nothing of the destination
        "bulk-copy-not-waited",
        FILL + FENCE + "    bar.sync 0;\n"
        + STORE.format("", "    cp.async.bulk.wait_group.read 0;\n    ld.global.u32 %r10, [%rd2]; //!"),
        FILL + FENCE + "    bar.sync 0;\n"
        + STORE.format("", "    cp.async.bulk.wait_group 0;\n    ld.global.u32 %r10, [%rd2];"),
    ),
    Pair("tcgen05-source-reused", tensor.BEGIN + tensor.COPIED + tensor.COMMIT + "    bar.sync 0;\n    st.shared.u32 [%r5], %r1; //!\n" + tensor.WAIT
         + tensor.AFTER + tensor.END, tensor.BEGIN + tensor.COPIED + tensor.COMMIT + tensor.WAIT + "    st.shared.u32 [%r5], %r1;\n" + tensor.AFTER + tensor.END, {"block": 128, "sm": 100}),
    Pair("wgmma-source-reused", COMMITTED + OVERWRITE + " //!\n" + WAITED, COMMITTED + WAITED + OVERWRITE, {"block": 128}),
]  # fmt: skip
