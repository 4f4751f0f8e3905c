"""What kernels reach when they are run, checked or translated, and what comes after the frontend: the one way from here to
there. Each module is imported when it is first used, `deferred.ptxas.assemble(...)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .. import codegen
    from ..runtime import call, ptxas, raw, torch_launch, torch_ops
    from ..runtime.ptxas import PtxasResult, ResourceUsage, SassLine
    from ..simulator.tensor import tile_maps
    from ..tools.report import kernel as report
    from ..tools.report.kernel import KernelReport
    from .kernel import imported

__all__ = [
    "KernelReport", "PtxasResult", "ResourceUsage", "SassLine", "call", "codegen", "imported", "ptxas", "raw", "report",
    "tile_maps", "torch_launch", "torch_ops",
]  # fmt: skip

_WHERE = {
    "call": "..runtime.call",
    "codegen": "..codegen",
    "imported": ".kernel.imported",
    "ptxas": "..runtime.ptxas",
    "raw": "..runtime.raw",
    "report": "..tools.report.kernel",
    "tile_maps": "..simulator.tensor.tile_maps",
    "torch_launch": "..runtime.torch_launch",
    "torch_ops": "..runtime.torch_ops",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = import_module(_WHERE[name], __package__)
    return found
