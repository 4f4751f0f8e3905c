"""One changed token in a real file: what ptxas rejects, we reject."""

from __future__ import annotations

import pytest

from benchmarks.corruptions import measure, sample
from pyptx.runtime.ptxas import ToolNotFound, find_tool


def test_corrupted_files_are_rejected() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    tally, misses, _ = measure(sample(6, own=True), per_file=30, seed=7)
    assert tally.rejected > 100, "hardly any corruption was an error: the generator is broken"
    shown = [f"{c.before} -> {c.after}: {m}" for cases in misses.values() for c, m in cases]
    assert tally.missed <= 0.02 * tally.rejected, "\n".join(shown)
