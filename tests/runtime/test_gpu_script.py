"""The GPU script against the recording driver: everything that it would do on a GPU, up to the kernels' running."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx.runtime.compile import compilers

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc to build the fake driver with")
@pytest.mark.skipif(not compilers(), reason="neither nvJitLink nor ptxas is installed")
def test_runs_against_the_fake_driver(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "benchmarks/gpu/run.py",
        "--fake",
        "--minutes",
        "3",
        "--json",
        str(tmp_path / "gpu.json"),
    ]
    sections = ["right", "gemm", "bandwidth", "attention", "differential", "sanitizer"]
    environment = {**os.environ, "PYPTX_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [*command, "--only", *sections], cwd=ROOT, capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    assert {r["section"] for r in rows} == set(sections)
    assert {r["status"] for r in rows} <= {"not checked", "not run"}
    assert all(r["value"] is None for r in rows)  # a driver that does nothing measures nothing
    assert sum(r["section"] == "right" and r["status"] == "not checked" for r in rows) >= 10
    assert done.stdout.strip().splitlines()[-1].endswith("gpu.json")
