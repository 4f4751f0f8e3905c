"""The GPU script against the recording driver: everything that it would do on a GPU, up to the kernels' running."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyptx.runtime.compile import compilers

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc to build the fake driver with"),
    pytest.mark.skipif(not compilers(), reason="neither nvJitLink nor ptxas is installed"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache of cubins for the session: each kernel is compiled once."""
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path_factory.getbasetemp().parent / "gpu-script-cubins"))


def run(folder: Path, *words: str, faults: str = "", gpu: int = 90) -> tuple[int, list[dict[str, Any]], str]:
    """The exit status, the rows and what was printed."""
    command = [sys.executable, "benchmarks/gpu/run.py", "--fake", str(gpu), "--json", str(folder / "gpu.json"), *words]
    environment = {**os.environ, "PYPTX_GPU_FAULTS": faults}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=600)
    assert not done.stderr, done.stderr[-3000:]
    return done.returncode, json.loads((folder / "gpu.json").read_text())["rows"], done.stdout


def test_runs_against_the_fake_driver(tmp_path: Path) -> None:
    """Every section but the slow ones (torch.compile, JAX), which the tests of the runtime cover."""
    sections = ["right", "gemm", "attention", "differential", "sanitizer"]
    status, rows, said = run(tmp_path, "--minutes", "5", "--only", *sections)
    assert status == 0, said[-4000:]
    assert {r["section"] for r in rows} == set(sections)
    assert {r["status"] for r in rows} <= {"not checked", "not run"}
    assert all(r["value"] is None for r in rows)  # a driver that does nothing measures nothing
    assert sum(r["section"] == "right" and r["status"] == "not checked" for r in rows) >= 20
    assert said.strip().splitlines()[-1].endswith("gpu.json")


@pytest.mark.parametrize(
    ("gpu", "sections", "least"),
    [(80, ["gemm"], 0), (100, ["right", "gemm", "differential"], 140), (120, ["right", "gemm"], 20)],
)
def test_other_generations(tmp_path: Path, gpu: int, sections: list[str], least: int) -> None:
    """Kernels, products and instructions for the other GPUs are compiled and launched there as well."""
    status, rows, said = run(tmp_path, "--minutes", "5", "--only", *sections, gpu=gpu)
    assert status == 0, said[-4000:]
    ran = [r["name"] for r in rows if r["status"] == "not checked"]
    assert len(ran) > least
    assert {r["name"] for r in rows} - set(ran) <= {
        r["name"] for r in rows if "e4m3" in r["name"] or "e5m2" in r["name"]
    }
    assert ("gemm_2sm 256x256x256" in ran) == (gpu == 100)


def test_an_error_of_one_element_or_a_nan_is_seen() -> None:
    import numpy as np

    from benchmarks.gpu.checks import error_of

    wanted = np.random.default_rng().normal(size=(512, 512))
    assert error_of(wanted * (1 + 1e-3), wanted) == pytest.approx(1e-3)
    for value in (np.nan, 2 * np.abs(wanted).max()):
        found = wanted.copy()
        found[3, 5] = value
        assert not error_of(found, wanted) <= 0.1


def test_no_check_takes_the_others_with_it(tmp_path: Path) -> None:
    """One raises, one hangs, one loses the CUDA context, one kills its process: the rest runs all the same."""
    status, rows, said = run(tmp_path, "--minutes", "3", "--only", "right", faults="error hang context crash")
    assert status == 1
    assert [(r["name"], r["status"]) for r in rows[:4]] == [
        ("error", "FAILED"), ("hang", "HUNG"), ("context", "FAILED"), ("crash", "FAILED"),
    ], said  # fmt: skip
    assert "ZeroDivisionError at checks.py" in rows[0]["note"]
    assert len(rows) > 20
    assert {r["status"] for r in rows[4:]} == {"not checked"}
    assert len({r["name"] for r in rows}) == len(rows)


def test_what_time_does_not_allow_is_listed(tmp_path: Path) -> None:
    status, rows, _ = run(tmp_path, "--minutes", "0.5", "--only", "right", faults="hang " * 12)
    assert status == 1
    assert next(r["status"] for r in rows if r["name"] == "hang") == "HUNG"
    assert rows[-1]["status"] == "not run"
