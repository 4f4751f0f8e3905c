"""The puzzles: each has an answer, which is accepted; wrong answers are told what is wrong."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from pyptx.tools.cli import main
from pyptx.tools.puzzles import PUZZLES, Puzzle, judge
from pyptx.tools.puzzles.puzzle import GAP
from tests.tools.puzzle_answers import ANSWERS


def file_with(puzzle: Puzzle, answer: str, folder: Path) -> Path:
    file = folder / puzzle.filename
    assert puzzle.kernel.count(GAP + "\n") == 1
    file.write_text(puzzle.starting_file().replace(GAP, textwrap.indent(answer.strip("\n"), "    ")))
    return file


def said(number: int, answer: str, folder: Path) -> str:
    puzzle = PUZZLES[number - 1]
    file = file_with(puzzle, answer, folder)
    return judge(puzzle, file.read_text(), str(file)).problem.replace(f"{folder}/", "")


def test_there_are_twenty() -> None:
    assert [p.number for p in PUZZLES] == list(range(1, 21)) == sorted(ANSWERS)
    assert all(p.hints and p.statement and p.title for p in PUZZLES)


@pytest.mark.parametrize("number", ANSWERS)
def test_answer(number: int, tmp_path: Path) -> None:
    assert said(number, ANSWERS[number], tmp_path) == ""


@pytest.mark.parametrize(
    ("number", "old", "new", "message"),
    [
        (1, " + (ptx.pointer(y)", " - (ptx.pointer(y)", "of 256 elements are wrong: out["),
        (2, "with ptx.if_(i < N)", "if True", "out of bounds"),
        (3, "ptx.op.fma.rn.f32(ptx.pointer(a).load(), (ptx.pointer(x) + i).load(), (ptx.pointer(y) + i).load())",
         "ptx.pointer(a).load() * (ptx.pointer(x) + i).load() + (ptx.pointer(y) + i).load()", "must use fma.rn.f32"),
        (5, "total += (ptx.pointer(x) + i).load()", "total = total + (ptx.pointer(x) + i).load()", "stands for another register"),
        (8, "    ptx.bar.sync(0)\nwith", "with", "data race"),
        (9, "ptx.bar.sync(0)", "pass", "data race"),
        (10, "    s[t,] = 0", "    pass", "that has not been written"),
        (15, "ptx.bar.sync(0)", "pass", "cp.async"),
        (17, "    ptx.mbarrier.wait(ready, 0)\n", "", "data race"),
        (18, "    ptx.fence.mbarrier_init()\n", "", "initialisation"),
        (19, "    ptx.bar.sync(0)", "    pass", "puzzle_19.py"),
        (20, "        ptx.mbarrier.arrive(empty[stage])\n", "", "deadlock"),
    ],
)  # fmt: skip
def test_wrong_answer(number: int, old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in ANSWERS[number]
    assert message in said(number, ANSWERS[number].replace(old, new, 1), tmp_path)


def test_python_errors_are_told_with_their_line(tmp_path: Path) -> None:
    for old, new, message in (
        ("K)", "nothing)", "NameError: name 'nothing' is not defined"),
        ("p += 1", "p +== 1", "invalid syntax"),
    ):
        answer = ANSWERS[6].replace(old, new, 1)
        lines = file_with(PUZZLES[5], answer, tmp_path).read_text().splitlines()
        (at,) = (i for i, line in enumerate(lines, 1) if new in line)
        assert said(6, answer, tmp_path) == f"puzzle_06.py:{at}: {message}"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["puzzle"]) == 0 and len(capsys.readouterr().out.splitlines()) == 20
    assert main(["puzzle", "4"]) == 0 and (tmp_path / "puzzle_04.py").exists()
    assert "puzzle_04.py is where to write it" in capsys.readouterr().out
    assert main(["puzzle", "4"]) == 1 and "is still to be replaced" in capsys.readouterr().out
    file_with(PUZZLES[3], ANSWERS[4], tmp_path)
    assert main(["puzzle", "4"]) == 0 and "puzzle 4 is solved" in capsys.readouterr().out
    assert main(["puzzle", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"puzzle": 4, "solved": True, "problem": ""}
    assert main(["puzzle", "4", "--hint"]) == 0 and "max.f32" in capsys.readouterr().out
    assert main(["puzzle", "21"]) == 2 and "21 is not the number of a puzzle: 1 to 20 are" in capsys.readouterr().err
    assert main(["puzzle", "1", "nosuch.py"]) == 2


def test_an_answer_without_the_kernel() -> None:
    assert "must be a @kernel" in judge(PUZZLES[0], "x = 1\n", "a.py").problem
    assert judge(PUZZLES[0], PUZZLES[0].starting_file(), "a.py").problem.endswith("is still to be replaced")


def test_the_starting_files_show_no_answer() -> None:
    for puzzle in PUZZLES:
        assert GAP in puzzle.starting_file() and all(len(line) <= 120 for line in puzzle.starting_file().splitlines())


def test_the_page_lists_them() -> None:
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "puzzles.md").read_text()
    assert all(f"| {p.number} | {p.title} |" in page for p in PUZZLES)
