"""Static shared memory of a kernel: its own variables and those of the module that it, or what it calls,
names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import DeclarationAttr, FunctionOp, ModuleOp, VariableOp
from ..dialects.ptx.syntax import Address, Arguments, Element, Layout, Not, Pair, Sum, Symbol, Vector
from ..dialects.ptx.types import SCALAR_TYPES


@dataclass(frozen=True, slots=True)
class SharedVariable:
    """One variable in shared memory: bytes, alignment and where it lies if variables are placed in order of
    declaration."""

    name: str
    size: int
    alignment: int
    offset: int


@dataclass(frozen=True, slots=True)
class SharedUse:
    """Static bytes per CTA, its variables, and the names of the dynamic ones (sized by the launch)."""

    size: int
    variables: tuple[SharedVariable, ...]
    dynamic: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Direct:
    """What a function declares and names itself."""

    own: tuple[tuple[DeclarationAttr, int], ...]
    """Its shared variables."""
    reached: tuple[str, ...]
    """The module's shared variables that it names."""
    named: tuple[str, ...]
    """The functions that it names, in order."""


class ModuleNames:
    """What functions may name: the module's functions with a body, and its shared variables."""

    def __init__(self, module: ModuleOp):
        self.functions = {f.symbol: f for f in module.functions if not f.is_declaration}
        self.shared = {n: (d, i) for d, i, n in _declared(module)}
        self._direct: dict[str, _Direct] = {}
        self._touching: set[str] | None = None

    def direct(self, function: FunctionOp) -> _Direct:
        """Each function is looked through once, however many call it."""
        found = self._direct.get(function.symbol)
        if found is None:
            own: list[tuple[DeclarationAttr, int]] = []
            named: dict[str, None] = {}
            for op in function.walk():
                if isinstance(op, VariableOp) and op.declaration.space == "shared":
                    own += [(op.declaration, i) for i in range(len(op.declaration.items))]
                elif isinstance(op, Instruction):
                    named.update(dict.fromkeys(symbols(op.layout)))
            found = self._direct[function.symbol] = _Direct(
                tuple(own),
                tuple([n for n in named if n in self.shared]),
                tuple([n for n in named if n not in self.shared and n in self.functions]),
            )
        return found

    @property
    def touching(self) -> set[str]:
        """The functions that use shared memory, or call one that does."""
        if self._touching is None:
            callers: dict[str, list[str]] = {}
            for name, function in self.functions.items():
                for callee in self.direct(function).named:
                    callers.setdefault(callee, []).append(name)
            work = [n for n, f in self.functions.items() if self.direct(f).own or self.direct(f).reached]
            self._touching = set(work)
            while work:
                more = [c for c in callers.get(work.pop(), ()) if c not in self._touching]
                self._touching.update(more)
                work += more
        return self._touching


def shared_use(function: FunctionOp, module: ModuleNames) -> SharedUse:
    """Static shared memory of a function, with that of the functions it calls by name."""
    module_level, touching = module.shared, module.touching
    reached: set[str] = set()
    work = [function]
    seen = {function.symbol}
    own: list[tuple[DeclarationAttr, int]] = []
    while work:
        direct = module.direct(work.pop())
        own += direct.own
        reached.update(direct.reached)
        callees = [n for n in direct.named if n in touching and n not in seen]
        seen.update(callees)
        work += [module.functions[n] for n in callees]
    chosen = own + [module_level[n] for n in module_level if n in reached]
    placed: list[SharedVariable] = []
    dynamic: list[str] = []
    end = 0
    for declaration, index in chosen:
        name, tail = declaration.items[index]
        if ".extern" in declaration.head or (tail[:2] == ("[", "]") and declaration.size(index) == 0):
            dynamic.append(name)
            continue
        scalar = SCALAR_TYPES.get(declaration.type)
        natural = (scalar.bits + 7) // 8 * declaration.vector if scalar is not None else 8
        alignment = declaration.alignment or natural
        offset = -(-end // alignment) * alignment
        size = declaration.size(index)
        placed.append(SharedVariable(name, size, alignment, offset))
        end = offset + size
    return SharedUse(end, tuple(placed), tuple(dynamic))


def _declared(module: ModuleOp) -> Iterator[tuple[DeclarationAttr, int, str]]:
    for op in module.body.ops:
        if isinstance(op, VariableOp) and op.declaration.space == "shared":
            for i, (name, _) in enumerate(op.declaration.items):
                yield op.declaration, i, name


def symbols(layout: Layout) -> Iterator[str]:
    """The symbols that an operand list names."""
    for operand in layout:
        match operand:
            case Symbol(name):
                yield name
            case Address(base, _, rest):
                yield from symbols((base, *rest))
            case Element(array, index):
                yield from symbols((array, index))
            case Vector(elements) | Arguments(elements):
                yield from symbols(elements)
            case Pair(first, second):
                yield from symbols((first, second))
            case Not(inner) | Sum(inner):
                yield from symbols((inner,))
            case _:
                pass
