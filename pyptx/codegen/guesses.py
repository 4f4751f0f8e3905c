"""What the parameters of a kernel are, guessed from how it uses them: which ones point to what, which are tensor maps.

PTX says `.param .u64` of nearly everything. A parameter whose value ends up as the base of an address is a pointer; what
is loaded and stored there, and what is computed with it, says the type of its elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr

from ..dialects.ptx.async_copy import TensorCopy
from ..dialects.ptx.barrier import Bar, BarCta
from ..dialects.ptx.control import Call
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.mbarrier import MbarrierArrive, MbarrierExpectTx
from ..dialects.ptx.movement import ConvertAddress, MapAddress
from ..dialects.ptx.structure import DeclarationAttr, TokensAttr
from ..dialects.ptx.syntax import (
    Address,
    Arguments,
    Immediate,
    Operand,
    SpecialRegister,
    Symbol,
    Vector,
    operand_tokens,
)
from ..dialects.ptx.tensor_map import TensormapCpFenceproxy
from ..dialects.ptx.types import SCALAR_TYPES
from ..parser.module_text import ModuleText
from ..ssa.builder import FunctionSource
from ..ssa.statement import Reg, Shape

__all__ = ["Functions", "Guess", "Guesses", "declarations", "guess", "tokens"]

_THREADS = ("%tid.x", "%tid.y", "%tid.z")
_PASSES = 2
"""Through the statements: what a loop carries is known in the second."""
_DEPTH = 1
"""Of pointers in memory that are guessed: a table or structure of pointers to arrays."""
_ELEMENTS = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32", "u16x2": "u16", "s16x2": "s16"}
_PRECISION = {"kind::f16": "bf16", "kind::tf32": "tf32", "kind::f8f6f4": "e4m3", "kind::i8": "s8"}
"""What `tcgen05.mma` says of its inputs: their size, the type is in a descriptor."""
GEOMETRIES = frozenset("1d 2d 3d a1d a2d cube acube 2dms a2dms".split())
_INPUTS = frozenset(["f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "f64"])


@dataclass
class Guess:
    """One parameter. `pointer` and `tensor_map` may both be false: then it is a number."""

    pointer: bool = False
    used: bool = False
    types: Counter[str] = field(default_factory=Counter[str])
    """Types of the elements it points to, with how many instructions say so."""
    elements: int = 1
    """The most elements that one instruction of a thread moves."""
    reads: bool = False
    writes: bool = False
    spaces: set[str] = field(default_factory=set[str])
    """State spaces that `cvta.to` turns it into an address of."""
    rank: int = 0
    """Of a tensor map: the coordinates of its copies; 0: it is none."""
    handle: str = ""
    """`texref` or `surfref` where it is the handle of a texture or surface."""
    geometry: str = "2d"
    """Of a texture or surface, as `tex` spells it."""
    workspace: bool = False
    """Whether the kernel makes tensor maps there."""
    pointees: dict[int, Guess] = field(default_factory=dict[int, "Guess"])
    """What the pointers point to that it has in memory, by their offsets there."""
    box_bytes: int = 0
    """Of a tensor map: what one copy moves, going by the bytes that its mbarrier is told to expect."""

    def learn(self, other: Guess) -> None:
        """Take over what a function does with it as its parameter."""
        for name in ("pointer", "used", "reads", "writes", "workspace"):
            setattr(self, name, getattr(self, name) or getattr(other, name))
        self.types += other.types
        self.elements = max(self.elements, other.elements)
        self.rank = max(self.rank, other.rank)
        self.box_bytes = self.box_bytes or other.box_bytes
        self.spaces |= other.spaces
        self.pointees = {**other.pointees, **self.pointees}
        if other.handle:
            self.handle, self.geometry = other.handle, other.geometry

    @property
    def shared(self) -> bool:
        """Whether it points into shared memory."""
        return self.spaces == {"shared"}

    @property
    def type(self) -> str:
        """The most frequent type; a float where nothing says."""
        return self.types.most_common(1)[0][0] if self.types else "f32"


@dataclass
class Guesses:
    """All that is guessed of one entry."""

    parameters: dict[str, Guess]
    members: dict[str, dict[int, Guess]]
    """The members of structures that the kernel loads, by their offsets."""
    swizzled: bool
    """Whether tensor cores read shared memory by descriptors: with the widest swizzle, mostly."""
    clusters: bool
    """Whether it reaches into the shared memory of other CTAs."""
    barrier_threads: int
    """Threads that take part in a CTA barrier: 0 where there is none, -1 where it does not say."""
    dimensions: int
    """Of a block, going by the indices of threads that are read."""


class Functions:
    """The functions of a module, which say what the arguments of a call are; each is read once, when it is first called."""

    def __init__(self, source: ModuleText):
        found = (f for f in source.items if isinstance(f, FunctionSource) and f.has_body)
        self.sources = {cast(StringAttr, f.properties["sym_name"]).data: f for f in found}
        self.known: dict[str, Guesses | None] = {}

    def guesses(self, name: str) -> Guesses | None:
        """What a function's parameters are; None where it is not defined here, or is being read (it calls itself)."""
        if name not in self.known and name in self.sources:
            self.known[name] = None
            self.known[name] = _Reader(self.sources[name], self).read()
        return self.known.get(name)


