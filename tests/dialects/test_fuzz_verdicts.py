"""Some seconds of random instructions: every disagreement with ptxas is of an explained kind."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.explained import EXPLAINED, Disagreement, explanation
from benchmarks.fuzz_verdicts import rounds
from pyptx.runtime.ptxas import ToolNotFound, find_tool

ROUNDS = 3
SIZE = 2000


def test_random_instructions_are_judged_as_ptxas_judges_them() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    accepted = 0
    wrong: list[Disagreement] = []
    for _, legal, found in islice(rounds(seed=20, size=SIZE), ROUNDS):
        accepted += legal
        wrong += [d for d in found if explanation(d) is None]
    assert accepted > 750, "hardly anything was legal: the generator is broken"
    assert not wrong, "\n".join(f"{d.kind}\n    {d.version} {d.target} {d.text}" for d in wrong[:20])


def test_every_explained_kind_has_a_reason_in_the_docs() -> None:
    from pathlib import Path

    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "verdicts.md").read_text()
    for kind in EXPLAINED:
        assert kind.reason
        assert kind.kind in page, f"docs/verdicts.md does not list {kind.kind!r}"
