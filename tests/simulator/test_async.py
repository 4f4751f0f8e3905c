"""mbarrier, cp.async, bulk copies and clusters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import LoadedKernel, load
from tests.simulator.assembling import assembled


def kernel(body: str, variables: str = "", target: str = "sm_90a", version: str = "8.7") -> LoadedKernel:
    return load(f""".version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst, .param .u32 n)
{{
    .reg .pred %p<10>;
    .reg .b32 %r<30>;
    .reg .b64 %rd<30>;
    {variables}
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
    setp.eq.u32 %p1, %r2, 0;
{body}
    ret;
}}
""")["k"]


RING = """
    .shared .align 128 .b8 stage[2048];
    .shared .align 8 .b64 full[2];
    .shared .align 8 .b64 empty[2];
"""
PIPELINE = """
    mov.u32 %r4, full; mov.u32 %r5, empty; mov.u32 %r6, stage;
    @!%p1 bra $ready;
    mbarrier.init.shared.b64 [full], 1; mbarrier.init.shared.b64 [full+8], 1;
    mbarrier.init.shared.b64 [empty], 64; mbarrier.init.shared.b64 [empty+8], 64;
    fence.mbarrier_init.release.cluster;
$ready:
    bar.sync 0;
    mad.lo.u32 %r7, %r3, %r1, 0;
    mul.wide.u32 %rd3, %r7, 1024;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    mov.u32 %r8, 0;
    setp.lt.u32 %p2, %r2, 64;
    @%p2 bra $consumer;
    setp.ne.u32 %p3, %r2, 64;
    @%p3 bra $end;
$produce:
    and.b32 %r9, %r8, 1;
    shl.b32 %r10, %r9, 3;
    add.u32 %r11, %r5, %r10;
    add.u32 %r12, %r4, %r10;
    shr.u32 %r13, %r8, 1;
    xor.b32 %r13, %r13, 1;
    and.b32 %r13, %r13, 1;
$free:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r11], %r13;
    @!%p4 bra $free;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 1024;
    shl.b32 %r14, %r9, 10;
    add.u32 %r14, %r14, %r6;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%rd4], 1024, [%r12];
    add.s64 %rd4, %rd4, 1024;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p5, %r8, %r1;
    @%p5 bra $produce;
    bra $end;
$consumer:
    mul.wide.u32 %rd6, %r2, 16;
    add.s64 %rd5, %rd5, %rd6;
    shl.b32 %r15, %r2, 4;
$consume:
    and.b32 %r9, %r8, 1;
    shl.b32 %r10, %r9, 3;
    add.u32 %r11, %r5, %r10;
    add.u32 %r12, %r4, %r10;
    shr.u32 %r13, %r8, 1;
    and.b32 %r13, %r13, 1;
$filled:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r12], %r13;
    @!%p4 bra $filled;
    shl.b32 %r14, %r9, 10;
    add.u32 %r14, %r14, %r6;
    add.u32 %r14, %r14, %r15;
    ld.shared.v4.u32 {%r16, %r17, %r18, %r19}, [%r14];
    mbarrier.arrive.shared::cta.b64 %rd7, [%r11];
    add.u32 %r16, %r16, 1;
    st.global.v4.u32 [%rd5], {%r16, %r17, %r18, %r19};
    add.s64 %rd5, %rd5, 1024;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p5, %r8, %r1;
    @%p5 bra $consume;
