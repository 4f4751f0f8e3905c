"""The second engine's part that is not NumPy: runs of straight-line instructions as native loops over the lanes.

`numerics.lane` writes LLVM IR of one lane, `numerics.native` has the arithmetic in it, `parts` makes loops out of instructions,
`runs` finds the runs and calls them, `numerics.llvm` is all that knows llvmlite.
"""

from ...numerics.llvm import available, require
from .runs import bind_at_once, bind_when_hot

__all__ = ["available", "bind_at_once", "bind_when_hot", "require"]
