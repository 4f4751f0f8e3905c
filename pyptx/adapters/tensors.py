"""Torch tensors of the host as device memory: every storage is mapped at its own address, so that views and aliases are where a
GPU has them.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..simulator import DeviceMemory

__all__ = ["address_of", "storage_of"]


def storage_of(tensor: Any) -> tuple[int, int]:
    """(address, bytes) of the storage that a CPU tensor is a view of."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def address_of(memory: DeviceMemory, tensor: Any, name: str) -> int:
    """The address of a CPU tensor's first element, whose whole storage is mapped in `memory`. TypeError for other devices."""
    if tensor.device.type != "cpu":
        raise TypeError(f"{name} is a tensor on {tensor.device}; the simulator takes CPU tensors")
    start, size = storage_of(tensor)
    if size and memory.find(start, size) is None:
        data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))
        memory.map(data, address=start, name=name)
    return tensor.data_ptr()
