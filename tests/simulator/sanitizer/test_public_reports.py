"""Mistakes from public reports (issue trackers of CUTLASS, Triton, DeepEP, FlashKDA, Fuser, the CUDA guides), as kernels of
several stages, warps and CTAs: each is found, and its corrected twin is silent in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import load, tensor_map
from pyptx.simulator.sanitizer import Finding

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst, .param .align 64 .b8 in_map[128], .param .align 64 .b8 out_map[128])
{
    .reg .pred %p<20>; .reg .b16 %h<4>; .reg .b32 %r<60>; .reg .f32 %f<40>; .reg .b64 %rd<40>;
    .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 full[4]; .shared .align 8 .b64 empty[4];
    .shared .align 4 .b32 word[32];
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst];
    mov.b64 %rd3, in_map; cvta.param.u64 %rd3, %rd3; mov.b64 %rd4, out_map; cvta.param.u64 %rd4, %rd4;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r0, 0;
    shr.u32 %r3, %r1, 5; and.b32 %r4, %r1, 31;
    setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r4, 0; setp.eq.u32 %p3, %r3, 0;
    mov.u32 %r5, tile; shl.b32 %r6, %r1, 2; add.u32 %r7, %r5, %r6;
    mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd1, %rd5; add.s64 %rd7, %rd2, %rd5;
"""
"""%p1: thread 0, %p2: lane 0, %p3: warp 0; %r3 warp, %r4 lane; %r7, %rd6, %rd7: the thread's word of tile, src and dst."""


class Report(NamedTuple):
    name: str
    rules: set[str]
    """The rules that may tell of it; `deadlock` and `fault` for what stops."""
    kernel: str
    broken: tuple[str, ...]
    corrected: tuple[str, ...]
    grid: int = 1
    block: int = 64
    cluster: int | None = None
    target: str = "sm_90a"


INIT = """
    @!%p1 bra $initialised;
    mbarrier.init.shared.b64 [full], 1; mbarrier.init.shared.b64 [full+8], 1;
    mbarrier.init.shared.b64 [empty], {0}; mbarrier.init.shared.b64 [empty+8], {0};
    fence.mbarrier_init.release.cluster;
$initialised:
    bar.sync 0;
"""
BOX = """    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd3, {{%r21, %r22}}], [%r23];
"""
RING = (
    INIT
    + """
    mov.u32 %r10, 0;
    @!%p3 bra $consumer;
$produce:
    and.b32 %r11, %r10, 1; shr.u32 %r12, %r10, 1; and.b32 %r12, %r12, 1; xor.b32 %r13, %r12, 1;
    shl.b32 %r14, %r11, 3; mov.u32 %r23, full; add.u32 %r23, %r23, %r14; mov.u32 %r24, empty; add.u32 %r24, %r24, %r14;
$free:
    mbarrier.try_wait.parity.shared.b64 %p5, [%r24], %r13;
    @!%p5 bra $free;
    shl.b32 %r20, %r11, 10; add.u32 %r20, %r20, %r5; shl.b32 %r22, %r10, 4; mov.u32 %r21, 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r23], {1};
    @%p1 """
    + BOX.strip()
    + """
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 4;
    @%p6 bra $produce;
    bra $end;
$consumer:
    and.b32 %r11, %r10, 1; {2} and.b32 %r12, %r12, 1;
    shl.b32 %r14, %r11, 3; mov.u32 %r23, full; add.u32 %r23, %r23, %r14; mov.u32 %r24, empty; add.u32 %r24, %r24, %r14;
$ready:
    mbarrier.try_wait.parity.shared.b64 %p5, [%r23], %r12;
    @!%p5 bra $ready;
    shl.b32 %r20, %r11, 10; add.u32 %r20, %r20, %r5; shl.b32 %r25, %r4, 2; add.u32 %r20, %r20, %r25;
    {3}
    ld.shared.u32 %r26, [%r20]; st.global.u32 [%rd7], %r26;
    {4}
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 4;
    @%p6 bra $consumer;
$end:
"""
)
"""A producer warp loads boxes into two stages for a consumer warp. {0}: arrivals that free a stage, {1}: bytes, {2}: the
consumer's parity, {3}, {4}: arrivals before and after the data is read.
"""
PARITY = "shr.u32 %r12, %r10, 1;"
ARRIVE = "mbarrier.arrive.shared.b64 _, [%r24];"
ONE = "bar.warp.sync 0xffffffff; @%p2 mbarrier.arrive.shared.b64 _, [%r24];"

