"""`python -m pyptx.codegen` and `pyptx transpile`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

from .programs import run

GOOD = ROOT / "tests" / "data" / "ptx" / "nvcc_shmem.ptx"


@pytest.mark.parametrize("command", [["pyptx.codegen"], ["pyptx.tools.cli", "transpile"]])
def test_to_standard_output(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command, str(GOOD)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert run(done.stdout).ptx() == GOOD.read_text()


def test_the_program_prints_the_ptx(tmp_path: Path) -> None:
    program = tmp_path / "kernel.py"
    done = subprocess.run([sys.executable, "-m", "pyptx.codegen", str(GOOD), "-o", str(program)], cwd=ROOT)
    assert done.returncode == 0
    again = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=ROOT)
    assert again.stdout == GOOD.read_text()


def test_no_ptx_writes_nothing(tmp_path: Path) -> None:
    source, program = tmp_path / "bad.ptx", tmp_path / "kernel.py"
    source.write_text(GOOD.read_text().replace("ld.param", "ld.pram"))
    done = subprocess.run(
        [sys.executable, "-m", "pyptx.codegen", str(source), "-o", str(program)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if done.returncode == 0:  # a wrong modifier is a matter for the verifier, and comes back as it is
        assert run(program.read_text()).ptx() == source.read_text()
    source.write_text(GOOD.read_text().replace("ret;", "reet;"))
    program.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pyptx.codegen", str(source), "-o", str(program)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert not program.exists()
    assert f"{source}:" in done.stderr
    assert "unknown instruction reet" in done.stderr


def test_no_file() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyptx.codegen", "missing.ptx"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 2
    assert "missing.ptx" in done.stderr
