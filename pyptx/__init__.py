"""pyptx: a compiler for NVIDIA PTX on xDSL.

Author kernels in traced Python (`kernel`, `reg`, `smem`, `ptx`), import any PTX (`parse`, `load`), check it (`diagnose`), print it
(`to_ptx`), run it on a CPU (`simulate`), or launch it from PyTorch and JAX by calling it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_WHERE = {
    "Diagnostic": "diagnostics",
    "PTXError": "diagnostics",
    "SimulationError": "diagnostics",
    "parse": "text",
    "to_ptx": "text",
    "diagnose": "text",
    "load": "simulator",
    "simulate": "simulator",
}

__all__ = ["Diagnostic", "PTXError", "SimulationError", "diagnose", "load", "parse", "simulate", "to_ptx"]

if TYPE_CHECKING:
    from .diagnostics import Diagnostic, PTXError, SimulationError
    from .simulator import load, simulate
    from .text import diagnose, parse, to_ptx


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'pyptx' has no attribute {name!r}")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
