"""Instructions of PTX 9.4 and 9.5 that move data: ours and ptxas's verdicts on every target, one line of each form."""

from __future__ import annotations

import pytest

from benchmarks.fuzz_verdicts import TARGETS, asked, ours
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version
from pyptx.runtime.ptxas import ToolNotFound, find_tool

VERSIONS = ("9.2", "9.3", "9.4", "9.5")
LINES = (
    "spcompress.b8.b2.sp::2:4.x1 {%r1}, {%r2}, {%r3, %r4}, %r5;",
    "spcompress.b16.b4.sp::2:4.x2 {%r1}, {%r2, %r6}, {%r3, %r4, %r5, %r7}, %r5;",
    "spdecompress.b8.b2.sp::2:4.x1 {%r1}, {%r2}, {%r3};",
    "spdecompress.b16.b4.sp::1:16.x1 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r8}, {%r9};",
)


@pytest.mark.parametrize("version", VERSIONS)
def test_ours_are_those_of_ptxas(version: str) -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    accepted: set[str] = set()
    for target in (t for t in TARGETS if FIRST_PTX[t] <= parse_version(version)):
        theirs, mine = asked(list(LINES), version, target), ours(list(LINES), version, target)
        for line, refused, wrong in zip(LINES, theirs, mine, strict=True):
            assert bool(wrong) == bool(refused), (version, target, line, refused, wrong)
            if not refused:
                accepted.add(line)
    if version == "9.5":
        assert accepted == set(LINES)


def test_sizes_of_compressed_vectors() -> None:
    """Every combination of modifiers: which exist and how many registers each vector has."""
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    names = lambda n, first: "{" + ", ".join(f"%r{first + i}" for i in range(n)) + "}"  # noqa: E731
    lines: list[str] = []
    for bits in (8, 16):
        for index in (2, 4):
            for repeat in (1, 2, 4, 8, 16, 32, 64):
                meta = -(-repeat * index // bits)
                lines += [
                    f"spcompress.b{bits}.b{index}.sp::2:4.x{repeat}"
                    f" {names(m, 0)}, {names(repeat, 100)}, {names(2 * repeat, 200)}, %r1;"
                    for m in (meta, meta + 1)
                ]
                for factor in "1:2 1:4 1:8 1:16 2:4 2:8 2:16 4:8 4:16 4:4 8:16".split():
                    kept, size = map(int, factor.split(":"))
                    dense, meta, few = (-(-n * repeat // 32) for n in (size * bits, kept * index, kept * bits))
                    lines += [
                        f"spdecompress.b{bits}.b{index}.sp::{factor}.x{repeat}"
                        f" {names(min(n, 128), 0)}, {names(meta, 200)}, {names(few, 300)};"
                        for n in (dense, dense + 1)
                    ]
    theirs, mine = asked(lines, "9.4", "sm_107a"), ours(lines, "9.4", "sm_107a")
    different = [line for line, a, b in zip(lines, theirs, mine, strict=True) if bool(a) != bool(b)]
    assert not different, different[:3]
    assert sum(not a for a in theirs) > 150
