"""Branches, calls, the stack and the miscellaneous instructions."""

import pytest

from pyptx.dialects.ptx.control import Branch, Call, Return
from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "bra.uni L1;",
        "brx.idx %r0, targets;",
        "call f;",
        "call.uni (ret0), f, (p0, p1);",
        "call (%r0, _), f, (%r1, 5, 1.0);",
        "call (%r0), %d1, (%r1), prototype;",
        "call %r1, targets;",
        "ret.uni;",
        "exit;",
        "alloca.u64 %d0, 64, 16;",
        "nanosleep.u32 100;",
        "setmaxnreg.dec.sync.aligned.u32 40;",
        "pmevent.mask 0xffff;",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bra %r0;", "must be a label"),
        ("bra 3;", "must be a label"),
        ("brx.idx %d0, targets;", "and the register is .b64"),
        ("call (%r0), %d1, (%r1);", ""),  # no prototype
        ("call (1), f, (%r1);", "results of a call"),
        ("call f, (_);", "arguments of a call"),
        ("alloca.u64 %d0, 64, 12;", "power of two"),
        ("stackrestore.u32 4;", "must be a register"),
        ("pmevent 16;", "0..15"),
        ("setmaxnreg.dec.sync.aligned.u32 41;", "must be a multiple of 8 in 24..256"),
        ("setmaxnreg.dec.sync.aligned.u32 %r0;", "must be a constant"),
        ("trap.uni;", "no modifier .uni"),
    ],
)
def test_illegal(text: str, reason: str):
    message = refusal(text)
    assert message
    assert reason in message


def test_setmaxnreg_needs_an_arch_specific_target():
    assert "sm_90a" in refusal("setmaxnreg.dec.sync.aligned.u32 40;", "8.6", "sm_90")


def test_a_call_writes_its_results():
    assert roles("call (%r0), f, (%r1, 2);") == "call (=), f, ($, 2)"
    assert roles("call (%r0), %d1, (%r1), prototype;") == "call (=), $, ($), prototype"
    assert roles("call (ret0), f, (%r1);") == "call (ret0), f, ($)"


def test_terminators():
    assert Branch.terminator
    assert Return.terminator
    assert not Call.terminator
