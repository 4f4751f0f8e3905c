"""What compilers write for something simpler, said in a comment."""

from __future__ import annotations

import re

__all__ = ["comment"]

_DIVISION = re.compile(r"op\.shr\.s(\d+)\((\w+) \+ \(op\.shr\.s\1\(\2, (\d+)\) >> (\d+)\), (\d+)\)")


def comment(text: str) -> str:
    """What an expression computes, if it is one of these idioms; else empty.

    A signed number divided by 2**n, towards zero: shifted right after 2**n - 1 is added where it is negative.
    """
    match = _DIVISION.fullmatch(text)
    if match is None:
        return ""
    bits, sign, add, shift = (int(match[i]) for i in (1, 3, 4, 5))
    return f"{match[2]} / {1 << shift}, towards zero" if sign == bits - 1 and add == bits - shift else ""
