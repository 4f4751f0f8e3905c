"""Kernels that ptxas takes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyptx.runtime.ptxas import ToolNotFound
from pyptx.simulator import LoadedKernel, load
from pyptx.tools.oracle import check_file


def assembled(source: str) -> LoadedKernel:
    """The kernel `k` of a module that ptxas accepts (where there is a ptxas)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.ptx"
        path.write_text(source)
        try:
            refused = check_file(path)
        except ToolNotFound:
            refused = []
        assert refused == [], source
    return load(source)["k"]
