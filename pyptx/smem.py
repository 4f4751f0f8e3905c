"""Shared memory of a traced kernel: `smem.alloc(f32, (8, 32))`, `smem.mbarrier(2)`."""

from .compat import accept_former_names as _accept_former_names
from .frontend.memory.shared import (
    MbarrierArray,
    MbarrierRef,
    SharedAlloc,
    SharedSlice,
    alloc,
    alloc_with_layout,
    apply_swizzle,
    base,
    load,
    mbarrier,
    store,
    total,
    wgmma_tile,
)

__all__ = [
    "MbarrierArray", "MbarrierRef", "SharedAlloc", "SharedSlice", "alloc", "alloc_with_layout",
    "apply_swizzle", "base", "load", "mbarrier", "store", "total", "wgmma_tile",
]  # fmt: skip

_accept_former_names(globals(), "smem.")
