"""The decoded program: what the engines run. Plain data, no IR and no text to interpret.

A `Program` holds the segments of one entry and of every function it may reach. A *segment* is a run of
instructions that a thread
executes without having to wait for another: blocks are cut after branches and calls and around barriers and
warp-wide instructions. The
numbers of segments are the program counters.

Registers are storage slots: `Reg("32", 5)` is row 5 of the pool of 32-bit registers. A slot belongs to a
register of the PTX text (its
type in the IR), not to an SSA value, so block arguments and ties need no copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import numpy as np

from ...analysis.source_map import SourceMap
from ...diagnostics import Origin
from ...dialects.ptx.instruction import Instruction

T = TypeVar("T")

SHARED_BASE = 0x400
"""First address of a CTA's shared memory in the .shared space; the system keeps what lies below, as on
sm_90.
"""
SHARED_WINDOW = 0x0000_7000_0000_0000
"""Generic address of .shared address 0."""
CLUSTER_SHIFT = 24
"""Bits 24 and up of a .shared address hold the rank of its CTA in the cluster, also in the CTA's own (.shared::cta)
addresses. So clearing bit 24 gives the address in the even CTA of a pair, as CUTLASS does (`Sm100MmaPeerBitMask`).
"""
LOCAL_WINDOW = 0x0000_7100_0000_0000
"""Generic address of .local address 0."""
LOCAL_BASE = 0x10
PARAMETER_BASE = 0x0000_7200_0000_0000
"""Where the parameters of the running entry lie (.param and generic addresses are the same)."""
MODULE_BASE = 0x0000_7300_0000_0000
"""Where the module's .global and .const variables lie (generic, .global and .const addresses are the
same).
"""
ARGUMENT_BASE = 0x0000_7400_0000_0000
"""Where the arrays given as arguments lie."""
PER_CTA_BASE = 0x0000_7480_0000_0000
"""Where the CTAs' own slices of global memory lie (`.minperctamemory`)."""
DEVICE_BASE = 0x0000_6000_0000_0000
"""Where the allocations of a `DeviceMemory` lie, unless it gives an address."""
GRID_BASE = 0x0000_74C0_0000_0000
"""Where the barrier of a cooperative launch's grid lies: the driver gives its address in %envreg1 (high) and %envreg2."""
HEAP_BASE = 0x0000_7500_0000_0000
HANDLE_BASE = 0x0000_7700_0000_0000
"""First handle of a texture, sampler or surface given as an argument; those of module variables are their addresses."""
CODE_BASE = 0x0000_7600_0000_0000
"""Address of function 0; a function's address is `CODE_BASE + 16 * number`."""


@dataclass(frozen=True, slots=True)
class Reg:
    """A register's storage: row `slot` of pool `pool`."""

    pool: str
    slot: int

    def __hash__(self) -> int:
        return self.slot


@dataclass(frozen=True, slots=True)
class Imm:
    """A constant: its value, and its bits where the spelling is exact (`0f7FC00001`)."""

    value: int | float
    exact: int | None = None

    def array(self, dtype: np.dtype[np.generic]) -> np.ndarray:
        """The constant in an operand type, as one element."""
        bits = dtype.itemsize * 8
        if dtype.kind == "b":
            return np.array([bool(self.value)])
        if dtype.kind == "f":
            if self.exact is not None:
                word = np.array([self.exact], np.uint32 if self.exact >> 32 == 0 and bits == 32 else np.uint64)
                return word.view(dtype) if word.itemsize == dtype.itemsize else np.array([self.value], dtype)
            return np.array([self.value], dtype)
        if isinstance(self.value, float):
            word = self.exact
            if word is None:
                kind = np.float64 if bits == 64 else np.float32
                word = int(np.array([self.value], kind).view(np.uint64 if bits == 64 else np.uint32)[0])
        else:
            word = self.value
        return np.array([word & ((1 << bits) - 1)], np.dtype(f"u{dtype.itemsize}")).view(dtype)


