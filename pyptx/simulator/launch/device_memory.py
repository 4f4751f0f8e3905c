"""Device memory that outlives a launch: addresses that kernels get as numbers, in arrays and in structures."""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from ...diagnostics import SimulationError
from ..engine.image import align
from ..machine.global_memory import Allocation, GlobalMemory
from ..machine.program import DEVICE_BASE, HANDLE_BASE, SHARED_WINDOW
from .arrays import as_array

__all__ = ["DeviceBuffer", "DeviceMemory"]

ALIGNMENT = 256
"""What cudaMalloc aligns to (CUDA programming guide, "Device Memory Accesses")."""
GAP = 4096
"""Bytes between allocations, so that an overrun is seen as one."""
TOP = 1 << 47
"""The first address after those that allocations may have."""


RESERVED = range(SHARED_WINDOW, HANDLE_BASE + (1 << 40))
"""Addresses of what is not global memory, or belongs to one launch."""


class DeviceBuffer:
    """An allocation: `address` (an int, also `int(buffer)` and `buffer + offset`) and `array`, its contents as a NumPy array
    that launches read and write.
    """

    def __init__(self, address: int, array: np.ndarray[Any, Any], allocation: Allocation):
        self.address = address
        self._array = array
        self.allocation = allocation

    def __repr__(self) -> str:
        return f"DeviceBuffer({self.name}, {self.nbytes} bytes at 0x{self.address:x})"

    @property
    def name(self) -> str:
        return self.allocation.name

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The contents. Who asks for them may write them: they are taken as initialised from then on."""
        self.allocation.uninitialised = False
        return self._array

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def __index__(self) -> int:
        return self.address

    __int__ = __index__

    def __add__(self, offset: int) -> int:
        return self.address + operator.index(offset)

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the contents."""
        return self._array.copy()

    def copy_from(self, values: Any) -> None:
        """Write the contents. SimulationError where the shape does not fit."""
        found = np.asarray(values)
        try:
            self._array[...] = found
        except ValueError:
            raise SimulationError(
                f"{self.name} has shape {self._array.shape}; values of shape {found.shape} do not fit"
            ) from None
        self.allocation.uninitialised = False


