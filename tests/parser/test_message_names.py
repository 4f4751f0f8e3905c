"""A message names what was done to an instruction: legal ones are drawn, one modifier of each is left out, written
twice, or put among those of another instruction.
"""

from __future__ import annotations

import re

import pytest

from benchmarks.draws import Draw
from benchmarks.fuzz_verdicts import FOOTER
from pyptx import diagnose
from pyptx.diagnostics import Diagnostic
from pyptx.dialects.ptx.instruction import find_opcode
from pyptx.tools.oracle import header

VERSION, TARGET = "9.5", "sm_107a"
HEAD = header(VERSION, TARGET)
DRAWS = 1000


def judged(lines: list[str]) -> list[Diagnostic | None]:
    """The first error of each line."""
    first = HEAD.count("\n") + 1
    found: list[Diagnostic | None] = [None] * len(lines)
    for diagnostic in diagnose(HEAD + "".join(f"{line}\n" for line in lines) + FOOTER):
        at = (diagnostic.line or 0) - first
        if 0 <= at < len(lines) and found[at] is None:
            found[at] = diagnostic
    return found


def edited(draw: Draw, line: str, edit: str) -> tuple[str, str]:
    """(instruction, the modifier that the edit is about); the instruction as it is where it has none."""
    head, gap, operands = line.rstrip(";").partition(" ")
    root, *words = head.split(".")
    found = find_opcode(root, words)
    if found is None or len(words) == found[1]:
        return line, ""
    at = draw.random.randrange(found[1], len(words))
    word = words[at]
    if edit == "left out":
        del words[at]
    elif edit == "twice":
        words.insert(at, word)
    else:
        word = draw.random.choice(
            [v for f in draw.random.choice(draw.classes).forms for v in sorted(f.tokens)] or ["b32"]
        )
        words.insert(at, word)
    return f"{'.'.join((root, *words))}{gap}{operands};", word


@pytest.fixture(scope="module")
def legal() -> list[str]:
    draw = Draw("names", oddness=0)
    drawn = [line for line in (draw.instruction() for _ in range(DRAWS)) if line[0] != "@"]
    return [line for line, problem in zip(drawn, judged(drawn), strict=True) if problem is None]


@pytest.mark.parametrize("edit", ["left out", "twice", "foreign"])
def test_the_message_names_the_modifier(edit: str, legal: list[str]) -> None:
    draw = Draw(f"names/{edit}")
    cases = [edited(draw, line, edit) for line in legal]
    wrong = [(case, p) for case, p in zip(cases, judged([line for line, _ in cases]), strict=True) if p is not None]
    assert len(wrong) > 100, "hardly anything was refused: the generator is broken"
    silent: list[str] = []
    for (line, word), problem in wrong:
        said = problem.message.replace(line.partition(" ")[0].rstrip(";"), "")
        if not re.search(rf"\.{re.escape(word)}(?![\w:])", f"{said} {problem.hint}"):
            silent.append(f"{line}\n    .{word} {edit}: {problem}")
        assert problem.column is not None and 1 <= problem.column <= len(line)
    assert len(silent) <= len(wrong) // 40, "\n".join(silent)
