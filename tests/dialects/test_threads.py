"""Verdicts are the same from several threads that ask first."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import pyptx
from pyptx.dialects.ptx.instruction import OPCODES

LINES = (
    "setp.lt.u32 %p1, %r1, %r2;",
    "mul.wide.s32 %d1, %r1, %r2;",
    "fma.rn.f32 %r1, %r2, %r3, %r4;",
    "st.global.u64 [%d1], %d2;",
)
TEXT = (
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
    + "\n".join(LINES) + "\nret;\n}\n"
)  # fmt: skip


def test_first_questions_from_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(30):
            for cls in OPCODES.values():
                monkeypatch.setattr(cls, "_words", {})
                monkeypatch.setattr(cls, "_bindings", {})
                monkeypatch.setattr(cls, "_resolutions", {})
            with ThreadPoolExecutor(8) as pool:
                assert [f for found in pool.map(pyptx.diagnose, [TEXT] * 16) for f in found] == []
    finally:
        sys.setswitchinterval(before)
