"""Tensor memory."""

from __future__ import annotations

from ..pieces import Pair
from ..tensor_pieces import (
    AFTER,
    ALLOCATE,
    BEGIN,
    COMMIT,
    COPIED,
    COPY,
    END,
    FILL,
    LOAD,
    LOADED,
    MEET,
    PASSED,
    PROXY,
    STORE,
    STORED,
    USE,
    WAIT,
)

PEERS = """
    setp.lt.u32 %p4, %r1, 32;{begun}
    @!%p4 bra $allocated;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [bar+24], 32;{mark}
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
$allocated:
    bar.sync 0;
    ld.shared.b32 %r20, [bar+24];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    @!%p4 bra $freed;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r20, 32;
$freed:
"""
BEGUN = "\n    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PAIRS = [
    Pair("uninitialised-tensor", BEGIN + LOAD + " //!" + LOADED + USE + END,
         BEGIN + STORE + STORED + LOAD + LOADED + USE + END, {"block": 128, "sm": 100}),
    Pair("tensor-leak", ALLOCATE.format(" //!"), BEGIN + END, {"block": 128, "sm": 100}),
    Pair("tcgen05-wait", BEGIN + STORE + STORED + LOAD + "\n" + USE + " //!" + LOADED + END,
         BEGIN + STORE + STORED + LOAD + LOADED + USE + END, {"block": 128, "sm": 100}, "warning"),
    Pair("tcgen05-wait", BEGIN + STORE + LOAD + " //!" + LOADED + USE + STORED + END,
         BEGIN + STORE + STORED + LOAD + LOADED + USE + END, {"block": 128, "sm": 100}, "error"),
    Pair("tcgen05-fence", PASSED + MEET.replace("tcgen05.fence::before_thread_sync;", "") + LOAD + " //!" + LOADED
         + USE + END, PASSED + MEET + LOAD + LOADED + USE + END, {"block": 256, "sm": 100}, "warning"),
    Pair("tcgen05-fence", PASSED + MEET.replace("tcgen05.fence::after_thread_sync;", "") + LOAD + " //!" + LOADED
         + USE + END, PASSED + MEET + LOAD + LOADED + USE + END, {"block": 256, "sm": 100}, "warning"),
    # a barrier says nothing about what a thread has issued
    Pair("tcgen05-commit", BEGIN + COPIED + COMMIT + MEET + LOAD + " //!" + LOADED + USE + WAIT + END,
         BEGIN + COPIED + COMMIT + WAIT + AFTER + LOAD + LOADED + USE + END, {"block": 128, "sm": 100}),
    Pair("tcgen05-fence", BEGIN + COPIED + COMMIT + WAIT + LOAD + " //!" + LOADED + USE + END,
         BEGIN + COPIED + COMMIT + WAIT + AFTER + LOAD + LOADED + USE + END, {"block": 128, "sm": 100}, "warning"),
    # a commit before the operation says nothing about it
    Pair("tcgen05-commit", BEGIN + FILL + PROXY + "    bar.sync 0;\n" + COMMIT + COPY + WAIT + AFTER + LOAD + " //!"
         + LOADED + USE + "\n    @%p1 mbarrier.init.shared.b64 [bar+8], 1;\n"
         "    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];\n"
         "    bar.sync 0;\n$late:\n    mbarrier.try_wait.parity.shared.b64 %p2, [bar+8], 0;\n    @!%p2 bra $late;\n" + END,
         BEGIN + COPIED + COMMIT + WAIT + AFTER + LOAD + LOADED + USE + END, {"block": 128, "sm": 100}),
    # the accumulator is overwritten while a warp reads it
    Pair("tcgen05-wait", BEGIN + STORE + STORED + LOAD + MEET + COPIED + " //!" + COMMIT + WAIT + AFTER + LOADED + END,
         BEGIN + STORE + STORED + LOAD + LOADED + MEET + COPIED + COMMIT + WAIT + AFTER + END, {"block": 128, "sm": 100}, "error"),
    # given back too early
    Pair("tcgen05-commit", BEGIN + COPIED + COMMIT + END.replace(", 32;", ", 32; //!") + WAIT,
         BEGIN + COPIED + COMMIT + WAIT + END, {"block": 128, "sm": 100}),
    Pair("race", PASSED + LOAD + " //!" + LOADED + USE + END, PASSED + MEET + LOAD + LOADED + USE + END, {"block": 256, "sm": 100}),
    Pair("proxy", BEGIN + FILL + "    bar.sync 0;\n" + COPY + " //!" + COMMIT + WAIT + AFTER + END,
         BEGIN + COPIED + COMMIT + WAIT + AFTER + END, {"block": 128, "sm": 100}),
    Pair("tcgen05-peer", PEERS.format(begun="", mark=" //!"), PEERS.format(begun=BEGUN, mark=""),
         {"grid": 2, "cluster": 2, "block": 64, "sm": 100}),
]  # fmt: skip
