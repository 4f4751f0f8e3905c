"""PTX types for kernel authors: `f32`, `bf16`, `b64`, `pred`, ... (PTX ISA 5.2).

`t.name` is the PTX name, `t.bits` the size, `t.ptx` the name with its dot. Types compare and hash by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from .dialects.ptx.types import SCALAR_TYPES


@dataclass(frozen=True, slots=True)
class PtxType:
    """A PTX type by name, e.g. `PtxType("bf16", 16)`."""

    name: str
    bits: int

    @property
    def ptx(self) -> str:
        """`.bf16`."""
        return "." + self.name

    @property
    def register_class(self) -> str:
        """The class a register of this type is declared with: bf16, tf32 and the 8-bit floats live in bit registers."""
        return _CARRIERS.get(self.name, self.name)

    @property
    def is_float(self) -> bool:
        return SCALAR_TYPES[self.name].kind == "float"

    @property
    def is_signed(self) -> bool:
        return SCALAR_TYPES[self.name].kind == "signed"

    @property
    def is_integer(self) -> bool:
        return SCALAR_TYPES[self.name].kind in ("signed", "unsigned", "bits")

    @property
    def bytes(self) -> int:
        return max(self.bits // 8, 1)

    def __repr__(self) -> str:
        return self.name


_CARRIERS = {
    "bf16": "b16", "tf32": "b32", "bf16x2": "b32", "f32x2": "b64", "e4m3": "b8", "e5m2": "b8", "e2m1": "b8",
    "e2m3": "b8", "e3m2": "b8", "ue8m0": "b8", "e4m3x2": "b16", "e5m2x2": "b16", "u16x2": "b32", "s16x2": "b32",
    "u8x4": "b32", "s8x4": "b32",
}  # fmt: skip


def _make(name: str) -> PtxType:
    return PtxType(name, SCALAR_TYPES[name].bits)


b8, b16, b32, b64, b128 = (_make(n) for n in ("b8", "b16", "b32", "b64", "b128"))
u8, u16, u32, u64 = (_make(n) for n in ("u8", "u16", "u32", "u64"))
s8, s16, s32, s64 = (_make(n) for n in ("s8", "s16", "s32", "s64"))
f16, f16x2, bf16, bf16x2, tf32, f32, f64 = (_make(n) for n in ("f16", "f16x2", "bf16", "bf16x2", "tf32", "f32", "f64"))
f32x2, u16x2, s16x2, u8x4, s8x4 = (_make(n) for n in ("f32x2", "u16x2", "s16x2", "u8x4", "s8x4"))
e4m3, e5m2, e2m1, e2m3, e3m2, ue8m0 = (_make(n) for n in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "ue8m0"))
pred = _make("pred")

_ALL = {t.name: t for t in list(globals().values()) if isinstance(t, PtxType)}


def from_name(name: str) -> PtxType:
    """`"bf16"` or `".bf16"` -> bf16. ValueError for a name that is not a type."""
    found = _ALL.get(name.removeprefix("."))
    if found is None:
        raise ValueError(f"unknown PTX type {name!r}; known: {', '.join(_ALL)}")
    return found


__all__ = [
    "PtxType",
    "b8",
    "b16",
    "b32",
    "b64",
    "b128",
    "bf16",
    "bf16x2",
    "e2m1",
    "e2m3",
    "e3m2",
    "e4m3",
    "e5m2",
    "f16",
    "f16x2",
    "f32",
    "f32x2",
    "f64",
    "from_name",
    "pred",
    "s8",
    "s8x4",
    "s16",
    "s16x2",
    "s32",
    "s64",
    "tf32",
    "u8",
    "u8x4",
    "u16",
    "u16x2",
    "u32",
    "u64",
    "ue8m0",
]  # fmt: skip
