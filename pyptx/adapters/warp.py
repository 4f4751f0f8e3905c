"""NVIDIA Warp kernels on the simulator.

kernels = pyptx.warp.compile(module, arch="sm_90")     # a Python module with wp.kernel functions
kernels["scale"].simulate(x, y, dim=1000)              # NumPy arrays, Warp's CPU arrays, numbers
"""

from __future__ import annotations

import ctypes
import re
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..diagnostics import PTXError, SimulationError
from ..parser import parse_text
from ..simulator import DeviceMemory, LoadedKernel, Report, load
from ..simulator.launch.options import checked_options, sizes_of
from .require import required
from .targets import number_of

__all__ = ["WarpKernel", "compile", "ptx"]

TESTED = "1.19.0"
BLOCK = 256
"""Warp's default block_dim."""
ARRAY = struct.Struct("<QQ4i4ii4x")
"""Warp's array structure: address, address of the gradient, shape, strides in bytes, dimensions."""


def ptx(module: Any, *, arch: str = "sm_90") -> str:
    """The PTX of all kernels of a Python module. MissingFrontEnd where warp-lang is not installed; PTXError where it gives no PTX."""
    warp: Any = required("warp", "warp-lang", TESTED)
    warp.config.quiet = True
    warp.init()
    with tempfile.TemporaryDirectory() as folder:
        warp.compile_aot_module(module, arch=number_of(arch), module_dir=folder, use_ptx=True)
        found = sorted(Path(folder).rglob("*.ptx"))
        if not found:
            raise PTXError(f"Warp gave no PTX of {getattr(module, '__name__', module)}")
        return found[0].read_text()


def compile(module: Any, *, arch: str = "sm_90") -> Mapping[str, WarpKernel]:
    """The kernels of a Python module by the names of their functions. Errors as for `ptx`."""
    found = load(parse_text(ptx(module, arch=arch).rstrip("\0") + "\n", "<warp>"))
    names = {n: re.fullmatch(r"(.+)_[0-9a-f]{8}_cuda_kernel_forward", n) for n in found}
    return {m[1]: WarpKernel(found[n].loaded, n) for n, m in names.items() if m}


@dataclass(frozen=True, slots=True)
class WarpKernel(LoadedKernel):
    """A kernel that takes arrays as structures and the bounds of the launch before them."""

    def __repr__(self) -> str:
        return f"WarpKernel({self.name})"

    def simulate(
        self, *args: object, dim: int | tuple[int, ...] = 1, memory: DeviceMemory | None = None, **options: Any
    ) -> Report:
        """Run `dim` threads (an integer or up to four) on the CPU, in blocks of 256. Options: see `pyptx.simulate`."""
        room = (self.parameters[0].size - 16) // 4
        sizes = sizes_of(dim, "dim", most=room)
        checked_options({"memory": memory})
        total = int(np.prod(sizes))
        memory = DeviceMemory() if memory is None else memory
        # Warp's launch bounds: the sizes, their product, and the threads that share coordinates (in tiled launches)
        bounds = struct.pack(f"<{room}i2Q", *(*sizes, 1, 1, 1)[:room], total, 1)
        values = [_value(memory, f"argument {i}", a) for i, a in enumerate(args)]
        options = {"grid": -(-total // BLOCK), "block": BLOCK, **options}
        return LoadedKernel.simulate(self, bounds, *values, memory=memory, **options)


def _value(memory: DeviceMemory, name: str, value: Any) -> object:
    if isinstance(value, np.ndarray):
        array: np.ndarray[Any, Any] = value
        if array.ndim > 4:
            raise SimulationError(f"{name} has {array.ndim} dimensions; Warp's arrays have four at most")
        known = memory.address_of(array)
        address = memory.map(array, name=name).address if known is None else known
        shape, strides = ([*sizes, 0, 0, 0, 0][:4] for sizes in (array.shape, array.strides))
        return ARRAY.pack(address, 0, *shape, *strides, array.ndim)
    if hasattr(value, "__ctype__") and hasattr(value, "ptr"):  # an array of Warp, in host memory
        if not value.device.is_cpu:
            raise SimulationError(f"{name} is an array on {value.device}; the simulator takes arrays of the CPU")
        if value.ptr and memory.find(value.ptr, value.capacity) is None:
            data = np.ctypeslib.as_array((ctypes.c_uint8 * value.capacity).from_address(value.ptr))
            memory.map(data, address=value.ptr, name=name)
        return bytes(value.__ctype__())
    return value
