"""The reference page of what a kernel is written with besides `ptx.inst`: from signatures and docstrings.

`python -m pyptx.tools.reference docs/reference` writes it as `authoring.md`.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any

from .. import ptx, reg, smem
from ..frontend.core.instructions import InstructionNamespace
from ..frontend.core.nonvalue import NotAValue, NoTruth
from ..frontend.core.tiles import Layout, Tile
from ..frontend.kernel.kernel import Kernel, kernel
from ..frontend.library.special import Special

ROOTS: dict[str, Any] = {
    "kernel": kernel, "Kernel": Kernel, "Tile": Tile, "Layout": Layout, "ptx": ptx, "reg": reg, "smem": smem,
}  # fmt: skip

_OPEN = (InstructionNamespace, Special)
"""Namespaces that make their members when they are asked for: their docstring says which there are."""

_OURS = "pyptx.frontend"

_INTRODUCTION = """\
# Writing kernels: reference

What `from pyptx import kernel, ptx, reg, smem, Tile, Layout` gives, besides `ptx.inst` (every instruction:
[index](index.md)). Generated from signatures and docstrings; `python -m pyptx.tools.reference docs/reference` writes it
again. In Python, `help(ptx.pipeline)` says the same.

`pred=` is a predicate (or `~p`) that guards the instruction. Parameters without a type take a register, a number or an
address, as the instruction does; an address is a register, an allocation or `ptx.addr(base, offset)`.
"""


@dataclass
class Seen:
    """What the page has mentioned so far."""

    namespaces: dict[type, str] = field(default_factory=dict[type, str])
    """Class of a namespace -> where it is documented."""
    returned: list[type] = field(default_factory=list[type])
    """Classes of what functions return."""


def page() -> str:
    """The Markdown page: a section for each function, class and namespace, in the order of `ROOTS`."""
    seen = Seen()
    lines = [_INTRODUCTION]
    for name, value in ROOTS.items():
        if isinstance(value, ModuleType):
            for each in sorted(value.__all__, key=str.lower):
                lines += _section(f"{name}.{each}", getattr(value, each), seen)
        else:
            lines += _section(name, value, seen)
    lines += ["## What these return", ""]
    known = {id(v) for root in ROOTS.values() for v in (root, *vars(root).values())}
    for cls in seen.returned:  # grows on the way
        if id(cls) not in known:
            known.add(id(cls))
            lines += [f"### {cls.__name__}", "", _text(cls), "", *_members(cls.__name__, cls, seen)]
    return "\n".join(lines).rstrip() + "\n"


def _section(name: str, value: Any, seen: Seen) -> Iterator[str]:
    yield from (f"## {name}", "")
    if inspect.isfunction(value):
        yield from _function(name, value, seen)
        return
    if name in ROOTS and not issubclass(value, Enum):
        yield from _code(signature(name, value))
    yield from (_text(value), "")
    if not isinstance(value, _OPEN):
        yield from _members(name, value, seen)


def _members(path: str, owner: Any, seen: Seen) -> Iterator[str]:
    """The public members of a namespace, class or module; then its namespaces, those of one class together."""
    namespaces: dict[type, list[str]] = {}
    for name in _names(owner):
        static: Any = inspect.getattr_static(owner, name)
        here = path if name == "__call__" else f"{path}.{name}"
        if isinstance(static, property):
            yield from (f"**`{here}`**: {_text(static)}", "")
        elif isinstance(static, (staticmethod, classmethod)) or inspect.isroutine(static):
            yield from _function(here, getattr(owner, name), seen)
        elif isinstance(owner, type(Enum)) and isinstance(static, Enum):
            yield from (f"- `{here}`", "")
        elif type(static).__module__.startswith(_OURS) and not inspect.isclass(owner):
            namespaces.setdefault(type(static), []).append(name)
    for cls, names in namespaces.items():
        first = f"{path}.{names[0]}"
        yield from (f"### {', '.join([first, *names[1:]])}", "")
        if cls in seen.namespaces:
            yield from (f"The same as `{seen.namespaces[cls]}`.", "")
            continue
        seen.namespaces[cls] = first
        yield from (_text(cls), "", *_members(first, getattr(owner, names[0]), seen))


def _names(owner: Any) -> Iterator[str]:
    """The names to document, in order of declaration; `__call__` where a namespace can be called."""
    if isinstance(owner, ModuleType):
        yield from owner.__all__
        return
    cls = owner if inspect.isclass(owner) else type(owner)
    inherited = set(vars(NotAValue)) | set(vars(NoTruth))
    # where any name can be asked for, those in the instance are only the ones that were
    own = () if owner is cls or hasattr(cls, "__getattr__") else vars(owner)
    for name in dict.fromkeys([*vars(cls), *own]):
        static = inspect.getattr_static(owner, name)
        called = name == "__call__" and owner is not cls
        if called or not (name.startswith("_") or name in inherited or _is_inner(static)):
            yield name


def _is_inner(value: Any) -> bool:
    """A method for the tracer: it takes the trace. A property without docstring is not a news either."""
    if isinstance(value, property):
        return not value.__doc__
    return inspect.isfunction(value) and "Trace" in value.__annotations__.values()


def _function(name: str, function: Any, seen: Seen) -> Iterator[str]:
    result = inspect.unwrap(function).__globals__.get(inspect.signature(function).return_annotation)
    if inspect.isclass(result) and result.__module__.startswith(_OURS) and result.__name__[0] != "_":
        seen.returned.append(result)
    yield from _code(signature(name, function))
    yield from (_text(function), "")


def _code(text: str) -> tuple[str, ...]:
    folded = textwrap.fill(text, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return ("```python", folded, "```", "")


def _text(value: Any) -> str:
    return inspect.getdoc(value) or ""


class _Shown(str):
    """A string that a signature shows without quotes."""

    __repr__ = str.__str__


def signature(name: str, value: Any) -> str:
    """`name(a, b: int = 0) -> Reg`: parameters of any type come without one, methods without `self`."""
    found = inspect.signature(value)
    parameters = [_parameter(p) for p in found.parameters.values() if p.name not in ("self", "cls")]
    result = found.return_annotation
    plain = result in (found.empty, "Any", "None", None)
    return name + str(found.replace(parameters=parameters, return_annotation=found.empty if plain else _Shown(result)))


def _parameter(p: inspect.Parameter) -> inspect.Parameter:
    annotation = p.empty if p.annotation in (p.empty, "Any") else _Shown(p.annotation)
    bits = isinstance(p.default, int) and p.default > 0xFFFF  # a mask reads in hexadecimal
    return p.replace(annotation=annotation, default=_Shown(f"0x{p.default:X}") if bits else p.default)
