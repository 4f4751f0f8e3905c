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

from examples import gemms
from examples.common import main as run
from examples.hopper.roles import arrive_at, directives, elected, wait, warp_number
from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.types import b32, b64, bf16, f32, s32, u32

ROWS, WIDTH, DEPTH = 128, 256, 64
"""The part of C that a CTA makes, and the columns of K in a stage (128 bytes)."""
STAGES = 4
CLUSTER = 2
STAGE_A, STAGE_B = ROWS * DEPTH * 2, WIDTH * DEPTH * 2
CONSUMERS = 2
THREADS = 128 * (1 + CONSUMERS)
PANEL = 64
"""Columns of C that one TMA store writes: 128 bytes."""
BUFFER = 64 * PANEL * 2
GROUP = 8
"""Tiles of M after which the next column of tiles comes: their operands stay in L2."""


def build(M: int, N: int, K: int, *, sms: int = 132, arch: str = "sm_90a") -> Kernel:
    """The kernel for A (M, K) and B (N, K); result C (M, N). M is any size, N and K are multiples of 8.

    sms: CTAs to launch at most, the number of SMs of the GPU (an even number).
    """
    if N % 8 or K % 8:
        raise ValueError(f"N and K must be multiples of 8, as TMA needs rows of 16-byte multiples: N = {N}, K = {K}")
    if sms < CLUSTER or sms % CLUSTER:
        raise ValueError(f"CTAs come in clusters of {CLUSTER}: sms = {sms} is no multiple")
    steps = -(-K // DEPTH)
    down, across = -(-M // (CLUSTER * ROWS)), -(-N // WIDTH)
    tiles = down * across
    clusters = min(tiles, sms // CLUSTER)

    @kernel(
        arch=arch,
        in_specs=[
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(ROWS, DEPTH)),
            Tile(N, K, bf16, Layout.TMA_128B, tma_box=(WIDTH // CLUSTER, DEPTH)),
        ],
        out_specs=[Tile(M, N, bf16, Layout.TMA_128B, tma_box=(64, PANEL))],
        grid=clusters * CLUSTER,
        block=THREADS,
        cluster=CLUSTER,
        raw_directives=directives(THREADS),
    )
    def gemm_highperf(a, b, c):
        map_a, map_b, map_c = a.tma_desc(), b.tma_desc(), c.tma_desc()
        stages_a = smem.wgmma_tile(bf16, (STAGES, ROWS, DEPTH), name="stages_a")
        stages_b = smem.wgmma_tile(bf16, (STAGES, WIDTH, DEPTH), name="stages_b")
        staged_c = smem.alloc(bf16, (CONSUMERS, 2, 64, PANEL), align=1024, name="staged_c")
        full = smem.mbarrier(STAGES, name="full")
        empty = smem.mbarrier(STAGES, name="empty")

        tid = reg.from_(ptx.special.tid.x(), s32)
        warp = warp_number(tid)
        rank = reg.from_(ptx.special.cluster_ctarank(), s32)
        cluster = reg.from_(ptx.special.clusterid.x(), s32)

        with ptx.if_(tid == 0):
            for tensor_map in (map_a, map_b, map_c):
                ptx.inst.prefetch.tensormap(ptx.addr(tensor_map))
            for s in range(STAGES):
                ptx.mbarrier.init(full[s], 1)
                ptx.mbarrier.init(empty[s], CONSUMERS * 4 * CLUSTER)
            ptx.fence.mbarrier_init()
        ptx.cluster.sync()

        def place(tile):
            """(first row, first column) of a cluster's tile: groups of GROUP rows of tiles, down the rows first."""
            group = tile // (GROUP * across)
            within = tile - group * (GROUP * across)
            above = group * GROUP
            height = (down - above).min(GROUP)
            column = within // height
            return (above + within - column * height) * (CLUSTER * ROWS), column * WIDTH

        def produce():
            ring = ptx.pipeline(STAGES, phase=reg.scalar(u32, init=1), cursor=reg.scalar(u32, init=0))
            own_half = rank * (WIDTH // CLUSTER)
            for tile in ptx.range_(cluster, tiles, clusters):
                top, left = place(tile)
                top += rank * ROWS
                left += own_half
                for step in ptx.range_(steps):
                    stage, parity = ring.advance()
                    wait(empty[stage], parity)
                    bar = full[stage]
                    ptx.mbarrier.arrive_expect_tx(bar, STAGE_A + STAGE_B)
                    depth = step * DEPTH
                    ptx.cp.async_.bulk.tensor_2d(dst=stages_a[stage], src=map_a, coord=(depth, top), mbar=bar)
                    half = ptx.addr(stages_b[stage], rank * (STAGE_B // CLUSTER))
                    ptx.cp.async_.bulk.tensor_2d(
                        dst=half, src=map_b, coord=(depth, left), mbar=bar, multicast_mask=(1 << CLUSTER) - 1
                    )

        def consume():
            lane = tid & 31
            group = (warp >> 2) - 1  # which consumer: rows 64*group of the CTA's 128
            ring = ptx.pipeline(STAGES)
            first_a = ptx.wgmma.masked_descriptor(reg.from_(stages_a.name, u32) + group * (64 * DEPTH * 2))
            first_b = ptx.wgmma.masked_descriptor(stages_b)
            accumulator = reg.wgmma_frag(m=64, n=WIDTH, dtype=f32)
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

            released = reg.from_(empty.name, u32)
            previous = reg.scalar(u32)

            def release(stage):
                """This warp is done with a stage of its CTA: lanes 0 and 1 tell the producers of both CTAs."""
                arrive_at(ptx.mad(u32, stage, 8, released), lane, pred=lane < CLUSTER)

            def multiply(stage, *, start):
                """Issue the products of a stage, as a group; the first one of a tile starts the sum."""
                offset = reg.scalar(b64)
                desc_a, desc_b = reg.scalar(b64), reg.scalar(b64)
                ptx.inst.cvt.u64.u32(offset, stage)
                ptx.inst.mad.lo.u64(desc_a, offset, STAGE_A >> 4, first_a)
                ptx.inst.mad.lo.u64(desc_b, offset, STAGE_B >> 4, first_b)
                ptx.wgmma.fence()
                for k in range(0, DEPTH, 16):
                    ptx.wgmma.mma_async(
                        shape=(64, WIDTH, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=accumulator,
                        a=desc_a, a_k_offset=2 * k, b=desc_b, b_k_offset=2 * k, scale_d=not start or k > 0,
                    )  # fmt: skip
                ptx.wgmma.commit_group()

            for tile in ptx.range_(cluster, tiles, clusters):
                stage, parity = ring.advance()
                wait(full[stage], parity)
                multiply(stage, start=True)
                ptx.mov(u32, previous, stage)
                for _ in ptx.range_(1, steps):
                    stage, parity = ring.advance()
                    wait(full[stage], parity)
                    multiply(stage, start=False)
                    ptx.wgmma.wait_group(1)
                    release(previous)
                    ptx.mov(u32, previous, stage)
                ptx.wgmma.wait_group(0)
                release(previous)

                top, left = place(tile)
                top += rank * ROWS + group * 64
                for panel in range(WIDTH // PANEL):
                    buffer = panel % 2 * BUFFER
                    ptx.cp.async_.bulk.wait_group(1, read=True, pred=storing)  # the last but one has left this buffer
                    meeting.sync()
                    for i in range(PANEL // 16):
                        values = [accumulator[panel * (PANEL // 2) + 8 * i + v] for v in range(8)]
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
                with ptx.if_(elected()):
                    produce()
        with ptx.else_():
            ptx.setmaxnreg_inc(240)
            consume()
        ptx.cluster.sync()
        ptx.ret()

    return gemm_highperf


check = gemms.checker(build)


def main() -> int:
    return run("C = A * B^T, fast on an H100", check, build, size=(512,) * 3, names=("M", "N", "K"), arch="sm_90a",
               limit=gemms.LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
