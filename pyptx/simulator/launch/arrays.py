"""Arrays of the host as kernels see them: contiguous, in place."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np

from ...diagnostics import SimulationError


def as_array(value: Any, what: str) -> np.ndarray | None:
    """An argument's memory as a contiguous NumPy array, or None if it is not an array. SimulationError for one
    that cannot be used.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise SimulationError(f"{what} is a tensor on {value.device}; the simulator takes CPU tensors")
        if not value.is_contiguous():
            raise SimulationError(f"{what} is not contiguous; pass .contiguous()")
        detached = value.detach()
        size = detached.numel() * detached.element_size()
        if size == 0:
            return np.empty(0, np.uint8)
        storage = detached.untyped_storage()
        start = detached.data_ptr() - storage.data_ptr()
        if start == 0:
            return detached.reshape(-1).view(torch.uint8).numpy()
        whole = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()  # the owner, as NumPy sees it
        return whole[start : start + size]
    if isinstance(value, np.ma.MaskedArray):
        raise SimulationError(f"{what} is a masked array, whose mask no kernel sees; pass .filled(...) of it")
    if isinstance(value, np.ndarray) and value.dtype.kind != "V" and value.dtype.names is None:
        array = cast("np.ndarray[Any, Any]", value)
        if not array.flags.c_contiguous:
            raise SimulationError(f"{what} is not contiguous (C order); pass np.ascontiguousarray of it")
        if array.dtype.kind == "O":
            raise SimulationError(f"{what} is an array of Python objects")
        if array.dtype.byteorder == ">":
            raise SimulationError(f"{what} is big-endian; a GPU is little-endian")
        return array
    if isinstance(value, np.ndarray):
        return cast("np.ndarray[Any, Any]", value)
    return None
