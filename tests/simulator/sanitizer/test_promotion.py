"""FP8 sums of Ada and Hopper: accumulators that are added to for too long, and those that are promoted in time."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.simulator import load
from pyptx.simulator.sanitizer import Finding

from .kernels import HEAD, breaks, run, silent
from .wgmma_pieces import BEGIN, DESCRIPTORS, END, FILL, PROXY, USE, ZERO

ACC = "{%f0, %f1, %f2, %f3}"
ONES = "    mov.u32 %r10, 0x38383838; mov.u32 %r11, 0;\n"
READY = (
    FILL.replace("    mov.u32 %r10, 0; mov.u32 %r11, 0;\n", ONES)
    + PROXY
    + DESCRIPTORS
    + "    .reg .f32 %t<4>; .reg .pred %q<4>;\n"
)
TOTALS = "".join(f"    mov.f32 %t{i}, 0f00000000;\n" for i in range(4))
PROMOTE = "".join(f"    add.f32 %t{i}, %t{i}, %f{i};\n" for i in range(4))


def product(scale: str, types: str = "m64n8k32.f32.e4m3.e5m2", rest: str = "1, 1", mark: str = "") -> str:
    acc = "{%r20, %r21}" if ".f16.e" in types else ACC
    return f"{BEGIN}    wgmma.mma_async.sync.aligned.{types} {acc}, %rd10, %rd12, {scale}, {rest};{mark}\n{END}"


def loop(body: str, times: int, mark: str = "") -> str:
    return (
        "    mov.u32 %r14, 0;\n$loop:\n    setp.ne.u32 %q0, %r14, 0;\n"
        + body
        + f"    add.u32 %r14, %r14, 1; setp.lt.u32 %q1, %r14, {times};{mark}\n    @%q1 bra $loop;\n"
    )


def line_of(body: str, text: str) -> int:
    return next(i for i, line in enumerate((HEAD + body).split("\n"), 1) if text in line)


# ------------------------------------------------------------------------------------------------------- wgmma on Hopper


def test_five_instructions_of_wgmma() -> None:
    body = READY + loop(product("%q0", mark=" //!"), 5) + USE
    found = breaks(body, "fp8-promotion", block=128)
    assert found.severity == "advice"
    assert "160 FP8 products" in found.message
    assert "5 instructions with K = 32" in found.message
    assert "sm_90" in found.message
    assert "13 bits" in found.message
    assert "128 products" in (found.hint or "")
    assert "arXiv 2412.19437" in (found.hint or "")
    assert found.section == "9.7.17.5.2"
    assert found.other is not None and found.other.line == line_of(body, "setp.ne.u32 %q0")
    assert not run(body, block=128).errors


@pytest.mark.parametrize(
    "body",
    [
        product("0") + 4 * product("1", mark="%d"),
        ZERO + loop(product("1", mark="%d"), 7),
        # scale-d is true only in the first round: all others begin from zero
        ZERO + loop(product("1", mark="%d"), 9) + product("0"),
        # flash attention scales what it goes on with
        ZERO + loop(product("1", mark="%d") + "".join(f"    mul.f32 %f{i}, %f{i}, 0f3F000000;\n" for i in range(4)), 8),
        # through other registers and back
        ZERO
        + loop(
            product("1", mark="%d")
            + "    mov.f32 %t0, %f0; mov.b32 %r20, %t0; add.u32 %r20, %r20, 1; mov.b32 %f0, %r20;\n",
            5,
        ),
        # a condition that does not hold
        ZERO
        + "    setp.eq.u32 %q2, 0, 1;\n"
        + loop(
            product("1", mark="%d") + "".join(f"    selp.f32 %f{i}, 0f00000000, %f{i}, %q2;\n" for i in range(4)), 5
        ),
        # what is copied out is not started again
        TOTALS + ZERO + loop(product("1", mark="%d") + PROMOTE, 5),
        loop(product("%q0", "m64n8k32.f16.e5m2.e4m3", mark="%d"), 5),
    ],
)
def test_not_promoted(body: str) -> None:
    lines = (READY + body).split("%d")
    breaks("".join(lines[:-1]) + " //!" + lines[-1] + "\n", "fp8-promotion", block=128)


@pytest.mark.parametrize(
    "body",
    [
        loop(product("%q0"), 4) + USE,
        # scale-d = 0 after every four
        TOTALS + loop(product("0") + 3 * product("1") + PROMOTE, 3),
        # registers that are set to zero
        TOTALS + loop(ZERO + 4 * product("1") + PROMOTE, 3),
        # registers that a condition sets to zero
        TOTALS
        + ZERO
        + "    setp.eq.u32 %q2, 1, 1;\n"
        + loop(4 * product("1") + PROMOTE + "".join(f"    selp.f32 %f{i}, 0f00000000, %f{i}, %q2;\n" for i in range(4)), 3),
        # moved to other registers, from which the next round does not go on
        TOTALS + ZERO + loop(4 * product("1") + "".join(f"    add.f32 %t{i}, %t{i}, %f{i}; mov.f32 %f{i}, 0f00000000;\n" for i in range(4)), 3),
        # another sum begins with what was loaded
        2 * (4 * (product("1").replace("1, 1, 1", "1, 1, 1")) + "".join(f"    ld.global.f32 %f{i}, [%rd4];\n" for i in range(4))),
        loop(product("%q0", "m64n8k16.f32.bf16.bf16", "1, 1, 0, 0"), 20),
        loop(product("%q0", "m64n8k8.f32.tf32.tf32"), 20),
    ],
)  # fmt: skip
def test_promoted(body: str) -> None:
    silent(READY + ZERO + body, block=128)


def test_one_finding_for_a_loop() -> None:
    """Unrolled by four, and never started again: the longest sum is told, at the last instruction."""
    body = READY + loop(product("%q0") + 2 * product("1") + product("1", mark=" //!"), 3)
    found = breaks(body, "fp8-promotion", block=128)
    assert "384 FP8 products" in found.message
    assert len(run(body, block=128).findings) == 1


# ------------------------------------------------------------------------------------------------- mma.sync on all others

MMA = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<4>; .reg .f32 %f<9>; .reg .b64 %rd<2>; .reg .pred %p<2>; .reg .b32 %h<4>;
    ld.param.u64 %rd0, [out];
    mov.b32 %r0, 0x38383838; mov.u32 %r1, 0; mov.b32 %h0, 0; mov.b32 %h1, 0; mov.b32 %h2, 0x44444444;
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;
$loop:
    {body}
    add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, {times}; @%p0 bra $loop;
    st.global.f32 [%rd0], %f0;
    ret;
}}
"""
K32 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0}, {%r0, %r0}, {%f0, %f1, %f2, %f3};"
K16 = (
    "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0}, {%r0}, {%f0, %f1, %f2, %f3};"
)
HALF = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%h0, %h1}, {%r0, %r0, %r0, %r0}, {%r0, %r0}, {%h0, %h1};"
F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0}, {%r0, %r0}, {%f0, %f1, %f2, %f3};"
TO_OTHERS = (
    K32.replace("{%f0, %f1, %f2, %f3};", "{%f4, %f5, %f6, %f7};")
    + " add.f32 %f0, %f0, %f4;"  # D is added to itself: C stays zero
)
SPARSE = (
    "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3}, {%r0, %r0, %r0, %r0}, "
    "{%r0, %r0, %r0, %r0}, {%f0, %f1, %f2, %f3}, %h2, 0;"
)


