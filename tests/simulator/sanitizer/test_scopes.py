"""Messages between CTAs: releases and acquires of each kind and scope, as in public code, right and wrong."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx.simulator.sanitizer import Finding

from .kernels import breaks, run, silent

MESSAGE = """
    setp.eq.u32 %p3, %r2, 0; and.pred %p4, %p3, %p1;
    not.pred %p5, %p3; and.pred %p5, %p5, %p1;
    @!%p4 bra $reader;
    st.global.u32 [%rd2+64], 5;
    {}
    bra $end;
$reader:
    @!%p5 bra $end;
$spin:
    {}
    setp.ne.u32 %p6, %r10, 1;
    @%p6 bra $spin;
    {}
    ld.global.u32 %r11, [%rd2+64];
$end:
"""
GRID = """
    mul.wide.u32 %rd6, %r2, 4; add.s64 %rd6, %rd2, %rd6;
    @%p1 st.global.u32 [%rd6+64], %r2;
    bar.sync 0;
    @!%p1 bra $met;
    {}
$spin:
    {}
    setp.lt.u32 %p6, %r10, 2;
    @%p6 bra $spin;
    {}
$met:
    bar.sync 0;
    ld.global.u32 %r11, [%rd2+64]; ld.global.u32 %r12, [%rd2+68];
"""
LAST = """
    mul.wide.u32 %rd7, %r2, 256; add.s64 %rd7, %rd7, %rd5;
    st.global.u32 [%rd7+64], %r1;
    {}
    bar.sync 0;
    @!%p1 bra $told;
    atom.global.inc.u32 %r11, [%rd2], 1;
    setp.eq.u32 %p3, %r11, 1; selp.u32 %r12, 1, 0, %p3;
    st.shared.u32 [buf+256], %r12;
$told:
    bar.sync 0;
    ld.shared.u32 %r12, [buf+256];
    setp.eq.u32 %p3, %r12, 1;
    @!%p3 bra $end;
    {}
    ld.global.u32 %r13, [%rd2+100]; ld.global.u32 %r14, [%rd2+500];
$end:
"""
REMOTE = """
    st.shared.u32 [%r5], %r1;
    @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.eq.u32 %p3, %r2, 0; and.pred %p4, %p3, %p1;
    mov.u32 %r12, 1; mov.u32 %r14, bar;
    mapa.shared::cluster.u32 %r11, %r3, %r12; mapa.shared::cluster.u32 %r13, %r14, %r12;
    @%p4 st.shared::cluster.u32 [%r11], 77;
    @%p4 mbarrier.arrive{}.shared::cluster.b64 _, [%r13];
    @%p3 bra $end;
$wait:
    mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
    ld.shared.u32 %r15, [buf];
$end:
    barrier.cluster.arrive; barrier.cluster.wait;