@dataclass(frozen=True, slots=True)
class Special:
    """A special register with its element, such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """A variable's address: its state space, its address there, its name. `frame`: relative to the
    function's frame pointer.
    """

    space: str
    address: int
    name: str
    size: int = 0
    frame: Reg | None = None
    element: int = 1
    """Bytes of an element, of a scalar where the elements are vectors."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is not a variable: a called function, a prototype, a list of labels."""

    name: str


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`."""


@dataclass(frozen=True, slots=True)
class Not:
    """`!p`."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Part:
    """A byte or half of a register, `%r1.b0`, or elements of two registers, `%r1.h21` (video instructions)."""

    operand: Reg
    selector: str


@dataclass(frozen=True, slots=True)
class Negative:
    """`-a` (vmad)."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Pair:
    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Vec:
    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Args:
    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset, rest...]`."""

    base: Operand
    offset: int
    rest: tuple[Operand, ...] = ()


Operand = Reg | Imm | Special | Place | Name | Sink | Not | Part | Negative | Pair | Vec | Args | Address


_STRONG = frozenset({"volatile", "acquire", "relaxed", "release", "acq_rel", "mmio"})


@dataclass(slots=True, eq=False)
class Inst:
    """One decoded instruction."""

    opcode: str
    """The key of its meaning: `add`, `bar.sync`."""
    modifiers: tuple[str, ...]
    """What follows the opcode, in canonical order."""
    types: tuple[str, ...]
    """The scalar types among the modifiers, in order."""
    operands: tuple[Operand, ...]
    written: tuple[Reg, ...]
    read: tuple[Reg, ...]
    guard: Reg | None = None
    negated: bool = False
    text: str = ""
    filename: str | None = None
    line: int | None = None
    column: int | None = None
    number: int = 0
    family: type[Instruction] = Instruction
    """The op class, which states what is true of all its instructions; the base class for `copies`."""
    cc: Reg | None = None
    """The condition-code register of its function."""
    frame: Reg | None = None
    returns: tuple[tuple[Operand, Operand], ...] = ()
    local: frozenset[Reg] = frozenset()
    """The written registers that no other segment reads: inactive lanes may be overwritten."""
    _needs: tuple[Reg, ...] | None = None

    @property
    def needs(self) -> tuple[Reg, ...]:
        """The registers of which it needs the value: not those it only keeps for lanes that its guard excludes."""
        if self._needs is None:
            self._needs = tuple(_needs(self))
        return self._needs

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    @property
    def copies(self) -> bool:
        """Whether this is not an instruction of the text, but brings registers to where a block expects them."""
        return self.opcode == "copies"

    @property
    def polls(self) -> bool:
        """Whether a loop around it may be one that waits for other threads: it looks at what they do."""
        return self.family.polls or (self.family.access == "load" and self.strong)

    @property
    def changes(self) -> bool:
        """Whether it may change what another thread or a later round of a loop finds, other than registers."""
        family = self.family
        if family.access == "atomic":
            return not (self.has("cas") or self.has("exch"))  # these look for what others do
        return (
            family.access in ("store", "copy") or (family.access == "object" and not self.polls) or bool(family.starts)
        )

    @property
    def strong(self) -> bool:
        """Whether it says that it is a strong operation (PTX ISA 8.4): all modifiers of loads and stores that do."""
        return not _STRONG.isdisjoint(self.modifiers)

    @property
    def fences(self) -> str:
        """What it orders as a fence; see `Instruction.fences`."""
        return self.family.fences(self.modifiers)

    def one_of(self, *modifiers: str) -> str | None:
        """The first of these modifiers that is there."""
        return next((m for m in self.modifiers if m in modifiers), None)

    @property
    def type(self) -> str:
        """The (last) instruction type."""
        return self.types[-1] if self.types else "b32"

    @property
    def rounding(self) -> str:
        return self.one_of("rn", "rz", "rm", "rp") or "rn"


@dataclass(slots=True, eq=False)
class Segment:
    """A run of instructions and how it ends.

    `ends` is `next`, `branch` (targets: taken; `after`: not taken), `table` (brx.idx), `return`, `exit`,
    `call`, `trap` or `sync` (the
    last instruction may have to wait for other threads). The ending instruction is `last`, not among `body`.
    """

    body: list[Inst]
    ends: str
    last: Inst | None
    function: int
    targets: tuple[int, ...] = ()
    after: int = -1
    compiled: bool = False
    """Whether a launch has compiled runs of its body (`jit.runs`): the next one need not wait as long."""

    @property
    def instructions(self) -> list[Inst]:
        """All of them, the ending one last."""
        return self.body if self.last is None else [*self.body, self.last]


@dataclass(slots=True)
class Formal:
    """A parameter or return parameter of a function: where it lies in its frame (or its registers), and its
    size in bytes.
    """

    place: Place | Reg | Vec
    size: int

    @property
    def registers(self) -> list[Reg]:
        """Those that it is passed in: one, several for a vector, none for a `.param` variable."""
        return [r for r in leaves(self.place) if isinstance(r, Reg)]


@dataclass(slots=True)
class Function:
    """A function's code: its first segment, its registers (for saving around recursion) and its
    parameters.
    """

    name: str
    number: int
    entry: int = -1
    registers: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Pool -> rows [first, last)."""
    parameters: list[Formal] = field(default_factory=list[Formal])
    returns: list[Formal] = field(default_factory=list[Formal])
    frame_size: int = 0
    frame: Reg | None = None
    """The frame pointer, for functions that may be active more than once."""
    builtin: bool = False


