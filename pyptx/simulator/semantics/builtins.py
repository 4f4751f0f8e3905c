"""Functions that the CUDA device runtime provides (vprintf, malloc, free, __assertfail), and what replaces them elsewhere:
C++'s operators new and delete, and the printf of GCC's C library, which takes its arguments as vprintf does.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..machine.global_memory import Allocation
from ..machine.machine import Machine, Printed
from ..machine.program import HEAP_BASE, LOCAL_WINDOW, Inst, Operand, Place, Reg
from .c_format import CONVERSION, conversion_of

Array = Any
MOST_HEAP = 1 << 30
"""Bytes that malloc gives out at most; then it returns null, as on a GPU (whose heap has 8 MiB unless the host asks for more)."""


def call_builtin(
    machine: Machine,
    inst: Inst,
    name: str,
    returns: tuple[Operand, ...],
    arguments: tuple[Operand, ...],
    lanes: np.ndarray,
) -> None:
    """Run a built-in function for some lanes."""
    run = BUILTINS[name]
    for lane in lanes.tolist():
        result = run(machine, inst, [_argument(machine, a, lane) for a in arguments], lane)
        for target in returns:
            _store(machine, target, result, lane)


def _local(machine: Machine, place: Place, lane: int) -> int:
    start = place.address - 0x10
    if place.frame is not None:
        start += int(machine.row(place.frame)[lane])
    return start


def _argument(machine: Machine, operand: Operand, lane: int) -> int:
    if isinstance(operand, Place) and operand.space == "local":
        start = _local(machine, operand, lane)
        return int.from_bytes(machine.local[lane, start : start + min(operand.size, 8)].tobytes(), "little")
    source = machine.source(operand, f"u{operand.pool}" if isinstance(operand, Reg) else "u64")
    return int(source[lane % source.size])


def _store(machine: Machine, operand: Operand, value: int, lane: int) -> None:
    if isinstance(operand, Reg):
        row = machine.row(operand)
        row[lane] = row.dtype.type(value)
    elif isinstance(operand, Place):
        start = _local(machine, operand, lane)
        raw = (value & (2**64 - 1)).to_bytes(8, "little")[: operand.size]
        machine.local[lane, start : start + len(raw)] = np.frombuffer(raw, np.uint8)


def _bytes(machine: Machine, inst: Inst, address: int, lane: int) -> np.ndarray:
    """Memory from a generic address to the end of what it points into."""
    if LOCAL_WINDOW <= address < LOCAL_WINDOW + (1 << 32):
        return machine.local[lane, address - LOCAL_WINDOW - 0x10 :]
    found = machine.memory.find(address, 1)
    if found is None:
        machine.fault(inst, f"0x{address:x} is not a valid address: {machine.memory.describe(address)}", lane)
    return found.data[address - found.base :]


def _string(machine: Machine, inst: Inst, address: int, lane: int) -> str:
    return _bytes(machine, inst, address, lane).tobytes().partition(b"\0")[0].decode("utf-8", "replace")


def _print(machine: Machine, inst: Inst, values: list[int], lane: int) -> int:
    """printf: the arguments lie in a buffer, each aligned to its size."""
    address, arguments = values
    pattern = _string(machine, inst, address, lane)
    at = 0
    count = 0

    def take(size: int) -> bytes:
        nonlocal at, count
        at = (at + size - 1) // size * size
        raw = _bytes(machine, inst, arguments, lane)[at : at + size].tobytes()
        at += size
        count += 1
        return raw

    def one(found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        numbers = [struct.unpack("<i", take(4))[0] if word == "*" else word for word in (width, precision)]
        wide = int(numbers[0] or 0)
        conversion = conversion_of(flags, wide, None if precision is None else int(numbers[1] or 0), length or "", kind)
        if kind in "eEfFgGaA":
            return conversion.floating(struct.unpack("<d", take(8))[0])
        if kind in "sp":
            (address,) = struct.unpack("<Q", take(8))
            return (
                conversion.pointer(address) if kind == "p" else conversion.text(_string(machine, inst, address, lane))
            )
        value = int.from_bytes(take(8 if conversion.bits == 64 else 4), "little")
        return conversion.character(value) if kind == "c" else conversion.integer(value)

    text = CONVERSION.sub(one, pattern)
    machine.prints.append(Printed(text, inst.filename, inst.line, machine.describe_thread(lane)))
    return count


def _allocate(machine: Machine, inst: Inst, values: list[int], lane: int) -> int:
    size = values[0]
    taken = sum(a.size for a in machine.memory.allocations if a.base >= HEAP_BASE and a.name.startswith("malloc"))
    if taken + size > MOST_HEAP:
        return 0
    used = [a.base + a.size for a in machine.memory.allocations if a.base >= HEAP_BASE and a.name.startswith("malloc")]
    base = (max(used, default=HEAP_BASE) + 256) // 256 * 256
    machine.memory.add(Allocation(f"malloc({size})", base, np.full(max(size, 1), 0xCD, np.uint8)))
    return base


def _free(machine: Machine, inst: Inst, values: list[int], lane: int) -> int:
    address = values[0]
    found = machine.memory.find(address, 1)
    if address and (found is None or found.base != address or not found.name.startswith("malloc")):
        machine.fault(inst, f"free of 0x{address:x}, which malloc did not return", lane)
    if found is not None:
        machine.memory.remove(found)
    return 0


def _fail(machine: Machine, inst: Inst, values: list[int], lane: int) -> int:
    text, where = (_string(machine, inst, values[i], lane) for i in (0, 3))
    machine.fault(inst, f"assertion failed in {where}: {text}", lane)


BUILTINS: dict[str, Callable[[Machine, Inst, list[int], int], int]] = {
    "vprintf": _print,
    "printf": _print,
    "malloc": _allocate,
    "_Znwm": _allocate,
    "_Znam": _allocate,
    "free": _free,
    "_ZdlPv": _free,
    "_ZdlPvm": _free,
    "_ZdaPv": _free,
    "_ZdaPvm": _free,
    "__assertfail": _fail,
}
"""What runs for a function that a module declares and does not define: it gets the arguments of a lane, and gives the result."""
