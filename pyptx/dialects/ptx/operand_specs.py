"""What an operand of a form may be: the notation of operands (`forms`), read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

Slots = Mapping[str, str]
Legal = tuple[int, int | None] | frozenset[int] | range
"""The legal values of a constant: (lowest, highest or None), the values themselves, or a range with its step."""
Result = tuple[str, int | None]
"""The type of what an instruction writes, and of how many registers it is a vector (None: one register)."""
SPACES = frozenset(
    "const global local param param::entry param::func shared shared::cta shared::cluster generic".split()
)
_SPEC = re.compile(
    r"(?P<name>\w*[^\W_])(?P<role>[=~$])?(?::(?P<type>(?:2\*)?[\w:]*[^\W_](?:\(\w+\))?))?(?:\[(?P<count>\w+)\])?(?P<flags>[-+_!%&@?*#>]*)$"
)


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """What one operand of a form may be. `parts` are the elements of an address, a pair or an argument list."""

    name: str
    kind: str  # value, address, pair, arguments, sink
    role: str = "$"
    type: str = "type"
    count: str = ""
    flags: str = ""
    parts: tuple[OperandSpec, ...] = ()
    optional_part: bool = False


class Fragments:
    """What a form may ask of its op class: sizes of operands that depend on several modifiers at once, ..."""

    takes_elements: ClassVar[bool] = False
    """Whether an element of an array, `a[3]`, may stand for an address in brackets, as it may where a variable's address
    is a value.
    """

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        """(element type, number of registers) of the operand `name`; 0 registers means a scalar."""
        raise NotImplementedError(f"{cls.__name__} declares a fragment operand and no fragment()")

    @classmethod
    def starts_with_index(cls, name: str, slots: Slots) -> bool:
        """Whether the first element of the fragment `name` is an index, of a type of its own."""
        return False


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts: list[str] = []
    depth = 0
    current = ""
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


@cache  # few lists are many forms'
def parse_specs(text: str) -> tuple[OperandSpec, ...]:
    return tuple(_parse_spec(part) for part in _split(text))


@cache
def _parse_spec(text: str) -> OperandSpec:
    if text.startswith("["):
        unified = text.endswith("]{.unified}")
        text = text.removesuffix("{.unified}")
        if not text.endswith("]"):
            raise ValueError(f"bad address {text!r} in a form")
        parts = _split(text[1:-1])
        base = _parse_spec(parts[0])
        elements = (base, *(_parse_spec(p) for p in parts[1:]))
        return OperandSpec(base.name, "address", flags="." if unified else "", parts=elements)
    if text.startswith("("):
        parts = tuple(_parse_spec(p) for p in _split(text[1:-1]))
        return OperandSpec("arguments", "arguments", parts=parts)
    left, bar, right = text.partition("{|")
    if bar:
        first = _parse_spec(left)
        return OperandSpec(first.name, "pair", parts=(first, _parse_spec(right.removesuffix("}"))), optional_part=True)
    left, bar, right = text.partition("|")
    if bar:
        first = _parse_spec(left)
        return OperandSpec(first.name, "pair", parts=(first, _parse_spec(right)))
    if text == "_":
        return OperandSpec("d", "sink")
    match = _SPEC.match(text)
    if match is None:
        raise ValueError(f"bad operand {text!r} in a form")
    name = match["name"]
    written = re.fullmatch(r"d\d*|p|q", name) is not None
    role = match["role"] or ("=" if written else "$")
    return OperandSpec(name, "value", role, match["type"] or "type", match["count"] or "", match["flags"] or "")


def count_in(value: str) -> int:
    """The number in a modifier such as `v4`, `x2`, `2d`."""
    digits = re.sub(r"\D", "", value)
    return int(digits) if digits else 1
