"""More mistakes from public reports, whose issue is named; each is found, and its corrected twin is silent in any order."""

from __future__ import annotations

import numpy as np
import pytest

from .test_public_reports import BOX, INIT, MULTIPLY, Report, run

WAIT = """
$wait{0}:
    mbarrier.try_wait.parity.{1}shared::cta.b64 %p5, [{2}], {3};
    @!%p5 bra $wait{0};
"""


def wait(number: int, barrier: str, phase: str = "0", order: str = "") -> str:
    return WAIT.format(number, order, barrier, phase)


MEET = "    barrier.cluster.arrive; barrier.cluster.wait;\n"
PEER = """
    mov.u32 %r40, %cluster_ctarank; xor.b32 %r41, %r40, 1; setp.eq.u32 %p10, %r40, 0;
    mov.u32 %r42, full; mapa.shared::cluster.u32 %r43, %r42, %r41; mapa.shared::cluster.u32 %r44, %r7, %r41;
"""
"""%p10: rank 0; %r43: the peer's `full`; %r44: the thread's word in the peer's tile."""
CLUSTER_INIT = INIT.replace("bar.sync 0;", MEET) + PEER

TRAMPOLINE = (
    CLUSTER_INIT.replace("[full], 1", "[full], 64").replace("{0}", "1")
    + """
    @%p10 bra $leader;
    st.shared.u32 [%r7], %r1;
    mbarrier.arrive.{0}.shared::cluster.b64 _, [%r43];
    bra $end;
$leader:
"""
    + WAIT.format(0, "{1}", "full", "0")
    + """
    ld.shared::cluster.u32 %r45, [%r44]; st.global.u32 [%rd7], %r45;
$end:
"""
    + MEET
)
"""CTA 1 writes its tile, and CTA 0 reads it when all have arrived at its mbarrier. {0}: arrive, {1}: wait."""

SEMAPHORE = """
    mul.wide.u32 %rd8, %r1, 16; add.s64 %rd8, %rd8, %rd2; setp.eq.u32 %p4, %r2, 0;
    @%p4 bra $mine;
    @!%p1 bra $turn;
$poll:
    {1}
    setp.ne.u32 %p6, %r10, %r2;
    @%p6 bra $poll;
    {2}
$turn:
    bar.sync 0;
$mine:
    ld.global.u32 %r11, [%rd8]; add.u32 %r11, %r11, 1; st.global.u32 [%rd8], %r11;
    bar.sync 0;
    add.u32 %r12, %r2, 1;
    {0}
"""
"""CTAs add to one tile of global memory in turn. {0}: the release, {1}: the poll, {2}: what comes after it."""
RELEASE = "@%p1 st.release.gpu.global.u32 [%rd2+16000], %r12;"
ACQUIRE = "ld.acquire.gpu.global.u32 %r10, [%rd2+16000];"

WITHOUT_TILES = """
    st.shared.u32 [%r7], %r0; st.shared.u32 [%r7+256], %r0; st.shared.u32 [%r7+512], %r0; st.shared.u32 [%r7+768], %r0;
    {0}
    ld.global.u32 %r10, [%rd2+16000];
$tile:
    setp.eq.u32 %p6, %r10, 0;
    @%p6 bra $stored;
    st.shared.u32 [%r7], %r10;
    fence.proxy.async.shared::cta;
    sub.u32 %r10, %r10, 1; bra $tile;
$stored:
    bar.sync 0;
    @!%p1 bra $end;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {{%r0, %r0}}], [%r5];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
$end:
"""

HANDED_OVER = (
    INIT.format(1)
    + """
    @!%p3 bra $reader;
    st.shared.u32 [%r7], %r1;
    {}
    @%p2 mbarrier.arrive.shared.b64 _, [full];
    bra $end;
$reader:
"""
    + wait(0, "full")
    + """
    xor.b32 %r10, %r6, 128; add.u32 %r10, %r10, %r5; ld.shared.u32 %r11, [%r10]; st.global.u32 [%rd7], %r11;
$end:
"""
)

