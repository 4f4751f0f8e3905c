"""C = (A * SFA) * (B * SFB)^T with block-scaled operands: MXFP8 or NVFP4, by `mma.sync` with `.block_scale` (sm_120a).

Consumer Blackwell has no tensor memory: its tensor cores take fragments from registers, as sm_80's do, and the scale
factors too. A (M, K) and B (N, K) are row-major, C (M, N) is bf16, sums are f32. The two formats:

    mxfp8   e4m3, one ue8m0 scale per 32 elements   kind::mxf8f6f4, m16n8k32, scale_vec::1X
    nvfp4   e2m1, one ue4m3 scale per 16 elements   kind::mxf4nvf4, m16n8k64, scale_vec::4X

Either way an instruction takes 32 bytes of a row, so one kernel serves both. It gets bytes: A (M, K bytes), two e2m1 in
a byte, the lower bits first, and SFA (M, K / 32 or K / 16), the scales of a row one after the other.

A CTA of 4 warps makes a 128 x 128 tile of C, a warp 64 x 64 of it. Stages of 128 bytes of K are copied by `cp.async`
into three buffers, swizzled (16-byte chunk c of row r lies at c ^ r % 8), and read by `ldmatrix`: with elements in
bytes its 8 x 16-byte matrices are just what the fragments need. With lane = 4*g + t, in bytes of a row:
    A  a0: row g, 4t..4t+3   a1: row g+8   a2, a3: the same rows, 16 bytes on
    B  b0: column g, 4t..4t+3               b1: 16 bytes on
    scales of A: lanes t = 2s (row g) and 2s+1 (row g+8) of the quad, s the thread selector (0 or 1)
    scales of B: lane t = s (column g), s the thread selector (0 to 3)
So the lanes of a quad hold the scales of two blocks of 16 rows, and of four blocks of 8 columns, and no load is wasted:
the selectors choose. One word has 4 scales: those of 4 instructions with mxfp8, where the byte selector repeats, and
of one with nvfp4.

    python -m examples.geforce.block_scaled_gemm --size 256

Measured: results against float64 on the simulator, no spills with ptxas 13.5. Not yet measured: time on a GPU.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from examples.common import ROUNDED, Sums, relative_error, told
from examples.common import main as run
from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.types import b32, bf16, f32, u8, u32

TILE = 128
"""Rows and columns of C that a CTA makes."""
WARP = 64
STAGES = 3
DEPTH = 128
"""Bytes of K in a stage; an instruction takes 32."""
THREADS = 128


@dataclass(frozen=True)
class Format:
    """A block-scaled format: elements in a byte, elements per scale, the words of the instruction."""

    per_byte: int
    block: int
    element: str
    scale: str
    shape: str
    kind: str
    sums: Sums
    """How the tensor core adds the products."""

    @property
    def words(self) -> int:
        """32-bit words of scales that a row has in a stage."""
        return DEPTH * self.per_byte // self.block // 4

    @property
    def opcode(self) -> str:
        return f"mma.sync.aligned.{self.shape}.row.col.kind::{self.kind}.f32.{self.element}.{self.element}.f32.{self.scale}"


FORMATS = {
    "mxfp8": Format(1, 32, "e4m3", "ue8m0", "m16n8k32", "mxf8f6f4.block_scale.scale_vec::1X", Sums(32, 25)),
    "nvfp4": Format(2, 16, "e2m1", "ue4m3", "m16n8k64", "mxf4nvf4.block_scale.scale_vec::4X", Sums(64, 35)),
}


def build(M: int, N: int, K: int, *, format: str = "mxfp8", arch: str = "sm_120a") -> Kernel:
    """The kernel for A (M, K), SFA, B (N, K), SFB as bytes; result C (M, N) in bf16.

    M is any size, N even; K (in elements) is a multiple of 128 with mxfp8, of 256 with nvfp4: a whole stage.
    """
    chosen = FORMATS[format]
    if N % 2 or K % (DEPTH * chosen.per_byte):
        raise ValueError(f"N must be even and K a multiple of {DEPTH * chosen.per_byte}, not N = {N} and K = {K}")
    row_bytes, scale_bytes = K // chosen.per_byte, K // chosen.block
    tiles = row_bytes // DEPTH
    part = TILE * DEPTH  # bytes of A, or B, in a stage
    multiply: Any = ptx.inst
    for word in chosen.opcode.split("."):
        multiply = getattr(multiply, word)

    @kernel(
        arch=arch,
        in_specs=[Tile(M, row_bytes, u8), Tile(M, scale_bytes, u8), Tile(N, row_bytes, u8), Tile(N, scale_bytes, u8)],
        out_specs=[Tile(M, N, bf16)],
        grid=(-(-N // TILE), -(-M // TILE)),
        block=THREADS,
        reqntid=(THREADS,),
    )
    def block_scaled_gemm(a, sfa, b, sfb, c):
        pa, psa, pb, psb, pc = ptx.global_ptrs(a, sfa, b, sfb, c)
        memory = smem.alloc(u8, (2 * STAGES * part,), name="memory")  # stages of A, then stages of B
        base = reg.from_(memory.name, u32)
        tid = reg.from_(ptx.special.tid.x(), u32)
        warp, lane = tid >> 5, tid & 31
        g, t = lane >> 2, lane & 3
        top, left = ptx.special.ctaid.y() * TILE, ptx.special.ctaid.x() * TILE

        def place(row, chunk):
            """Where a chunk of 16 bytes of a row lies in the first stage."""
            return base + (row * DEPTH + ((chunk ^ (row & 7)) << 4))

        # Copies: a thread has one chunk of every 16th row. Rows beyond the matrix become 0: cp.async reads 0 bytes.
        to = place(tid >> 3, tid & 7)

        def copier(pointer, first, height):
            row = first + (tid >> 3)
            pointer += ptx.mul(u32, row, row_bytes, mode="wide") + (tid & 7) * 16
            inside = [row + 16 * i < height if height % TILE else None for i in range(8)]
            sizes = [None if p is None else ptx.selp(u32, 16, 0, p) for p in inside]

            def copy(to_byte, pred=None):
                nonlocal pointer
                for i, size in enumerate(sizes):
                    target, source = ptx.addr(to, to_byte + 16 * i * DEPTH), ptx.addr(pointer, 16 * i * row_bytes)
                    operands = (target, source, 16) if size is None else (target, source, 16, size)
                    ptx.inst.cp.async_.cg.shared.global_(*operands, pred=pred)
                pointer += DEPTH

            return copy

        copy_a, copy_b = copier(pa, top, M), copier(pb, left, N)

        # Scales: lane t has row g + 8 * (t % 2) of row blocks 2i + t / 2, and column g of column blocks 4j + t.
        warp_row, warp_column = (warp >> 1) * WARP, (warp & 1) * WARP

        def scales(pointer, row, step, height):
            pointer += ptx.mul(u32, row, scale_bytes, mode="wide")
            inside = [row + step * i < height if height % TILE else None for i in range(2)]
            found = [reg.array(b32, chosen.words) for _ in range(2)]

            def load():
                """Those of the next stage."""
                nonlocal pointer
                for i, p in enumerate(inside):
                    address = ptx.addr(pointer, step * i * scale_bytes)
                    if p is not None:
                        for w in found[i]:
                            ptx.inst.mov.b32(w, 0)
                    if chosen.words == 1:
                        ptx.inst.ld.global_.nc.b32(found[i][0], address, pred=p)
                    else:
                        ptx.inst.ld.global_.nc.v4.b32(found[i], address, pred=p)
                pointer += 4 * chosen.words

            return found, load

        row_of_a = top + warp_row + (g + ((t & 1) << 3) + ((t >> 1) << 4))
        scales_a, load_scales_a = scales(psa, row_of_a, 32, M)
        scales_b, load_scales_b = scales(psb, left + warp_column + (g + (t << 3)), 32, N)

        # ldmatrix.x4: lanes 8i to 8i+7 give the rows of matrix i. For A: rows 0-7, 8-15, both again with the upper
        # chunk. For B: columns of C 0-7 with both chunks, then columns 8-15. 32 bytes of K on, two bits change.
        first_a = place(warp_row + (lane & 15), lane >> 4)
        first_b = place(warp_column + ((lane & 7) + (lane >> 4 << 3)), lane >> 3 & 1)
        from_a = [first_a, *(first_a ^ (k << 5) for k in range(1, 4))]
        from_b = [first_b, *(first_b ^ (k << 5) for k in range(1, 4))]

        sums = [[reg.array(f32, 4) for _ in range(8)] for _ in range(4)]
        for v in (v for of_rows in sums for block in of_rows for v in block):
            ptx.inst.mov.f32(v, 0.0)
        fa = [reg.array(b32, 4) for _ in range(4)]
        fb = [reg.array(b32, 4) for _ in range(4)]

        def compute(stage):
            for k in range(4):
                for i in range(4):
                    ptx.ldmatrix(dst=fa[i], src=ptx.addr(from_a[k], stage * part + i * 16 * DEPTH))
                    ptx.ldmatrix(dst=fb[i], src=ptx.addr(from_b[k], (STAGES + stage) * part + i * 16 * DEPTH))
                word, byte = (0, k) if chosen.words == 1 else (k, 0)
                for i in range(4):
                    for j in range(8) if i % 2 == 0 else reversed(range(8)):  # neighbours share an operand
                        n8 = [fb[j // 2][2 * (j % 2)], fb[j // 2][2 * (j % 2) + 1]]
                        multiply(
                            sums[i][j], fa[i], n8, sums[i][j],
                            scales_a[i // 2][word], [byte, i % 2], scales_b[j // 4][word], [byte, j % 4],
                        )  # fmt: skip

        for s in range(STAGES - 1):
            if s < tiles:
                copy_a(s * part)
                copy_b((STAGES + s) * part)
            ptx.cp.async_.commit_group()
        for first in ptx.range_(0, tiles, STAGES):
            for s in range(STAGES):
                if s and tiles % STAGES:
                    ptx.break_(pred=first >= tiles - s)
                load_scales_a()
                load_scales_b()
                # This stage is there, for this thread, then for all; and all have left the one to be refilled.
                ptx.cp.async_.wait_group(STAGES - 2)
                ptx.bar.sync(0)
                refilled, more = (s + STAGES - 1) % STAGES, first < tiles - (s + STAGES - 1)
                copy_a(refilled * part, pred=more)
                copy_b((STAGES + refilled) * part, pred=more)
                ptx.cp.async_.commit_group()
                compute(s)

        row, pair = top + warp_row + g, left + warp_column + t * 2
        pc += ptx.mul(u32, row, 2 * N, mode="wide") + pair * 2
        rows = [row + 8 * i < M if M % TILE else None for i in range(8)]
        packed = reg.scalar(b32)
        for j in range(8):
            whole = pair + 8 * j < N if N % TILE else None
            for r in range(8):
                inside = rows[r] if whole is None else whole if rows[r] is None else rows[r] & whole
                low, high = sums[r >> 1][j][2 * (r & 1)], sums[r >> 1][j][2 * (r & 1) + 1]
                ptx.inst.cvt.rn.bf16x2.f32(packed, high, low)
                ptx.inst.st.global_.b32(ptx.addr(pc, 8 * r * 2 * N + 16 * j), packed, pred=inside)
        ptx.ret()

    return block_scaled_gemm


def operand(rows: int, K: int, format: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random operand: its bytes, the bytes of its scales, and its values in float64."""
    chosen = FORMATS[format]
    blocks = (rows, K // chosen.block)
    data: np.ndarray
    if format == "mxfp8":
        elements = rng.standard_normal((rows, K)).astype(ml_dtypes.float8_e4m3fn)
        data = elements.view(np.uint8)
        factors = np.exp2(rng.integers(-6, 7, blocks)).astype(ml_dtypes.float8_e8m0fnu)
    else:
        elements = rng.integers(0, 16, (rows, K), np.uint8).view(ml_dtypes.float4_e2m1fn)
        codes = elements.view(np.uint8)
        data = codes[:, ::2] | codes[:, 1::2] << 4
        factors = rng.uniform(0.01, 8, blocks).astype(ml_dtypes.float8_e4m3fn)
    values = elements.astype(np.float64) * np.repeat(factors.astype(np.float64), chosen.block, axis=1)
    return data, factors.view(np.uint8), values


LARGEST = 2.0**7
"""The largest sum over the root mean square: factors of rows and columns differ."""


def limit(M: int, N: int, K: int, *, format: str = "", **_: Any) -> float:
    """The relative error that the sums and one rounding to bf16 may have, of one format or of both."""
    return ROUNDED + max(FORMATS[f].sums.error(K, LARGEST) for f in ([format] if format else FORMATS))


def check(M: int, N: int, K: int, *, format: str = "", **options: Any) -> float:
    """Run it on fresh random data and random scales, in one format or both; the (larger) relative error."""
    if not format:
        return max(check(M, N, K, format=f, **options) for f in FORMATS)
    rng = np.random.default_rng()
    a, sfa, values_a = operand(M, K, format, rng)
    b, sfb, values_b = operand(N, K, format, rng)
    start = time.perf_counter()
    c = build(M, N, K, format=format, **options)(a, sfa, b, sfb)
    seconds = time.perf_counter() - start
    error = relative_error(c, values_a @ values_b.T)
    allowed = told(error, limit(M, N, K, format=format), FORMATS[format].sums, options.get("arch", "sm_120a"))
    print(f"block_scaled_gemm {format} {M} x {N} x {K}  {allowed}   {seconds:.2f} s")
    return error


def main() -> int:
    return run("C = A * B^T, block-scaled", check, build, size=(256,) * 3, names=("M", "N", "K"), arch="sm_120a",
               limit=limit)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
