"""Which writes a proxy fence must follow before the async proxy reads them, by the instruction that wrote.

The table is that of NVIDIA's manuals: `st`, `cp.async`, `st.async` and `red.async` are of the generic proxy, `cp.async.bulk` is of the
async proxy and its completion is followed by an implicit fence (PTX ISA 8.6, 9.7.10.28; CUDA C++ Programming Guide, asynchronous
threads: LDGSTS and STAS/REDAS operate in the generic proxy). A fence orders what is complete when it is executed, and
nothing else.
"""

from __future__ import annotations

import pytest

from pyptx.simulator.sanitizer import Finding

from . import tensor_pieces as tensor
from . import wgmma_pieces as wgmma
from .kernels import run

INIT = """
    @!%p1 bra $ready;
    mbarrier.init.shared.b64 [bar], 1; mbarrier.init.shared.b64 [bar+8], 1; mbarrier.init.shared.b64 [bar+16], 128;
    fence.mbarrier_init.release.cluster;
$ready:
    bar.sync 0;
    mov.u32 %r14, bar; mov.u32 %r10, 0;
"""
WAIT = """
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
"""
FENCE = "    fence.proxy.async.shared::cta;\n"
EXPECT = "    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4096;\n    bar.sync 0;\n"


def _each(text: str) -> str:
    """For each 512 bytes of the buffer, of which a thread writes four."""
    return "".join(text.format(512 * i) for i in range(8))


ZEROS = _each("    st.shared.u32 [%r5+{0}], %r10;\n")
COPY = _each("    cp.async.ca.shared.global [%r5+{0}], [%rd4+{0}], 4;\n")
CLEARED = ZEROS + FENCE + EXPECT.replace("4096", "512")
REMOTE = "shared::cluster.mbarrier::complete_tx::bytes"
WRITERS = {
    "st": (ZEROS, ""),
    "cp.async": (COPY + "    cp.async.commit_group;\n", "    cp.async.wait_group 0;\n"),
    "cp.async on an mbarrier": (
        COPY + "    cp.async.mbarrier.arrive.noinc.shared.b64 [bar+16];\n",
        WAIT.replace("[bar]", "[bar+16]"),
    ),
    "cp.async.bulk": (EXPECT + "    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 4096, [bar];\n", WAIT),
    "st.async": (CLEARED + f"    st.async.{REMOTE}.u32 [%r5], %r10, [%r14];\n", WAIT),
    "red.async": (CLEARED + f"    red.async.relaxed.cluster.{REMOTE}.add.u32 [%r5], %r10, [%r14];\n", WAIT),
}  # fmt: skip
"""Kind -> (128 threads write 4096 bytes, or after a fence the first 512 again; the wait for it)."""
GROUP = "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n"
READERS = {
    "ld": "    ld.shared.u32 %r20, [%r5]; st.global.u32 [%rd5], %r20;\n",
    "wgmma": wgmma.DESCRIPTORS.replace("bar.sync 0;", "") + wgmma.BEGIN + wgmma.MMA + "\n" + wgmma.END + wgmma.USE,
    "bulk store": "    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 256;\n" + GROUP,
    "tensor store": """    mov.b64 %rd21, map;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd21, {%r10, %r10}], [buf];
"""
    + GROUP,
    "bulk load over it": """    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 512;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 512, [bar+8];
"""
    + WAIT.replace("[bar]", "[bar+8]").replace("$wait", "$over"),
    "tcgen05.mma": """
    shr.u32 %r13, %r3, 4; cvt.u64.u32 %rd10, %r13; add.s64 %rd11, %rd10, 128; mov.u32 %r15, 0x04020010;
    or.b64 %rd10, %rd10, 0x0000400800400000; or.b64 %rd11, %rd11, 0x0000400800080000;
    @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r20], %rd10, %rd11, %r15, 0;
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar+8];
"""
    + WAIT.replace("[bar]", "[bar+8]").replace("$wait", "$over")
    + tensor.AFTER
    + tensor.END,
}
ENOUGH = {"after the wait", "after the barrier"}
FENCES = ("none", "before the wait", "after the wait", "after the barrier", "by a bystander")


def findings(writer: str, reader: str, fence: str) -> list[Finding]:
    write, wait = WRITERS[writer]
    blackwell = reader == "tcgen05.mma"
    init = tensor.BEGIN + INIT.replace("mbarrier.init.shared.b64 [bar], 1;", "") if blackwell else wgmma.ZERO + INIT
    body = "".join(
        (
            init,
            write,
            FENCE if fence == "before the wait" else "",
            wait,
            FENCE if fence == "after the wait" else "",
            "    bar.sync 0;\n",
            "    @!%p1 bra $read;\n" + FENCE + "$read:\n" if fence == "after the barrier" else "",
            "    setp.eq.u32 %p6, %r1, 5;\n    @%p6" + FENCE if fence == "by a bystander" else "",
            READERS[reader],
        )
    )
    report = run(body, block=128, cluster=1, sm=100 if blackwell else 90, mapped=reader == "tensor store", schedules=1)
    return [f for f in report.findings if isinstance(f, Finding)]


def _expected(writer: str, reader: str, fence: str) -> bool:
    """Whether a fence is missing."""
    if reader == "ld" or writer == "cp.async.bulk":
        return False
    return fence not in ENOUGH and not (writer == "st" and fence == "before the wait")


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("reader", READERS)
def test_table(writer: str, reader: str) -> None:
    """The first reader is told, and the instruction that wrote is named; all places of the fence are tried with wgmma."""
    for fence in FENCES if reader == "wgmma" else ("none", "after the wait"):
        found = findings(writer, reader, fence)
        if not _expected(writer, reader, fence):
            assert not found, f"{fence}:\n" + "\n".join(map(str, found))
            continue
        assert {f.rule for f in found} == {"proxy"}, fence
        for f in found:
            assert f.other is not None
            assert f.other.message.startswith("`" + writer.partition(" ")[0] + "."), fence
