"""The replay of one SM, and what memory instructions touch, against cycles and counts made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pyptx.diagnostics import PTXError
from pyptx.prediction import accesses, sm
from pyptx.prediction import layout as replay
from pyptx.prediction.cards import card_of
from pyptx.prediction.native import Ints
from pyptx.prediction.timeline import timeline_of

FFMA = {"unit": replay.Unit.FMA, "interval": 1, "stall": 4}
PARAMETERS = sm.parameters(
    subcores=4, queue=6, address_interval=2, lsu_interval=1, shared_latency=23, l1_latency=33, l2_latency=200, l2_bytes=64,
    dram_latency=250, dram_bytes=10, l1_lines=900, launch=150, barrier_latency=15, matrix_interval=1, tag_interval=1, store_sector=32,
    operand_read=9,
)  # fmt: skip


def run(row: dict[str, int], count: int, warps: int) -> sm.Replayed:
    """`count` times one instruction in each warp of a CTA."""
    records = np.zeros((count * warps, replay.RECORD), np.int32)
    traces = sm.Traces(records, np.zeros((0, 2), np.int64), np.arange(warps + 1, dtype=np.int64) * count, warps)
    return sm.run(sm.rows([row]), traces, PARAMETERS, 1, 1)


@pytest.mark.parametrize(
    ("interval", "warps", "cycles"),
    [
        (1, 1, 99 * 4 + 1),  # a chain: four cycles each (Jia et al. and Abdelkhalik et al.)
        (1, 4, 99 * 4 + 1),  # a warp on each sub-core
        (1, 16, 99 * 4 + 4),  # four warps fill the four cycles
        (1, 32, 800),  # eight warps: one instruction a cycle
        (2, 32, 2 * 800 - 1),  # at half the rate
    ],
)
def test_a_chain_of_ffma(interval: int, warps: int, cycles: int) -> None:
    assert run({**FFMA, "interval": interval}, 100, warps).cycles == cycles


def test_three_sources_of_one_bank_take_three_cycles() -> None:
    """Two banks with one port each (Huerta et al.): R0, R2, R4 are in one, R1 is in the other."""
    same = {**FFMA, "stall": 1, "ports": 1, "source_0": 0}
    table = sm.rows([same])
    table[0, replay.SOURCE_0 :] = 0, 2, 4
    records = np.zeros((100, replay.RECORD), np.int32)
    traces = sm.Traces(records, np.zeros((0, 2), np.int64), np.array([0, 100], np.int64), 1)
    assert sm.run(table, traces, PARAMETERS, 1, 1).cycles == 99 * 3 + 1
    table[0, replay.SOURCE_0 :] = 0, 1, -1
    assert sm.run(table, traces, PARAMETERS, 1, 1).cycles == 100


def test_the_log_has_each_instruction_with_its_waits() -> None:
    """A chain of four cycles each: the second is issued in cycle 4, after three of waiting."""
    records = np.zeros((100, replay.RECORD), np.int32)
    traces = sm.Traces(records, np.zeros((0, 2), np.int64), np.array([0, 100], np.int64), 1)
    found = sm.run(sm.rows([FFMA]), traces, PARAMETERS, 1, 1, log=50)
    assert found.cycles == 99 * 4 + 1 and found.log[:, 2].tolist() == [4 * k for k in range(50)]
    assert found.log[1:, 4].tolist() == [3] * 49 and set(found.log[1:, 3]) == {replay.Stall.FIXED_LATENCY}
    shown = timeline_of(found.log, [s.name for s in replay.Stall], 1, "k", "card", "")
    (row,) = shown.cells.tolist()
    assert shown.cycles == len(row) == 197 and [shown.names[k] for k in row[:5]] == [
        "issues",
        *["FIXED_LATENCY"] * 3,
        "issues",
    ]
    assert shown._repr_html_().count("<rect") == 99 and "197 cycles" in str(shown)
    assert len(sm.run(sm.rows([FFMA]), traces, PARAMETERS, 1, 1).log) == 0


LANES = np.arange(32)


@pytest.mark.parametrize(
    ("addresses", "sectors", "lines"),
    [
        (4 * LANES, 4, 1),
        (4 * LANES + 64, 4, 2),
        (8 * LANES, 8, 2),
        (128 * LANES, 32, 32),
        (0 * LANES, 1, 1),
        (32 * LANES, 32, 8),
    ],
)
def test_coalescing(addresses: Ints, sectors: int, lines: int) -> None:
    """Sectors of 32 bytes and lines of 128 (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory")."""
    out, found = np.zeros(256, np.int64), np.zeros(8, np.int64)
    assert accesses.coalesce.native(addresses.astype(np.int64), 0xFFFFFFFF, out, 0, found) == lines
    assert found.tolist()[:2] == [sectors, lines]


@pytest.mark.parametrize(
    ("addresses", "width", "passes"),
    [
        (4 * LANES, 4, 1),
        (8 * LANES, 4, 2),
        (128 * LANES, 4, 32),
        (132 * LANES, 4, 1),
        (0 * LANES, 4, 1),
        (16 * LANES, 16, 4),
        (8 * LANES, 8, 2),
        (0 * LANES, 16, 1),
    ],
)
def test_bank_conflicts(addresses: Sequence[int], width: int, passes: int) -> None:
    """32 banks of 4 bytes; words that several lanes want are read once (CUDA C++ Programming Guide, "Shared Memory")."""
    scratch = np.zeros(accesses.SCRATCH, np.int64)
    assert accesses.wavefronts.native(np.asarray(addresses, np.int64), 0xFFFFFFFF, width, scratch) == passes


def test_unknown_cards_are_refused_with_those_that_are_known() -> None:
    assert card_of("h100 sxm5").sms.value == 132
    with pytest.raises(PTXError, match=r"'H1000' is not a known card: .*RTX A6000"):
        card_of("H1000")
