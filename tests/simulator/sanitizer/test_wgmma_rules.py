"""Rules of wgmma: registers and shared memory while it is in flight."""

from __future__ import annotations

import pytest

from .kernels import breaks, silent

ACC = ", ".join(f"%f{i}" for i in range(4))
ZERO = "".join(f"    mov.f32 %f{i}, 0f00000000;\n" for i in range(4))
FILL = """
    mov.u32 %r10, 0; mov.u32 %r11, 0;
$fill:
    shl.b32 %r12, %r11, 9; add.u32 %r12, %r12, %r5;
    st.shared.u32 [%r12], %r10;
    add.u32 %r11, %r11, 1; setp.lt.u32 %p3, %r11, 5; @%p3 bra $fill;
"""
PROXY = "    fence.proxy.async.shared::cta;\n"
DESCRIPTORS = """
    bar.sync 0;
    shr.u32 %r13, %r3, 4; cvt.u64.u32 %rd10, %r13; mov.b64 %rd11, 0x0000001000080000;
    or.b64 %rd10, %rd10, %rd11; add.s64 %rd12, %rd10, 128;
"""
MMA = f"    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{{ACC}}}, %rd10, %rd12, 1, 1, 1, 0, 0;"
BEGIN = "    wgmma.fence.sync.aligned;\n"
END = "    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned 0;\n"
USE = "    st.global.f32 [%rd5], %f0;"
READY = ZERO + FILL + PROXY + DESCRIPTORS


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("wgmma-register", READY + BEGIN + MMA + "\n    wgmma.commit_group.sync.aligned;\n" + USE + " //!\n"
         "    wgmma.wait_group.sync.aligned 0;\n"),
        ("wgmma-commit", READY + BEGIN + MMA + "\n    wgmma.wait_group.sync.aligned 0;\n" + USE + " //!\n" + END),
        ("wgmma-fence", READY + MMA + " //!\n" + END + USE),
        ("wgmma-fence", READY + BEGIN + "    mov.f32 %f1, 0f3F800000;\n" + MMA + " //!\n" + END + USE),
        ("proxy", ZERO + FILL + DESCRIPTORS + BEGIN + MMA + " //!\n" + END + USE),
        ("wgmma-source-reused", READY + BEGIN + MMA + "\n    wgmma.commit_group.sync.aligned;\n    bar.sync 0;\n"
         "    st.shared.u32 [%r5], %r1; //!\n    wgmma.wait_group.sync.aligned 0;\n" + USE),
        ("exit-in-flight", READY + BEGIN + MMA + " //!\n    wgmma.commit_group.sync.aligned;\n"),
    ],
)  # fmt: skip
def test_the_broken_kernel_is_found(rule: str, broken: str) -> None:
    breaks(broken, rule, block=128)


def test_the_corrected_kernel_is_silent() -> None:
    silent(READY + BEGIN + MMA + "\n" + END + USE + "\n    bar.sync 0;\n    st.shared.u32 [%r5], %r1;", block=128)
