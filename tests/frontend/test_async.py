"""Barriers, clusters, asynchronous copies: the text that each wrapper emits, all of it assembled."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import PTXError, Tile, kernel, ptx, reg, simulate, smem
from pyptx.specs import Layout
from pyptx.types import b32, bf16, f32, pred, u32, u64
from tests.frontend.tracing import assembled, body, ptx_of


def emitted(function, arch="sm_90a", **options):
    return [line for line in body(ptx_of(function, arch, **options)) if line != "ret;"]


def test_cta_barriers():
    def function():
        ptx.bar.sync()
        ptx.bar.sync(1, 64)
        ptx.named_barrier(2, count=128).sync()
        ptx.named_barrier(2, count=128).arrive()
        ptx.named_barrier(3).sync()

    assert emitted(function) == [
        "bar.sync 0;",
        "bar.sync 1, 64;",
        "bar.sync 2, 128;",
        "bar.arrive 2, 128;",
        "bar.sync 3;",
    ]
    with pytest.raises(PTXError, match=r"must be in 0\.\.15"):
        ptx_of(lambda: ptx.bar.sync(16))


def test_fences_and_election():
    def function():
        p = reg.scalar(pred)
        ptx.fence.proxy_async()
        ptx.fence.proxy_async_shared_cta(pred=p)
        ptx.fence.proxy_async_generic_acquire_shared_cluster(pred=~p)
        ptx.fence.mbarrier_init()
        ptx.elect_sync(reg.scalar(b32), p)
        ptx.setmaxnreg_dec(40)
        ptx.setmaxnreg(232)

    assert emitted(function) == [
        "fence.proxy.async;",
        "@%p0 fence.proxy.async.shared::cta;",
        "@!%p0 fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.mbarrier_init.release.cluster;",
        "elect.sync %r0|%p0, -1;",
        "setmaxnreg.dec.sync.aligned.u32 40;",
        "setmaxnreg.inc.sync.aligned.u32 232;",
    ]


def test_mbarrier():
    def function():
        bars = smem.mbarrier(4)
        ptx.mbarrier.init(bars[3], 1)
        state = ptx.mbarrier.arrive(bars[3])
        ptx.mbarrier.arrive_expect_tx(bars[0], 128)
        ptx.mbarrier.expect_tx(bars[0], 64)
        ptx.mbarrier.try_wait(bars[3], state, parity=False)
        ptx.mbarrier.wait(bars[1], 0)
        ptx.mbarrier.inval(bars[2])

    assert emitted(function) == [
        "mbarrier.init.shared::cta.b64 [mbar_0+24], 1;",
        "mbarrier.arrive.shared.b64 %rd0, [mbar_0+24];",
        "mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [mbar_0], 128;",
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [mbar_0], 64;",
        "mbarrier.try_wait.shared.b64 %p0, [mbar_0+24], %rd0;",
        "$_mbar_wait_0:",
        "mbarrier.try_wait.parity.shared.b64 %p1, [mbar_0+8], 0;",
        "@!%p1 bra $_mbar_wait_0;",
        "mbarrier.inval.shared.b64 [mbar_0+16];",
    ]


def test_mbarrier_ring():
    def function():
        ring = ptx.mbarrier.array(smem.base(), 512, 3)
        ring.init_all(2)
        stage = reg.scalar(u32, init=1)
        ring.at(stage).arrive_expect_tx(64)
        ring[1].wait(0)
        ring[0].arrive_remote(1)
        ring[2].addr_reg()
        ring.arrive_remote_all(0, 2)

    lines = emitted(function, extern_smem=True)
    assert "mbarrier.init.shared::cta.b64 [%r0+528], 2;" in lines
    assert "mad.lo.u32 %r2, %r1, 8, %r0;" in lines
    assert "mbarrier.arrive.expect_tx.shared::cta.b64 %rd0, [%r2+512], 64;" in lines
    assert lines.count("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remAddr32], 2;") == 3


def test_a_guarded_wait_skips_the_loop_where_the_guard_fails():
    """A thread whose guard is false must not spin on a predicate that nobody writes."""

    @kernel(raw_params=[("u64", "out")])
    def waiting():
        bar = smem.mbarrier(1)
        tid = reg.from_(ptx.special.tid.x(), u32)
        first = tid == 0
        ptx.mbarrier.init(bar[0], 1, pred=first)
        ptx.bar.sync(0)
        ptx.mbarrier.wait(bar[0], 0, pred=tid > 100)
        out = ptx.param(u64, "out")
        out += tid * 4
        ptx.st(u32, out, 7)
        ptx.ret()

    assembled(waiting)
    out = np.zeros(32, np.uint32)
    simulate(waiting, out, grid=1, block=32, max_steps=10_000)
    assert (out == 7).all()


def test_cluster():
    def function():
        bar = smem.mbarrier(2)
        ptx.cluster.sync()
        ptx.cluster.arrive(aligned=True)
        ptx.cluster.wait(aligned=True)
        leader = ptx.cluster.rank(0)
        address = ptx.cluster.map_shared_u32(bar[1], 1)
        ptx.inst.mov.u32(address, 0, pred=leader)
        ptx.cluster.arrive_remote(bar[1], 1)
        ptx.cluster.arrive_multicast(bar[0], 0b101, pred=~leader)
        ptx.cluster.arrive_multicast(bar[0], address, pred=leader)

    lines = emitted(function)
    assert lines[:4] == [
        "barrier.cluster.arrive;", "barrier.cluster.wait;", "barrier.cluster.arrive.aligned;",
        "barrier.cluster.wait.aligned;",
    ]  # fmt: skip
    assert "mapa.shared::cluster.u32 %r1, %r2, 1;" in lines
    assert "mov.u32 %r2, mbar_0+8;" in lines
    assert lines.count("@!%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remAddr32], 1;") == 2


def test_cp_async():
    def function():
        tile = smem.alloc(f32, (2, 64))
        pointer = reg.scalar(u64, init=0)
        shared = reg.scalar(u32, init=0)
        ptx.cp.async_.cg(tile[1], pointer, 16)
        ptx.cp.async_.ca(shared, ptx.addr(pointer, 8), 4)
        ptx.cp.async_.commit_group()
        ptx.cp.async_.wait_group(1)
        ptx.cp.async_.wait_all()

    assert emitted(function, arch="sm_80")[2:] == [
        "cp.async.cg.shared.global [smem_0+256], [%rd0], 16;",
        "cp.async.ca.shared.global [%r0], [%rd0+8], 4;",
        "cp.async.commit_group;",
        "cp.async.wait_group 1;",
        "cp.async.wait_all;",
    ]


def tensors(function, arch="sm_90a"):
    tile = Tile("M", "N", bf16, Layout.TMA_128B, tma_box=(64, 64))
    k = kernel(arch=arch, in_specs=[tile], out_specs=[tile])(function)
    return body(assembled(k, M=64, N=64))


def test_tensor_copies():
    def function(a, c):
        tile = smem.alloc(bf16, (2, 64, 64))
        bar = smem.mbarrier(2)
        mask = reg.scalar(u32, init=3)
        ptx.cp.async_.bulk.tensor_2d(dst=tile[1], src=a.tma_desc(), coord=(0, 64), mbar=bar[1])
        ptx.cp.async_.bulk.tensor_2d(dst=tile[0], src=a, coord=[0, 64], mbar=bar[1], multicast_mask=mask)
        ptx.cp.async_.bulk.tensor_3d(dst=tile[0], src=a, coord=(0, 1, 2), mbar=bar[0])
        ptx.cp.async_.bulk.tensor_2d.shared_cta_global_tile(dst=tile, src=a, coord=(0, 0), mbar=bar[0])
        ptx.cp.async_.bulk.tensor_2d.store(dst=c, src=tile[1], coord=(0, 0))
        ptx.cp.async_bulk.commit_group()
        ptx.cp.async_.bulk.wait_group(0, read=True)
        ptx.cp.async_.bulk.wait_group(0)

    bytes_ = "mbarrier::complete_tx::bytes"
    assert tensors(function)[2:] == [
        f"cp.async.bulk.tensor.2d.shared::cluster.global.{bytes_} [smem_0+8192], [%rd0, {{0, 64}}], [mbar_0+8];",
        "cvt.u16.u32 %rs0, %r0;",
        f"cp.async.bulk.tensor.2d.shared::cluster.global.{bytes_}.multicast::cluster [smem_0], [%rd0, {{0, 64}}],"
        " [mbar_0+8], %rs0;",
        f"cp.async.bulk.tensor.3d.shared::cluster.global.{bytes_} [smem_0], [%rd0, {{0, 1, 2}}], [mbar_0];",
        f"cp.async.bulk.tensor.2d.shared::cta.global.tile.{bytes_} [smem_0], [%rd0, {{0, 0}}], [mbar_0];",
        "ld.param.u64 %rd1, [c_tma_desc];",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {0, 0}], [smem_0+8192];",
        "cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group.read 0;",
        "cp.async.bulk.wait_group 0;",
        "ret;",
    ]


def test_access_modes():
    def function(a, c):
        tile = smem.alloc(bf16, (2, 64, 64))
        bar = smem.mbarrier(1)[0]
        copies = ptx.cp.async_.bulk.tensor
        hint = reg.scalar(u64, init=0)
        for rank in range(1, 6):
            getattr(copies, f"tile_{rank}d")(tile, a, (0,) * rank, mbar=bar, cache_hint=hint)
            getattr(copies, f"store_{rank}d")(c, tile, (0,) * rank)
        for rank in range(3, 6):
            getattr(copies, f"im2col_{rank}d")(tile, a, (0,) * rank, mbar=bar, offsets=[1] * (rank - 2))

    lines = tensors(function)
    assert sum(".im2col." in line for line in lines) == 3
    assert sum("{0, 0, 0, 0, 0}" in line for line in lines) == 3
    assert "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd2, {0}], [smem_0];" in lines

    def gathered(a, c):
        tile = smem.alloc(bf16, (4, 64))
        ptx.cp.async_.bulk.tensor.gather4_2d(tile, a, (0, 1, 2, 3, 4), mbar=smem.mbarrier(1)[0])
        ptx.cp.async_.bulk.tensor.scatter4_2d(c, tile, (0, 1, 2, 3, 4))
        ptx.cp.async_.bulk.tensor_2d(dst=tile, src=a, coord=(0, 0), mbar=smem.mbarrier(1)[0], cta_group=2)

    lines = tensors(gathered, "sm_100a")
    assert any("tile::gather4" in line and "{0, 1, 2, 3, 4}" in line for line in lines)
    assert any("tile::scatter4" in line and "[%rd1, {0, 1, 2, 3, 4}]" in line for line in lines)
    assert any(".cta_group::2" in line for line in lines)


def test_rank_3_view():
    def function(a, c):
        tile = smem.alloc(bf16, (64, 64))
        bar = smem.mbarrier(1)[0]
        leader = reg.scalar(pred)
        col = reg.scalar(u32, init=128)
        ptx.tma.load_3d(tile, a, 8, 128, bar, issuer=leader)
        ptx.tma.load_3d_multicast(tile, a, 8, col, bar, 3)
        ptx.tma.store_3d(c, tile, coords=(0, 1, 2))

    lines = tensors(function)
    assert any(line.startswith("@%p0 cp.async.bulk.tensor.3d.shared::cluster.global.tile") for line in lines)
    assert any("{0, 8, 2}" in line for line in lines)
    assert "shr.u32 %r1, %r0, 6;" in lines
    assert any("[%rd0, {0, 8, %r1}], [mbar_0], 3;" in line for line in lines)
    assert any("bulk_group [%rd1, {0, 1, 2}], [smem_0]" in line for line in lines)


def test_a_descriptor_first_used_inside_a_branch_is_loaded_at_the_top():
    def function(a, c):
        tile = smem.alloc(bf16, (64, 64))
        with ptx.if_(reg.scalar(pred)):
            ptx.cp.async_.bulk.tensor_2d.store(dst=c, src=tile, coord=(0, 0))
        ptx.cp.async_.bulk.tensor_2d.store(dst=c, src=tile, coord=(0, 0))

    lines = tensors(function)
    assert lines[0] == "ld.param.u64 %rd0, [c_tma_desc];"
    assert sum("ld.param" in line for line in lines) == 1


def test_wrong_number_of_coordinates():
    with pytest.raises(PTXError, match="takes 2 coordinates, not 3"):
        tensors(lambda a, c: ptx.cp.async_.bulk.tensor_2d.store(dst=c, src=smem.alloc(bf16, 64), coord=(0, 0, 0)))


@pytest.mark.parametrize(
    ("layout", "make", "read", "message"),
    [
        (
            Layout.TMA_128B,
            lambda: smem.alloc(bf16, (64, 64)),
            False,
            "which is 128-byte aligned, with the 128B swizzle",
        ),
        (Layout.TMA_128B, lambda: smem.alloc(bf16, (64, 64), align=1024), True, "indexed here as rows and columns"),
        (
            Layout.TMA_64B,
            lambda: smem.wgmma_tile(bf16, (64, 64)),
            False,
            "with the 64B swizzle, and its layout is 128B",
        ),
        (Layout.ROW, lambda: smem.wgmma_tile(bf16, (64, 64)), False, "without a swizzle, and its layout is 128B"),
        (Layout.TMA_128B, lambda: smem.alloc(bf16, (20, 4, 64), align=1024)[1], False, "512 bytes into smem_0"),
        (Layout.TMA_128B, lambda: smem.wgmma_tile(bf16, (2, 64, 64))[1], False, None),
        (Layout.TMA_128B, lambda: ptx.addr(smem.alloc(bf16, (72, 64), align=1024), 1024), False, None),
        (Layout.ROW, lambda: smem.alloc(bf16, (64, 64)), True, None),
    ],
)
def test_swizzles_that_do_not_fit(layout, make, read, message):
    @kernel(in_specs=[Tile(64, 64, bf16, layout, tma_box=(64, 64))], out_specs=[])
    def load(x):
        bar, s = smem.mbarrier(1), make()
        ptx.mbarrier.init(bar[0], 1)
        ptx.cp.async_.bulk.tensor_2d(dst=s, src=x.tma_desc(), coord=(0, 0), mbar=bar[0])
        if read:
            s[3, 5]

    found = load.check()
    assert [message in d.message for d in found] == ([] if message is None else [True])
    assert all(d.filename == __file__ for d in found)
    assembled(load)


@pytest.mark.parametrize(
    ("tile", "shape", "message"),
    [
        (Tile(64, 64, f32, tma_box=(64, 32)), (16, 16), "a box of 64 x 32 f32 has 8192 bytes, and smem_0 has 1024"),
        (Tile("M", 32, f32), (4, 32), "a box of 40 x 32 f32 has 5120 bytes, and smem_0 has 512"),
        (Tile(64, 64, 64, f32, tma_box=(1, 4, 32)), (16, 16), "the copy has 2 coordinates, and Tile(64, 64, 64"),
        (Tile(64, 64, bf16, tma_box=(64, 64), tma_rank=3), (64, 64), "described to TMA with 3 dimensions"),
        (Tile(64, 64, f32, tma_box=(8, 32)), (8, 32), None),
    ],
)
def test_copies_that_do_not_fit(tile, shape, message):
    @kernel(in_specs=[tile], out_specs=[])
    def load(x):
        bar, s = smem.mbarrier(1), smem.alloc(f32, shape)
        ptx.mbarrier.init(bar[0], 1)
        ptx.cp.async_.bulk.tensor_2d(dst=s, src=x, coord=(0, 0), mbar=bar[0])

    dims = {"M": 40} if "M" in tile.dims else {}
    assert [message in d.message for d in load.check(**dims)] == ([] if message is None else [True])


def test_a_barrier_that_knows_its_phase():
    """Four copies, one after the other, through one buffer and one barrier."""

    @kernel(arch="sm_90a", in_specs=[Tile(4, 32, f32)], out_specs=[Tile(4, 32, f32)], grid=1, block=32)
    def rows(x, out):
        s, tid = smem.alloc(f32, 32), ptx.special.tid.x()
        full = ptx.mbarrier.phased(smem.mbarrier(1)[0])
        px, po = ptx.pointer(x), ptx.pointer(out)
        with ptx.if_(tid == 0):
            full.init(1)
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        for i in ptx.range_(4):
            with ptx.if_(tid == 0):
                full.arrive_expect_tx(128)
                ptx.cp.async_.bulk.load(s, px + i * 32, 128, full)
            full.wait()
            (po + (tid + i * 32)).store(s[tid,] * 2.0)
            ptx.fence.proxy_async_shared_cta()
            ptx.bar.sync(0)

    assembled(rows)
    x = np.random.default_rng().standard_normal((4, 32), dtype=np.float32)
    assert np.array_equal(rows(x), x * 2)
    out = np.full_like(x, np.nan)
    assert not simulate(rows, x, out, grid=1, block=32).findings


def test_reductions_into_tensors():
    @kernel(
        arch="sm_90a",
        in_specs=[Tile(2, 16, 32, f32)],
        out_specs=[Tile(16, 32, f32, tma_box=(16, 32))],
        grid=2,
        block=32,
    )
    def summed(x, out):
        s, tid = smem.alloc(f32, (16, 32)), ptx.special.tid.x()
        px = ptx.pointer(x) + ptx.special.ctaid.x() * 512
        for i in range(16):
            s[i, tid] = (px + (tid + 32 * i)).load()
        ptx.fence.proxy_async_shared_cta()
        ptx.bar.sync(0)
        with ptx.if_(tid == 0):
            ptx.cp.async_.bulk.tensor_2d.reduce("add", dst=out, src=s, coord=(0, 0))
            ptx.cp.async_.bulk.reduce("add", f32, ptx.pointer(out), s, 64)  # the first 16 elements once more
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    assembled(summed)
    x = np.random.default_rng().standard_normal((2, 16, 32), dtype=np.float32)
    out = np.ones((16, 32), np.float32)
    summed(x, out=out)
    want = 1 + x.astype(np.float64).sum(0)
    want[0, :16] += x.sum(0)[0, :16]
    assert np.allclose(out, want, rtol=1e-5, atol=1e-5)


def test_registers_and_shared_memory_without_ptxas():
    totals = []

    @kernel
    def used():
        totals.append(smem.total())
        smem.alloc(f32, 3)
        smem.mbarrier(1)
        totals.append(smem.total())
        values = [smem.load(f32, smem.alloc(f32, 1)) for _ in range(20)]
        totals.append(smem.total())
        for v in values[1:]:
            values[0] += v
        smem.store(f32, smem.alloc(f32, 1), values[0])

    assert 20 <= used.pressure().written <= 24
    assert totals == [0, 24, 128 * 20 + 4]
