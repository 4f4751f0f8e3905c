"""mbarrier."""

import pytest

from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "mbarrier.init.shared::cta.b64 [%r0], 1;",
        "mbarrier.arrive.b64 %d0, [%r0];",
        "mbarrier.arrive.noComplete.release.cta.shared.b64 _, [%r0], %r1;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0], 2;",
        "mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 %d0, [%r0], %r1;",
        "mbarrier.arrive_drop.cta.release.b64 %d0, [%r0];",
        "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r0], 16;",
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p0, [%r0], %r1, 1000;",
        "mbarrier.test_wait.phase_type::primary.b64 %p0|%p1, %b0, [%r0], %d1;",
        "mbarrier.test_wait.parity.phase_type::conditional.b64 %p0, [%r0], 1;",
        "mbarrier.pending_count.b64 %r0, %d0;",
        "mbarrier.check_layout.layout::v1.shared.b64 %p0, [%r0];",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mbarrier.arrive.release.b64 %d0, [%r0];", "needs one of .cta .cluster"),
        ("mbarrier.arrive.cta.b64 %d0, [%r0];", "needs one of .release .relaxed"),
        ("mbarrier.arrive.shared::cluster.b64 %d0, [%r0];", "must be the sink '_'"),
        ("mbarrier.arrive.b64 %d0, [%r0], 0;", "count must be at least 1, not 0"),
        ("mbarrier.arrive.b64 %r0, [%r0];", "operand d must be .u64"),
        ("mbarrier.arrive.release.cta.expect_tx.b64 %d0, [%r0], 1;", ""),
        ("mbarrier.init.b64 [%r0], 1048576;", "count must be in 1..1048575"),
        ("mbarrier.init.shared::cluster.b64 [%r0], 1;", "no modifier .shared::cluster"),
        ("mbarrier.try_wait.parity.b64 %p0, [%r0], 2;", "phase must be in 0..1"),
        ("mbarrier.try_wait.b64 _, [%r0], %d0;", "may not be the sink"),
        ("mbarrier.test_wait.b64 %p0, [%r0], %d0, 5;", "not 4"),
        ("mbarrier.test_wait.phase_type::conditional.b64 %p0, [%r0], %d0;", ""),
        ("mbarrier.try_wait.release.cta.b64 %p0, [%r0], %d0;", "no modifier .release"),
        ("mbarrier.expect_tx.release.cta.b64 [%r0], 16;", "no modifier .release"),
        ("mbarrier.inval.b64 [16];", "constants are .local only"),
    ],
)
def test_illegal(text: str, reason: str):
    message = refusal(text)
    assert message
    assert reason in message


@pytest.mark.parametrize(
    ("text", "version", "target", "reason"),
    [
        ("mbarrier.arrive.b64 _, [%r0];", "7.0", "sm_80", "PTX 7.1"),
        ("mbarrier.arrive.b64 %d0, [%r0], %r1;", "8.0", "sm_80", "operand count of"),
        ("mbarrier.arrive.relaxed.cta.b64 %d0, [%r0];", "8.5", "sm_90", "PTX 8.6"),
        ("mbarrier.init.shared::cta.b64 [%r0], 1;", "7.7", "sm_80", "PTX 7.8"),
        ("mbarrier.try_wait.b64 %p0, [%r0], %d0;", "8.0", "sm_80", "sm_90 or newer"),
        ("mbarrier.arrive.multicast::cluster::32b.b64 _, [%r0], %r1;", "9.4", "sm_100a", "sm_107a"),
    ],
)
def test_availability(text: str, version: str, target: str, reason: str):
    assert reason in refusal(text, version, target)


def test_roles():
    assert roles("mbarrier.arrive.b64 %d0, [%r0], %r1;") == "=, [$], $"
    assert roles("mbarrier.arrive.b64 _, [%r0];") == "_, [$]"
    assert roles("mbarrier.try_wait.phase_type::primary.b64 %p0|%p1, %b0, [%r0], %d1;") == "=|=, =, [$], $"
