"""The replay of one SM from Python: arrays in, what happened out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..diagnostics import SimulationError
from . import layout as sm
from .native import Halves, Ints, Reals
from .replay import replay


@dataclass(frozen=True)
class Traces:
    """What the warps of some CTAs execute."""

    records: Halves
    """(instructions, `replay.RECORD`)"""
    lines: Ints
    """(touched lines, 2): the number of a 128-byte line, and which of its sectors."""
    offsets: Ints
    """Where the records of each warp begin, and the end of the last."""
    warps: int
    """Of a CTA, or of the CTAs of a cluster together."""
    touches: Sequence[int] = ()
    ranks: int = 1
    """CTAs of a cluster, each on an SM of its own: all that is said of a CTA here is of the cluster."""
    """Touched lines of each CTA."""

    @property
    def ctas(self) -> int:
        return (len(self.offsets) - 1) // self.warps


@dataclass(frozen=True)
class Replayed:
    cycles: int
    issued: int
    ends: Ints
    """The cycle after the last instruction of each CTA."""
    out: Reals
    stalls: NDArray[np.float64]
    """(instructions, reasons): cycles that warps waited before them."""
    log: NDArray[np.float64]
    """(instructions of warps, `LOG_FIELDS`), as far as there was room for them."""


MOST_LINES = 1 << 22
"""Lines of L1 that a replay tells apart; CTAs past those that fit into it touch lines of earlier ones again."""


def _line_numbers(traces: Traces) -> tuple[Ints, int, int]:
    """The touched lines by number, those first that several CTAs touch; how many those are; how many there are."""
    touched = np.ascontiguousarray(traces.lines)
    if not len(touched):
        return np.zeros((0, 2), np.int64), 0, 0
    ids, at = np.unique(touched[:, 0], return_inverse=True)
    owner = np.repeat(np.arange(len(traces.touches)), traces.touches)
    low, high = np.full(len(ids), len(touched)), np.full(len(ids), -1)
    np.minimum.at(low, at, owner)
    np.maximum.at(high, at, owner)
    order = np.argsort(low == high, kind="stable")
    number = np.empty(len(ids), np.int64)
    number[order] = np.arange(len(ids))
    return np.ascontiguousarray(np.stack([number[at], touched[:, 1]], 1), np.int64), int((low != high).sum()), len(ids)


def run(table: Ints, traces: Traces, given: Reals, ctas: int, resident: int, log: int = 0) -> Replayed:
    """`ctas` CTAs on one SM, at most `resident` at a time; CTAs past those that were traced repeat them in turn. `log`: so many
    instructions of warps are told one by one.
    """
    known, per_cta = traces.ctas, traces.warps
    numbers = np.arange(ctas)[:, None] % known * per_cta + np.arange(per_cta)[None, :]
    renumbered, private, count = _line_numbers(traces)
    copies = max(1, min(-(-ctas // known), MOST_LINES // max(count, 1)))
    parameters = given.copy()
    ranks = traces.ranks
    parameters[[sm.P_RANKS, sm.P_CTA_WARPS]] = ranks, per_cta // ranks
    parameters[sm.P_SUBCORES] *= ranks
    parameters[sm.P_L1_LINES] *= ranks
    mbarriers = (
        ctas * ranks * sm.MBARRIERS * sm.MBARRIER if (traces.records[:, sm.ACCESS] >= sm.MBARRIER_INIT).any() else 0
    )
    parameters[[sm.P_PRIVATE, sm.P_TRACED, sm.P_COPIES, sm.P_LINES]] = private, known, copies, count
    touches = int(np.bincount(numbers[:, 0] // per_cta, minlength=known).max()) * max(len(renumbered), 1)
    out = np.zeros(sm.RESULTS)
    first = sm.LOG_HEAD + len(table) * sm.REASONS
    stalls = np.zeros(first + log * sm.LOG_FIELDS)
    stalls[[sm.LOG_ROOM, sm.LOG_AT]] = log, first
    ends = np.zeros(ctas, np.int64)
    cycles = replay.native(
        np.ascontiguousarray(table), np.ascontiguousarray(traces.records), renumbered, traces.offsets,
        np.ascontiguousarray(numbers.reshape(-1), np.int32), ctas, per_cta, resident, parameters,
        np.zeros(ctas * per_cta * sm.WARP, np.int64), np.zeros(4 * ranks * sm.SUB, np.int64), np.zeros(ctas * ranks, np.int64),
        np.zeros(ctas * ranks * sm.BARRIERS, np.int64), np.zeros(max(count * copies, 1) * sm.LINE, np.int64),
        np.zeros(2 * touches + 2, np.int64), np.zeros(4, np.int64), np.zeros(ranks * sm.SERVERS), np.zeros(mbarriers + 8, np.int64),
        np.zeros(sm.EV_FIRST + sm.EVENT * sm.EVENTS, np.int64), np.zeros(8, np.int64), stalls, out, ends,
    )  # fmt: skip
    if cycles < 0:
        raise SimulationError("the replay of one SM does not end: its warps wait for each other")
    waits = stalls[sm.LOG_HEAD : first].reshape(-1, sm.REASONS)
    logged = stalls[first:].reshape(-1, sm.LOG_FIELDS)[: int(stalls[sm.LOG_COUNT])]
    out[sm.O_ISSUED :] /= ranks
    return Replayed(cycles, int(out[sm.O_ISSUED]), ends, out, waits, logged)


def parameters(**values: float) -> Reals:
    """The array of parameters from their names in lower case, without `P_`."""
    found = np.zeros(sm.PARAMETERS)
    found[sm.P_RANKS] = 1
    for name, value in values.items():
        found[getattr(sm, f"P_{name.upper()}")] = value
    return found


def rows(columns: Sequence[dict[str, int]]) -> Ints:
    """A table of instructions from dictionaries of its columns; what is left out is "none"."""
    table = np.zeros((len(columns), sm.COLUMNS), np.int64)
    table[:, [sm.WRITE_BARRIER, sm.READ_BARRIER]] = 7
    table[:, sm.SOURCE_0 :] = -1
    for row, values in zip(table, columns, strict=True):
        for name, value in values.items():
            row[getattr(sm, name.upper())] = value
    return table
