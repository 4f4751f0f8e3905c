"""Correct kernels in the styles of libraries, with what they compute: silent in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from pyptx.simulator import load, tensor_map

from .test_public_reports import HEAD

Array = Any


class Style(NamedTuple):
    name: str
    kernel: str
    result: Callable[[Array], Array]
    """The source's words -> the target's first ones."""
    grid: int = 1
    block: int = 64
    cluster: int | None = None
    target: str = "sm_90a"


def wait(label: str, barrier: str, phase: str = "0", what: str = "try_wait.parity.shared::cta") -> str:
    """A loop that waits, in the words of CUTLASS, of the default semantics and scope."""
    return f"""
${label}:
    mbarrier.{what}.b64 %p5, [{barrier}], {phase};
    @%p5 bra ${label}_done;
    bra ${label};
${label}_done:
"""


MEET = "    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
BOXES = 4


def boxes(source: Array, rows: Array) -> Array:
    return source.reshape(64, 64)[rows, :16]


MULTICAST = (
    """
    mov.u32 %r30, %cluster_ctarank; mov.u32 %r31, full; mov.u32 %r32, empty; mov.b16 %h1, 3;
    @!%p1 bra $initialised;
    mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [empty], 2; mbarrier.init.shared::cta.b64 [empty+8], 2;
    fence.mbarrier_init.release.cluster;
$initialised:
    barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;
    mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0;
    @!%p3 bra $consumer;
    elect.sync _|%p7, 0xffffffff;
    @!%p7 bra $end;
$produce:
    xor.b32 %r13, %r12, 1; shl.b32 %r14, %r11, 3; add.u32 %r15, %r32, %r14; add.u32 %r16, %r31, %r14;
"""
    + wait("free", "%r15", "%r13")
    + """
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r16], 2048;
    shl.b32 %r17, %r11, 11; add.u32 %r17, %r17, %r5; shl.b32 %r18, %r30, 10; add.u32 %r17, %r17, %r18;
    shl.b32 %r18, %r10, 4; shl.b32 %r19, %r30, 4;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r17], [%rd3, {%r19, %r18}], [%r16], %h1;
    xor.b32 %r11, %r11, 1; setp.eq.u32 %p6, %r11, 0; @%p6 xor.b32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 4;
    @%p6 bra $produce;
    mov.u32 %r10, 0;
$tail:
    xor.b32 %r13, %r12, 1; shl.b32 %r14, %r11, 3; add.u32 %r15, %r32, %r14;
"""
    + wait("last", "%r15", "%r13")
    + """
    xor.b32 %r11, %r11, 1; setp.eq.u32 %p6, %r11, 0; @%p6 xor.b32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 2;
    @%p6 bra $tail;
    bra $end;
$consumer:
    shl.b32 %r14, %r11, 3; add.u32 %r15, %r32, %r14; add.u32 %r16, %r31, %r14;
"""
    + wait("ready", "%r16", "%r12")
    + """
    shl.b32 %r17, %r11, 11; add.u32 %r17, %r17, %r5; shl.b32 %r18, %r4, 2; add.u32 %r17, %r17, %r18;
    ld.shared.u32 %r20, [%r17]; ld.shared.u32 %r21, [%r17+1024]; add.u32 %r20, %r20, %r21;
    bar.warp.sync 0xffffffff;
    setp.lt.u32 %p8, %r4, 2;
    mapa.shared::cluster.u32 %r22, %r15, %r4;
    @%p8 mbarrier.arrive.shared::cluster.b64 _, [%r22];
    mad.lo.u32 %r23, %r30, 4, %r10; shl.b32 %r23, %r23, 7; shl.b32 %r24, %r4, 2; add.u32 %r23, %r23, %r24;
    cvt.u64.u32 %rd8, %r23; add.s64 %rd8, %rd8, %rd2; st.global.u32 [%rd8], %r20;
    xor.b32 %r11, %r11, 1; setp.eq.u32 %p6, %r11, 0; @%p6 xor.b32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 4;
    @%p6 bra $consumer;
