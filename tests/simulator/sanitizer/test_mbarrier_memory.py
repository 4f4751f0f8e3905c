"""The memory of an mbarrier belongs to it from mbarrier.init to mbarrier.inval (PTX ISA 9.7.15.16.13): every instruction
that touches shared memory is tried against a live one.
"""

from __future__ import annotations

import pytest

from pyptx.simulator.sanitizer import Finding

from .kernels import breaks, marked, run, silent

INIT = """
    setp.lt.u32 %p5, %r1, 32; mov.u64 %rd9, buf; cvta.shared.u64 %rd10, %rd9; mov.u64 %rd11, 0; mov.u32 %r30, 0;
    @!%p1 bra $made;
    mbarrier.init.shared.b64 [buf+128], 1; mbarrier.init.shared.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
$made:
    bar.sync 0;
    mov.u32 %r20, buf; add.u32 %r20, %r20, 128;
"""
INVALIDATE = "    bar.sync 0;\n    @%p1 mbarrier.inval.shared.b64 [buf+128];\n    fence.proxy.async;\n    bar.sync 0;\n"
WAIT = """
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
"""


def by_one(text: str) -> str:
    return f"    @!%p1 bra $one;\n{text}\n$one:\n"


def by_warp(text: str) -> str:
    return f"    @!%p5 bra $warp;\n{text}\n$warp:\n"


def bulk(text: str, size: int = 16) -> str:
    return by_one(f"    mbarrier.arrive.expect_tx.shared.b64 _, [bar], {size};\n    {text} //!") + WAIT


GROUP = "\n    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;"
FRAGMENT = "%r10, %r11, %r12, %r13"
ZEROS = "    mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;\n"
FLOATS = "".join(f"    mov.f32 %f{i}, 0f00000000;\n" for i in range(8))
EIGHT = ", ".join(f"%f{i}" for i in range(8))

WRITES = {
    **{f"st.{t}": by_one(f"    st.shared.{t} [buf+128], %r30; //!") for t in ("b8", "u16", "s32", "f32")},
    "second half": by_one("    st.shared.u32 [buf+132], %r30; //!"),
    "last byte": by_one("    st.shared.u8 [buf+135], %r30; //!"),
    "st.b64": by_one("    st.shared.b64 [buf+128], %rd11; //!"),
    "st.v4": by_one(ZEROS + f"    st.shared.v4.u32 [buf+128], {{{FRAGMENT}}}; //!"),
    "st.v4 before": by_one(ZEROS + f"    st.shared.v4.u32 [buf+112], {{{FRAGMENT}}};\n    st.shared.u64 [buf+128], %rd11; //!"),
    "generic": by_one("    st.u32 [%rd10+128], %r30; //!"),
    "volatile": by_one("    st.volatile.shared.u32 [buf+128], %r30; //!"),
    "release": by_one("    st.release.cta.shared.u32 [buf+128], %r30; //!"),
    "cluster": by_one("    st.shared::cluster.u32 [%r20], %r30; //!"),
    "atom": by_one("    atom.shared.add.u32 %r31, [buf+128], 1; //!"),
    "cas": by_one("    atom.shared.cas.b64 %rd12, [buf+128], %rd11, %rd11; //!"),
    "red": by_one("    red.shared.add.u32 [buf+128], 1; //!"),
    "cp.async": by_one("    cp.async.ca.shared.global [buf+128], [%rd1], 8; //!\n    cp.async.wait_all;"),
    "cp.async zfill": by_one("    cp.async.cg.shared.global [buf+128], [%rd1], 16, 0; //!\n    cp.async.wait_all;"),
    "bulk": bulk("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf+128], [%rd1], 16, [bar];"),
    "bulk over": bulk("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 1024, [bar];", 1024),
    "stmatrix": by_warp(ZEROS + "    stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r20], {%r10}; //!"),
    "wmma.store": by_warp(FLOATS + f"    wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [buf], {{{EIGHT}}}, 16; //!"),
    "st.async": by_one(
        "    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4; mov.u32 %r21, bar;\n"
        "    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r20], %r30, [%r21]; //!"
    ) + WAIT,
    "red.async": by_one(
        "    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4; mov.u32 %r21, bar;\n"
        "    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r20], %r30, [%r21]; //!"
    ) + WAIT,
    "cp.reduce": by_one(
        "    st.shared.v4.u32 [buf+512], {%r30, %r30, %r30, %r30}; fence.proxy.async;\n"
        "    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
        "    cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [buf+128], [buf+512], 16,"
        " [bar]; //!"
    ) + WAIT,
}  # fmt: skip
BLACKWELL = {
    "st.bulk": by_one("    st.bulk.weak.shared::cta [%r20], 64, 0; //!"),
    "try_cancel": bulk(
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [buf+128], [bar];"
    ),
    "tcgen05.alloc": by_warp(
        "    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [buf+128], 32; //!\n    mov.u32 %r31, 0;\n"
        "    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r31, 32;"
    ),
}
READS = {
    "ld": by_one("    ld.shared.u32 %r10, [buf+128]; //!\n    st.global.u32 [%rd5], %r10;"),
    "ld.b64": by_one("    ld.shared.b64 %rd12, [buf+128]; //!\n    st.global.b64 [%rd2], %rd12;"),
    "generic": by_one("    ld.u32 %r10, [%rd10+128]; //!\n    st.global.u32 [%rd5], %r10;"),
    "volatile": by_one("    ld.volatile.shared.u32 %r10, [buf+128]; //!\n    st.global.u32 [%rd5], %r10;"),
    "ldmatrix": by_warp(
        "    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r20]; //!\n    st.global.u32 [%rd5], %r10;"
    ),
    "bulk": by_one("    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf+128], 16; //!" + GROUP),
}


