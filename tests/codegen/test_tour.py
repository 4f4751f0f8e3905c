"""docs/transpile.md runs, and shows what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pyptx.codegen import ptx_to_python
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "transpile.md").read_text()


def test_the_tour_runs(tmp_path: Path) -> None:
    program = tmp_path / "tour.py"
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.S)))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "relu(saxpy): True" in done.stdout
    assert "softmax, temperature 2: True" in done.stdout
    assert "relu(a @ b): True" in done.stdout
    assert re.search(r"^\+ max\.f32 ", done.stdout, re.M)


def test_the_programs_shown_are_the_ones_made() -> None:
    shown = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    saxpy = ptx_to_python(ROOT / "examples" / "transpile" / "kernels.ptx", sugar=True, kernel_name="saxpy")
    softmax = ptx_to_python(ROOT / "examples" / "transpile" / "softmax.ptx", sugar=True, kernel_name="softmax")
    assert shown[0] in saxpy
    assert shown[1] in softmax
    gemm = ptx_to_python(ROOT / "examples" / "transpile" / "gemm.ptx", sugar=True, kernel_name="gemm")
    assert shown[2] in gemm
