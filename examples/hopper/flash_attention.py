"""Attention, forward: O = softmax(Q * K^T / sqrt(d)) * V without storing the scores; bf16, head dimension 64 or 128.

Q and O are (heads, queries, d), K and V (heads, keys, d), row-major; heads counts those of all batches. Causal: query i
sees keys up to i + keys - queries. The second result is the log-sum-exp of each query's scaled scores, f32.

A CTA makes 128 queries of a head (192 for d = 64), and persists. Warpgroup 0 is the producer, one lane of which starts
all TMA copies; each of the 2 (3) consumer warpgroups owns 64 queries. Keys and values come in blocks of 128, last block
first, through two rings of two stages of their own: a block of K is used one step before the same block of V.

A consumer's step, with block j's scores computed while block j+1's product with V runs:
    S' = Q K[j]^T           group 1
    O += P V[j+1]           group 2; P are the exponentials of block j+1, as bf16 in registers: the accumulator of the
                            first product has the layout of the A operand of the second
    wait for group 1        release K[j]; new row maximum, S' = exp2(S' c - m c), c = log2(e) / sqrt(d); row sums
    wait for group 2        release V[j+1]; P = bf16(S'), O = O exp2((m_old - m) c)
The warpgroups take turns in issuing the two products (named barriers), so that one computes exponentials while another
has the tensor cores. Blocks that the causal limit or the end of the keys cuts run in a loop of their own, with masking;
a row without any key so far has the maximum -inf, for which the exponents use 0.

Barriers: full and empty per stage of K and V; q_full and q_empty, as O goes out through the memory of Q. Each
warpgroup writes the rows that only it has read. What orders what is told in `gemm_highperf`.

    python -m examples.hopper.flash_attention --size 2 300 300 128

Measured: results against float64 on the simulator; with ptxas 13.5 no spills, no advice (C7508, C7510, C7517, C7518),
and the exponentials between the two waits in the machine code. Not yet measured: time on a GPU. Floor per 128 x 128
block on an H100 SM: 16 d clocks for the two products, 1024 for the exponentials (16 per clock), so d = 64 is bound by
both.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import ml_dtypes
import numpy as np

from examples.common import ROUNDED, bf16_sums, directives, relative_error, told
from examples.common import main as run
from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.types import b32, b64, bf16, f32, s32, u32

BLOCK = 128
"""Keys in a block."""
STAGES = 2
PANEL = 64
"""Columns of a tile that lie together in shared memory: 128 bytes."""


def build(
    heads: int, queries: int, keys: int, d: int, *, causal: bool = False, sms: int = 132, arch: str = "sm_90a"
) -> Kernel:
    """The kernel for Q (heads, queries, d), K and V (heads, keys, d); results O like Q, and lse (heads, queries).

    d: 64 or 128. causal: needs keys >= queries. sms: CTAs to launch at most, the number of SMs of the GPU.
    """
    if d not in (64, 128):
        raise ValueError(f"the head dimension is 64 or 128, not {d}")
    if causal and keys < queries:
        raise ValueError(f"causal attention needs keys >= queries: {queries} queries, {keys} keys")
    consumers = 3 if d == 64 else 2
    rows = 64 * consumers
    threads = 128 * (1 + consumers)
    panels = d // PANEL
    panel_q, panel_k = rows * PANEL * 2, BLOCK * PANEL * 2
    tile_q, stage_k = panels * panel_q, panels * panel_k
    across = -(-queries // rows)
    tiles = heads * across
    ctas = min(tiles, sms)
    log2_scale = math.log2(math.e) / math.sqrt(d)

    def tensor(length: int, box: int) -> Tile:
        return Tile(heads, length, d, bf16, Layout.TMA_128B, tma_box=(1, box, PANEL))

    @kernel(
        arch=arch,
        in_specs=[tensor(queries, rows), tensor(keys, BLOCK), tensor(keys, BLOCK)],
        out_specs=[tensor(queries, 64), Tile(heads, queries, f32)],
        grid=ctas,
        block=threads,
        raw_directives=directives(threads),
    )
    def flash_attention(q, k, v, o, lse):
        maps = [t.tma_desc() for t in (q, k, v, o)]
        map_q, map_k, map_v, map_o = maps
        (pointer_lse,) = ptx.global_ptrs(lse)
        shared_q = smem.alloc(bf16, (panels, rows, PANEL), align=1024, name="shared_q")
        shared_k = smem.alloc(bf16, (STAGES, panels, BLOCK, PANEL), align=1024, name="shared_k")
        shared_v = smem.alloc(bf16, (STAGES, panels, BLOCK, PANEL), align=1024, name="shared_v")
        unused = smem.alloc(f32, (1,), name="unused")
        q_full, q_empty = smem.mbarrier(1, name="q_full"), smem.mbarrier(1, name="q_empty")
        pipe_k = ptx.Pipeline(STAGES, bytes=[shared_k], consumers=4 * consumers, name="k")
        pipe_v = ptx.Pipeline(STAGES, bytes=[shared_v], consumers=4 * consumers, name="v")

        tid = reg.from_(ptx.special.tid.x(), s32)
        warp = ptx.warp.broadcast(tid >> 5)
        cta = reg.from_(ptx.special.ctaid.x(), s32)

        with ptx.if_(tid == 0):
            for tensor_map in maps:
                ptx.inst.prefetch.tensormap(ptx.addr(tensor_map))
            ptx.mbarrier.init(q_full[0], 1)
            ptx.mbarrier.init(q_empty[0], consumers)
            pipe_k.init()
            pipe_v.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)

        def place(tile):
            """(head, first query): the queries of a head follow each other; causal: those with most keys come first."""
            if causal:
                late = tile // heads
                return tile - late * heads, ((across - 1) - late) * rows
            head = tile // across
            return head, (tile - head * across) * rows

        def blocks_of(first):
            """Blocks of keys that the queries of a tile see."""
            if not causal:
                return reg.scalar(s32, init=-(-keys // BLOCK))
            seen = (first + (rows + keys - queries)).min(keys)
            return (seen + (BLOCK - 1)) >> 7

        def produce():
            producer_k, producer_v = pipe_k.producer(), pipe_v.producer()
            q_parity = reg.scalar(u32, init=1)

            def load(producer, shared, tensor_map, block, head):
                stage = producer.acquire()
                start = reg.from_(shared.name, u32) + stage.index * stage_k
                for p in range(panels):
                    ptx.cp.async_.bulk.tensor_3d(
                        dst=ptx.addr(start, p * panel_k),
                        src=tensor_map,
                        coord=(p * PANEL, block * BLOCK, head),
                        mbar=stage.full,
                    )

            for tile in ptx.range_(cta, tiles, ctas):
                head, first = place(tile)
                blocks = blocks_of(first)
                load(producer_k, shared_k, map_k, blocks - 1, head)
                ptx.mbarrier.wait(q_empty[0], q_parity)
                q_parity ^= 1
                ptx.mbarrier.arrive_expect_tx(q_full[0], tile_q)
                for p in range(panels):
                    ptx.cp.async_.bulk.tensor_3d(
                        dst=shared_q[p], src=map_q, coord=(p * PANEL, first, head), mbar=q_full[0]
                    )
                for block in ptx.range_(blocks - 2, -1, -1):
                    load(producer_k, shared_k, map_k, block, head)
                    load(producer_v, shared_v, map_v, block + 1, head)
                load(producer_v, shared_v, map_v, reg.scalar(s32, init=0), head)

        def consume():
            lane = tid & 31
            group = (warp >> 2) - 1
            first_lane = lane == 0
            storing = (tid & 127) == 0
            meeting = ptx.named_barrier(1 + group, count=128)
            own_turn = ptx.named_barrier(4 + group, count=256)
            following = ptx.selp(s32, reg.scalar(s32), 4, group + 5, group == consumers - 1)
            next_turn = ptx.named_barrier(following, count=256)
            with ptx.if_(group == consumers - 1):
                next_turn.arrive()  # the first warpgroup's first turn

            consumer_k, consumer_v = pipe_k.consumer(), pipe_v.consumer()
            q_parity = reg.scalar(u32, init=0)
            own_q = reg.from_(shared_q.name, u32) + group * (64 * PANEL * 2)
            first_q = ptx.wgmma.masked_descriptor(own_q)
            first_k = ptx.wgmma.masked_descriptor(shared_k)
            # V is MN-major: 8 keys further is 1024 bytes, 64 columns further a panel.
            first_v = ptx.wgmma.make_descriptor(
                shared_v, leading_byte_offset=panel_k, stride_byte_offset=1024, swizzle=ptx.wgmma.SWIZZLE_128B
            )
            scores = reg.wgmma_frag(m=64, n=BLOCK, dtype=f32)
            weights = [reg.array(b32, 4) for _ in range(BLOCK // 16)]
            output = reg.wgmma_frag(m=64, n=d, dtype=f32)
            highest = [reg.scalar(f32) for _ in range(2)]  # of the thread's two rows, 8 apart
            total = [reg.scalar(f32) for _ in range(2)]
            factor = [reg.scalar(f32) for _ in range(2)]
            limit = [reg.scalar(s32) for _ in range(2)]  # the last key of each row, less the thread's first column

            def stage_of(descriptor, stage):
                offset, moved = reg.scalar(b64), reg.scalar(b64)
                ptx.inst.cvt.u64.u32(offset, stage)
                ptx.inst.mad.lo.u64(moved, offset, stage_k >> 4, descriptor)
                return moved

            def multiply_keys(stage):
                """scores = Q K^T, as a group."""
                descriptor = stage_of(first_k, stage)
                ptx.wgmma.fence()
                for p in range(panels):
                    for step in range(0, PANEL, 16):
                        ptx.wgmma.mma_async(
                            shape=(64, BLOCK, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=scores,
                            a=first_q, a_k_offset=p * panel_q + 2 * step,
                            b=descriptor, b_k_offset=p * panel_k + 2 * step, scale_d=p + step > 0,
                        )  # fmt: skip
                ptx.wgmma.commit_group()

            def multiply_values(stage):
                """output += P V, as a group."""
                descriptor = stage_of(first_v, stage)
                ptx.wgmma.fence()
                for i, fragment in enumerate(weights):
                    ptx.wgmma.mma_async(
                        shape=(64, d, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=output,
                        a=fragment, b=descriptor, b_k_offset=i * 16 * 128, scale_d=True, trans_b=1,
                    )  # fmt: skip
                ptx.wgmma.commit_group()

            def exponentials(block, *, masked):
                """scores = exp2(scores * c - highest * c), with the new maximum; `factor` scales the sums so far."""
                minus_infinity = reg.scalar(f32, init=-math.inf) if masked else None
                for r in range(2):
                    row = [scores[4 * j + 2 * r + c] for j in range(BLOCK // 8) for c in range(2)]
                    if masked:
                        last = limit[r] - block * BLOCK
                        for j in range(BLOCK // 8):
                            for c in range(2):
                                s = row[2 * j + c]
                                ptx.inst.selp.f32(s, s, minus_infinity, last >= 8 * j + c)
                    old = reg.from_(highest[r], f32)
                    for s in row:
                        ptx.inst.max.f32(highest[r], highest[r], s)
                    ptx.warp.reduce_max(highest[r], width=4)
                    offset = highest[r] * -log2_scale
                    if masked:
                        ptx.inst.selp.f32(offset, 0.0, offset, highest[r] == -math.inf)
                    ptx.inst.fma.rn.f32(factor[r], old, log2_scale, offset)
                    ptx.inst.ex2.approx.ftz.f32(factor[r], factor[r])
                    total[r] *= factor[r]
                    for s in row:
                        ptx.inst.fma.rn.f32(s, s, log2_scale, offset)
                        ptx.inst.ex2.approx.ftz.f32(s, s)
                        total[r] += s

            def pack():
                """weights = bf16(scores): columns 16i to 16i+15 are the i-th A operand."""
                for i, fragment in enumerate(weights):
                    for h, w in enumerate(fragment):
                        ptx.inst.cvt.rn.bf16x2.f32(w, scores[8 * i + 2 * h + 1], scores[8 * i + 2 * h])

            def step(block, *, masked):
                k_stage = consumer_k.wait()
                own_turn.sync()
                multiply_keys(k_stage.index)
                v_stage = consumer_v.wait()
                multiply_values(v_stage.index)
                next_turn.arrive()
                ptx.wgmma.wait_group(1)
                consumer_k.release(k_stage, pred=first_lane)
                exponentials(block, masked=masked)
                # The sums are never negative. That ptxas cannot know, so it computes them, and the exponentials, before
                # this instruction and therefore before the wait, while P V runs; else it moves the wait up.
                ptx.inst.st.shared.f32(ptx.addr(unused), total[0], pred=(total[0] < 0.0) & (total[1] < 0.0))
                ptx.wgmma.wait_group(0)
                consumer_v.release(v_stage, pred=first_lane)
                pack()
                for j in range(d // 8):
                    for r in range(2):
                        output[4 * j + 2 * r] *= factor[r]
                        output[4 * j + 2 * r + 1] *= factor[r]

            # stmatrix writes O over Q: chunk c of row r at chunk c ^ (r & 7), see `gemm_highperf`
            quarter = warp & 3
            chunk = (lane >> 4) ^ (lane & 7)
            to = [own_q + ((quarter * 16 + (lane & 15)) * 128 + (chunk << 4)) ^ (32 * i) for i in range(PANEL // 16)]
            packed = reg.array(b32, 4)
            local_row = group * 64 + quarter * 16 + (lane >> 2)
            column = (lane & 3) * 2

            for tile in ptx.range_(cta, tiles, ctas):
                head, first = place(tile)
                blocks = blocks_of(first)
                for v_ in output:
                    ptx.inst.mov.f32(v_, 0.0)
                for r in range(2):
                    ptx.inst.mov.f32(highest[r], -math.inf)
                    ptx.inst.mov.f32(total[r], 0.0)
                    if causal:
                        seen = (first + local_row + (8 * r + keys - queries)).min(keys - 1)
                        ptx.inst.sub.s32(limit[r], seen, column)
                    else:
                        ptx.inst.sub.s32(limit[r], keys - 1, column)
                if causal:  # blocks that all rows of this warpgroup see
                    whole = ((first + group * 64 + (keys - queries + 1)) >> 7).min(keys // BLOCK)
                else:
                    whole = reg.scalar(s32, init=keys // BLOCK)

                ptx.mbarrier.wait(q_full[0], q_parity)
                q_parity ^= 1
                with consumer_k.use(pred=first_lane) as stage:
                    multiply_keys(stage.index)
                    ptx.wgmma.wait_group(0)
                exponentials(blocks - 1, masked=True)
                pack()

                for block in ptx.range_(blocks - 2, whole - 1, -1):
                    step(block, masked=True)
                for block in ptx.range_((blocks - 2).min(whole - 1), -1, -1):
                    step(block, masked=False)

                with consumer_v.use(pred=first_lane) as stage:
                    multiply_values(stage.index)
                    ptx.wgmma.wait_group(0)

                row = first + local_row
                for r in range(2):
                    ptx.warp.reduce_sum(total[r], width=4)
                    ptx.inst.rcp.approx.ftz.f32(factor[r], total[r])
                    # lse = highest / sqrt(d) + ln(total)
                    logarithm = reg.scalar(f32)
                    ptx.inst.lg2.approx.ftz.f32(logarithm, total[r])
                    logarithm *= math.log(2)
                    ptx.inst.fma.rn.f32(logarithm, highest[r], 1 / math.sqrt(d), logarithm)
                    where = pointer_lse + ptx.mul(s32, head * queries + row + 8 * r, 4, mode="wide")
                    ptx.inst.st.global_.f32(
                        ptx.addr(where), logarithm, pred=((lane & 3) == 0) & (row + 8 * r < queries)
                    )

                meeting.sync()  # all warps have finished with Q
                for p in range(panels):
                    for i in range(PANEL // 16):
                        values = [output[p * (PANEL // 2) + 8 * i + n] for n in range(8)]
                        for h in range(4):
                            low, high = values[2 * h] * factor[h & 1], values[2 * h + 1] * factor[h & 1]
                            ptx.inst.cvt.rn.bf16x2.f32(packed[h], high, low)
                        ptx.stmatrix(smem=ptx.addr(to[i], p * panel_q), regs=packed)
                ptx.fence.proxy_async_shared_cta()
                meeting.sync()
                with ptx.if_(storing):
                    for p in range(panels):
                        ptx.cp.async_.bulk.tensor_3d.store(
                            dst=map_o, src=ptx.addr(own_q, p * panel_q), coord=(p * PANEL, first + group * 64, head)
                        )
                    ptx.cp.async_.bulk.commit_group()
                    ptx.cp.async_.bulk.wait_group(0, read=True)
                    ptx.mbarrier.arrive(q_empty[0])
            with ptx.if_(group == 0):
                own_turn.sync()  # the turn that the last warpgroup gave last

        with ptx.if_(warp < 4):
            ptx.setmaxnreg_dec(24 if consumers == 2 else 32)
            with ptx.if_(warp == 0):
                with ptx.elect():
                    produce()
        with ptx.else_():
            ptx.setmaxnreg_inc(240 if consumers == 2 else 160)
            consume()
        ptx.ret()

    return flash_attention


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """O and the log-sum-exp in float64."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[2])
    if causal:
        queries, keys = scores.shape[1:]
        scores[:, np.arange(queries)[:, None] + (keys - queries) < np.arange(keys)] = -np.inf
    highest = scores.max(axis=2, keepdims=True)
    e = np.exp(scores - highest)
    total = e.sum(axis=2, keepdims=True)
    return e / total @ v, (highest + np.log(total))[:, :, 0]


