"""Each rule of the sanitizer: a minimal kernel that breaks it, found at its line, and its corrected twin, silent."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import load, tensor_map
from pyptx.simulator.sanitizer import Finding

from .kernels import HEAD, breaks, marked, run, silent


class Rule(NamedTuple):
    name: str
    broken: str
    corrected: str
    launch: dict[str, int] = {}


INIT = """
    @!%p1 bra $ready;
    mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar+8], 1;
    fence.mbarrier_init.release.cluster;
$ready:
    bar.sync 0;
"""
LOAD = """
    @!%p1 bra $issued;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 1024, [bar];
$issued:
"""
WAIT = """
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
"""
STORE = """
    @!%p1 bra $stored;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 256;{}
    cp.async.bulk.commit_group;
{}
$stored:
"""
FILL = "    st.shared.u32 [%r5], %r1;\n"
FENCE = "    fence.proxy.async.shared::cta;\n"

RULES = [
    Rule(
        "uninitialised-register",
        "    add.u32 %r10, %r11, 1; //!\n    st.global.u32 [%rd5], %r10;",
        "    mov.u32 %r11, 5;\n    add.u32 %r10, %r11, 1;\n    st.global.u32 [%rd5], %r10;",
    ),
    Rule(  # only some threads write it
        "uninitialised-register",
        "    setp.lt.u32 %p2, %r1, 40;\n    @%p2 mov.u32 %r11, 5;\n    st.global.u32 [%rd5], %r11; //!",
        "    setp.lt.u32 %p2, %r1, 40;\n    @%p2 mov.u32 %r11, 5;\n    @!%p2 mov.u32 %r11, 6;\n"
        "    st.global.u32 [%rd5], %r11;",
    ),
    Rule(  # a predicate decides a branch
        "uninitialised-register",
        "    @%p3 bra $x; //!\n    st.global.u32 [%rd5], %r1;\n$x:",
        "    setp.lt.u32 %p3, %r1, 3;\n    @%p3 bra $x;\n    st.global.u32 [%rd5], %r1;\n$x:",
    ),
    Rule(
        "uninitialised-shared",
        "    @%p1 st.shared.u32 [%r5], %r1;\n    bar.sync 0;\n    ld.shared.u32 %r10, [%r5]; //!\n"
        "    st.global.u32 [%rd5], %r10;",
        FILL + "    bar.sync 0;\n    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;",
    ),
    Rule(
        "uninitialised-local",
        "    .local .align 4 .b8 mine[16];\n    mov.u32 %r10, mine;\n    ld.local.u32 %r11, [%r10+4]; //!\n"
        "    st.global.u32 [%rd5], %r11;",
        "    .local .align 4 .b8 mine[16];\n    mov.u32 %r10, mine;\n    st.local.u32 [%r10+4], %r1;\n"
        "    ld.local.u32 %r11, [%r10+4];\n    st.global.u32 [%rd5], %r11;",
    ),
    Rule(  # no barrier between the store and a neighbour's load
        "race",
        FILL + "    ld.shared.u32 %r10, [buf+28]; //!\n    st.global.u32 [%rd5], %r10;",
        FILL + "    bar.sync 0;\n    ld.shared.u32 %r10, [buf+28];\n    st.global.u32 [%rd5], %r10;",
    ),
    Rule(  # the second round overwrites what others still read
        "race",
        FILL + "    bar.sync 0;\n    ld.shared.u32 %r10, [buf+28];\n    add.u32 %r10, %r10, %r1;\n"
        "    st.shared.u32 [%r5], %r10; //!",
        FILL + "    bar.sync 0;\n    ld.shared.u32 %r10, [buf+28];\n    add.u32 %r10, %r10, %r1;\n"
        "    bar.sync 0;\n    st.shared.u32 [%r5], %r10;",
    ),
    Rule(  # threads of a warp, without a warp barrier
        "race",
        FILL + "    xor.b32 %r6, %r5, 4;\n    ld.shared.u32 %r10, [%r6]; //!\n    st.global.u32 [%rd5], %r10;",
        FILL + "    bar.warp.sync 0xffffffff;\n    xor.b32 %r6, %r5, 4;\n    ld.shared.u32 %r10, [%r6];\n"
        "    st.global.u32 [%rd5], %r10;",
    ),
    Rule(  # a warp barrier does not reach the other warp
        "race",
        FILL + "    bar.warp.sync 0xffffffff;\n    xor.b32 %r6, %r5, 128;\n    ld.shared.u32 %r10, [%r6]; //!\n"
        "    st.global.u32 [%rd5], %r10;",
        FILL + "    bar.sync 0;\n    xor.b32 %r6, %r5, 128;\n    ld.shared.u32 %r10, [%r6];\n"
        "    st.global.u32 [%rd5], %r10;",
    ),
    Rule(  # different values to one place in one instruction
        "race",
        "    st.shared.u32 [buf], %r1; //!",
        "    @%p1 st.shared.u32 [buf], %r1;",
    ),
    Rule(  # a barrier of one warp is not a barrier of both
        "race",
        "    shr.u32 %r10, %r1, 5; add.u32 %r10, %r10, 1;\n" + FILL + "    barrier.sync %r10, 32;\n"
        "    ld.shared.u32 %r11, [buf+4]; //!\n    st.global.u32 [%rd5], %r11;",
        FILL + "    barrier.sync 1, 64;\n    ld.shared.u32 %r11, [buf+4];\n    st.global.u32 [%rd5], %r11;",
    ),
    Rule(  # whoever arrives with bar.arrive does not wait
        "race",
        "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 bra $consume;\n" + FILL + "    bar.sync 1, 64;\n    bra $end;\n"
        "$consume:\n    bar.arrive 1, 64;\n    ld.shared.u32 %r10, [buf+4]; //!\n$end:",
        "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 bra $consume;\n" + FILL + "    bar.arrive 1, 64;\n    bra $end;\n"
        "$consume:\n    bar.sync 1, 64;\n    ld.shared.u32 %r10, [buf+4];\n$end:",
    ),
    Rule(  # global memory of two CTAs
        "race",
        "    st.global.u32 [%rd5], %r2; //!",
        "    mul.wide.u32 %rd6, %r2, 256; add.s64 %rd5, %rd5, %rd6;\n    st.global.u32 [%rd5], %r2;",
        {"grid": 2},
    ),
    Rule(  # the last CTA reads what the others wrote: the counter must release and acquire
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
    Rule(  # the same with an atomic that releases and acquires; here the barrier before it is missing
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
    Rule(  # atomics of CTA scope do not reach another CTA
        "race",
        "    red.relaxed.cta.global.add.u32 [%rd2], 1; //!",
        "    red.relaxed.gpu.global.add.u32 [%rd2], 1;",
        {"grid": 2},
    ),
    Rule(  # a flag in shared memory
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
    Rule(  # an mbarrier is used before its initialisation is visible
        "race",
        "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    mbarrier.arrive.shared.b64 %rd6, [bar]; //!",
        "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar];",
    ),
    Rule(  # arriving at an mbarrier is not waiting for it
        "race",
        "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n" + FILL
        + "    mbarrier.arrive.shared.b64 %rd6, [bar];\n    ld.shared.u32 %r10, [buf+28]; //!",
        "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n" + FILL
        + "    mbarrier.arrive.shared.b64 %rd6, [bar];\n$w:\n    mbarrier.try_wait.shared.b64 %p2, [bar], %rd6;\n"
        "    @!%p2 bra $w;\n    ld.shared.u32 %r10, [buf+28];",
    ),
    Rule(
        "cp-async-not-waited",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;\n"
        "    ld.shared.u32 %r10, [%r5]; //!\n    st.global.u32 [%rd5], %r10;\n    cp.async.wait_all;",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;\n    cp.async.wait_group 0;\n"
        "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;",
    ),
    Rule(  # the group that is read is the latest, which wait_group 1 leaves in flight
        "cp-async-not-waited",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;\n"
        "    cp.async.ca.shared.global [%r5+512], [%rd4], 4;\n    cp.async.commit_group;\n    cp.async.wait_group 1;\n"
        "    ld.shared.u32 %r10, [%r5+512]; //!\n    st.global.u32 [%rd5], %r10;\n    cp.async.wait_all;",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.commit_group;\n"
        "    cp.async.ca.shared.global [%r5+512], [%rd4], 4;\n    cp.async.commit_group;\n    cp.async.wait_group 1;\n"
        "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;\n    cp.async.wait_all;",
    ),
    Rule(  # a wait is only for the thread that waits
        "race",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.wait_all;\n"
        "    ld.shared.u32 %r10, [buf+28]; //!\n    st.global.u32 [%rd5], %r10;",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.wait_all;\n    bar.sync 0;\n"
        "    ld.shared.u32 %r10, [buf+28];\n    st.global.u32 [%rd5], %r10;",
    ),
    Rule(
        "exit-in-flight",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4; //!",
        "    cp.async.ca.shared.global [%r5], [%rd4], 4;\n    cp.async.wait_all;",
    ),
    Rule(
        "bulk-copy-not-waited",
        INIT + LOAD + "    bar.sync 0;\n    ld.shared.u32 %r10, [%r5]; //!\n    st.global.u32 [%rd5], %r10;\n" + WAIT,
        INIT + LOAD + WAIT + "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;\n",
    ),
    Rule(  # the wrong stage's barrier
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
    Rule(  # the consumers have not released the stage that is refilled
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
    Rule(
        "exit-in-flight",
        INIT + LOAD.replace("1024, [bar];\n$", "1024, [bar]; //!\n$"),
        INIT + LOAD + WAIT,
    ),
    Rule(
        "mbarrier-init-fence",
        INIT.replace("    fence.mbarrier_init.release.cluster;\n", "")
        + LOAD.replace("1024, [bar];\n$", "1024, [bar]; //!\n$") + WAIT,
        INIT + LOAD + WAIT,
    ),
    Rule(
        "mbarrier-reinit",
        INIT + LOAD + WAIT + "    bar.sync 0;\n    @%p1 mbarrier.init.shared.b64 [bar], 1; //!",
        INIT + LOAD + WAIT + "    bar.sync 0;\n    @%p1 mbarrier.inval.shared.b64 [bar];\n"
        "    @%p1 mbarrier.init.shared.b64 [bar], 1;",
    ),
    Rule(
        "proxy",
        FILL + "    bar.sync 0;\n" + STORE.format(" //!", "    cp.async.bulk.wait_group 0;"),
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group 0;"),
    ),
    Rule(  # only the issuing thread fences before the barrier, the others wrote
        "proxy",
        FILL + "    @%p1 fence.proxy.async.shared::cta;\n    bar.sync 0;\n"
        + STORE.format(" //!", "    cp.async.bulk.wait_group 0;"),
        FILL + "    bar.sync 0;\n    @%p1 fence.proxy.async.shared::cta;\n"
        + STORE.format("", "    cp.async.bulk.wait_group 0;"),
    ),
    Rule(  # the barrier is missing
        "race",
        FILL + FENCE + "    bar.warp.sync 0xffffffff;\n" + STORE.format(" //!", "    cp.async.bulk.wait_group 0;"),
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group 0;"),
    ),
    Rule(
        "bulk-source-reused",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "") + "    bar.sync 0;\n"
        "    st.shared.u32 [%r5], %r2; //!\n    @%p1 cp.async.bulk.wait_group 0;",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group.read 0;")
        + "    bar.sync 0;\n    st.shared.u32 [%r5], %r2;",
    ),
    Rule(  # the others wait_group for nothing: the group is the issuer's
        "race",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group.read 0;")
        + "    st.shared.u32 [%r5], %r2; //!",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group.read 0;")
        + "    bar.sync 0;\n    st.shared.u32 [%r5], %r2;",
    ),
    Rule(  # .read says nothing of the destination
        "bulk-copy-not-waited",
        FILL + FENCE + "    bar.sync 0;\n"
        + STORE.format("", "    cp.async.bulk.wait_group.read 0;\n    ld.global.u32 %r10, [%rd2]; //!"),
        FILL + FENCE + "    bar.sync 0;\n"
        + STORE.format("", "    cp.async.bulk.wait_group 0;\n    ld.global.u32 %r10, [%rd2];"),
    ),
    Rule(
        "exit-in-flight",
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format(" //!", ""),
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group.read 0;"),
    ),
    Rule(
        "barrier-divergent",
        "    and.b32 %r10, %r1, 1;\n    setp.eq.u32 %p2, %r10, 0;\n    @%p2 bra $even;\n    bar.sync 0;\n"
        "    bra $join;\n$even:\n    bar.sync 0; //!\n$join:",
        "    and.b32 %r10, %r1, 1;\n    setp.eq.u32 %p2, %r10, 0;\n    @%p2 bra $even;\n    bra $join;\n$even:\n"
        "$join:\n    bar.sync 0;",
    ),
    Rule(
        "membermask",
        "    setp.lt.u32 %p2, %r1, 16;\n    @!%p2 bra $end;\n    vote.sync.ballot.b32 %r10, %p1, 0xff; //!\n$end:",
        "    setp.lt.u32 %p2, %r1, 16;\n    @!%p2 bra $end;\n    vote.sync.ballot.b32 %r10, %p1, 0xffff;\n$end:",
    ),
    Rule(  # threads that execute a shuffle together do not agree on who they are
        "membermask",
        "    setp.lt.u32 %p2, %r1, 16;\n    selp.u32 %r9, 0x0000ffff, 0xffffffff, %p2;\n"
        "    shfl.sync.bfly.b32 %r10, %r1, 1, 31, %r9; //!",
        "    mov.u32 %r9, 0xffffffff;\n    shfl.sync.bfly.b32 %r10, %r1, 1, 31, %r9;",
    ),
    Rule(  # half of a warp shuffles, and its last lanes read from the other half
        "shuffle-source",
        "    setp.lt.u32 %p2, %r1, 16;\n    @!%p2 bra $end;\n    shfl.sync.down.b32 %r10, %r1, 8, 31, 0xffff; //!\n$end:",
        "    setp.lt.u32 %p2, %r1, 16;\n    @!%p2 bra $end;\n    shfl.sync.down.b32 %r10, %r1, 8, 15, 0xffff;\n$end:",
    ),
    Rule(  # a lane that has exited has no register to read
        "shuffle-source",
        "    setp.eq.u32 %p2, %r1, 5;\n    @%p2 exit;\n    shfl.sync.idx.b32 %r10, %r1, 5, 31, 0xffffffff; //!",
        "    setp.eq.u32 %p2, %r1, 5;\n    shfl.sync.idx.b32 %r10, %r1, 5, 31, 0xffffffff;\n    @%p2 exit;",
    ),
    Rule(  # producer and consumer do not agree on how many they are
        "barrier-count",
        "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 bra $consume;\n    bar.arrive 1, 64;\n    bra $end;\n"
        "$consume:\n    bar.sync 1, 32; //!\n$end:",
        "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 bra $consume;\n    bar.arrive 1, 64;\n    bra $end;\n"
        "$consume:\n    bar.sync 1, 64;\n$end:",
    ),
    Rule(  # the CTA that is read may be gone
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
    Rule(
        "warp-incomplete",
        "    setp.lt.u32 %p2, %r1, 16;\n    @%p2 exit;\n"
        + FILL.replace("    st", "    bar.warp.sync 0xffffffff;\n    st")
        + "    mov.f32 %f1, 0f00000000; mov.b32 %r10, 0;\n"
        "    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4,%f5,%f6,%f7}, {%r10,%r10,%r10,%r10}, "
        "{%r10,%r10}, {%f1,%f1,%f1,%f1}; //!",
        "    mov.f32 %f1, 0f00000000; mov.b32 %r10, 0;\n"
        "    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4,%f5,%f6,%f7}, {%r10,%r10,%r10,%r10}, "
        "{%r10,%r10}, {%f1,%f1,%f1,%f1};",
    ),
    Rule(  # distributed shared memory without a barrier of the cluster
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
    Rule(  # a remote arrival needs the fence after mbarrier.init
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
]  # fmt: skip
NAMES = [f"{rule.name}-{number}" for number, rule in enumerate(RULES)]


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_the_broken_kernel_is_found(rule: Rule) -> None:
    breaks(rule.broken, rule.name, **rule.launch)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_the_corrected_kernel_is_silent(rule: Rule) -> None:
    silent(rule.corrected, **rule.launch)


def test_a_parity_that_is_already_complete() -> None:
    """Waiting for the phase before the first returns at once: the data is not there if the copy is late. If it is not
    late, the wait is for the next phase, which never ends. The corrected kernel is that of the first bulk copy.
    """
    body = INIT + LOAD + WAIT.replace("[bar], 0", "[bar], 1") + "    ld.shared.u32 %r10, [%r5]; //!\n"
    rules: set[str] = set()
    for seed in range(1, 12):
        try:
            rules |= {f"{f.rule} {f.line}" for f in run(body, seed=seed).findings if isinstance(f, Finding)}
        except SimulationError as error:
            rules.add(str(error).partition("error: ")[2][:8])
    assert rules >= {f"bulk-copy-not-waited {marked(body)[0]}", "deadlock"}


@pytest.mark.parametrize(
    ("broken", "corrected", "words"),
    [
        (  # one arrival is missing
            "    @%p1 mbarrier.init.shared.b64 [bar], 65;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar];\n"
            "$w:\n    mbarrier.try_wait.shared.b64 %p2, [bar], %rd6;\n    @!%p2 bra $w;",
            "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar];\n"
            "$w:\n    mbarrier.try_wait.shared.b64 %p2, [bar], %rd6;\n    @!%p2 bra $w;",
            ("deadlock: 64 threads", "waits for 1 of 65 arrivals", "count of mbarrier.init"),
        ),
        (  # expect_tx does not match the copy
            INIT + LOAD.replace("[bar], 1024", "[bar], 2048") + WAIT,
            INIT + LOAD + WAIT,
            ("deadlock", "0 of 1 arrivals and 1024 bytes", "does expect_tx match"),
        ),
        (  # the phase bit was flipped once too often
            INIT + LOAD + WAIT + WAIT.replace("$wait", "$again").replace("[bar], 0", "[bar], 1"),
            INIT + LOAD + WAIT,
            ("deadlock", "phase (parity 1)", "or the parity that is waited for wrong?"),
        ),
        (  # a flag that nobody sets
            "    @%p1 st.shared.u32 [buf], 0;\n    bar.sync 0;\n$s:\n    ld.volatile.shared.u32 %r10, [buf];\n"
            "    setp.eq.u32 %p2, %r10, 0;\n    @%p2 bra $s;",
            "    @%p1 st.shared.u32 [buf], 1;\n    bar.sync 0;\n$s:\n    ld.volatile.shared.u32 %r10, [buf];\n"
            "    setp.eq.u32 %p2, %r10, 0;\n    @%p2 bra $s;",
            ("deadlock: 64 threads poll memory here", "ld.volatile.shared.u32"),
        ),
        (  # half wait at a barrier for threads that poll
            "    @%p1 mbarrier.init.shared.b64 [bar], 1;\n    bar.sync 0;\n    setp.lt.u32 %p3, %r1, 32;\n"
            "    @%p3 bra $x;\n$w:\n    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n    @!%p2 bra $w;\n$x:\n"
            "    bar.sync 0;",
            "    @%p1 mbarrier.init.shared.b64 [bar], 1;\n    bar.sync 0;\n    setp.lt.u32 %p3, %r1, 32;\n"
            "    @%p1 mbarrier.arrive.shared.b64 _, [bar];\n"
            "    @%p3 bra $x;\n$w:\n    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n    @!%p2 bra $w;\n$x:\n"
            "    bar.sync 0;",
            ("32 threads poll the mbarrier bar[0] ", "32 threads wait at barrier 0", "may follow from the one at line"),
        ),
        (  # a count that the living threads cannot reach
            "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 exit;\n    bar.sync 0, 64;",
            "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 exit;\n    bar.sync 0, 32;",
            ("deadlock: 32 threads wait at barrier 0", "bar.sync 0, 64", "at most 32 can come"),
        ),
        (
            "    @%p1 mbarrier.init.shared.b64 [bar], 3;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar], 5;",
            "    @%p1 mbarrier.init.shared.b64 [bar], 320;\n    bar.sync 0;\n"
            "    mbarrier.arrive.shared.b64 %rd6, [bar], 5;",
            ("5 arrivals are more than the 3",),
        ),
        (
            "    mbarrier.arrive.shared.b64 %rd6, [bar];",
            "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar];",
            ("not initialised",),
        ),
        (
            "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n"
            "    @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575;\n"
            "    @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 16;",
            "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n"
            "    @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575;",
            ("leaves its range",),
        ),
    ],
)  # fmt: skip
def test_what_can_never_go_on_stops(broken: str, corrected: str, words: tuple[str, ...]) -> None:
    with pytest.raises(SimulationError) as caught:
        run(broken)
    text = str(caught.value)
    for word in words:
        assert word in text, text
    assert "max_steps" not in text
    silent(corrected)


def tensor_map_kernel(release: str, acquire: str) -> str:
    """Thread 0 copies the map of the parameter to global memory, and thread 32 copies with it."""
    words = "".join(f"    ld.param.b64 %rd9, [map+{i}]; st.global.b64 [%rd2+{i}], %rd9;\n" for i in range(0, 128, 8))
    return f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 spare)
{{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<10>;
    .shared .align 1024 .b8 box[256]; .shared .align 8 .b64 bar;
    ld.param.u64 %rd2, [spare]; mov.u32 %r1, %tid.x; mov.u32 %r0, 0;
    setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 32;
    @!%p0 bra $written;
    mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
{words}    {release}
$written:
    bar.sync 0;
    @!%p1 bra $end;
    {acquire}
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd2, {{%r0, %r0}}], [bar];
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
$end:
    ret;
}}
"""


