"""C = A * B^T with operands staged through shared memory by `cp.async`, 3 stages: bf16, f32 accumulation (sm_80).

A (M, K), B (N, K) and C (M, N) are row-major. A CTA of 8 warps makes a 128 x 128 tile of C, a warp 32 x 64 of it. While
the tensor cores work on one stage of 128 x 32 elements of A and B, the copies of the next two are on their way.

The protocol, for the tile of stage s (`gemm_highperf` has the same one):
    wait_group  this thread's copies into s have arrived (one group per tile, an empty one where there is no tile left);
    bar.sync    so have all others', and everyone has finished reading the stage that is refilled next;
    cp.async    refill that stage, two tiles ahead, and commit;
    mma         on stage s.

Rows in shared memory are 80 bytes apart instead of 64: the 8 rows x 4 words that one fragment load reads lie in 32
different banks.

    python -m examples.ampere.gemm_pipelined --size 256

Measured: results against float64 on the simulator, no spills with ptxas 13.5. Not yet measured: time on a GPU.
"""

from __future__ import annotations

import sys

from examples import gemms
from examples.ampere.tiles import COLUMNS, TileCopy
from examples.common import main as run
from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.types import b32, bf16, f32, s32, u32

TILE = 128
STAGES = 3
THREADS = 256
PITCH = 80
"""Bytes from a row in shared memory to the next."""


def build(M: int, N: int, K: int, *, arch: str = "sm_80") -> Kernel:
    """The kernel for A (M, K) and B (N, K); result C (M, N). M is any size, N even, K a multiple of 8."""
    if N % 2 or K % 8:
        raise ValueError(f"N must be even and K a multiple of 8, not N = {N} and K = {K}")
    tiles = -(-K // COLUMNS)

    @kernel(
        arch=arch,
        in_specs=[Tile(M, K, bf16), Tile(N, K, bf16)],
        out_specs=[Tile(M, N, bf16)],
        grid=(-(-N // TILE), -(-M // TILE)),
        block=THREADS,
        reqntid=(THREADS,),
    )
    def gemm_pipelined(a, b, c):
        pa, pb, pc = ptx.global_ptrs(a, b, c)
        stage_bytes = TILE * PITCH
        tiles_a = smem.alloc(bf16, (STAGES, TILE, PITCH // 2), name="tiles_a")
        tiles_b = smem.alloc(bf16, (STAGES, TILE, PITCH // 2), name="tiles_b")
        tid = reg.from_(ptx.special.tid.x(), s32)
        top = reg.from_(ptx.special.ctaid.y(), s32) * TILE
        left = reg.from_(ptx.special.ctaid.x(), s32) * TILE

        def place(base):
            return lambda row, chunk: reg.from_(base.name, u32) + (row * PITCH + chunk * 16)

        copy_a = TileCopy(pa, top, TILE, M, K, tid, THREADS, place(tiles_a), PITCH)
        copy_b = TileCopy(pb, left, TILE, N, K, tid, THREADS, place(tiles_b), PITCH)

        # The fragments of mma.m16n8k16 (see `gemm`): this thread's first words of A and B in stage 0.
        warp, lane = tid >> 5, tid & 31
        g, t = lane >> 2, lane & 3
        warp_row, warp_column = (warp >> 1) * 32, (warp & 1) * 64
        from_a = reg.from_(tiles_a.name, u32) + ((warp_row + g) * PITCH + t * 4)
        from_b = reg.from_(tiles_b.name, u32) + ((warp_column + g) * PITCH + t * 4)

        sums = [[reg.array(f32, 4) for _ in range(8)] for _ in range(2)]
        for i in range(2):
            for j in range(8):
                for v in sums[i][j]:
                    ptx.inst.mov.f32(v, 0.0)
        fa = [reg.array(b32, 4) for _ in range(2)]
        fb = [reg.array(b32, 2) for _ in range(8)]

        for s in range(STAGES - 1):
            if s < tiles:
                copy_a(s * stage_bytes)
                copy_b(s * stage_bytes)
            ptx.cp.async_.commit_group()

        for first in ptx.range_(0, tiles, STAGES):
            for s in range(STAGES):
                if s and tiles % STAGES:
                    ptx.break_(pred=first >= tiles - s)
                ptx.cp.async_.wait_group(STAGES - 2)
                ptx.bar.sync(0)
                refilled = (s + STAGES - 1) % STAGES * stage_bytes
                more = first < tiles - (s + STAGES - 1)
                copy_a(refilled, pred=more)
                copy_b(refilled, pred=more)
                ptx.cp.async_.commit_group()

                for k in range(0, COLUMNS, 16):
                    at = s * stage_bytes + k * 2
                    for i in range(2):
                        for h in range(4):
                            below = 16 * i + 8 * (h & 1)
                            ptx.inst.ld.shared.b32(fa[i][h], ptx.addr(from_a, at + below * PITCH + (h >> 1) * 16))
                    for j in range(8):
                        for h in range(2):
                            ptx.inst.ld.shared.b32(fb[j][h], ptx.addr(from_b, at + 8 * j * PITCH + h * 16))
                    for i in range(2):
                        for j in range(8):
                            ptx.mma.sync(
                                shape=(16, 8, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16,
                                d=sums[i][j], a=fa[i], b=fb[j], c=sums[i][j],
                            )  # fmt: skip

        row = top + warp_row + g
        column = left + warp_column + t * 2
        pc += ptx.mul(s32, row, 2 * N, mode="wide") + column * 2
        packed = reg.scalar(b32)
        for i in range(2):
            for h in range(2):
                below = 16 * i + 8 * h
                inside = row + below < M if M % TILE else None
                for j in range(8):
                    whole = column + 8 * j < N if N % TILE else None
                    both = inside if whole is None else whole if inside is None else inside & whole
                    ptx.inst.cvt.rn.bf16x2.f32(packed, sums[i][j][2 * h + 1], sums[i][j][2 * h])
                    ptx.inst.st.global_.b32(ptx.addr(pc, below * 2 * N + 16 * j), packed, pred=both)
        ptx.ret()

    return gemm_pipelined


check = gemms.checker(build)


def main() -> int:
    return run("C = A * B^T, 3 stages", check, build, size=(256,) * 3, names=("M", "N", "K"), arch="sm_80",
               limit=gemms.LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