EPILOGUE = """
    mov.u32 %r10, 0;
$tile:
    and.b32 %r11, %r10, 1; shl.b32 %r12, %r11, 10; add.u32 %r20, %r5, %r12; shl.b32 %r13, %r1, 4; add.u32 %r13, %r13, %r20;
    @%p1 {0}
    bar.sync 1, 64;
    st.shared.v4.b32 [%r13], {{%r1, %r1, %r10, %r10}};
    {1}
    bar.sync 1, 64;
    shl.b32 %r22, %r10, 4;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {{%r0, %r22}}], [%r20];
    @%p1 cp.async.bulk.commit_group;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 4;
    @%p6 bra $tile;
    @%p1 cp.async.bulk.wait_group 0;
"""
"""Tiles leave through two buffers. {0}: the wait for a buffer, {1}: the fence."""
FENCE = "fence.proxy.async.shared::cta;"

STAGES = """
    cp.async.ca.shared.global [%r7], [%rd6], 4; cp.async.commit_group;
    cp.async.ca.shared.global [%r7+512], [%rd6+512], 4; cp.async.commit_group;
    mov.u32 %r10, 0;
$step:
    {0}
    {1}
    and.b32 %r11, %r10, 1; shl.b32 %r11, %r11, 9; add.u32 %r11, %r11, %r5; xor.b32 %r12, %r6, 128; add.u32 %r12, %r12, %r11;
    ld.shared.u32 %r13, [%r12]; st.global.u32 [%rd7], %r13;
    {2}
    add.u32 %r11, %r11, %r6; shl.b32 %r14, %r10, 9; cvt.u64.u32 %rd8, %r14; add.s64 %rd8, %rd8, %rd6;
    cp.async.ca.shared.global [%r11], [%rd8+1024], 4; cp.async.commit_group;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 4;
    @%p6 bra $step;
    cp.async.wait_all;
"""
"""Two stages of cp.async, read by the other warp. {0}: the wait, {1}, {2}: barriers before and after the data is read."""

REDUCE = """
    ld.global.f32 %f1, [%rd6]; mov.u32 %r10, 0; mov.u32 %r11, word;
$round:
    shfl.sync.bfly.b32 %f2, %f1, 16, 31, 0xffffffff; add.f32 %f1, %f1, %f2;
    shl.b32 %r12, %r3, 2; add.u32 %r12, %r12, %r11;
    @%p2 st.shared.f32 [%r12], %f1;
    {0}
    ld.shared.f32 %f3, [word]; ld.shared.f32 %f4, [word+4]; add.f32 %f1, %f3, %f4;
    {1}
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 2;
    @%p6 bra $round;
    st.global.f32 [%rd7], %f1;
"""
"""Two sums over the block, one after the other, through one place. {0}, {1}: barriers after it is written and read."""

TREE = """
    st.shared.u32 [%r7], %r1;
    bar.sync 0;
    @!%p3 bra $summed;
    ld.shared.u32 %r10, [%r7]; ld.shared.u32 %r11, [%r7+128]; add.u32 %r10, %r10, %r11; st.shared.u32 [%r7], %r10; {0}
    setp.lt.u32 %p6, %r1, 16;
    @%p6 ld.shared.u32 %r11, [%r7+64]; {0}
    @%p6 add.u32 %r10, %r10, %r11; @%p6 st.shared.u32 [%r7], %r10; {0}
    setp.lt.u32 %p6, %r1, 8;
    @%p6 ld.shared.u32 %r11, [%r7+32];
    @%p6 add.u32 %r10, %r10, %r11; @%p6 st.global.u32 [%rd7], %r10;
$summed:
"""

LOOKBACK = """
    mul.wide.u32 %rd8, %r2, 8; add.s64 %rd9, %rd2, %rd8; setp.eq.u32 %p4, %r2, 0; add.u32 %r10, %r2, 1;
    @!%p1 bra $end;
    mov.u32 %r11, 0;
    @%p4 bra $publish;
$look:
    {0}
    setp.eq.u32 %p6, %r12, 0;
    @%p6 bra $look;
    {1}
    ld.global.u32 %r11, [%rd9+-4];
$publish:
    add.u32 %r11, %r11, %r10;
    st.global.u32 [%rd9+4], %r11;
    {2}
$end:
"""
"""A running sum through a flag and a value of each CTA. {0}: the flag of the CTA before, {1}: a fence, {2}: the own flag."""