ALL = [*((body, 90) for body in WRITES.values()), *((body, 100) for body in BLACKWELL.values())]
NAMES = [*WRITES, *BLACKWELL]


@pytest.mark.parametrize(("body", "sm"), ALL, ids=NAMES)
def test_a_store_over_a_live_mbarrier(body: str, sm: int) -> None:
    report = run(INIT + body, sm=sm)
    found = [f for f in report.findings if isinstance(f, Finding) and f.rule == "mbarrier-touched"]
    assert [f.line for f in found] == marked(INIT + body), "\n".join(map(str, report.findings))
    assert "written here" in found[0].message
    assert found[0].section == "9.7.15.16.13"
    assert found[0].other is not None
    assert "mbarrier.init" in found[0].other.message


@pytest.mark.parametrize(("body", "sm"), ALL, ids=NAMES)
def test_after_inval_the_memory_is_free(body: str, sm: int) -> None:
    report = run(INIT + INVALIDATE + body, sm=sm)
    assert not any(isinstance(f, Finding) and f.rule.startswith("mbarrier") for f in report.findings), str(report)


@pytest.mark.parametrize("body", READS.values(), ids=READS)
def test_a_load_of_a_live_mbarrier(body: str) -> None:
    report = run(INIT + body)
    found = [f for f in report.findings if isinstance(f, Finding) and f.rule == "mbarrier-touched"]
    assert [f.line for f in found] == marked(INIT + body), "\n".join(map(str, report.findings))
    assert "read here" in found[0].message


def test_memory_next_to_an_mbarrier_is_free() -> None:
    silent(INIT + by_one("    st.shared.u32 [buf+124], %r1;\n    st.shared.u32 [buf+136], %r1;"))


def test_an_mbarrier_after_inval_and_a_new_init() -> None:
    silent(
        INIT + INVALIDATE + "    @%p1 mbarrier.init.shared.b64 [buf+128], 64;\n    bar.sync 0;\n"
        "    mbarrier.arrive.shared.b64 _, [buf+128];"
    )


