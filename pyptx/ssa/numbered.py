"""Names that end in a number, as those of a range of registers do: `%r<20>` has `%r0` to `%r19`."""

from __future__ import annotations

from collections.abc import Iterator


def numbered(name: str) -> Iterator[tuple[str, int]]:
    """Each way to read a name as a stem and a number: `r10` is `r1` and 0, and `r` and 10. No range has 18 digits."""
    end = len(name)
    while len(name) - end < 18 and name[end - 1 : end].isdecimal():
        end -= 1
        yield name[:end], int(name[end:])
