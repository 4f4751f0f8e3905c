"""`pyptx.emitter.emit`: the name under which 0.1.x documented `pyptx.to_ptx`."""

from .text import to_ptx as emit

__all__ = ["emit"]
