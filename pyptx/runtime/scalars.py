"""Scalar parameters: Python numbers as the bytes of PTX types."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ..diagnostics import PTXError

__all__ = ["FORMATS", "pack_scalar", "pack_scalars", "plain_number"]

FORMATS = {
    "u8": "B", "s8": "b", "b8": "B", "u16": "H", "s16": "h", "b16": "H", "f16": "e", "u32": "I", "s32": "i", "b32": "I",
    "f32": "f", "tf32": "f", "u64": "Q", "s64": "q", "b64": "Q", "f64": "d", "pred": "?",
}  # fmt: skip
"""`struct` formats of PTX types."""


def plain_number(value: Any) -> Any:
    """A Python number for an array or tensor of one element; anything else as it is."""
    try:
        return value.item()
    except (AttributeError, ValueError, RuntimeError):  # no array; NumPy and torch for more than one element
        return value


def pack_scalars(kernel: str, scalars: Sequence[tuple[str, str, Any]]) -> bytes:
    """Scalars (name, PTX type, value) at offsets that are multiples of 8. PTXError for values that do not fit."""
    return b"".join(pack_scalar(kernel, n, t, v).ljust(8, b"\0") for n, t, v in scalars)


def pack_scalar(kernel: str, name: str, dtype: str, value: Any) -> bytes:
    """One scalar parameter of a kernel, little-endian. Unsigned and untyped integers take negative ones too.

    PTXError, naming it, for what the type cannot hold.
    """
    dtype = dtype.lstrip(".")
    code = FORMATS.get(dtype)
    if code is None:
        raise PTXError(f"{kernel}: the parameter {name} of type {dtype} cannot be passed to a call")
    value = plain_number(value)
    try:
        return struct.pack("<" + code, value)
    except (struct.error, OverflowError, TypeError) as error:
        if code in "BHIQ" and isinstance(value, int) and value < 0:
            try:
                return struct.pack("<" + code.lower(), value)
            except struct.error:
                pass
        raise PTXError(f"{kernel}: {name}={value!r} is not a .{dtype}: {error}") from None
