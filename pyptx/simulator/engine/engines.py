"""Which engine executes the bodies of segments: NumPy alone, or NumPy with compiled runs."""

from __future__ import annotations

import os

from ...diagnostics import SimulationError, did_you_mean
from .. import jit
from .engine import BindBody

ENGINES = ("auto", "jit", "numpy")


def chosen_engine(name: str | None) -> str:
    """`name`, else the environment's PYPTX_ENGINE, else "auto" (NumPy alone without llvmlite). SimulationError where the environment names an
    unknown one, or for "jit" without llvmlite.
    """
    chosen = name or os.environ.get("PYPTX_ENGINE") or "auto"
    if chosen not in ENGINES:
        known = did_you_mean(chosen, ENGINES) or f"it is one of {', '.join(ENGINES)}"
        raise SimulationError(f"PYPTX_ENGINE cannot be {chosen!r}: {known}")
    if chosen == "jit":
        jit.require()
    return chosen


def body_binder(engine: str, watched: bool) -> BindBody | None:
    """How a chosen engine binds the bodies of segments; None for NumPy alone.

    Who watches a launch sees single instructions, so what is watched runs in NumPy.
    """
    if watched or engine == "numpy" or not jit.available():
        return None
    return jit.bind_at_once if engine == "jit" else jit.bind_when_hot
