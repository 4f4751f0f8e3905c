"""What compilers write for something simpler, said in a comment."""

from __future__ import annotations

import re

__all__ = ["comment"]

_SIGNED = (
    re.compile(
        r"op\.shr\.s(?P<bits>\d+)\((?P<n>\w+) \+ op\.shr\.u(?P=bits)\(op\.shr\.s(?P=bits)\((?P=n), (?P<sign>\d+)\), "
        r"(?P<add>\d+)\), (?P<by>\d+)\)"
    ),
    re.compile(r"(?P<n>\w+) \+ op\.shr\.u(?P<bits>\d+)\((?P=n) >> (?P<sign>\d+), (?P<add>\d+)\) >> (?P<by>\d+)"),
)
_UNSIGNED = re.compile(r"op\.mul\.hi\.u32\((\w+), (-?\d+)\)(?: >> (\d+))?")
_REST = "{n} - ({quotient}) * {divisor}"


def comment(text: str) -> str:
    """What an expression computes, if one of these idioms is in it; else empty.

    A signed number divided by 2**n, towards zero: shifted right after 2**n - 1 is added where it is negative. An unsigned
    one divided by a constant: the upper half of its product with the constant's reciprocal (Granlund and Montgomery,
    Division by invariant integers using multiplication, 1994), and the remainder of that.
    """
    match = next((m for pattern in _SIGNED if (m := pattern.fullmatch(text))), None)
    if match is not None:
        bits, sign, add, shift = (int(match[name]) for name in ("bits", "sign", "add", "by"))
        return f"{match['n']} / {1 << shift}, towards zero" if sign == bits - 1 and add == bits - shift else ""
    match = _UNSIGNED.search(text)
    divisor = _divisor(int(match[2]) & 0xFFFFFFFF, int(match[3] or 0)) if match is not None else 0
    if match is None or not divisor:
        return ""
    rest = _REST.format(n=match[1], quotient=match[0], divisor=divisor)
    return f"{match[1]} {'%' if rest in text else '/'} {divisor}, unsigned"


def _divisor(factor: int, shift: int) -> int:
    """By what `factor * n >> 32 + shift` divides every n of 32 bits; 0 if by nothing."""
    power = 1 << 32 + shift
    divisor = round(power / factor) if factor else 0
    return divisor if divisor > 2 and 0 < factor * divisor - power <= 1 << shift else 0
