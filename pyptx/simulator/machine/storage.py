"""Registers, shared and local memory of a batch of CTAs.

A register is a row over all lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...diagnostics import SimulationError
from .global_memory import GlobalMemory
from .program import LOCAL_BASE, Imm, Inst, Name, Operand, Place, Program, Reg, Sink, Special, Vec
from .special_registers import special_value
from .threads import Launch, Threads
from .types import dtype_of

Array = Any
_ROW_TYPES = {
    "p": np.bool_,
    "8": np.uint8,
    "16": np.uint16,
    "32": np.uint32,
    "64": np.uint64,
    "128": np.uint64,
}
POISON = 0xCD
SMALL = 1024
"""Up to so many lanes constants are full rows: NumPy broadcasts one element more slowly than it reads a
short row.
"""


class Storage(Threads):
    """What the threads of a batch have."""

    def __init__(self, program: Program, launch: Launch, memory: GlobalMemory, ctas: int):
        super().__init__(program, launch, ctas)
        self.memory = memory
        lanes = self.lanes
        self.pools: dict[str, np.ndarray] = {}
        for pool, count in program.pools.items():
            shape = (count, 2, lanes) if pool == "128" else (count, lanes)
            rows = np.empty(shape, _ROW_TYPES[pool])
            rows.view(np.uint8)[...] = 0 if pool == "p" else POISON
            self.pools[pool] = rows
        self.shared_size = program.dynamic_offset - 0x400 + launch.dynamic_shared
        stride = max(128, (self.shared_size + 127) // 128 * 128)
        self.shared = np.full((ctas, stride), POISON, np.uint8)
        self.local_size = max(0, program.local_size - LOCAL_BASE)
        self.local = np.full((lanes, max(32, (self.local_size + 31) // 32 * 32)), POISON, np.uint8)
        self.stack_top = np.full(lanes, program.dynamic_start, np.uint32)
        """Where the next `alloca` of each lane begins."""
        self._special: dict[str, np.ndarray] = {}
        self._constants: dict[tuple[str, bytes], np.ndarray] = {}
        self._index_buffers: dict[np.dtype[Any], tuple[Array, Array, Array]] = {}

    def clear(self) -> None:
        """A new batch of CTAs begins."""
        self.shared[...] = POISON
        self.local[...] = POISON
        self.stack_top[...] = self.program.dynamic_start
        for reg in self.program.frame_pointers:
            self.row(reg)[...] = self.program.stack_start
        for name, array in self._special.items():
            array[...] = special_value(name, self, self.shared_size)

    def add_access(self, access: Any) -> None:
        """An access of an instruction was bound (`memory.Access`)."""

    def index_buffers(self, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
        """Two rows of an address type and one of indices, for one instruction at a time."""
        found = self._index_buffers.get(dtype)
        if found is None:
            found = np.empty(self.lanes, dtype), np.empty(self.lanes, dtype), np.empty(self.lanes, np.int64)
            self._index_buffers[dtype] = found
        return found

    def row(self, reg: Reg) -> np.ndarray:
        """A register's storage over all lanes: unsigned of its width, or bool. Shape (lanes,), 128-bit ones
        (2, lanes).
        """
        return self.pools[reg.pool][reg.slot]

    def address_of(self, place: Place) -> int:
        """A variable's address in its space (without the frame pointer)."""
        if place.space == "shared" and place.size == -1:
            return self.program.dynamic_offset + place.address
        return place.address

    def source(self, operand: Operand, type_name: str, *, whole: bool = False) -> np.ndarray:
        """A readable array of an operand in a scalar type: a view of the register, or one element for a
        constant.
        """
        dtype = dtype_of(type_name)
        match operand:
            case Reg():
                row = self.row(operand)
                if row.dtype == dtype or operand.pool == "128":
                    return row
                if row.dtype.itemsize == dtype.itemsize:
                    return row.view(dtype)
                if row.dtype.itemsize > dtype.itemsize:
                    return row.view(dtype)[:: row.dtype.itemsize // dtype.itemsize]
                what = "predicate" if operand.pool == "p" else f"{row.dtype.itemsize * 8}-bit register"
                raise SimulationError(f"a {what} is read as .{type_name}")
            case Imm():
                array = operand.array(dtype)
            case Place():
                unsigned = np.dtype(f"u{dtype.itemsize}")
                array = np.array([self.address_of(operand)], np.uint64).astype(unsigned).view(dtype)
                if operand.space == "shared" and self.rank_bits is not None:
                    return self.rank_bits.astype(unsigned).view(dtype) + array
            case Special(name):
                special = self.special(name)
                if special.dtype.itemsize < dtype.itemsize:
                    return special.astype(dtype)
                if special.dtype == dtype:
                    return special
                return special.view(np.dtype(f"u{dtype.itemsize}"))[:: special.dtype.itemsize // dtype.itemsize].view(
                    dtype
                )
            case Vec((single,)):  # CUTLASS writes the scale factors of mma so
                return self.source(single, type_name, whole=whole)
            case Name(name):
                raise SimulationError(f"{name} is a place in the code, which has no address in memory")
            case _:
                raise SimulationError(f"this operand cannot be read: {operand}")
        if whole or self.lanes <= SMALL:
            return self._constant(array)
        return array

    def _constant(self, array: np.ndarray) -> np.ndarray:
        """A constant as a full row, shared by all instructions that use it."""
        key = (array.dtype.str, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = np.repeat(array, self.lanes)
            found.flags.writeable = False
        return found

    def destination(self, operand: Operand, type_name: str) -> tuple[np.ndarray, np.dtype[Any] | None] | None:
        """(array to write, dtype to view the result as before, or None), or None for the sink.

        A register wider than the type gets the value extended: sign-extended for signed types, else with
        zeros.
        """
        if isinstance(operand, Vec) and len(operand.elements) == 1:
            operand = operand.elements[0]
        if isinstance(operand, Sink):
            return None
        assert isinstance(operand, Reg), operand
        dtype = dtype_of(type_name)
        row = self.row(operand)
        if operand.pool in ("128", "p") or row.dtype == dtype:
            return row, None
        if row.dtype.itemsize == dtype.itemsize:
            return row.view(dtype), None
        if dtype.kind == "i":
            return row.view(np.dtype(f"i{row.dtype.itemsize}")), None
        return row, (np.dtype(f"u{dtype.itemsize}") if dtype.kind == "f" else None)

    def special(self, name: str) -> np.ndarray:
        """The values of a special register, one per lane; refreshed for each batch."""
        found = self._special.get(name)
        if found is None:
            value = special_value(name, self, self.shared_size)
            found = self._special[name] = np.array(np.broadcast_to(value, self.lanes))
        return found

    def guard_of(self, inst: Inst, mask: Array) -> Array:
        """The lanes of a mask whose guard holds."""
        assert inst.guard is not None
        p = self.row(inst.guard)
        p = ~p if inst.negated else p.copy()
        if mask is None:
            return p
        return p & mask

    def active(self, inst: Inst, mask: Array) -> np.ndarray:
        """The lanes of a mask (None: all alive) in which the instruction takes effect."""
        here = self.executing(mask)
        return here if inst.guard is None else self.guard_of(inst, here)
