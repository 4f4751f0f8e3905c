"""Torch tensors of the host as device memory: every storage is mapped at its own address, so that views and aliases are where a
GPU has them.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np

from ..simulator import DeviceMemory

__all__ = ["address_of", "map_pointees", "storage_of"]

ADDRESSES = 1 << 32, 1 << 47
"""Numbers in this range may be addresses of tensors: position-independent programs have no memory below, and none have any above."""


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


def map_pointees(memory: DeviceMemory, values: Any) -> None:
    """Map the CPU tensors whose addresses are among `values` (an int, or a tensor of 64-bit integers: a table of `data_ptr()`s). Only numbers that
    may be addresses are looked for among the tensors that are alive.
    """
    numbers = (
        np.array([values], np.int64) if isinstance(values, int) else values.detach().reshape(-1).numpy().view(np.int64)
    )
    wanted = np.unique(numbers[(numbers >= ADDRESSES[0]) & (numbers < ADDRESSES[1])])
    wanted = wanted[[memory.find(address) is None for address in wanted.tolist()]]
    torch: Any = sys.modules.get("torch")
    if not wanted.size or torch is None:
        return
    for tensor in [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]:
        if (
            type(tensor) in (torch.Tensor, torch.nn.Parameter)
            and tensor.layout == torch.strided
            and tensor.device.type == "cpu"
        ):
            start, size = storage_of(tensor)
            first = np.searchsorted(wanted, start)
            if first < wanted.size and wanted[first] < start + size:
                address_of(memory, tensor, "a tensor in a table of pointers")
