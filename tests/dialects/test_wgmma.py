"""Warpgroup matrices."""

import pytest

from pyptx.dialects.ptx.wgmma import WgmmaMmaAsync, WgmmaWaitGroup
from tests.dialects.judge import refusal, roles

D = "{%r0,%r1,%r2,%r3}"
F16 = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, "


@pytest.mark.parametrize(
    "text",
    [
        F16 + "%d0, %d1, %p0, 1, -1, 0, 1;",
        F16 + "%d0, %d1, !%p0, 1, 1, 0, 0;",
        F16 + "{%r4,%r5,%r6,%r7}, %d1, 0, 1, 1, 1;",
        f"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 {D}, %d0, %d1, %r9, 1, %p0, 1, 1, 0, 0;",
        f"wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.u8.s8 {D}, %d0, %d1, %p0;",
        "wgmma.wait_group.sync.aligned 7;",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_90a") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (F16 + "%d0, %d1, %p0, 2, 1, 0, 0;", "imm_scale_a must be one of -1, 1"),
        (F16 + "%d0, %d1, %p0, 1, 1, 0, 2;", "imm_trans_b"),
        (F16 + "%d0, %d1, %p0, 1, 1;", "operands"),
        (F16 + "{%r4,%r5,%r6,%r7}, %d1, %p0, 1, 1, 0, 0;", "must be"),
        (F16 + "%d0, %d1, 2, 1, 1, 0, 0;", "scale_d"),
        (F16.replace("%r3", "_") + "%d0, %d1, %p0, 1, 1, 0, 0;", "operand d may not be the sink"),
        (F16.replace("n8", "n16") + "%d0, %d1, %p0, 1, 1, 0, 0;", "8 elements"),
        (f"wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {D}, %d0, %d1, %p0;", ""),
        ("wgmma.wait_group.sync.aligned -1;", "operand n"),
    ],
)
def test_illegal(text: str, reason: str):
    said = refusal(text, target="sm_90a")
    assert said
    assert reason in said


def test_availability():
    assert "sm_90a" in refusal("wgmma.fence.sync.aligned;", "9.0", "sm_100a")
    mixed = f"wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {D}, %d0, %d1, %p0;"
    assert "8.4" in refusal(mixed, "8.3", "sm_90a")


def test_accumulator_is_read_and_written():
    assert roles(F16 + "%d0, %d1, %p0, 1, 1, 0, 0;") == "{~, ~, ~, ~}, $, $, $, 1, 1, 0, 0"
    assert WgmmaMmaAsync.in_flight == WgmmaWaitGroup.waits_for == "wgmma"
