"""Dimensions whose sizes are parameters: one PTX and one trace for all sizes, values as NumPy has them, what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, Tile, dim, kernel, ptx, reg, simulate, smem
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
        TypeError, match=r"N is known at run time in one tile and a constant in another \(out: Tile\('N', f32\)\)"
    ):
        kernel(in_specs=[Tile(N, f32)], out_specs=[Tile("N", f32)])(body)
    with pytest.raises(TypeError, match="has a parameter N already"):
        kernel(in_specs=[Tile(N, f32)], out_specs=[Tile(4, f32)], raw_params=[("u32", "N")])(body)
    with pytest.raises(TypeError, match="has a parameter out already"):
        kernel(in_specs=[Tile(dim("out", runtime=True), f32)], out_specs=[Tile(4, f32)])(body)