$end:
"""
)
"""Two CTAs load half a stage each, for both."""


def multicast(source: Array) -> Array:
    table = source.reshape(64, 64)
    rows = [(table[16 * i : 16 * i + 2, :16] + table[16 * i : 16 * i + 2, 16:32]).reshape(-1) for i in range(BOXES)]
    return np.concatenate(rows + rows)


STREAM_K = """
    mul.wide.u32 %rd8, %r2, 256; add.s64 %rd9, %rd2, 4096; add.s64 %rd10, %rd9, %rd8; add.s64 %rd10, %rd10, %rd5;
    add.s64 %rd11, %rd6, %rd8; ld.global.nc.u32 %r10, [%rd11];
    setp.eq.u32 %p4, %r2, 3;
    @%p4 bra $owner;
    st.global.u32 [%rd10], %r10;
    bar.sync 0;
    @%p1 red.release.gpu.global.add.s32 [%rd2+8192], 1;
    bra $end;
$owner:
    @!%p1 bra $arrived;
$poll:
    ld.acquire.gpu.global.b32 %r11, [%rd2+8192];
    setp.ne.u32 %p5, %r11, 3;
    @%p5 bra $poll;
$arrived:
    bar.sync 0;
    mov.u32 %r12, 0; add.s64 %rd12, %rd9, %rd5;
$add:
    ld.global.u32 %r13, [%rd12]; add.u32 %r10, %r10, %r13; add.s64 %rd12, %rd12, 256;
    add.u32 %r12, %r12, 1; setp.lt.u32 %p5, %r12, 3;
    @%p5 bra $add;
    st.global.u32 [%rd7], %r10;
$end:
"""
"""The last CTA adds what the others have put in a workspace."""

GRID_SYNC = """
    mad.lo.u32 %r10, %r2, 64, %r1; mul.wide.u32 %rd8, %r10, 4; add.s64 %rd9, %rd1, %rd8; ld.global.u32 %r11, [%rd9];
    add.s64 %rd10, %rd2, 4096; add.s64 %rd11, %rd10, %rd8; st.global.u32 [%rd11], %r11;
    barrier.cta.sync.aligned 0;
    @!%p1 bra $met;
    setp.eq.u32 %p4, %r2, 0; selp.b32 %r12, 0x7fffffff, 1, %p4;
    fence.sc.gpu;
    atom.global.gpu.add.u32 %r13, [%rd2+8192], %r12;
$poll:
    ld.volatile.global.u32 %r14, [%rd2+8192];
    xor.b32 %r15, %r14, %r13; setp.ge.s32 %p5, %r15, 0;
    @%p5 bra $poll;
    fence.sc.gpu;
$met:
    barrier.cta.sync.aligned 0;
    xor.b32 %r16, %r10, 127; mul.wide.u32 %rd12, %r16, 4; add.s64 %rd12, %rd12, %rd10; ld.global.u32 %r17, [%rd12];
    mul.wide.u32 %rd13, %r10, 4; add.s64 %rd13, %rd13, %rd2; st.global.u32 [%rd13], %r17;
"""
"""cooperative_groups' grid.sync()."""

