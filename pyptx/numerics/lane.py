"""LLVM IR of what one lane does: text with a name for each value."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np


class Value(NamedTuple):
    """A value of LLVM type `type` (`i1`, `i8` to `i64`, `float`, `double`): its name or its spelling as a constant."""

    name: str
    type: str


_FLOATS = {"float": 32, "double": 64}


def bits_of(type: str) -> int:
    """The width of an LLVM type."""
    return _FLOATS.get(type) or int(type[1:])


class Lane:
    """Collects the lines of a loop's body."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def define(self, text: str, type: str) -> Value:
        """A new value of a type."""
        name = f"%v{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {text}")
        return Value(name, type)

    def constant(self, number: float, type: str) -> Value:
        """A number in a type; floats by their bits, so that NaNs keep theirs."""
        if type == "float":
            return self.bits(int(np.float32(number).view(np.uint32)), type)
        if type == "double":
            return self.bits(int(np.float64(number).view(np.uint64)), type)
        return Value(str(int(number)), type)

    def bits(self, word: int, type: str) -> Value:
        """A constant by its bits."""
        if type == "double":
            return Value(f"0x{word:016X}", type)
        if type == "float":
            # LLVM spells a float as the double of the same value, which NaNs do not survive in a portable way
            value = struct.unpack("<f", struct.pack("<I", word))[0]
            if value != value:
                return self.define(f"bitcast i32 {word} to float", type)
            return Value(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", type)
        return Value(str(word), type)

    def binary(self, operation: str, a: Value, b: Value) -> Value:
        """`add`, `fmul`, `lshr`, ...: the result has the type of the operands."""
        return self.define(f"{operation} {a.type} {a.name}, {b.name}", a.type)

    def compare(self, condition: str, a: Value, b: Value) -> Value:
        """An LLVM condition, `olt` of floats or `slt` of integers."""
        operation = "fcmp" if a.type in _FLOATS else "icmp"
        return self.define(f"{operation} {condition} {a.type} {a.name}, {b.name}", "i1")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.define(f"select i1 {condition.name}, {a.type} {a.name}, {b.type} {b.name}", a.type)

    def convert(self, operation: str, a: Value, type: str) -> Value:
        """`sext`, `sitofp`, ...; a value that has the type already stays."""
        return a if a.type == type else self.define(f"{operation} {a.type} {a.name} to {type}", type)

    def resize(self, a: Value, type: str, signed: bool = False) -> Value:
        """An integer in another width, extended by its sign or with zeros."""
        narrower = bits_of(a.type) > bits_of(type)
        return self.convert("trunc" if narrower else "sext" if signed else "zext", a, type)

    def call(self, intrinsic: str, *arguments: Value) -> Value:
        """An intrinsic of LLVM whose result and arguments have one type: `fma`, `fabs`."""
        type = arguments[0].type
        suffix = {"float": "f32", "double": "f64"}.get(type, type)
        listed = ", ".join(f"{a.type} {a.name}" for a in arguments)
        return self.define(f"call {type} @llvm.{intrinsic}.{suffix}({listed})", type)

    def word(self, a: Value) -> Value:
        """A float's bits as an integer."""
        return self.convert("bitcast", a, f"i{bits_of(a.type)}")
