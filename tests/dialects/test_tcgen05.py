"""Blackwell's tensor cores."""

import random

import pytest

from pyptx.dialects.ptx.instruction import OPCODES
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version, target_of
from pyptx.runtime.ptxas import ToolNotFound
from pyptx.tools.oracle import verdicts
from tests.dialects.judge import refusal, roles

MMA = "tcgen05.mma.cta_group::1.kind::f16"


@pytest.mark.parametrize(
    "text",
    [
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], 512;",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, %r1;",
        "tcgen05.ld.sync.aligned.16x128b.x2.pack::16b.b32 {%r0,%r1,%r2,%r3}, [%r9];",
        "tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%f0}, [%r9], 16;",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9+4], {%r0,%r1};",
        MMA + " [%r0], %d0, %d1, %r1, %p0;",
        MMA + ".collector::a::lastuse.ashift [%r0], [%r2], %d1, %r1, !%p0;",
        MMA + " [%r0], [%r2], %d1, %r1, {%r3,%r4,%r5,%r6}, 1, 8;",
        "tcgen05.mma.cta_group::1.kind::mxf4.sp.block_scale.block32 [%r0], %d0, %d1, [%r2], %r1, [%r3], [%r4], %p0;",
        "tcgen05.mma.ws.cta_group::1.kind::tf32.collector::b3::fill [%r0], %d0, %d1, %r1, %p0, %d2;",
        "tcgen05.cp.cta_group::1.64x128b.warpx2::01_23.b8x16.b4x16_p64 [%r0], %d0;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r0], %h1;",
        "tcgen05.wait::ld.sync.aligned;",
        "tcgen05.fence::before_thread_sync;",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r0], 48;", "one of 32, 64, 128, 256, 512"),
        ("tcgen05.ld.sync.aligned.16x256b.x2.b32 {%r0,%r1}, [%r9];", "8 elements"),
        (
            "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r0}, [%r9];",
            ".x64 does not go with .16x256b",
        ),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%d0];", "the register is .b64"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [table];", "must be a register"),
        ("tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9], {%r0,%p1};", "predicate"),
        (MMA + " [%r0], %r2, %d1, %r1, %p0;", ""),
        (MMA + " [%r0], %d0, %d1, %r1, %p0, 16;", "0..15"),
        (MMA + " [%r0], %d0, %d1, %r1, {%r3,%r4}, %p0;", "4 elements"),
        (MMA + ".ashift [%r0], %d0, %d1, %r1, %p0;", "address in brackets"),
        (MMA + ".collector::a::fill.ashift [%r0], [%r2], %d1, %r1, %p0;", "does not go"),
        ("tcgen05.cp.cta_group::1.64x128b [%r0], %d0;", "needs"),
    ],
)
def test_illegal(text: str, reason: str):
    said = refusal(text)
    assert said
    assert reason in said


def test_availability():
    assert "sm_100a" in refusal("tcgen05.wait::ld.sync.aligned;", "9.5", "sm_120a")
    shift = "tcgen05.shift.cta_group::1.down [%r0];"
    assert refusal(shift, "9.5", "sm_100a") == ""
    assert "sm_100a" in refusal(shift, "9.5", "sm_100f")
    red = "tcgen05.ld.red.sync.aligned.32x32b.x2.min.abs.NaN.f32 {%r0,%r1}, %f2, [%r9];"
    assert refusal(red, "9.0", "sm_103a") == ""
    assert "sm_103a" in refusal(red, "9.0", "sm_100a")
    kept = "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.max.abs.sp::2:4.f32.b2 {%r0}, {%r1,%r2}, [%r9];"
    assert refusal(kept, "9.4", "sm_107a") == ""


def test_registers_in_flight():
    assert roles("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0,%r1}, [%r9];") == "{=, =}, [$]"
    assert OPCODES["tcgen05.ld"].in_flight == OPCODES["tcgen05.wait::ld"].waits_for == "tcgen05.ld"
    assert OPCODES["tcgen05.st"].starts == OPCODES["tcgen05.wait::st"].waits_for == "tcgen05.st"
    assert OPCODES["tcgen05.st"].in_flight == ""  # its registers are read when it is issued


