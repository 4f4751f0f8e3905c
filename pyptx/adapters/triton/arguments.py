"""The arguments of a Triton launch as the parameters of its PTX, by the signature that Triton compiled for."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ...diagnostics import SimulationError
from ...simulator import DeviceMemory, tensor_map
from ..tensors import address_of, map_pointees

__all__ = ["Arguments", "Unsupported"]

INTEGERS = {
    "i1": "i1",
    "u1": "i1",
    **{f"{sign}{bits}": f"{sign}{bits // 8}" for sign in "iu" for bits in (8, 16, 32, 64)},
}
"""Triton's names of integers -> NumPy's."""
TABLES = ("*i64", "*u64", "*ki64", "*ku64")
"""What tables of pointers are passed as."""
SWIZZLES = ("none", "32B", "64B", "128B")
ELEMENTS = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz", "b4x16", "b4x16_p64",
    "b6x16_p32",
)  # fmt: skip
"""Element types of a tensor map by the driver's number (CUtensorMapDataType)."""
TO_DRIVER = {8: 10, 9: 8, 10: 9}
"""Element types whose number in a Triton descriptor is another one than the driver's."""


class Unsupported(SimulationError):
    """A launch uses what the simulator or this adapter does not have yet."""


def _single(value: float) -> np.float32:
    """The nearest one; infinity where it is too large, as a conversion in C gives it."""
    with np.errstate(over="ignore"):
        return np.float32(value)


def _half(value: float) -> np.float16:
    """The nearest one. OverflowError, as from Triton's launcher, where it is too large."""
    return np.frombuffer(struct.pack("<e", value), np.float16)[0]


def _brain(value: float) -> np.uint16:
    """The bits of the upper half of the float: Triton's launcher truncates."""
    return np.uint16(int(_single(value).view(np.uint32)) >> 16)


FLOATS: dict[str, Callable[[float], Any]] = {
    "fp16": _half, "bf16": _brain, "fp32": _single, "f32": _single, "fp64": np.float64,
}  # fmt: skip
"""Triton's names of floats -> what its launcher passes."""


class Arguments:
    """Turns the arguments of one launch into parameter values, and maps the tensors among them into `memory`."""

    def __init__(self, signature: Iterable[tuple[str, Any]], descriptors: Iterable[Any], memory: DeviceMemory):
        self.signature = list(signature)
        self.descriptors = iter(list(descriptors))
        self.on_device = not list(descriptors)
        """Whether descriptors are lowered to pointers, shapes and strides."""
        self.memory = memory

    def values(self, args: Iterable[Any]) -> list[Any]:
        """Parameter values in order; constants that were compiled in are left out."""
        result: list[Any] = []
        for name, kind, value in _flat(self.signature, args):
            result += self._value(name, kind, value)
        return result

    def pointer(self, value: Any, name: str) -> np.uint64:
        """The address that a pointer argument stands for: None, an address, a tensor, or an object that wraps one."""
        if value is None or isinstance(value, int):
            map_pointees(self.memory, value or 0)
            return np.uint64(value or 0)
        base = getattr(value, "base", None)
        tensor = base if not hasattr(value, "untyped_storage") and base is not None else value
        if hasattr(tensor, "untyped_storage"):
            return np.uint64(address_of(self.memory, tensor, name))
        if hasattr(tensor, "data_ptr"):
            return np.uint64(tensor.data_ptr())
        raise SimulationError(f"{name} is {type(value).__name__}; a pointer is a CPU tensor, an address or None")

    def _value(self, name: str, kind: str, value: Any) -> list[Any]:
        if kind.startswith("*"):
            address = self.pointer(value, name)
            if kind in TABLES and hasattr(value, "untyped_storage"):
                map_pointees(self.memory, value)
            return [address]
        if kind.startswith("tensordesc"):
            return (
                self._pieces(value, name) if self.on_device else self._descriptor(value, next(self.descriptors), name)
            )
        if kind in INTEGERS:
            if kind in ("i64", "u64") and not isinstance(value, bool):
                map_pointees(self.memory, int(value))
            return [_integer(value, INTEGERS[kind])]
        if kind in FLOATS:
            return [FLOATS[kind](float(value))]
        raise Unsupported(f"{name} has Triton's type {kind}, which cannot be passed to the simulator yet")

    def _pieces(self, value: Any, name: str) -> list[Any]:
        """A descriptor where the target has no tensor maps: pointer, shape, strides, padding, rounding, shape, strides."""
        shape = [np.int64(n) for n in value.shape]
        strides = [np.int64(n) for n in value.strides]
        flags = [np.int8(value.padding == "nan"), np.int8(bool(getattr(value, "round_f32_to_tf32", False)))]
        return [self.pointer(value.base, name), *shape, *strides, *flags, *(np.int32(n) for n in value.shape), *strides]

    def _descriptor(self, value: Any, meta: dict[str, Any], name: str) -> list[Any]:
        """A host descriptor: the 128 bytes of its tensor map, then shape and strides."""
        if meta.get("is_im2col"):
            raise Unsupported(f"{name} is an im2col descriptor, which is not supported yet")
        shape = list(value.shape)
        if meta["fp4_padded"]:
            shape[-1] *= 2
        number = int(meta["elem_type"])
        element = "tf32" if getattr(value, "round_f32_to_tf32", False) else ELEMENTS[TO_DRIVER.get(number, number)]
        encoded = tensor_map(
            np.zeros(16, np.uint8),
            list(meta["block_size"]),
            swizzle=SWIZZLES[meta["swizzle"]],
            type=element,
            shape=shape,
            strides=[s * meta["elem_size"] for s in value.strides[:-1]],
            nan_fill=value.padding == "nan",
        )
        address = int(self.pointer(value.base, name))
        return [encoded.at(address), *map(np.int32, value.shape), *map(np.int64, value.strides)]


def _integer(value: Any, dtype: str) -> Any:
    """A number in two's complement: Triton passes -1 for u32, too."""
    if dtype == "i1":
        return np.int8(bool(value))
    size = int(dtype[1:])
    return np.frombuffer((int(value) & (1 << 8 * size) - 1).to_bytes(size, "little"), dtype)[0]


def _flat(signature: Iterable[tuple[str, Any]], args: Iterable[Any]) -> Iterator[tuple[str, str, Any]]:
    """(name, type, value) of what is passed; tuples are their members."""
    for (name, kind), value in zip(signature, args, strict=True):
        if isinstance(kind, tuple):
            members: tuple[Any, ...] = kind
            yield from _flat([(f"{name}[{i}]", k) for i, k in enumerate(members)], value)
        elif kind != "constexpr":
            yield name, kind, value
