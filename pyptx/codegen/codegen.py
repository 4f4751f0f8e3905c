"""`ptx_to_python` and `ir_to_python`, under the module name that they had in 0.1."""

from . import ir_to_python, ptx_to_python

__all__ = ["ir_to_python", "ptx_to_python"]
