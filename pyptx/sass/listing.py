"""Machine code as data: a listing has functions, a function has instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .control import Control
from .operands import Label, Operand

__all__ = ["Function", "Guard", "Instruction", "Listing", "SassError"]


class SassError(RuntimeError):
    """Machine code that is not understood; the message says which instruction, where, and for what architecture."""


@dataclass(frozen=True, slots=True)
class Guard:
    """`@P0`, `@!UP1`: the instruction runs where the predicate is true, or false if `negated`."""

    register: str
    negated: bool = False

    def __str__(self) -> str:
        return f"@{'!' if self.negated else ''}{self.register}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One machine instruction.

    `reads` and `writes` have every single register (`R4`, `R5`, `P0`, `UR6`), operands of several registers spelled out, the
    guard included; constant registers (RZ, PT) are left out. `live` has the registers that are live after it;
    in functions with calls it was not compared with another source.
    """

    address: int
    """In bytes, from the start of the function's section."""
    word: int = field(repr=False)
    """Its 128 bits."""
    text: str
    """As nvdisasm prints it, with the guard and without the semicolon."""
    opcode: str
    """`FFMA`: the first word."""
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    control: Control
    guard: Guard | None = None
    note: str = ""
    """What nvdisasm remarks: `SpillRefill`."""
    line: int | None = None
    """The line of the PTX text."""
    source: tuple[str, int] | None = None
    """File and line of the program that the PTX was made from, as its `.loc` says."""
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    live: frozenset[str] = frozenset()

    @property
    def mnemonic(self) -> str:
        """Opcode and modifiers: `LDG.E.64`."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def target(self) -> int | None:
        """Where a branch, a call or a BSSY points to, if that is in the same section. A return names its function, and goes elsewhere."""
        if self.opcode == "RET":
            return None
        return next((o.address for o in self.operands if isinstance(o, Label)), None)


@dataclass(frozen=True, slots=True)
class Function:
    """The code of one section of a cubin: an entry function with the subroutines that only it calls, or a device function."""

    name: str
    arch: str
    instructions: tuple[Instruction, ...] = field(repr=False)
    labels: Mapping[str, int] = field(repr=False)
    """Name -> address. Subroutines have labels that do not start with a dot."""
    registers: int = 0
    """Per thread, as the cubin asks for."""
    shared_bytes: int = 0
    """Static shared memory."""

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    def at(self, address: int) -> Instruction:
        """The instruction at an address. IndexError where there is none."""
        index, rest = divmod(address, 16)
        if rest or not 0 <= index < len(self.instructions):
            raise IndexError(f"{self.name} has no instruction at {address:#x}")
        return self.instructions[index]


@dataclass(frozen=True, slots=True)
class Listing:
    """The functions of a cubin by name."""

    arch: str
    """`sm_90a`."""
    functions: Mapping[str, Function]
    cubin: bytes = field(repr=False, default=b"")

    def __iter__(self) -> Iterator[Function]:
        return iter(self.functions.values())

    def __getitem__(self, name: str) -> Function:
        return self.functions[name]
