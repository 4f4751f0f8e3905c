"""The conversions of C's printf (C17 7.21.6.1), on values that Python has."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

__all__ = ["CONVERSION", "Conversion", "conversion_of"]

CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|z|j|t|L)?([diouxXeEfFgGaAcsp%])")
"""Flags, width, precision (empty: 0), length, letter."""
_INTEGER_BITS = {"hh": 8, "h": 16, "l": 64, "ll": 64, "z": 64, "j": 64, "t": 64}
MOST = 4095
"""Characters of one conversion that every C library can print."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """One conversion, with the numbers that `*` stands for."""

    flags: str
    width: int
    precision: int | None
    length: str
    kind: str

    @property
    def bits(self) -> int:
        """Bits of the integer that it takes."""
        return _INTEGER_BITS.get(self.length, 32)

    def integer(self, value: int) -> str:
        """d, i, o, u, x, X of an integer, of which the low bits count."""
        value &= (1 << self.bits) - 1
        if self.kind in "di":
            value -= (value >> self.bits - 1) << self.bits
        base = {"o": "o", "x": "x", "X": "X"}.get(self.kind, "d")
        digits = "" if self.precision == 0 and not value else format(abs(value), base)
        digits = digits.rjust(self.precision or 0, "0")
        prefix = self._sign(value < 0) if self.kind in "di" else ""
        if "#" in self.flags and self.kind == "o" and not digits.startswith("0"):
            digits = "0" + digits
        if "#" in self.flags and self.kind in "xX" and value:
            prefix = "0" + self.kind
        return self._padded(prefix, digits, zeros=self.precision is None)

    def floating(self, value: float) -> str:
        """a, e, f, g and their capitals of an f64."""
        prefix = self._sign(math.copysign(1, value) < 0)
        if not math.isfinite(value):
            text = "nan" if math.isnan(value) else "inf"
            return self._padded(prefix, text.upper() if self.kind.isupper() else text, zeros=False)
        value = abs(value)
        if self.kind in "aA":
            text = _hexadecimal(value, self.precision, point="#" in self.flags)
            text = text.upper() if self.kind == "A" else text
            return self._padded(prefix + text[:2], text[2:], zeros=True)
        precision = 6 if self.precision is None else self.precision
        text = f"%{'#' if '#' in self.flags else ''}.{precision}{self.kind}" % value
        return self._padded(prefix, text, zeros=True)

    def text(self, value: str) -> str:
        """s."""
        return self._padded("", value if self.precision is None else value[: self.precision], zeros=False)

    def character(self, value: int) -> str:
        """c."""
        return self._padded("", chr(value & 255), zeros=False)

    def pointer(self, value: int) -> str:
        """p."""
        return self._padded("", f"0x{value:x}", zeros=False)

    def _sign(self, negative: bool) -> str:
        return "-" if negative else "+" if "+" in self.flags else " " if " " in self.flags else ""

    def _padded(self, prefix: str, digits: str, *, zeros: bool) -> str:
        """Prefix and digits at least `width` wide: zeros between them, or blanks outside."""
        if "-" in self.flags:
            return (prefix + digits).ljust(self.width)
        if "0" in self.flags and zeros:
            return prefix + digits.rjust(self.width - len(prefix), "0")
        return (prefix + digits).rjust(self.width)


def conversion_of(flags: str, width: int, precision: int | None, length: str, kind: str) -> Conversion:
    """A negative width is the flag `-`, and a negative precision none."""
    if width < 0:
        flags, width = flags + "-", -width
    kept = None if precision is None or precision < 0 else min(precision, MOST)
    return Conversion(flags, min(width, MOST), kept, length, kind)


def _hexadecimal(value: float, precision: int | None, *, point: bool) -> str:
    """`0x1.8p+0` of a finite number that is not negative; without a precision all digits that are not 0."""
    lead, rest, power = 0, 0, 0
    if value:
        power = max(math.frexp(value)[1] - 1, -1022)
        scaled = int(math.ldexp(value, -power) * 2**52)  # in two steps: 2**(52 + 1022) is not an f64
        lead, rest = scaled >> 52, scaled & ((1 << 52) - 1)
    digits = f"{rest:013x}"
    if precision is None:
        digits = digits.rstrip("0")
    elif precision >= 13:
        digits = digits.ljust(precision, "0")
    else:
        unit = 1 << 4 * (13 - precision)
        whole, left = divmod(lead << 52 | rest, unit)
        whole += left * 2 > unit or (left * 2 == unit and whole & 1)
        lead, rest = divmod(whole, 1 << 4 * precision)
        digits = f"{rest:0{precision}x}" if precision else ""
    return f"0x{lead}{'.' if digits or point else ''}{digits}p{power:+d}"
