"""A bulk copy that every lane of a warp issues, as CuTe DSL writes it, and what a fence between proxies is not needed for."""

from __future__ import annotations

import pytest

from pyptx.simulator.sanitizer import Finding

from .kernels import breaks, run, silent

FILL = """
    mov.u32 %r10, %r3; add.u32 %r11, %r3, 1024;
$fill:
    @%p1 st.shared.v4.u32 [%r10], {%r10, %r10, %r10, %r10};
    add.u32 %r10, %r10, 16; setp.lt.u32 %p2, %r10, %r11; @%p2 bra $fill;
    fence.proxy.async.shared::cta;
    bar.sync 0;
"""
GROUP = "\n    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group{} 0;\n"
STORE = "    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 512;"


@pytest.mark.parametrize("read", ["", ".read"])
@pytest.mark.parametrize("block", [32, 64, 128])
def test_every_lane_stores_the_same(read: str, block: int) -> None:
    found = breaks(FILL + STORE + " //!" + GROUP.format(read), "copy-repeated", block=block)
    assert found.severity == "warning"
    assert found.count == block
    assert found.message.startswith(f"{block} threads issue this copy of the same 512 bytes")


def test_one_lane_stores() -> None:
    silent(FILL + "    @!%p1 bra $end;\n" + STORE + GROUP.format("") + "$end:", block=32)


def test_the_same_copy_again_after_a_wait() -> None:
    silent(FILL + "    @!%p1 bra $end;\n    mov.u32 %r10, 0;\n$loop:\n" + STORE + GROUP.format("")
           + "    add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 3; @%p2 bra $loop;\n$end:", block=32)  # fmt: skip


@pytest.mark.parametrize(
    "store",
    [
        # two lanes copy different sources to the same place
        "    add.u32 %r10, %r3, %r4;\n    shl.b32 %r11, %r1, 4; add.u32 %r10, %r3, %r11;\n"
        "    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r10], 256; //!",
        # overlapping places
        "    shl.b32 %r11, %r1, 4; cvt.u64.u32 %rd9, %r11; add.s64 %rd9, %rd9, %rd2;\n"
        "    cp.async.bulk.global.shared::cta.bulk_group [%rd9], [buf], 256; //!",
    ],
)
def test_different_copies_to_one_place_are_an_error(store: str) -> None:
    found = breaks(FILL + store + GROUP.format(""), "bulk-copy-not-waited", block=32)
    assert found.severity == "error"


def test_sums_of_every_lane_are_no_repetition() -> None:
    store = STORE.replace(
        "cp.async.bulk.global.shared::cta.bulk_group", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    )
    silent(FILL + store + GROUP.format(""), block=32)


LOAD = """
    @%p1 mbarrier.init.shared.b64 [bar], 32;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 512, [bar]; //!
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
    ld.shared.u32 %r10, [%r5];
    st.global.u32 [%rd5], %r10;
"""


def test_every_lane_loads_the_same() -> None:
    found = breaks(LOAD, "copy-repeated", block=32)
    assert (found.severity, found.count) == ("warning", 32)


ALLOCATE = """
    setp.lt.u32 %p4, %r1, 32;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    @!%p4 bra $allocated;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [buf], 32;
$allocated:
    bar.sync 0;
    ld.shared.b32 %r20, [buf];
    bar.sync 0;
"""
REUSE = """
    @!%p1 bra $issued;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 1024, [bar]; //!
$issued:
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
    @!%p4 bra $freed;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;
$freed:
"""


def test_a_copy_over_the_word_that_alloc_wrote() -> None:
    """The manual says that the store of tcgen05.alloc is weak and names no proxy: Triton reuses the word without a fence."""
    silent(ALLOCATE + REUSE, sm=100)


def test_a_copy_over_a_word_that_a_store_wrote() -> None:
    store = "    @%p1 st.shared.u32 [buf], %r20;\n    bar.sync 0;\n"
    breaks(ALLOCATE + store + REUSE, "proxy", sm=100)


def test_a_copy_while_a_thread_reads_the_word_that_alloc_wrote() -> None:
    late = ALLOCATE.removesuffix("    bar.sync 0;\n")
    found = run(late + REUSE, sm=100).errors
    assert {f.rule for f in found if isinstance(f, Finding)} == {"race"}
