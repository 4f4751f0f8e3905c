"""`Tile` and `Layout`: shapes, types and layouts of a kernel's tensors."""

from .frontend.tiles import Layout, Tile, unify_envs

__all__ = ["Layout", "Tile", "unify_envs"]
