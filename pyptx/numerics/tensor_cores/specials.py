"""Infinities and NaNs among the operands of a sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import formats

Float = NDArray[np.floating[Any]]
Bits = NDArray[np.unsignedinteger[Any]]

NAN = {"f32": np.uint32(0x7FFFFFFF), "f16": np.uint16(0x7FFF)}
"""The NaN of the hardware."""


def put_specials(bits: Bits, name: str, a: Float, b: Float, c: Float) -> None:
    """Put the infinities and NaNs of A B + C where operands have some. A finite number stands for one of its sign: it cannot overflow
    here, and an infinity among the sums is one of an operand.
    """
    total = _signs(a) @ _signs(b) + _signs(c)
    infinite = np.isinf(total)
    bits[infinite] = formats.encode(total[infinite], name)
    bits[np.isnan(total)] = NAN[name]


def _signs(x: Float) -> NDArray[np.float64]:
    wide = np.asarray(x, np.float64)
    return np.where(np.isfinite(wide), np.sign(wide), wide)
