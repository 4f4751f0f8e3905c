"""The distributed example on two local processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_a_gemm_over_two_processes() -> None:
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    done = subprocess.run(
        [sys.executable, "-m", "examples.distributed.sharded_gemm", "--size", "256", "128", "64"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rank 0 of 2 on" in done.stdout
    assert "rank 1 of 2 on" in done.stdout
