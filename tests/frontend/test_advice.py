"""`Kernel.check`: advice of ptxas that the machine code will not do what the kernel says is an error."""

from __future__ import annotations

from pyptx import kernel, ptx, reg, smem
from pyptx.types import bf16, f32, u64


def test_setmaxnreg_that_ptxas_ignores() -> None:
    @kernel(raw_params=[("u64", "p")])
    def warps():
        ptx.setmaxnreg_dec(40)
        ptx.ret()

    (found,) = warps.check()
    assert found.severity == "error"
    assert "(C7508)" in found.message
    assert ".minnctapersm 1" in (found.hint or "")


def test_wgmma_that_ptxas_serialises() -> None:
    @kernel(raw_params=[("u64", "p")], reqntid=(128,))
    def products():
        pointer = ptx.param(u64, "p")
        a = smem.wgmma_tile(bf16, (64, 64))
        b = smem.wgmma_tile(bf16, (64, 64))
        sums = reg.wgmma_frag(m=64, n=64, dtype=f32)
        for v in sums:
            ptx.inst.mov.f32(v, 0.0)
        ptx.wgmma.fence()
        ptx.wgmma.mma_async(shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=sums, a=a, b=b, scale_d=True)
        ptx.wgmma.commit_group()
        sums[0] *= 2.0  # the product is still under way
        ptx.wgmma.mma_async(shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=sums, a=a, b=b, scale_d=True)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        for i, v in enumerate(sums):
            ptx.inst.st.global_.f32(ptx.addr(pointer, 4 * i), v)
        ptx.ret()

    (found,) = products.check()
    assert found.severity == "error"
    assert "(C7517)" in found.message