RELEASE, ACQUIRE = (
    "fence.proxy.tensormap::generic.release.gpu;",
    "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;",
)


@pytest.mark.parametrize(
    ("release", "acquire", "words"),
    [
        ("", ACQUIRE, "executed no fence.proxy.tensormap"),
        (RELEASE, "", "acquired it after"),
        (RELEASE, "fence.proxy.async;", "acquired it after"),
        (RELEASE, ACQUIRE, ""),
    ],
)
def test_a_tensor_map_that_the_kernel_writes(release: str, acquire: str, words: str) -> None:
    array, spare = np.zeros((16, 16), np.uint8), np.zeros(128, np.uint8)
    text = tensor_map_kernel(release, acquire)
    report = load(text)["k"].simulate(tensor_map(array, (16, 16)), spare, grid=1, block=64)
    found = [f for f in report.findings if isinstance(f, Finding)]
    assert [f.rule for f in found] == (["proxy"] if words else [])
    assert all(words in f.message and f.instruction.startswith("cp.async.bulk.tensor") for f in found)


def test_a_finding_names_both_sides() -> None:
    found = breaks(FILL + "    ld.shared.u32 %r10, [buf+28]; //!", "race")
    assert found.severity == "error"
    assert found.space == "shared"
    assert found.address == 0x400 + 28
    assert found.count == 63
    assert found.other is not None
    assert found.other.message == "`st.shared.u32 [%r5], %r1;`"
    assert found.other.line is not None
    assert found.line is not None
    assert found.other.line < found.line
    assert "written by thread (7, 0, 0) of CTA (0, 0, 0)" in found.message
    assert "bar.sync" in str(found)


