"""The arguments of a simulated launch: arrays become allocations, everything else bytes of the parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import numpy as np

from ...diagnostics import SimulationError, counted
from ...dialects.ptx.types import SCALAR_TYPES
from ..engine.image import align
from ..machine.endpoint import Endpoint, Members
from ..machine.global_memory import Allocation, GlobalMemory
from ..machine.program import ARGUMENT_BASE, Parameter, Program
from ..machine.texture import OPAQUE, Sampler, Surface, Texture
from ..tensor.tensor_map import TensorArgument
from .arrays import as_array
from .device_memory import DeviceBuffer, DeviceMemory


def place_arguments(
    program: Program,
    args: Sequence[object],
    memory: GlobalMemory,
    uninitialised: Collection[int] = (),
    device: DeviceMemory | None = None,
) -> np.ndarray:
    """The parameter buffer; arrays become allocations, except for those that `device` has."""
    if len(args) != len(program.parameters):
        listed = ", ".join(f"{p.name} (.{p.type})" for p in program.parameters)
        raise SimulationError(
            f"{program.entry} takes {counted(len(program.parameters), 'argument')}, not {len(args)}: {listed}"
        )
    buffer = np.zeros(max(program.parameter_size, 1), np.uint8)
    top = ARGUMENT_BASE
    placed: dict[tuple[int, int], int] = {}

    def place(array: np.ndarray, name: str, number: int) -> int:
        """The address of an array; one given twice is one allocation."""
        nonlocal top
        data = array.reshape(-1).view(np.uint8)
        known = None if device is None else device.address_of(data)
        if known is not None:
            return known
        key = (data.__array_interface__["data"][0], data.size) if data.size else (-1, number)
        if key not in placed:
            start = placed[key] = top + _place_in_owner(array) % 256
            fresh = number in uninitialised
            memory.add(Allocation(f"{name} (argument {number})", start, data, not array.flags.writeable, fresh))
            top = align(start + max(data.size, 1), 256) + 4096
        return placed[key]

    def endpoint_number(endpoint: Endpoint) -> int:
        """The number of an endpoint, whose memories become allocations."""
        found = [as_array(a, f"{what}: the memory") for a in endpoint.arrays]
        arrays = [a for a in found if a is not None and a.flags.writeable]
        if len(arrays) < len(found) or len({a.nbytes for a in arrays}) > 1:
            raise SimulationError(f"{what}: the memories of an endpoint are writable arrays of one size")
        bases = tuple(place(a, f"memory {i} of {parameter.name}", number) for i, a in enumerate(arrays))
        memory.endpoints[len(memory.endpoints) + 1] = Members(bases, arrays[0].nbytes)
        return len(memory.endpoints)

    def located(buffer: DeviceBuffer, what: str) -> int:
        """The address of a buffer, which must be of this launch's memory."""
        if device is None or device.find(buffer.address, buffer.nbytes) is not buffer:
            raise SimulationError(f"{what} is {buffer!r}, which is not allocated in the memory= of this launch")
        return buffer.address

    def address_of(value: object, name: str, number: int, what: str) -> bytes | None:
        """What stands for an object of the host: the address of an array, a handle; None for a plain number."""
        if isinstance(value, (Texture, Surface, Sampler)):
            return memory.handles.add(value).to_bytes(8, "little")
        if isinstance(value, DeviceBuffer):
            return located(value, what).to_bytes(8, "little")
        array = as_array(value, what)
        return None if array is None else place(array, name, number).to_bytes(8, "little")

    def descriptor(value: TensorArgument, name: str, number: int, what: str) -> bytes:
        array = as_array(value.array, what)
        assert array is not None
        return value.at(place(array, f"the tensor of {name}", number))

    def struct(parameter: Parameter, members: Mapping[object, object], number: int, what: str) -> bytes:
        """The bytes of a structure from its members, by their offsets; zeros between them."""
        raw = bytearray(parameter.size)
        for offset, value in members.items():
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise SimulationError(f"{what}: members go by their offset in bytes, not {offset!r}")
            name = f"{parameter.name}+{offset}"
            if isinstance(value, TensorArgument):
                part = descriptor(value, name, number, what)
            elif isinstance(value, np.generic):
                part = value.tobytes()
            elif isinstance(value, (bytes, bytearray)):
                part = bytes(value)
            else:
                part = address_of(value, name, number, what) or b""
            if not part:
                raise SimulationError(
                    f"{what}: the member at {offset} is {type(value).__name__}; give bytes, a NumPy scalar (np.int32(4)), an "
                    "array (its address) or a tensor map"
                )
            if offset < 0 or offset + len(part) > parameter.size:
                raise SimulationError(f"{what} has {parameter.size} bytes, and a member of {len(part)} at {offset}")
            raw[offset : offset + len(part)] = part
        return bytes(raw)

    for number, (parameter, value) in enumerate(zip(program.parameters, args, strict=True)):
        what = f"argument {number} ({parameter.name}) of {program.entry}"
        if parameter.array and isinstance(value, TensorArgument):
            value = {0: value}
        if parameter.array and isinstance(value, Mapping):
            raw = struct(parameter, cast("Mapping[object, object]", value), number, what)
        elif isinstance(value, TensorArgument):
            if parameter.size != 8 or parameter.type[0] == "f":
                raise SimulationError(f"{what} is a .{parameter.type} scalar, not a tensor map")
            encoded = descriptor(value, parameter.name, number, what)
            raw = place(np.frombuffer(bytearray(encoded), np.uint8), parameter.name, number).to_bytes(8, "little")
        elif isinstance(value, (Texture, Surface, Sampler)):
            wanted = OPAQUE.get(parameter.type, type(value))
            if not isinstance(value, wanted) or parameter.size != 8 or parameter.type[0] == "f":
                raise SimulationError(f"{what} is a .{parameter.type}, not a {type(value).__name__}")
            raw = address_of(value, parameter.name, number, what)
        elif isinstance(value, Endpoint):
            if parameter.size != 4 or parameter.type[0] == "f":
                raise SimulationError(f"{what} is a .{parameter.type}; an endpoint is passed for a .u32")
            raw = endpoint_number(value).to_bytes(4, "little")
        elif isinstance(value, DeviceBuffer):
            if parameter.size != 8 or parameter.type[0] == "f":
                raise SimulationError(f"{what} is a .{parameter.type}, not an address")
            raw = located(value, what).to_bytes(8, "little")
        else:
            array = as_array(value, what)
            if array is not None and not parameter.array:
                if parameter.size != 8 or parameter.type[0] == "f":
                    raise SimulationError(f"{what} is a .{parameter.type} scalar, not an array")
                raw = place(array, parameter.name, number).to_bytes(8, "little")
            else:
                raw = _scalar_bytes(parameter, value if array is None else array, what)
        buffer[parameter.offset : parameter.offset + parameter.size] = np.frombuffer(cast(bytes, raw), np.uint8)
    return buffer


