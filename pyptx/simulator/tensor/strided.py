"""Arrays that are not contiguous: their strides, and the memory that they reach over."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np


def strides_of(value: Any) -> tuple[Any, ...]:
    """Of an array or tensor, in elements; a float where it is not a whole number of them."""
    if hasattr(value, "stride"):
        return tuple(value.stride())
    size = value.itemsize
    return tuple(n / size if n % size else n // size for n in value.strides)


def extent_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first one to the last one, both included."""
    return 0 if 0 in shape else 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def in_memory(value: Any) -> Any:
    """A strided array or CPU tensor as the memory from its first to its last element, in place; anything else as it is."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.is_contiguous() or value.layout is not torch.strided:
            return value
        return value.detach().as_strided((extent_of(value.shape, value.stride()),), (1,))
    if not isinstance(value, np.ndarray) or value.flags.c_contiguous:
        return value
    array = cast("np.ndarray[Any, Any]", value)
    if any(n % array.itemsize or n < 0 for n in array.strides):
        return array
    steps = tuple(n // array.itemsize for n in array.strides)
    return np.lib.stride_tricks.as_strided(array, (extent_of(array.shape, steps),), (array.itemsize,))