EDIT = (
    INIT.format(1)
    + """
    shl.b32 %r8, %r1, 4; add.u32 %r8, %r8, %r5; st.shared.v4.u32 [%r8], {{%r0, %r0, %r0, %r0}};
    fence.proxy.async.shared::cta; bar.sync 0;
    @!%p1 bra $end;
    add.s64 %rd10, %rd2, 8192; mov.u64 %rd12, 0;
$copy:
    add.s64 %rd13, %rd3, %rd12; ld.v2.u64 {{%rd14, %rd15}}, [%rd13]; add.s64 %rd13, %rd10, %rd12;
    st.global.v2.u64 [%rd13], {{%rd14, %rd15}}; add.s64 %rd12, %rd12, 16; setp.lt.u64 %p6, %rd12, 128;
    @%p6 bra $copy;
    fence.proxy.tensormap::generic.release.gpu;
    fence.proxy.tensormap::generic.acquire.gpu [%rd10], 128;
    {0}
    {1}
    add.s64 %rd11, %rd1, 256;
    tensormap.replace.tile.global_address.global.b1024.b64 [%rd10], %rd11;
    fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%rd10], 128;
    {2}
$end:
"""
)
"""A tensor map in global memory (at dst + 8192) is edited between two copies that use it. {0}: the first copy, {1}: the wait."""
LOAD = (
    "mbarrier.arrive.expect_tx.shared.b64 _, [full], 1024; cp.async.bulk.tensor.2d.shared::cluster.global"
    ".mbarrier::complete_tx::bytes [%r5], [%rd10, {%r0, %r0}], [full];"
)
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd10, {%r0, %r0}], [%r5]; cp.async.bulk.commit_group;"

RELOADED = (
    INIT.format(1)
    + """
    @!%p1 bra $end;
    mov.u32 %r10, 0;
$step:
    and.b32 %r11, %r10, 1; shl.b32 %r12, %r11, 10; add.u32 %r20, %r5, %r12; shl.b32 %r22, %r10, 4; mov.u32 %r21, 0;
    shl.b32 %r14, %r11, 3; mov.u32 %r23, full; add.u32 %r23, %r23, %r14; shr.u32 %r15, %r10, 1;
    {0}
    mbarrier.arrive.expect_tx.shared.b64 _, [%r23], 1024;
"""
    + BOX
    + WAIT.format(0, "", "%r23", "%r15")
    + """
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {{%r0, %r22}}], [%r20]; cp.async.bulk.commit_group;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 4;
    @%p6 bra $step;
    cp.async.bulk.wait_group 0;
$end:
"""
)
"""Tiles go through two buffers by TMA, in and out. {0}: the wait for the store that reads a buffer."""

DESCRIPTORS = """
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    shr.u32 %r13, %r5, 4; cvt.u64.u32 %rd20, %r13; or.b64 %rd20, %rd20, 0x0000001000080000; add.s64 %rd21, %rd20, 256;
"""
TWO_TILES = (
    INIT.format(1)
    + DESCRIPTORS
    + """
    @!%p1 bra $multiply;
    mbarrier.arrive.expect_tx.shared.b64 _, [full], 4096; mbarrier.arrive.expect_tx.shared.b64 _, [full+8], 4096;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 4096, [full];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+4096], [%rd1], 4096, [full+8];
$multiply:
"""
    + wait(0, "full").replace("{", "{{").replace("}", "}}")
    + "{0}"
    + MULTIPLY
    + """
    wgmma.wait_group.sync.aligned 0;
    {1}
    st.global.f32 [%rd7], %f0;
"""
)
"""A and B of a wgmma come by two copies with two mbarriers. {0}, {1}: the wait for the second."""
SECOND = wait(1, "full+8")

