"""What MLIR values become: registers, constants (no register until one is needed), memrefs and vectors
(neither has one)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, SSAValue

from ...dialects.ptx.syntax import Immediate


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type of MLIR in PTX: its register class, its size, and its name as a float (`f32`, `bf16`) or
    empty."""

    register_class: str
    bits: int
    float: str = ""

    @property
    def signed(self) -> str:
        return f"s{self.bits}"

    @property
    def unsigned(self) -> str:
        return f"u{self.bits}"

    @property
    def untyped(self) -> str:
        return f"b{self.bits}"

    @property
    def memory(self) -> str:
        """The type of its loads and stores."""
        if self.float in ("f32", "f64"):
            return self.float
        return self.untyped if self.bits > 8 else "u8"

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return (self.bits + 7) // 8


PREDICATE = Scalar("pred", 1)
I32, I64 = Scalar("b32", 32), Scalar("b64", 64)
F32, F64 = Scalar("f32", 32, "f32"), Scalar("f64", 64, "f64")
F16, BF16 = Scalar("b16", 16, "f16"), Scalar("b16", 16, "bf16")
_INTEGERS = {1: PREDICATE, 8: Scalar("b16", 8), 16: Scalar("b16", 16), 32: I32, 64: I64}


class Unsupported(Exception):
    """Something that has no lowering; the message says what and, if known, what to do instead."""


def scalar_of(type_: Attribute, index_bits: int) -> Scalar:
    """The PTX form of a scalar type, or of the elements of a vector. Unsupported for anything else."""
    if isinstance(type_, VectorType):
        type_ = type_.element_type
    if isinstance(type_, IndexType):
        return _INTEGERS[index_bits]
    if isinstance(type_, IntegerType) and type_.width.data in _INTEGERS:
        return _INTEGERS[type_.width.data]
    for class_, scalar in ((Float32Type, F32), (Float64Type, F64), (Float16Type, F16), (BFloat16Type, BF16)):
        if isinstance(type_, class_):
            return scalar
    raise Unsupported(
        f"the type {type_} does not fit in a register of PTX; legal are i1, i8, i16, i32, i64, index, f16, bf16, f32, f64"
    )


def vector_shape(type_: Attribute) -> tuple[int, ...]:
    """The shape of a vector type, () for a scalar."""
    if not isinstance(type_, VectorType):
        return ()
    if any(flag.value.data for flag in type_.scalable_dims):
        raise Unsupported(f"{type_}: a scalable vector has no size known here; use a fixed one")
    return type_.get_shape()


def lanes_of(type_: Attribute) -> int:
    """Elements of a vector type, 1 for a scalar."""
    return prod(vector_shape(type_))


@dataclass(frozen=True, slots=True)
class Element:
    """What one place of a memref holds: a scalar, or a vector (`shape`).

    In memory the innermost dimension of a vector is padded to a power of two, as MLIR's data layout has it.
    """

    scalar: Scalar
    shape: tuple[int, ...] = ()

    @property
    def row(self) -> int:
        """Bytes from one innermost row of the vector to the next."""
        return self.scalar.size * (1 << (self.shape[-1] - 1).bit_length() if self.shape else 1)

    @property
    def size(self) -> int:
        """Bytes from one place to the next."""
        return self.row * prod(self.shape[:-1])


def element_of(type_: Attribute, index_bits: int) -> Element:
    """The form of a memref's element type in memory."""
    scalar, shape = scalar_of(type_, index_bits), vector_shape(type_)
    if shape and scalar.bits == 1:
        raise Unsupported(f"a memref of {type_}: vectors of i1 have no agreed form in memory; use i8")
    return Element(scalar, shape)


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that is written where it is used."""

    value: int | float
    scalar: Scalar

    @property
    def immediate(self) -> Immediate:
        """Its spelling in PTX; the bits, for floats."""
        if self.scalar.float == "f32":
            return Immediate(f"0f{struct.pack('>f', self.value).hex().upper()}")
        if self.scalar.float == "f64":
            return Immediate(f"0d{struct.pack('>d', self.value).hex().upper()}")
        if self.scalar.float:
            return Immediate(f"0x{self.bits:04X}")
        return Immediate(str(int(self.value)))

    def in_memory(self) -> bytes:
        """Its bytes in memory, the lowest first."""
        if self.scalar.float in ("f32", "f64"):
            return struct.pack("<f" if self.scalar.bits == 32 else "<d", self.value)
        whole = self.bits if self.scalar.float else int(self.value)
        size = self.scalar.size
        return (whole & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    @property
    def bits(self) -> int:
        """The bit pattern of a 16-bit float."""
        if self.scalar.float == "f16":
            return struct.unpack(">H", struct.pack(">e", self.value))[0]
        word = struct.unpack(">I", struct.pack(">f", self.value))[0]
        rounded = word + 0x7FFF + (word >> 16 & 1)  # to nearest even
        return (word if word & 0x7F800000 == 0x7F800000 else rounded) >> 16 & 0xFFFF


ScalarValue = SSAValue | Constant
"""A value of type `!ptx.reg<...>`, or a constant."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A memref: its element, where it starts, and how indices map to elements.

    `space` is `global`, `shared` or `local`; the start is a register that holds an address in that space or the name
    of a variable, `offset` elements further.
    """

    element: Element
    space: str
    base: SSAValue | str
    offset: ScalarValue
    sizes: tuple[ScalarValue, ...]
    strides: tuple[ScalarValue, ...]


Lowered = SSAValue | Constant | Memory | tuple[ScalarValue, ...]
"""What a value of MLIR has become; a tuple is a vector, the last dimension running fastest."""
