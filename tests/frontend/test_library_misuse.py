"""What a kernel of several threads, a format and a ring of stages are given by mistake: refused at the line, with what to write."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import pyptx
from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.diagnostics import PTXError
from pyptx.reg import Reg
from pyptx.types import f32


def value() -> Reg:
    return reg.scalar(f32, init=1.0)


def traced(body: Callable[[], object], block: object = (128, 1, 1)) -> str:
    @kernel(arch="sm_90a", in_specs=(), out_specs=(Tile(512, f32),), grid=1, block=block)
    def k(out):  # pyright: ignore[reportMissingParameterType, reportUnusedParameter]
        body()

    return k.ptx()


def read_a_stage() -> object:
    ring = smem.alloc(f32, (3, 32))
    stage = ptx.Pipeline(3, bytes=ring).consumer().wait()
    return ring[stage, 0]  # pyright: ignore[reportArgumentType]


CASES: list[tuple[Callable[[], object], object, str, str]] = [
    (lambda: ptx.block.reduce_sum(value(), 64), 128, "64 threads, .* has 128", "threads=128"),
    (lambda: ptx.block.reduce_max(value(), 256), (32, 4), "256 threads, .* has 128", "threads=128"),
    (lambda: ptx.block.reduce_min(value(), 128), (32, 4), "more than one dimension", r"thread=tid\.x"),
    (lambda: ptx.block.sum, 128, "ptx.block has no 'sum'", "reduce_sum"),
    (lambda: ptx.math.sqrt, 128, "ptx.math has no 'sqrt'", "rsqrt"),
    (lambda: math.exp(value()), 128, "no value while", r"ptx\.math\.exp"),
    (lambda: np.log(value()), 128, "np.log of a register", r"ptx\.math\.exp, log"),
    (lambda: value() ** 3, 128, r"no \*\*", r"ptx\.math\.exp"),
    (lambda: ptx.printf(f"{value()}\n"), 128, "name of the register %f0", r'ptx\.printf\("thread'),
    (lambda: ptx.printf(f"thread {ptx.special.tid.x()}"), 128, r"name of the register %tid\.x", "values follow"),
    (lambda: ptx.printf("%5000d", 1), 128, "at most 4095 characters", "%8d"),
    (lambda: ptx.printf("%f", 10**400), 128, "too large for %f", "1.8e308"),
    (lambda: ptx.warp.broadcast(value(), 5.0), 128, "int or a 32-bit integer register, not 5.0", "warp.broadcast"),  # pyright: ignore[reportArgumentType]
    (lambda: ptx.warp.broadcast(value(), np.int64(40)), 128, "lane 40 is not in a group of 32", "0 to 31"),  # pyright: ignore[reportArgumentType]
    (lambda: ptx.warp.broadcast(value(), value()), 128, "not f32", "integer register"),
    (lambda: [i for i in ptx.range_(2**31)], 128, "bound of range_ is 2147483648", "2147483647"),
    (lambda: list(ptx.range_(2**31 - 2, 2**31 - 1, 5)), 128, "never ends", "sum lies in"),
    (lambda: [i * i for _ in (0,) for i in ptx.range_(5)], 128, "a comprehension would see one round", "range_"),
    (lambda: ptx.Pipeline(2, bytes=3.5), 128, "an int, an allocation or a list of them, not 3.5", "bytes"),  # pyright: ignore[reportArgumentType]
    (lambda: ptx.Pipeline(2, bytes=8, name="a b"), 128, "an identifier such as weights, not 'a b'", "name"),
    (read_a_stage, 128, "a stage of a pipeline", r"stage\.index"),
]


@pytest.mark.parametrize(("body", "block", "message", "cure"), CASES)
def test_refused_with_a_cure(body: Callable[[], object], block: object, message: str, cure: str) -> None:
    with pytest.raises(PTXError, match=message) as caught:
        traced(body, block)
    assert __file__ in str(caught.value)
    assert caught.match(cure)


@pytest.mark.parametrize("block", [128, (32, 4), lambda: 128])
def test_reductions_that_fit_the_block(block: object) -> None:
    """Every thread counts itself; the sum over all threads is their number."""

    @kernel(arch="sm_90a", in_specs=(), out_specs=(Tile(128, f32),), grid=1, block=block)
    def count(out):  # pyright: ignore[reportMissingParameterType]
        x, y, width = ptx.special.tid.x(), ptx.special.tid.y(), ptx.special.ntid.x()
        thread = x + y * width
        (ptx.pointer(out) + thread).store(ptx.block.reduce_sum(value(), 128, thread=thread))

    out = np.full(128, np.nan, np.float32)
    report = pyptx.simulate(count, out)
    assert out.tolist() == [128.0] * 128
    assert report.findings == []


def test_percent_signs_and_digits_are_no_registers() -> None:
    assert "vprintf" in traced(lambda: ptx.printf("100%% of %d1\n", 5))


def test_rings_have_names_of_their_own() -> None:
    """Findings name barriers by them."""

    def two() -> None:
        ring = smem.alloc(f32, (3, 32))
        ptx.Pipeline(3, bytes=ring).init()
        ptx.Pipeline(2, bytes=[smem.alloc(f32, (2, 8))], name="weights").init()
        ptx.Pipeline(2, bytes=64).init()

    text = traced(two)
    for name in ("pipe_full", "pipe_empty", "weights_full", "weights_empty", "pipe1_full", "pipe1_empty"):
        assert f" {name}[" in text
