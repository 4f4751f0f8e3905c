"""Loads, stores, cache control and address conversion."""

import pytest

import pyptx
from pyptx.runtime.ptxas import ToolNotFound, assemble, find_tool
from tests.dialects.judge import refusal, roles


@pytest.mark.parametrize(
    "text",
    [
        "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d1+16];",
        "ld.global.b32 {%r0}, [%d1];",  # braces around a single value, as Triton writes
        "ld.global.v2.b32 {%r0, _}, [%d1];",
        "ld.u8 %r0, [%d1];",  # a wider register
        "ld.local.b32 %r0, [64];",
        "ld.global.b32 %r0, [%d1].unified;",
        "ld.acquire.gpu.global.L1::no_allocate.b32 %r0, [%d1];",
        "ld.global.nc.L1::evict_last.L2::cache_hint.L2::256B.v4.b64 {%d0, %d1, %d2, %d3}, [%d4], %d5;",
        "st.global.L2::evict_last.v8.b32 [%d1], {%r0, %r1, _, %r3, %r4, %r5, %r6, 7};",
        "st.f32 [%d1], 1.0;",
        "cvta.shared.u64 %d0, sb+4;",
        "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %d0, 0.5;",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ld.global.f16 %h0, [%d1];", "no modifier .f16"),
        ("ld.b32 _, [%d1];", "sink"),
        ("ld.global.v4.b32 {%r0, %r1}, [%d1];", "4 elements, not 2"),
        ("ld.global.v2.b32 {%r0, %d1}, [%d1];", "one type"),
        ("ld.shared.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%r1];", "global memory only"),
        ("ld.v4.b128 {%q0,%q1,%q2,%q3}, [%d1];", "at most 128"),
        ("ld.global.L2::evict_last.b32 %r0, [%d1];", "needs a 256-bit vector"),
        ("ld.shared.L1::evict_last.b32 %r0, [%r1];", "not for .shared"),
        ("ld.global.ca.L1::evict_last.b32 %r0, [%d1];", "exclude each other"),
        ("ld.relaxed.b32 %r0, [%d1];", "needs one of .cta .cluster .gpu .sys"),
        ("ld.global.b32 %r0, [%d1], %d2;", "needs the modifier .L2::cache_hint"),
        ("ld.global.L2::cache_hint.b32 %r0, [%d1];", "needs a 64-bit cache policy"),
        ("ld.global.b32 %r0, [%d1-8];", "+-8"),
        ("ld.shared.b32 %r0, [0];", "constants are .local only"),
        ("ld.shared.b32 %r0, [%r1].unified;", ".unified"),
        ("st.f32 [%d1], 1;", "floating-point constant"),
        ("st.global.v2.b32 [%d1], {%r0, _};", "256-bit vector"),
        ("discard.global.L2 [%d1], 64;", "must be one of 128"),
        ("createpolicy.fractional.L2::evict_last.b64 %d0, 2.0;", "(0, 1]"),
        ("createpolicy.range.L2::evict_last.b64 %d0, [%d1], 32, 16;", "larger than total_size"),
        ("st.bulk [%r1], 12, 0;", "multiple of 8"),
    ],
)
def test_illegal(text: str, reason: str):
    assert reason in refusal(text)


@pytest.mark.parametrize(
    ("text", "version", "target", "reason"),
    [
        ("ld.global.v8.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%d1];", "8.7", "sm_100", "PTX 8.8"),
        ("ld.global.v8.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%d1];", "9.0", "sm_90", "sm_100 or newer"),
        ("ld.relaxed.cluster.b32 %r0, [%d1];", "7.7", "sm_80", "sm_90 or newer"),
        ("ld.volatile.local.b32 %r0, [%r1];", "9.0", "sm_90", "PTX 9.1"),
        ("ld.relaxed.sys.b128 %q0, [%d1];", "8.3", "sm_90", "PTX 8.4"),
        ("ld.weak.b32 %r0, [%d1];", "6.0", "sm_60", "sm_70 or newer"),
    ],
)
def test_availability(text: str, version: str, target: str, reason: str):
    assert reason in refusal(text, version, target)


def test_roles():
    assert roles("ld.v2.b32 {%r0, _}, [%d1+8];") == "{=, _}, [$+8]"
    assert roles("st.v2.b32 [%d1], {%r0, %r1};") == "[$], {$, $}"
    assert roles("ld.global.b32 %r0, [%d1].unified;") == "=, [$].unified"


NARROW = """ld.global.u32 %r1, [%r2];
ld.u32 %r1, [%r2];
st.global.u32 [%r2], %r1;
atom.global.add.u32 %r1, [%r2], 1;
red.add.u32 [%r2], 1;
prefetch.global.L1 [%r2];
ldu.global.u32 %r1, [%r2];
discard.global.L2 [%r2], 128;
ld.const.u32 %r1, [%r2];
ld.shared.u32 %r1, [%r2];
st.local.u32 [%r2], %r1;
atom.shared.add.u32 %r1, [%r2], 1;
cp.async.ca.shared.global [%r1], [%r2], 4;
ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%r2];
ld.global.u32 %r1, [%h1];
ld.global.u32 %r1, [%d1];""".split("\n")


def test_addresses_that_only_the_code_generator_refuses_are_warned_of() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    head = ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k() {\n"
    head += ".reg .b16 %h<3>; .reg .b32 %r<3>; .reg .b64 %d<3>;\n"
    head += "mov.u16 %h1, 4; mov.u32 %r1, 4; mov.u32 %r2, 256; mov.u64 %d1, 4;\n"
    texts = [f"{head}{line}\nst.shared.u32 [4], %r1;\nret;\n}}\n".replace("[4]", "[%r1]") for line in NARROW]
    said = [not assemble(text, "sm_90").ok for text in texts]
    warned = [any("64-bit addresses" in d.message for d in pyptx.diagnose(text)) for text in texts]
    assert sum(said) == 8
    assert warned == said
