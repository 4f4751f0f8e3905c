"""C = A * B^T for speed on an H100: warp-specialised, persistent, clusters of 2, bf16, f32 accumulation (sm_90a).

A (M, K), B (N, K) and C (M, N) are row-major. Two CTAs of a cluster make a 256 x 256 tile of C, each 128 rows, and
go on with the next tile until there is none left. In a CTA (384 threads, 1 CTA per SM):

    warpgroup 0   producer: one lane starts all TMA copies. It gives its registers back (24 remain).
    warpgroups    consumers: each makes 64 x 256 of C, 128 f32 accumulators per thread, with `wgmma.m64n256k16` (240
    1 and 2       registers), then stores it by `stmatrix` and TMA while the producer already loads the next tile.

A stage is 64 columns of K: 128 rows of A (16 KB) and 256 rows of B (32 KB); there are 4. Both CTAs need the same B:
each loads half of it and multicasts it to both, which halves the traffic of B from L2.

Barriers, per stage:
    full    1 arrival, by the producer, which announces 49152 bytes: A and half of B from this CTA, the other half of B
            from the other CTA. Bytes that arrive before the announcement are fine: the phase cannot end without it.
    empty   16 arrivals: each of the 8 consumer warps of both CTAs. The producer writes into both CTAs, so both must
            have left the stage. Fresh barriers count as "the previous phase is complete", so the producer waits for
            parity 1 first.

What orders what:
- The barriers are initialised by one thread, made visible by `fence.mbarrier_init` and a cluster barrier before anyone
  in either CTA uses them.
- Waits that another CTA's arrivals or copies end acquire at cluster scope, the arrivals release at cluster scope.
- A consumer releases a stage after `wgmma.wait_group 1`: the products of the stage before the last are complete then.
- Before a TMA store, every thread that wrote the staged tile makes its writes visible to the async proxy
  (`fence.proxy.async`), then the warpgroup meets at a named barrier, then one thread starts the store. The buffer is
  written again after that same thread has seen `wait_group.read` and the warpgroup has met again.
- No CTA exits while the other may still copy into it or arrive at its barriers: all meet at a last cluster barrier.

    python -m examples.hopper.gemm_highperf --size 512

Measured: results against float64 on the simulator, 168 registers, no spills and no advice (C7508, C7510, C7517) from
ptxas 13.5. Not yet measured: time on a GPU. The floor for 8192^3 on an H100 is 1.11 ms at the nominal 989 TFLOPS; at
the clock that its power limit leaves under such load, public kernels reach about 800.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from examples import gemms
from examples.common import directives
from examples.common import main as run
from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.reg import Reg
from pyptx.types import PtxType, b32, b64, bf16, f32, s32, u32

ROWS, WIDTH = 128, 256
"""The part of C that a CTA makes."""
ROW_BYTES = 128
"""The bytes of K in a stage: 64 columns of bf16."""
STAGES = 4
CLUSTER = 2
STAGE_A = ROWS * ROW_BYTES
CONSUMERS = 2
THREADS = 128 * (1 + CONSUMERS)
PANEL = 64
"""Columns of C that one TMA store writes: 128 bytes."""
BUFFER = 64 * PANEL * 2
GROUP = 8
"""Tiles of M after which the next column of tiles comes: their operands stay in L2."""

RowOfB = Callable[[Reg, Reg], Reg]
Scale = Callable[[Reg], Callable[[Sequence[Reg], Reg], None]]


class Plan:
    """One problem on this design: its tiles, its launch, and the tracing of the kernel.

    `grouped_gemm` and `fp8_gemm` are variations of it: `dtype` is bf16 or e4m3, `rows_b` the rows of B if it holds
    several matrices of N rows. A stage is 128 bytes of K of either type. `promote`: the tensor core's sums of a stage
    are added to f32 registers of their own, as many as the accumulator has, so that a tile is half as wide.
    """

    def __init__(
        self,
        M: int,
        N: int,
        K: int,
        *,
        sms: int,
        dtype: PtxType = bf16,
        rows_b: int | None = None,
        promote: bool = False,
    ):
        unit = 16 // dtype.bytes
        if N % 8 or K % unit:
            raise ValueError(
                f"N must be a multiple of 8 and K of {unit}, as TMA needs rows of 16-byte multiples: N = {N}, K = {K}"
            )
        if sms < CLUSTER or sms % CLUSTER:
            raise ValueError(f"CTAs come in clusters of {CLUSTER}: sms = {sms} is not a multiple")
        self.dtype, self.promote = dtype, promote
        self.width = WIDTH // 2 if promote else WIDTH
        self.stages = STAGES * (ROWS + WIDTH) // (ROWS + self.width)
        self.depth = ROW_BYTES // dtype.bytes
        self.steps = -(-K // self.depth)
        self.down, self.across = -(-M // (CLUSTER * ROWS)), -(-N // self.width)
        self.tiles = self.down * self.across
        self.clusters = min(self.tiles, sms // CLUSTER)
        self.inputs = [
            Tile(M, K, dtype, Layout.TMA_128B, tma_box=(ROWS, self.depth)),
            Tile(rows_b or N, K, dtype, Layout.TMA_128B, tma_box=(self.width // CLUSTER, self.depth)),
        ]
        self.output = Tile(M, N, bf16, Layout.TMA_128B, tma_box=(64, PANEL))

    @property
    def launch(self) -> dict[str, Any]:
        """Options of `@kernel`."""
        return {
            "grid": self.clusters * CLUSTER, "block": THREADS, "cluster": CLUSTER,
            "raw_directives": directives(THREADS),
        }  # fmt: skip

    def place(self, tile: Reg) -> tuple[Reg, Reg]:
        """(first row, first column) of a cluster's tile: groups of GROUP rows of tiles, down the rows first."""
        group = tile // (GROUP * self.across)
        within = tile - group * (GROUP * self.across)
        above = group * GROUP
        height = (self.down - above).min(GROUP)
        column = within // height
        return (above + within - column * height) * (CLUSTER * ROWS), column * self.width

    def trace(self, a: Any, b: Any, c: Any, *, row_b: RowOfB | None = None, scale: Scale | None = None) -> None:
        """The kernel. `row_b(top, left)` is the row of B for the column `left` of C in the tile that starts at row
        `top` (default: `left`). `scale(row)` is called once per tile and returns a function of (values, column) that
        multiplies the 8 sums that a thread has of rows `row` and `row + 8`, columns `column`, `+ 1`, `+ 8`, `+ 9`, in
        the order of the accumulator.
        """
        dtype, depth, steps, width, stages = self.dtype, self.depth, self.steps, self.width, self.stages
        stage_b = width * ROW_BYTES
        map_a, map_b, map_c = a.tma_desc(), b.tma_desc(), c.tma_desc()
        stages_a = smem.wgmma_tile(dtype, (stages, ROWS, depth), name="stages_a")
        stages_b = smem.wgmma_tile(dtype, (stages, width, depth), name="stages_b")
        staged_c = smem.alloc(bf16, (CONSUMERS, 2, 64, PANEL), align=1024, name="staged_c")
        pipe = ptx.Pipeline(
            stages, bytes=[stages_a, stages_b], consumers=CONSUMERS * 4 * CLUSTER, scope="cluster", name="stage"
        )

        tid = reg.from_(ptx.special.tid.x(), s32)
        warp = ptx.warp.broadcast(tid >> 5)
        rank = reg.from_(ptx.special.cluster_ctarank(), s32)
        cluster = reg.from_(ptx.special.clusterid.x(), s32)

        with ptx.if_(tid == 0):
            for tensor_map in (map_a, map_b, map_c):
                ptx.inst.prefetch.tensormap(ptx.addr(tensor_map))
            pipe.init()
            ptx.fence.mbarrier_init()
        ptx.cluster.sync()

        def produce():
            producer = pipe.producer()
            own_half = rank * (width // CLUSTER)
            for tile in ptx.range_(cluster, self.tiles, self.clusters):
                top, left = self.place(tile)
                first_b = (row_b(top, left) if row_b is not None else left) + own_half
                top += rank * ROWS
                for step in ptx.range_(steps):
                    stage = producer.acquire()
                    column, bar = step * depth, stage.full
                    ptx.cp.async_.bulk.tensor_2d(dst=stages_a[stage.index], src=map_a, coord=(column, top), mbar=bar)
                    half = ptx.addr(stages_b[stage.index], rank * (stage_b // CLUSTER))
                    ptx.cp.async_.bulk.tensor_2d(
                        dst=half, src=map_b, coord=(column, first_b), mbar=bar, multicast_mask=(1 << CLUSTER) - 1
                    )

        def consume():
            lane = tid & 31
            group = (warp >> 2) - 1  # which consumer: rows 64*group of the CTA's 128
            consumer = pipe.consumer()
            first_a = ptx.wgmma.masked_descriptor(reg.from_(stages_a.name, u32) + group * (64 * ROW_BYTES))
            first_b = ptx.wgmma.masked_descriptor(stages_b)
            accumulator = reg.wgmma_frag(m=64, n=width, dtype=f32)
            sums = reg.array(f32, width // 2) if self.promote else accumulator
            meeting = ptx.named_barrier(1 + group, count=128)
            storing = (tid & 127) == 0

            # stmatrix.x4 writes 16 x 16 elements: lanes 8i to 8i+7 give the rows of matrix i, which are rows 0-7, 8-15,
            # both again 8 columns further. Chunk c of row r goes to chunk c ^ (r & 7), as TMA reads it.
            row = (warp & 3) * 16 + (lane & 15)
            chunk = (lane >> 4) ^ (lane & 7)
            first = reg.from_(staged_c.name, u32) + (group * (2 * BUFFER) + row * (PANEL * 2) + (chunk << 4))
            to = [first ^ (32 * i) for i in range(PANEL // 16)]
            source = reg.from_(staged_c.name, u32) + group * (2 * BUFFER)
            packed = reg.array(b32, 4)
            own_row, own_column = (warp & 3) * 16 + (lane >> 2), (lane & 3) * 2

            previous = reg.scalar(u32)

            def release(stage):
                """This warp is done with a stage of its CTA: lanes 0 and 1 tell the producers of both CTAs."""
                consumer.release(stage, cta=lane, pred=lane < CLUSTER)

            def multiply(stage, *, start):
                """Issue the products of a stage, as a group; the first one of a tile starts the sum."""
                offset = reg.scalar(b64)
                desc_a, desc_b = reg.scalar(b64), reg.scalar(b64)
                ptx.inst.cvt.u64.u32(offset, stage)
                ptx.inst.mad.lo.u64(desc_a, offset, STAGE_A >> 4, first_a)
                ptx.inst.mad.lo.u64(desc_b, offset, stage_b >> 4, first_b)
                ptx.wgmma.fence()
                for byte in range(0, ROW_BYTES, 32):  # an instruction takes 32 bytes of K
                    ptx.wgmma.mma_async(
                        shape=(64, width, 32 // dtype.bytes), dtype_d=f32, dtype_a=dtype, dtype_b=dtype, d=accumulator,
                        a=desc_a, a_k_offset=byte, b=desc_b, b_k_offset=byte, scale_d=not start or byte > 0,
                    )  # fmt: skip
                ptx.wgmma.commit_group()

            def multiply_all():
                """All products of a tile, with those of the next stage under way while one is waited for."""
                stage = consumer.wait().index
                multiply(stage, start=True)
                ptx.mov(u32, previous, stage)
                for _ in ptx.range_(1, steps):
                    stage = consumer.wait().index
                    multiply(stage, start=False)
                    ptx.wgmma.wait_group(1)
                    release(previous)
                    ptx.mov(u32, previous, stage)
                ptx.wgmma.wait_group(0)
                release(previous)

            def multiply_and_promote():
                """The same, and the sums of each stage are added to those in f32; the other warpgroup's products go on."""
                for v in sums:
                    ptx.inst.mov.f32(v, 0.0)
                for _ in ptx.range_(steps):
                    stage = consumer.wait().index
                    multiply(stage, start=True)
                    ptx.wgmma.wait_group(0)
                    release(stage)
                    for v, of_stage in zip(sums, accumulator, strict=True):
                        v += of_stage

            for tile in ptx.range_(cluster, self.tiles, self.clusters):
                (multiply_and_promote if self.promote else multiply_all)()

                top, left = self.place(tile)
                top += rank * ROWS + group * 64
                scaled = scale(top + own_row) if scale is not None else None
                for panel in range(width // PANEL):
                    buffer = panel % 2 * BUFFER
                    ptx.cp.async_.bulk.wait_group(1, read=True, pred=storing)  # the last but one has left this buffer
                    meeting.sync()
                    for i in range(PANEL // 16):
                        values = [sums[panel * (PANEL // 2) + 8 * i + v] for v in range(8)]
                        if scaled is not None:
                            scaled(values, left + own_column + (panel * PANEL + 16 * i))
                        for h in range(4):
                            ptx.inst.cvt.rn.bf16x2.f32(packed[h], values[2 * h + 1], values[2 * h])
                        ptx.stmatrix(smem=ptx.addr(to[i], buffer), regs=packed)
                    ptx.fence.proxy_async_shared_cta()
                    meeting.sync()
                    ptx.cp.async_.bulk.tensor_2d.store(
                        dst=map_c, src=ptx.addr(source, buffer), coord=(left + panel * PANEL, top), pred=storing
                    )
                    ptx.cp.async_.bulk.commit_group(pred=storing)
            ptx.cp.async_.bulk.wait_group(0, read=True, pred=storing)

        with ptx.if_(warp < 4):
            ptx.setmaxnreg_dec(24)
            with ptx.if_(warp == 0):
                with ptx.elect():
                    produce()
        with ptx.else_():
            ptx.setmaxnreg_inc(240)
            consume()
        ptx.cluster.sync()
        ptx.ret()


def build(M: int, N: int, K: int, *, sms: int = 132, arch: str = "sm_90a") -> Kernel:
    """The kernel for A (M, K) and B (N, K); result C (M, N). M is any size, N and K are multiples of 8.

    sms: CTAs to launch at most, the number of SMs of the GPU (an even number).
    """
    plan = Plan(M, N, K, sms=sms)

    @kernel(arch=arch, in_specs=plan.inputs, out_specs=[plan.output], **plan.launch)
    def gemm_highperf(a, b, c):
        plan.trace(a, b, c)

    return gemm_highperf


check = gemms.checker(build)


def main() -> int:
    return run("C = A * B^T, fast on an H100", check, build, size=(512,) * 3, names=("M", "N", "K"), arch="sm_90a",
               limit=gemms.LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