"""
CLUSTER = {"grid": 2, "cluster": 2}
TWO = {"grid": 2}


@pytest.mark.parametrize(
    ("pattern", "parts", "launch"),
    [
        (MESSAGE, ("st.release.gpu.global.u32 [%rd2], 1;", "ld.acquire.gpu.global.u32 %r10, [%rd2];", ""), TWO),
        (MESSAGE, ("fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%rd2], 1;",
                   "ld.relaxed.gpu.global.u32 %r10, [%rd2];", "fence.acq_rel.gpu;"), TWO),
        (MESSAGE, ("membar.gl; st.volatile.global.u32 [%rd2], 1;",
                   "ld.volatile.global.u32 %r10, [%rd2];", "membar.gl;"), TWO),
        (GRID, ("membar.gl; red.global.add.u32 [%rd2], 1;", "ld.volatile.global.u32 %r10, [%rd2];", "membar.gl;"), TWO),
        (GRID, ("red.release.gpu.global.add.u32 [%rd2], 1;", "ld.acquire.gpu.global.u32 %r10, [%rd2];", ""), TWO),
        (GRID, ("atom.acq_rel.gpu.global.add.u32 %r10, [%rd2], 1;",
                "atom.acq_rel.gpu.global.add.u32 %r10, [%rd2], 0;", ""), TWO),
        (LAST, ("membar.gl;", "membar.gl;"), TWO),  # all fence, a barrier, one counts; a barrier, all fence
        (REMOTE, (".release.cluster",), CLUSTER),
        (REMOTE, ("",), CLUSTER),
    ],
)  # fmt: skip
def test_right(pattern: str, parts: tuple[str, ...], launch: dict[str, int]) -> None:
    silent(pattern.format(*parts), **launch)


@pytest.mark.parametrize(
    ("pattern", "parts", "launch"),
    [
        (MESSAGE, ("st.release.cta.global.u32 [%rd2], 1;", "ld.acquire.gpu.global.u32 %r10, [%rd2];", ""), TWO),
        (MESSAGE, ("st.release.gpu.global.u32 [%rd2], 1;", "ld.relaxed.gpu.global.u32 %r10, [%rd2];", ""), TWO),
        (MESSAGE, ("st.release.gpu.global.u32 [%rd2], 1;", "ld.relaxed.gpu.global.u32 %r10, [%rd2];",
                   "fence.acq_rel.cta;"), TWO),
        (MESSAGE, ("fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%rd2], 1;",
                   "ld.acquire.gpu.global.u32 %r10, [%rd2];", ""), TWO),
        (MESSAGE, ("membar.cta; st.volatile.global.u32 [%rd2], 1;",
                   "ld.volatile.global.u32 %r10, [%rd2];", "membar.gl;"), TWO),
        (MESSAGE, ("membar.gl; st.global.u32 [%rd2], 1;", "ld.volatile.global.u32 %r10, [%rd2];", "membar.gl;"), TWO),
        (GRID, ("red.global.add.u32 [%rd2], 1;", "ld.volatile.global.u32 %r10, [%rd2];", "membar.gl;"), TWO),
        (GRID, ("red.release.cta.global.add.u32 [%rd2], 1;", "ld.acquire.gpu.global.u32 %r10, [%rd2];", ""), TWO),
        (LAST, ("", "membar.gl;"), TWO),
        (LAST, ("membar.gl;", ""), TWO),
        (REMOTE, (".release.cta",), CLUSTER),
        (REMOTE, (".relaxed.cluster",), CLUSTER),
    ],
)  # fmt: skip
def test_wrong(pattern: str, parts: tuple[str, ...], launch: dict[str, int]) -> None:
    findings = [f for f in run(pattern.format(*parts), **launch).findings if isinstance(f, Finding)]  # pyright: ignore
    assert {f.rule for f in findings} == {"race"}


def test_strong_stores_to_one_place_do_not_race() -> None:
    """Any of them wins: a flag, or the number of a winner. Where scopes do not reach, and for weak stores, they race."""
    body = "    mov.u32 %r9, %ctaid.x;\n    {}.u32 [%rd1], %r9;\n    ret;"
    head = ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 a)\n{\n.reg .b32 %r<10>;\n.reg .b64 %rd<3>;\n"
    for store, races in (
        ("st.global", 1),
        ("st.relaxed.cta.global", 1),
        ("st.relaxed.gpu.global", 0),
        ("st.volatile.global", 0),
    ):
        text = f"{head}ld.param.u64 %rd1, [a];\n{body.format(store)}\n}}\n"
        found = pyptx.load(text)["k"].simulate(np.zeros(1, np.uint32), grid=4, block=1).findings
        assert len(found) == races, store


@pytest.mark.parametrize("fence", ["fence.acq_rel.cluster;", "fence.sc.cluster;", "membar.gl;", ""])
def test_a_fence_before_a_relaxed_arrival_of_the_cluster_releases(fence: str) -> None:
    text = f""".version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 o) .reqnctapercluster 2
{{
    .reg .b64 %o, %p; .reg .b32 %t, %r, %peer, %b, %there, %v, %g;
    .shared .align 16 .b8 buf[128];
    ld.param.u64 %o, [o]; cvta.to.global.u64 %o, %o;
    mov.u32 %t, %tid.x; mov.u32 %r, %cluster_ctarank; xor.b32 %peer, %r, 1;
    mov.u32 %b, buf; mad.lo.u32 %b, %t, 4, %b;
    mapa.shared::cluster.u32 %there, %b, %peer;
    mad.lo.u32 %v, %r, 100, %t;
    st.shared.u32 [%b], %v;
    {fence}
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait.acquire;
    ld.shared::cluster.u32 %v, [%there];
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %g, %ctaid.x; mad.lo.u32 %g, %g, 32, %t; mul.wide.u32 %p, %g, 4; add.u64 %p, %p, %o;
    st.global.u32 [%p], %v;
    ret;
}}
"""
    out = np.full(64, 0xCDCDCDCD, np.uint32)
    found = pyptx.simulate(pyptx.load(text)["k"], out, grid=2, block=32).findings
    assert {f.rule for f in found} == (set() if fence else {"race"})
    assert out.tolist() == [*range(100, 132), *range(32)]


# ----------------------------------------------------------------------------------- proxies between clusters

BULK_MESSAGE = """
    @%p1 mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; {early}
    setp.eq.u32 %p3, %r2, 0;
    @!%p3 bra $reader;
    @!%p1 bra $other;
    st.global.v4.u32 [%rd2+64], {{1, 2, 3, 4}};
    {writer}
    red.release.gpu.global.add.u32 [%rd2], 1;
    bra $end;
$other:
    {bystander}
    bra $end;
$reader:
    @!%p1 bra $end;
$spin:
    ld.acquire.gpu.global.u32 %r10, [%rd2];
    setp.ne.u32 %p6, %r10, 1;
    @%p6 bra $spin;
    {reader}
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    add.s64 %rd6, %rd2, 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd6], 16, [bar]; {mark}
$wait:
    mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;
    @!%p7 bra $wait;
