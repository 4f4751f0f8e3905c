"""Programs that run: `--runnable`, edited programs, `Kernel.from_ptx`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx.codegen import ptx_to_python
from tests.conftest import ROOT

from .programs import run

KERNELS = (ROOT / "examples" / "transpile" / "kernels.ptx").read_text()


def saxpy(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(y afterwards, x, y before) of the saxpy in a PTX text, with a = 2."""
    x, y = np.random.default_rng(1).standard_normal((2, 1000), dtype=np.float32)
    before = y.copy()
    pyptx.simulate(pyptx.load(text)["saxpy"], 1000, np.float32(2.0), x, y, grid=(4,), block=(256,))
    return y, x, before


@pytest.mark.parametrize("sugar", [False, True])
def test_a_program_runs_as_the_file_does(sugar: bool) -> None:
    got, x, before = saxpy(run(ptx_to_python(KERNELS, sugar=sugar)).ptx())
    want, _, _ = saxpy(KERNELS)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(got, 2.0 * x.astype(np.float64) + before, rtol=1e-6, atol=1e-6)


def test_an_edited_program_runs() -> None:
    """The tour's edit: a ReLU behind the multiply-add."""
    program = ptx_to_python(KERNELS, sugar=True)
    store = "inst.st.global_.f32(addr(ptr), x)"
    assert program.count(store) >= 1
    edited = program.replace(store, "inst.st.global_.f32(addr(ptr), op.max_.f32(x, 0.0))", 1)
    got, x, before = saxpy(run(edited).ptx())
    want = np.maximum(2.0 * x.astype(np.float64) + before, 0.0)
    assert (want == 0).any()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [[], ["--sugar"]])
def test_runnable(options: list[str], tmp_path: Path) -> None:
    program = tmp_path / "kernels.py"
    source = ROOT / "examples" / "transpile" / "kernels.ptx"
    command = [sys.executable, "-m", "pyptx.codegen", str(source), "--runnable", *options, "-o", str(program)]
    assert subprocess.run(command, cwd=ROOT).returncode == 0
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "saxpy" in done.stdout
    assert "block_sum" in done.stdout


def test_kernel_from_ptx() -> None:
    kernel = pyptx.Kernel.from_ptx(KERNELS, entry="saxpy")
    assert kernel.name == "saxpy"
    assert kernel.arch == "sm_80"
    assert kernel.ptx() == KERNELS
    assert not [d for d in kernel.check() if d.severity == "error"]
    x, y = np.ones(64, np.float32), np.ones(64, np.float32)
    pyptx.simulate(kernel, 64, np.float32(3.0), x, y, grid=(1,), block=(64,))
    np.testing.assert_array_equal(y, np.full(64, 4.0, np.float32))
    program = kernel.python()  # pyright: ignore[reportAttributeAccessIssue]
    assert "def saxpy(" in program


def test_kernel_from_ptx_says_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"which entry.*saxpy, block_sum"):
        pyptx.Kernel.from_ptx(KERNELS)
    with pytest.raises(ValueError, match=r"no entry gemm.*saxpy"):
        pyptx.Kernel.from_ptx(KERNELS, entry="gemm")
    with pytest.raises(pyptx.PTXError):
        pyptx.Kernel.from_ptx("no ptx\n")
