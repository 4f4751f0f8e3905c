"""`pyptx puzzle`: twenty small kernels to write, each judged by the simulator and its sanitizer."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ...diagnostics import UsageError
from ..puzzles import PUZZLES, Puzzle, judge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("number", nargs="?", type=int, help=f"1 to {len(PUZZLES)}; without it, the list")
    parser.add_argument("file", nargs="?", help="the file with the answer; default: puzzle_NN.py in this folder")
    parser.add_argument("--hint", action="store_true", help="help with it")
    parser.add_argument("--json", action="store_true", help="the verdict as one JSON object")


def run(options: argparse.Namespace) -> int:
    if options.number is None:
        listed = [{"number": p.number, "title": p.title, "statement": " ".join(p.statement.split())} for p in PUZZLES]
        print(json.dumps(listed, indent=1) if options.json else "\n".join(f"{p.number:2}  {p.title}" for p in PUZZLES))
        return 0
    if not 1 <= options.number <= len(PUZZLES):
        raise UsageError(f"{options.number} is not the number of a puzzle: 1 to {len(PUZZLES)} are")
    puzzle = PUZZLES[options.number - 1]
    if options.hint:
        print("\n".join(puzzle.hints))
        return 0
    file = Path(options.file or puzzle.filename)
    if options.file is None and not file.exists():
        return _start(puzzle, file)
    verdict = judge(puzzle, file.read_text(), str(file))
    if options.json:
        print(json.dumps({"puzzle": puzzle.number, "solved": verdict.solved, "problem": verdict.problem}, indent=1))
    elif verdict.solved:
        following = f"; next: pyptx puzzle {puzzle.number + 1}" if puzzle.number < len(PUZZLES) else ": all there are"
        print(f"puzzle {puzzle.number} is solved{following}")
    else:
        print(verdict.problem)
    return 0 if verdict.solved else 1


def _start(puzzle: Puzzle, file: Path) -> int:
    file.write_text(puzzle.starting_file())
    print(
        f"{puzzle.number}: {puzzle.title}\n\n{puzzle.statement}\n\n{file} is where to write it; the same command then judges it."
    )
    return 0