@dataclass(slots=True)
class Parameter:
    """A kernel parameter: name, scalar type, byte size and offset in the parameter buffer; `array`: it is
    passed by value as bytes.
    """

    name: str
    type: str
    size: int
    offset: int
    array: bool
    alignment: int = 1


@dataclass(slots=True)
class Program:
    """Everything an engine needs to run one entry."""

    entry: str
    segments: list[Segment]
    functions: list[Function]
    start: int
    parameters: list[Parameter]
    pools: dict[str, int]
    """Number of registers in each pool."""
    shared_size: int
    """Bytes of static shared memory from SHARED_BASE on; dynamic shared memory follows at
    `dynamic_offset`.
    """
    dynamic_offset: int
    local_size: int
    stack_start: int
    """Where the frames of functions that may call themselves begin."""
    dynamic_start: int
    """Where `alloca` takes memory from, up to `local_size`."""
    frame_pointers: list[Reg]
    target: str
    directives: dict[str, tuple[int, ...]]
    instructions: list[Inst]
    floats: frozenset[Reg] = frozenset()
    """Registers declared `.f32` or `.f64`, for those who show values."""
    shared: dict[str, Place] = field(default_factory=dict[str, Place])
    """Shared variables by name (a name of several scopes: its first); one of unknown size is the dynamic memory."""
    sources: SourceMap = field(default_factory=lambda: SourceMap(()))
    """What the `.loc` directives of the module say."""
    _known: dict[Callable[[Program], object], object] = field(
        default_factory=dict["Callable[[Program], object]", "object"]
    )

    def once(self, compute: Callable[[Program], T]) -> T:
        """What a function says of the program, which does not change: computed once for all launches."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        return cast("T", self._known[compute])

    def unknowing(self) -> Program:
        """It without what `once` computed, which may not be plain data."""
        return replace(self, _known={})

    def origin(self, inst: Inst) -> tuple[Origin, ...]:
        """The place in the program that an instruction was made from."""
        return self.sources.of(inst.line, inst.filename)

    @property
    def syncs_grid(self) -> bool:
        """Whether it looks for the barrier of a cooperative launch's grid."""
        return any(o in (Special("%envreg1"), Special("%envreg2")) for i in self.instructions for o in i.operands)

    @property
    def parameter_size(self) -> int:
        return max((p.offset + p.size for p in self.parameters), default=0)


def _needs(inst: Inst) -> list[Reg]:
    if inst.copies:
        return [o.second for o in inst.operands if isinstance(o, Pair) and isinstance(o.second, Reg)]
    count = Counter(r for o in inst.operands for r in leaves(o) if isinstance(r, Reg))
    count.subtract(inst.written)
    found = [r for r, n in count.items() if n > 0]
    if inst.guard is not None:
        found.append(inst.guard)
    return found


def leaves(operand: Operand) -> Iterator[Operand]:
    """The operands inside an operand, in text order."""
    match operand:
        case Not(inner) | Negative(inner) | Part(inner, _):
            yield from leaves(inner)
        case Pair(first, second):
            yield from leaves(first)
            yield from leaves(second)
        case Vec(elements) | Args(elements):
            for element in elements:
                yield from leaves(element)
        case Address(base, _, rest):
            yield from leaves(base)
            for element in rest:
                yield from leaves(element)
        case _:
            yield operand
