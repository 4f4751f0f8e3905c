"""The simulator as a driver's API has it: addresses, modules, and launches whose arguments are numbers. For programs that manage device memory
themselves, and for layers that stand for `libcuda` in tests.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from ...diagnostics import SimulationError
from .device_memory import DeviceBuffer, DeviceMemory
from .loaded import LoadedKernel, load
from .options import CHECKS, SHAPE, checked_options, refuse_unknown
from .report import Report

__all__ = ["SimulatedDriver"]

Bytes = bytes | bytearray | memoryview
KEPT_REPORTS = 1000


class SimulatedDriver:
    """A GPU without one.

        driver = pyptx.SimulatedDriver()
        function = driver.load(ptx)["scale"]
        x = driver.allocate(4096)
        driver.write(x, np.ones(1024, np.float32))
        driver.launch(function, (4, 1, 1), (256, 1, 1), 0, [x, 1024])
        result = np.frombuffer(driver.read(x, 4096), np.float32)

    `options`: those of `pyptx.simulate` for every launch (`check=False` is faster). `launches` has the latest reports.
    """

    def __init__(self, **options: Any) -> None:
        refuse_unknown(options, [n for n in CHECKS if n not in SHAPE and n != "memory"], "SimulatedDriver")
        checked_options(options)
        self.options = options
        self.memory = DeviceMemory()
        self.launches: list[Report] = []

    def allocate(self, size: int, *, name: str | None = None) -> int:
        """The address of new memory."""
        return self.memory.allocate(size, name=name).address

    def map(self, address: int, size: int, *, name: str | None = None) -> int:
        """Make memory of this process that begins at `address` device memory, at the same address; launches change it in place. It must stay
        until it is freed.
        """
        if size <= 0:
            raise SimulationError(f"{size} bytes cannot be mapped: the size is positive")
        data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        return self.memory.map(data, address=address, name=name).address

    def free(self, address: int) -> None:
        """Give an allocation back. SimulationError for what is not the address of one."""
        self.memory.free(self._at(address, 0, whole=True))

    def write(self, address: int, data: Any) -> None:
        """Copy bytes, or the contents of an array, to the device."""
        raw = (
            np.frombuffer(data, np.uint8)
            if isinstance(data, Bytes)
            else np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        )
        self._bytes(address, raw.size)[...] = raw

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address."""
        return self._bytes(address, size).tobytes()

    def fill(self, address: int, value: int, size: int) -> None:
        """Set bytes."""
        self._bytes(address, size)[...] = value

    def load(self, source: str | os.PathLike[str] | Operation) -> Mapping[str, LoadedKernel]:
        """The functions of PTX by name. Module variables live as long as they do."""
        return load(source)

    def launch(
        self,
        function: LoadedKernel,
        grid: Sequence[int] | int,
        block: Sequence[int] | int,
        shared: int,
        arguments: Sequence[Any] | Bytes,
        *,
        cluster: Sequence[int] | int | None = None,
        cooperative: bool = False,
    ) -> Report:
        """Run a function to its end. `arguments`: for each parameter an address, a number, or its bytes; or the buffer of all parameters
        as a driver takes it, each at its offset. `shared`: bytes of dynamic shared memory.
        """
        values = _split(function, arguments) if isinstance(arguments, Bytes) else list(arguments)
        report = function.simulate(
            *values, grid=_extent(grid), block=_extent(block), smem=shared, cluster=None if cluster is None else _extent(cluster),
            cooperative=cooperative, memory=self.memory, **self.options,
        )  # fmt: skip
        self.launches = [*self.launches[1 - KEPT_REPORTS :], report]
        return report

    def _bytes(self, address: int, size: int) -> np.ndarray[Any, Any]:
        """The bytes at an address, which belong to one allocation."""
        buffer = self._at(address, size)
        start = address - buffer.address
        return buffer.array.reshape(-1).view(np.uint8)[start : start + size]

    def _at(self, address: int, size: int, *, whole: bool = False) -> DeviceBuffer:
        found = self.memory.find(address, max(size, 1))
        if found is None or (whole and found.address != address):
            what = (
                "is not the address of an allocation"
                if whole
                else f"and {size} bytes from there are not in one allocation"
            )
            raise SimulationError(f"0x{address:x} {what}")
        return found


def _extent(size: Sequence[int] | int) -> Any:
    return tuple(size) if isinstance(size, Sequence) else size


def _split(function: LoadedKernel, buffer: Bytes) -> list[bytes]:
    """The bytes of each parameter."""
    raw, parameters = bytes(buffer), function.parameters
    size = max((p.offset + p.size for p in parameters), default=0)
    if len(raw) < size:
        raise SimulationError(f"the parameters of {function.name} have {size} bytes, and {len(raw)} were given")
    return [raw[p.offset : p.offset + p.size] for p in parameters]
