"""A small Hopper GEMM written in the DSL, run on the simulator: TMA, mbarriers, descriptors and fragments fit
together.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pyptx import Tile, kernel, ptx, reg, simulate, smem
from pyptx.simulator.tensor.tile_maps import tensor_map
from pyptx.types import bf16, f32, u32
from tests.frontend.tracing import assembled

BM, BN, BK = 64, 128, 64


def gemm(stages: int, b_major: str = "MN"):
    """C = A * B for bf16 A (M, K); B is (K, N) row-major for "MN", (N, K) row-major for "K"."""
    b_tile = (
        Tile.wgmma_b("K", "N", bf16, tile_k=BK, tile_n=64)
        if b_major == "MN"
        else Tile("N", "K", bf16, Tile.wgmma_a(BN, BK, bf16).layout, tma_box=(BN, BK))
    )

    @kernel(
        in_specs=[Tile.wgmma_a("M", "K", bf16, tile_m=BM, tile_k=BK), b_tile],
        out_specs=[Tile("M", "N", f32)],
        grid=lambda M, N, K: (N // BN, M // BM),
        block=128,
    )
    def product(A, B, C, *, M=None, N=None, K=None):
        s_a = smem.wgmma_tile(bf16, (stages, BM, BK), "K")
        s_b = smem.wgmma_tile(bf16, (stages, BK, BN) if b_major == "MN" else (stages, BN, BK), b_major)
        full = smem.mbarrier(stages)
        tid = reg.from_(ptx.special.tid.x(), u32)
        first = tid == 0
        with ptx.if_(first):
            for bar in full:
                ptx.mbarrier.init(bar, 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        row, col = ptx.special.ctaid.y() * BM, ptx.special.ctaid.x() * BN
        acc = reg.wgmma_frag(m=BM, n=BN, dtype=f32)
        for register in acc:
            ptx.inst.mov.f32(register, 0)
        ring = ptx.pipeline(stages)
        for k in ptx.range_(0, K, BK):
            stage, phase = ring.advance()
            with ptx.if_(first):
                ptx.mbarrier.arrive_expect_tx(full[stage], (BM + BN) * BK * 2)
                load = ptx.cp.async_.bulk.tensor_2d
                load(dst=s_a[stage], src=A.tma_desc(), coord=(k, row), mbar=full[stage])
                if b_major == "K":
                    load(dst=s_b[stage], src=B.tma_desc(), coord=(k, col), mbar=full[stage])
                else:
                    for half in range(BN // 64):  # a box is one swizzle span wide
                        dst = ptx.addr(s_b[stage], half * BK * 128)
                        load(dst=dst, src=B.tma_desc(), coord=(col + 64 * half, k), mbar=full[stage])
            ptx.mbarrier.wait(full[stage], phase)
            ptx.wgmma.fence()
            for j in range(BK // 16):
                ptx.wgmma.mma_async(
                    shape=(BM, BN, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=acc, a=s_a[stage], b=s_b[stage],
                    scale_d=True, a_k_offset=32 * j, b_k_offset=(32 if b_major == "K" else 16 * 128) * j,
                )  # fmt: skip
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
            ptx.bar.sync(0)
        # lane l of warp w holds rows 16w + l/4 (+ 8) and columns 2(l%4) (+ 1) of each group of 8
        (out,) = ptx.global_ptrs(C)
        lane = tid & 31
        out += ((row + (tid >> 5) * 16 + (lane >> 2)) * N + col + (lane & 3) * 2) * 4
        for group in range(BN // 8):
            for i in range(2):
                pair = [acc[4 * group + 2 * i], acc[4 * group + 2 * i + 1]]
                ptx.inst.st.global_.v2.f32(ptx.addr(out, (8 * i * N + 8 * group) * 4), pair)
        ptx.ret()

    return product


@pytest.mark.parametrize("b_major", ["MN", "K"])
@pytest.mark.parametrize("stages", [1, 4])
def test_gemm(stages, b_major):
    k = gemm(stages, b_major)
    M, N, K = 64, 128, 192
    assembled(k, M=M, N=N, K=K)
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (M, K)).astype(ml_dtypes.bfloat16)  # small integers: every sum is exact
    b = rng.integers(-4, 5, (K, N)).astype(ml_dtypes.bfloat16)
    c = np.full((M, N), np.nan, np.float32)
    tensors = [a, b if b_major == "MN" else np.ascontiguousarray(b.T), c]
    parameters = k.trace(M=M, N=N, K=K).parameters
    args = [tensor_map(tensors[p.tensor], p.tile) if p.kind == "tma" else tensors[p.tensor] for p in parameters]
    launch = k.resolve_launch({"M": M, "N": N, "K": K})
    simulate(k.module(M=M, N=N, K=K), *args, grid=launch.grid, block=launch.block, smem=launch.smem)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