def test_without_checks_nothing_is_found() -> None:
    kernel = load(HEAD + FILL + "    ld.shared.u32 %r10, [buf+28];\n    ret;\n}\n")["k"]
    assert not kernel.simulate(0, 0, grid=1, block=64, check=False).findings
    assert kernel.simulate(0, 0, grid=1, block=64).findings


BULK = "    st.bulk.weak.shared::cta [%r3], 512, 0;\n"
TAKE = "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;"


def test_st_bulk_is_a_store() -> None:
    """Of one thread: what it fills is written, and others see it after a barrier."""
    by_one = "    @!%p1 bra $one;\n{}$one:\n"
    silent(by_one.format(BULK) + "    bar.sync 0;\n" + TAKE, sm=100)
    breaks(by_one.format(BULK) + TAKE.replace(";\n", "; //!\n"), "race", sm=100)
    breaks(FILL + by_one.format(BULK.replace("0;\n", "0; //!\n")), "race", sm=100)
    with pytest.raises(SimulationError, match="out of bounds"):
        run(by_one.format(BULK.replace("512", "8192")), sm=100)


def test_st_bulk_at_a_generic_address() -> None:
    generic = "    mov.u64 %rd9, buf; cvta.shared.u64 %rd9, %rd9;\n    @%p1 st.bulk [%rd9], 512, 0;\n"
    silent(generic + "    bar.sync 0;\n" + TAKE, sm=100)