LOOK_BACK = """
    @%p1 atom.relaxed.gpu.global.add.u32 %r10, [%rd2+8192], 1;
    @%p1 st.shared.u32 [word], %r10;
    bar.sync 0;
    ld.shared.u32 %r10, [word];
    mad.lo.u32 %r11, %r10, 64, %r1; mul.wide.u32 %rd8, %r11, 4; add.s64 %rd9, %rd1, %rd8; ld.global.u32 %r12, [%rd9];
    and.b32 %r12, %r12, 255;
    mov.u32 %r13, 1;
$scan:
    shfl.sync.up.b32 %r14|%p5, %r12, %r13, 0, 0xffffffff;
    @%p5 add.u32 %r12, %r12, %r14;
    shl.b32 %r13, %r13, 1; setp.lt.u32 %p6, %r13, 32;
    @%p6 bra $scan;
    setp.eq.u32 %p7, %r1, 31;
    @%p7 st.shared.u32 [word+4], %r12;
    bar.sync 0;
    @!%p3 ld.shared.u32 %r15, [word+4];
    @!%p3 add.u32 %r12, %r12, %r15;
    setp.eq.u32 %p8, %r1, 63; shl.b32 %r16, %r10, 3; cvt.u64.u32 %rd10, %r16; add.s64 %rd10, %rd10, %rd2;
    add.s64 %rd10, %rd10, 12288;
    @!%p8 bra $sum;
    mov.b64 %rd11, {%r12, 1};
    setp.eq.u32 %p9, %r10, 0;
    @%p9 mov.b64 %rd11, {%r12, 2};
    st.relaxed.gpu.global.u64 [%rd10], %rd11;
    mov.u32 %r17, 0; mov.u64 %rd12, %rd10;
    @%p9 bra $found;
$before:
    add.s64 %rd12, %rd12, -8;
$poll:
    ld.relaxed.gpu.global.u64 %rd13, [%rd12];
    mov.b64 {%r18, %r19}, %rd13; setp.eq.u32 %p10, %r19, 0;
    @%p10 bra $poll;
    add.u32 %r17, %r17, %r18; setp.eq.u32 %p10, %r19, 1;
    @%p10 bra $before;
    add.u32 %r18, %r17, %r12; mov.b64 %rd11, {%r18, 2};
    st.relaxed.gpu.global.u64 [%rd10], %rd11;
$found:
    st.shared.u32 [word+8], %r17;
$sum:
    bar.sync 0;
    ld.shared.u32 %r20, [word+8]; add.u32 %r12, %r12, %r20;
    add.s64 %rd14, %rd2, %rd8; st.global.u32 [%rd14], %r12;
"""
"""A scan in one pass with decoupled look-back, value and state in one word."""

LAST_BLOCK = """
    mad.lo.u32 %r10, %r2, 64, %r1; mul.wide.u32 %rd8, %r10, 4; add.s64 %rd9, %rd1, %rd8; ld.global.u32 %r11, [%rd9];
    redux.sync.add.u32 %r12, %r11, 0xffffffff;
    mov.u32 %r13, word; shl.b32 %r14, %r3, 2; add.u32 %r13, %r13, %r14;
    @%p2 st.shared.u32 [%r13], %r12;
    bar.sync 0;
    @!%p1 bra $stored;
    ld.shared.u32 %r15, [word]; ld.shared.u32 %r16, [word+4]; add.u32 %r15, %r15, %r16;
    mul.wide.u32 %rd10, %r2, 4; add.s64 %rd10, %rd10, %rd2; st.global.u32 [%rd10+4096], %r15;
    membar.gl;
    atom.global.inc.u32 %r17, [%rd2+8192], 3; st.shared.u32 [word+8], %r17;
$stored:
    bar.sync 0;
    ld.shared.u32 %r17, [word+8]; setp.ne.u32 %p4, %r17, 3;
    @%p4 bra $end;
    membar.gl;
    setp.ge.u32 %p4, %r1, 4;
    @%p4 bra $end;
    ld.global.u32 %r18, [%rd7+4096]; redux.sync.add.u32 %r18, %r18, 15;
    @%p1 st.global.u32 [%rd2], %r18;
$end:
"""
"""threadFenceReduction: the last block that comes adds what all have stored."""

AGGREGATED = """
    ld.global.u32 %r10, [%rd6]; and.b32 %r11, %r10, 1; setp.ne.u32 %p4, %r11, 0;
    @!%p4 bra $end;
    activemask.b32 %r12; mov.u32 %r13, %lanemask_lt; and.b32 %r13, %r13, %r12; popc.b32 %r14, %r13; popc.b32 %r15, %r12;
    setp.eq.u32 %p5, %r14, 0; brev.b32 %r16, %r12; bfind.shiftamt.u32 %r16, %r16;
    @%p5 atom.relaxed.gpu.global.add.u32 %r17, [%rd2+8192], %r15;
    brev.b32 %r18, %r12; clz.b32 %r18, %r18;
    shfl.sync.idx.b32 %r17, %r17, %r18, 31, %r12;
    add.u32 %r17, %r17, %r14; mul.wide.u32 %rd8, %r17, 4; add.s64 %rd8, %rd8, %rd2; st.global.u32 [%rd8], 1;
$end:
"""
"""Places for the chosen from one atomic a warp."""


