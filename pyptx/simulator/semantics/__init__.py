"""What each instruction does: one executable meaning per op class, a module per chapter of the manual. See
`registry`.
"""

from __future__ import annotations

from importlib import import_module

CHAPTERS = (
    "integer",
    "extended",
    "floating",
    "comparison",
    "logic",
    "move",
    "movement",
    "conversion",
    "barrier",
    "warp",
    "atomic",
    "mbarrier",
    "async_copy",
    "tensor_copy",
    "remote",
    "fabric",
    "matrix",
    "mma",
    "wmma",
    "wgmma",
    "tcgen05",
    "tcgen05_mma",
    "sparsity",
    "video",
    "stack",
    "texture",
    "surface",
    "misc",
)


def load_all() -> None:
    """Register every meaning."""
    for chapter in CHAPTERS:
        import_module(f"{__name__}.{chapter}")
