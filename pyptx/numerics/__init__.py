"""Bit-exact arithmetic of PTX on NumPy arrays, without any knowledge of the IR.

`dot` computes matrix products as the tensor cores of an architecture do; docs/simulator.md has its rules. The other modules are what
the simulator is made of.

Conventions, in all modules:

- Arguments are arrays of at least one dimension; shapes broadcast as in NumPy. No function writes to its
  arguments.
- ``f32`` and ``f64`` values are ``float32`` and ``float64`` arrays, integers are arrays of the NumPy integer
  type of the same width and signedness. Everything else (f16, bf16, tf32, fp8, packed vectors) travels as
  unsigned integer bit patterns of the register width.
- NaNs, infinities and overflow are ordinary results. NumPy would warn about them, so callers run under
  :func:`quiet` (once around a whole simulation, not per operation: entering it costs as much as an addition).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .floating import quiet
    from .tensor_cores.dot import dot

__all__ = ["dot", "quiet"]

_WHERE = {"dot": ".tensor_cores.dot", "quiet": ".floating"}


def __getattr__(name: str) -> Any:
    """Each is imported when it is first named: their modules are in this package."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name], __name__), name)
