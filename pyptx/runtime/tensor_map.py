"""TMA descriptors: tensor maps as the driver makes them."""

from __future__ import annotations

from ..diagnostics import PTXError
from ..simulator.tensor.tensor_map import TensorMap
from .driver import TENSOR_MAP_TYPES, Driver

__all__ = ["encode"]

_SWIZZLES = ("none", "32B", "64B", "128B")
"""In the order of CUtensorMapSwizzle."""


def encode(made: TensorMap, driver: Driver, pointer: int, what: str) -> bytes:
    """The 128 bytes for a tensor at `pointer`. PTXError if that is not 16-byte aligned; CudaError."""
    if pointer % 16:
        raise PTXError(f"{what} is at an address that is not a multiple of 16 bytes, which TMA needs: pass a copy")
    swizzle = _SWIZZLES.index(made.swizzle)
    return driver.encode_tiled(
        TENSOR_MAP_TYPES[made.type], pointer, made.shape, made.strides, made.box, swizzle=swizzle, what=what
    )