def chosen(source: Array) -> Array:
    count = int(np.count_nonzero(source[:64] & 1))
    return np.repeat(np.array([1, 0], np.uint32), (count, 64 - count))


PING_PONG = """
    shr.u32 %r10, %r3, 1; setp.eq.u32 %p4, %r10, 0; mov.u32 %r11, 0; and.b32 %r12, %r1, 63;
    shl.b32 %r13, %r12, 2; add.u32 %r13, %r13, %r5; xor.b32 %r14, %r12, 63; shl.b32 %r14, %r14, 2; add.u32 %r14, %r14, %r5;
    mov.u32 %r20, 0; add.u32 %r15, %r10, 1; xor.b32 %r16, %r10, 1; add.u32 %r16, %r16, 1;
    @!%p4 bra $turn;
    st.shared.u32 [%r13], %r12;
    bar.sync 5, 64;
    bar.arrive 1, 128;
$turn:
    bar.sync %r15, 128;
    ld.shared.u32 %r17, [%r14];
    add.u32 %r18, %r15, 2; bar.sync %r18, 64;
    add.u32 %r17, %r17, 1; st.shared.u32 [%r13], %r17; add.u32 %r20, %r20, %r17;
    setp.eq.u32 %p6, %r11, 2; setp.eq.u32 %p7, %r15, 2; and.pred %p6, %p6, %p7;
    @!%p6 bar.arrive %r16, 128;
    add.u32 %r11, %r11, 1; setp.lt.u32 %p6, %r11, 3;
    @%p6 bra $turn;
    st.global.u32 [%rd7], %r20;
"""
"""Two pairs of warps use a tile in turn: the order that the first starts, with bar.arrive."""


def ping_pong(source: Array) -> Array:
    tile, sums = np.arange(64), np.zeros((2, 64), np.int64)
    for turn in range(6):
        tile = tile[::-1] + 1
        sums[turn % 2] += tile
    return sums.reshape(-1)


