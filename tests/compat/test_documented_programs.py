"""The programs in the documentation of pyptx 0.1 (its README, pages and docstrings), completed where they have `...`."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.types import b32, b64, bf16, f32, pred, s32, u32
from tests.frontend.tracing import assembled

rng = np.random.default_rng(1)


def test_the_first_kernel() -> None:
    @kernel(arch="sm_90a")
    def tiny():
        tid = reg.from_(ptx.special.tid.x(), u32)
        value = tid + 1
        ptx.inst.mov.u32(tid, value)
        ptx.ret()

    assert "add.s32" in assembled(tiny)  # 0.1 wrote add.u32: the same bits
    assert repr(tiny) == "Kernel(tiny, arch='sm_90a')"


def test_the_contract_of_a_gemm() -> None:
    @kernel(
        in_specs=(Tile("M", "K", bf16, Layout.ROW), Tile("K", "N", bf16, Layout.COL)),
        out_specs=(Tile("M", "N", f32, Layout.ROW),),
        grid=lambda M, N, K: (M // 128, N // 256),
        block=(128, 1, 1),
        cluster=(2, 1, 1),
        arch="sm_90a",
    )
    def gemm(A, B, C, *, BM=128, BN=256, BK=64):
        smem.alloc(bf16, (3, BM, BK), swizzle="128B")
        smem.mbarrier(3)
        assert reg.array(f32, BN // 4).count == 64

    assert gemm.template_params == {"BM": 128, "BN": 256, "BK": 64}
    assert "dyn_smem" in assembled(gemm, M=4096, N=4096, K=4096)
    with pytest.warns(pyptx.diagnostics.TraceWarning, match="never writes"):
        launch = gemm.resolve_launch({"M": 4096, "N": 4096, "K": 4096})
    assert (launch.grid, launch.cluster, launch.smem) == ((32, 16, 1), (2, 1, 1), 3 * 128 * 64 * 2 + 24)


def test_pipes_expressions_and_scopes() -> None:
    @kernel(arch="sm_80", in_specs=[Tile(32, b32)], out_specs=[Tile(3, 32, b32)], grid=1, block=32)
    def masked(x, y):
        px, py = ptx.global_ptrs(x, y)
        lane = reg.from_(ptx.special.tid.x(), u32)
        r = reg.array(b32, 4)
        ptx.inst.ld.global_.b32(r[0], ptx.addr(px + lane * 4))
        ptx.pipe(r[0]).add.s32(r[1], -8192).and_.b32(r[2], 262016).shr.u32(r[3], 4)
        ptx.inst.st.global_.b32(ptx.addr(py + lane * 4), r[3])
        with ptx.expr():
            desc = ((r[0] - 8192) & 0x3FF80) >> 4 | 5
        ptx.inst.st.global_.b32(ptx.addr(py + lane * 4, 128), desc)
        with ptx.scope():
            tmp = reg.scalar(b32, name="tmp")
            ptx.inst.mov.b32(tmp, 42)
            ptx.inst.st.global_.b32(ptx.addr(py + lane * 4, 256), tmp)
        with ptx.scope():
            tmp = reg.scalar(b32, name="tmp")
            ptx.inst.mov.b32(tmp, r[0])

    assembled(masked)
    x = rng.integers(2**13, 2**20, 32, dtype=np.uint32)
    want = ((x - 8192) & 0x3FF80) >> 4
    assert np.array_equal(masked(x), np.stack([want, want | 5, np.full(32, 42)]))


def test_loops() -> None:
    K, BK, tiles = 96, 16, 7

    @kernel(arch="sm_80", in_specs=[], out_specs=[Tile(3, 4, s32)], grid=4, block=1)
    def loops(y):
        (py,) = ptx.global_ptrs(y)
        cta = ptx.special.ctaid.x()
        total, count = reg.scalar(s32, init=0), reg.scalar(s32, init=0)
        for k in ptx.range_(0, K, BK):
            ptx.inst.add.s32(total, total, k)
        first = reg.from_(cta, s32)
        for tile in ptx.range_(first, tiles, 4):  # persistent: start from ctaid.x
            ptx.inst.mad.lo.s32(count, tile, 10, count)
        left, p = reg.scalar(s32, init=5), reg.array(pred, 1)
        with ptx.loop("k_loop", pred=p[0]):
            ptx.inst.sub.s32(left, left, 1)
            ptx.inst.setp.gt.s32(p[0], left, first)
        for i, value in enumerate((total, count, left)):
            ptx.inst.st.global_.s32(ptx.addr(py + cta * 4, 16 * i), value)

    assembled(loops)
    want = [[sum(range(0, K, BK))] * 4, [10 * sum(range(c, tiles, 4)) for c in range(4)], [min(c, 4) for c in range(4)]]
    assert loops().tolist() == want


def test_an_mma_with_its_accumulator_in_place() -> None:
    @kernel(arch="sm_80")
    def product():
        acc, a_fr, b_fr = reg.array(f32, 4, init=0.0), reg.array(b32, 4, init=0), reg.array(b32, 2, init=0)
        ptx.mma.sync(
            shape=(16, 8, 16),
            dtype_d=f32, dtype_a=bf16, dtype_b=bf16, dtype_c=f32,
            d=acc, a=a_fr, b=b_fr, c=acc,  # c is the in-place accumulator
            a_layout="row", b_layout="col",
        )  # fmt: skip

    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in assembled(product)


def test_an_intrinsic_of_two_instructions() -> None:
    @ptx.intrinsic
    def async_load_tile(dst, src_desc, coord, mbar):
        ptx.mbarrier.wait(mbar, phase=0)
        ptx.cp.async_.bulk.tensor.tile_2d(dst=dst, src=src_desc, coord=coord, mbar=mbar)

    @kernel(in_specs=[Tile(256, 128, bf16, tma_box=(128, 64))], out_specs=[])
    def gemm(A):
        sA = smem.alloc(bf16, (2, 128, 64))
        bar = smem.mbarrier(3)
        ptx.mbarrier.init(bar[0], 1)
        async_load_tile(sA[0], A.tma_desc(), (0, 0), bar[0])

    text = assembled(gemm)
    assert text.index("// BEGIN async_load_tile") < text.index("cp.async.bulk.tensor.2d") < text.index("// END")


def test_debug_directives_and_special_registers() -> None:
    @kernel(arch="sm_90a", in_specs=[Tile(4, f32)], out_specs=[])
    def noted(A):
        ptx.file_(1, "kernel.py")
        ptx.loc(1, 40, 0)
        ptx.pragma("nounroll")
        for name in ("%cluster_ctarank", "%clusterid.x", "%smid"):
            reg.from_(ptx.sreg(name), u32)
        ptx.inst.ld.param.u64(reg.scalar(b64), ptx.addr(A))

    text = assembled(noted)
    for words in ('.file 1 "kernel.py"', ".loc 1 40 0", '.pragma "nounroll";', "ld.param.u64 %rd0, [A];"):
        assert words in text, words
