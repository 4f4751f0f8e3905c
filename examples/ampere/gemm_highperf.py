"""C = A * B^T for speed on an A100: 4 stages, ldmatrix, swizzled shared memory, bf16, f32 accumulation (sm_80).

A (M, K), B (N, K) and C (M, N) are row-major. A CTA of 8 warps (2 x 4) makes a 128 x 256 tile of C, a warp 64 x 64 of
it, in steps of 32 columns of K: 24 KB a stage, 4 stages.

What makes it fast, next to the pipeline of `gemm_pipelined`:
- `ldmatrix.x4` reads a 16 x 16 fragment at once. Rows are 64 bytes apart, and the 16-byte chunk c of row r lies at
  chunk c ^ (r/2 & 3): the 8 rows of a matrix lie in all 32 banks.
- Fragments are double buffered: those of the next 16 columns are read while the 32 mma of these run. The barrier for
  the next stage therefore stands before the last mma of this one.
- The loop over K is a loop at run time, unrolled over the stages, so that stages are immediate offsets and the code
  stays in the instruction cache.
- Neighbouring CTAs work on a block of 8 tiles of M, so that their operands are found in L2.
- C goes through shared memory: 16-byte stores of whole 512-byte rows.

    python -m examples.ampere.gemm_highperf --size 512

Measured: results against float64 on the simulator, no spills with ptxas 13.5, no bank conflicts by pyptx's analysis.
Not yet measured: time on a GPU. The floor at 312 TFLOPS (1.41 GHz) is 0.44 ms for 4096^3; a wave of 108 tiles makes
4.74 waves of the 512 tiles there.
"""

from __future__ import annotations

import sys

from examples import gemms
from examples.ampere.tiles import COLUMNS, TileCopy
from examples.common import main as run
from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.types import b32, bf16, f32, s32, u32

ROWS, WIDTH = 128, 256
"""The tile of C."""
STAGES = 4
THREADS = 256
GROUP = 8
"""Tiles of M that neighbouring CTAs share."""
PITCH = WIDTH * 2 + 16
"""Bytes from a row of C in shared memory to the next: the words of a fragment lie in 32 different banks."""