OPERANDS = "[%r0], %d0, %d1, %r1, %p0"
IN_TMEM = "[%r0], [%r2], %d1, %r1, %p0"
LANES = "[%r0], %d0, %d1, %r1, {%r3,%r4,%r5,%r6}, %p0"
NEWER = [
    *(f"tcgen05.mma.cta_group::1.kind::{kind}.collector::b::{use} {OPERANDS};"
      for kind in ("f16", "tf32", "f8f6f4", "i8", "ti16") for use in ("fill", "use", "lastuse", "discard")),
    "tcgen05.mma.collector::b::use.kind::f16.collector::a::fill.cta_group::2 " + OPERANDS + ";",
    "tcgen05.mma.cta_group::1.kind::f16.collector::b::use.collector::b::use " + OPERANDS + ";",
    "tcgen05.mma.cta_group::1.kind::f16.collector::b0::use " + OPERANDS + ";",
    "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b::use " + OPERANDS + ";",
    "tcgen05.mma.cta_group::1.kind::tf32.ashift.collector::a::lastuse.collector::b::fill " + IN_TMEM + ", 1;",
    "tcgen05.mma.cta_group::1.kind::tf32.ashift.collector::a::fill.collector::b::fill " + IN_TMEM + ";",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16.collector::b::lastuse [%r0], %d0, %d1, %r1, [%r3], [%r4], %p0;",
    "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale.block32.collector::a::fill.collector::b::use "
    "[%r0], %d0, %d1, [%r5], %r1, [%r3], [%r4], %p0;",
    *(f"tcgen05.{opcode}.kind::ti16 {operands};"
      for opcode in ("mma.cta_group::1", "mma.cta_group::1.ashift", "mma.ws.cta_group::1")
      for operands in (OPERANDS, IN_TMEM, LANES, OPERANDS + ", 3", LANES + ", 3", IN_TMEM + ", %d3")),
    "tcgen05.mma.sp.cta_group::1.kind::ti16 [%r0], %d0, %d1, [%r5], %r1, {%r3,%r4,%r5,%r6}, %p0;",
    *(f"tcgen05.mma.cta_group::1.kind::{kind} {OPERANDS}, {scale};" for kind in ("ti16", "i8", "f16") for scale in (16, -1, 15)),
    *(f"tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [%d0], {n};" for n in (0, -32, 96, 100, 576, 1024)),
    "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.b2.f32 {%r0}, {%r1,%r2}, [%r3];",
    "tcgen05.mma.sp.cta_group::1.kind::ti16 [%r0], %d0, %d1, [%r5], %r1, {%r3,%r4,%r5,%r6}, %p0, 1;",
    "tcgen05.mma.sp.cta_group::1.kind::ti16 [%r0], %d0, %d1, [%r5], %r1, %p0, 1;",
    "tcgen05.mma.ws.sp.cta_group::1.kind::ti16.collector::b3::lastuse [%r0], [%r2], %d1, [%r5], %r1, %p0, %d2;",
    *(f"tcgen05.mma{sparse}.cta_group::1.kind::{kind}.decompress::lut::b{more} [%r0], {a}, %d1, {meta}[%r6], %r1, {tail};"
      for sparse, meta in (("", ""), (".sp", "[%r5], "))
      for kind in ("f16", "f8f6f4")
      for a, more, tail in (
          ("%d0", "", "%p0"), ("[%r2]", ".collector::a::use.collector::b::fill", "{%r3,%r4,%r5,%r6}, !%p0"),
          ("%d0", "", "%p0, 2"), ("[%r2]", ".ashift", "%p0"))),
    *(f"tcgen05.mma.cta_group::2.kind::{kind}.block_scale.decompress::lut::b{size} [%r0], %d0, %d1, [%r6], %r1, [%r3], [%r4], %p0;"
      for kind in ("mxf8f6f4", "mxf4") for size in ("", ".block32", ".scale_vec::1X", ".scale_vec::2X", ".block16")),
    "tcgen05.mma.ws.cta_group::1.kind::f8f6f4.decompress::lut::b [%r0], %d0, %d1, [%r6], %r1, %p0;",
    *(f"tcgen05.commit.cta_group::1.mbarrier::arrive::one{restrict}.multicast::cluster{width}.b64 [%d0], {mask};"
      for restrict in ("", ".sync_restrict::shared::read::mma::a") for width in ("", "::16b", "::32b")
      for mask in ("%h0", "%r1", "1")),
    *(f"tcgen05.ld{red}.spcompress.sync.aligned.32x32b.x4.max.sp::2:4.NaN.f32.b2 {{%r0}}, {{%r1,%r2}}, {d}[%r3];"
      for red, d in (("", ""), (".red", "%r4, "))),
]  # fmt: skip
"""What PTX 9.4 added, and what it did not."""


SOME = [t for t in FIRST_PTX if target_of(t).number in (90, 100, 103, 107, 110, 120)]
"""Targets that could have what 9.4 added."""


@pytest.mark.parametrize("number", range(6))
def test_what_9_4_added_as_ptxas_has_it(number: int):
    """The whole table on sm_107a and five other targets, by chance, in the newest version and the one before or the first."""
    target = "sm_107a" if number == 0 else random.choice(SOME)
    for version in (random.choice(("9.3", "9.4")), "9.5"):
        if parse_version(version) < FIRST_PTX[target]:
            continue
        try:
            theirs = verdicts(NEWER, version, target)
        except ToolNotFound:
            pytest.skip("no ptxas")
        for text, errors in zip(NEWER, theirs, strict=True):
            assert (refusal(text, version, target) == "") == (not errors), (text, version, errors)
    if target == "sm_107a":
        assert 40 < sum(not refusal(text, "9.5", target) for text in NEWER) < len(NEWER) - 20


def test_newer_forms_say_what_they_need():
    ti16 = f"tcgen05.mma.cta_group::1.kind::ti16 {OPERANDS};"
    assert "sm_107a or sm_107f" in refusal(ti16, "9.5", "sm_100a")
    assert "PTX 9.4" in refusal(ti16, "9.3", "sm_107a")
    collector = f"tcgen05.mma.cta_group::1.kind::f16.collector::b::fill {OPERANDS};"
    assert "collector::b::fill" in refusal(collector, "9.5", "sm_103a")
    wide = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster::16b.b64 [%d0], %h0;"
    assert "9.4" in refusal(wide, "9.3", "sm_100a")
