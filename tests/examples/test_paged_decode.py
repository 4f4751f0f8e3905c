"""Attention over a paged cache against float64: groups of heads, splits without pages, NaN after the last token; no spills, no bank conflicts."""

from __future__ import annotations

import pytest

from examples.ampere import paged_decode
from pyptx.runtime.ptxas import assemble


@pytest.mark.parametrize(("size", "splits"), [((8, 2, 64), 4), ((3, 3, 128), 1), ((16, 1, 64), 7)])
def test_results(size: tuple[int, int, int], splits: int) -> None:
    assert paged_decode.check(*size, splits=splits) <= paged_decode.limit(*size)


def test_machine_code() -> None:
    made = paged_decode.build(16, 1, 128)
    result = assemble(made.ptx(), made.arch)
    assert result.ok
    assert result.diagnostics == ()
    assert result.usage["decode"].spill_stores == result.usage["decode"].spill_loads == 0
    known = [use.ways for use in made.report(SEQUENCES=1, PAGES=1, WIDTH=1).analysis.banks if use.ways is not None]
    assert known
    assert max(known) == 1
    assert paged_decode.build_combine(16, 128).check() == []


def test_sizes_that_it_is_not_made_for() -> None:
    for size in ((3, 2, 64), (17, 1, 64), (4, 4, 96)):
        with pytest.raises(ValueError, match="1 to 16 query heads share a key head of 64 or 128"):
            paged_decode.build(*size)
