"""Tensor maps that a kernel edits."""

from __future__ import annotations

from ..pieces import INIT, WAIT, Pair

COPY = "".join(f"    ld.param.b64 %rd9, [map+{i}]; st.global.b64 [%rd2+{i}], %rd9;\n" for i in range(0, 128, 8))
FENCES = "    fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;\n"
EDITED = (
    INIT
    + "    @!%p1 bra $end;\n    mov.u32 %r9, 0;\n"
    + COPY
    + FENCES
    + """    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd2, {{%r9, %r9}}], [bar];
{}    tensormap.replace.tile.global_address.global.b1024.b64 [%rd2], %rd1;{}
"""
    + FENCES
    + "{}$end:"
)
"""A thread copies its map to global memory, loads with it, and edits it."""
PAIRS = [
    Pair("tensor-map-in-use", EDITED.format("", " //!", WAIT), EDITED.format(WAIT, "", ""), {"mapped": True}),
]
