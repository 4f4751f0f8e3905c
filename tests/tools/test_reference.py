"""The committed reference and stubs are what the op classes say."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyptx.frontend
from pyptx.dialects.ptx.instruction import OPCODES
from pyptx.frontend.instructions import inst
from pyptx.tools.reference import chapters, doc_of, main, pages, python_path, stubs

ROOT = Path(__file__).resolve().parent.parent.parent


def test_reference_is_up_to_date() -> None:
    written = {p.name: p.read_text() for p in (ROOT / "docs" / "reference").glob("*.md")}
    assert written == pages(), "run python -m pyptx.tools.reference docs/reference"


def test_stubs_are_up_to_date() -> None:
    path = Path(pyptx.frontend.__file__).parent / "inst_stubs.pyi"
    assert path.read_text() == stubs(), "run python -m pyptx.tools.reference --stubs pyptx/frontend/inst_stubs.pyi"


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