$end:
"""
FENCE_GLOBAL = "fence.proxy.async.global;"


def bulk_message(**parts: str) -> str:
    return BULK_MESSAGE.format(**{"early": "", "writer": "", "bystander": "", "reader": "", "mark": "", **parts})


@pytest.mark.parametrize("cluster", [None, 2])
@pytest.mark.parametrize(
    "right", [{"writer": FENCE_GLOBAL}, {"reader": FENCE_GLOBAL}, {"reader": "fence.proxy.async;"}]
)
def test_proxy_fences_on_the_way(right: dict[str, str], cluster: int | None) -> None:
    """The writer fences before it releases, or the reader after it has acquired: in a cluster and between clusters."""
    silent(bulk_message(**right), grid=2, cluster=cluster)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("cluster", [None, 2])
@pytest.mark.parametrize(
    "wrong",
    [{}, {"early": FENCE_GLOBAL}, {"bystander": FENCE_GLOBAL}, {"writer": "fence.acq_rel.gpu;"}],
    ids=["none", "before the store", "another thread", "no proxy fence"],
)
def test_proxy_fences_beside_the_way(wrong: dict[str, str], cluster: int | None) -> None:
    """A fence that neither side executes between store and copy orders nothing."""
    breaks(bulk_message(**wrong, mark="//!"), "proxy", grid=2, cluster=cluster)  # pyright: ignore[reportArgumentType]


COPIED = """
    st.shared.u32 [%r5], %r1; fence.proxy.async;
    @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.eq.u32 %p3, %r2, 0; and.pred %p4, %p3, %p1;
    mov.u32 %r12, 1; mov.u32 %r14, bar; mapa.shared::cluster.u32 %r13, %r14, %r12;
    @!%p4 bra $others;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    mbarrier.arrive{}.shared::cluster.b64 _, [%r13];
$others:
    @%p3 bra $end;
$wait:
    mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
    ld.global.u32 %r15, [%rd5];
$end:
    barrier.cluster.arrive; barrier.cluster.wait;
"""


def test_a_scope_that_is_too_narrow_after_a_wait_group() -> None:
    """The thread that waited for its copies tells another CTA, which reads what they wrote: .cta does not reach it (8.5)."""
    assert not run(COPIED.format(".release.cluster"), **CLUSTER).findings
    (found,) = run(COPIED.format(".release.cta"), **CLUSTER).findings
    assert isinstance(found, Finding) and found.rule == "race"
    assert "which waited for it (wait_group)" in found.message
    hint = found.hint or ""
    assert "mbarrier.arrive.release.cta" in hint and "the scope .cta" in hint and ".cluster" in hint


WAITS = REMOTE.replace("mbarrier.arrive{}", "mbarrier.arrive").replace(".acquire.cluster", "{}")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (REMOTE.format(".release.cta"), ("mbarrier.arrive.release.cta", "the scope .cta", ".cluster")),
        (WAITS.format(".acquire.cta"), ("mbarrier.try_wait.parity.acquire.cta", "the scope .cta", ".cluster")),
    ],
)
def test_a_scope_that_is_too_narrow_is_told_as_such(body: str, words: tuple[str, ...]) -> None:
    """PTX ISA 8.5: .cta is "all threads executing in the same CTA as the current thread"."""
    hints = {f.hint or "" for f in run(body, **CLUSTER).findings if isinstance(f, Finding) and f.rule == "race"}
    assert len(hints) == 1
    (hint,) = hints
    assert all(word in hint for word in words), hint
    assert ".gpu" not in hint
    assert "wait_group" not in hint


def test_races_in_a_cluster_need_the_scope_of_the_cluster() -> None:
    body = REMOTE.format("").replace("    @%p4 mbarrier.arrive", "    @%p4 mbarrier.arrive.relaxed.cluster", 1)
    hints = {f.hint or "" for f in run(body, **CLUSTER).findings if isinstance(f, Finding) and f.rule == "race"}
    assert hints
    assert all(".cluster" in hint and ".gpu" not in hint for hint in hints)


def test_the_use_of_an_uninitialised_value_is_no_other_side() -> None:
    report = run("    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;")
    (found,) = [f for f in report.findings if isinstance(f, Finding) and f.rule == "uninitialised-shared"]
    assert "the use of its value is `st.global.u32" in found.message
    assert "other side" not in found.render()


def test_counts_are_those_of_one_place() -> None:
    """32 threads of each of 4 CTAs write their numbers to each of 8 words."""
    body = (
        "    and.b32 %r10, %r1, 7; shl.b32 %r10, %r10, 2; add.u32 %r11, %r3, %r10;\n    st.shared.u32 [%r11], %r1; //!"
    )
    (found,) = run(body, grid=4, block=256).distinct
    assert "32 threads write different values to the same place" in found.message