def guess(entry: FunctionSource, functions: Functions) -> Guesses:
    """What the entry's parameters are, by what it and the functions that it calls do with them."""
    return _Reader(entry, functions).read()


class _Reader:
    def __init__(self, entry: FunctionSource, functions: Functions):
        self.entry, self.functions = entry, functions
        declared = declarations(entry, "params")
        self.found = {name: Guess() for d in declared for name, _ in d.items}
        self.structures = {name for d in declared for name, tail in d.items if tail}
        self.origin: dict[Reg, str] = {}
        self.types: dict[Reg, str] = {}
        self.shape_types: dict[tuple[Shape, tuple[str, ...]], list[str]] = {}
        self.inputs = ""
        self.swizzled = False
        self.clusters = False
        self.threads = 0
        self.copies: list[tuple[str, Shape]] = []  # tensor copies since the latest expected bytes
        self.expected = 0
        self.members: dict[str, dict[int, str]] = {}  # of structures: the keys of their members in `found`
        self.spilled: dict[tuple[Reg | str, str], str] = {}  # origins of what is stored in local memory
        self.loaded: dict[
            str, tuple[str, int]
        ] = {}  # keys in `found` of 64 bits in memory: (where their address is from, offset)
        self.constants: dict[Reg, int] = {}
        self.dimensions = 1

    def read(self) -> Guesses:
        for shape, regs, _, _, _ in self.entry.statements:
            if shape.instruction is not None and not shape.instruction.access:
                self._computed(shape.instruction, shape, regs)
        for _ in range(_PASSES):
            for shape, regs, _, _, _ in self.entry.statements:
                if shape.instruction is not None:
                    self._statement(shape.instruction, shape, regs)
            self._share()
        for declared in declarations(self.entry, "params"):
            for name, tail in declared.items:
                if ".ptr" in declared.head and not tail:
                    self.found[name].pointer = True
        for own in self.found.values():
            if own.workspace:
                own.rank, own.types = 0, Counter(["b8"])
        for key, (name, offset) in self.loaded.items():
            if self.found[key].pointer:
                self.found[name].pointees[offset] = self.found[key]
        members = {name: {at: self.found[key] for at, key in of.items()} for name, of in self.members.items()}
        return Guesses(self.found, members, self.swizzled, self.clusters, self.threads, self.dimensions)

    def _computed(self, cls: type[Instruction], shape: Shape, regs: Sequence[Reg]) -> None:
        """Learn in what type registers are computed with."""
        if cls.unit == "tensor core":
            named = [m for m in shape.modifiers if m in _INPUTS] or [
                _PRECISION[m] for m in shape.modifiers if m in _PRECISION
            ]
            self.inputs = self.inputs or next(iter(named), "")
            self.swizzled = self.swizzled or cls.in_flight == "wgmma" or any(m in _PRECISION for m in shape.modifiers)
        self.clusters |= issubclass(cls, MapAddress)
        if issubclass(cls, (Bar, BarCta)):
            numbers = [int(o.text) for o in shape.layout if isinstance(o, Immediate) and o.text.isdigit()]
            self.threads = max(self.threads, numbers[1]) if len(numbers) > 1 else self.threads or -1
        classes = tuple([r.register_class for r in regs])
        key = shape, classes
        found = self.shape_types.get(key)
        if found is None:
            found = self.shape_types[key] = list(_register_types(cls, shape, classes))
        made = next((m for m in shape.modifiers if m in _ELEMENTS or m in _INPUTS), "")
        first = 1 if shape.guard >= 0 else 0
        for i, (reg, named) in enumerate(zip(regs[first:], found, strict=False), first):
            if i in shape.written and named[:1] == "b" and made:  # packed: `cvt.rn.bf16x2.f32` writes a .b32
                named = _ELEMENTS.get(made, made)
            kind = SCALAR_TYPES[named].kind if named in SCALAR_TYPES else ""
            if kind == "float" or (kind in ("signed", "unsigned") and reg not in self.types):
                self.types[reg] = named

    def _statement(self, cls: type[Instruction], shape: Shape, regs: Sequence[Reg]) -> None:
        memory = next((o for o in shape.layout if isinstance(o, Address)), None)
        for operand in shape.layout:
            if isinstance(operand, SpecialRegister) and operand.name in _THREADS:
                self.dimensions = max(self.dimensions, _THREADS.index(operand.name) + 1)
        if cls.carries_address or (memory is not None and "param" in shape.modifiers):
            self._carry(cls, shape, regs)
        if issubclass(cls, Call):
            self._call(shape)
        if memory is not None and len(regs) in (1, 2) and cls.access in ("load", "store"):
            self._spill(cls, shape, memory, regs)
        if issubclass(cls, MbarrierExpectTx) or (issubclass(cls, MbarrierArrive) and "expect_tx" in shape.modifiers):
            late = bool(self.copies) and not self.expected  # they came before what they bring was expected
            if not late:
                self._share()
            numbers = [int(o.text) for o in shape.layout if isinstance(o, Immediate) and o.text.isdigit()]
            numbers += [self.constants[regs[i]] for i in shape.read if regs[i] in self.constants]
            self.expected = numbers[-1] if numbers else 0
            if late:
                self._share()
        for address, where, data in _addresses(shape, regs):
            name = self._parameter(address, where)
            if name is None or (isinstance(address.base, Symbol) and "param" in shape.modifiers):
                continue
            found = self.found[name]
            found.used = True
            if cls.reference and address is memory:
                found.handle = cls.reference
                found.geometry = next((m for m in shape.modifiers if m in GEOMETRIES), found.geometry)
            elif issubclass(cls, TensormapCpFenceproxy):
                found.pointer = found.writes = found.workspace = True
            elif issubclass(cls, TensorCopy):
                coordinates = next((o for o in reversed(address.rest) if isinstance(o, Vector)), None)
                found.rank = len(coordinates.elements) if coordinates is not None else 1
                self.copies.append((name, shape))
            elif cls.access:
                found.pointer = True
                self._accessed(found, cls, shape, address, data)

    def _carry(self, cls: type[Instruction], shape: Shape, regs: Sequence[Reg]) -> None:
        names = {self.origin[regs[i]] for i in shape.read if regs[i] in self.origin}
        for operand in shape.layout:
            base = operand.base if isinstance(operand, Address) else operand
            if isinstance(base, Symbol) and base.name in self.found:
                is_load = isinstance(operand, Address)
                names.add(self._member(base.name, operand.offset, shape) if is_load else base.name)
                self.found[base.name].used = True
            elif isinstance(base, Immediate) and base.text.isdigit() and len(regs) == 1 and len(shape.layout) == 2:
                self.constants[regs[0]] = int(base.text)
        if issubclass(cls, ConvertAddress) and "to" in shape.modifiers:
            for name in names:
                self.found[name].spaces |= {m.partition("::")[0] for m in shape.modifiers} & {"global", "shared"}
        if len(names) == 1:
            self.origin.update(dict.fromkeys([regs[i] for i in shape.written], next(iter(names))))

    def _member(self, name: str, offset: str, shape: Shape) -> str:
        """What a load of a parameter reads: the parameter, or a member of a structure."""
        number = offset.removeprefix("+") or "0"
        if name not in self.structures or not number.isdigit():
            return name
        key = f"{name}+{number}"
        found = self.found.setdefault(key, Guess())
        found.types[next((m for m in reversed(shape.modifiers) if m in SCALAR_TYPES), "b32")] += 0
        self.members.setdefault(name, {})[int(number)] = key
        return key

    def _spill(self, cls: type[Instruction], shape: Shape, memory: Address, regs: Sequence[Reg]) -> None:
        """Follow parameters through the stack, as code has them that is not optimised, and into calls."""
        base = memory.base.name if isinstance(memory.base, Symbol) else None
        data = regs[0] if cls.access == "load" or base is not None else regs[-1]
        place = (base if base is not None else regs[-1] if cls.access == "load" else regs[0]), memory.offset
        if cls.access == "load":
            if place in self.spilled:
                self.origin[data] = self.spilled[place]
            elif base is None and regs[-1] in self.origin and shape.modifiers[-1] in ("b64", "u64", "s64"):
                self.origin[data] = self._pointee(self.origin[regs[-1]], memory.offset)
        elif data in self.origin and data is not place[0]:
            self.spilled[place] = self.origin[data]

    def _pointee(self, name: str, offset: str) -> str:
        """What 64 bits in memory are, if they are an address: as a key of `found`."""
        number = int(offset.removeprefix("+") or 0) if offset.removeprefix("+").isdigit() or not offset else 0
        key = f"{name}*{number}"
        if name.count("*") < _DEPTH:
            self.loaded[key] = name, number
        self.found.setdefault(key, Guess())
        return key

    def _call(self, shape: Shape) -> None:
        """Arguments are what the function's parameters are; 64 bits that nobody knows more of are a pointer."""
        names = [o.name for o in shape.layout if isinstance(o, Symbol)]  # none where it goes through a register
        groups = [o for i, o in enumerate(shape.layout) if isinstance(o, Arguments) and i]  # the first may be results
        called = self.functions.guesses(names[0]) if names else None
        inner = [] if called is None else list(called.parameters.values())
        for number, argument in enumerate(groups[0].elements if groups else ()):
            if not isinstance(argument, Symbol):
                continue
            origin = next(
                (self.spilled[k] for k in ((argument.name, ""), (argument.name, "+0")) if k in self.spilled), None
            )
            if origin is not None and number < len(inner):
                self.found[origin].learn(inner[number])
            elif origin is not None and not (names and names[0] in self.functions.sources):
                self.found[origin].pointer = self.found[origin].used = True
        if called is not None:
            self.swizzled |= called.swizzled
            self.clusters |= called.clusters
            self.threads = max(self.threads, called.barrier_threads) or called.barrier_threads
            self.dimensions = max(self.dimensions, called.dimensions)

    def _parameter(self, address: Address, where: Sequence[Reg]) -> str | None:
        """The parameter that an address comes from."""
        if isinstance(address.base, Symbol):
            return address.base.name if address.base.name in self.found else None
        return self.origin.get(where[0]) if where else None

    def _accessed(
        self, found: Guess, cls: type[Instruction], shape: Shape, address: Address, data: Sequence[Reg]
    ) -> None:
        first = next(o for o in shape.layout if isinstance(o, Address)) is address
        found.reads |= cls.access in ("load", "atomic") or (cls.access == "copy" and not first)
        found.writes |= cls.access in ("store", "atomic") or (cls.access == "copy" and first)
        spelled = next((m for m in reversed(shape.modifiers) if m in SCALAR_TYPES), "")
        if not spelled:  # a copy of bytes
            named = self.inputs or "f32"
            number = next((int(o.text) for o in shape.layout if isinstance(o, Immediate) and o.text.isdigit()), 0)
            moved = min(number, 16)
        else:
            seen = Counter([self.types[r] for r in data if r in self.types])
            named = seen.most_common(1)[0][0] if spelled[0] == "b" and seen else spelled
            if spelled[0] == "b" and named in SCALAR_TYPES and SCALAR_TYPES[named].bits > SCALAR_TYPES[spelled].bits:
                named = spelled
            if named in ("b16", "u16") and self.inputs in ("f16", "bf16"):
                named = self.inputs
            vector = next((int(m[1:]) for m in shape.modifiers if m in ("v2", "v4", "v8")), 1)
            moved = SCALAR_TYPES[spelled].bits // 8 * vector
        named = _ELEMENTS.get(named, named)
        found.types[named] += 1
        found.elements = max(found.elements, moved * 8 // SCALAR_TYPES[named].bits)

    def _share(self) -> None:
        """Split the bytes that an mbarrier expects among the copies after it."""
        loads = [(name, shape) for name, shape in self.copies if any("mbarrier" in m for m in shape.modifiers)]
        if loads and self.expected:
            for name, _ in loads:
                found = self.found[name]
                found.box_bytes = found.box_bytes or self.expected // len(loads)
        for name, shape in self.copies:
            found = self.found[name]
            found.reads |= any("mbarrier" in m for m in shape.modifiers)
            found.writes |= not any("mbarrier" in m for m in shape.modifiers)
            found.types[self.inputs or "f32"] += 1
        self.copies, self.expected = [], 0


def _register_types(cls: type[Instruction], shape: Shape, classes: tuple[str, ...]) -> Iterator[str]:
    """The type in which an instruction uses each of its registers, in text order without the guard."""
    resolution = cls.resolve(shape.modifiers, shape.plain_layout, classes[1 if shape.guard >= 0 else 0 :])
    types: tuple[str, ...] = ()
    if resolution.uses:
        use = resolution.uses[0]
        types = use.form.operand_types(use.slots, shape.plain_layout, cls)
    for i, operand in enumerate(shape.layout):
        for _ in range(_registers_in(operand)):
            yield types[i] if i < len(types) else ""


def _addresses(shape: Shape, regs: Sequence[Reg]) -> Iterator[tuple[Address, Sequence[Reg], Sequence[Reg]]]:
    """The addresses of an instruction: each with its registers and those outside of addresses."""
    at = 1 if shape.guard >= 0 else 0
    places: list[tuple[Operand, Sequence[Reg]]] = []
    for operand in shape.layout:
        count = _registers_in(operand)
        places.append((operand, regs[at : at + count]))
        at += count
    data = [r for operand, own in places if not isinstance(operand, Address) for r in own]
    for operand, own in places:
        if isinstance(operand, Address):
            yield operand, own, data


def _registers_in(operand: Operand) -> int:
    return sum(1 for token in operand_tokens(operand) if token in ("$", "=", "~"))


def declarations(entry: FunctionSource, which: str) -> list[DeclarationAttr]:
    """The parameters (`params`) or results (`returns`) of a function."""
    attr = entry.properties.get(which)
    return list(cast("ArrayAttr[DeclarationAttr]", attr)) if attr is not None else []


def tokens(entry: FunctionSource, name: str) -> tuple[str, ...]:
    """The words of a function's head or directives."""
    attr = entry.properties.get(name)
    return attr.data if isinstance(attr, TokensAttr) else ()
