"""Our verdicts against ptxas's over the whole probed table (33,688 instances, all targets, five versions)."""

from __future__ import annotations

import pytest

from benchmarks.verdicts import Agreement, compare, load


@pytest.fixture(scope="module")
def agreement() -> Agreement:
    return compare(load())


def test_the_table_is_whole(agreement: Agreement) -> None:
    assert agreement.instances == 33_688
    assert len(agreement.families) > 140
    assert sum(t.accepted for t in agreement.families.values()) > 300_000
    assert sum(t.rejected for t in agreement.families.values()) > 1_000_000


def test_false_accepts_and_false_rejects_are_rare(agreement: Agreement) -> None:
    false_accepts, false_rejects = agreement.means
    shown = "\n".join(text for text, _, _ in agreement.wrong[:10])
    assert false_accepts <= 0.1, shown
    assert false_rejects <= 0.1, shown


def test_no_family_is_left_behind(agreement: Agreement) -> None:
    bad = {name: tally.rates for name, tally in agreement.families.items() if max(tally.rates) > 1}
    assert not bad
