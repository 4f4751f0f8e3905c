"""Fences between the proxies."""

from __future__ import annotations

from .. import wgmma_pieces as wgmma
from ..pieces import FENCE, FILL, STORE, Pair

REUSED = """
    @!%p1 bra $end;
    mbarrier.init.shared.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    st.shared.u32 [buf], %r1; fence.proxy.async; ld.shared.u32 %r10, [buf];{}
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 16, [bar];{}
$wait:
    mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0;
    @!%p4 bra $wait;
$end:
"""
PAIRS = [
    Pair(
        "proxy",
        FILL + "    bar.sync 0;\n" + STORE.format(" //!", "    cp.async.bulk.wait_group 0;"),
        FILL + FENCE + "    bar.sync 0;\n" + STORE.format("", "    cp.async.bulk.wait_group 0;"),
    ),
    Pair(  # only the issuing thread fences before the barrier, the others wrote
        "proxy",
        FILL + "    @%p1 fence.proxy.async.shared::cta;\n    bar.sync 0;\n"
        + STORE.format(" //!", "    cp.async.bulk.wait_group 0;"),
        FILL + "    bar.sync 0;\n    @%p1 fence.proxy.async.shared::cta;\n"
        + STORE.format("", "    cp.async.bulk.wait_group 0;"),
    ),
    Pair("proxy", wgmma.ZERO + wgmma.FILL + wgmma.DESCRIPTORS + wgmma.BEGIN + wgmma.MMA + " //!\n" + wgmma.END + wgmma.USE,
         wgmma.READY + wgmma.BEGIN + wgmma.MMA + "\n" + wgmma.END + wgmma.USE, {"block": 128}),
    Pair("proxy-reuse", REUSED.format("", " //!"), REUSED.format(" fence.proxy.async;", "")),
]  # fmt: skip
