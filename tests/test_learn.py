"""The home page and the chapters of docs/learn: each program runs without a finding, each mistake is told as the page shows, each picture is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyptx import Tile, diagnose, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f32, pred, s32
from tests.lessons import CHAPTERS, DOCS, PAGES, mistakes_of, name_of, program_of, run, shown

AGAIN = "run python -m tests.lessons"


def test_there_are_ten_chapters() -> None:
    assert [int(p.name[:2]) for p in CHAPTERS] == list(range(1, 11))
    index = (DOCS / "learn" / "index.md").read_text()
    assert re.findall(r"\((\d\d-[\w-]+\.md)\)", index) == [p.name for p in CHAPTERS]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page(page: Path, tmp_path: Path) -> None:
    assert run(program_of(page), name_of(page), tmp_path) == ""
    pictures = {p.name: p.read_text() for p in tmp_path.glob("*.svg")}
    assert pictures.keys() == set(re.findall(r"\((\S+\.svg)\)", page.read_text()))
    assert pictures == {name: (page.parent / name).read_text() for name in pictures}, AGAIN
    mistakes = mistakes_of(page)
    assert len(mistakes) == page.read_text().count("```diff\n") >= 1
    for program, said in mistakes:
        assert said.strip() and said == shown(run(program, name_of(page), tmp_path)), AGAIN


def test_each_page_is_in_the_navigation() -> None:
    listed = re.findall(r": (\S+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))


def test_python_blocks_are_python() -> None:
    """On the pages that a person wrote; those of the reference are signatures."""
    for page in (p for p in DOCS.rglob("*.md") if p.parent.name != "reference"):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
            compile(block, page.name, "exec")


PHRASES = re.findall(
    r"^\|(?:[^|]*\|){3} `(.*)` \|$", (DOCS / "phrasebook.md").read_text().partition("## Running")[0], re.M
)


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrase(phrase: str) -> None:
    """It is a statement of a kernel."""

    @kernel(arch="sm_90a", in_specs=[Tile(64, 64, f32, tma_box=(32, 32))], out_specs=[], grid=1, block=128)
    def program(x):
        bar = smem.mbarrier(1)[0]
        ptx.mbarrier.init(bar, 1)
        names = {
            "ptx": ptx, "reg": reg, "smem": smem, "kernel": kernel, "x": x, "p": ptx.pointer(x), "s": smem.alloc(f32, (32, 32)),
            "bar": bar, "v": reg.scalar(f32, init=0.0), "n": reg.scalar(s32, init=1),
            "q": reg.scalar(pred), "d": reg.mma_frag("D", (16, 8, 16), f32, init=0.0), "a": reg.array(b32, 4, init=0),
            "b": reg.array(b32, 2, init=0), "b32": b32, "bf16": bf16, "f32": f32, "s32": s32,
        }  # fmt: skip
        exec(phrase, names)

    found = [d.message for d in diagnose(program.ptx()) if d.severity == "error"]
    assert found == []


def test_there_are_phrases_of_each_kind() -> None:
    assert len(PHRASES) > 40 and "ptx.bar.sync(0)" in PHRASES
