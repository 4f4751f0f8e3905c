"""Python identifiers for PTX names: readable, unique, and never anything but an identifier.

A PTX name stays in the generated program as a string, so the Python name may be any; nothing has to be undone.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from functools import lru_cache

_RESERVED = frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | frozenset(dir(builtins))
_OTHER = re.compile(r"[^A-Za-z0-9_]")


class NameTable:
    """Hands out Python names that are free in one scope."""

    def __init__(self, taken: Iterable[str] = ()):
        self.taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """A free identifier as close to `wanted` (any text) as possible."""
        name = identifier(wanted)
        if name in self.taken:
            number = 1
            while f"{name}_{number}" in self.taken:
                number += 1
            name = f"{name}_{number}"
        self.taken.add(name)
        return name

    def take(self, name: str) -> None:
        """A name that is needed after all."""
        self.taken.add(name)

    def release(self, name: str) -> None:
        """A name that turned out not to be needed."""
        self.taken.discard(name)


def identifier(text: str) -> str:
    """`text` as an ASCII identifier that is not a keyword or builtin: `%rd` -> `rd`, `class` -> `class_`."""
    name = _OTHER.sub("_", text.lstrip("%$"))
    if not name or name[0].isdigit():
        name = "_" + name
    if name.startswith("__"):
        name = "k" + name
    if name in _RESERVED:
        name += "_"
    return name


def literal(value: object) -> str:
    """A Python literal in ASCII, strings in double quotes where they hold none: any value comes back as it was."""
    if isinstance(value, str):
        return string(value)
    if isinstance(value, list):
        return "[" + ", ".join(literal(v) for v in value) + "]"
    if isinstance(value, tuple):
        inner = ", ".join(literal(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return ascii(value)


@lru_cache(maxsize=16384)
def string(text: str) -> str:
    """A string literal in ASCII."""
    plain = ascii(text)
    if plain[0] == '"' or '"' in plain:
        return plain
    return '"' + plain[1:-1].replace("\\'", "'") + '"'
