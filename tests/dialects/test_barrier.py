"""Barriers and fences."""

import pytest

from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "bar.sync 0;",
        "bar.sync %r0, 64;",
        "barrier.sync.aligned 15, %r1;",
        "bar.red.popc.u32 %r0, 1, 64, !%p0;",
        "bar.warp.sync -1;",
        "barrier.cluster.arrive.relaxed.aligned;",
        "fence.acq_rel.cluster;",
        "fence.gpu.sc;",
        "fence.proxy.async.shared::cta;",
        "fence.proxy.tensormap::generic.acquire.gpu [%d0], 128;",
        "fence.mbarrier_init.release.cluster;",
        "griddepcontrol.launch_dependents;",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bar.sync 16;", "0..15"),
        ("bar.sync 0, 48;", "multiple of 32"),
        ("bar.arrive 0, 0;", "may not be 0"),
        ("bar.arrive 0;", "2 operands, not 1"),
        ("bar.sync.aligned 0;", "no modifier .aligned"),
        ("bar.red.and.u32 %r0, 0, %p0;", ""),
        ("barrier.cluster.wait.release;", "no modifier .release"),
        ("membar.gpu;", "no modifier .gpu"),
        ("fence.sc;", "needs"),
        ("fence.proxy.tensormap::generic.acquire.gpu [%d0], 64;", "must be one of 128"),
        ("fence.mbarrier_init.release.gpu;", ""),
    ],
)
def test_illegal(text: str, reason: str):
    message = refusal(text)
    assert message
    assert reason in message


def test_availability():
    assert "PTX 7.8" in refusal("bar.cta.sync 0;", "7.7", "sm_80")
    assert "sm_90 or newer" in refusal("fence.acquire.gpu;", "9.0", "sm_80")
    assert "sm_70 or newer" in refusal("fence.proxy.alias;", "9.0", "sm_60")


def test_roles():
    assert roles("bar.red.and.pred %p0, 0, %p1;") == "=, 0, $"
