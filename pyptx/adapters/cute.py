"""CuTe DSL kernels (`nvidia-cutlass-dsl`) on the simulator.

kernels = pyptx.cute.compile(host_function, pointer, arch="sm_90a")      # a cute.jit function and its arguments
kernels["..."].simulate(x, grid=1, block=128)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..diagnostics import PTXError
from ..parser import parse_text
from ..simulator import LoadedKernel, load
from .require import required
from .targets import checked_target

__all__ = ["compile", "ptx"]

TESTED, LOWEST = "4.8.1", "4.8"


def ptx(function: Any, *args: Any, arch: str = "sm_90a", **keywords: Any) -> str:
    """The PTX of all kernels that a `cute.jit` function launches, compiled for `arch` and these arguments.

    MissingFrontEnd where CuTe DSL is not installed; PTXError where it gives no PTX.
    """
    cute: Any = required("cutlass.cute", "nvidia-cutlass-dsl", TESTED, LOWEST)
    compiled = cute.compile[cute.KeepPTX(), cute.GPUArch(checked_target(arch))](function, *args, **keywords)
    text = getattr(compiled, "__ptx__", None)
    if not text:
        raise PTXError(f"CuTe DSL gave no PTX of {getattr(function, '__name__', function)}")
    return text if isinstance(text, str) else text.decode()


def compile(function: Any, *args: Any, arch: str = "sm_90a", **keywords: Any) -> Mapping[str, LoadedKernel]:
    """The kernels that a `cute.jit` function launches, by their symbols, as `pyptx.load` gives them. Errors as for `ptx`."""
    return load(parse_text(ptx(function, *args, arch=arch, **keywords).rstrip("\0") + "\n", "<cute>"))
