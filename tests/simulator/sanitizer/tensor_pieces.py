"""Pieces of kernels with tensor memory (tcgen05)."""

from __future__ import annotations

MEET = """
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
"""
ALLOCATE = (
    """
    setp.lt.u32 %p4, %r1, 32; setp.lt.u32 %p5, %r1, 128;
    @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster;
    @!%p4 bra $allocated;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [bar+24], 32;{}
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
$allocated:
"""
    + MEET
    + """
    ld.shared.b32 %r20, [bar+24];
    shr.u32 %r21, %r1, 5; and.b32 %r21, %r21, 3; shl.b32 %r22, %r21, 21; add.u32 %r22, %r22, %r20;
"""
)
BEGIN = ALLOCATE.format("")
END = (
    MEET
    + """
    @!%p4 bra $freed;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, 32;
$freed:
"""
)
STORE = "    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r22], {%r1};\n"
STORED = "    tcgen05.wait::st.sync.aligned;\n"
LOAD = "    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r23}, [%r22];"
LOADED = "\n    tcgen05.wait::ld.sync.aligned;\n"
USE = "    st.global.u32 [%rd5], %r23;"
FIRST = "    @!%p5 bra $second;\n"
SECOND = "$second:\n"
FILL = "".join(f"    st.shared.u32 [%r5+{512 * i}], %r1;\n" for i in range(8))
PROXY = "    fence.proxy.async.shared::cta;\n"
COPY = """
    shr.u32 %r13, %r3, 4; cvt.u64.u32 %rd10, %r13; or.b64 %rd10, %rd10, 0x0000401000080000;
    @%p1 tcgen05.cp.cta_group::1.128x256b [%r20], %rd10;"""
COMMIT = "\n    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
WAIT = """
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
"""
AFTER = "    tcgen05.fence::after_thread_sync;\n"
COPIED = FILL + PROXY + "    bar.sync 0;\n" + COPY

# warps 0 to 3 store what warps 4 to 7, of the same lanes, load
PASSED = BEGIN + FIRST + STORE + STORED + SECOND
MULTIPLY = (
    BEGIN
    + FILL
    + PROXY
    + """    @%p1 mbarrier.init.shared.b64 [bar+8], 1; bar.sync 0; mov.u32 %r14, 0x04020010;
    shr.u32 %r13, %r3, 4; cvt.u64.u32 %rd10, %r13; add.s64 %rd11, %rd10, 128;
    or.b64 %rd10, %rd10, 0x0000400800400000; or.b64 %rd11, %rd11, 0x0000400800080000;
    @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r20], %rd10, %rd11, %r14, 0;
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.sync_restrict::shared::read::mma::a.shared::cluster.b64 [bar];
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];
"""
    + WAIT
)
"""A, 64 x 16 halves, lies in the first 2048 bytes and B after; the wait is for the reads of A only."""
HALF = LOAD.replace("32x32b", "16x64b")
"""D of 64 rows is in 16 of each 32 lanes."""
ALL = WAIT.replace("$wait", "$whole").replace("[bar]", "[bar+8]")


def collecting(*mmas: str) -> str:
    """Several mma of the same A and B; `{}` in the first qualifier stands for none."""
    text = "\n".join(
        line if line.startswith("    ") else
        f"    @%p1 tcgen05.mma.cta_group::1.kind::f16{line.removesuffix(' //!')} [%r20], %rd10, %rd11, %r14, 0;"
        + (" //!" if line.endswith("//!") else "")
        for line in mmas
    )  # fmt: skip
    before, _, after = MULTIPLY.partition("    @%p1 tcgen05.mma")
    return before + text + "\n" + after.partition("\n")[2] + ALL + AFTER + END


OTHER = "    add.s64 %rd10, %rd10, 8;"
