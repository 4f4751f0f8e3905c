"""Dimensions whose sizes are parameters: one PTX and one trace for all sizes, values as NumPy has them, what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, SimulationError, Tile, dim, kernel, ptx, reg, simulate, smem
from pyptx.kernel import Kernel
from pyptx.types import f32
from tests.frontend.tracing import assembled

M, N = dim("M", runtime=True), dim("N", runtime=True)


def column_sums() -> Kernel:
    @kernel(in_specs=[Tile(M, N, f32)], out_specs=[Tile(N, f32)], grid=lambda N: -(-N // 64), block=64)
    def sums(x: Any, out: Any, *, M: Any = None, N: Any = None) -> None:
        i = ptx.special.ctaid.x() * 64 + ptx.special.tid.x()
        ptx.ret(pred=i >= N)
        total, p = reg.scalar(f32, init=0.0), ptx.pointer(x) + i
        for _ in ptx.range_(M):
            total += p.load()
            p += N
        (ptx.pointer(out) + i).store(total)

    return sums


def test_one_trace_serves_all_sizes() -> None:
    made = column_sums()
    text = assembled(made)
    assert text == made.ptx(M=3, N=70)
    assert "\t.param .s32 M,\n\t.param .s32 N\n)" in text
    for shape in ((3, 100), (7, 65), (0, 5)):
        x = np.random.default_rng().integers(-9, 9, shape).astype(np.float32)
        np.testing.assert_array_equal(made(x), x.sum(axis=0))
        out = np.zeros(shape[1], np.float32)
        if shape[0]:
            assert simulate(made, x, out).findings == []
            np.testing.assert_array_equal(out, x.sum(axis=0))
    assert made.module(M=1) is made.module(N=2)
    assert made.symbolic_dims == made.runtime_dims == ("M", "N")
    assert made.check() == []


def test_raw_parameters_and_descriptors_keep_their_places() -> None:
    """Tensors, raw parameters, sizes, tensor maps."""

    @kernel(
        in_specs=[Tile(M, 32, f32, tma_box=(8, 32))], out_specs=[Tile(M, 32, f32)], raw_params=[("f32", "scale")],
        grid=lambda M: -(-M // 8), block=32,
    )  # fmt: skip
    def scaled(x: Any, out: Any, *, M: Any = None) -> None:
        tile, full = smem.alloc(f32, (8, 32), align=128), smem.mbarrier(1)
        lane, top = ptx.special.tid.x(), ptx.special.ctaid.x() * 8
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full[0], 8 * 32 * 4)
            ptx.cp.async_.bulk.tensor_2d(dst=tile, src=x, coord=(0, top), mbar=full[0])
        ptx.bar.sync(0)
        ptx.mbarrier.wait(full[0], 0)
        for row in range(8):
            with ptx.if_(top + row < M):
                (ptx.pointer(out) + ((top + row) * 32 + lane)).store(tile[row, lane] * ptx.param(f32, "scale"))

    assembled(scaled)
    assert [p.kind for p in scaled.trace().parameters] == ["tensor", "tensor", "raw", "dim", "tma"]
    for rows in (5, 20):
        x = np.random.default_rng().standard_normal((rows, 32), dtype=np.float32)
        np.testing.assert_array_equal(scaled(x, scale=2.0), 2 * x)
        out = np.zeros_like(x)
        assert simulate(scaled, x, out, 2.0).findings == []
        np.testing.assert_array_equal(out, 2 * x)
    assert len(scaled._cache) == 1


def test_constants_stay_constants() -> None:
    @kernel(in_specs=[Tile("K", N, f32)], out_specs=[Tile(dim("K"), N, f32)], grid=1, block=32)
    def copied(x: Any, out: Any, *, K: Any = None) -> None:
        assert isinstance(K, int)
        for row in range(K):
            i = row * 32 + ptx.special.tid.x()
            (ptx.pointer(out) + i).store((ptx.pointer(x) + i).load())

    assert copied.runtime_dims == ("N",)
    assert copied.ptx(K=2) != copied.ptx(K=3)
    assert copied.ptx(K=2, N=32) == copied.ptx(K=2)
    x = np.ones((3, 32), np.float32)
    np.testing.assert_array_equal(copied(x), x)


def test_a_size_that_a_python_if_needs() -> None:
    @kernel(in_specs=[Tile(N, f32)], out_specs=[Tile(N, f32)], grid=1, block=32)
    def branching(x: Any, out: Any, *, N: Any = None) -> None:
        if N % 4 == 0:
            ptx.bar.sync(0)

    with pytest.raises(PTXError, match="has no truth value while the kernel is traced"):
        branching.ptx()


def test_dimensions_and_tiles() -> None:
    assert N == "N"
    assert repr(Tile(N, 4, f32)) == "Tile(dim('N', runtime=True), 4, f32)"
    assert Tile(dim("N"), f32).runtime_dims == ()
    again = pickle.loads(pickle.dumps(Tile(N, f32)))
    assert again.runtime_dims == ("N",)
    for name in ("", "a b", "1N", 5):
        with pytest.raises(ValueError, match="named like a variable"):
            dim(name)  # pyright: ignore[reportArgumentType]


def test_what_does_not_go_together() -> None:
    def body(x: Any, out: Any) -> None: ...

    with pytest.raises(
        TypeError, match=r"N is a parameter in one tile \(x: .*\) and a constant in another \(out: Tile\('N', f32\)\)"
    ):
        kernel(in_specs=[Tile(N, f32)], out_specs=[Tile("N", f32)])(body)
    with pytest.raises(TypeError, match="has a parameter N already"):
        kernel(in_specs=[Tile(N, f32)], out_specs=[Tile(4, f32)], raw_params=[("u32", "N")])(body)
    with pytest.raises(TypeError, match="has a parameter out already"):
        kernel(in_specs=[Tile(dim("out", runtime=True), f32)], out_specs=[Tile(4, f32)])(body)


PITCH, STEP = dim("PITCH", runtime=True), dim("STEP", runtime=True)


def row_sums(*, pitch: Any = PITCH, step: Any = STEP) -> Kernel:
    @kernel(in_specs=[Tile(M, N, f32, strides=(pitch, step))], out_specs=[Tile(M, f32)], grid=lambda M: M, block=1)
    def sums(x: Any, out: Any, *, N: Any = None, PITCH: Any = None, STEP: Any = None) -> None:
        row = ptx.special.ctaid.x()
        total, p = reg.scalar(f32, init=0.0), ptx.pointer(x) + row * PITCH
        for _ in ptx.range_(N):
            total += p.load()
            p += STEP
        (ptx.pointer(out) + row).store(total)

    return sums


def test_strides_are_parameters() -> None:
    """Rows of a larger matrix, columns, every second element, the same row again and again: one trace, values as NumPy has them."""
    made = row_sums()
    assert "\t.param .s32 M,\n\t.param .s32 N,\n\t.param .s32 PITCH,\n\t.param .s32 STEP\n)" in assembled(made)
    whole = np.random.default_rng().integers(-9, 9, (12, 20)).astype(np.float32)
    for view in (
        whole,
        whole[2:7, 3:9],
        whole.T,
        whole[::3, 1::2],
        np.broadcast_to(whole[3], (5, 20)),
        whole[:1],
        whole[4:4],
    ):
        np.testing.assert_array_equal(made(view), view.sum(axis=1))
        if view.size:
            out = np.zeros(len(view), np.float32)
            assert simulate(made, view, out).findings == []
            np.testing.assert_array_equal(out, view.sum(axis=1))
    assert len(made._cache) == 1
    assert made.runtime_dims == ("M", "N", "PITCH", "STEP")


def test_strides_that_are_constants() -> None:
    """A name without `runtime` is a constant of the PTX; an int is a condition."""
    made = row_sums(pitch="PITCH", step=1)

    @kernel(in_specs=made.in_specs, out_specs=made.out_specs, grid=made.grid, block=1)
    def known(x: Any, out: Any, *, PITCH: Any = None) -> None:
        assert isinstance(PITCH, int)
        (ptx.pointer(out) + ptx.special.ctaid.x()).store((ptx.pointer(x) + ptx.special.ctaid.x() * PITCH).load())

    whole = np.arange(60, dtype=np.float32).reshape(6, 10)
    np.testing.assert_array_equal(known(whole[1:4, 2:5]), whole[1:4, 2])
    assert known.ptx(PITCH=10) != known.ptx(PITCH=12)
    with pytest.raises(
        PTXError, match=r"strides=\(PITCH, 1\)\), so of stride 1 along axis 1, and has strides \(1, 10\)"
    ):
        known(whole.T)
    with pytest.raises(PTXError, match=r"whose strides are 0 or more, and has strides \(-10, 1\)"):
        known(whole[::-1])
    with pytest.raises(SimulationError, match=r"argument 0 of known is Tile\(.*so of stride 1 along axis 1"):
        simulate(known, whole.T, np.zeros(10, np.float32))


def test_outputs_with_strides() -> None:
    """A new output has the strides that inputs bind, else those of a row-major array; one that is given keeps what lies between."""

    @kernel(
        in_specs=[Tile(M, N, f32, strides=(PITCH, 1))], out_specs=[Tile(M, N, f32, strides=(PITCH, 1))],
        grid=lambda M: M, block=lambda N: N,
    )  # fmt: skip
    def doubled(x: Any, out: Any, *, PITCH: Any = None) -> None:
        at = ptx.special.ctaid.x() * PITCH + ptx.special.tid.x()
        (ptx.pointer(out) + at).store((ptx.pointer(x) + at).load() * 2.0)

    whole, target = np.arange(60, dtype=np.float32).reshape(6, 10), np.full((6, 10), -1, np.float32)
    view = whole[1:4, 2:5]
    found = doubled(view)
    assert found.strides == view.strides
    np.testing.assert_array_equal(found, 2 * view)
    assert doubled(view, out=target[2:5, 3:6]) is not None
    np.testing.assert_array_equal(target[2:5, 3:6], 2 * view)
    assert (np.delete(target, slice(3, 6), axis=1) == -1).all()
    with pytest.raises(PTXError, match=r"so of stride 10 \(PITCH\) along axis 0, and has strides \(3, 1\)"):
        doubled(view, out=np.zeros((3, 3), np.float32))

    @kernel(in_specs=[Tile(M, f32)], out_specs=[Tile(M, 4, f32, strides=(PITCH, 1))], grid=lambda M: M, block=4)
    def spread(x: Any, out: Any, *, PITCH: Any = None) -> None:
        at = ptx.special.ctaid.x() * PITCH + ptx.special.tid.x()
        (ptx.pointer(out) + at).store((ptx.pointer(x) + ptx.special.ctaid.x()).load())

    np.testing.assert_array_equal(spread(whole[0]), np.repeat(whole[0][:, None], 4, axis=1))


def test_a_tensor_map_of_a_part() -> None:
    """TMA takes the rows' distance from the array."""

    @kernel(
        in_specs=[Tile(8, 32, f32, strides=(PITCH, 1), tma_box=(8, 32))], out_specs=[Tile(8, 32, f32)], grid=1, block=32
    )
    def copied(x: Any, out: Any) -> None:
        tile, full = smem.alloc(f32, (8, 32)), smem.mbarrier(1)
        lane = ptx.special.tid.x()
        with ptx.if_(lane == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full[0], 8 * 32 * 4)
            ptx.cp.async_.bulk.tensor_2d(dst=tile, src=x, coord=(0, 0), mbar=full[0])
        ptx.bar.sync(0)
        ptx.mbarrier.wait(full[0], 0)
        for row in range(8):
            (ptx.pointer(out) + (row * 32 + lane)).store(tile[row, lane])

    whole = np.random.default_rng().standard_normal((16, 64), dtype=np.float32)
    view = whole[4:12, 8:40]
    np.testing.assert_array_equal(copied(view), view)
    out = np.zeros((8, 32), np.float32)
    assert simulate(copied, view, out).findings == []
    np.testing.assert_array_equal(out, view)


