"""The cases of `tests/filecheck/errors`: ptxas refuses every line, and the kinds that it refuses most often all have one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.messages import cases, kind_of
from pyptx.runtime.ptxas import ToolNotFound, find_tool

MOST_COMMON = 40
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "verdicts.md"


@pytest.fixture(scope="module")
def kinds() -> dict[str, str]:
    """Place of a case -> the kind of ptxas's message."""
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    return cases()


def test_ptxas_refuses_every_case(kinds: dict[str, str]) -> None:
    assert len(kinds) > 180
    assert [place for place, kind in kinds.items() if not kind] == []


def test_the_most_common_kinds_have_the_case_that_the_docs_name(kinds: dict[str, str]) -> None:
    rows = re.findall(r"^\| (\d+) \| `(.+)` \| (\d+) \| (\S+) \|$", PAGE.read_text(), re.M)
    assert [int(rank) for rank, *_ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= MOST_COMMON
    counts = [int(count) for _, _, count, _ in rows]
    assert counts == sorted(counts, reverse=True)
    assert [(kind, kinds.get(place)) for _, kind, _, place in rows] == [(kind, kind) for _, kind, _, _ in rows]


def test_kinds_have_no_names() -> None:
    first = "Modifier '.relaxed' cannot be applied to '.const' space for instruction 'ld'"
    assert kind_of(first) == kind_of(first.replace("relaxed", "acquire").replace("const", "param"))
    assert kind_of("Operation .and requires .b32 or .b64 type") == kind_of("Operation .dec requires .u32 type")
    assert kind_of("requires .target sm_90 or higher") == kind_of("requires .target sm_100a or higher")
    assert kind_of("requires PTX ISA .version 8.1 or later") == kind_of("requires PTX ISA .version 9.4 or later")
