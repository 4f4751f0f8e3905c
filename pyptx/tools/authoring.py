"""The reference of what a kernel is written with besides `ptx.inst`, a page for each family: from signatures and docstrings.

`python -m pyptx.tools.reference docs/reference` writes them, and `authoring.md`, which lists them.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any

from .. import ptx, reg, smem
from ..frontend.core.instructions import InstructionNamespace
from ..frontend.core.nonvalue import NotAValue, NoTruth
from ..frontend.core.tiles import Layout, Tile, dim
from ..frontend.kernel.kernel import Kernel, kernel
from ..frontend.library.special import Special

ROOTS: dict[str, Any] = {
    "kernel": kernel, "Kernel": Kernel, "Tile": Tile, "dim": dim, "Layout": Layout, "ptx": ptx, "reg": reg, "smem": smem,
}  # fmt: skip

_OPEN = (InstructionNamespace, Special)
"""Namespaces that make their members when they are asked for: their docstring says which there are."""

_OURS = "pyptx.frontend"

_INTRODUCTION = """\
# Writing kernels: reference

What `from pyptx import kernel, ptx, reg, smem, Tile, Layout, dim` gives, besides `ptx.inst` (every instruction:
[index](index.md)). Generated from signatures and docstrings; `python -m pyptx.tools.reference docs/reference` writes it
again. In Python, `help(ptx.pipeline)` says the same.

`pred=` is a predicate (or `~p`) that guards the instruction. Parameters without a type take a register, a number or an
address, as the instruction does; an address is a register, an allocation or `ptx.addr(base, offset)`.
"""


@dataclass(frozen=True)
class Family:
    """Names that are documented on one page. `reg` alone stands for all of `reg`."""

    page: str
    title: str
    names: tuple[str, ...]


def _family(page: str, title: str, names: str) -> Family:
    return Family(f"helpers_{page}.md", title, tuple(names.split()))


FAMILIES = (
    _family("kernels", "Kernels and their arguments", "kernel Kernel Tile dim Layout"),
    _family(
        "registers",
        "Registers and arithmetic",
        "reg ptx.inst ptx.op ptx.raw ptx.intrinsic ptx.expr ptx.pipe ptx.add ptx.and_ ptx.cvt ptx.mad ptx.mov ptx.mul ptx.not_ "
        "ptx.or_ ptx.selp ptx.setp ptx.shl ptx.shr ptx.sub ptx.xor_ ptx.special ptx.sreg ptx.ctaid_x ptx.ctaid_y ptx.warp ptx.block ptx.math",
    ),
    _family(
        "control",
        "Control flow and directives",
        "ptx.if_ ptx.else_ ptx.loop ptx.range_ ptx.kloop ptx.break_ ptx.continue_ ptx.bra ptx.label ptx.fresh_label ptx.ret "
        "ptx.scope ptx.elect ptx.elect_sync ptx.setmaxnreg ptx.setmaxnreg_dec ptx.setmaxnreg_inc ptx.pragma ptx.loc ptx.file_ ptx.target ptx.printf ptx.assert_",
    ),
    _family(
        "memory",
        "Addresses, pointers and shared memory",
        "smem ptx.partition ptx.addr ptx.pointer ptx.Pointer ptx.global_ptrs ptx.param ptx.var ptx.ld ptx.st ptx.cvta",
    ),
    _family(
        "synchronisation",
        "Barriers, mbarriers and fences",
        "ptx.bar ptx.named_barrier ptx.NamedBarrier ptx.mbarrier ptx.MbarrierRing ptx.MbarrierSlot ptx.pipeline ptx.PipelineState "
        "ptx.Pipeline ptx.Producer ptx.Consumer ptx.Stage "
        "ptx.cluster ptx.fence",
    ),
    _family("copies", "Asynchronous copies and TMA", "ptx.cp ptx.tma"),
    _family(
        "tensor_cores",
        "Tensor cores",
        "ptx.mma ptx.ldmatrix ptx.stmatrix ptx.stmatrix_x4_trans_f32_bf16 ptx.wgmma ptx.tcgen05",
    ),
)


@dataclass
class Seen:
    """What the page has mentioned so far."""

    namespaces: dict[type, str] = field(default_factory=dict[type, str])
    """Class of a namespace -> where it is documented."""
    returned: list[type] = field(default_factory=list[type])
    """Classes of what functions return."""


def pages() -> dict[str, str]:
    """File name -> Markdown page: one for each family, and `authoring.md`, which lists them."""
    seen = Seen()
    known = {id(v) for root in ROOTS.values() for v in (root, *vars(root).values())}
    found = {family.page: _page(family, seen, known) for family in FAMILIES}
    lines = [_INTRODUCTION, "| page | what is there |", "|---|---|"]
    for family in FAMILIES:
        names = ", ".join(f"[`{n}`]({family.page}#{anchor(n)})" for n in sorted(members(family), key=str.lower))
        lines.append(f"| [{family.title}]({family.page}) | {names} |")
    return {"authoring.md": "\n".join(lines) + "\n", **found}


def members(family: Family) -> dict[str, Any]:
    """Full name -> what it is, of all names of a family."""
    found: dict[str, Any] = {}
    for name in family.names:
        root, dot, member = name.partition(".")
        value = getattr(ROOTS[root], member) if dot else ROOTS[root]
        if not dot and isinstance(value, ModuleType):
            found.update({f"{name}.{each}": getattr(value, each) for each in value.__all__})
        else:
            found[name] = value
    return found


def anchor(heading: str) -> str:
    """The anchor that the site's generator gives a heading: letters, digits, `_` and `-` stay."""
    return re.sub(r"[^\w-]", "", heading.lower())


def _page(family: Family, seen: Seen, known: set[int]) -> str:
    """The page of a family; what its functions return is described at the end, where no page did before. `known`: the identities of
    what is described under a name of its own, or has been.
    """
    lines = [f"# {family.title}", ""]
    seen.returned.clear()
    for name, value in sorted(members(family).items(), key=lambda item: item[0].lower()):
        lines += _section(name, value, seen)
    heading = ["## What these return", ""]
    for cls in seen.returned:  # grows on the way
        if id(cls) not in known:
            known.add(id(cls))
            lines += [*heading, f"### {cls.__name__}", "", _text(cls), "", *_members(cls.__name__, cls, seen)]
            heading = []
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
