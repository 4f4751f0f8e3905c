"""What may stand in braces, against ptxas: every pair of a few registers and constants, in stores, moves and coordinates."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.fuzz_verdicts import asked, ours
from pyptx.runtime.ptxas import ToolNotFound, find_tool

PLACES = (
    "st.global.v2.f32 [%d1], {};",
    "st.global.v2.b32 [%d1], {};",
    "st.global.v2.f64 [%d1], {};",
    "red.global.add.v2.f32 [%d1], {};",
    "mov.b64 %d1, {};",
    "sust.b.1d.v2.b32.trap [su, {{%r1}}], {};",
    "suld.b.2d.b32.trap %r1, [su, {}];",
    "tex.2d.v4.f32.f32 {{%r1, %r2, %r3, %r4}}, [tx, {}];",
    "tex.a1d.v4.f32.f32 {{%r1, %r2, %r3, %r4}}, [tx, {}];",
    "ld.global.v2.f32 {}, [%d1];",
)
ELEMENTS = ("%r1", "%f1", "%s1", "%u1", "%d1", "%v1", "%g1", "%h1", "1", "1.0", "0f3F800000", "%laneid")


def test_pairs_in_braces_are_judged_as_ptxas_judges_them() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    lines = [p.format(f"{{{a}, {b}}}") for p in PLACES for a, b in product(ELEMENTS, ELEMENTS)]
    lines = [
        line for line in lines if not (line.startswith("ld") and ("1.0" in line or "0f" in line or "lane" in line))
    ]
    theirs, mine = asked(lines, "9.5", "sm_90a"), ours(lines, "9.5", "sm_90a")
    assert sum(not refused for refused in theirs) > 200
    wrong = [(line, t[:1], m[:1]) for line, t, m in zip(lines, theirs, mine, strict=True) if bool(t) != bool(m)]
    assert not wrong, "\n".join(f"{line} ptxas: {t} pyptx: {m}" for line, t, m in wrong)