def _place_in_owner(array: np.ndarray) -> int:
    """How many bytes after its owner's start a view begins: a GPU's allocators align the owner, so `x[1:]` of floats is aligned
    to 4 bytes only.
    """
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]


def _scalar_bytes(parameter: Parameter, value: object, what: str) -> bytes:
    """A scalar or a struct in the parameter buffer."""
    if parameter.array:
        raw = value if isinstance(value, (bytes, bytearray)) else None
        if raw is None and isinstance(value, (np.ndarray, np.generic)):
            raw = np.ascontiguousarray(value).tobytes()
        if raw is None:
            raise SimulationError(
                f"{what} is passed by value as {parameter.size} bytes; give bytes or a NumPy array of that size, or "
                "its members by offset: {0: array, 8: np.int32(4)}"
            )
        if len(raw) != parameter.size:
            raise SimulationError(f"{what} has {parameter.size} bytes, and {len(raw)} were given")
        return bytes(raw)
    scalar = SCALAR_TYPES.get(parameter.type)
    if scalar is not None and isinstance(value, (bytes, bytearray)):
        if len(value) != parameter.size:
            raise SimulationError(f"{what} has {parameter.size} bytes, and {len(value)} were given")
        return bytes(value)
    if scalar is None:
        wanted = OPAQUE.get(parameter.type)
        hint = f": pass a pyptx.simulator.{wanted.__name__}" if wanted else ", which the simulator does not take yet"
        raise SimulationError(f"{what} is a .{parameter.type}{hint}")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int)):
        if scalar.kind == "float" and scalar.name in ("f32", "f64"):
            return np.array([value], f"f{scalar.bits // 8}").tobytes()
        number = int(value)
        low, high = -(1 << (scalar.bits - 1)), (1 << scalar.bits) - 1
        if not low <= number <= high:
            raise SimulationError(f"{what} is a .{parameter.type}: {number} does not fit")
        return (number & high).to_bytes(scalar.bits // 8, "little")
    if isinstance(value, float):
        if scalar.name == "f16":
            return np.array([value], np.float16).tobytes()
        if scalar.kind in ("float", "bits") and scalar.bits in (32, 64):
            return np.array([value], f"f{scalar.bits // 8}").tobytes()
        raise SimulationError(f"{what} is a .{parameter.type}, not a float; convert {value!r} yourself")
    if value is None and scalar.bits == 64 and scalar.kind != "float":
        return bytes(8)
    raise SimulationError(f"{what} is a .{parameter.type} and cannot be {type(value).__name__}")