HANDED = """
    setp.eq.u32 %p4, %r2, 0; mul.wide.u32 %rd8, %r1, 16; add.s64 %rd8, %rd8, %rd2;
    @!%p4 bra $reader;
{0}
$reader:
    @!%p1 bra $end;
$poll:
    ld.acquire.gpu.global.u32 %r10, [%rd2+16000];
    setp.ne.u32 %p6, %r10, 1;
    @%p6 bra $poll;
{1}
    ld.global.u32 %r11, [%rd2];
$end:
"""
"""CTA 0 hands a tile to CTA 1."""
BY_TMA = """
    shl.b32 %r13, %r1, 4; add.u32 %r13, %r13, %r5; st.shared.v4.b32 [%r13], {{%r1, %r1, %r1, %r1}};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra $end;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {{%r0, %r0}}], [%r5];
    cp.async.bulk.commit_group;
    {}
    st.release.gpu.global.u32 [%rd2+16000], 1;
    bra $end;"""

ACC = "{{%f0, %f1, %f2, %f3}}"
MULTIPLY = f"""
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {ACC}, %rd20, %rd21, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;"""
FEED = """    @%p7 mbarrier.arrive.expect_tx.shared.b64 _, [full], 2304;
    @%p7 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 2304, [full];
"""
WGMMA = (
    INIT.replace("{0}", "128")
    + """
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    shr.u32 %r13, %r5, 4; cvt.u64.u32 %rd20, %r13; or.b64 %rd20, %rd20, 0x0000001000080000; add.s64 %rd21, %rd20, 128;
    setp.eq.u32 %p6, %r3, 4; setp.eq.u32 %p7, %r1, 128;
    @!%p6 bra $consumer;
"""
    + FEED
    + """$free:
    mbarrier.try_wait.parity.shared.b64 %p5, [empty], 0;
    @!%p5 bra $free;
"""
    + FEED
    + """    bra $end;
$consumer:
    mbarrier.try_wait.parity.shared.b64 %p5, [full], 0;
    @!%p5 bra $consumer;
"""
    + MULTIPLY
    + """
    {0}
    wgmma.wait_group.sync.aligned {1};
    {2}
    st.global.f32 [%rd7], %f0;
    wgmma.wait_group.sync.aligned 0;
$again:
    mbarrier.try_wait.parity.shared.b64 %p5, [full], 1;
    @!%p5 bra $again;
$end:
"""
)
"""A producer refills what a wgmma reads. {0}, {2}: where the consumers free it, {1}: groups that the wait leaves."""
FREE = "mbarrier.arrive.shared.b64 _, [empty];"

