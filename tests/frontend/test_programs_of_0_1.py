"""Programs as users of pyptx 0.1 write them, from its documentation alone: each is assembled by ptxas, runs on the simulator
with all checks, and is compared with NumPy or torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyptx
from pyptx import Layout, Tile, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.smem import apply_swizzle
from pyptx.types import b16, b32, b64, bf16, f16, f32, pred, s32, tf32, u8, u16, u32, u64
from pyptx.wgmma_layout import GmmaLayout, LayoutType, Major, layout_for_a, layout_for_b, pick_gmma_layout
from tests.frontend.tracing import assembled

rng = np.random.default_rng()


def checked(run: Kernel, *arrays: Any, grid: Any, block: Any, **options: Any) -> None:
    """Run on the simulator: no rule is broken."""
    report = pyptx.simulate(run, *arrays, grid=grid, block=block, check=True, seed=int(rng.integers(1000)), **options)
    assert not [f for f in report.findings if f.severity == "error"], report.findings


def test_saxpy_with_raw_parameters() -> None:
    @kernel(
        arch="sm_80",
        version="8.5",
        raw_params=[
            ("u32", "n"),
            ("f32", "a"),
            ("u64.ptr.global.palign4", "x"),
            ("u64.ptr.global.align8.palign4", "y"),
        ],
        reqntid=(128,),
    )
    def saxpy():
        n, a = ptx.param(u32, "n"), ptx.param(f32, "a", reg.scalar(f32))
        x, y = ptx.cvta.to_global(ptx.param(u64, "x")), ptx.cvta.to_global(ptx.param(u64, "y"), reg.scalar(u64))
        i = reg.scalar(u32)
        ptx.inst.mad.lo.u32(i, ptx.special.ctaid_x(), ptx.special.ntid.x(), ptx.special.tid.x())
        with ptx.if_(i < n):
            px, py = x + i * 4, y + i * 4
            v, w = reg.scalar(f32), reg.scalar(f32)
            ptx.ld(f32, v, ptx.addr(px), cache="ca")
            ptx.ld(f32, w, ptx.addr(py), space="global")
            ptx.inst.fma.rn.f32(w, a, v, w)
            ptx.st(f32, ptx.addr(py), w, space="global", cache="wb")
        ptx.ret()

    text = assembled(saxpy)
    assert ".version 8.5" in text
    assert ".reqntid 128" in text
    x, y = rng.standard_normal((2, 1000)).astype(np.float32)
    want = 2.5 * x + y
    checked(saxpy, 1000, 2.5, x, y, grid=8, block=128)
    assert np.allclose(y, want, rtol=1e-6, atol=1e-6)


def test_column_sums_in_extern_shared_memory() -> None:
    @kernel(
        arch="sm_80", in_specs=[Tile("R", 64, f32)], out_specs=[Tile(64, f32)], grid=(1,), block=(64, 4, 1), smem=1024,
        extern_smem="scratch", raw_directives=[("maxntid", (64, 4, 1)), (".minnctapersm", (1,))],
    )  # fmt: skip
    def column_sums(x, out, *, R=None):
        px, po = ptx.global_ptrs(x, out)
        column, part = ptx.special.tid.x(), ptx.special.tid.y()
        rows = reg.scalar(u32, init=R)
        rows -= part
        rows += 3
        rows >>= 2
        px += (part * 64 + column) * 4
        total = reg.scalar(f32, init=0.0)

        def add_row():
            v = reg.scalar(f32)
            ptx.inst.ld.global_.f32(v, ptx.addr(px))
            ptx.inst.add.f32(total, total, v)
            ptx.inst.add.s64(px, px, 4 * 64 * 4)

        ptx.kloop(rows, unroll=4, body=add_row, loop_label="rows")
        base = smem.base("scratch")
        mine = base + (part * 64 + column) * 4
        smem.store(f32, mine, total)
        ptx.bar.sync(0, 256)
        with ptx.if_(part == 0):
            for p in range(1, 4):
                ptx.inst.add.f32(total, total, smem.load(f32, ptx.addr(base + column * 4, p * 256)))
            ptx.inst.st.global_.f32(ptx.addr(po + column * 4), total)

    assert "rows:" in assembled(column_sums, R=37)
    for rows in (1, 4, 37):
        x = rng.standard_normal((rows, 64)).astype(np.float32)
        assert np.allclose(column_sums(x), x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-5)


def test_the_scalar_wrappers() -> None:
    @kernel(in_specs=[Tile("N", s32), Tile("N", f32)], out_specs=[Tile("N", 12, s32), Tile("N", f16)], grid=1, block=32)
    def wrappers(a, x, out, half):
        pa, px, po, ph = ptx.global_ptrs(a, x, out, half)
        tid = ptx.special.tid.x()
        v, f = reg.scalar(s32), reg.scalar(f32)
        ptx.ld(s32, v, ptx.addr(pa + tid * 4))
        ptx.ld(f32, f, ptx.addr(px + tid * 4))
        p, q = reg.scalar(pred), reg.scalar(pred)
        ptx.setp("lt", s32, p, v, 0)
        ptx.setp("ge", s32, q, v, 100, pred=p, pred_negate=True)
        three = ptx.mov(s32, reg.scalar(s32), 3)
        wide = ptx.mul(s32, reg.alloc(b64), v, three, mode="wide")
        low = reg.scalar(s32)
        ptx.inst.cvt.u32.u64(low, wide)
        values = [
            ptx.add(s32, v, 7), ptx.sub(s32, reg.scalar(s32), v, three), ptx.mul(s32, v, three), low,
            ptx.mad(s32, reg.scalar(s32), v, three, 5), ptx.mad(s32, v, three, v, mode="lo"),
            ptx.shl(b32, v, 2), ptx.shr(s32, v, 3), ptx.and_(b32, v, 0xFF), ptx.or_(b32, v, 0x100), ptx.xor_(b32, v, -1),
            ptx.selp(s32, reg.scalar(s32), 1, ptx.not_(b32, v), p),
        ]  # fmt: skip
        for i, value in enumerate(values):
            ptx.st(s32, ptx.addr(po + tid * 48, 4 * i), value)
        h = reg.scalar(f16)
        ptx.cvt(f16, f32, h, f, rounding="rz", sat=True)
        ptx.st(b16, ptx.addr(ph + tid * 2), h)

    assembled(wrappers, N=32)
    v = rng.integers(-1000, 1000, 32, dtype=np.int32)
    x = rng.uniform(-0.5, 1.5, 32).astype(np.float32)
    got, half = wrappers(v, x)
    want = [
        v + 7,
        v - 3,
        v * 3,
        v * 3,
        v * 3 + 5,
        v * 3 + v,
        v << 2,
        v >> 3,
        v & 255,
        v | 256,
        ~v,
        np.where(v < 0, 1, ~v),
    ]
    assert np.array_equal(got, np.stack(want, 1))
    clipped = np.clip(x, 0, 1).astype(np.float64)
    down = clipped.astype(np.float16)
    down = np.where(down.astype(np.float64) > clipped, np.nextafter(down, np.float16(0)), down)
    assert np.array_equal(half, down)


def test_pipes_intrinsics_and_raw_text() -> None:
    @pyptx.intrinsic
    def mixed(value: Any, rounds: int) -> Any:
        for _ in range(rounds):
            ptx.pipe(value).shr.u32(reg.scalar(u32), 3).xor.b32(value, value)
            ptx.inst._raw_emit(f"mul.lo.u32 {value.name}, {value.name}, 2654435761;")
        return value

    @kernel(raw_params=[("u64", "target")])
    def hashed():
        with ptx.scope():
            inner = reg.scalar(u32, init=5)
            ptx.inst.add.u32(inner, inner, 1)
        with ptx.expr():
            tid = reg.from_(ptx.sreg("%tid.x"), u32)
        ptx.file_(1, "kernel.py")
        ptx.loc(1, 12, 4)
        ptx.pragma("nounroll")
        assert mixed(tid, 2) is tid
        ptx._emit("add", [".u32"], [tid, tid, 1])
        target = ptx.param(u64, "target")
        ptx.raw(f"""
            .reg .u32 %thread;
            mov.u32 %thread, %tid.x;
            mad.wide.u32 {target.name}, %thread, 4, {target.name};
        """)
        ptx.inst.st.global_.u32(ptx.addr(target), tid)

    text = assembled(hashed)
    assert text.index("// BEGIN mixed(%r") < text.index("// END mixed")
    assert mixed.__is_ptx_intrinsic__ is True  # type: ignore[attr-defined]
    out = np.zeros(32, np.uint32)
    checked(hashed, out, grid=1, block=32)
    want = np.arange(32, dtype=np.uint64)
    for _ in range(2):
        want = ((want >> 3) ^ want) * 2654435761 % 2**32
    assert np.array_equal(out, (want + 1) % 2**32)


def test_register_files_and_special_registers() -> None:
    @kernel(in_specs=[Tile(4, 64, f32)], out_specs=[Tile(4, 64, f32), Tile(4, 64, u32)], grid=2, block=128)
    def turned(x, y, who):
        px, py, pw = ptx.global_ptrs(x, y, who)
        values, sums = reg.alloc_array(f32, 4), reg.array(f32, 4, name="%sum")
        warp, lane = ptx.special.warpid(), ptx.special.laneid()
        inside = reg.alloc(u32)
        ptx.inst.mad.lo.u32(inside, warp, 32, lane)
        i = ptx.special.ctaid.x() * ptx.special.ntid.x() + inside
        ptx.inst.mov.u32(reg.scalar(u32), ptx.special.clock())
        row, column = i >> 6, i & 63
        with ptx.if_(row == 0):
            for r in range(4):
                ptx.inst.ld.global_.f32(values[r], ptx.addr(px + column * 4, 256 * r))
                ptx.inst.mov.f32(sums[r], 0.0)
            for target, source in zip(sums.regs(), values.hw_order(reverse=True), strict=True):
                ptx.inst.add.f32(target, target, source)
            for r in range(len(sums)):
                ptx.inst.st.global_.f32(ptx.addr(py + column * 4, 256 * r), sums[r])
        last = i.max(5)
        ptx.inst.st.global_.u32(ptx.addr(pw + i * 4), last + ptx.special.nctaid.x() * 1000)

    text = assembled(turned)
    assert "%afarr0_<4>" in text
    assert "%sum<4>" in text
    x = rng.standard_normal((4, 64)).astype(np.float32)
    y, who = turned(x)
    assert np.array_equal(y, x[::-1])
    assert np.array_equal(who.ravel(), np.maximum(np.arange(256), 5) + 2000)


def test_a_ring_of_cp_async() -> None:
    stages, width = 3, 64

    @kernel(arch="sm_80", in_specs=[Tile("R", width, f32)], out_specs=[Tile(width, f32)], grid=1, block=width // 4)
    def sums(x, out, *, R=None):
        px, po = ptx.global_ptrs(x, out)
        tid = ptx.special.tid.x()
        ring = smem.alloc(f32, (stages, width), name="ring")
        base = reg.from_(ring.name, u32)
        total = reg.array(f32, 4)
        for t in total:
            ptx.inst.mov.f32(t, 0.0)
        for s in range(stages - 1):
            ptx.cp.async_.cg(ptx.addr(base + tid * 16, s * width * 4), ptx.addr(px + tid * 16, s * width * 4), 16)
            ptx.cp.async_.commit_group()
        state = ptx.pipeline(stages, cursor=reg.scalar(u32, init=0), phase=reg.scalar(u32, init=0))
        assert state.n_stages == stages
        for i in ptx.range_(0, R):
            ptx.cp.async_.wait_group(stages - 2)
            ptx.bar.sync(0)
            stage, _ = state.advance()
            ahead = i + (stages - 1)
            with ptx.if_(ahead < R):
                slot = reg.scalar(u32)
                ptx.inst.rem.u32(slot, ahead, stages)
                for part in range(2):
                    ptx.cp.async_.ca(
                        ptx.addr(base + slot * (width * 4) + tid * 16, 8 * part),
                        ptx.addr(px + ahead * (width * 4) + tid * 16, 8 * part),
                        8,
                    )
            ptx.cp.async_.commit_group()
            v = reg.array(f32, 4)
            ptx.inst.ld.shared.v4.f32(v, ptx.addr(base + stage * (width * 4) + tid * 16))
            for t, value in zip(total, v, strict=True):
                ptx.inst.add.f32(t, t, value)
        ptx.cp.async_.wait_all()
        ptx.inst.st.global_.v4.f32(ptx.addr(po + tid * 16), total)

    assembled(sums, R=7)
    for rows in (2, 3, 7):
        x = rng.standard_normal((rows, width)).astype(np.float32)
        assert np.allclose(sums(x), x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-5)


def test_ldmatrix_mma_stmatrix() -> None:
    @kernel(
        arch="sm_90", in_specs=[Tile(16, 16, bf16), Tile(16, 8, bf16)], out_specs=[Tile(16, 8, f32), Tile(16, 16, bf16)],
        grid=1, block=32,
    )  # fmt: skip
    def product(a, b, out, turned):
        pa, pb, po, pt = ptx.global_ptrs(a, b, out, turned)
        lane = ptx.special.laneid()
        sa, sb, st = (
            smem.alloc(bf16, (16, 16)),
            smem.alloc(bf16, (16, 8), None, 128),
            smem.alloc(b16, (16, 16), align=16),
        )
        v = reg.array(b32, 4)
        ptx.inst.ld.global_.v4.b32(v, ptx.addr(pa + lane * 16))
        ptx.inst.st.shared.v4.b32(ptx.addr(reg.from_(sa.name, u32) + lane * 16), v)
        w = reg.array(b32, 2)
        ptx.inst.ld.global_.v2.b32(w, ptx.addr(pb + lane * 8))
        ptx.inst.st.shared.v2.b32(ptx.addr(reg.from_(sb.name, u32) + lane * 8), w)
        ptx.bar.sync()
        fa, fb, acc = reg.array(b32, 4), reg.array(b32, 2), reg.array(f32, 4)
        for f in acc:
            ptx.inst.mov.f32(f, 0.0)
        rows = reg.from_(sa.name, u32) + (lane & 15) * 32 + (lane >> 4) * 16
        ptx.ldmatrix(dst=fa, src=ptx.addr(rows), layout="x4")
        ptx.ldmatrix(dst=fb.regs(), src=reg.from_(sb.name, u32) + (lane & 15) * 16, layout="x2", trans=True)
        ptx.mma.sync(
            shape="m16n8k16", dtype_d=f32, dtype_a=bf16, dtype_b=bf16, dtype_c=f32, d=acc, a=fa, b=fb, c=acc,
            a_layout="row", b_layout="col",
        )  # fmt: skip
        row, column = lane >> 2, (lane & 3) * 2
        for half in range(2):
            for i in range(2):
                ptx.inst.st.global_.f32(ptx.addr(po + ((row + 8 * half) * 8 + column + i) * 4), acc[2 * half + i])
        target = reg.from_(st.name, u32) + (lane & 7) * 32 + ((lane >> 3) & 1) * 256 + (lane >> 4) * 16
        # matrices 0 to 3 of A go back as they came
        order = [fa[0], fa[1], fa[2], fa[3]]
        ptx.stmatrix(smem=ptx.addr(target), regs=order, layout="x4", trans=False, shape="m8n8")
        ptx.bar.sync(0)
        ptx.inst.ld.shared.v4.b32(v, ptx.addr(reg.from_(st.name, u32) + lane * 16))
        ptx.inst.st.global_.v4.b32(ptx.addr(pt + lane * 16), v)

    assembled(product)
    a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((16, 16), (16, 8)))
    got, back = product(a, b)
    assert np.allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)
    assert np.array_equal(back, a)


BOXES = {1: (64,), 2: (4, 32), 3: (2, 3, 16), 4: (2, 1, 3, 8), 5: (1, 2, 1, 2, 8)}


@pytest.mark.parametrize("rank", BOXES)
@pytest.mark.parametrize("spelling", ["tensor", "tile"])
def test_tensor_copies_of_every_rank(rank: int, spelling: str) -> None:
    box = BOXES[rank]
    size = int(np.prod(box))
    shape = (*(2 * n for n in box[:-1]), box[-1])
    tile = Tile(*shape, f32, tma_box=box)

    @kernel(in_specs=[tile], out_specs=[tile], grid=1, block=32)
    def through(x, y):
        buffer, bar = smem.alloc(f32, (size,), align=128), smem.mbarrier(1)
        tid = ptx.special.tid.x()
        first = tid == 0
        with ptx.if_(first):
            ptx.mbarrier.init(bar[0], 1)
            ptx.fence.mbarrier_init()
            ptx.fence.proxy_async()
        ptx.bar.sync(0)
        bulk = ptx.cp.async_bulk
        parity = 0
        for index in np.ndindex(*(s // b for s, b in zip(shape, box, strict=True))):
            corner = tuple(i * b for i, b in zip(index, box, strict=True))[::-1]
            with ptx.if_(first):
                ptx.mbarrier.arrive_expect_tx(bar[0], 4 * size)
                if spelling == "tensor":
                    getattr(bulk, f"tensor_{rank}d")(dst=buffer, src=x, coord=corner, mbar=bar[0])
                else:
                    copy = getattr(bulk.tensor, f"tile_{rank}d")
                    policy = reg.scalar(b64)
                    ptx.inst.createpolicy.fractional.L2__evict_last.b64(policy, 1.0)
                    copy(buffer, x, corner, mbar=bar[0], cache_hint=policy)
            ptx.mbarrier.wait(bar[0], parity)
            parity ^= 1
            with ptx.if_(first):
                if spelling == "tensor":
                    getattr(bulk, f"tensor_{rank}d").store(dst=y, src=buffer, coord=corner)
                else:
                    getattr(bulk.tensor, f"store_{rank}d")(y, buffer, corner)
                bulk.commit_group()
                bulk.wait_group(0, read=False)
            ptx.bar.sync(0)

    assembled(through)
    x = rng.standard_normal(shape).astype(np.float32)
    assert np.array_equal(through(x), x)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_im2col_copies_are_assembled(rank: int) -> None:
    @kernel(in_specs=[Tile(*([8] * rank), f16)], out_specs=[])
    def filtered(x):
        tile, bar = smem.alloc(f16, (8, 8), align=128), smem.mbarrier(1)
        ptx.mbarrier.init(bar[0], 1)
        copy = getattr(ptx.cp.async_.bulk.tensor, f"im2col_{rank}d")
        copy(tile, x, (0,) * rank, mbar=bar[0], offsets=(1,) * (rank - 2))

    assert f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col" in assembled(filtered)


def test_a_ring_of_barriers_in_a_cluster() -> None:
    @kernel(
        arch="sm_90a", in_specs=[Tile(2, 32, u32)], out_specs=[Tile(2, 32, u32)], grid=2, block=32, cluster=(2, 1, 1)
    )
    def swapped(x, y):
        px, py = ptx.global_ptrs(x, y)
        box, bars = smem.alloc(u32, (2, 32)), smem.mbarrier(2)
        ring = ptx.mbarrier.array(reg.from_(bars.name, u32), 0, 2)
        tid = ptx.special.tid.x()
        with ptx.if_(tid == 0):
            ring.init_all(1)
            ptx.fence.mbarrier_init()
        ptx.cluster.arrive(aligned=False)
        ptx.cluster.wait(aligned=False)
        zero = ptx.cluster.rank(0)
        other = ptx.selp(u32, reg.scalar(u32), 1, 0, zero)
        mine = ptx.special.ctaid.x()
        v = reg.scalar(u32)
        ptx.inst.ld.global_.u32(v, ptx.addr(px + (mine * 32 + tid) * 4))
        remote = ptx.cluster.map_shared_u32(reg.from_(box.name, u32) + tid * 4, other)
        ptx.inst.st.shared__cluster.u32(ptx.addr(remote, 128), v)
        ptx.bar.sync(0)
        with ptx.if_(tid == 0):
            ptx.inst.fence.acq_rel.cluster()
            ring[1].arrive_remote(other)
        assert ring[1].byte_offset == 8
        stage = reg.scalar(u32, init=1)
        again, done = "wait_for_it", reg.scalar(pred)
        ptx.label(again)
        ptx.inst.mbarrier.try_wait.parity.acquire.cluster.shared__cta.b64(done, ptx.addr(ring.at(stage).addr_reg()), 0)
        ptx.bra(again, pred=~done)
        ptx.inst.ld.shared.u32(v, ptx.addr(reg.from_(box.name, u32) + tid * 4, 128))
        ptx.inst.st.global_.u32(ptx.addr(py + (mine * 32 + tid) * 4), v)
        ptx.cluster.sync(aligned=True)

    assembled(swapped)
    x = rng.integers(0, 2**32, (2, 32), dtype=np.uint32)
    assert np.array_equal(swapped(x), x[::-1])


def test_rank_3_tma_with_a_multicast() -> None:
    shape = Tile("M", 128, bf16, Layout.TMA_128B, tma_box=(64, 64), tma_rank=3)
    out = Tile("M", 128, bf16, Layout.ROW, tma_box=(64, 64), tma_rank=3)

    @kernel(arch="sm_90a", in_specs=[shape], out_specs=[out], grid=lambda M: (2, M // 64), block=128, cluster=(2, 1, 1))
    def unswizzled(x, y):
        tile, back = smem.wgmma_tile(bf16, (64, 64), major="K"), smem.alloc(bf16, (64, 64), align=128)
        bar = smem.mbarrier(1, name="full")
        tid, row = ptx.special.tid.x(), ptx.special.ctaid_y() * 64
        first = tid == 0
        with ptx.if_(first):
            ptx.mbarrier.init(bar[0], 1)
            ptx.fence.mbarrier_init()
        ptx.cluster.sync()
        with ptx.if_(first):
            ptx.mbarrier.arrive_expect_tx(bar[0], 8192)
        ptx.cluster.sync()
        rank = reg.from_(ptx.sreg("%cluster_ctarank"), u32)
        # CTA 0 copies the left half for both; then CTA 1 the right half: each stores its own
        for half in range(2):
            with ptx.if_(first):
                p = rank == half
                ptx.tma.load_3d_multicast(tile, x, row, half * 64, bar[0], 3, issuer=p)
            ptx.mbarrier.wait(bar[0], half)
            with ptx.if_(rank == half):
                for i in range(4):
                    logical = reg.from_(tid + 128 * i, u32)
                    logical <<= 4
                    v = reg.array(b32, 4)
                    ptx.inst.ld.shared.v4.b32(v, ptx.addr(reg.from_(tile.name, u32) + apply_swizzle(logical, "128B")))
                    ptx.inst.st.shared.v4.b32(ptx.addr(reg.from_(back.name, u32) + logical), v)
            with ptx.if_(first):
                ptx.mbarrier.arrive_expect_tx(bar[0], 8192)
            ptx.cluster.sync()
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)
        with ptx.if_(first):
            ptx.tma.store_3d(y, back, row, rank * 64)
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    assembled(unswizzled, M=128)
    x = rng.standard_normal((128, 128)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(unswizzled(x), x)


def test_a_store_from_padded_rows() -> None:
    """`tma_padding`: rows of 64 elements lie 72 apart in shared memory; the padding falls outside of the tensor."""
    tile = Tile("M", 128, bf16, tma_box=(64, 64), tma_rank=3, tma_padding=True)

    @kernel(arch="sm_90a", in_specs=[Tile("M", 128, bf16)], out_specs=[tile], grid=lambda M: (2, M // 64), block=128)
    def copied(x, y):
        (px,) = ptx.global_ptrs(x)
        padded = smem.alloc(bf16, (64, 72))
        tid, panel, row = ptx.special.tid.x(), ptx.special.ctaid_x(), ptx.special.ctaid_y() * 64
        for i in range(4):
            at = tid + 128 * i
            r, chunk = at >> 3, at & 7
            v = reg.array(b32, 4)
            ptx.inst.ld.global_.v4.b32(v, ptx.addr(px + (row + r) * 256 + panel * 128 + chunk * 16))
            ptx.inst.st.shared.v4.b32(ptx.addr(reg.from_(padded.name, u32) + r * 144 + chunk * 16), v)
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)
        with ptx.if_(tid == 0):
            ptx.tma.store_3d(y, padded, row, panel * 64, coords=(0, row, panel))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    assembled(copied, M=128)
    x = rng.standard_normal((128, 128)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(copied(x), x)


def test_wgmma_with_scales_and_descriptors_of_ones_own() -> None:
    @kernel(
        arch="sm_90a", in_specs=[Tile.wgmma_a(64, 64, bf16), Tile.wgmma_b(64, 64, bf16)], out_specs=[Tile(64, 64, f32)],
        grid=1, block=128,
    )  # fmt: skip
    def minus(a, b, c):
        sa, sb = smem.wgmma_tile(bf16, (64, 64), major="K"), smem.wgmma_tile(bf16, (64, 64), major="MN")
        assert (sa.gmma_major, sb.gmma_major, sa.swizzle) == ("K", "MN", "128B")
        bar = smem.mbarrier(1)
        tid = ptx.special.tid.x()
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bar[0], 1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(tid == 0):
            ptx.mbarrier.arrive_expect_tx(bar[0], 16384)
            ptx.cp.async_.bulk.tensor_2d(dst=sa, src=a, coord=(0, 0), mbar=bar[0])
            ptx.cp.async_.bulk.tensor_2d.shared_cta_global_tile(dst=sb, src=b, coord=(0, 0), mbar=bar[0])
        ptx.mbarrier.wait(bar[0], 0)
        acc = reg.wgmma_frag(m=64, n=64, dtype=f32)
        layout = layout_for_a(dtype=bf16, m=64, k=64)
        base = reg.from_(sa.name, u32)
        by_hand = ptx.wgmma.make_descriptor(
            base, leading_byte_offset=layout.leading_byte_offset, stride_byte_offset=layout.stride_byte_offset,
            swizzle=ptx.wgmma.SWIZZLE_128B, base_offset=0, addr_byte_offset=32,
        )  # fmt: skip
        ptx.wgmma.fence()
        common = dict(shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=acc, scale_a=-1, trans_b=1)
        ptx.wgmma.mma_async(**common, a=sa, b=sb, scale_d=False)
        ptx.wgmma.mma_async(**common, a=by_hand, b=sb, b_k_offset=2048, scale_d=True)
        ptx.wgmma.mma_async(
            **common, a=ptx.wgmma.masked_descriptor(base, byte_offset=64), b=sb, b_k_offset=4096, scale_d=True
        )
        ptx.wgmma.mma_async(**common, a=sa, a_k_offset=96, b=sb, b_k_offset=6144, scale_d=True, scale_b=1, trans_a=0)
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        (pc,) = ptx.global_ptrs(c)
        row = ((tid >> 5) << 4) + ((tid & 31) >> 2)
        for i in range(32):
            column = (tid & 3) * 2 + (i % 2 + i // 4 * 8)
            ptx.inst.st.global_.f32(ptx.addr(pc + ((row + i // 2 % 2 * 8) * 64 + column) * 4), acc[i])

    assembled(minus)
    a, b = (rng.standard_normal((64, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    want = -(a.astype(np.float64) @ b.astype(np.float64))
    got = minus(a, b)
    assert np.linalg.norm(got - want) < 1e-5 * np.linalg.norm(want)


@pytest.mark.parametrize("swizzle", ["NONE", "32B", "64B", "128B"])
def test_wgmma_layouts_and_their_codes(swizzle: str) -> None:
    row = {"NONE": 8, "32B": 16, "64B": 32, "128B": 64}[swizzle]
    layout = pick_gmma_layout(elem_bytes=2, m_or_n=64, k=row, major=Major.K)
    assert isinstance(layout, GmmaLayout)
    assert layout == layout_for_a(dtype=bf16, m=64, k=row)
    assert layout.swizzle_code == getattr(ptx.wgmma, f"SWIZZLE_{swizzle}") == layout.layout_type
    assert layout.stride_byte_offset == 16 * row
    b = layout_for_b(dtype=f16, k=64, n=64)
    assert (b.layout_type, b.tma_swizzle, b.smem_swizzle) == (LayoutType.B128, "128B", "128B")
    assert Tile.wgmma_a("M", "K", bf16, tile_m=64, tile_k=row).layout.value in ("row", f"tma_{swizzle.lower()}")

    @kernel
    def described():
        tile = smem.alloc_with_layout(bf16, (64, row), gmma_layout=layout, gmma_major="K")
        desc = ptx.wgmma.auto_descriptor(tile, dtype=bf16, shape=(64, row), major="K")
        assert desc.dtype == b64
        ptx.wgmma.masked_descriptor(reg.from_(tile.name, u32), mask=0x3FF80, const_bits=ptx.wgmma.MASKED_DESC_B128)

    assembled(described)


def test_the_tcgen05_family() -> None:
    @kernel(arch="sm_100a", in_specs=[Tile(128, 64, u32)], out_specs=[Tile(128, 64, u32)], grid=1, block=128)
    def moved(x, y):
        px, py = ptx.global_ptrs(x, y)
        slot, bar = smem.alloc(u32, (1,)), smem.mbarrier(1)
        tid, warp = ptx.special.tid.x(), ptx.special.tid.x() >> 5
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot, 64)
            ptx.tcgen05.relinquish_alloc_permit()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        base = smem.load(u32, slot[0])
        mine = base + (warp << 21)
        v, w = reg.array(b32, 32), reg.array(b32, 32)
        for half in range(2):
            for i in range(32):
                ptx.inst.ld.global_.b32(v[i], ptx.addr(px + tid * 256, 4 * (32 * half + i)))
            ptx.tcgen05.st(mine + 32 * half, v, shape="32x32b", count=32, dtype="b32")
        ptx.tcgen05.wait_st()
        for half in range(2):
            ptx.tcgen05.ld(w, mine + 32 * half, shape="32x32b", count=32, dtype="b32", pack=False)
            ptx.tcgen05.wait_ld()
            for i in range(32):
                ptx.inst.st.global_.b32(ptx.addr(py + tid * 256, 4 * (32 * half + i)), w[i])
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(base, 64)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bar[0], 1)
            ptx.tcgen05.commit(bar[0], cta_group=1, multicast=False, space="cluster")

    assembled(moved)
    x = rng.integers(0, 2**32, (128, 64), dtype=np.uint32)
    assert np.array_equal(moved(x), x)


def test_every_option_of_tcgen05_is_assembled() -> None:
    @kernel(arch="sm_100a")
    def options():
        d, taddr, shared, bar = reg.scalar(b32), reg.scalar(b32), reg.scalar(u32), smem.mbarrier(1)
        ptx.mbarrier.init(bar[0], 1)
        p = reg.scalar(pred)
        a = ptx.tcgen05.descriptor(
            shared,
            byte_offset=32,
            stride_bytes=1024,
            leading_bytes=16,
            swizzle="128B",
            version=1,
            base_offset=0,
            lbo_mode=0,
        )
        b = ptx.tcgen05.masked_descriptor(shared, byte_offset=64)
        for dtype, major, n in (("bf16", "K", 256), ("f16", "MN", 128)):
            word = ptx.tcgen05.make_instr_desc_f16bf16_f32(
                m=128, n=n, ab_dtype=dtype, a_major=major, b_major="K", scale_a=1, scale_b=-1, saturate=False, sparse=False,
                max_shift=0,
            )  # fmt: skip
            assert isinstance(word, int)
            ptx.tcgen05.mma(
                d, a, b, word, cta_group=1, kind="f16", enable_input_d=True, scale_d=True, collector_a="fill"
            )
            ptx.tcgen05.mma(d, a, b, word, kind="f16", pred_operand=p, scale_c=3)
            ptx.tcgen05.mma(d, taddr, b, word, kind="f16", a_is_tmem=True, ashift=True, collector_a="discard")
            ptx.tcgen05.mma(d, a, b, word, kind="f16", sparse=True, sparse_metadata=taddr)
        ptx.tcgen05.ld(reg.array(b32, 4), taddr, shape="16x256b", count=1)
        ptx.tcgen05.ld(reg.array(b32, 8), taddr, shape="16x128b", count=4, pack=True)
        ptx.tcgen05.st(taddr, reg.array(b32, 4), shape="16x64b", count=4, unpack=True)
        ptx.tcgen05.cp(taddr, a)
        ptx.tcgen05.cp(taddr, a, size="4x256b")
        ptx.tcgen05.cp(taddr, a, size="128x128b", cta_group=1)
        ptx.tcgen05.shift(taddr)
        ptx.tcgen05.commit(bar[0])
        ptx.tcgen05.commit(bar[0], multicast=True, multicast_mask=3)

    text = assembled(options)
    for word in (
        "collector::a::fill",
        "collector::a::discard",
        ".ashift",
        ".sp.",
        ".pack::16b",
        ".unpack::16b",
        "4x256b",
    ):
        assert word in text, word


def test_templates_shapes_and_grids() -> None:
    torch = pytest.importorskip("torch")
    seen: list[Any] = []

    def tiles(M: int, N: int) -> tuple[int, int]:
        return N // 32, M

    @kernel(
        in_specs=[Tile("M", "N", f32, Layout.COL)],
        out_specs=[Tile("M", "N", f32, layout=Layout.INTERLEAVED)],
        grid=tiles,
        block=(32, 1, 1),
    )
    def scaled(x, y, *, factor=2.0, N=None, note=None):
        seen.append((x.shape, x.dtype, x.name, note))
        px, py = ptx.global_ptrs(x, y)
        at = (ptx.special.ctaid.y() * N + ptx.special.ctaid.x() * 32 + ptx.special.tid.x()) * 4
        v = reg.scalar(f32)
        ptx.inst.ld.global_.f32(v, ptx.addr(px + at))
        ptx.inst.mul.f32(v, v, factor)
        ptx.inst.st.global_.f32(ptx.addr(py + at), v)

    x = torch.randn(3, 64)
    assert torch.equal(scaled(x), 2 * x)
    assert torch.equal(scaled(x, factor=0.5, note="half"), x / 2)
    assert seen == [((3, 64), f32, "x", None), ((3, 64), f32, "x", "half")]
    assert scaled.template_params == {"factor": 2.0, "N": None, "note": None}
    assert (scaled.grid, scaled.block, scaled.cluster, scaled.smem, scaled.arch) == (
        tiles,
        (32, 1, 1),
        (1, 1, 1),
        0,
        "sm_90a",
    )
    assert repr(scaled) == "Kernel(scaled, arch='sm_90a')"
    assert scaled.in_specs is not None
    assert scaled.in_specs[0].layout is Layout.COL
    with pytest.raises(TypeError, match="factor"):
        scaled.ptx(M=3, N=64, scale=3.0)
    assembled(scaled, M=3, N=64, factor=1.5)


def test_warp_specialised_with_named_barriers() -> None:
    @kernel(
        arch="sm_90a", in_specs=[Tile(256, u32)], out_specs=[Tile(256, u32)], grid=1, block=256,
        raw_directives=[("reqntid", (256, 1, 1)), ("maxnreg", (96,))],
    )  # fmt: skip
    def exchanged(x, y):
        px, py = ptx.global_ptrs(x, y)
        tid = ptx.special.tid.x()
        box = smem.alloc(u32, (256,))
        ready = ptx.named_barrier(1, count=256)
        v = reg.scalar(u32)
        with ptx.if_(tid < 128):
            ptx.setmaxnreg(40, inc=False)
            for part in range(2):
                ptx.inst.ld.global_.u32(v, ptx.addr(px + tid * 4, 512 * part))
                smem.store(u32, box[tid + 128 * part], v)
            ready.sync()
        with ptx.else_():
            ptx.setmaxnreg_inc(152)
            ready.sync()
            mine = tid - 128
            for part in range(2):
                ptx.inst.st.global_.u32(
                    ptx.addr(py + mine * 4, 512 * part), smem.load(u32, box[255 - (mine + 128 * part)])
                )

    assembled(exchanged)
    x = rng.integers(0, 2**32, 256, dtype=np.uint32)
    assert np.array_equal(exchanged(x), x[::-1])


@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [f32, s32, u32])
def test_warp_reductions_of_parts(name: str, dtype: Any) -> None:
    @kernel(in_specs=[Tile(32, dtype)], out_specs=[Tile(4, 32, dtype)], grid=1, block=32)
    def reduced(x, y):
        px, py = ptx.global_ptrs(x, y)
        lane = ptx.special.laneid()
        for i, width in enumerate((2, 4, 16, 32)):
            v = reg.scalar(dtype)
            ptx.ld(dtype, v, ptx.addr(px + lane * 4))
            getattr(ptx.warp, f"reduce_{name}")(v, width=width)
            ptx.st(dtype, ptx.addr(py + lane * 4, 128 * i), v)

    assembled(reduced)
    numpy_type: Callable[..., Any] = {f32: np.float32, s32: np.int32, u32: np.uint32}[dtype]
    x = (rng.standard_normal(32) * 100).astype(np.int64).astype(numpy_type)
    for row, width in zip(reduced(x), (2, 4, 16, 32), strict=True):
        parts = x.reshape(-1, width)
        with np.errstate(over="ignore"):
            want = getattr(parts, name)(1) if name != "sum" else parts.sum(1, dtype=numpy_type)
        assert np.array_equal(row, np.repeat(want, width))


def test_the_other_types_of_the_documentation() -> None:
    @kernel(in_specs=[Tile(32, u8), Tile(32, u16)], out_specs=[Tile(32, u16), Tile(32, tf32)], grid=1, block=32)
    def mixed(a, b, out, rounded):
        pa, pb, po, pr = ptx.global_ptrs(a, b, out, rounded)
        tid = ptx.special.tid.x()
        byte, short, f = reg.scalar(u16), reg.scalar(u16), reg.scalar(f32)
        ptx.inst.ld.global_.u8(byte, ptx.addr(pa + tid))
        ptx.inst.ld.global_.u16(short, ptx.addr(pb + tid * 2))
        ptx.inst.mad.lo.u16(short, byte, 3, short)
        ptx.inst.st.global_.u16(ptx.addr(po + tid * 2), short)
        ptx.inst.cvt.rn.f32.u16(f, short)
        t = reg.scalar(b32)
        ptx.inst.cvt.rna.tf32.f32(t, f)
        ptx.inst.st.global_.b32(ptx.addr(pr + tid * 4), t)

    assembled(mixed)
    a, b = rng.integers(0, 256, 32, dtype=np.uint8), rng.integers(0, 2**16, 32, dtype=np.uint16)
    out, rounded = mixed(a, b)
    want = (a.astype(np.uint16) * 3 + b).astype(np.uint16)
    assert np.array_equal(out, want)
    bits = (want.astype(np.float32).view(np.uint32) + 0x1000) & 0xFFFFE000
    assert np.array_equal(rounded.view(np.uint32), bits)
