"""`python -m pyptx.codegen` and `pyptx transpile`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pyptx
from pyptx.codegen import ptx_to_python
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


def kernel(params: str = "", registers: str = ".reg .b64 %rd<5>;", line: str = "") -> str:
    return (
        ".version 8.7\n.target sm_90a\n.address_size 64\n"
        f".visible .entry k({params})\n{{\n{registers}\n{line}\nret;\n}}\n"
    )


UNSPELLABLE = [
    (kernel(".param .align cvt .b8 r[2]"), 4),
    (kernel(".param .align .b8 r[2]"), 4),
    (kernel(".param .entry .ptr .align 1 p"), 4),
    (kernel(".param .entry k_param_0"), 4),
    (kernel(".param p"), 4),
    (kernel(registers=".reg .b64 %rd<5>-;"), 6),
    (kernel(registers=".reg .b64 %rd[5];"), 6),
    (kernel(registers=".reg .b64 %rd<5> = 3;"), 6),
    (kernel(line="st.param__kmpc [%rd1], 0;"), 7),
]


@pytest.mark.parametrize("sugar", [False, True])
@pytest.mark.parametrize(("text", "line"), UNSPELLABLE)
def test_what_no_python_spells_is_an_error_at_its_place(text: str, line: int, sugar: bool) -> None:
    with pytest.raises(pyptx.PTXError) as caught:
        ptx_to_python(text, sugar=sugar)
    first = caught.value.diagnostics[0]
    assert first.location is not None
    assert first.location.split(":")[1] == str(line)
    assert first.message in [d.message for d in pyptx.diagnose(text)]


@pytest.mark.parametrize("options", [[], ["--sugar"]])
def test_what_no_python_spells_exits_with_1(options: list[str], tmp_path: Path) -> None:
    source, program = tmp_path / "bad.ptx", tmp_path / "kernel.py"
    source.write_text(kernel(registers=".reg .b64 %rd<5>-;"))
    command = [sys.executable, "-m", "pyptx.tools.cli", "transpile", *options, str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert f"{source}:6:" in done.stderr
    assert "Traceback" not in done.stderr
    assert not program.exists()


@pytest.mark.parametrize("branch", ["bra $nowhere;", "@%p1 bra $nowhere;", "  bra.uni   $nowhere;"])
@pytest.mark.parametrize("sugar", [False, True])
def test_a_missing_label_is_told_where_it_is_named(branch: str, sugar: bool) -> None:
    text = f".version 8.0\n.target sm_80\n.visible .entry k()\n{{\n.reg .pred %p<2>;\n{branch}\nret;\n}}\n"
    with pytest.raises(pyptx.PTXError, match=r"label \$nowhere is not defined in this function") as raised:
        ptx_to_python(text, sugar=sugar)
    (found,) = raised.value.diagnostics
    assert (found.line, found.column) == (6, branch.index("$") + 1)
