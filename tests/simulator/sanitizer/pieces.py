"""Pieces of the kernels of bulk copies, and `Pair`: a kernel that breaks a rule, and a right one next to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyptx.diagnostics import Severity


class Pair(NamedTuple):
    """The broken kernel breaks the rule, and no other, at the lines that end in `//!`. Both are bodies for `kernels.run`, or
    whole kernels where `launch` has their `arguments`.
    """

    rule: str
    broken: str
    right: str
    launch: dict[str, Any] = {}
    """Further arguments of `kernels.run`."""
    severity: Severity | None = None
    """If it is not the one that the rule has."""


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