def findings(body: str, times: int, target: str, arch: str | None = None) -> list[Finding]:
    out = np.zeros(1, np.float32)
    report = load(MMA.format(body=body, times=times, target=target))["k"].simulate(out, grid=1, block=32, arch=arch)
    return [f for f in report.findings if isinstance(f, Finding)]


@pytest.mark.parametrize(
    ("body", "times", "target", "arch", "products"),
    [
        (K32, 5, "sm_89", None, 160), (K32, 4, "sm_89", None, 0), (K16, 9, "sm_89", None, 144), (K16, 8, "sm_89", None, 0),
        (HALF, 6, "sm_89", None, 192), (F16, 30, "sm_89", None, 0), (TO_OTHERS, 20, "sm_89", None, 0), (SPARSE, 5, "sm_89", None, 160),
        # from sm_90 on FP8 is emulated with f16, or summed with 25 bits
        (K32, 20, "sm_90", None, 0), (K32, 20, "sm_100", None, 0), (K32, 20, "sm_120", None, 0),
        (K32, 5, "sm_89", "sm_90", 0), (K32, 5, "sm_89", "sm_120", 0),
    ],
)  # fmt: skip
def test_mma(body: str, times: int, target: str, arch: str | None, products: int) -> None:
    found = findings(body, times, target, arch)
    assert [(f.rule, f.severity) for f in found] == ([("fp8-promotion", "advice")] if products else [])
    if products:
        assert f"{products} FP8 products" in found[0].message
        assert "Ada" in found[0].message or "sm_89" in found[0].message
