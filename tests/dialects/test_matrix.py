"""Warp-level matrices: mma, wmma, ldmatrix, stmatrix, movmatrix."""

import pytest

from pyptx.dialects.ptx.fragments import fragment, wgmma_accumulator
from pyptx.dialects.ptx.matrix import Mma
from tests.dialects.judge import refusal, roles

ACC = "{%r0,%r1,%r2,%r3}"
HALF = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
ZERO = "{0f00000000,0f00000000,0f00000000,0f00000000}"
SPARSE = "{%r0,%r1}, {%r4,%r5}, {%r6,%r7}, {%r8,%r9}"
SCALED = (
    "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 "
    f"{ACC}, {ACC}, {{%r4,%r5}}, {ACC}, %r8, "
)


@pytest.mark.parametrize(
    "text",
    [
        f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {ACC}, {ACC}, {{%r4,%r5}}, {ACC};",
        f"{HALF}{{%f0,%f1,_,%f3}}, {ACC}, {{%r4,%r5}}, {{%f0,%f1,%f2,%f3}};",
        f"{HALF}{ACC}, {ACC}, {{%r4,0}}, {ZERO};",
        "mma.row.sync.f64.m8n8k4.aligned.col.f64.f64.f64 {%d0,%d1}, {%d2}, {%d3}, {0.0,0.0};",
        f"mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 {ACC}, {ACC}, {{%r4,%r5}}, {{1,2,3,4}};",
        f"mma.sync.sp.aligned.m16n8k16.row.col.f16.f16.f16.f16 {SPARSE}, %r10, 3;",
        f"mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {SPARSE}, {{%r10}}, 1;",
        SCALED + "{2,1}, %r9, {%h0,3};",
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%d0+16], %r8;",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0,%r1}, [%r2];",
        "stmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 [%r0], {%r1,%r2};",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;",
    ],
)
def test_legal(text: str):
    assert refusal(text, target="sm_120a") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {ACC}, {ACC}, {{%r4,%r5}}, {ACC};", "one type"),
        (
            f"{HALF}{ACC}, {ACC}, {{%r4}}, {ACC};",
            "operand b must have 2 elements",
        ),
        (f"{HALF}{ACC}, {ACC}, {{%r4,%f5}}, {ACC};", ""),
        (f"{HALF}{ACC}, {ACC}, {{%f4,%f5}}, {ACC};", "operand b"),
        ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r0,%r1}, {%r2,%r3}, %r4, {%r5,%r6};", "in braces"),
        ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {_,_}, {%r2,%r3}, {%r4}, {%r5,%r6};", "not the sink"),
        ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r0,%d1}, {%r2,%r3}, {%r4}, {%r5,%r6};", "one type"),
        (
            f"mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 {{%r0,%r1}}, {ACC}, {ACC}, {{%r8,%r9}}, %r10, 2;",
            "0..1",
        ),
        (SCALED + "{1,0}, %r9, {0,0};", "byte selector in operand selector_a must be 0 or 2, not 1"),
        (SCALED + "{0,2}, %r9, {0,0};", "thread selector in operand selector_a must be 0 or 1, not 2"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [%r1];", "in braces"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0,%r1}, [%r2];", "4 elements"),
        ("ldmatrix.sync.aligned.m8n16.x1.b6x16_p32.b8x16 {%r0}, [%r1];", ".b8x16 must stand before .b6x16_p32"),
        ("wmma.load.a.sync.aligned.col.m8n8k32.u4 {%r0}, [%d0];", "col"),
    ],
)
def test_illegal(text: str, reason: str):
    said = refusal(text, target="sm_120a")
    assert (reason in said and said) or (not reason and not said)


@pytest.mark.parametrize(
    ("text", "version", "target", "reason"),
    [
        (
            f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {ACC}, {ACC}, {{%r4,%r5}}, {ACC};",
            "6.5",
            "sm_75",
            "sm_80",
        ),
        (
            f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {ACC}, {ACC}, {{%r4,%r5}}, {ACC};",
            "8.3",
            "sm_89",
            "8.4",
        ),
        (SCALED + "{0,0}, %r9, {0,0};", "9.5", "sm_100a", "sm_120a"),
        (SCALED.replace("2X", "4X") + "{0,0}, %r9, {0,0};", "9.0", "sm_120a", "9.1"),
        ("stmatrix.sync.aligned.m8n8.x1.b16 [%r0], {%r1};", "8.0", "sm_80", "sm_90"),
    ],
)
def test_availability(text: str, version: str, target: str, reason: str):
    assert reason in refusal(text, version, target)


