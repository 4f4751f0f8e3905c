"""Pieces of kernels with wgmma."""

from __future__ import annotations

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
