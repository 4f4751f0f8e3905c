"""C = A * B^T on tensor memory, by one SM (`gemm_1sm`) or a pair of them (`gemm_2sm`); bf16, f32 accumulation (sm_100a).

A (M, K), B (N, K) and C (M, N) are row-major. A CTA makes 128 x 256 of C: as tile of its own, or as half of a 256 x 256
tile, whose B the two CTAs of a cluster share: each loads half of it, and `mma.cta_group::2` reads both halves. CTAs go on
with the next tile until there is none left. Of the 192 threads of a CTA,

    warps 0-3   turn the sums into C: tensor memory to registers, bf16, shared memory, TMA. Warp w reaches lanes 32w to
                32w+31, so a thread has a row.
    warp 4      one lane starts the TMA copies of 64 columns of K per stage: 16 KB of A, and 32 KB of B (a pair: 16).
    warp 5      one lane issues all products, in a pair only the first CTA's. The warp also owns the tensor memory: two
                accumulators of 256 columns, so that the sums of one tile are read while the next are made.

Barriers; in a pair, those marked * are the first CTA's, and the other CTA arrives there:
    full*       per stage, 1 arrival, which announces the bytes of both CTAs
    empty       per stage, 1 arrival by `commit`, in both CTAs: the products that read the stage are complete. (An ordinary
                arrival after issuing them would say nothing about that.)
    sums_full   per accumulator, 1 arrival by `commit`, in both CTAs
    sums_empty* per accumulator, an arrival of each of the 4 (8) reading warps

What orders what:
- `fence::after_thread_sync` follows every wait that lets a thread use tensor memory another thread has used or filled;
  `fence::before_thread_sync` stands before the arrival that gives the accumulator back. Commits imply it.
- C passes through shared memory as in `examples.hopper.gemm_highperf`: proxy fence by every writer, barrier, store.
- Tensor memory is freed after a last barrier of all (a pair: of the cluster), when all have read it. Before that, the
  lane that copies waits for every stage once more: no commit of the other CTA is under way to a CTA that has ended.

    python -m examples.blackwell.gemm_1sm --size 512
    python -m examples.blackwell.gemm_2sm --size 512

Measured: results against float64 on the simulator, assembled by ptxas 13.5 without spills. Not yet measured: anything on
a GPU. Floor: 128 x 256 x 16 takes 128 clocks of an SM; shared memory feeds that at full rate only in a pair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.reg import Reg
from pyptx.types import b32, b64, bf16, s32, u32

ROWS, WIDTH, DEPTH = 128, 256, 64
"""The part of C that a CTA makes, and the columns of K in a stage (128 bytes)."""
THREADS = 192
PANEL = 64
"""Columns of C that one TMA store writes: 128 bytes."""
BUFFER = ROWS * PANEL * 2
GROUP = 8
"""Tiles of M after which the next column of tiles comes: their operands stay in L2."""
RowOfB = Callable[[Reg, Reg], Reg]


def plan(
    M: int, N: int, K: int, *, pair: bool, sms: int, rows_b: int | None = None, row_b: RowOfB | None = None
) -> tuple[dict[str, Any], Callable[[Any, Any, Any], None]]:
    """The options of `@kernel`, and the function that traces the kernel for A, B and C.

    `grouped_gemm` gives `rows_b`, the rows of B if it holds several matrices of N rows, and `row_b(top, left)`, the row
    of B for the column `left` of C in the tile that starts at row `top`.
    """
    ctas = 2 if pair else 1
    if N % 8 or K % 8:
        raise ValueError(f"N and K must be multiples of 8, as TMA needs rows of 16-byte multiples: N = {N}, K = {K}")
    if sms < ctas or sms % ctas:
        raise ValueError(f"CTAs come in pairs: sms = {sms} is not a multiple of 2")
    stages = 6 if pair else 4
    stage_a, stage_b = ROWS * DEPTH * 2, WIDTH // ctas * DEPTH * 2
    steps = -(-K // DEPTH)
    down, across = -(-M // (ctas * ROWS)), -(-N // WIDTH)
    tiles = down * across
    teams = min(tiles, sms // ctas)

    def trace(a: Any, b: Any, c: Any) -> None:
        map_a, map_b, map_c = a.tma_desc(), b.tma_desc(), c.tma_desc()
        stages_a = smem.alloc(bf16, (stages, ROWS, DEPTH), align=1024, name="stages_a")
        stages_b = smem.alloc(bf16, (stages, WIDTH // ctas, DEPTH), align=1024, name="stages_b")
        staged_c = smem.alloc(bf16, (2, ROWS, PANEL), align=1024, name="staged_c")
        both = 3 if pair else None
        tiles_pipe = ptx.Pipeline(
            stages, bytes=ctas * (stage_a + stage_b), emptied_by="tcgen05", scope="cluster" if pair else "cta",
            cta_group=ctas, multicast_mask=both, name="tiles",
        )  # fmt: skip
        sums_pipe = ptx.Pipeline(
            2, filled_by="tcgen05", consumers=4 * ctas, scope="cluster" if pair else "cta", cta_group=ctas,
            multicast_mask=both, name="sums",
        )  # fmt: skip
        slot = smem.alloc(b32, (1,), name="slot")

        tid = reg.from_(ptx.special.tid.x(), s32)
        warp = ptx.warp.broadcast(tid >> 5)
        if pair:
            rank = reg.from_(ptx.special.cluster_ctarank(), s32)
            team = reg.from_(ptx.special.clusterid.x(), s32)
        else:
            rank, team = None, reg.from_(ptx.special.ctaid.x(), s32)

        def all_meet():
            ptx.tcgen05.fence_before_thread_sync()
            if pair:
                ptx.cluster.sync()
            else:
                ptx.bar.sync(0)
            ptx.tcgen05.fence_after_thread_sync()

        with ptx.if_(tid == 0):
            for tensor_map in (map_a, map_b, map_c):
                ptx.inst.prefetch.tensormap(ptx.addr(tensor_map))
            tiles_pipe.init()
            sums_pipe.init()
            ptx.fence.mbarrier_init()
        if pair:
            ptx.cluster.sync()  # the other CTA has begun: tensor memory is allocated in both
        with ptx.if_(warp == 5):
            ptx.tcgen05.alloc(slot, 512, cta_group=ctas)
            ptx.tcgen05.relinquish_alloc_permit(cta_group=ctas)
        all_meet()
        sums = smem.load(b32, slot)

        def place(tile):
            """(first row, first column) of this CTA's part: groups of GROUP rows of tiles, down the rows first."""
            group = tile // (GROUP * across)
            within = tile - group * (GROUP * across)
            above = group * GROUP
            height = (down - above).min(GROUP)
            column = within // height
            top = (above + within - column * height) * (ctas * ROWS)
            if rank is not None:
                top += rank * ROWS
            return top, column * WIDTH

        def copy():
            producer = tiles_pipe.producer()
            first_cta = rank == 0 if rank is not None else None
            for tile in ptx.range_(team, tiles, teams):
                top, left = place(tile)
                first_b = row_b(top, left) if row_b is not None else left
                if rank is not None:
                    first_b += rank * (WIDTH // ctas)
                for step in ptx.range_(steps):
                    stage = producer.acquire(announce=first_cta)
                    bar: Any = ptx.cluster.map_shared_u32(stage.full, 0) if pair else stage.full
                    for stages_x, tensor_map, row in ((stages_a, map_a, top), (stages_b, map_b, first_b)):
                        ptx.cp.async_.bulk.tensor_2d(
                            dst=stages_x[stage.index],
                            src=tensor_map,
                            coord=(step * DEPTH, row),
                            mbar=bar,
                            cta_group=ctas,
                        )
            producer.drain()

        def multiply():
            consumer, producer = tiles_pipe.consumer(), sums_pipe.producer()
            first_a = ptx.tcgen05.masked_descriptor(stages_a)
            first_b = ptx.tcgen05.masked_descriptor(stages_b)
            instruction = reg.from_(
                ptx.tcgen05.make_instr_desc_f16bf16_f32(m=ctas * ROWS, n=WIDTH, ab_dtype="bf16"), b32
            )
            for _ in ptx.range_(team, tiles, teams):
                half = producer.acquire()
                ptx.tcgen05.fence_after_thread_sync()
                target = ptx.mad(u32, half.index, WIDTH, sums)
                for step in ptx.range_(steps):
                    stage = consumer.wait()
                    ptx.tcgen05.fence_after_thread_sync()
                    offset, matrix_a, matrix_b = reg.scalar(b64), reg.scalar(b64), reg.scalar(b64)
                    ptx.inst.cvt.u64.u32(offset, stage.index)
                    ptx.inst.mad.lo.u64(matrix_a, offset, stage_a >> 4, first_a)
                    ptx.inst.mad.lo.u64(matrix_b, offset, stage_b >> 4, first_b)
                    for k in range(0, DEPTH, 16):  # 32 bytes further in the swizzled rows
                        add = step > 0 if k == 0 else True  # the first product of a tile overwrites
                        ptx.tcgen05.mma(
                            target, matrix_a + 2 * k // 16, matrix_b + 2 * k // 16, instruction, cta_group=ctas,
                            kind="f16", enable_input_d=add,
                        )  # fmt: skip
                    consumer.release(stage)
                producer.commit(half)

        def store():
            lane = tid & 31
            consumer = sums_pipe.consumer()
            meeting = ptx.named_barrier(1, count=128)
            storing = tid == 0
            own_sums = sums + (warp << 21)  # lane 32*warp
            row = reg.from_(staged_c.name, u32) + tid * (PANEL * 2)
            chunks = [row + ((tid & 7 ^ i) << 4) for i in range(8)]  # chunk i of row r lies at chunk i ^ (r & 7)
            values = reg.array(b32, PANEL)
            packed = reg.array(b32, 4)
            for tile in ptx.range_(team, tiles, teams):
                top, left = place(tile)
                half = consumer.wait()
                ptx.tcgen05.fence_after_thread_sync()
                source = ptx.mad(u32, half.index, WIDTH, own_sums)
                for panel in range(WIDTH // PANEL):
                    ptx.tcgen05.ld(values, source + panel * PANEL, shape="32x32b", count=PANEL)
                    ptx.tcgen05.wait_ld()
                    if panel == WIDTH // PANEL - 1:  # all is read: the next tile but one may come
                        ptx.tcgen05.fence_before_thread_sync()
                        consumer.release(half, cta=0 if pair else None, pred=lane == 0)
                    buffer = panel % 2 * BUFFER
                    ptx.cp.async_.bulk.wait_group(1, read=True, pred=storing)  # the last but one has left this buffer
                    meeting.sync()
                    for i, chunk in enumerate(chunks):
                        for j, word in enumerate(packed):
                            ptx.inst.cvt.rn.bf16x2.f32(word, values[8 * i + 2 * j + 1], values[8 * i + 2 * j])
                        ptx.inst.st.shared.v4.b32(ptx.addr(chunk, buffer), packed)
                    ptx.fence.proxy_async_shared_cta()
                    meeting.sync()
                    ptx.cp.async_.bulk.tensor_2d.store(
                        dst=map_c, src=staged_c[panel % 2], coord=(left + panel * PANEL, top), pred=storing
                    )
                    ptx.cp.async_.bulk.commit_group(pred=storing)
            ptx.cp.async_.bulk.wait_group(0, read=True, pred=storing)

        with ptx.if_(warp < 4):
            store()
        with ptx.if_(warp == 4):
            with ptx.elect():
                copy()
        with ptx.if_((warp == 5) & (rank == 0) if rank is not None else warp == 5):
            with ptx.elect():
                multiply()
        all_meet()
        with ptx.if_(warp == 5):
            ptx.bar.warp_sync()  # the elected lane is back
            ptx.tcgen05.dealloc(sums, 512, cta_group=ctas)
        ptx.ret()

    options: dict[str, Any] = {
        "in_specs": [
            Tile(M, K, bf16, Layout.TMA_128B, tma_box=(ROWS, DEPTH)),
            Tile(rows_b or N, K, bf16, Layout.TMA_128B, tma_box=(WIDTH // ctas, DEPTH)),
        ],
        "out_specs": [Tile(M, N, bf16, Layout.TMA_128B, tma_box=(ROWS, PANEL))],
        "grid": teams * ctas,
        "block": THREADS,
        "cluster": ctas,
        "reqntid": (THREADS,),
    }
    return options, trace


def build(M: int, N: int, K: int, *, pair: bool, sms: int = 148, arch: str = "sm_100a") -> Kernel:
    """The kernel for A (M, K) and B (N, K); result C (M, N). M is any size, N and K are multiples of 8.

    pair: two CTAs share a tile. sms: CTAs to launch at most, the number of SMs of the GPU.
    """
    options, trace = plan(M, N, K, pair=pair, sms=sms)

    def gemm_1sm(a, b, c):
        trace(a, b, c)

    def gemm_2sm(a, b, c):
        trace(a, b, c)

    return kernel(arch=arch, **options)(gemm_2sm if pair else gemm_1sm)
