"""Declarations and directives as PTX tokens, from Python values.

Each function states one syntax of the manual and returns its tokens; code generation calls the same functions to find
out which Python call gives the tokens it wants. PTX ISA 5 (variables), 7 (functions), 11 (directives).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...dialects.ptx.structure import DeclarationAttr
from ...dialects.ptx.syntax import lex

Words = tuple[str, ...]


Text = str | Words
"""PTX as text, or as its tokens where no text has just these."""


@lru_cache(maxsize=8192)
def words(text: Text) -> Words:
    """The tokens of a piece of PTX."""
    return text if isinstance(text, tuple) else tuple([token for _, token in lex(text)[0]])


def quoted(text: str) -> str:
    """A string as PTX writes it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def extent_words(shape: object) -> Words:
    """What follows a variable's name: nothing for None, `[4][8]` for (4, 8), `[]` for `()`, one bracket for an int."""
    if shape is None:
        return ()
    extents: Sequence[Any] = (shape,) if isinstance(shape, (int, str)) else shape  # pyright: ignore[reportAssignmentType]
    if not extents:
        return ("[", "]")
    found: list[str] = []
    for extent in extents:
        found += ("[", *words(str(extent)), "]") if extent is not None else ("[", "]")
    return tuple(found)


def initialiser_words(value: object) -> Words:
    """`{1, {2, 3}}` for nested lists, a constant otherwise: an int, or PTX text such as `"0f3F800000"` or
    `"generic(x)+4"`.
    """
    found: list[str] = []
    _initialiser(value, found)
    return tuple(found)


def _initialiser(value: object, found: list[str]) -> None:
    if isinstance(value, (list, tuple)):
        found.append("{")
        for i, item in enumerate(value):
            if i:
                found.append(",")
            if item.__class__ is int and item >= 0:
                found.append(str(item))
            else:
                _initialiser(item, found)
        found.append("}")
    else:
        symbol = getattr(value, "__ptx_symbol__", None)
        found += (symbol()[0],) if symbol is not None else words(str(value))


def variable(head: Text, name: str, shape: object = None, init: object = None) -> DeclarationAttr:
    """`.global .align 4 .b8 name[16] = {1, 2}` from its head, name, extents and initialiser."""
    tail = extent_words(shape)
    if init is not None:
        tail += ("=", *initialiser_words(init))
    return DeclarationAttr((words(head), ((name, tail),)))


def parameter(
    dtype: str, name: str = "", shape: object = None, *, align: int | None = None, ptr: bool | str = False,
    ptr_align: int | None = None, space: str = "param",
) -> DeclarationAttr:  # fmt: skip
    """`.param .align 8 .b8 name[16]`, `.param .u64 .ptr .global .align 16 name`, `.reg .b32 name`.

    Without a name it gets `<function>_param_<i>`. ptr: True for `.ptr`, a state space for `.ptr .global` and the like; ptr_align: bytes that the pointee is aligned
    to.
    """
    head = ["." + space]
    if align is not None:
        head += (".align", str(align))
    head += ["." + word for word in dtype.split(".")]
    if ptr:
        head.append(".ptr")
        if ptr is not True:
            head.append("." + ptr)
        if ptr_align is not None:
            head += (".align", str(ptr_align))
    return DeclarationAttr((tuple(head), ((name, extent_words(shape)),)))


def directives(items: Sequence[Sequence[Any]]) -> Words:
    """`.maxntid 128, 1, 1` for ("maxntid", 128, 1, 1); a `.pragma` takes strings and ends with a semicolon, a `.language`
    takes strings and numbers.
    """
    found: list[str] = []
    for name, *values in items:
        found.append("." + name)
        for i, value in enumerate(values):
            if i:
                found.append(",")
            string = name == "pragma" or (name == "language" and isinstance(value, str))
            found.append(quoted(str(value)) if string else str(value))
        if name == "pragma":
            found.append(";")
    return tuple(found)


def loc(file: int, line: int, column: int, inlined: Sequence[Any] | None = None) -> Words:
    """`.loc 1 20 9`, with `inlined=(function name, [offset,] file, line, column)` for inlined code."""
    found = (".loc", str(file), str(line), str(column))
    if inlined is None:
        return found
    name, *rest = inlined
    found += (",", "function_name", str(name))
    if len(rest) == 4:
        found += ("+", str(rest[0]))
    return (*found, ",", "inlined_at", *[str(n) for n in rest[-3:]])


def file(number: int, name: str, *more: int) -> Words:
    """`.file 1 "name.cu"`, optionally with time stamp and size."""
    found = [".file", str(number), quoted(name)]
    for value in more:
        found += (",", str(value))
    return tuple(found)


def section(name: str, rows: Sequence[str]) -> Words:
    """`.section name { ... }` from its rows of data and labels."""
    found: list[str] = [".section", *words(name), "{"]
    for row in rows:
        found += words(row)
    found.append("}")
    return tuple(found)


def branch_targets(labels: Sequence[str]) -> Words:
    """`.branchtargets a, b;` (also the list of `.calltargets`)."""
    found = [".branchtargets"]
    for i, label in enumerate(labels):
        if i:
            found.append(",")
        found.append(label)
    return (*found, ";")
