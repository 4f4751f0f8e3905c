"""C = A * B^T by `wgmma` on tiles that TMA brings, simple: bf16, f32 accumulation (sm_90a).

A (M, K), B (N, K) and C (M, N) are row-major. A CTA is one warpgroup and makes a 128 x 128 tile of C, as two
accumulators of 64 x 128. TMA fills a ring of 4 stages of 128 x 64 elements of A and of B, with the 128-byte swizzle
that wgmma reads; `smem.wgmma_tile` knows the layout and aligns the stages to 1024 bytes.

The protocol, for the tile of stage s:
    wait        full[s] flips when the bytes of both copies have arrived (thread 0 announced them);
    wgmma       4 steps of 16 columns of K for both accumulators, commit, and wait for them;
    bar.sync    all four warps are done with the stage;
    refill      thread 0 announces and starts the copies of the tile 4 further into the same stage.
`gemm_highperf` gives the refilling to a warp of its own and keeps wgmma running.

Copies that hang over the edge are filled with 0 and count in full. C is stored from registers: in the accumulator of
m64nNk16, warp w and lane 4*g + t have rows 16w + g and 16w + g + 8, columns 8j + 2t and 8j + 2t + 1.

    python -m examples.hopper.gemm --size 256

Measured: results against float64 on the simulator, no spills and no advice from ptxas 13.5. Not yet measured: time on a
GPU.
"""

from __future__ import annotations

import sys

from examples import gemms
from examples.common import main as run
from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.types import b32, bf16, f32, s32, u32

TILE = 128
"""Rows and columns of C that a CTA makes."""
DEPTH = 64
"""Columns of K in a stage: 128 bytes."""
STAGES = 4
STAGE_BYTES = 2 * TILE * DEPTH * 2


def build(M: int, N: int, K: int, *, arch: str = "sm_90a") -> Kernel:
    """The kernel for A (M, K) and B (N, K); result C (M, N). M is any size, N even, K a multiple of 8."""
    if N % 2 or K % 8:
        raise ValueError(f"N must be even and K a multiple of 8, not N = {N} and K = {K}")
    tiles = -(-K // DEPTH)

    @kernel(
        arch=arch,
        in_specs=[
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(TILE, DEPTH)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(TILE, DEPTH)),
        ],
        out_specs=[Tile(M, N, bf16)],
        grid=(-(-N // TILE), -(-M // TILE)),
        block=128,
        reqntid=(128,),
    )
    def gemm(a, b, c):
        (pc,) = ptx.global_ptrs(c)
        map_a, map_b = a.tma_desc(), b.tma_desc()
        tile_a = smem.wgmma_tile(bf16, (STAGES, TILE, DEPTH), name="tile_a")
        tile_b = smem.wgmma_tile(bf16, (STAGES, TILE, DEPTH), name="tile_b")
        full = smem.mbarrier(STAGES, name="full")
        tid = reg.from_(ptx.special.tid.x(), s32)
        top = reg.from_(ptx.special.ctaid.y(), s32) * TILE
        left = reg.from_(ptx.special.ctaid.x(), s32) * TILE
        first_thread = tid == 0

        with ptx.if_(first_thread):
            for s in range(STAGES):
                ptx.mbarrier.init(full[s], 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        depth = reg.scalar(s32, init=0)  # where in K the next copies start

        def fill(s):
            ptx.mbarrier.arrive_expect_tx(full[s], STAGE_BYTES)
            ptx.cp.async_.bulk.tensor_2d(dst=tile_a[s], src=map_a, coord=(depth, top), mbar=full[s])
            ptx.cp.async_.bulk.tensor_2d(dst=tile_b[s], src=map_b, coord=(depth, left), mbar=full[s])
            ptx.inst.add.s32(depth, depth, DEPTH)

        with ptx.if_(first_thread):
            for s in range(min(STAGES, tiles)):
                fill(s)

        sums = [reg.wgmma_frag(m=64, n=TILE, dtype=f32) for _ in range(2)]
        for accumulator in sums:
            for v in accumulator:
                ptx.inst.mov.f32(v, 0.0)

        parity = reg.scalar(u32, init=0)
        for first in ptx.range_(0, tiles, STAGES):
            for s in range(STAGES):
                if s and tiles % STAGES:
                    ptx.break_(pred=first >= tiles - s)
                ptx.mbarrier.wait(full[s], parity)
                ptx.wgmma.fence()
                for k in range(0, DEPTH, 16):
                    for half, accumulator in enumerate(sums):
                        ptx.wgmma.mma_async(
                            shape=(64, TILE, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=accumulator,
                            a=tile_a[s], a_k_offset=half * 64 * DEPTH * 2 + k * 2,
                            b=tile_b[s], b_k_offset=k * 2, scale_d=True,
                        )  # fmt: skip
                ptx.wgmma.commit_group()
                ptx.wgmma.wait_group(0)
                ptx.bar.sync(0)
                with ptx.if_(first_thread & (first < tiles - s - STAGES)):
                    fill(s)
            parity ^= 1

        warp, lane = tid >> 5, tid & 31
        row = top + warp * 16 + (lane >> 2)
        column = left + (lane & 3) * 2
        pc += ptx.mul(s32, row, 2 * N, mode="wide") + column * 2
        packed = reg.scalar(b32)
        for half, accumulator in enumerate(sums):
            for lower in range(2):
                below = 64 * half + 8 * lower
                inside = row + below < M if M % TILE else None
                for j in range(TILE // 8):
                    whole = column + 8 * j < N if N % TILE else None
                    both = inside if whole is None else whole if inside is None else inside & whole
                    low, high = accumulator[4 * j + 2 * lower], accumulator[4 * j + 2 * lower + 1]
                    ptx.inst.cvt.rn.bf16x2.f32(packed, high, low)
                    ptx.inst.st.global_.b32(ptx.addr(pc, below * 2 * N + 16 * j), packed, pred=both)
        ptx.ret()

    return gemm


check = gemms.checker(build)


def main() -> int:
    return run("C = A * B^T by wgmma and TMA", check, build, size=(256,) * 3, names=("M", "N", "K"), arch="sm_90a",
               limit=gemms.LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
