"""The NumPy types in which PTX types are computed, and the types of what executes an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ...dialects.ptx.types import SCALAR_TYPES

Mask: TypeAlias = "np.ndarray | None"
"""Which lanes execute; None for all."""
Action: TypeAlias = Callable[[Mask], None]

_DTYPES: dict[str, np.dtype[Any]] = {}


def dtype_of(type_name: str) -> np.dtype[Any]:
    """The NumPy type in which a PTX scalar type is computed: floats f32 and f64, integers, `bool`;
    everything else as unsigned bits.
    """
    found = _DTYPES.get(type_name)
    if found is None:
        scalar = SCALAR_TYPES[type_name]
        size = max(1, min(scalar.bits, 64) // 8)
        if scalar.kind == "pred":
            found = np.dtype(np.bool_)
        elif scalar.name in ("f32", "f64"):
            found = np.dtype(f"f{size}")
        else:
            found = np.dtype(f"{'i' if scalar.kind == 'signed' else 'u'}{size}")
        _DTYPES[type_name] = found
    return found
