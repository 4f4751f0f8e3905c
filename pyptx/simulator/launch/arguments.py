"""The arguments of a simulated launch: arrays become allocations, everything else bytes of the parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
    placement = _Placement(memory, uninitialised, device)
    for number, (parameter, value) in enumerate(zip(program.parameters, args, strict=True)):
        what = f"argument {number} ({parameter.name}) of {program.entry}"
        raw = _Argument(placement, parameter, number, what).bytes_of(value)
        buffer[parameter.offset : parameter.offset + parameter.size] = np.frombuffer(raw, np.uint8)
    return buffer


class _Placement:
    """Where the arrays of a launch are."""

    def __init__(self, memory: GlobalMemory, uninitialised: Collection[int], device: DeviceMemory | None):
        self.memory, self.uninitialised, self.device = memory, uninitialised, device
        self.top = ARGUMENT_BASE
        self.placed: dict[tuple[int, int], int] = {}

    def address(self, array: np.ndarray, name: str, number: int) -> int:
        """The address of an array; one given twice is one allocation."""
        data = array.reshape(-1).view(np.uint8)
        known = None if self.device is None else self.device.address_of(data)
        if known is not None:
            return known
        key = (data.__array_interface__["data"][0], data.size) if data.size else (-1, number)
        if key not in self.placed:
            start = self.placed[key] = self.top + _place_in_owner(array) % 256
            name = f"{name} (argument {number})"
            fresh = number in self.uninitialised
            self.memory.add(Allocation(name, start, data, not array.flags.writeable, fresh))
            self.top = align(start + max(data.size, 1), 256) + 4096
        return self.placed[key]

    def located(self, buffer: DeviceBuffer, what: str) -> int:
        """The address of a buffer, which must be of this launch's memory."""
        if self.device is None or self.device.find(buffer.address, buffer.nbytes) is not buffer:
            raise SimulationError(f"{what} is {buffer!r}, which is not allocated in the memory= of this launch")
        return buffer.address


