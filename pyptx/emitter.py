"""`emit(module)`: PTX text of a module, under the name it had in 0.1. New programs use `pyptx.to_ptx`."""

from .text import to_ptx as emit

__all__ = ["emit"]
