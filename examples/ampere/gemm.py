"""C = A * B^T by `mma.sync`, minimal: bf16, f32 accumulation, operands straight from global memory (sm_80).

A (M, K), B (N, K) and C (M, N) are row-major. A CTA of 4 warps makes a 64 x 64 tile of C, a warp 32 x 32 of it: 2 x 4
instructions `mma.m16n8k16` per 16 columns of K. Nothing is shared through shared memory, so every operand is read
several times: this file shows which element lives in which register, and `gemm_pipelined` how it becomes fast.

With lane = 4*g + t, the fragments of m16n8k16 are (PTX ISA 9.7.16.5.8), two bf16 per register:
    A  a0: row g, k 2t 2t+1     a1: row g+8, same k    a2: row g, k 2t+8 2t+9    a3: row g+8, k 2t+8 2t+9
    B  b0: column g, k 2t 2t+1  b1: column g, k 2t+8 2t+9
    C  c0 c1: row g, columns 2t 2t+1                   c2 c3: row g+8, same columns

    python -m examples.ampere.gemm --size 128

Measured: results against float64 on the simulator, no spills with ptxas 13.5. Not yet measured: time on a GPU.
"""

from __future__ import annotations

import sys

from examples import gemms
from examples.common import main as run
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.types import b32, bf16, f32, u32

TILE = 64
WARP = 32


def build(M: int, N: int, K: int, *, arch: str = "sm_80") -> Kernel:
    """The kernel for A (M, K) and B (N, K); result C (M, N). M is any size, N even, K a multiple of 16."""
    if N % 2 or K % 16:
        raise ValueError(f"N must be even and K a multiple of 16, not N = {N} and K = {K}")

    @kernel(
        arch=arch,
        in_specs=[Tile(M, K, bf16), Tile(N, K, bf16)],
        out_specs=[Tile(M, N, bf16)],
        grid=(-(-N // TILE), -(-M // TILE)),
        block=128,
    )
    def gemm(a, b, c):
        pa, pb, pc = ptx.global_ptrs(a, b, c)
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp, lane = tid >> 5, tid & 31
        g, t = lane >> 2, lane & 3
        row = ptx.mad(u32, ptx.special.ctaid.y(), TILE, (warp >> 1) * WARP) + g
        left = ptx.mad(u32, ptx.special.ctaid.x(), TILE, (warp & 1) * WARP)  # first column of the warp

        # This thread's first pair of A (row, k = 2t) and of B (column left + g, k = 2t).
        pa += ptx.mul(u32, row, 2 * K, mode="wide") + t * 4
        column = left + g
        pb += ptx.mul(u32, column, 2 * K, mode="wide") + t * 4

        # Rows and columns beyond the matrix count as 0 and are not stored.
        rows = [row + 8 * i < M if M % TILE else None for i in range(4)]
        columns = [column + 8 * j < N if N % TILE else None for j in range(4)]

        sums = [[reg.array(f32, 4) for _ in range(4)] for _ in range(2)]
        for i in range(2):
            for j in range(4):
                for v in sums[i][j]:
                    ptx.inst.mov.f32(v, 0.0)

        def load(register, address, inside):
            if inside is not None:
                ptx.inst.mov.b32(register, 0)
            ptx.inst.ld.global_.nc.b32(register, address, pred=inside)

        fa = [reg.array(b32, 4) for _ in range(2)]
        fb = [reg.array(b32, 2) for _ in range(4)]
        for _ in ptx.range_(0, K, 16):
            for i in range(2):
                for h in range(4):  # h & 1: the lower 8 rows; h & 2: the upper 8 of the 16 columns of K
                    r = 2 * i + (h & 1)
                    load(fa[i][h], ptx.addr(pa, 8 * r * 2 * K + (h >> 1) * 16), rows[r])
            for j in range(4):
                for h in range(2):
                    load(fb[j][h], ptx.addr(pb, 8 * j * 2 * K + h * 16), columns[j])
            for i in range(2):
                for j in range(4):
                    ptx.mma.sync(
                        shape=(16, 8, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16,
                        d=sums[i][j], a=fa[i], b=fb[j], c=sums[i][j],
                    )  # fmt: skip
            pa += 32
            pb += 32

        pair = left + t * 2
        pc += ptx.mul(u32, row, 2 * N, mode="wide") + pair * 2
        packed = reg.scalar(b32)
        for j in range(4):
            whole = pair + 8 * j < N if N % TILE else None
            for r in range(4):
                inside = rows[r] if whole is None else whole if rows[r] is None else rows[r] & whole
                low, high = sums[r >> 1][j][2 * (r & 1)], sums[r >> 1][j][2 * (r & 1) + 1]
                ptx.inst.cvt.rn.bf16x2.f32(packed, high, low)
                ptx.inst.st.global_.b32(ptx.addr(pc, 8 * r * 2 * N + 16 * j), packed, pred=inside)
        ptx.ret()

    return gemm


check = gemms.checker(build)


def main() -> int:
    return run("C = A * B^T, minimal", check, build, size=(128,) * 3, names=("M", "N", "K"), arch="sm_80",
               limit=gemms.LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
