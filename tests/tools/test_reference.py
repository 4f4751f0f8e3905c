"""The committed reference and stubs are what the op classes say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pyptx.frontend
from pyptx.dialects.ptx.instruction import MANUAL, OPCODES
from pyptx.frontend.core.instructions import inst
from pyptx.tools.reference import chapters, doc_of, main, newer_than_the_manual, pages, python_path, stubs

ROOT = Path(__file__).resolve().parent.parent.parent


def test_reference_is_up_to_date() -> None:
    written = {p.name: p.read_text() for p in (ROOT / "docs" / "reference").glob("*.md")}
    assert written == pages(), "run python -m pyptx.tools.reference docs/reference"


def test_stubs_are_up_to_date() -> None:
    path = Path(pyptx.frontend.__file__).parent / "core" / "inst_stubs.pyi"
    assert path.read_text() == stubs(), "run python -m pyptx.tools.reference --stubs pyptx/frontend/core/inst_stubs.pyi"


def test_every_instruction_is_documented() -> None:
    text = "".join(pages().values())
    for opcode, cls in OPCODES.items():
        assert f"## {opcode}\n" in text
        assert len(doc_of(cls)) > 10, f"{opcode} has no docstring"
        assert cls.section, f"{opcode} has no section of the manual"
    assert sum(map(len, chapters().values())) == len(OPCODES)


@pytest.mark.parametrize("opcode", ["add", "and", "mbarrier.try_wait", "cp.async.bulk.tensor", "fence.proxy"])
def test_python_paths_lead_to_the_instruction(opcode: str) -> None:
    path = inst
    for word in python_path(opcode).split("."):
        path = getattr(path, word)
    assert repr(path) == f"ptx.inst.{opcode}"


def test_the_command_writes_pages_and_removes_old_ones(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("old")
    assert main([str(tmp_path)]) == 0
    assert not (tmp_path / "gone.md").exists()
    assert (tmp_path / "integer.md").read_text() == pages()["integer.md"]
    assert main([]) == 2


CHAPTERS = {
    "async_copy": {"9.7.10", "9.7.15.16"},
    "atomic": {"9.7.10", "9.7.15"},
    "barrier": {"9.7.15"},
    "cluster": {"9.7.15"},
    "comparison": {"9.7.7"},
    "control": {"9.7.14"},
    "conversion": {"9.7.10"},
    "extended": {"9.7.2"},
    "fabric": {"9.7.11.5"},
    "floating": {"9.7.3"},
    "integer": {"9.7.1"},
    "logic": {"9.7.9"},
    "matrix": {"9.7.16"},
    "mbarrier": {"9.7.15.16"},
    "misc": {"9.7.21"},
    "move": {"9.7.10"},
    "movement": {"9.7.10", "9.7.12"},
    "sparsity": {"9.7.10"},
    "stack": {"9.7.19"},
    "surface": {"9.7.13"},
    "tcgen05": {"9.7.18"},
    "tensor_map": {"9.7.10", "9.7.15"},
    "texture": {"9.7.12"},
    "video": {"9.7.20"},
    "warp": {"9.7.10", "9.7.15"},
    "wgmma": {"9.7.17"},
}
"""Our chapters -> those of the PTX ISA manual 9.4, from its table of contents."""


def test_sections_lie_in_the_chapters_of_the_manual() -> None:
    new = newer_than_the_manual()
    for name, classes in chapters().items():
        for cls in classes:
            if cls in new:
                assert any(f"{c}.".startswith(f"{cls.section}.") for c in CHAPTERS[name]), cls.opcode
            else:
                assert re.fullmatch(r"9\.7\.[1-9]\d*(\.[1-9]\d*)+", cls.section), cls.opcode
                assert any(cls.section.startswith(f"{c}.") for c in CHAPTERS[name]), cls.opcode


def test_one_section_is_one_instruction_of_the_manual() -> None:
    """Opcodes that share a section share their first words or are listed together there, as `prefetch, prefetchu` are."""
    together = {"bar barrier", "membar fence", "prefetch prefetchu", "vadd vsub vabsdiff vmin vmax", "vshl vshr",
                "vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2", "vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4"}  # fmt: skip
    sections: dict[str, dict[str, None]] = {}
    for opcode, cls in OPCODES.items():
        if cls not in newer_than_the_manual():
            sections.setdefault(cls.section, {})[opcode.split(".")[0]] = None
    shared = {" ".join(words) for words in sections.values() if len(words) > 1}
    assert shared == together


def test_the_index_names_the_version_of_the_sections() -> None:
    assert f"manual {'.'.join(map(str, MANUAL))}" in pages()["index.md"]
    assert [c.opcode for c in newer_than_the_manual()] != []


CITED = re.compile(r"(?<![\w.@:/\"'-])9\.7\.(\d+)(?:\.\d+)*(?![\w-])")


@pytest.mark.parametrize("folder", ["pyptx", "docs", "examples", "tests"])
def test_cited_sections_exist(folder: str) -> None:
    """The manual's instructions are in 21 chapters (9.7.1 to 9.7.21)."""
    for path in (ROOT / folder).rglob("*.*"):
        if path.suffix in {".py", ".pyi", ".md"}:
            for cited in CITED.finditer(path.read_text()):
                assert 1 <= int(cited[1]) <= 21, f"{path}: {cited[0]}"
