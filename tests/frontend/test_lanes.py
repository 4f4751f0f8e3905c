"""`ptx.warp` and `ptx.block`: scans, votes, exchanges, reductions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, kernel, ptx, reg, simulate, smem
from pyptx.types import PtxType, b32, bf16, f32, f64, s32, u32, u64
from tests.frontend.tracing import assembled, ptx_of

NUMPY: dict[PtxType, Any] = {f32: np.float32, s32: np.int32, u32: np.uint32, f64: np.float64, u64: np.uint64}


def run(body: Any, x: np.ndarray, dtype: PtxType, results: list[PtxType], threads: int = 32) -> list[np.ndarray]:
    """What `body(value, tid)` gives each of the threads, on the simulator with all checks, after ptxas has taken it."""

    names = ["x", *(f"out{i}" for i in range(len(results)))]

    @kernel(arch="sm_75", raw_params=[("u64", name) for name in names])
    def lanes() -> None:
        tid = ptx.special.tid.x()
        found = body((ptx.pointer(ptx.param(u64, "x"), dtype, "global") + tid).load(), tid)
        for name, kind, value in zip(names[1:], results, found if isinstance(found, tuple) else (found,), strict=True):
            (ptx.pointer(ptx.param(u64, name), kind, "global") + tid).store(value)

    made = [np.zeros(threads, NUMPY[t]) for t in results]
    report = simulate(lanes, x, *made, grid=1, block=threads)
    assert report.findings == []
    assembled(lanes)
    return made


def values(dtype: PtxType, n: int = 32) -> np.ndarray:
    rng = np.random.default_rng()
    if dtype is f32:
        return rng.integers(-50, 50, n).astype(np.float32)  # sums in any order are exact
    low, high = (-(2**31), 2**31) if dtype is s32 else (0, 2**32)
    return rng.integers(low, high, n).astype(NUMPY[dtype])


@pytest.mark.parametrize("dtype", [f32, s32, u32], ids=str)
@pytest.mark.parametrize("width", [4, 32])
def test_scans(dtype: PtxType, width: int) -> None:
    x = values(dtype)
    kinds = ("sum", "max", "min")

    def body(v: Any, tid: Any) -> Any:
        return tuple(
            getattr(ptx.warp, f"scan_{kind}")(v, exclusive=exclusive, width=width) for kind in kinds for exclusive in (False, True)
        )  # fmt: skip

    found = iter(run(body, x, dtype, [dtype] * 6))
    info: Any = np.finfo(np.float32) if dtype is f32 else np.iinfo(NUMPY[dtype])
    least, largest = (-np.inf, np.inf) if dtype is f32 else (info.min, info.max)
    groups = x.reshape(-1, width)
    for scan, start in ((np.add, 0), (np.maximum, least), (np.minimum, largest)):
        inclusive = scan.accumulate(groups, axis=1, dtype=x.dtype)
        np.testing.assert_array_equal(next(found).reshape(-1, width), inclusive)
        exclusive = np.concatenate([np.full((len(groups), 1), start, x.dtype), inclusive[:, :-1]], axis=1)
        np.testing.assert_array_equal(next(found).reshape(-1, width), exclusive)


@pytest.mark.parametrize("dtype", [f32, s32, u32], ids=str)
@pytest.mark.parametrize("width", [2, 32])
def test_argmax_and_argmin(dtype: PtxType, width: int) -> None:
    x = values(dtype)
    x[[3, 9, 17]] = x.max()  # equal values: the least index
    x[[5, 8, 30]] = x.min()

    def body(v: Any, tid: Any) -> Any:
        return *ptx.warp.argmax(v, width=width), *ptx.warp.argmin(v, reg.from_(tid, s32), width=width)

    best, where, least, at = (a.reshape(-1, width) for a in run(body, x, dtype, [dtype, u32, dtype, s32]))
    groups = x.reshape(-1, width)
    base = np.arange(0, 32, width)[:, None]
    np.testing.assert_array_equal(best, groups.max(1, keepdims=True).repeat(width, 1))
    np.testing.assert_array_equal(where, (groups.argmax(1)[:, None] + base).repeat(width, 1))
    np.testing.assert_array_equal(least, groups.min(1, keepdims=True).repeat(width, 1))
    np.testing.assert_array_equal(at, (groups.argmin(1)[:, None] + base).repeat(width, 1))


def test_argmax_with_nan() -> None:
    x = np.full(32, np.nan, np.float32)
    x[[7, 20]] = -3.0, -2.0
    best, where = run(lambda v, tid: ptx.warp.argmax(v), x, f32, [f32, u32])
    assert (best == -2).all()
    assert (where == 20).all()


def test_votes() -> None:
    x = values(s32)

    def body(v: Any, tid: Any) -> Any:
        bits = ptx.warp.ballot(v < 0)
        rest = ptx.warp.ballot(~(v < 0))
        some, every = ptx.warp.any(v == int(x[11])), ptx.warp.all(v == int(x[11]))
        return bits, rest, ptx.selp(u32, 1, 0, some), ptx.selp(u32, 1, 0, every)

    bits, rest, some, every = run(body, x, s32, [u32] * 4)
    want = sum(1 << i for i in range(32) if x[i] < 0)
    assert (bits == want).all()
    assert (rest == 2**32 - 1 - want).all()
    assert (some == 1).all()
    assert (every == 0).all()


@pytest.mark.parametrize("dtype", [f32, u32, f64, u64], ids=str)
def test_broadcasts(dtype: PtxType) -> None:
    x = np.random.default_rng().integers(0, 2**40, 32).astype(NUMPY[dtype])

    def body(v: Any, tid: Any) -> Any:
        return ptx.warp.broadcast(v), ptx.warp.broadcast(v, 5, width=8), ptx.warp.broadcast(v, tid >> 3, width=8)

    first, fixed, other = run(body, x, dtype, [dtype] * 3)
    np.testing.assert_array_equal(first, x[:1].repeat(32))
    np.testing.assert_array_equal(fixed, x.reshape(4, 8)[:, 5].repeat(8))
    np.testing.assert_array_equal(other, x.reshape(4, 8)[np.arange(4), np.arange(4)].repeat(8))


@pytest.mark.parametrize("dtype", [f32, s32, u32], ids=str)
def test_block_reductions(dtype: PtxType) -> None:
    x = values(dtype, 96)

    def body(v: Any, tid: Any) -> Any:
        copies = [reg.from_(v, dtype) for _ in range(4)]
        ptx.block.reduce_sum(copies[0], 96)
        ptx.block.reduce_max(copies[1], 96, thread=tid)
        ptx.block.reduce_min(copies[2], 96)
        for _ in ptx.range_(3):
            ptx.block.reduce_sum(copies[3], 96, repeated=True)
        return tuple(copies)

    total, largest, least, thrice = run(body, x, dtype, [dtype] * 4, 96)
    with np.errstate(over="ignore"):
        want = x.sum(dtype=x.dtype)
        assert (total == want).all()
        assert (thrice == want * x.dtype.type(96) * x.dtype.type(96)).all()
    assert (largest == x.max()).all()
    assert (least == x.min()).all()


def test_a_block_reduction_of_one_warp_needs_no_shared_memory() -> None:
    text = ptx_of(lambda: (ptx.block.reduce_sum(reg.scalar(b32, init=1), 32), None)[1])
    assert "bar.sync" not in text
    assert ".shared" not in text


def test_what_is_refused() -> None:
    for call, message in (
        (lambda: ptx.warp.scan_sum(reg.scalar(u64)), "a scan works on f32, u32, s32 and b32 registers, not u64"),
        (lambda: ptx.warp.argmax(reg.scalar(f32), reg.scalar(f32)), "index of warp.argmax is a u32 or s32 register, not a register of f32"),
        (lambda: ptx.warp.ballot(reg.scalar(u32)), "a vote takes a predicate p or ~p, not a register of u32"),
        (lambda: ptx.warp.broadcast(reg.scalar(bf16)), "registers of 32 and 64 bits, not bf16"),
        (lambda: ptx.warp.broadcast(reg.scalar(f32), 8, width=8), "lane 8 is not in a group of 8 lanes"),
        (lambda: ptx.block.reduce_sum(smem.alloc(f32, 4), 64), "not SharedAlloc"),  # pyright: ignore[reportArgumentType]
    ):  # fmt: skip
        with pytest.raises(PTXError) as caught:
            ptx_of(lambda: (call(), None)[1])  # noqa: B023
        assert message in str(caught.value)
    with pytest.raises(ValueError, match="2, 4, 8, 16 or 32 lanes, not 64"):
        ptx_of(lambda: (ptx.warp.broadcast(reg.scalar(f32), width=64), None)[1])
    for threads in (48, 16, 2048, 0):
        with pytest.raises(ValueError, match=f"a multiple of 32 from 32 to 1024, not {threads}"):
            ptx_of(lambda: (ptx.block.reduce_sum(reg.scalar(f32), threads), None)[1])  # noqa: B023