def test_roles():
    assert roles("ldmatrix.sync.aligned.m8n8.x2.b16 {%r0,%r1}, [%r2];") == "{=, =}, [$]"
    assert roles(f"mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {SPARSE}, %r10, 0;").endswith("$, 0")


PLACES = {
    # operand, m, n, k, bits -> (group, thread of it, value) -> (row, column), as PTX ISA 9.7.16.5 has them
    ("A", 16, 8, 16, 16): lambda g, t, i: (g + 8 * (i in (2, 3, 6, 7)), 2 * t + i % 2 + 8 * (i >= 4)),
    ("B", 16, 8, 16, 16): lambda g, t, i: (2 * t + i % 2 + 8 * (i >= 2), g),
    ("A", 16, 8, 32, 8): lambda g, t, i: (g + 8 * (4 <= i < 8 or i >= 12), 4 * t + i % 4 + 16 * (i >= 8)),
    ("B", 16, 8, 32, 8): lambda g, t, i: (4 * t + i % 4 + 16 * (i >= 4), g),
    ("A", 16, 8, 64, 4): lambda g, t, i: (g + 8 * (8 <= i < 16 or i >= 24), 8 * t + i % 8 + 32 * (i >= 16)),
    ("B", 16, 8, 64, 4): lambda g, t, i: (8 * t + i % 8 + 32 * (i >= 8), g),
    ("A", 16, 8, 8, 32): lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i >= 2)),
    ("B", 16, 8, 8, 32): lambda g, t, i: (t + 4 * i, g),
    ("A", 8, 8, 4, 64): lambda g, t, i: (g, t),
    ("B", 8, 8, 4, 64): lambda g, t, i: (t, g),
    ("C", 16, 8, 16, 32): lambda g, t, i: (g + 8 * (i >= 2), 2 * t + i % 2),
    ("C", 8, 8, 4, 64): lambda g, t, i: (g, 2 * t + i % 2),
}  # fmt: skip


@pytest.mark.parametrize("which", PLACES, ids=lambda w: f"{w[0]} of m{w[1]}n{w[2]}k{w[3]}, {w[4]} bits")
def test_elements_are_where_the_manual_has_them(which):
    operand, m, n, k, _ = which
    found = fragment(*which)
    columns = k if operand == "A" else n
    rows = {"A": m, "B": k, "C": m}[operand]
    assert sorted(found.ravel().tolist()) == list(range(rows * columns))
    for lane in range(32):
        places = [PLACES[which](lane // 4, lane % 4, i) for i in range(found.shape[1])]
        assert [divmod(x, columns) for x in found[lane].tolist()] == places, lane


@pytest.mark.parametrize("n", [8, 24, 256])
def test_elements_of_a_wgmma_accumulator(n):
    """PTX ISA 9.7.17.5.1.1: a warp has 16 rows, a row of a matrix of 8 columns is in four threads, the next 8 rows come after it."""
    found = wgmma_accumulator(n)
    assert sorted(found.ravel().tolist()) == list(range(64 * n))
    for thread in range(128):
        row, column = 16 * (thread // 32) + thread % 32 // 4, 2 * (thread % 4)
        places = [(row + 8 * low, column + 8 * j + i) for j in range(n // 8) for low in (0, 1) for i in (0, 1)]
        assert [divmod(x, n) for x in found[thread].tolist()] == places


def test_fragments_follow_from_the_shape():
    assert Mma.fragment("a", {"shape": "m16n8k16", "atype": "bf16"}) == ("bf16x2", 4)
    assert Mma.fragment("a", {"shape": "m16n8k256", "atype": "b1"}) == ("b32", 4)
    assert Mma.fragment("d", {"shape": "m8n8k4", "dtype": "f32", "atype": "f16"}) == ("f32", 8)