def test_inval_of_what_was_never_initialised() -> None:
    found = breaks("    @%p1 mbarrier.inval.shared.b64 [bar]; //!", "mbarrier-invalid")
    assert found.severity == "error"


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (INIT + INVALIDATE + "    @%p1 mbarrier.inval.shared.b64 [buf+128]; //!", "mbarrier-invalid"),
        (INIT + "    mbarrier.inval.shared.b64 [buf+128]; //!", "mbarrier-invalid"),  # by every thread
        # while the thread that initialised it has not met this one
        (
            "    setp.eq.u32 %p3, %r1, 32;\n    @%p1 mbarrier.init.shared.b64 [bar], 1;\n"
            "    @%p3 mbarrier.inval.shared.b64 [bar]; //!",
            "race",
        ),
    ],
)
def test_inval_that_is_wrong(body: str, rule: str) -> None:
    breaks(body, rule)


LOAD = INIT + by_one(
    "    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n"
    "    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf+1024], [%rd1], 1024, [bar]; //!"
)


@pytest.mark.parametrize("cluster", [None, 1, 2])
def test_an_initialisation_without_a_fence(cluster: int | None) -> None:
    """Within one CTA a barrier is enough on GPUs (Gluon's kernels rely on it, with clusters, too)."""
    body = LOAD.replace("    fence.mbarrier_init.release.cluster;\n", "") + WAIT
    found = breaks(body, "mbarrier-init-fence", grid=2, cluster=cluster)
    assert found.severity == "warning"


def test_a_copy_tells_the_mbarrier_of_another_cta_which_no_fence_made_visible() -> None:
    """Each CTA of the pair stores to the next one's shared memory and mbarrier."""
    body = """    @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4;
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1; mov.u32 %r11, bar; mapa.shared::cluster.u32 %r11, %r11, %r10;
    mov.u32 %r12, buf; mapa.shared::cluster.u32 %r12, %r12, %r10;
    @%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r12], 7, [%r11]; //!
"""
    found = breaks(body + WAIT, "mbarrier-init-fence", grid=2, cluster=2)
    assert found.severity == "error"


COPY = """    @%p1 mbarrier.init.shared.b64 [bar+8], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;
    @!%p1 bra $go;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 256, [bar+8];
$go:
"""


def test_copies_name_their_mbarrier_by_symbol_and_index() -> None:
    early = breaks(
        COPY + "    ld.shared.u32 %r10, [%r5]; //!\n" + WAIT.replace("[bar]", "[bar+8]"), "bulk-copy-not-waited"
    )
    assert "of mbarrier bar[1] (" in early.message
    found = {f.rule: f.message for f in run(COPY).findings if isinstance(f, Finding)}
    assert "waited for mbarrier bar[1] (" in found["exit-in-flight"]


PAIR = """    .reg .b16 %h1; mov.b16 %h1, 10; mov.u32 %r9, 0; mov.u64 %rd9, map; cvta.param.u64 %rd9, %rd9;
    mov.u32 %r10, %cluster_ctarank; and.b32 %r11, %r10, 1; setp.eq.u32 %p3, %r11, 0; setp.eq.and.u32 %p4, %r10, 1, %p1;
    and.pred %p5, %p3, %p1; mov.u32 %r12, bar; mapa.shared::cluster.u32 %r13, %r12, 0;
    @%p5 mbarrier.init.shared.b64 [bar], 1; @%p5 fence.mbarrier_init.release.cluster;
    @%p5 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
    barrier.cluster.arrive; barrier.cluster.wait;
    @%p4 cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [buf], [%rd9, {%r9, %r9}], [%r13], %h1;
    @!%p3 bra $meet;
$wait:
    mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
$meet:
"""
MEET = "    barrier.cluster.arrive; barrier.cluster.wait;\n"
READ = "    @!%p3 ld.shared.u32 %r20, [%r5];"


def test_the_first_mbarrier_of_a_pair_tells_of_the_data_of_both_ctas() -> None:
    """CTA 1 loads for CTAs 1 and 3; those of CTA 0 and 2 tell of it, as for cutlass's 2-SM kernels."""
    launch = {"grid": 4, "cluster": 4, "sm": 100, "mapped": True}
    silent(PAIR + MEET + READ, **launch)
    breaks(PAIR + READ + " //!\n" + MEET, "bulk-copy-not-waited", **launch)
