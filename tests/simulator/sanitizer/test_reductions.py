"""Asynchronous reductions meet in any order; asynchronous stores are ordered by their mbarrier."""

from __future__ import annotations

from .kernels import breaks, silent

INIT = """
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
    st.shared.u32 [buf], 0;
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r10, bar; mapa.shared::cluster.u32 %r11, %r10, 0; mapa.shared::cluster.u32 %r12, %r3, 0;
    mov.u32 %r13, %cluster_ctarank;
"""
REDUCE = "    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r12], %r1, [%r11];\n"
WAIT = """
    setp.ne.u32 %p3, %r13, 0;
    @%p3 bra $end;
$wait:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
"""
END = "\n$end:\n    barrier.cluster.arrive; barrier.cluster.wait;\n"


def test_many_threads_reduce_into_one_place() -> None:
    silent(INIT + REDUCE + WAIT + "    ld.shared.u32 %r14, [buf];" + END, grid=2, cluster=2)


def test_the_sum_is_read_before_its_barrier() -> None:
    body = INIT + REDUCE + "    @%p1 ld.shared.u32 %r14, [buf]; //!\n"
    found = breaks(body + WAIT + END, "bulk-copy-not-waited", grid=2, cluster=2)
    assert found.other is not None
    assert "red.async" in found.other.message


def test_bulk_reductions_of_many_ctas() -> None:
    """Each CTA adds its part to the same bytes of global memory."""
    silent("""
    st.shared.u32 [%r5], %r1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra $end;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [buf], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
$end:""", grid=3)  # fmt: skip


AGGREGATE = """
    and.b32 %r10, %r1, 31;
    setp.ne.u32 %p3, %r10, LEADER;
    @%p3 bra $join;
    atom.global.add.u32 %r11, [%rd1], 32;
$join:
    shfl.sync.idx.b32 %r12, %r11, 0, 31, -1;
    add.u32 %r12, %r12, %r10;
    st.shared.u32 [%r5], %r12;
"""
"""Warp-aggregated atomics: one lane takes a place for all, and the others get it by a shuffle."""


def test_shuffles_read_the_lanes_they_name() -> None:
    silent(AGGREGATE.replace("LEADER", "0"))
    breaks(AGGREGATE.replace("LEADER", "1").replace("-1;", "-1; //!"), "uninitialised-register")
