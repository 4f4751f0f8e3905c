"""Chapters are imported when one of their opcodes is met."""

from __future__ import annotations

import subprocess
import sys

from pyptx.dialects.ptx import all as chapters
from pyptx.dialects.ptx.opcodes import CHAPTERS, OPCODES


def test_the_index_of_chapters_is_that_of_the_classes() -> None:
    found: dict[str, list[str]] = {}
    for opcode, cls in OPCODES.items():
        package, _, chapter = cls.__module__.rpartition(".")
        if package != "pyptx.dialects.ptx":
            continue  # of another test
        words = found.setdefault(chapter, [])
        if opcode.partition(".")[0] not in words:
            words.append(opcode.partition(".")[0])
    assert {chapter: words.split() for chapter, words in CHAPTERS.items()} == found
    assert all(hasattr(chapters, chapter) for chapter in CHAPTERS)


def test_what_is_imported_first_changes_nothing() -> None:
    """The order in which opcodes are listed and proposed is that of the chapters, whatever was met before."""
    code = """
import sys
from pyptx.dialects.ptx.opcodes import OPCODES, find_opcode, opcodes_of
for opcode in sys.argv[1:]:
    assert find_opcode(opcode, ())
print("integer" in {m.rpartition(".")[2] for m in sys.modules}, opcodes_of("multimem"), list(OPCODES))
"""
    one, other = (
        subprocess.run([sys.executable, "-c", code, *met], capture_output=True, text=True, check=True).stdout
        for met in (["atom", "tex"], ["ret", "prefetch"])
    )
    assert one == other
    assert one.startswith("False ['multimem.cp")


def test_an_opcode_that_the_index_does_not_have_is_found() -> None:
    code = """
from pyptx.dialects.ptx import opcodes
for words in opcodes._pending, opcodes._roots:
    del words["bfind"]
print(opcodes.find_opcode("bfind", ())[0].__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Bfind"