EDGE = "    setp.lt.u32 %p2, %r1, 40;\n    @%p2 mov.u32 %r11, 5;\n"


def test_what_is_computed_from_undefined_registers() -> None:
    """It is told as a read where it was computed, once something depends on it: a store, an address, a branch. Kernels that
    mask the edge of a tile compute with elements that they neither load nor store.
    """
    compute = "    add.u32 %r12, %r11, %r1; mul.lo.u32 %r12, %r12, 3;\n"
    silent(EDGE + compute + "    @%p2 st.global.u32 [%rd5], %r12;")
    told = compute.replace("%r1; ", "%r1; //!\n    ")
    for use in (
        "    st.global.u32 [%rd5], %r12;",
        "    and.b32 %r12, %r12, 0; cvt.u64.u32 %rd9, %r12; add.s64 %rd9, %rd9, %rd5; st.global.u32 [%rd9], %r1;",
        "    setp.eq.u32 %p3, %r12, 7; @%p3 bra $x;\n    st.global.u32 [%rd5], %r1;\n$x:",
    ):
        found = breaks(EDGE + told + use, "uninitialised-register")
        assert found.other is not None


def test_half_of_a_packed_register() -> None:
    """The halves of an f16x2 at the edge: one was loaded, and it alone is stored."""
    pack = "    .reg .b16 %h<4>;\n    mov.b16 %h0, 1; mov.b32 %r12, {%h0, %h1};\n    add.f16x2 %r12, %r12, %r12;\n"
    silent(pack + "    mov.b32 {%h2, %h3}, %r12;\n    st.global.b16 [%rd5], %h2;")
