"""Arithmetic on four FP8, FP6 or FP4 numbers at once: PTX ISA 9.7.6 (alternate floating point).

Operands are registers: ``uint16`` for e2m1x4, whose numbers have 4 bits each, ``uint32`` for the other types, a
number in the low bits of each byte (e2m1p4x4 is e2m1 of that kind), element 0 lowest. What a byte holds above the
number does not count. Results are ``uint32``, four e5m2 or e4m3.

Each result is the exact one rounded once to nearest even, with the zeros and infinities of IEEE 754. Too large a
result becomes infinity in e5m2 and NaN in e4m3, which has no infinity; with ``satfinite`` it becomes the largest
number of its sign, and so does infinity. Every NaN is 0x7f: the manual does not say which one it is.
"""

import numpy as np
from numpy.typing import NDArray

from . import floating, formats
from .formats import Float64, Unsigned

Register = NDArray[np.uint32]


def add(a: Unsigned, c: Unsigned, *, types: tuple[str, str], satfinite: bool = False) -> Register:
    """a + c (add{.rn}{.satfinite}.cdtype.atype); ``types`` are the instruction's. PTX ISA 9.7.6.1."""
    cdtype, atype = types
    return _encode(floating.odd_sum(_decode(a, atype), _decode(c, cdtype)), cdtype, satfinite)


def sub(a: Unsigned, c: Unsigned, *, types: tuple[str, str], satfinite: bool = False) -> Register:
    """a - c (sub{.rn}{.satfinite}.cdtype.atype). PTX ISA 9.7.6.2."""
    cdtype, atype = types
    return _encode(floating.odd_sum(_decode(a, atype), -_decode(c, cdtype)), cdtype, satfinite)


def mul(a: Unsigned, c: Unsigned, *, types: tuple[str, str, str], satfinite: bool = False) -> Register:
    """a * c (mul{.rn}{.satfinite}.dtype.atype.ctype). PTX ISA 9.7.6.3."""
    dtype, atype, ctype = types
    return _encode(_decode(a, atype) * _decode(c, ctype), dtype, satfinite)


def fma(a: Unsigned, b: Unsigned, c: Unsigned, *, types: tuple[str, str, str], satfinite: bool = False) -> Register:
    """a * b + c (fma{.rn}{.satfinite}.cdtype.atype.btype). PTX ISA 9.7.6.4."""
    cdtype, atype, btype = types
    product = _decode(a, atype) * _decode(b, btype)  # exact in float64
    return _encode(floating.odd_sum(product, _decode(c, cdtype)), cdtype, satfinite)


def _decode(register: Unsigned, type_: str) -> Float64:
    """The four values, along a new last axis."""
    if type_ == "e2m1x4":
        codes = register[..., None] >> np.array([0, 4, 8, 12], np.uint16)
    else:
        codes = register[..., None] >> np.array([0, 8, 16, 24], np.uint32)
    return formats.decode(codes.astype(np.uint8), type_.removesuffix("x4").removesuffix("p4"))


def _encode(values: Float64, type_: str, satfinite: bool) -> Register:
    codes = formats.encode(values, type_.removesuffix("x4"), satfinite=satfinite)
    codes[codes & 0x7F == 0x7F] = 0x7F
    return np.ascontiguousarray(codes).view("<u4")[..., 0]