@dataclass(frozen=True, slots=True)
class _Argument:
    """What one parameter gets."""

    placement: _Placement
    parameter: Parameter
    number: int
    what: str

    def bytes_of(self, value: object) -> bytes:
        parameter = self.parameter
        if parameter.array and isinstance(value, TensorArgument):
            value = {0: value}
        if parameter.array and isinstance(value, Mapping):
            return self.struct(cast("Mapping[object, object]", value))
        if isinstance(value, TensorArgument):
            return self.tensor_map(value)
        if isinstance(value, (Texture, Surface, Sampler)):
            wanted = OPAQUE.get(parameter.type, type(value))
            if not isinstance(value, wanted) or not self.holds_address():
                raise self.refusal(f"not a {type(value).__name__}")
            return self.handle(value)
        if isinstance(value, Endpoint):
            if parameter.size != 4 or parameter.type[0] == "f":
                raise SimulationError(f"{self.what} is a .{parameter.type}; an endpoint is passed for a .u32")
            return self.endpoint(value)
        if isinstance(value, DeviceBuffer):
            if not self.holds_address():
                raise self.refusal("not an address")
            return self.placement.located(value, self.what).to_bytes(8, "little")
        array = as_array(value, self.what)
        if array is None or parameter.array:
            return _scalar_bytes(parameter, value if array is None else array, self.what)
        if not self.holds_address():
            raise self.refusal("not an array", " scalar")
        return self.address(array, parameter.name)

    def holds_address(self) -> bool:
        return self.parameter.size == 8 and self.parameter.type[0] != "f"

    def refusal(self, given: str, kind: str = "") -> SimulationError:
        return SimulationError(f"{self.what} is a .{self.parameter.type}{kind}, {given}")

    def address(self, array: np.ndarray, name: str) -> bytes:
        return self.placement.address(array, name, self.number).to_bytes(8, "little")

    def handle(self, value: Texture | Surface | Sampler) -> bytes:
        return self.placement.memory.handles.add(value).to_bytes(8, "little")

    def endpoint(self, endpoint: Endpoint) -> bytes:
        """The number of an endpoint, whose memories become allocations."""
        found = [as_array(a, f"{self.what}: the memory") for a in endpoint.arrays]
        arrays = [a for a in found if a is not None and a.flags.writeable]
        if len(arrays) < len(found) or len({a.nbytes for a in arrays}) > 1:
            raise SimulationError(f"{self.what}: the memories of an endpoint are writable arrays of one size")
        names = (f"memory {i} of {self.parameter.name}" for i in range(len(arrays)))
        bases = tuple(self.placement.address(a, name, self.number) for a, name in zip(arrays, names, strict=True))
        endpoints = self.placement.memory.endpoints
        endpoints[len(endpoints) + 1] = Members(bases, arrays[0].nbytes)
        return len(endpoints).to_bytes(4, "little")

    def tensor_map(self, value: TensorArgument) -> bytes:
        """The address of a tensor map."""
        if not self.holds_address():
            raise self.refusal("not a tensor map", " scalar")
        encoded = self.descriptor(value, self.parameter.name)
        return self.address(np.frombuffer(bytearray(encoded), np.uint8), self.parameter.name)

    def descriptor(self, value: TensorArgument, name: str) -> bytes:
        array = as_array(value.array, self.what)
        assert array is not None
        return value.at(self.placement.address(array, f"the tensor of {name}", self.number))

    def struct(self, members: Mapping[object, object]) -> bytes:
        """The bytes of a structure from its members, by their offsets; zeros between them."""
        size = self.parameter.size
        raw = bytearray(size)
        for offset, value in members.items():
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise SimulationError(f"{self.what}: members go by their offset in bytes, not {offset!r}")
            part = self.member(value, f"{self.parameter.name}+{offset}")
            if not part:
                raise SimulationError(
                    f"{self.what}: the member at {offset} is {type(value).__name__}; give bytes, a NumPy scalar (np.int32(4)), an "
                    "array (its address) or a tensor map"
                )
            if offset < 0 or offset + len(part) > size:
                raise SimulationError(f"{self.what} has {size} bytes, and a member of {len(part)} at {offset}")
            raw[offset : offset + len(part)] = part
        return bytes(raw)

    def member(self, value: object, name: str) -> bytes:
        """The bytes of a member of a structure, none for what cannot be one."""
        if isinstance(value, TensorArgument):
            return self.descriptor(value, name)
        if isinstance(value, np.generic):
            return value.tobytes()
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        if isinstance(value, (Texture, Surface, Sampler)):
            return self.handle(value)
        if isinstance(value, DeviceBuffer):
            return self.placement.located(value, self.what).to_bytes(8, "little")
        array = as_array(value, self.what)
        return b"" if array is None else self.address(array, name)


def _place_in_owner(array: np.ndarray) -> int:
    """How many bytes after its owner's start a view begins: a GPU's allocators align the owner, so `x[1:]` of floats is aligned
    to 4 bytes only.
    """
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]


def _whole_bytes(parameter: Parameter, value: object, what: str) -> bytes:
    """All bytes of a parameter, from bytes or an array."""
    if not isinstance(value, (bytes, bytearray, np.ndarray, np.generic)):
        raise SimulationError(
            f"{what} is passed by value as {parameter.size} bytes; give bytes or a NumPy array of that size, or "
            "its members by offset: {0: array, 8: np.int32(4)}"
        )
    raw = bytes(value) if isinstance(value, (bytes, bytearray)) else np.ascontiguousarray(value).tobytes()
    if len(raw) != parameter.size:
        raise SimulationError(f"{what} has {parameter.size} bytes, and {len(raw)} were given")
    return raw


def _scalar_bytes(parameter: Parameter, value: object, what: str) -> bytes:
    """A scalar or a struct in the parameter buffer."""
    scalar = SCALAR_TYPES.get(parameter.type)
    if parameter.array or (scalar is not None and isinstance(value, (bytes, bytearray))):
        return _whole_bytes(parameter, value, what)
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