FILLED = """
    mov.u32 %r15, 0;
$fill:
    mad.lo.u32 %r16, %r1, 16, %r5; add.u32 %r16, %r16, %r15; st.shared.v4.u32 [%r16], {{%r0, %r0, %r0, %r0}};
    add.u32 %r15, %r15, 4096; setp.lt.u32 %p6, %r15, 8192;
    @%p6 bra $fill;
    fence.proxy.async.shared::cta; bar.sync 0;
"""
WARPGROUPS = (
    FILLED
    + DESCRIPTORS
    + """
    setp.ge.u32 %p7, %r1, 128;
    @%p7 bra $other;
"""
    + MULTIPLY
    + """
    wgmma.wait_group.sync.aligned 0;
    {0}
    bra $end;
$other:
    {0}
    st.shared.u32 [tile], 7;
$end:
"""
)
"""The second warpgroup writes what the first one's wgmma reads. {0}: a barrier of both."""

FRAGMENT = (
    FILLED
    + DESCRIPTORS
    + """
    mov.b32 %r30, 0; mov.b32 %r31, 0; mov.b32 %r32, 0; mov.b32 %r33, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f0, %f1, %f2, %f3}}, {{%r30, %r31, %r32, %r33}}, %rd21, 1, 1, 1, 0;
    wgmma.commit_group.sync.aligned;
    {0}
    ld.global.u32 %r30, [%rd6];
    wgmma.wait_group.sync.aligned 0;
    st.global.f32 [%rd7], %f0;
"""
)
"""The fragment of A in registers is loaded anew. {0}: the wait before it."""

TENSOR = """
    setp.eq.u32 %p7, %r3, 4; setp.eq.u32 %p8, %r1, 128; setp.lt.u32 %p9, %r1, 128;
    mov.u32 %r15, 0;
$fill:
    mad.lo.u32 %r16, %r1, 16, %r5; add.u32 %r16, %r16, %r15; setp.ge.u32 %p6, %r15, 2048;
    @%p9 st.shared.v4.u32 [%r16], {{%r0, %r0, %r0, %r0}};
    add.u32 %r15, %r15, 2048;
    @!%p6 bra $fill;
    @!%p8 bra $initialised;
    mbarrier.init.shared.b64 [full], 1; mbarrier.init.shared.b64 [empty], 128; fence.mbarrier_init.release.cluster;
$initialised:
    fence.proxy.async.shared::cta;
    @!%p7 bra $allocated;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [word], 32;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
$allocated:
    tcgen05.fence::before_thread_sync; {0} tcgen05.fence::after_thread_sync;
    ld.shared.u32 %r30, [word];
    {1}
    shl.b32 %r31, %r3, 21; add.u32 %r31, %r31, %r30; mov.u32 %r10, 0;
    shr.u32 %r13, %r5, 4; cvt.u64.u32 %rd20, %r13; or.b64 %rd20, %rd20, 0x0000401000080000;
    @!%p7 bra $epilogue;
$issue:
    {2}
    tcgen05.fence::after_thread_sync;
    @%p8 tcgen05.cp.cta_group::1.128x256b [%r30], %rd20;
    @%p8 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 3;
    @%p6 bra $issue;
    {3}
    tcgen05.fence::after_thread_sync;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 32;
    bra $end;
$epilogue:
    and.b32 %r12, %r10, 1;
$full:
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [full], %r12;
    @!%p5 bra $full;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r32}}, [%r31];
    {4}
    tcgen05.fence::before_thread_sync;
    mbarrier.arrive.shared::cta.b64 _, [empty];
    {5}
    add.s64 %rd7, %rd7, 1024; st.global.u32 [%rd7], %r32;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 3;
    @%p6 bra $epilogue;
$end:
"""
"""Warp 4 fills an accumulator three times, and warps 0 to 3 read it. {0}, {1}: barriers around the read of its address, {2}:
the wait for it to be free, {3}: the wait before it is given back, {4}, {5}: waits for the registers.
"""
FREE = """and.b32 %r11, %r10, 1; xor.b32 %r11, %r11, 1;
$free:
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [empty], %r11;
    @!%p5 bra $free;
"""
LAST = FREE.replace("$free", "$last")
LOADED = "tcgen05.wait::ld.sync.aligned;"

