"""`python -m pyptx` is the `pyptx` command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_module_is_the_command(tmp_path: Path) -> None:
    file = tmp_path / "kernel.ptx"
    file.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n\tadd.s32 %r1, %r1, 1;\n\tret;\n}\n")
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", "pyptx", "check", str(file)], capture_output=True, text=True, cwd=root)
    assert done.returncode == 1
    assert "%r1" in done.stdout + done.stderr
    assert subprocess.run([sys.executable, "-m", "pyptx", "nothing"], capture_output=True, cwd=root).returncode == 2
