"""`Tile` and `Layout`: shapes, types and layouts of a kernel's tensors."""

from .compat import accept_former_names as _accept_former_names
from .frontend.core.tiles import Dim, Layout, Tile, dim, unify_envs

__all__ = ["Dim", "Layout", "Tile", "dim", "unify_envs"]

_accept_former_names(globals())
