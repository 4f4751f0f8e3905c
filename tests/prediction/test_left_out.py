"""Constants that are fitted without a kernel's rows: measurements that a law makes are met exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.prediction_left_out import Row, left_out

LAUNCH, SHARE = 2.0, 0.8
"""Of the law."""


def row(kernel: str, work: float, *, bound: bool = False) -> Row:
    """The law's time, and a prediction with a launch of 1.2 us and a share of 0.9."""
    measured = LAUNCH + work / (SHARE if bound else 1)
    predicted = 1.2 + work / (0.9 if bound else 1)
    return Row(kernel, measured, predicted, 1.2, 1.0 if bound else 0.1, 0.9, "0.9 writes")


def test_the_constants_of_other_kernels_are_found() -> None:
    rows = [row("a", 3), row("b", 9), row("c", 5e5, bound=True), row("d", 7e5, bound=True)]
    assert left_out(rows) == pytest.approx([1] * 4, rel=1e-5)


def test_a_kernel_does_not_see_its_own_rows() -> None:
    rows = [row("a", 3), row("b", 9), row("c", 5e5, bound=True), row("c", 7e5, bound=True)]
    assert left_out(rows)[2:] == pytest.approx([SHARE] * 2, rel=1e-4)
    unknown = [*rows, replace(row("d", 7e5, bound=True), on_known_card=False)]
    assert left_out(unknown)[2:4] == pytest.approx([SHARE] * 2, rel=1e-4)
    assert left_out(unknown)[4] == pytest.approx(1, rel=1e-4)
