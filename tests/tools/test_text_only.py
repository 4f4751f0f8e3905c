"""`pyptx check` judges text without IR: its process does not import xDSL, and says what a process with xDSL says."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from pyptx.tools.cli import TEXT_ONLY
from pyptx.tools.commands.check import check_text

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = [ROOT / "examples/transpile/softmax.ptx", ROOT / "tests/data/lineinfo/scan_rows.ptx"]


def corrupted(text: str, seed: int) -> str:
    """A text with three characters that are others, gone or doubled, and two lines in each other's place."""
    random_ = random.Random(seed)
    for _ in range(3):
        at = random_.randrange(len(text))
        text = text[:at] + random_.choice(["", "x", ".", "%", "7", text[at] * 2]) + text[at + 1 :]
    lines = text.split("\n")
    a, b = random_.randrange(len(lines)), random_.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def test_its_process_imports_no_xdsl() -> None:
    assert frozenset({"check"}) == TEXT_ONLY
    code = (
        "import sys; from pyptx.tools.cli import main; status = main()\n"
        "print(sorted({'xdsl', 'numpy', 'subprocess', 'json'} & set(sys.modules)), status)"
    )
    arguments = ["check", "--no-ptxas", *map(str, SOURCES)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[-2] == "[] 0", done.stdout


def test_it_says_what_a_process_with_ir_says(tmp_path: Path) -> None:
    files: list[str] = []
    wanted: list[object] = []
    for seed in range(24):
        text = corrupted(SOURCES[seed % 2].read_text(), seed)
        files.append(str(tmp_path / f"{seed}.ptx"))
        Path(files[-1]).write_text(text)
        wanted += [asdict(d) for d in check_text(text, files[-1], with_ptxas=False)[0]]
    done = subprocess.run(
        [sys.executable, "-m", "pyptx", "check", "--no-ptxas", "--json", *files], capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    assert len(wanted) > 24
    assert json.loads(done.stdout) == json.loads(json.dumps(wanted))
