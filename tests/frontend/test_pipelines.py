"""`ptx.Pipeline` by TMA, cp.async, ordinary stores and tcgen05: on the simulator with all checks, by ptxas, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, Tile, kernel, ptx, reg, simulate, smem
from pyptx.types import b32, f32, s32, u32
from tests.frontend.tracing import assembled, ptx_of


def checked(made: Any, *args: Any, **options: Any) -> None:
    """Run with the sanitizer, in two orders; let ptxas assemble it."""
    report = simulate(made, *args, schedules=2, **options)
    assert report.findings == []
    assembled(made)


@pytest.mark.parametrize(("stages", "rounds"), [(3, 8), (2, 5), (4, 2)])
def test_tma_fills_and_warps_consume(stages: int, rounds: int) -> None:
    @kernel(
        in_specs=[Tile(16 * rounds, 32, f32, tma_box=(16, 32))], out_specs=[Tile(3, 32, f32)], grid=1, block=128,
    )  # fmt: skip
    def sums(x: Any, out: Any) -> None:
        tiles = smem.alloc(f32, (stages, 16, 32))
        pipe = ptx.Pipeline(stages, bytes=[tiles], consumers=3)
        tid = ptx.special.tid.x()
        with ptx.if_(tid == 0):
            pipe.init()
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(tid < 32):
            with ptx.elect():
                producer = pipe.producer()
                for i in ptx.range_(rounds):
                    stage = producer.acquire()
                    ptx.cp.async_.bulk.tensor_2d(dst=tiles[stage.index], src=x, coord=(0, i * 16), mbar=stage.full)
        with ptx.else_():
            consumer = pipe.consumer()
            lane, warp = tid & 31, (tid >> 5) - 1
            total = reg.scalar(f32, init=0.0)
            for _ in ptx.range_(rounds):
                with consumer.use(pred=lane == 0) as stage:
                    for row in range(5):  # of the 15 rows that the three warps add, each has five
                        total += tiles[stage.index, warp * 5 + row, lane]
                    ptx.bar.warp_sync()
            (ptx.pointer(out) + (warp * 32 + lane)).store(total)

    x = np.random.default_rng().integers(-9, 9, (16 * rounds, 32)).astype(np.float32)
    out = np.zeros((3, 32), np.float32)
    checked(sums, x, out)
    parts = x.reshape(rounds, 16, 32)[:, :15].reshape(rounds, 3, 5, 32)
    np.testing.assert_array_equal(out, parts.sum(axis=(0, 2)))


@pytest.mark.parametrize("filled_by", ["cp.async", "threads"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_threads_fill(filled_by: Any, arch: str) -> None:
    """Warps 0 and 1 fill, warps 2 and 3 consume; on sm_80 waits are by `test_wait`."""

    @kernel(arch=arch, in_specs=[Tile(6, 64, 4, f32)], out_specs=[Tile(64, f32)], grid=1, block=128)
    def sums(x: Any, out: Any) -> None:
        buffers = smem.alloc(f32, (2, 64, 4))
        pipe = ptx.Pipeline(2, filled_by=filled_by, producers=64, consumers=64)
        tid = ptx.special.tid.x()
        source = ptx.pointer(x)
        pipe.init(pred=tid == 0)
        ptx.bar.sync(0)
        own = tid & 63
        with ptx.if_(tid < 64):
            producer = pipe.producer()
            for i in ptx.range_(6):
                with producer.fill() as stage:
                    place = buffers.element(stage.index, own, 0)
                    if filled_by == "cp.async":
                        ptx.cp.async_.cg(place, source + (i * 64 + own) * 4, src_bytes=ptx.selp(u32, 8, 16, own == 5))
                    else:
                        for n in range(4):
                            buffers[stage.index, own, n] = (source + ((i * 64 + own) * 4 + n)).load()
        with ptx.else_():
            consumer = pipe.consumer()
            total = reg.scalar(f32, init=0.0)
            for _ in ptx.range_(6):
                with consumer.use() as stage:
                    for n in range(4):
                        total += buffers[stage.index, 63 - own, n]
            (ptx.pointer(out) + own).store(total)

    x = np.random.default_rng().integers(-9, 9, (6, 64, 4)).astype(np.float32)
    out = np.zeros(64, np.float32)
    checked(sums, x, out)
    if filled_by == "cp.async":
        x[:, 5, 2:] = 0  # beyond src_bytes
    np.testing.assert_array_equal(out, x.sum(axis=(0, 2))[::-1])


def test_multicast_in_a_cluster() -> None:
    """Each CTA of a pair loads half of a stage into both, and releases the stages of both."""
    rounds, stages = 5, 2

    @kernel(
        in_specs=[Tile(16 * rounds, 32, f32, tma_box=(8, 32))],
        out_specs=[Tile(2, 32, f32)],
        grid=2,
        block=64,
        cluster=2,
    )
    def sums(x: Any, out: Any) -> None:
        tiles = smem.alloc(f32, (stages, 16, 32))
        pipe = ptx.Pipeline(stages, bytes=[tiles], consumers=2, scope="cluster", name="pair")
        tid, rank = ptx.special.tid.x(), reg.from_(ptx.special.cluster_ctarank(), s32)
        with ptx.if_(tid == 0):
            pipe.init()
            ptx.fence.mbarrier_init()
        ptx.cluster.sync()
        with ptx.if_(tid < 32):
            with ptx.elect():
                producer = pipe.producer()
                for i in ptx.range_(rounds):
                    stage = producer.acquire()
                    half = ptx.addr(tiles[stage.index], rank * (8 * 32 * 4))
                    ptx.cp.async_.bulk.tensor_2d(
                        dst=half, src=x, coord=(0, i * 16 + rank * 8), mbar=stage.full, multicast_mask=3
                    )
        with ptx.else_():
            consumer = pipe.consumer()
            lane = tid & 31
            total = reg.scalar(f32, init=0.0)
            for _ in ptx.range_(rounds):
                stage = consumer.wait()
                for row in range(16):
                    total += tiles[stage.index, row, lane]
                ptx.bar.warp_sync()
                consumer.release(stage, cta=lane, pred=lane < 2)
            (ptx.pointer(out) + (rank * 32 + lane)).store(total)
        ptx.cluster.sync()

    x = np.random.default_rng().integers(-9, 9, (16 * rounds, 32)).astype(np.float32)
    out = np.zeros((2, 32), np.float32)
    checked(sums, x, out)
    np.testing.assert_array_equal(out, np.broadcast_to(x.sum(axis=0), (2, 32)))
    text = sums.ptx()
    assert "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64" in text
    assert "pair_full" in text


def test_tcgen05_commits() -> None:
    """The instructions; `examples/blackwell/gemm.py` runs them."""

    def both_sides() -> None:
        pipe = ptx.Pipeline(2, filled_by="tcgen05", emptied_by="tcgen05", cta_group=2, multicast_mask=3)
        pipe.init()
        producer, consumer = pipe.producer(), pipe.consumer()
        producer.commit(producer.acquire())
        consumer.release(consumer.wait())
        producer.drain()

    text = ptx_of(both_sides, arch="sm_100a")
    assert text.count("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64") == 2
    assert text.count("mbarrier.init.shared::cta.b64") == 4
    assert text.count("mbarrier.try_wait") == 4


def test_in_words() -> None:
    @kernel(arch="sm_90a")
    def told() -> None:
        pipe = ptx.Pipeline(3, bytes=[smem.alloc(f32, (3, 64))], name="rows")
        assert repr(pipe) == "Pipeline(rows, 3 stages, filled by tma, emptied by threads)"
        assert repr(pipe.producer()) == "the producer of " + repr(pipe)
        assert repr(pipe.consumer()) == "the consumer of " + repr(pipe)

    told.ptx()


def test_a_scope_of_waits() -> None:
    def waits() -> None:
        bar = smem.mbarrier(1)[0]
        ptx.mbarrier.init(bar, 1)
        ptx.mbarrier.wait(bar, 0, scope="cluster")
        ptx.mbarrier.try_wait(bar, 0, scope="cluster")
        ptx.mbarrier.wait(bar, 0)

    text = ptx_of(waits)
    assert text.count(".acquire.cluster") == 2
    assert text.count("mbarrier.try_wait.parity.shared.b64") == 1


def test_elect_chooses_one_lane() -> None:
    @kernel(in_specs=[], out_specs=[Tile(64, u32)], grid=1, block=64)
    def elected(out: Any) -> None:
        with ptx.elect():
            (ptx.pointer(out) + ptx.special.tid.x()).store(1)
        with ptx.else_():
            (ptx.pointer(out) + ptx.special.tid.x()).store(0)

    out = np.zeros(64, np.uint32)
    checked(elected, out)
    assert out.reshape(2, 32).sum(axis=1).tolist() == [1, 1]


REFUSED = [
    (lambda: ptx.Pipeline(0, bytes=4), "stages of a pipeline are a positive int, not 0"),
    (lambda: ptx.Pipeline(2), "needs bytes="),
    (lambda: ptx.Pipeline(2, bytes=0), "1 to 2**20 - 1 bytes, not 0"),
    (lambda: ptx.Pipeline(2, bytes=[smem.alloc(f32, (3, 8), name="tiles")]), "tiles has shape (3, 8), and the pipeline 2 stages"),
    (lambda: ptx.Pipeline(2, bytes=[smem.alloc(f32, (2,), name="tiles")]), "first of two or more dimensions is the stage"),
    (lambda: ptx.Pipeline(2, bytes=[smem.mbarrier(2)]), "not one of MbarrierArray"),
    (lambda: ptx.Pipeline(2, filled_by="tms", bytes=4), "filled_by of a pipeline is one of 'tma', 'cp.async', 'threads', 'tcgen05', not 'tms'"),
    (lambda: ptx.Pipeline(2, filled_by="threads", bytes=4), "bytes are counted for TMA copies only"),
    (lambda: ptx.Pipeline(2, bytes=4, scope="gpu"), 'the scope of a wait is "cta" or "cluster", not \'gpu\''),
    (lambda: ptx.Pipeline(2, bytes=4).producer().commit(ptx.Pipeline(2, bytes=4).producer().acquire()), "has no commit"),
    (lambda: ptx.mbarrier.wait(smem.mbarrier(1)[0], 0, scope="sys"), 'is "cta" or "cluster"'),
    (lambda: ptx.cp.async_.cg(smem.alloc(b32, (4,)), 0, src_bytes=17), "src_bytes are 0 to 16, the bytes of the copy, not 17"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(PTXError) as caught:
        ptx_of(lambda: (call(), None)[1])
    assert message in str(caught.value)