def limit(heads: int, queries: int, keys: int, d: int, *, arch: str = "sm_90a", **_: Any) -> float:
    """The relative error that O may have: P and O are rounded to bf16, the sums of P V err, and those of Q K^T, which are
    exponents of P, err by that part of them, of which few are larger than 8.
    """
    sums = bf16_sums(arch)
    return 2 * ROUNDED + sums.error(keys) + 8 * sums.error(d)


def check(
    heads: int, queries: int, keys: int, d: int, *, causal: bool = False, sms: int = 132, arch: str = "sm_90a"
) -> float:
    """Run it on fresh random data and return the relative error of O (inf if lse is wrong); prints a line."""
    rng = np.random.default_rng()
    q = rng.standard_normal((heads, queries, d)).astype(ml_dtypes.bfloat16)
    k, v = rng.standard_normal((2, heads, keys, d)).astype(ml_dtypes.bfloat16)
    start = time.perf_counter()
    o, lse = build(heads, queries, keys, d, causal=causal, sms=sms, arch=arch)(q, k, v)
    seconds = time.perf_counter() - start
    want, want_lse = reference(q, k, v, causal=causal)
    error, error_lse = relative_error(o, want), relative_error(lse, want_lse)
    allowed = told(error, limit(heads, queries, keys, d, arch=arch), bf16_sums(arch), arch)
    print(
        f"flash_attention {heads} x {queries} x {keys} x {d}{' causal' if causal else ''}  {allowed}, "
        f"lse {error_lse:.1e}   {seconds:.2f} s"
    )
    return error if error_lse <= 1e-5 else math.inf


def main() -> int:
    return run("attention, forward", check, build, size=(2, 300, 300, 128), names=("HEADS", "QUERIES", "KEYS", "D"),
               arch="sm_90a", limit=limit, flags=("causal",))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