$end:
"""


@pytest.mark.parametrize(("ctas", "rounds"), [(1, 1), (3, 9), (17, 4)])
def test_warp_specialised_ring(ctas: int, rounds: int) -> None:
    """One thread fills a ring of two stages with bulk copies, two warps empty it; full and empty barriers both ways."""
    source = np.random.default_rng(rounds).integers(0, 2**32, (ctas * rounds, 256), dtype=np.uint32)
    out = np.zeros_like(source)
    kernel(PIPELINE, RING).simulate(source, out, rounds, grid=ctas, block=96)
    want = source.copy()
    want[:, ::4] += 1
    assert np.array_equal(out, want)


def fault(k: LoadedKernel, *args: object, **launch: object) -> str:
    with pytest.raises(SimulationError) as caught:
        k.simulate(*args, **launch)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("mbarrier.arrive.shared.b64 %rd3, [full];", "no mbarrier at this address"),
        ("@%p1 mbarrier.init.shared.b64 " "[full], 5; bar.sync 0; " "mbarrier.arrive.shared.b64 " "%rd3, [full], 6;", "6 arrivals are more than the 5"),
        ("mbarrier.init.shared.b64 [full+4], 5;", "misaligned"),
        ("mov.u32 %r4, 0; mbarrier.init.shared.b64 [full], %r4;", "counts 1 to"),
        ("@%p1 mbarrier.init.shared.b64 " "[full], 1; " "bar.sync 0; mbarrier.inval.shared.b64 " "[full]; mbarrier.test_wait.parity.shared.b64 " "%p2, [full], 0;", "made invalid"),
        ("@!%p1 exit; mbarrier.init.shared.b64 " "[full], 1; " "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes " "" "[stage], [%rd1], 1040, [full];", "out of bounds"),
        ("@!%p1 exit; mbarrier.init.shared.b64 " "[full], 1; " "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes " "" "[stage+8], [%rd1], 16, [full];", "misaligned"),
    ],
)  # fmt: skip
def test_misuse_is_named(body: str, words: str) -> None:
    text = fault(kernel(body, RING), np.zeros(256, np.uint32), np.zeros(4, np.uint32), 1, grid=1, block=32)
    assert words in text, text


def test_waiting_for_ever_is_found() -> None:
    body = (
        "@%p1 mbarrier.init.shared.b64 [full], 33; bar.sync 0; mbarrier.arrive.shared.b64 %rd3, "
        "[full];\n$l:\nmbarrier.try_wait.shared.b64 %p2, [full], %rd3;\n@!%p2 bra $l;"
    )
    text = fault(kernel(body, RING), 0, 0, 1, grid=1, block=32, max_steps=5000, check=False)
    assert "5000 steps" in text
    kernel(body.replace("33", "32"), RING).simulate(0, 0, 1, grid=1, block=32)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async(size: int) -> None:
    """Copies with a shorter source are filled up with zeros, and a source of no bytes is not touched."""
    body = f"""
    mul.wide.u32 %rd3, %r2, {size}; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    mov.u32 %r4, stage; mad.lo.u32 %r5, %r2, {size}, %r4;
    rem.u32 %r6, %r2, {size + 1};
    setp.eq.u32 %p2, %r6, 0;
    selp.b64 %rd4, 0, %rd4, %p2;
    cp.async.{"cg" if size == 16 else "ca"}.shared.global [%r5], [%rd4], {size}, %r6;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    xor.b32 %r7, %r2, 1; mad.lo.u32 %r5, %r7, {size}, %r4;
    """
    body += {4: ("ld.shared.u32 %r8, [%r5]; " "st.global.u32 [%rd5], %r8;"), 8: ("ld.shared.u64 %rd8, [%r5]; " "st.global.u64 [%rd5], %rd8;"),
             16: "ld.shared.v2.u64 {%rd8, %rd9}, [%r5]; st.global.v2.u64 [%rd5], {%rd8, %rd9};"}[size]  # fmt: skip
    source = np.random.default_rng(size).integers(1, 256, (64, size)).astype(np.uint8)
    out = np.zeros_like(source)
    kernel(body, RING).simulate(source, out, 0, grid=1, block=64)
    want = np.where(np.arange(size) < (np.arange(64) % (size + 1))[:, None], source, 0)
    assert np.array_equal(out, want[np.arange(64) ^ 1])


@pytest.mark.corpus
def test_cuda_pipeline(corpus_dir: Path) -> None:
    g = np.random.default_rng(1).normal(size=1024).astype(np.float32)
    o = np.zeros(65, np.float32)
    load(corpus_dir / "hard" / "ptx" / "asyncpipe.ptx")["k_async"].simulate(g, o, grid=1, block=64)
    # o[i + 1] = s[3] is written by thread i after o[i] = s[i]; s[3] is then the fourth float of thread 0's copy
    assert (o[1:] == g[3]).all()
    assert o[0] == g[0]


@pytest.mark.corpus
@pytest.mark.parametrize("clusters", [1, 4])
def test_cuda_cluster(corpus_dir: Path, clusters: int) -> None:
    """Distributed shared memory through generic addresses, cluster barriers, cuda::barrier."""
    o = np.zeros(64 * clusters, np.int32)
    o[:32] = np.random.default_rng(2).integers(0, 99, 32)
    given = o[:32].copy()
    load(corpus_dir / "hard" / "ptx" / "cluster.ptx")["k_cluster"].simulate(o, grid=2 * clusters, block=32)
    assert np.array_equal(o, np.tile(given, 2 * clusters))


@pytest.mark.parametrize(
    ("order", "width", "type_", "target"),
    [("", "", "", "sm_90a"), ("", "::16b", "", "sm_90"), (".relaxed.gpu", "", ".b128", "sm_90a"), ("", "::32b", ".b128", "sm_107f")],
)  # fmt: skip
def test_cluster_multicast_and_remote_arrival(order: str, width: str, type_: str, target: str) -> None:
    """CTA 0 copies to both CTAs of its cluster; each waits on its own barrier, then arrives at the barrier of CTA 0."""
    copy = f"cp.async.bulk{order}.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster{width}{type_}"
    body = f"""
    .reg .b32 %remote;
    mov.u32 %r4, %cluster_ctarank;
    @!%p1 bra $ready;
    mbarrier.init.shared.b64 [full], 1;
    mbarrier.init.shared.b64 [empty], 64;
    mbarrier.arrive.expect_tx.shared.b64 %rd3, [full], 512;
