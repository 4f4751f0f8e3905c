"""Atomics, reductions and multimem."""

import pytest

from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "atom.acq_rel.gpu.global.cas.b32 %r0, [%d1], %r1, %r2;",
        "atom.global.add.u32 _, [%d1], 1;",
        "atom.global.add.noftz.v4.bf16x2 {%r0,%r1,_,%r3}, [%d1], {%r4,%r5,%r6,%r7};",
        "red.relaxed.gpu.global.add.f64 [%d1], %d2;",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %r1, [%r2];",
        "multimem.ld_reduce.relaxed.gpu.global.add.acc::f32.v4.bf16x2 {%r0,%r1,%r2,%r3}, [%d1];",
        "multimem.red.release.sys.global.add.v4.f32 [%d1], {%r0,%r1,%r2,%r3};",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("atom.global.add.s64 %d0, [%d1], %d2;", ".s64"),
        ("atom.global.add.f16x2 %r0, [%d1], %r2;", "noftz"),
        ("atom.global.min.f32 %f0, [%d1], %f2;", ""),
        ("atom.shared.add.v2.f32 {%r0,%r1}, [%r1], {%r2,%r3};", ".shared"),
        ("atom.shared.L2::cache_hint.add.u32 %r0, [%r1], %r2, %d0;", "not for .shared"),
        ("atom.local.add.u32 %r0, [%r1], %r2;", "no modifier .local"),
        ("red.acquire.gpu.add.u32 [%d1], %r2;", "no modifier .acquire"),
        ("red.exch.b32 [%d1], %r2;", "no modifier .exch"),
        ("multimem.st.f16 [%d1], %h2;", "16 bits"),
        ("multimem.ld_reduce.add.f32 _, [%d1];", "sink"),
        ("multimem.red.add.noftz.f16x2 [%d1], %r0;", "no modifier .noftz"),
    ],
)
def test_illegal(text: str, reason: str):
    message = refusal(text)
    assert message
    assert reason in message


@pytest.mark.parametrize(
    ("text", "version", "target", "reason"),
    [
        ("atom.gpu.add.u32 %r0, [%d1], %r2;", "7.0", "sm_53", "sm_60 or newer"),
        ("atom.relaxed.add.u32 %r0, [%d1], %r2;", "7.0", "sm_60", "sm_70 or newer"),
        ("atom.global.add.noftz.f32 %f0, [%d1], %f2;", "9.3", "sm_90", "PTX 9.4"),
        ("atom.exch.b128 %q0, [%d1], %q2;", "8.3", "sm_80", "sm_90 or newer"),
        ("multimem.ld_reduce.add.e4m3x4 %r0, [%d1];", "8.7", "sm_100", "sm_100a"),
    ],
)
def test_availability(text: str, version: str, target: str, reason: str):
    assert reason in refusal(text, version, target)


def test_roles():
    assert roles("atom.cas.b32 %r0, [%d1], %r1, %r2;") == "=, [$], $, $"
    assert roles("red.add.u32 [%d1], %r1;") == "[$], $"