REPORTS = [
    Report("a TMA store without a proxy fence", {"proxy"}, EPILOGUE,
           ("cp.async.bulk.wait_group.read 1;", ""), ("cp.async.bulk.wait_group.read 1;", FENCE)),
    Report("a buffer is filled while the TMA store before still reads it", {"bulk-source-reused"}, EPILOGUE,
           ("cp.async.bulk.wait_group.read 2;", FENCE), ("cp.async.bulk.wait_group.read 1;", FENCE)),
    Report("one arrival per thread is expected and one per warp comes", {"deadlock"}, RING,
           ("32", "1024", PARITY, "", ONE), ("1", "1024", PARITY, "", ONE)),
    Report("expect_tx is more than the box", {"deadlock"}, RING,
           ("32", "2048", PARITY, "", ARRIVE), ("32", "1024", PARITY, "", ARRIVE)),
    Report("expect_tx is less than the box", {"deadlock", "fault", "bulk-copy-not-waited"}, RING,
           ("32", "512", PARITY, "", ARRIVE), ("32", "1024", PARITY, "", ARRIVE)),
    Report("the parity turns at each stage",
           {"deadlock", "bulk-copy-not-waited", "exit-in-flight", "mbarrier-phase"}, RING,
           ("32", "1024", "mov.u32 %r12, %r10;", "", ARRIVE), ("32", "1024", PARITY, "", ARRIVE)),
    Report("a stage is freed before it is read", {"bulk-copy-not-waited", "race"}, RING,
           ("32", "1024", PARITY, ARRIVE, ""), ("32", "1024", PARITY, "", ARRIVE)),
    Report("one lane frees the stage and the others still read", {"race"}, RING,
           ("1", "1024", PARITY, "", "@%p2 " + ARRIVE), ("1", "1024", PARITY, "", ONE)),
    Report("a stage is freed before the wgmma that reads it is complete", {"wgmma-source-reused"}, WGMMA,
           (FREE, "0", ""), ("", "0", FREE), block=160),
    Report("an accumulator is read when wait_group leaves its group in flight", {"wgmma-register", "wgmma-source-reused"},
           WGMMA, ("", "1", FREE), ("", "0", FREE), block=160),
    Report("wait_group leaves the group in flight that is read", {"cp-async-not-waited"}, STAGES,
           ("cp.async.wait_group 2;", "bar.sync 0;", "bar.sync 0;"),
           ("cp.async.wait_group 1;", "bar.sync 0;", "bar.sync 0;")),
    Report("a stage is refilled while the other warp reads it", {"race", "cp-async-not-waited"}, STAGES,
           ("cp.async.wait_group 1;", "bar.sync 0;", ""), ("cp.async.wait_group 1;", "bar.sync 0;", "bar.sync 0;")),
    Report("cp.async of others is read without a barrier", {"race", "cp-async-not-waited"}, STAGES,
           ("cp.async.wait_group 1;", "", "bar.sync 0;"), ("cp.async.wait_group 1;", "bar.sync 0;", "bar.sync 0;")),
    Report("two sums through one place without a barrier between", {"race"}, REDUCE,
           ("bar.sync 0;", ""), ("bar.sync 0;", "bar.sync 0;")),
    Report("a sum over warps without a barrier", {"race", "uninitialised-shared"}, REDUCE,
           ("", "bar.sync 0;"), ("bar.sync 0;", "bar.sync 0;")),
    Report("the last steps of a tree rely on warps in lockstep", {"race"}, TREE, ("",), ("bar.warp.sync 0xffffffff;",)),
    Report("a flag is set before its value is visible", {"race"}, LOOKBACK,
           ("ld.acquire.gpu.global.u32 %r12, [%rd9+-8];", "", "st.relaxed.gpu.global.u32 [%rd9], 1;"),
           ("ld.acquire.gpu.global.u32 %r12, [%rd9+-8];", "", "st.release.gpu.global.u32 [%rd9], 1;"), grid=4),
    Report("a flag is seen and its value is not acquired", {"race"}, LOOKBACK,
           ("ld.volatile.global.u32 %r12, [%rd9+-8];", "", "fence.acq_rel.gpu; st.volatile.global.u32 [%rd9], 1;"),
           ("ld.volatile.global.u32 %r12, [%rd9+-8];", "fence.acq_rel.gpu;",
            "fence.acq_rel.gpu; st.volatile.global.u32 [%rd9], 1;"), grid=4),
    Report("the flag's release is for the CTA only", {"race"}, LOOKBACK,
           ("ld.acquire.gpu.global.u32 %r12, [%rd9+-8];", "", "fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%rd9], 1;"),
           ("ld.acquire.gpu.global.u32 %r12, [%rd9+-8];", "", "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd9], 1;"),
           grid=4),
    Report("a tile that TMA stored is announced before it is written", {"bulk-copy-not-waited"}, HANDED,
           (BY_TMA.format("cp.async.bulk.wait_group.read 0;"), ""), (BY_TMA.format("cp.async.bulk.wait_group 0;"), ""),
           grid=2),
    Report("a tile of another CTA is loaded by TMA without a proxy fence", {"proxy"}, INIT.format(1) + """
    setp.eq.u32 %p4, %r2, 0; shr.u32 %r10, %r1, 4; mul.wide.u32 %rd8, %r10, 256; and.b32 %r11, %r1, 15;
    mul.wide.u32 %rd9, %r11, 4; add.s64 %rd8, %rd8, %rd9; add.s64 %rd8, %rd8, %rd1;
    @!%p4 bra $reader;
    st.global.u32 [%rd8], %r1;
    bar.sync 0;
    @%p1 st.release.gpu.global.u32 [%rd2], 1;
    bra $end;
$reader:
    @!%p1 bra $end;
$poll:
    ld.acquire.gpu.global.u32 %r10, [%rd2];
    setp.ne.u32 %p6, %r10, 1;
    @%p6 bra $poll;
    {}
    mbarrier.arrive.expect_tx.shared.b64 _, [full], 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd3, {{%r0, %r0}}], [full];
$wait:
    mbarrier.try_wait.parity.shared.b64 %p5, [full], 0;
    @!%p5 bra $wait;
$end:""", ("",), ("fence.proxy.async.global;",), grid=2),
    Report("two CTAs store boxes that overlap", {"race", "bulk-copy-not-waited"}, """
    shl.b32 %r13, %r1, 4; add.u32 %r13, %r13, %r5; st.shared.v4.b32 [%r13], {{%r1, %r1, %r1, %r2}};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mul.lo.u32 %r22, %r2, {};
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd4, {{%r0, %r22}}], [%r5];
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group 0;""", ("8",), ("16",), grid=2),
    Report("TMA loads what the CTA has just stored to global memory", {"proxy"}, INIT.format(1) + """
    shr.u32 %r10, %r1, 4; mul.wide.u32 %rd8, %r10, 256; and.b32 %r11, %r1, 15; mul.wide.u32 %rd9, %r11, 4;
    add.s64 %rd8, %rd8, %rd9; add.s64 %rd8, %rd8, %rd1; st.global.u32 [%rd8], %r1;
    {}
    bar.sync 0;
    @!%p1 bra $end;
    mbarrier.arrive.expect_tx.shared.b64 _, [full], 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd3, {{%r0, %r0}}], [full];
$wait:
    mbarrier.try_wait.parity.shared.b64 %p5, [full], 0;
    @!%p5 bra $wait;
$end:""", ("fence.proxy.async.shared::cta;",), ("fence.proxy.async;",)),
    Report("one lane waits for the data of all", {"bulk-copy-not-waited", "race"}, INIT.format(1) + """
    mov.u32 %r20, tile; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, full;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [full], 1024;
    @%p1 """ + BOX.strip() + """
    @!%p2 bra $go;
$wait:
    mbarrier.try_wait.parity.shared.b64 %p5, [full], 0;
    @!%p5 bra $wait;
$go:
    {}
    ld.shared.u32 %r26, [%r7]; st.global.u32 [%rd7], %r26;""", ("",), ("bar.warp.sync 0xffffffff;",)),
    Report("a barrier in a branch, and the others end", {"barrier-divergent"}, """
    st.shared.u32 [%r7], %r1;
    setp.lt.u32 %p6, %r4, {};
    @!%p6 bra $end;
    bar.sync 0;
$end:""", ("16",), ("32",)),
    Report("a shuffle of a warp in a branch", {"membermask", "shuffle-source", "deadlock"}, """
    setp.lt.u32 %p6, %r4, 20;
    @!%p6 bra $end;
    shfl.sync.down.b32 %r10, %r1, {}, {}, {};
    st.global.u32 [%rd7], %r10;
$end:""", ("8", "31", "0xfffff"), ("0", "31", "0xfffff")),
    Report("a counter without atomics", {"race"}, "    {0}\n    @%p1 bra $skip;\n$skip:",
           ("ld.global.u32 %r10, [%rd2]; add.u32 %r10, %r10, %r1; st.global.u32 [%rd2], %r10;",),
           ("red.global.add.u32 [%rd2], 1;",), grid=2),
    Report("pairs of warps meet at one named barrier", {"barrier-count", "race", "deadlock"}, """
    st.shared.u32 [%r7], %r1; shr.u32 %r10, %r3, 1; add.u32 %r11, %r10, 1; mov.u32 %r12, {};
    barrier.sync %r12, 64;
    xor.b32 %r13, %r6, 128; add.u32 %r13, %r13, %r5; ld.shared.u32 %r14, [%r13]; st.global.u32 [%rd7], %r14;""",
           ("1",), ("%r11",), block=128),
    Report("the peer of a cluster has not begun", {"cluster-start", "race"}, """
    mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1; mapa.shared::cluster.u32 %r11, %r7, %r10;
    {}
    st.shared::cluster.u32 [%r11], %r1;
    barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
    ld.shared.u32 %r12, [%r7]; st.global.u32 [%rd7], %r12;""", ("",),
           ("barrier.cluster.arrive.relaxed; barrier.cluster.wait;",), block=32, grid=2, cluster=2),
    Report("the peer of a cluster may have exited", {"cluster-exit"}, """
    @%p1 mbarrier.init.shared.b64 [empty], 64; @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1; mov.u32 %r12, empty; mapa.shared::cluster.u32 %r11, %r12, %r10;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];
    {}""", ("",), ("barrier.cluster.arrive; barrier.cluster.wait;",), grid=2, cluster=2),
]  # fmt: skip
NAMES = [report.name for report in REPORTS]


def run(report: Report, parts: tuple[str, ...], seed: int) -> tuple[set[str], str]:
    """(rules that were broken, what was said) in one run."""
    rng = np.random.default_rng()
    source = rng.integers(0, 1 << 20, (64, 64)).astype(np.uint32)
    target = np.zeros((64, 64), np.uint32)
    head = HEAD.replace("sm_90a", report.target)
    kernel = load(head + report.kernel.format(*parts) + "\n    ret;\n}\n")["k"]
    maps = [tensor_map(a, (16, 16)) for a in (source, target)]
    try:
        result = kernel.simulate(
            source, target, *maps, grid=report.grid, block=report.block, cluster=report.cluster, seed=seed,
            max_steps=200_000,
        )  # fmt: skip
    except SimulationError as error:
        return {"deadlock" if "deadlock" in str(error) else "fault"}, str(error)
    findings = [f for f in result.findings if isinstance(f, Finding)]
    return {f.rule for f in findings}, "\n".join(map(str, findings))


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
