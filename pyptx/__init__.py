"""pyptx: a compiler for NVIDIA PTX on xDSL.

Author kernels in traced Python (`kernel`, `reg`, `smem`, `ptx`), import any PTX (`parse`, `load`), check it
(`diagnose`), print it (`to_ptx`), run it on a CPU (`simulate`), predict its time
(`predict`), or launch it from PyTorch and JAX by calling it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_WHERE = {
    "DeviceMemory": "simulator",
    "Diagnostic": "diagnostics",
    "Kernel": "frontend.kernel.kernel",
    "Layout": "frontend.core.tiles",
    "LoadedKernel": "simulator",
    "Module": "frontend.module.module",
    "PTXError": "diagnostics",
    "SimulatedDriver": "simulator",
    "SimulationError": "diagnostics",
    "Tile": "frontend.core.tiles",
    "autotune": "tuning",
    "bench": "runtime.bench",
    "detect_arch": "frontend.kernel.device",
    "dim": "frontend.core.tiles",
    "differentiable_kernel": "runtime.differentiable",
    "diagnose": "text",
    "fat_kernel": "frontend.kernel.kernel",
    "intrinsic": "frontend.library.debug",
    "load": "simulator",
    "parse": "text",
    "predict": "prediction",
    "register_sharding": "runtime.dtensor",
    "simulate": "simulator",
    "to_ptx": "text",
}
"""Public name -> the module that has it, imported at first use: `import pyptx` itself costs next to nothing."""

__all__ = [
    "DeviceMemory",
    "Diagnostic",
    "Kernel",
    "Layout",
    "LoadedKernel",
    "Module",
    "PTXError",
    "SimulatedDriver",
    "SimulationError",
    "Tile",
    "autotune",
    "bench",
    "detect_arch",
    "diagnose",
    "differentiable_kernel",
    "dim",
    "fat_kernel",
    "intrinsic",
    "kernel",
    "load",
    "parse",
    "predict",
    "ptx",
    "reg",
    "register_sharding",
    "simulate",
    "smem",
    "to_ptx",
]

if TYPE_CHECKING:
    from . import ptx, reg, smem
    from .diagnostics import Diagnostic, PTXError, SimulationError
    from .frontend.core.tiles import Layout, Tile, dim
    from .frontend.kernel.device import detect_arch
    from .frontend.kernel.kernel import Kernel, fat_kernel, kernel
    from .frontend.library.debug import intrinsic
    from .frontend.module.module import Module
    from .prediction import predict
    from .runtime.bench import bench
    from .runtime.differentiable import differentiable_kernel
    from .runtime.dtensor import register_sharding
    from .simulator import DeviceMemory, LoadedKernel, SimulatedDriver, load, simulate
    from .text import diagnose, parse, to_ptx
    from .tuning import autotune


_SUBMODULES = "ptx reg smem types specs codegen draw simulator diagnostics modules passes analysis numerics prediction sass".split()
"""Modules that are imported when somebody first names them."""
_ADAPTERS = "triton cuda numba cute warp".split()
"""Front ends whose kernels can be simulated, checked and edited (`adapters`)."""


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    if name in _ADAPTERS:
        return import_module(f".adapters.{name}", __name__)
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'pyptx' has no attribute {name!r}")
    found = {name: getattr(import_module(f".{module}", __name__), name)}
    import_module(".compat", __name__).accept_former_names(found)
    globals().update(found)
    return found[name]


class _Package(ModuleType):
    """`pyptx.kernel` is the decorator, whatever is imported: importing the submodule of that name would hide it."""

    @property
    def kernel(self) -> Any:
        return import_module(".frontend.kernel.kernel", __name__).kernel

    @kernel.setter
    def kernel(self, value: object) -> None:
        pass


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*__all__, "codegen", "draw", "types", "__version__"})
