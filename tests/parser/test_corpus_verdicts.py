"""Every corpus file gets ptxas's verdict (the manifest has it)."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyptx

from ..conftest import CORPUS

HAND_REJECTED = {"global_2d_init.ptx", "neg_float_lit.ptx"}
"""The two hand-written files that ptxas rejects (README of the corpus)."""


def read(path: Path) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def errors(path: Path) -> list[str]:
    return [d.render() for d in pyptx.diagnose(read(path)) if d.severity == "error"]


@pytest.mark.corpus
def test_compiler_output_is_judged_as_ptxas_judges_it(corpus_dir: Path) -> None:
    rows = [line.split("\t") for line in (corpus_dir / "manifest.tsv").read_text().splitlines()[1:]]
    assert len(rows) > 300
    wrong: list[str] = []
    for name, _, _, _, verdict in rows:
        found = errors(corpus_dir / name)
        if bool(found) == (verdict == "ok"):
            wrong.append(f"{name}: ptxas {verdict}, we {found[0] if found else 'accept it'}")
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.corpus
def test_hard_files_are_judged_as_ptxas_judges_them(corpus_dir: Path) -> None:
    paths = sorted((corpus_dir / "hard").rglob("*.ptx"))
    assert len(paths) > 50
    rejected = {path.name for path in paths if errors(path)}
    assert rejected == HAND_REJECTED
    assert CORPUS == corpus_dir
