"""Copies, mbarriers and matrix instructions that work by themselves, against published rates and cycles made by hand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyptx
from pyptx.prediction import layout as m
from pyptx.prediction import sm
from pyptx.prediction.completions import matrix_cycles
from pyptx.prediction.emulation import in_bank
from tests.prediction.test_predict import has_tools, kernel
from tests.prediction.test_sm import PARAMETERS

COPY_LATENCY, WAKE, PORT = 250, 30, 64
GIVEN = PARAMETERS.copy()
GIVEN[[m.P_COPY_LATENCY, m.P_WAKE, m.P_PORT_BYTES, m.P_REMOTE, m.P_MATRIX_SHARED, m.P_MATRIX_LATENCY]] = (
    COPY_LATENCY,
    WAKE,
    PORT,
    180,
    128,
    136,
)


def replayed(instructions: list[dict[str, int]], warps: list[list[tuple[int, ...]]], ranks: int = 1) -> sm.Replayed:
    """What some warps execute: rows of the table, and for each warp its records."""
    records = np.zeros((sum(map(len, warps)), m.RECORD), np.int32)
    for row, values in zip(records, [r for w in warps for r in w], strict=True):
        row[: len(values)] = values
    offsets = np.cumsum([0, *map(len, warps)]).astype(np.int64)
    traces = sm.Traces(records, np.zeros((0, 2), np.int64), offsets, len(warps), ranks=ranks)
    return sm.run(sm.rows(instructions), traces, GIVEN, 1, 1)


@pytest.mark.parametrize("n", [64, 128, 256])
def test_wgmma_takes_half_a_cycle_for_each_column(n: int) -> None:
    """Luo et al. (HOP): m64nNk16 of halves, N / 2 cycles; the four warps of a warpgroup are on the four sub-cores."""
    row = {"unit": m.U_TENSOR, "interval": n // 2, "stall": 1, "kind": m.WARPGROUP_MATRIX, "latency": 24, "groups": 1}
    wait = {"unit": m.Unit.BRANCH, "interval": 1, "stall": 1, "kind": m.WAIT_MATRICES}
    short, long = (replayed([row, wait], [[(0,)] * count + [(1,)] for _ in range(4)]).cycles for count in (20, 60))
    assert (long - short) / 40 == pytest.approx(n / 2, rel=0.01)


PUBLISHED = [
    (64, 0, 48.56), (128, 0, 64.62), (256, 0, 128.61), (64, 1, 32.49), (128, 1, 64.49), (256, 1, 128.49), (64, 2, 43.70), (128, 2, 64.75),
    (256, 2, 128.75), (64, 3, 32.31), (128, 3, 64.31), (256, 3, 128.62),
]  # fmt: skip
"""N, 1 for an operand in tensor memory + 2 for two CTAs, cycles of one tcgen05.mma with 32 bytes of K (lookup1980/microbench-blackwell)."""


@pytest.mark.parametrize(("n", "flags", "cycles"), PUBLISHED)
def test_the_rate_of_tcgen05(n: int, flags: int, cycles: float) -> None:
    assert matrix_cycles(n, flags, GIVEN) == pytest.approx(cycles, rel=0.05)


ISSUE = {"unit": m.Unit.UNIFORM, "interval": 2, "stall": 2}


def test_a_warp_waits_until_the_copy_is_there() -> None:
    """16 KB from L2 at 64 bytes a cycle, its latency and that of the copy, then the warp wakes."""
    bytes = 16384
    producer = [(0, m.MBARRIER_INIT, 0, 1), (0, m.MBARRIER_ARRIVE, 0, 1, bytes), (0, m.TENSOR_LOAD, 0, bytes // 32, 1)]
    consumer = [(0,)] * 4 + [(0, m.MBARRIER_WAIT, 0, 1), (0,)]
    found = replayed([ISSUE], [producer, consumer])
    assert found.cycles == pytest.approx(4 + bytes / 64 + 200 + COPY_LATENCY + WAKE, abs=6)
    assert found.stalls[0, m.S_MBARRIER] > 600


def test_a_multicast_is_read_from_l2_once() -> None:
    """Both CTAs of a cluster wait for the same copy; L2 has given the bytes to one of them."""
    bytes = 16384
    first = [
        (0, m.MBARRIER_INIT, 0, 1),
        (0, m.MBARRIER_ARRIVE, 0, 1, bytes),
        (0, m.TENSOR_LOAD, 0, bytes // 32, 3),
        (0, m.MBARRIER_WAIT, 0, 1),
        (0,),
    ]
    second = [(0, m.MBARRIER_INIT, 128, 1), (0, m.MBARRIER_ARRIVE, 128, 1, bytes), (0, m.MBARRIER_WAIT, 128, 1), (0,)]
    found = replayed([ISSUE], [first, second], ranks=2)
    assert found.out[m.O_L2_BYTES] * 2 == bytes  # of one SM of the two
    assert found.cycles > bytes / 64 + 200 + COPY_LATENCY


def test_parameters_are_aligned_in_the_constant_bank() -> None:
    """ptxas reads a tensor map that follows two numbers at c[0x0][0x280] on sm_90, whose parameters begin at 0x210."""
    raw = bytes(range(8)) + bytes(120) + b"\xff" * 128
    places = [(0, 4, 4), (4, 4, 4), (128, 128, 128)]
    assert in_bank("sm_90a", raw, places) == bytes(range(8)) + bytes(0x280 - 0x210 - 8) + b"\xff" * 128
    assert in_bank("sm_100a", raw, places) == raw


needs_tools = pytest.mark.skipif(not has_tools(), reason="needs ptxas, nvdisasm and llvmlite")


@needs_tools
@pytest.mark.parametrize("by", [3, 7, 11])
def test_a_division_by_a_parameter(by: int) -> None:
    """ptxas divides with a product's upper word and an addend of 64 bits: 32 lanes store to ceil(32 / by) sectors."""
    body = """ld.param.u64 %rd1, [x]; ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x; div.u32 %r1, %r1, %r2;
    mul.wide.u32 %rd2, %r1, 128; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1;"""
    text = kernel(body, ".reg .b32 %r<3>; .reg .b64 %rd<3>;", ".param .u64 x, .param .u32 n")
    found = pyptx.predict(text, np.zeros(4096, np.uint32), by, card="H100 SXM", grid=1, block=32)
    assert found.l2_bytes == -(-32 // by) * 32


def gemm(name: str, size: int, card: str, **options: Any) -> pyptx.prediction.Prediction:
    built = import_module(f"examples.{name}").build(size, size, size, **options)
    a, b, c = (np.zeros((size, size), ml_dtypes.bfloat16) for _ in range(3))
    return pyptx.predict(built, a, b, c, card=card)


@needs_tools
def test_a_specialised_gemm_is_predicted_faster() -> None:
    """As the steps of public GEMMs: the persistent kernel with clusters and copies ahead beats the plain one (fast.cu: 423 against 764
    TFLOPS at a larger size), and none beats the peak of 4096 operations of a clock and SM.
    """
    size = 2048
    fast, plain = gemm("hopper.gemm_highperf", size, "H100 SXM"), gemm("hopper.gemm", size, "H100 SXM")
    assert fast.cycles is not None and plain.cycles is not None
    assert 2 * size**3 / 4096 / 132 < fast.cycles < plain.cycles
    assert not any("not replayed" in note for note in (*fast.notes, *plain.notes))


@needs_tools
@pytest.mark.parametrize("pair", [False, True])
def test_tcgen05_gemms_have_a_time(pair: bool) -> None:
    """Peak of a B200: 8192 operations of a clock and SM."""
    found = gemm("blackwell.gemm", 1024, "B200", pair=pair)
    assert found.cycles is not None and found.cycles > 2 * 1024**3 / 8192 / 148
