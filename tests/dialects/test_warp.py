"""Exchange and votes within a warp."""

import pytest

from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "shfl.sync.bfly.b32 %r0|%p0, %r1, 16, 31, -1;",
        "shfl.idx.sync.b32 %f0, %f1, %r2, 31, 0xffffffff;",  # modifiers in any order
        "vote.sync.ballot.b32 %r0, !%p1, -1;",
        "match.all.sync.b64 %r0|%p0, %d1, %r2;",
        "redux.sync.min.abs.NaN.f32 %f0, %f1, -1;",
        "elect.sync _|%p0, -1;",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("shfl.sync.bfly.b64 %d0, %d1, 16, 31, -1;", "no modifier .b64"),
        ("shfl.sync.bfly.b32 %r0, %r1, 16, 31;", "takes 5 operands, not 4"),
        ("shfl.bfly.b32 %r0, %r1, 16, 31;", "removed after PTX 6.3"),
        ("vote.sync.all.pred %r0, %p1, -1;", ".pred register"),
        ("match.any.sync.b32 %r0|%p0, %r1, %r2;", "not a pair"),
        ("redux.sync.add.f32 %f0, %f1, -1;", ""),
        ("elect.sync %r0, -1;", "pair"),
    ],
)
def test_illegal(text: str, reason: str):
    message = refusal(text)
    assert message
    assert reason in message


def test_old_targets_keep_unsynchronised_forms():
    assert refusal("shfl.bfly.b32 %r0, %r1, 16, 31;", "9.0", "sm_60") == ""
    assert refusal("shfl.bfly.b32 %r0, %r1, 16, 31;", "6.3", "sm_70") == ""
    assert "sm_100a" in refusal("redux.sync.min.f32 %f0, %f1, -1;", "9.0", "sm_90a")


def test_roles():
    assert roles("shfl.sync.bfly.b32 %r0|%p0, %r1, 16, 31, -1;") == "=|=, $, 16, 31, -1"