REPORTS = [
    Report("CUTLASS 2835: the address of tensor memory is read without a barrier", {"race"}, TENSOR,
           ("", "bar.sync 0;", FREE, LAST, LOADED, ""), ("bar.sync 0;", "", FREE, LAST, LOADED, ""), block=160,
           target="sm_100a"),
    Report("flashinfer 5334: an accumulator is given free before it is read", {"race", "tcgen05-wait"}, TENSOR,
           ("bar.sync 0;", "", FREE, LAST, "", LOADED), ("bar.sync 0;", "", FREE, LAST, LOADED, ""), block=160,
           target="sm_100a"),
    Report("cudnn-frontend 396: an accumulator is overwritten before it is free", {"race", "deadlock"}, TENSOR,
           ("bar.sync 0;", "", "", LAST, LOADED, ""), ("bar.sync 0;", "", FREE, LAST, LOADED, ""), block=160,
           target="sm_100a"),
    Report("CUTLASS 3652: tensor memory is given back while it may be read", {"race", "fault"}, TENSOR,
           ("bar.sync 0;", "", FREE, "", LOADED, ""), ("bar.sync 0;", "", FREE, LAST, LOADED, ""), block=160,
           target="sm_100a"),
    Report("CUTLASS 3324: arrivals at the peer's mbarrier release at CTA scope", {"race"}, TRAMPOLINE,
           ("release.cta", "acquire.cluster."), ("release.cluster", "acquire.cluster."), grid=2, cluster=2),
    Report("CUTLASS 3324: the leader acquires at CTA scope what the peer wrote", {"race"}, TRAMPOLINE,
           ("release.cluster", "acquire.cta."), ("release.cluster", "acquire.cluster."), grid=2, cluster=2),
    Report("CUTLASS 3647: nobody tells the leader of the peer's copy", {"bulk-copy-not-waited"}, CLUSTER_INIT.format(1) + """
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 256, [full];
""" + wait(0, "full") + """
    {}
    @!%p10 bra $end;
    ld.shared::cluster.u32 %r45, [%r44]; st.global.u32 [%rd7], %r45;
$end:
    barrier.cluster.arrive; barrier.cluster.wait;""", ("",), (MEET,), grid=2, cluster=2),
    Report("cudnn-frontend 426: all lanes store and one lane arrives", {"race"}, HANDED_OVER,
           ("",), ("bar.warp.sync 0xffffffff;",)),
    Report("FlashKDA 24: the only fence is in a loop that is not executed", {"proxy"}, WITHOUT_TILES,
           ("",), ("fence.proxy.async.shared::cta;",)),
    Report("DeepGEMM 343: a tensor map is edited while a load may still read it", {"tensor-map-in-use"}, EDIT,
           (LOAD, "", wait(0, "full")), (LOAD, wait(0, "full"), "")),
    Report("CUTLASS 2162: a tensor map is edited while a store may still read it", {"tensor-map-in-use"}, EDIT,
           (STORE, "", "cp.async.bulk.wait_group 0;"), (STORE, "cp.async.bulk.wait_group.read 0;",
            "cp.async.bulk.wait_group 0;")),
    Report("DeepEP 657: a load overwrites what the store before still reads", {"bulk-source-reused"}, RELOADED,
           ("cp.async.bulk.wait_group.read 2;",), ("cp.async.bulk.wait_group.read 1;",)),
    Report("CUTracer 106: the wait for an operand comes after the wgmma", {"bulk-copy-not-waited"}, TWO_TILES,
           ("", SECOND), (SECOND, ""), block=128),
    Report("Triton 11047: another warpgroup writes what a wgmma reads", {"wgmma-source-reused", "race"}, WARPGROUPS,
           ("",), ("bar.sync 1, 256;",), block=256),
    Report("Triton 9433: a fragment of A is loaded anew while the wgmma reads it", {"wgmma-register"}, FRAGMENT,
           ("",), ("wgmma.wait_group.sync.aligned 0;",), block=128),
    Report("Triton 10656: a CTA reads its peer's memory, which may have exited", {"cluster-exit"},
           CLUSTER_INIT.format(1) + "    st.shared.u32 [%r7], %r1;\n" + MEET + """
    ld.shared::cluster.u32 %r45, [%r44]; st.global.u32 [%rd7], %r45;
    {}""", ("",), (MEET,), grid=2, cluster=2),
    Report("hopper-gemm 3: a producer leaves and its peers still arrive", {"cluster-exit"}, CLUSTER_INIT.format(1) + """
    @!%p1 bra $end;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r43];
    {}
$end:""", ("",), (wait(0, "full", order="acquire.cluster."),), grid=2, cluster=2),
    Report("TVM 20074: the local form of an arrival at a remote mbarrier", {"fault"}, CLUSTER_INIT.format(1) + """
    @%p1 mbarrier.arrive.{}.b64 _, [%r43];
    """ + wait(0, "full", order="acquire.cluster.") + MEET, ("shared::cta",), ("release.cluster.shared::cluster",), grid=2, cluster=2),
    Report("Triton 9498: a warp arrives where one arrival is expected", {"fault", "deadlock"}, INIT.format(1) + """
    @%p3 bra $arrive; bra $end;
$arrive:
    {} mbarrier.arrive.shared.b64 _, [full];
$end:""" + wait(0, "full"), ("",), ("@%p1",)),
    Report("TileLang 2644: the bytes of a multicast are counted once for each CTA", {"deadlock"}, CLUSTER_INIT.format(1) + """
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], {};
""" + MEET + """
    mov.b16 %h1, 3; and.pred %p11, %p1, %p10;
    @%p11 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%rd1], 256, [full], %h1;
""" + wait(0, "full") + "    ld.shared.u32 %r45, [%r7]; st.global.u32 [%rd7], %r45;\n" + MEET, ("512",), ("256",), grid=2, cluster=2),
    Report("TLX 908: only the first CTA expects the answer that goes to all", {"deadlock", "fault"}, CLUSTER_INIT.format(1) + """
    {} mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
""" + MEET + """
    and.pred %p11, %p1, %p10;
    @%p11 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [tile], [full];
""" + wait(0, "full") + MEET, ("and.pred %p12, %p1, %p10; @%p12",), ("@%p1",), grid=2, cluster=2, target="sm_100a"),
    Report("Fuser 2391: a semaphore is released without a fence", {"race"}, SEMAPHORE,
           ("@%p1 st.relaxed.gpu.global.u32 [%rd2+16000], %r12;", ACQUIRE, ""),
           ("@%p1 fence.acq_rel.gpu; @%p1 st.relaxed.gpu.global.u32 [%rd2+16000], %r12;", ACQUIRE, ""), grid=3),
    Report("CUTLASS 3117: a relaxed poll, and a warp barrier for the rest", {"race"}, SEMAPHORE,
           (RELEASE, "ld.relaxed.gpu.global.u32 %r10, [%rd2+16000];", "bar.warp.sync 1;"),
           (RELEASE, "ld.relaxed.gpu.global.u32 %r10, [%rd2+16000];", "fence.acq_rel.gpu;"), grid=3),
    Report("Fuser 2391: a block releases before all its threads have stored", {"race"},
           SEMAPHORE.replace("st.global.u32 [%rd8], %r11;\n    bar.sync 0;", "st.global.u32 [%rd8], %r11;\n    {3}"),
           (RELEASE, ACQUIRE, "", ""), (RELEASE, ACQUIRE, "", "bar.sync 0;"), grid=3),
    Report("only one thread's stores are in front of its fence", {"race"},
           SEMAPHORE.replace("st.global.u32 [%rd8], %r11;\n", "st.global.u32 [%rd8], %r11; {3}\n"),
           ("@%p1 st.relaxed.gpu.global.u32 [%rd2+16000], %r12;", ACQUIRE, "", "@%p1 fence.acq_rel.gpu;"),
           ("@%p1 st.relaxed.gpu.global.u32 [%rd2+16000], %r12;", ACQUIRE, "", "fence.acq_rel.gpu;"), grid=3),
    Report("colibri 1099: lanes read a wmma tile without a warp barrier", {"race"}, """
    mov.f32 %f1, 0f3F800000;
    @!%p3 bra $end;
    wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r5], {{%f1, %f1, %f1, %f1, %f1, %f1, %f1, %f1}}, 16;
    {}
    xor.b32 %r10, %r4, 1; mad.lo.u32 %r10, %r10, 32, %r5; ld.shared.v4.f32 {{%f2, %f3, %f4, %f5}}, [%r10]; st.global.f32 [%rd7], %f2;
$end:""", ("",), ("bar.warp.sync 0xffffffff;",)),
    Report("cuCollections 337: a vote is taken for a barrier", {"race"}, """
    st.shared.u32 [%r7], %r1;
    {} vote.sync.ballot.b32 %r10, %p2, 0xffffffff;
    xor.b32 %r11, %r6, 4; add.u32 %r11, %r11, %r5; ld.shared.u32 %r12, [%r11]; add.u32 %r12, %r12, %r10;
    st.global.u32 [%rd7], %r12;""", ("",), ("bar.warp.sync 0xffffffff;",)),
    Report("llama.cpp 28475: one loop of a warp reads what the loop before wrote", {"race"}, """
    @!%p3 bra $end;
    mov.u32 %r10, %r4;
$write:
    mad.lo.u32 %r11, %r10, 4, %r5; st.shared.u32 [%r11], %r10; add.u32 %r10, %r10, 32; setp.lt.u32 %p6, %r10, 128;
    @%p6 bra $write;
    {}
    mov.u32 %r10, 0; mov.u32 %r12, 0;
$read:
    mad.lo.u32 %r11, %r10, 4, %r5; ld.shared.u32 %r13, [%r11]; add.u32 %r12, %r12, %r13; add.u32 %r10, %r10, 1;
    setp.lt.u32 %p6, %r10, 128;
    @%p6 bra $read;
    st.global.u32 [%rd7], %r12;
$end:""", ("",), ("bar.warp.sync 0xffffffff;",)),
    Report("PyTorch 162995: the rows' sum reuses the columns' scratch memory", {"race"}, """
    st.shared.u32 [%r7], %r1;
    bar.sync 0;
    ld.shared.u32 %r10, [%r7]; xor.b32 %r11, %r6, 128; add.u32 %r11, %r11, %r5; ld.shared.u32 %r12, [%r11];
    add.u32 %r10, %r10, %r12;
    {}
    st.shared.u32 [%r7], %r10;
    bar.sync 0;
    xor.b32 %r11, %r6, 4; add.u32 %r11, %r11, %r5; ld.shared.u32 %r12, [%r11]; st.global.u32 [%rd7], %r12;""",
           ("",), ("bar.sync 0;",)),
]  # fmt: skip
NAMES = [report.name for report in REPORTS]


@pytest.mark.parametrize("report", REPORTS, ids=NAMES)
def test_the_mistake_is_found(report: Report) -> None:
    for seed in (0, 5):
        rules, text = run(report, report.broken, seed)
        assert rules, f"nothing was found (seed {seed})"
        assert rules <= report.rules, text


@pytest.mark.parametrize("report", REPORTS, ids=NAMES)
def test_the_corrected_kernel_is_silent(report: Report) -> None:
    for seed in (0, int(np.random.default_rng().integers(1, 1 << 30)), 7):
        rules, text = run(report, report.corrected, seed)
        assert not rules, f"seed {seed}: {text}"
