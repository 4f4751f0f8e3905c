"""`%load_ext pyptx.tools.notebook`: Jupyter shows modules of xDSL that have PTX in them as highlighted PTX."""

from __future__ import annotations

from typing import Any

from ..notebook import ptx
from ..printer.ptx import print_module

__all__ = ["load_ipython_extension"]


def load_ipython_extension(ipython: Any) -> None:
    """Called by IPython."""
    formatter = ipython.display_formatter.formatters["text/html"]
    formatter.for_type_by_name("xdsl.dialects.builtin", "ModuleOp", _module)


def _module(module: Any) -> str:
    return ptx(print_module(module), "module")
