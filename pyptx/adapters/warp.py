"""NVIDIA Warp kernels on the simulator.

    kernels = pyptx.warp.compile(module, arch="sm_90")     # a Python module with wp.kernel functions
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..diagnostics import PTXError
from ..parser import parse_text
from ..simulator import LoadedKernel, load
from .require import required

__all__ = ["compile", "ptx"]

TESTED = "1.10"


def ptx(module: Any, *, arch: str = "sm_90") -> str:
    """The PTX of all kernels of a Python module. MissingFrontEnd where warp-lang is not installed; PTXError where it gives no PTX."""
    warp: Any = required("warp", "warp-lang", TESTED)
    warp.config.quiet = True
    warp.init()
    with tempfile.TemporaryDirectory() as folder:
        number = int(arch.removeprefix("sm_").rstrip("af"))
        warp.compile_aot_module(module, arch=number, module_dir=folder, use_ptx=True)
        found = sorted(Path(folder).rglob("*.ptx"))
        if not found:
            raise PTXError(f"Warp gave no PTX of {getattr(module, '__name__', module)}")
        return found[0].read_text()


def compile(module: Any, *, arch: str = "sm_90") -> Mapping[str, LoadedKernel]:
    """The kernels of a Python module, by their symbols, as `pyptx.load` gives them: arrays are structures (`wp.array`'s layout:
    address, gradient's address, 4 x shape, 4 x strides, dimensions). Errors as for `ptx`.
    """
    return load(parse_text(ptx(module, arch=arch).rstrip("\0") + "\n", "<warp>"))