$ready:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    setp.ne.u32 %p2, %r4, 0;
    or.pred %p2, %p2, !%p1;
    @%p2 bra $wait;
    {copy} [stage], [%rd1], 512, [full], 3;
$wait:
    mbarrier.try_wait.parity.shared.b64 %p3, [full], 0;
    @!%p3 bra $wait;
    mov.u32 %r5, stage;
    shl.b32 %r6, %r2, 4;
    add.u32 %r5, %r5, %r6;
    ld.shared.u32 %r7, [%r5];
    mov.u32 %r8, empty;
    mapa.shared::cluster.u32 %remote, %r8, 0;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%remote];
    mov.u32 %r9, %nctaid.x;
    setp.ne.u32 %p4, %r4, 0;
    @%p4 bra $store;
$all:
    mbarrier.try_wait.parity.shared.b64 %p3, [empty], 0;
    @!%p3 bra $all;
$store:
    mad.lo.u32 %r10, %r3, 32, %r2;
    mul.wide.u32 %rd4, %r10, 4;
    add.s64 %rd5, %rd2, %rd4;
    st.global.u32 [%rd5], %r7;
    barrier.cluster.arrive;
    barrier.cluster.wait;"""
    source = np.arange(128, dtype=np.uint32) * 3
    out = np.zeros(128, np.uint32)
    kernel(body, RING, target, "9.4").simulate(source, out, 0, grid=4, block=32, cluster=2)
    assert np.array_equal(out, np.tile(source[::4], 4))


def test_cp_async_that_ignores_its_source() -> None:
    """With a predicate, plain or negated, zeros are written where it holds."""
    source = np.random.default_rng().integers(1, 1 << 32, 128, dtype=np.uint32)
    for negated in ("", "!"):
        out = np.full(128, 7, np.uint32)
        assembled(f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 16 .b8 box[512];
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3; mov.u32 %r2, box; mad.lo.u32 %r2, %r1, 4, %r2;
    and.b32 %r3, %r1, 3; setp.eq.u32 %p1, %r3, 1;
    cp.async.ca.shared.global [%r2], [%rd4], 4, {negated}%p1;
    cp.async.wait_all;
    ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd5], %r4;
    ret;
}}
""").simulate(source, out, grid=1, block=128)
        ignored = (np.arange(128) % 4 == 1) != bool(negated)
        assert np.array_equal(out, np.where(ignored, 0, source))