def pair(source: Array) -> Array:
    """What is in the first column of 128x256b copies: chunks of 8 rows, with the rank's thousands."""
    first = (np.arange(128) // 8 * 16 + np.arange(128) % 8) % 128
    return np.concatenate([first, first + 1000])


NOINC = (
    """
    @%p1 mbarrier.init.shared::cta.b64 [full], 32; @%p1 mbarrier.init.shared::cta.b64 [full+8], 32;
    @%p1 mbarrier.init.shared::cta.b64 [empty], 32; @%p1 mbarrier.init.shared::cta.b64 [empty+8], 32;
    bar.sync 0;
    mov.u32 %r10, 0; shl.b32 %r30, %r4, 4; cvt.u64.u32 %rd8, %r30; add.s64 %rd8, %rd8, %rd1; mov.u32 %r25, full;
    mov.u32 %r26, empty;
    @!%p3 bra $consumer;
$produce:
    and.b32 %r11, %r10, 1; shr.u32 %r12, %r10, 1; and.b32 %r12, %r12, 1; xor.b32 %r12, %r12, 1; shl.b32 %r13, %r11, 3;
    add.u32 %r14, %r26, %r13; add.u32 %r15, %r25, %r13;
"""
    + wait("free", "%r14", "%r12")
    + """
    shl.b32 %r16, %r11, 9; add.u32 %r16, %r16, %r30; add.u32 %r16, %r16, %r5;
    cp.async.cg.shared.global [%r16], [%rd8], 16;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r15];
    add.s64 %rd8, %rd8, 512; add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 5;
    @%p6 bra $produce;
    bra $end;
$consumer:
    and.b32 %r11, %r10, 1; shr.u32 %r12, %r10, 1; and.b32 %r12, %r12, 1; shl.b32 %r13, %r11, 3;
    add.u32 %r14, %r26, %r13; add.u32 %r15, %r25, %r13;
"""
    + wait("ready", "%r15", "%r12")
    + """
    xor.b32 %r16, %r30, 496; shl.b32 %r17, %r11, 9; add.u32 %r16, %r16, %r17; add.u32 %r16, %r16, %r5;
    ld.shared.u32 %r18, [%r16];
    mbarrier.arrive.shared::cta.b64 _, [%r14];
    shl.b32 %r19, %r10, 7; shl.b32 %r20, %r4, 2; add.u32 %r19, %r19, %r20; cvt.u64.u32 %rd9, %r19; add.s64 %rd9, %rd9, %rd2;
    st.global.u32 [%rd9], %r18;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 5;
    @%p6 bra $consumer;
$end:
"""
)
"""cp.async that arrives at an mbarrier, which another warp waits for."""

ST_ASYNC = (
    """
    mov.u32 %r30, %cluster_ctarank; xor.b32 %r31, %r30, 1; mov.u32 %r32, full;
    @!%p1 bra $initialised;
    mbarrier.init.shared::cta.b64 [full], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;
    fence.mbarrier_init.release.cluster;
$initialised:
"""
    + MEET
    + """
    mapa.shared::cluster.u32 %r33, %r32, %r31; mapa.shared::cluster.u32 %r34, %r7, %r31;
    mul.wide.u32 %rd8, %r30, 256; add.s64 %rd9, %rd6, %rd8; ld.global.u32 %r10, [%rd9];
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r34], %r10, [%r33];
"""
    + wait("ready", "%r32")
    + """
    xor.b32 %r11, %r6, 252; add.u32 %r11, %r11, %r5; ld.shared.u32 %r12, [%r11];
    add.s64 %rd9, %rd7, %rd8; st.global.u32 [%rd9], %r12;
"""
)
"""CTAs exchange tiles with st.async, which tells the peer's mbarrier."""

DSMEM = """
    mov.u32 %r30, %cluster_ctarank; mad.lo.u32 %r10, %r30, 64, %r1; mul.wide.u32 %rd8, %r10, 4; add.s64 %rd9, %rd1, %rd8;
    ld.global.u32 %r11, [%rd9]; st.shared.u32 [%r7], %r11;
    barrier.cluster.arrive.release.aligned;
    mov.u32 %r12, 0; mov.u32 %r13, 0;
    barrier.cluster.wait.acquire.aligned;
$add:
    mapa.shared::cluster.u32 %r14, %r7, %r12; ld.shared::cluster.u32 %r15, [%r14]; add.u32 %r13, %r13, %r15;
    add.u32 %r12, %r12, 1; setp.lt.u32 %p6, %r12, 4;
    @%p6 bra $add;
    barrier.cluster.arrive.release.aligned;
    add.s64 %rd9, %rd2, %rd8; st.global.u32 [%rd9], %r13;
    barrier.cluster.wait.aligned;
"""
"""A sum over the CTAs of a cluster."""

LOCK = """
    @!%p2 bra $end;
$lock:
    atom.acquire.gpu.global.cas.b32 %r10, [%rd2+8192], 0, 1;
    setp.ne.u32 %p4, %r10, 0;
    @%p4 bra $lock;
    ld.global.u32 %r11, [%rd2]; mad.lo.u32 %r12, %r2, 2, %r3; add.u32 %r11, %r11, %r12; add.u32 %r11, %r11, 1;
    st.global.u32 [%rd2], %r11;
    atom.release.gpu.global.exch.b32 %r10, [%rd2+8192], 0;
$end:
"""
"""A spin lock around a plain sum."""

OLD_LOCK = (
    LOCK.replace("atom.acquire.gpu.global.cas", "atom.global.cas")
    .replace("ld.global.u32 %r11", "membar.gl; ld.volatile.global.u32 %r11")
    .replace("atom.release.gpu.global.exch", "membar.gl; atom.global.exch")
    .replace("st.global.u32 [%rd2]", "st.volatile.global.u32 [%rd2]")
)
TOKENS = """
    @%p1 mbarrier.init.shared::cta.b64 [full], 64;
    bar.sync 0;
    mov.u32 %r10, 0; mov.u32 %r20, 0; mov.u32 %r25, full;
$step:
    and.b32 %r11, %r10, 1; shl.b32 %r11, %r11, 8; add.u32 %r12, %r7, %r11; add.u32 %r13, %r1, %r10; st.shared.u32 [%r12], %r13;
    mbarrier.arrive.shared::cta.b64 %rd8, [%r25];
$test:
    mbarrier.test_wait.shared::cta.b64 %p5, [%r25], %rd8;
    @!%p5 bra $test;
    xor.b32 %r14, %r6, 252; add.u32 %r14, %r14, %r11; add.u32 %r14, %r14, %r5; ld.shared.u32 %r15, [%r14];
    add.u32 %r20, %r20, %r15;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 5;
    @%p6 bra $step;
    st.global.u32 [%rd7], %r20;
"""
"""cuda::barrier: arrive, and wait with the token, with two buffers."""

DROPPED = """
    @%p1 mbarrier.init.shared::cta.b64 [full], 64;
    bar.sync 0;
    mov.u32 %r10, 0; mov.u32 %r25, full; mov.u32 %r20, 0;
$step:
    st.shared.u32 [%r7], %r10;
    setp.eq.u32 %p7, %r10, 2; not.pred %p8, %p3; and.pred %p7, %p7, %p8;
    @%p7 mbarrier.arrive_drop.shared::cta.b64 _, [%r25];
    @%p7 bra $end;
    mbarrier.arrive.shared::cta.b64 %rd8, [%r25];
$test:
    mbarrier.test_wait.shared::cta.b64 %p5, [%r25], %rd8;
    @!%p5 bra $test;
    xor.b32 %r14, %r6, 128; add.u32 %r14, %r14, %r5; ld.shared.u32 %r15, [%r14]; add.u32 %r20, %r20, %r15;
    mbarrier.arrive.shared::cta.b64 %rd8, [%r25];
$test2:
    mbarrier.test_wait.shared::cta.b64 %p5, [%r25], %rd8;
    @!%p5 bra $test2;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 4;
    @%p6 bra $step;
    st.global.u32 [%rd7], %r20;
$end:
"""
"""Half of the threads leave an mbarrier early."""

RELAYED = (
    """
    mov.u32 %r25, full; setp.eq.u32 %p4, %r2, 0;
    @%p1 mbarrier.init.shared::cta.b64 [full], 1; @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @!%p4 bra $reader;
    st.shared.u32 [%r7], %r1; st.shared.u32 [%r7+256], %r1; st.shared.u32 [%r7+512], %r1; st.shared.u32 [%r7+768], %r1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra $end;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r0, %r0}], [%r5];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    fence.proxy.async.global;
    st.release.gpu.global.u32 [%rd2+8192], 1;
    bra $end;
$reader:
    @!%p1 bra $loaded;
$poll:
    ld.acquire.gpu.global.u32 %r10, [%rd2+8192]; setp.eq.u32 %p5, %r10, 0;
    @%p5 bra $poll;
    fence.proxy.async;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r25], 1024;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd3, {%r0, %r0}], [%r25];
$loaded:
"""
    + wait("ready", "%r25")
    + """
    ld.shared.u32 %r11, [%r7]; st.global.u32 [%rd7], %r11;
$end:
"""
)
"""A tile goes to another CTA by TMA through global memory."""

REDUCED = """
    mov.u32 %r10, 0; mad.lo.u32 %r12, %r1, 12, %r7;
$step:
    and.b32 %r11, %r10, 1; shl.b32 %r11, %r11, 10; add.u32 %r13, %r12, %r11; add.u32 %r14, %r5, %r11;
    @%p1 cp.async.bulk.wait_group.read 1;
    bar.sync 0;
    st.shared.v4.u32 [%r13], {%r1, %r1, %r1, %r1};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [%r14], 1024;
    @%p1 cp.async.bulk.commit_group;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 3;
    @%p6 bra $step;
    @%p1 cp.async.bulk.wait_group 0;
"""
"""CTAs add tiles to one place of global memory by bulk reductions, from two buffers."""

HISTOGRAM = """
    st.shared.u32 [%r7], 0;
    bar.sync 0;
    mul.wide.u32 %rd8, %r2, 256; add.s64 %rd8, %rd8, %rd6; ld.global.u32 %r10, [%rd8]; and.b32 %r10, %r10, 63;
    match.any.sync.b32 %r11, %r10, 0xffffffff; popc.b32 %r12, %r11; mov.u32 %r13, %lanemask_lt; and.b32 %r13, %r13, %r11;
    setp.eq.u32 %p4, %r13, 0; shl.b32 %r14, %r10, 2; add.u32 %r14, %r14, %r5;
    @%p4 red.shared.add.u32 [%r14], %r12;
    bar.sync 0;
    ld.shared.u32 %r15, [%r7]; setp.ne.u32 %p5, %r15, 0;
    @%p5 red.global.add.u32 [%rd7], %r15;
"""
"""Bins in shared memory, with one atomic for equal values of a warp."""

PERSISTENT = (
    """
    .reg .b128 %q<2>;
    mov.u32 %r25, full; mov.u32 %r10, %r2; mov.u32 %r11, 0;
    @%p1 mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
$tile:
    @!%p1 bra $asked;
    fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
    mbarrier.arrive.expect_tx.relaxed.cluster.shared::cta.b64 _, [%r25], 16;
    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [tile], [%r25];
$asked:
    mad.lo.u32 %r12, %r10, 64, %r1; mul.wide.u32 %rd8, %r12, 4; add.s64 %rd9, %rd1, %rd8; ld.global.u32 %r13, [%rd9];
    add.u32 %r13, %r13, 1; add.s64 %rd9, %rd2, %rd8; st.global.u32 [%rd9], %r13;
"""
    + wait("answered", "%r25", "%r11")
    + """
    ld.shared.b128 %q0, [tile];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p6, %q0;
    @%p6 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r10, %q0;
    fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;
    xor.b32 %r11, %r11, 1;
    bar.sync 0;
    @%p6 bra $tile;
"""
)
"""CTAs take the work of others that have not begun."""

PAIR = (
    """
    mov.u32 %r30, %cluster_ctarank; setp.eq.u32 %p4, %r30, 0; setp.eq.u32 %p7, %r3, 4; setp.eq.u32 %p8, %r1, 128;
    setp.lt.u32 %p9, %r1, 128; mov.u32 %r40, full; mov.u32 %r41, empty; mov.u32 %r15, 0; mov.b16 %h1, 3;
    mad.lo.u32 %r17, %r30, 1000, %r1;
$fill:
    mad.lo.u32 %r16, %r1, 16, %r5; add.u32 %r16, %r16, %r15; setp.ge.u32 %p6, %r15, 2048;
    @%p9 st.shared.v4.u32 [%r16], {%r17, %r17, %r17, %r17};
    add.u32 %r15, %r15, 2048;
    @!%p6 bra $fill;
    @!%p8 bra $initialised;
    mbarrier.init.shared::cta.b64 [full], 1; mbarrier.init.shared::cta.b64 [empty], 256; fence.mbarrier_init.release.cluster;
$initialised:
    fence.proxy.async;
    barrier.cluster.arrive.relaxed; barrier.cluster.wait;
    @!%p7 bra $allocated;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [word], 32;
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
$allocated:
    tcgen05.fence::before_thread_sync;
"""
    + MEET
    + """
    tcgen05.fence::after_thread_sync;
    ld.shared.u32 %r31, [word]; mov.u32 %r10, 0; shl.b32 %r32, %r3, 21; add.u32 %r32, %r32, %r31;
    shr.u32 %r13, %r5, 4; cvt.u64.u32 %rd20, %r13; or.b64 %rd20, %rd20, 0x0000401000080000;
    @%p9 bra $epilogue;
    @!%p4 bra $free;
    @!%p8 bra $free;
$issue:
    and.b32 %r11, %r10, 1; xor.b32 %r11, %r11, 1;
"""
    + wait("empty", "%r41", "%r11")
    + """
    tcgen05.fence::after_thread_sync;
    tcgen05.cp.cta_group::2.128x256b [%r31], %rd20;
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r40], %h1;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 3;
    @%p6 bra $issue;
    bra $free;
$epilogue:
    and.b32 %r12, %r10, 1;
"""
    + wait("ready", "%r40", "%r12")
    + """
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r33}, [%r32];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.fence::before_thread_sync;
    mapa.shared::cluster.u32 %r34, %r41, 0; mbarrier.arrive.shared::cluster.b64 _, [%r34];
    mul.lo.u32 %r35, %r30, 512; cvt.u64.u32 %rd8, %r35; add.s64 %rd8, %rd8, %rd7; st.global.u32 [%rd8], %r33;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p6, %r10, 3;
    @%p6 bra $epilogue;
    tcgen05.fence::before_thread_sync;
$free:
"""
    + MEET
    + """
    @!%p7 bra $end;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r31, 32;
$end:
"""
)
"""A pair of CTAs: one fills the tensor memory of both, and both tell it when they have read it."""

STYLES = [
    Style("two CTAs multicast halves of stages to each other", MULTICAST, multicast, grid=2, cluster=2),
    Style("stream-K: partial sums in a workspace", STREAM_K, lambda s: s[:256].reshape(4, 64).sum(0), grid=4),
    Style("cooperative_groups' grid.sync", GRID_SYNC, lambda s: s[:128][::-1], grid=2),
    Style("a scan with decoupled look-back", LOOK_BACK, lambda s: np.cumsum(s[:256] & 255), grid=4),
    Style("the last block sums", LAST_BLOCK, lambda s: s[:256].sum(dtype=np.uint32)[None], grid=4),
    Style("warp-aggregated atomics", AGGREGATED, chosen),
    Style("ping-pong with named barriers", PING_PONG, ping_pong, block=128),
    Style("cp.async.mbarrier.arrive.noinc", NOINC,
          lambda s: s[: 5 * 128].reshape(5, 32, 4)[:, ::-1, 0].reshape(-1)),
    Style("st.async to the peer", ST_ASYNC, lambda s: s[:128].reshape(2, 64)[::-1, ::-1].reshape(-1), grid=2, cluster=2),
    Style("sums over distributed shared memory", DSMEM, lambda s: np.tile(s[:256].reshape(4, 64).sum(0), 4), grid=4,
          cluster=4),
    Style("a spin lock", LOCK, lambda s: np.array([21]), grid=3),
    Style("a spin lock with membar and volatile", OLD_LOCK, lambda s: np.array([21]), grid=3),
    Style("cuda::barrier with tokens", TOKENS, lambda s: 5 * np.arange(64)[::-1] + 10),
    Style("threads that leave an mbarrier", DROPPED, lambda s: np.repeat([5, 0], 32)),
    Style("tiles handed over by TMA through global memory", RELAYED, lambda s: np.arange(64), grid=2),
    Style("bulk reductions", REDUCED, lambda s: 6 * np.repeat(np.arange(64), 4), grid=2),
    Style("a histogram", HISTOGRAM, lambda s: np.bincount(s[:256] & 63, minlength=64), grid=4),
    Style("persistent CTAs that cancel others", PERSISTENT, lambda s: s[:512] + 1, grid=8, target="sm_100a"),
    Style("a pair of CTAs and their tensor memory", PAIR, pair, grid=2, block=160, cluster=2, target="sm_100a"),
]  # fmt: skip


@pytest.mark.parametrize("style", STYLES, ids=[style.name for style in STYLES])
def test_it_is_silent_and_right(style: Style) -> None:
    rng = np.random.default_rng()
    kernel = load(HEAD.replace("sm_90a", style.target) + style.kernel + "\n    ret;\n}\n")["k"]
    for seed in (0, 3, int(rng.integers(1, 1 << 30))):
        source = rng.integers(0, 1 << 20, (64, 64)).astype(np.uint32)
        target = np.zeros((64, 64), np.uint32)
        expected = style.result(source.reshape(-1).copy())
        maps = [tensor_map(a, (16, 16)) for a in (source, target)]
        result = kernel.simulate(
            source, target, *maps, grid=style.grid, block=style.block, cluster=style.cluster, seed=seed
        )
        assert not result.findings, f"seed {seed}: " + "\n".join(map(str, result.findings))
        np.testing.assert_array_equal(target.reshape(-1)[: expected.size], expected)
