"""Lowerings of upstream dialects (arith, math, vector, memref, gpu, cf) to `ptx`, one module per concern.

See `convert_to_ptx`.
"""

from __future__ import annotations

from . import arith, atomic, control, gpu, math, memory, transfer, vector
from .atomic import expand_atomics
from .calls import inline_calls
from .control import expand_control, expand_parallel
from .emitter import LOWERINGS, LoweringError, Setting
from .function import lower_function
from .globals import check_globals, lower_global

MODULES = (arith, atomic, control, gpu, math, memory, transfer, vector)
"""The modules that register lowerings."""

__all__ = [
    "LOWERINGS",
    "MODULES",
    "LoweringError",
    "Setting",
    "check_globals",
    "expand_atomics",
    "expand_control",
    "expand_parallel",
    "inline_calls",
    "lower_function",
    "lower_global",
]
