"""Errors of kernels whose rows no fitted constant has seen: each constant is fitted again without the rows of the kernel.

Those constants scale a term that is known, so that a row needs no second prediction: the time between launches is added, and the time of a kernel that
DRAM binds is in inverse proportion to the share of the bandwidth that is reached. The lanes of the memory pipe (16 or 32) and
the law of the clock under the power limit are not fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

__all__ = ["Row", "left_out"]

DRAM_BUSY = 0.85
"""Kernels whose DRAM is busy for this share of the time are bound by it."""
SHORT_US = 20.0
"""Of the rows that the time between launches is fitted on."""


@dataclass(frozen=True)
class Row:
    kernel: str
    measured_us: float
    predicted_us: float
    launch_us: float
    """The part of the prediction that is the time between launches."""
    dram_busy: float
    dram_share: float
    """Of the bandwidth, as the prediction has it."""
    dram_group: str
    """Rows whose share of the bandwidth is the same constant."""
    on_known_card: bool = True
    """No constant is fitted on rows whose author does not name the card."""

    @property
    def bound(self) -> bool:
        return self.dram_busy >= DRAM_BUSY

    @property
    def work_us(self) -> float:
        return self.predicted_us - self.launch_us


def left_out(rows: Sequence[Row]) -> list[float]:
    """For each row, predicted over measured time with the constants that the rows of other kernels give."""
    return [
        _without(row, [other for other in rows if other.on_known_card and other.kernel != row.kernel]) for row in rows
    ]


def _without(row: Row, others: Sequence[Row]) -> float:
    short = [other for other in others if other.measured_us < SHORT_US and not other.bound]
    launch = median(other.measured_us - other.work_us for other in short) if short else 0.0
    work = row.work_us
    if row.bound:
        work *= row.dram_share / _share(row, others)
    return (max(0.0, launch) + work) / row.measured_us


def _share(row: Row, others: Sequence[Row]) -> float:
    """The share of the bandwidth that brings the geometric mean of the others to 1; the whole bandwidth if the row is the only one."""
    group = [other for other in others if other.bound and other.dram_group == row.dram_group]
    if not group:
        return 1.0
    off = math.exp(fmean(math.log(other.predicted_us / other.measured_us) for other in group))
    return min(1.0, row.dram_share * off)
