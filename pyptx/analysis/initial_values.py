"""The initial values of variables: constants, addresses, bytes of either, and lists of them (PTX ISA 5.4.4, 5.4.5).

value     = constant | address | mask "(" constant | address ")"
address   = name [ "+" constant ] | "generic" "(" name ")" [ "+" constant ]
list      = "{" [ (value | list) { "," (value | list) } ] "}"
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from ..dialects.ptx.structure import DeclarationAttr
from ..dialects.ptx.syntax import constant_problem, evaluate
from ..dialects.ptx.target import Version, version_text
from ..dialects.ptx.types import SCALAR_TYPES
from .entities import Entity, Fault, named

_NAME = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+").fullmatch
_INTEGER = re.compile(r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?|WARP_SZ").fullmatch
_MASKS = frozenset(0xFF << shift for shift in range(0, 64, 8))
_ADDRESSES: Version = (2, 2)
_GENERIC: Version = (3, 1)
_MASKED: Version = (7, 1)
_MASKED_NUMBERS: Version = (7, 2)


def initial_faults(
    name: str, words: Sequence[str], declaration: DeclarationAttr, sizes: Sequence[int | None], version: Version,
    known: Mapping[str, Entity], own: Collection[str],
) -> Iterator[Fault]:  # fmt: skip
    """What is wrong with the words after the `=` of a variable. `own` are the names that its declaration has declared
    so far, its own among them.
    """
    shape: list[int | None] = [*sizes, *([declaration.vector] if declaration.vector > 1 else [])]
    if shape[:1] == [0]:
        shape[0] = None  # a first size of 0 is as good as none
    if not words:
        yield Fault(f"the initial value of {name} is missing", word=name)
        return
    if bool(shape) != (words[0] == "{"):
        what = "is written in braces" if shape else "is one value, without braces"
        yield Fault(f"the initial value of {name} {what}", word=name)
        return
    values = _Values(name, declaration, version, known, own)
    if not shape:
        yield from values.value(words)
        return
    misplaced = next((after for before, after in pairwise(words) if _misplaced(before, after)), None)
    if misplaced is not None:
        yield Fault(f"unexpected {misplaced!r} in the initial value of {name}", word=name)
        return
    yield from values.list(words, shape)


def _misplaced(before: str, after: str) -> bool:
    """Whether two neighbouring words cannot stand in a list: a value is missing between them, or a comma."""
    if before == "{" or before == ",":
        return after == "," or (after == "}" and before == ",")
    if before == "}":
        return after not in (",", "}")
    return after == "{"


class _Values:
    """The values of one variable."""

    def __init__(
        self, name: str, declaration: DeclarationAttr, version: Version, known: Mapping[str, Entity],
        own: Collection[str],
    ):  # fmt: skip
        self.name, self.version, self.known, self.own = name, version, known, own
        self.vector = declaration.vector
        self.space = declaration.space
        self.type = declaration.type
        self.scalar = SCALAR_TYPES.get(declaration.type)

    def list(self, words: Sequence[str], shape: Sequence[int | None]) -> Iterator[Fault]:
        """A list in braces. `shape` is the extent of each dimension, a vector's last."""
        name = self.name
        depth, counts = 0, [0] * (len(shape) + 2)
        start = 0
        for i, word in enumerate(words):
            if word == "{":
                if depth:
                    counts[depth] += 1
                depth += 1
                if depth > len(shape):
                    yield Fault(f"the initial value of {name} has more braces than {name} has dimensions", word=name)
                    return
                counts[depth] = 0
                start = i + 1
            elif word in ("}", ","):
                if i > start:
                    counts[depth] += 1
                    if depth < len(shape):
                        what = f"the initial value of {name} needs braces for each of its {len(shape)} dimensions"
                        yield Fault(what, word=name)
                        return
                    yield from self.value(words[start:i])
                if word == "}":
                    fault = self._closed(shape, depth, counts[depth])
                    if fault is not None:
                        yield fault
                        return
                    depth -= 1
                    if not depth and i + 1 < len(words):
                        yield Fault(f"{words[i + 1]!r} may not follow the initial value of {name}", word=name)
                        return
                start = i + 1
        if depth:
            yield Fault(f"the initial value of {name} does not close its braces", word=name)

    def _closed(self, shape: Sequence[int | None], depth: int, count: int) -> Fault | None:
        """What is wrong where a list of `count` elements ends at this depth."""
        name = self.name
        if not depth:
            return Fault(f"the initial value of {name} closes a brace that is not open", word=name)
        if depth == len(shape) and self.vector > 1 and count != self.vector:
            return Fault(f"a vector of {name} has {self.vector} initial values, not {count}", word=name)
        extent = shape[depth - 1]
        if extent is not None and count > extent:
            return Fault(f"{name} has {extent} elements here, and {count} initial values", word=name)
        return None

    def value(self, words: Sequence[str]) -> Iterator[Fault]:
        """One value."""
        scalar, name = self.scalar, self.name
        if scalar is None:
            return  # reported with the type
        if len(words) == 1 and words[0].isdecimal() and len(words[0]) < 20 and (words[0][0] != "0" or words[0] == "0"):
            if scalar.kind == "float":
                yield Fault(
                    f"the initial value {words[0]} of {name} must be a floating-point constant",
                    f"such as {words[0]}.0",
                    word=name,
                )
            return
        if len(words) > 3 and words[1] == "(" and words[-1] == ")" and _INTEGER(words[0]):
            yield from self._masked(words[0], words[2:-1])
        elif _NAME(words[0]) and words[0] != "WARP_SZ":
            yield from self._address(words, masked=False)
        else:
            yield from self._constant(words, masked=False)

    def _masked(self, text: str, words: Sequence[str]) -> Iterator[Fault]:
        """`0xFF00(symbol)`: one byte of a value."""
        mask = None
        try:
            mask = evaluate(text)
        except (ValueError, OverflowError):
            pass
        if mask not in _MASKS:
            yield Fault(f"{text} is not a mask of one byte", "0xFF, 0xFF00, ... 0xFF00000000000000", word=self.name)
        elif self.version < _MASKED:
            yield self._too_old("bytes of an address need", _MASKED)
        elif _NAME(words[0]) and words[0] != "WARP_SZ":
            yield from self._address(words, masked=True)
        elif self.version < _MASKED_NUMBERS:
            yield self._too_old("bytes of a number need", _MASKED_NUMBERS)
        else:
            yield from self._constant(words, masked=True)

    def _constant(self, words: Sequence[str], masked: bool) -> Iterator[Fault]:
        name, scalar = self.name, self.scalar
        assert scalar is not None
        text = " ".join(words)
        try:
            value = evaluate(text)
        except (ValueError, OverflowError) as error:
            yield Fault(f"the initial value {text} of {name} is not a constant: {error}", word=name)
            return
        except RecursionError:
            yield Fault(f"the initial value of {name} is nested too deeply", word=name)
            return
        if (problem := constant_problem(text)) is not None:
            yield Fault(f"the initial value {text} of {name} is not a constant: {problem}", word=name)
        elif masked and isinstance(value, float):
            yield Fault(f"a mask takes a byte of an integer or address, not of {text}", word=name)
        elif isinstance(value, float) != (scalar.kind == "float") and scalar.kind != "bits":
            wanted = "a floating-point" if scalar.kind == "float" else "an integer"
            yield Fault(
                f"the initial value {text} of {name} must be {wanted} constant, as {name} is .{self.type}", word=name
            )

    def _address(self, words: Sequence[str], masked: bool) -> Iterator[Fault]:
        """The address of a symbol, maybe a generic one, plus a constant."""
        name = self.name
        generic = words[0] == "generic" and tuple(words[1:2]) == ("(",)
        if generic:
            if len(words) < 4 or not _NAME(words[2]) or words[3] != ")":
                yield Fault("generic() takes the name of a variable", "generic(name)+4", word="generic")
                return
            symbol, offset = words[2], words[4:]
        else:
            symbol, offset = words[0], words[1:]
        if offset:
            fault = self._offset(symbol, offset)
            if fault is not None:
                yield fault
                return
        entity = named(self.known, symbol)
        if symbol in self.own:
            entity = Entity(symbol, "variable", self.space)
        if entity is None:
            yield Fault(f"{symbol} is not declared", f"declare it before {name}", word=symbol)
        elif entity.kind not in ("variable", "function", "entry") or (
            entity.kind == "variable" and entity.place not in ("global", "const")
        ):
            yield Fault(
                f"an initial value is the address of a .global or .const variable or of a function, and {entity.what}",
                word=symbol,
            )
        elif entity.kind != "variable" and (generic or offset):
            what = "generic() is" if generic else "an offset is"
            yield Fault(f"{what} for variables, and {entity.what}", word=symbol)
        elif self.type not in ("u32", "u64") and not (masked and self.type == "u8"):
            wanted = ".u8, .u32 or .u64" if masked else ".u64 or .u32"
            yield Fault(f"an address as initial value needs type {wanted}, and {name} is .{self.type}", word=symbol)
        elif self.version < _ADDRESSES:
            yield self._too_old("addresses as initial values need", _ADDRESSES)
        elif generic and self.version < _GENERIC:
            yield self._too_old("generic() needs", _GENERIC)

    def _offset(self, symbol: str, words: Sequence[str]) -> Fault | None:
        """What is wrong with what follows a symbol."""
        if words[0] != "+":
            hint = f"write {symbol}+-{''.join(words[1:])}" if words[0] == "-" else None
            return Fault(
                f"an initial value may be {symbol} plus a constant, not {symbol}{''.join(words)}", hint, symbol
            )
        text = " ".join(words[1:])
        try:
            value = evaluate(text)
        except (ValueError, OverflowError) as error:
            return Fault(f"the offset {text or 'of nothing'} of {symbol} is not a constant: {error}", word=symbol)
        except RecursionError:
            return Fault(f"the offset of {symbol} is nested too deeply", word=symbol)
        if isinstance(value, float) or constant_problem(text) is not None:
            return Fault(f"the offset {text} of {symbol} is not an integer", word=symbol)
        return None

    def _too_old(self, what: str, since: Version) -> Fault:
        return Fault(
            f"{what} PTX {version_text(since)} or newer, and .version is {version_text(self.version)}", word=self.name
        )