def test_strides_of_tiles() -> None:
    assert repr(Tile(4, "N", f32, strides=(PITCH, 1))) == "Tile(4, 'N', f32, strides=(dim('PITCH', runtime=True), 1))"
    assert Tile(4, "N", f32, strides=("S", 1)).symbolic_dims == ("N", "S")
    for strides in ((1,), (1, 2, 3), (1.5, 1), (-1, 1), (True, 1)):
        with pytest.raises(
            ValueError, match=r"strides are an int or a name for each of 2|a stride of a Tile is 0 or more"
        ):
            Tile(4, 4, f32, strides=strides)  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        TypeError,
        match=r"PITCH is a parameter in one tile \(out: .*\) and a constant in another \(x: Tile\('PITCH', f32\)\)",
    ):
        kernel(in_specs=[Tile("PITCH", f32)], out_specs=[Tile(4, 4, f32, strides=(PITCH, 1))])(lambda x, out: None)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("x", 0), "argument 0 of sums must be an array for Tile.*, not str"),
        ((None, 0), "argument 0 of sums must be an array for Tile.*, not NoneType"),
        (([1.0], 0), "argument 0 of sums must be an array for Tile.*, not list"),
        ((4096, 4096), "sums takes the sizes M, N from its arrays: pass arrays, not addresses"),
        ((np.zeros((2, 3), np.float32),), r"sums takes 2 arguments \(x, out\), not 1: `out` is missing"),
        ((), r"sums takes 2 arguments \(x, out\), not 0: `x`, `out` are missing"),
        ((np.zeros((2, 3), np.float32), np.zeros(3, np.float32), 2), r"sums takes 2 arguments \(x, out\), not 3$"),
    ],
)
def test_arguments_that_say_no_size(args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        simulate(column_sums(), *args)


def test_runtime_is_true_or_false() -> None:
    given: Any = "yes"
    with pytest.raises(TypeError, match="runtime is True or False, not 'yes'"):
        dim("N", runtime=given)