def build(M: int, N: int, K: int, *, arch: str = "sm_80") -> Kernel:
    """The kernel for A (M, K) and B (N, K); result C (M, N). M is any size, N and K are multiples of 8."""
    if N % 8 or K % 8:
        raise ValueError(f"N and K must be multiples of 8, not N = {N} and K = {K}")
    tiles = -(-K // COLUMNS)
    down, across = -(-M // ROWS), -(-N // WIDTH)
    stage_a, stage_b = ROWS * COLUMNS * 2, WIDTH * COLUMNS * 2

    @kernel(
        arch=arch,
        in_specs=[Tile(M, K, bf16), Tile(N, K, bf16)],
        out_specs=[Tile(M, N, bf16)],
        grid=down * across,
        block=THREADS,
        reqntid=(THREADS,),
    )
    def gemm_highperf(a, b, c):
        pa, pb, pc = ptx.global_ptrs(a, b, c)
        # The stages of A, then those of B; when they are done, C.
        memory = smem.alloc(bf16, (STAGES * (ROWS + WIDTH) * COLUMNS,), name="memory")
        start_b = STAGES * stage_a
        tid = reg.from_(ptx.special.tid.x(), s32)

        # Tiles in groups of up to 8 rows of tiles; within a group, down the rows first.
        block = reg.from_(ptx.special.ctaid.x(), s32)
        group = block // (GROUP * across)
        within = block - group * (GROUP * across)
        above = group * GROUP
        height = (down - above).min(GROUP)
        tile_column = within // height
        top = (above + within - tile_column * height) * ROWS
        left = tile_column * WIDTH

        base = reg.from_(memory.name, u32)

        def place(row, chunk):
            return base + (row * 64 + ((chunk ^ (row >> 1 & 3)) << 4))

        copy_a = TileCopy(pa, top, ROWS, M, K, tid, THREADS, place, 64)
        copy_b = TileCopy(pb, left, WIDTH, N, K, tid, THREADS, place, 64)

        # ldmatrix.x4: lanes 8i to 8i+7 give the rows of matrix i. For A: rows 0-7, 8-15, both again with the upper
        # chunk. For B: rows (columns of C) 0-7 with both chunks, then rows 8-15. 16 columns of K further, the chunk
        # differs in one bit.
        warp, lane = tid >> 5, tid & 31
        warp_row, warp_column = (warp >> 2) * 64, (warp & 3) * 64
        first_a = place(warp_row + (lane & 15), lane >> 4)
        first_b = place(warp_column + ((lane & 7) + (lane >> 4 << 3)), lane >> 3 & 1)
        from_a, from_b = (first_a, first_a ^ 32), (first_b, first_b ^ 32)

        sums = [[reg.array(f32, 4) for _ in range(8)] for _ in range(4)]
        for i in range(4):
            for j in range(8):
                for v in sums[i][j]:
                    ptx.inst.mov.f32(v, 0.0)
        fa = [[reg.array(b32, 4) for _ in range(4)] for _ in range(2)]
        fb = [[reg.array(b32, 4) for _ in range(4)] for _ in range(2)]

        def load_fragments(stage, half):
            """Read the fragments of 16 of the 32 columns of a stage: 4 x m16 of A, 4 x two n8 of B."""
            for i in range(4):
                ptx.ldmatrix(dst=fa[half][i], src=ptx.addr(from_a[half], stage * stage_a + i * 16 * 64))
                ptx.ldmatrix(dst=fb[half][i], src=ptx.addr(from_b[half], start_b + stage * stage_b + i * 16 * 64))

        def multiply(half):
            for i in range(4):
                for j in range(8) if i % 2 == 0 else reversed(range(8)):  # neighbours share an operand
                    n8 = [fb[half][j // 2][2 * (j % 2)], fb[half][j // 2][2 * (j % 2) + 1]]
                    ptx.mma.sync(
                        shape=(16, 8, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16,
                        d=sums[i][j], a=fa[half][i], b=n8, c=sums[i][j],
                    )  # fmt: skip

        for s in range(STAGES - 1):
            if s < tiles:
                copy_a(s * stage_a)
                copy_b(start_b + s * stage_b)
            ptx.cp.async_.commit_group()
        ptx.cp.async_.wait_group(STAGES - 2)
        ptx.bar.sync(0)
        load_fragments(0, 0)

        for first in ptx.range_(0, tiles, STAGES):
            for s in range(STAGES):
                if s and tiles % STAGES:
                    ptx.break_(pred=first >= tiles - s)
                # Refill the stage that everyone left before the last barrier.
                refilled = (s + STAGES - 1) % STAGES
                more = first < tiles - (s + STAGES - 1)
                load_fragments(s, 1)
                copy_a(refilled * stage_a, pred=more)
                copy_b(start_b + refilled * stage_b, pred=more)
                ptx.cp.async_.commit_group()
                multiply(0)
                # The next stage is there: for this thread, then for all. (After the last tile it holds an old one,
                # which nobody uses.)
                ptx.cp.async_.wait_group(STAGES - 2)
                ptx.bar.sync(0)
                load_fragments((s + 1) % STAGES, 0)
                multiply(1)

        # C: fragments to shared memory, whole rows from there. No copy is on its way any more that could be late.
        ptx.cp.async_.wait_group(0)
        ptx.bar.sync(0)
        g, t = lane >> 2, lane & 3
        to = base + ((warp_row + g) * PITCH + (warp_column + t * 2) * 2)
        packed = reg.scalar(b32)
        for i in range(4):
            for h in range(2):
                for j in range(8):
                    ptx.inst.cvt.rn.bf16x2.f32(packed, sums[i][j][2 * h + 1], sums[i][j][2 * h])
                    ptx.inst.st.shared.b32(ptx.addr(to, (16 * i + 8 * h) * PITCH + 16 * j), packed)
        ptx.bar.sync(0)
        row, column = top + warp, left + lane * 8
        source = base + (warp * PITCH + lane * 16)
        pc += ptx.mul(s32, row, 2 * N, mode="wide") + column * 2
        whole = column < N if N % WIDTH else None
        vector = reg.array(b32, 4)
        for i in range(0, ROWS, THREADS // 32):
            inside = row + i < M if M % ROWS else None
            both = inside if whole is None else whole if inside is None else inside & whole
            ptx.inst.ld.shared.v4.b32(vector, ptx.addr(source, i * PITCH))
            ptx.inst.st.global_.v4.b32(ptx.addr(pc, i * 2 * N), vector, pred=both)
        ptx.ret()

    return gemm_highperf


check = gemms.checker(build)


def main() -> int:
    return run("C = A * B^T, fast on an A100", check, build, size=(512,) * 3, names=("M", "N", "K"), arch="sm_80",
               limit=gemms.LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