class DeviceMemory:
    """The global memory of a simulated GPU, for several launches: `simulate(kernel, ..., memory=memory)`.

        memory = pyptx.DeviceMemory()
        nodes = memory.copy(np.arange(4, dtype=np.uint64), name="nodes")
        nodes.array[0] = nodes + 16  # a pointer to the third element
        pyptx.simulate(kernel, nodes, memory=memory, grid=1, block=32)

    Buffers and the arrays that are mapped here may be arguments; so may plain addresses, for 64-bit parameters.
    """

    def __init__(self) -> None:
        self._buffers: dict[int, DeviceBuffer] = {}
        self._map = GlobalMemory()
        self._next = DEVICE_BASE
        self.freed: deque[tuple[str, int, int]] = deque(maxlen=64)
        """Name, address and size of what was freed last, for messages about accesses of it."""

    def __iter__(self) -> Iterator[DeviceBuffer]:
        return iter(self._buffers.values())

    def __len__(self) -> int:
        return len(self._buffers)

    def allocate(
        self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: Any = np.uint8, *, name: str | None = None
    ) -> DeviceBuffer:
        """Memory whose contents mean nothing yet, aligned to 256 bytes: a checked first launch that reads before it writes is a
        finding. SimulationError for a shape that is not positive, or elements that have no fixed size.
        """
        sizes = tuple(map(operator.index, shape if isinstance(shape, Sequence) else (shape,)))
        if any(n < 0 for n in sizes):
            raise SimulationError(f"an allocation of shape {sizes}: sizes are not negative")
        elements = _elements(dtype)
        size = math.prod(sizes) * elements.itemsize
        try:
            raw = np.full(size, 0xCD, np.uint8)  # not zeros, which hide mistakes
        except MemoryError:
            raise SimulationError(f"an allocation of {size:,} bytes: this machine has no memory for it") from None
        buffer = self.map(raw.view(elements).reshape(sizes), name=name)
        buffer.allocation.uninitialised = True
        return buffer

    def copy(self, array: Any, *, name: str | None = None) -> DeviceBuffer:
        """Memory with a copy of an array or CPU tensor."""
        contiguous = getattr(array, "contiguous", None)  # a tensor
        found = as_array(contiguous() if contiguous else np.asanyarray(array, order="C"), "the array")
        return self.map(np.array(found), name=name)

    def pointers(self, items: Sequence[Any], *, name: str | None = None) -> DeviceBuffer:
        """Memory with a table of addresses: of buffers, of arrays (mapped here, where they are not), of numbers as they are, and 0 for None."""
        return self.copy(np.array([self._address(item) for item in items], np.uint64), name=name)

    def _address(self, item: Any) -> int:
        if item is None:
            return 0
        if isinstance(item, DeviceBuffer):
            if self._buffers.get(item.address) is not item:
                raise SimulationError(f"{item!r} is not allocated in this memory")
            return item.address
        if isinstance(item, (int, np.integer)):
            return int(item)
        found = as_array(item, "an item of the table")
        if found is None:
            raise SimulationError(
                f"a table of pointers has buffers, arrays, addresses and None, not {type(item).__name__}"
            )
        known = self.address_of(found)
        return self.map(item).address if known is None else known

    def map(
        self, array: Any, *, address: int | None = None, name: str | None = None, read_only: bool = False
    ) -> DeviceBuffer:
        """The memory of a contiguous array or CPU tensor itself, at `address` (the next free one): launches change it in place.
        SimulationError where the address is taken, or the array is not contiguous.
        """
        found = as_array(array, "the array")
        if found is None:
            raise SimulationError(f"{type(array).__name__} is not an array")
        data = found.reshape(-1).view(np.uint8)
        start = self._next if address is None else operator.index(address)
        near = next((b for b in (self._at(start, data.size),) if b is not None), None)
        if near is not None:
            raise SimulationError(f"0x{start:x} to 0x{start + data.size:x} is taken by {near!r}")
        if start <= 0 or start + data.size > TOP:
            raise SimulationError(f"0x{start:x} is not an address of global memory, which ends at 0x{TOP:x}")
        if start in RESERVED or start + data.size in RESERVED:
            raise SimulationError(
                f"0x{start:x} is in the windows of shared memory, arguments and handles, 0x{RESERVED[0]:x} to 0x{RESERVED[-1]:x}"
            )
        if address is None:
            self._next = align(start + max(data.size, 1), ALIGNMENT) + GAP
        title = name or f"allocation {len(self._buffers)}"
        allocation = Allocation(title, start, data, read_only or not found.flags.writeable)
        buffer = self._buffers[start] = DeviceBuffer(start, found, allocation)
        self._map.add(allocation)
        return buffer

    def free(self, buffer: DeviceBuffer) -> None:
        """Give an allocation back; its addresses fault from now on. SimulationError where it is not of this memory."""
        if not isinstance(buffer, DeviceBuffer):
            found = f"free takes what allocate, copy or map returned, not {type(buffer).__name__}"
            at = self.find(buffer) if isinstance(buffer, int) and buffer >= 0 else None
            raise SimulationError(found + (f": the address is in {at!r}" if at is not None else ""))
        if self._buffers.get(buffer.address) is not buffer:
            raise SimulationError(f"{buffer!r} is not allocated in this memory: it is freed, or of another one")
        del self._buffers[buffer.address]
        self.freed.appendleft((buffer.allocation.name, buffer.address, buffer.nbytes))
        self._map.remove(buffer.allocation)

    def find(self, address: int, size: int = 1) -> DeviceBuffer | None:
        """The allocation that holds all of these bytes."""
        found = self._map.find(operator.index(address), size)
        return None if found is None else self._buffers[found.base]

    def address_of(self, array: np.ndarray[Any, Any]) -> int | None:
        """Where the memory of a host array lies on the device, if it is mapped here."""
        host = array.__array_interface__["data"][0]
        for buffer in self._buffers.values():
            offset = host - buffer.allocation.data.__array_interface__["data"][0]
            if array.nbytes and 0 <= offset and offset + array.nbytes <= buffer.nbytes:
                return buffer.address + offset
        return None

    def launched(self) -> None:
        """After a launch, which may have written anything."""
        for buffer in self._buffers.values():
            buffer.allocation.uninitialised = False

    def _at(self, start: int, size: int) -> DeviceBuffer | None:
        """An allocation that shares a byte with a range."""
        for near in self._map.allocations:
            if near.base < start + max(size, 1) and start < near.base + max(near.size, 1):
                return self._buffers[near.base]
        return None


def _elements(dtype: Any) -> np.dtype[Any]:
    """The type of an array's elements. SimulationError where it is none, or one of Python objects."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.hasobject or not found.itemsize:
        raise SimulationError(
            f"dtype={dtype!r} is not a type of elements of a fixed size: take NumPy's, such as np.float32"
        )
    return found
