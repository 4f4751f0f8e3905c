"""Random small modules of directives, and edits of them: every disagreement with ptxas is of an explained kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz_directives import EXPLAINED, explanation, measure
from benchmarks.module_areas import AREAS
from pyptx.runtime.ptxas import ToolNotFound, find_tool

MODULES = 500


def test_random_modules_are_judged_as_ptxas_judges_them() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    measured = measure(MODULES, seed=2)
    assert set(measured.areas) == set(AREAS)
    assert measured.accepted > MODULES / 8, "hardly anything was legal: the generator is broken"
    wrong = [d for d in measured.found if explanation(d) is None]
    assert not wrong, "\n\n".join(
        f"ptxas {'accepts' if d.accepted else 'rejects'}: {d.message}\n{d.text}" for d in wrong[:5]
    )


def test_every_explained_kind_is_in_the_docs() -> None:
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "verdicts.md").read_text()
    for kind in EXPLAINED:
        assert kind.kind in page, f"docs/verdicts.md does not list {kind.kind!r}"
        assert kind.reason
