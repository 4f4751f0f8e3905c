"""A single operand in braces, against ptxas: which instructions take it, and for what."""

from __future__ import annotations

import pytest

from benchmarks.fuzz_verdicts import asked, ours
from pyptx.runtime.ptxas import ToolNotFound, find_tool

SPARSE = "mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0,%r1,%r2,%r3},{%r4,%r5},{%r6,%r7},{%r0,%r1,%r2,%r3},"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r0], "
PUT = (
    "fabric.try_put.async.shared::cta.mbarrier::complete_tx::16B.mbarrier::report::fabric.cp_mask.relaxed.sys.b128"
    " [%r0, %d0], [%r1], %r2, [%r3], "
)
LINES = (
    *(f"mbarrier.arrive{drop}.shared.b64 %d1, [%r1], {{{count}}};" for drop in ("", "_drop", ".noComplete")
      for count in ("%r2", "%u2", "%d2", "%h2", "%f2", "1", "1.0", "%r2, %r3", "_", "%laneid")),
    *(f"mbarrier.{what}.shared.b64 {d}[%r1], {{%r2}};" for what, d in (
        ("init", ""), ("arrive.expect_tx", "%d1, "), ("arrive_drop.expect_tx", "%d1, "), ("expect_tx.relaxed.cta", ""),
        ("complete_tx.relaxed.cta", ""), ("test_wait", "%p1, "), ("try_wait.parity", "%p1, "))),
    "mbarrier.arrive.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [%r1], {%r2}, %r3;",
    "mbarrier.arrive.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [%r1], %r2, {%r3};",
    *(f"{SPARSE} {{{e}}}, 0;" for e in ("%r8", "%u1", "%f1", "1", "%d1", "%r8, %r9", "%laneid")),
    *(f"{COMMIT}{{{mask}}};" for mask in ("%h1", "1", "%r1", "%h1, %h2", "%i1", "%j1", "%e1")),
    *(f"{PUT}{{{mask}}};" for mask in ("%h1", "1", "%r1", "%i1", "%j1")),
    f"{COMMIT}%j1;", f"{PUT}%j1;", "cvt.rn.satfinite.s2f6x2.f32 {%j1}, %r1, %r2;", "cvt.rn.satfinite.s2f6x2.f32 %j1, %r1, %r2;",
    *(f"cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d0], [%r1], %r2, {mask};" for mask in ("{%h1}", "{%j1}", "%j1")),
    *(f"cvt.rn.satfinite{scale}.s2f6x2.{source};" for scale, source in (
        ("", "f32 {%h0}, %r1, %r2"), ("", "f32 {%i1}, %r1, %r2"), ("", "f32 {_}, %r1, %r2"), ("", "f32 %h0, {%r1}, %r2"),
        ("", "bf16x2 {%h0}, %r1"), ("", "bf16x2 %h0, {%r1}"), (".scaled::n2::ue8m0", "f32 {%h0}, %r1, %r2, %h3"))),
    *(f"mov.b128 {d}, {a};" for d, a in (("{%q1}", "%q2"), ("%q1", "{%q2}"), ("{%q1}", "{%q2}"), ("%q1", "{1}"), ("{_}", "%q1"))),
    *(f"cvt.rn.satfinite.e2m1x2.{a};" for a in ("bf16x2 %b1, {%r1}", "bf16x2 {%b1}, %r1", "f16x2 %b1, {%r1}", "bf16x2 %b1, {1}")),
    *(f"clusterlaunchcontrol.query_cancel.{what}.b128 {operands};" for what, operands in (
        ("get_first_ctaid::x.b32", "%r0, {%q0}"), ("is_canceled.pred", "%p0, {%q0}"),
        ("get_first_ctaid.v4.b32", "{%r0, %r1, %r2, %r3}, {%q0}"))),
)  # fmt: skip


def test_single_operands_in_braces_are_judged_as_ptxas_judges_them() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    theirs, mine = asked(list(LINES), "9.5", "sm_107a"), ours(list(LINES), "9.5", "sm_107a")
    assert sum(not refused for refused in theirs) > 20
    wrong = [(line, t[:1], m[:1]) for line, t, m in zip(LINES, theirs, mine, strict=True) if bool(t) != bool(m)]
    assert not wrong, "\n".join(f"{line} ptxas: {t} pyptx: {m}" for line, t, m in wrong)
