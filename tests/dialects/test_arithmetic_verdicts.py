"""Arithmetic, comparison and conversion that the probed table lacks: our verdict is that of ptxas, on every target."""

from __future__ import annotations

import random

import pytest

from benchmarks.fuzz_verdicts import TARGETS, asked, ours
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version
from pyptx.runtime.ptxas import ToolNotFound, find_tool

LINES = {
    "four small floats": """
        add.e4m3x4.e2m1x4 %r0, %h1, %r2;
        add.rn.satfinite.e5m2x4.ue8m0x4 %r0, %r1, %r2;
        sub.e4m3x4.satfinite.e2m1p4x4.rn %r0, %r1, %r2;
        mul.e4m3x4.e2m3x4.e2m1x4 %r0, %r1, %h2;
        fma.rn.e5m2x4.e3m2x4.e2m1x4 %r0, %r1, %h2, %r3;
        fma.satfinite.e4m3x4.e2m1x4.e2m1x4 %r0, %h1, %h2, %r3;
        add.e4m3x4.e2m1x4 %r0, %r1, %r2;
        add.rz.e4m3x4.e4m3x4 %r0, %r1, %r2;
        add.e3m2x4.e4m3x4 %r0, %r1, %r2;
        add.e4m3x4 %r0, %r1, %r2;
        add.ftz.e4m3x4.e4m3x4 %r0, %r1, %r2;
        mul.e4m3x4.e4m3x4 %r0, %r1, %r2;
        mul.e4m3x4.e4m3x4.ue8m0x4 %r0, %r1, 3;
        mul.e4m3x4.e4m3x4.ue8m0x4 %u0, %r1, %r2;
        fma.relu.e4m3x4.e4m3x4.e4m3x4 %r0, %r1, %r2, %r3;
    """,
    "pairs of different types": """
        add.f32x2.f16x2.f32x2 %d0, %r1, %d2;
        add.rp.f32x2.f16x2.f32x2 %d0, %x1, %d2;
        add.rz.ftz.f16x2.f32x2.f32x2 %x0, %d1, %d2;
        sub.rz.bf16x2.f32x2.f32x2 %r0, %d1, %d2;
        sub.rm.f32x2.bf16x2.f32x2 %d0, %r1, %d2;
        mul.rz.ftz.f16x2.f32x2.f32x2 %r0, %d1, %d2;
        mul.rz.bf16x2.f32x2.f32x2 %r0, %d1, %d2;
        mul.f16x2.f16x2.bf16x2 %x0, %x1, %r2;
        mul.bf16x2.bf16x2.f16x2 %r0, %r1, %x2;
        fma.rz.f32x2.bf16x2.f32x2.f32x2 %d0, %r1, %d2, %d3;
        add.ftz.f32x2.f16x2.f32x2 %d0, %r1, %d2;
        add.rn.f16x2.f32x2.f32x2 %r0, %d1, %d2;
        add.rz.f16x2.f32x2.f32x2 %r0, %d1, %d2;
        add.rz.ftz.bf16x2.f32x2.f32x2 %r0, %d1, %d2;
        add.f32x2.f16x2 %d0, %r1, %d2;
        add.sat.f32x2.f16x2.f32x2 %d0, %r1, %d2;
        add.f32x2.bf16x2.f32x2 %d0, %x1, %d2;
        add.rz.bf16x2.f32x2.f32x2 %r0, %d1, %g2;
        mul.rn.f16x2.f16x2.bf16x2 %x0, %x1, %r2;
        mul.f16x2.f16x2.bf16x2 %x0, %x1, %x2;
        mul.f32x2.bf16x2.f32x2 %d0, %r1, %d2;
        fma.f32x2.bf16x2.f32x2.f32x2 %d0, %r1, %d2, %d3;
    """,
    "set of packed integers": """
        set.lo.u8x4 %r0, %r1, %r2;
        set.ge.s8x4 %r0, %r1, %x2;
        set.hs.u16x2 %x0, %r1, %r2;
        set.ne.s16x2 %r0, %r1, %r2;
        set.hs.s8x4 %r0, %r1, %r2;
        set.num.u16x2 %r0, %r1, %r2;
        set.eq.u8x4.u8x4 %r0, %r1, %r2;
        set.eq.u32.u16x2 %r0, %r1, %r2;
        set.eq.and.u8x4 %r0, %r1, %r2, %p1;
        set.eq.u8x4 %r0, %r1, 3;
        set.eq.u8x4 %u0, %r1, %r2;
        setp.eq.u8x4 %p0, %r1, %r2;
    """,
    "disjoint masks": """
        shfl.sync.no_membermask_overlap.up.b32 %r0|%p1, %r2, 1, 0, -1;
        match.all.no_membermask_overlap.sync.b64 %r0|%p1, %d2, -1;
        vote.sync.any.no_membermask_overlap.pred %p0, %p1, -1;
        redux.sync.xor.no_membermask_overlap.b32 %r0, %r1, %r2;
        redux.sync.max.no_membermask_overlap.NaN.f32 %r0, %r1, -1;
        bar.warp.no_membermask_overlap.sync -1;
        vote.no_membermask_overlap.any.pred %p0, %p1;
        elect.sync.no_membermask_overlap %r0|%p1, -1;
        activemask.no_membermask_overlap.b32 %r0;
        match.all.sync.b64 %w1.x|%p1, %d2, -1;
    """,
    "angles in turns": """
        sin.approx.ftz.2pi.f32 %r0, %r1;
        cos.2pi.ftz.f32.approx %f0, 0f3F800000;
        sin.approx.2pi.f32 %r0, %r1;
        cos.ftz.2pi.f32 %r0, %r1;
        ex2.approx.ftz.2pi.f32 %r0, %r1;
    """,
    "conversions without negative zeros": """
        cvt.rp.pzo.f16.f32 %r0, %d1;
        cvt.rn.relu.satfinite.pzo.f16.f32 %h0, 0f3F800000;
        cvt.rz.ftz.pzo.bf16.f32 %h0, %r1;
        cvt.rn.pzo.satfinite.tf32.f32 %r0, %r1;
        cvt.f16x2.rz.relu.f32.pzo %x0, %d1, %r2;
        cvt.rn.satfinite.pzo.bf16x2.f32 %r0, %r1, 1.0;
        cvt.rz.satfinite.relu.pzo.e4m3x2.f32 %h0, %r1, %r2;
        cvt.rn.satfinite.pzo.e2m1x2.bf16x2 %b0, %r1;
        cvt.rn.ftz.pzo.f16.f32 %h0, %r1;
        cvt.rn.sat.pzo.f16.f32 %h0, %r1;
        cvt.rm.relu.pzo.bf16.f32 %h0, %r1;
        cvt.rn.pzo.f16.f64 %h0, %d1;
        cvt.rn.pzo.bf16.f16 %h0, %h1;
        cvt.rna.pzo.tf32.f32 %r0, %r1;
        cvt.rn.pzo.f16x2.e4m3x2 %r0, %h1;
        cvt.rn.satfinite.pzo.ue5m3x2.f32 %h0, %r1, %r2;
        cvt.rn.satfinite.pzo.s2f6x2.f32 %h0, %r1, %r2;
        cvt.rs.satfinite.pzo.e4m3x4.f32 %r0, {%r1, %r2, %r3, %r4}, %r5;
    """,
    "conversions with one scale": """
        cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32 %h0, %r1, 1.0, %b2;
        cvt.rz.satfinite.relu.pzo.scaled::n1::ue8m0.e5m2x2.f16x2 %h0, %x1, %b2;
        cvt.rn.satfinite.scaled::n1::ue8m0.e2m1x2.bf16x2 %b0, %f1, %b2;
        cvt.rn.scaled::n1::ue8m0.ue5m3x2.f16x2 %h0, %r1, %b2;
        cvt.rn.satfinite.e2m1x2.bf16x2 %b0, %f1;
        cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32 %h0, %r1, %r2, %h3;
        cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32 %h0, %r1, %r2, %c3;
        cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32 %h0, %r1, %r2, 127;
        cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32 %h0, %r1, %r2, 1.0;
        cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32 %h0, %r1, %r2;
        cvt.rn.scaled::n1::ue8m0.e4m3x2.f32 %h0, %r1, %r2, %b3;
        cvt.rp.scaled::n1::ue8m0.ue5m3x2.f16x2 %h0, %r1, %b2;
        cvt.rn.satfinite.scaled::n1::ue8m0.s2f6x2.f32 %h0, %r1, %r2, %b3;
        cvt.rn.scaled::n1::ue8m0.bf16x2.e4m3x2 %r0, %h1, %b2;
        cvt.rn.satfinite.scaled::n2::ue8m0.e4m3x2.f32 %h0, %r1, %r2, %h3;
        cvt.rn.satfinite.e4m3x2.bf16x2 %h0, %f1;
    """,
}


RICHEST = [("9.5", "sm_90a"), ("9.5", "sm_100a"), ("9.5", "sm_107a"), ("9.5", "sm_120a")]
"""Headers under which every legal line is legal somewhere."""


def some_headers() -> list[tuple[str, str]]:
    """Four targets of each version, other ones in each run: all of them take minutes."""
    return [
        (version, target)
        for version in ("8.3", "8.4", "9.3", "9.4", "9.5")
        for target in random.sample([t for t in TARGETS if FIRST_PTX[t] <= parse_version(version)], 4)
    ]


def test_the_verdicts_are_those_of_ptxas() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    lines = [line.strip() for block in LINES.values() for line in block.strip().splitlines()]
    accepted: set[str] = set()
    wrong: list[object] = []
    for version, target in [*RICHEST, *some_headers()]:
        verdicts = zip(lines, asked(lines, version, target), ours(lines, version, target), strict=True)
        for line, theirs, mine in verdicts:
            if bool(theirs) != bool(mine):
                wrong.append((version, target, line, theirs, mine))
            if not theirs:
                accepted.add(line)
    assert not wrong, "\n".join(map(str, wrong[:20]))
    assert len(lines) / 3 < len(accepted) < 2 * len(lines) / 3
