"""Statements over register *names*: what the parser reads, the tracer records and `builder` turns into SSA.

A `Shape` is everything about a statement except the names in it; statements of one shape share it, so tokens, roles,
properties, trivia and verdicts are computed once per shape. A statement is the tuple (shape, registers, lead, line,
name).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from ..dialects.ptx.syntax import plain_name

if TYPE_CHECKING:
    from xdsl.dialects.builtin import LocationAttr
    from xdsl.ir import Attribute, Operation, SSAValue

    from ..dialects.ptx.forms import Problem
    from ..dialects.ptx.instruction import Instruction
    from ..dialects.ptx.structure import FunctionOp
    from ..dialects.ptx.symbol_use import SymbolUse
    from ..dialects.ptx.syntax import Layout
    from ..dialects.ptx.types import RegType


class Kind(IntEnum):
    """What a statement is to the SSA builder."""

    INSTRUCTION = 0
    TERMINATOR = 1
    LABEL = 2
    OPEN = 3
    CLOSE = 4
    REGISTERS = 5
    TABLE = 6
    OTHER = 7


class Reg:
    """One register variable of a function: its name, class and scope, and the builder's working state."""

    __slots__ = ("name", "register_class", "scope", "type", "definitions", "first", "block", "bit", "value")

    def __init__(self, name: str, register_class: str, scope: int):
        self.name = name
        self.register_class = register_class
        self.scope = scope
        self.type: RegType | None = None
        self.definitions = 0
        self.first = -1  # block of the first definition
        self.block = -1  # block of the latest definition seen
        self.bit = 0  # position in the renaming bitsets; 0 while one definition dominates all uses
        self.value: SSAValue | None = None

    def __repr__(self) -> str:
        return f"Reg({self.name!r}, {self.register_class!r}, {self.scope})"


class Shape:
    """A statement without its names. Fields after `gaps` are filled on first use."""

    __slots__ = (
        "kind", "op_class", "instruction", "modifiers", "layout", "guard_mark", "written", "read", "tied", "guard",
        "tokens", "gaps", "payload", "bare", "column", "properties", "attributes", "trivia", "verdicts", "problem",
        "styled", "opcode_tokens", "plain_layout", "name", "constants_free", "model", "adds",
    )  # fmt: skip

    def __init__(self, kind: Kind, tokens: list[str], gaps: list[str]):
        self.kind = kind
        self.tokens = tokens
        self.gaps = gaps
        self.op_class: type[Operation] | None = None
        self.instruction: type[Instruction] | None = None
        self.modifiers: tuple[str, ...] = ()
        self.layout: Layout = ()
        self.guard_mark = ""
        self.written: tuple[int, ...] = ()  # indices into the statement's registers, text order
        self.read: tuple[int, ...] = ()
        self.tied: tuple[int, ...] = ()  # the written ones whose old value is an operand
        self.guard = -1
        self.payload: object = None
        self.bare: tuple[str, ...] = ()  # identifiers that were not registers when the shape was made
        self.column = 1
        self.properties: dict[str, Attribute] | None = None
        self.attributes: dict[str, Attribute] = {}
        self.trivia: dict[int, dict[str, Attribute]] = {}  # its ops' attributes in files of a style, by its number
        self.verdicts: dict[tuple[int, tuple[str, ...]], Verdict] = {}  # by the target's number and register classes
        self.problem: Problem | None = None
        self.styled = False  # the attributes are all there is: no gaps to keep
        self.opcode_tokens = 0
        self.model: Shape | None = None  # the one it was made from by changing constants, which has the same trivia
        self.name = ""  # the branch target, when every statement of the shape has the same
        self.constants_free = False  # legal, whatever the values of its constants
        self.adds = -1  # the first operand that is a register plus a constant
        self.plain_layout: Layout = ()  # the operands without roles, the key of the family's resolutions

    def copy(self) -> Shape:
        """A shape of its own, to be changed."""
        found = object.__new__(Shape)
        for write, value in zip(_WRITES, _READ(self), strict=True):
            write(found, value)
        found.attributes = dict(self.attributes)
        found.trivia, found.verdicts = {}, {}
        return found


_READ = attrgetter(*Shape.__slots__)
_WRITES = [Shape.__dict__[slot].__set__ for slot in Shape.__slots__]

Verdict = tuple["Problem | None", "tuple[SymbolUse, ...]", int]
"""What is wrong with an instruction, the symbols it names, and the operand that ptxas's code generator refuses (-1: none)."""

Statement = tuple[Shape, "list[Reg] | tuple[()]", str, int, str]
"""(shape, registers in text order, text before the statement, line number, label or branch target or scope)."""


@dataclass(slots=True)
class FunctionSource:
    """A function before SSA: the op to make, its statements, the registers among its parameters and return parameters."""

    op_class: type[FunctionOp]
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute] = field(default_factory=dict[str, "Attribute"])
    statements: list[Statement] = field(default_factory=list[Statement])
    inputs: list[Reg] = field(default_factory=list[Reg])
    outputs: list[Reg] = field(default_factory=list[Reg])
    line: int = 0
    has_body: bool = True
    locations: list[LocationAttr] | None = None
    """When given, the line of a statement is an index into it (traced kernels: Python places in several files)."""


@dataclass(slots=True)
class UnresolvedLabel:
    """A branch whose label is not in the function."""

    label: str
    line: int
    statement: Statement


@dataclass(frozen=True, slots=True)
class Range:
    """`.reg .b32 %r<100>` of a scope, and the range of the same stem that it hides."""

    register_class: str
    count: int
    scope: int
    outer: Range | None


@dataclass(slots=True)
class _Scope:
    """An open `{ }`: the scope around it, and what its declarations took the place of."""

    around: int
    registers: dict[str, Reg | None] = field(default_factory=dict[str, "Reg | None"])
    ranges: dict[str, Range | None] = field(default_factory=dict[str, "Range | None"])


class Environment(dict[str, Reg]):
    """The registers visible at a point of a function; a register of a range `%r<100>` is made when it is first named."""

    def __init__(self) -> None:
        super().__init__()
        self.scope = 0
        self._opened = 0
        self._ranges: dict[str, Range] = {}
        self._bare = False  # whether a range has a name without a percent sign, which other words may have
        self._declared: set[tuple[str, int]] = set()  # (range, scope)
        self._padded: set[str] = set()  # declared names such as %r00
        self._hidden: set[str] = set()  # names that a label or variable has taken from a register
        self._stack: list[_Scope] = []
        self._scopes: dict[int, _Scope] = {}  # the same by their ordinals

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (self._bare and self._range_of(name) is not None)  # pyright: ignore

    def __missing__(self, name: str) -> Reg:
        found = self._range_of(name) if not _is_padded(name) else None
        if found is None:
            raise KeyError(name)
        return self._made(name, found)

    def _made(self, name: str, found: Range) -> Reg:
        """The register of that name in a range."""
        if found.scope in self._scopes:
            self._scopes[found.scope].registers.setdefault(name, None)
        reg = self[name] = Reg(name, found.register_class, found.scope)
        return reg

    def _range_of(self, name: str) -> Range | None:
        """The innermost range that has the name."""
        stem = name.rstrip("0123456789")
        found = self._ranges.get(stem)
        if found is None:
            return None
        digits = name[len(stem) :]
        if not digits or len(digits.lstrip("0")) > 11 or name in self._hidden:
            return None
        number = int(digits)
        while found is not None and number >= found.count:
            found = found.outer
        return found

    def known(self, name: str) -> bool:
        """Whether the name is a register here (materialising it if it lies in a range)."""
        if dict.__contains__(self, name):
            return True
        found = self._range_of(name)
        if found is None:
            return False
        if not _is_padded(name):
            self._made(name, found)
        return True

    def spelled(self, name: str) -> bool:
        """Whether it is the name that a register here prints with."""
        if dict.__contains__(self, name):
            return True
        found = self._range_of(name) if not _is_padded(name) else None
        if found is None:
            return False
        self._made(name, found)
        return True

    def register(self, name: str) -> Reg | None:
        """The register of that name, or None. `%r01` is another spelling of `%r1` where that is of a range."""
        try:
            return self[name]
        except KeyError:
            pass
        found = self._range_of(name) if _is_padded(name) else None
        if found is None:
            return None
        plain = plain_name(name)
        inner = self.get(plain)
        if inner is None:
            # a label or variable of an inner scope may hide the plain name
            return Reg(plain, found.register_class, found.scope) if plain in self._hidden else self[plain]
        for candidates in (self, *(scope.registers for scope in reversed(self._stack))):
            reg = candidates.get(plain)
            if reg is not None and reg.scope == found.scope:
                return reg
        # an inner scope's own register hides the plain name: the range's shows when that scope is left
        reg = self._scopes[inner.scope].registers[plain] = Reg(plain, found.register_class, found.scope)
        return reg

    def count_of(self, stem: str) -> int:
        """How many registers the innermost range of that name has; 0 if there is none."""
        found = self._ranges.get(stem)
        return found.count if found is not None else 0

    @contextmanager
    def widened(self, stem: str, count: int) -> Generator[None]:
        """As if that range had so many registers."""
        before, own = self._ranges[stem], set(self)
        self._ranges[stem] = replace(before, count=count)
        try:
            yield
        finally:
            self._ranges[stem] = before
            for name in set(self) - own:
                del self[name]

    def class_of(self, name: str) -> str:
        """The class of the register of that name; empty if there is none."""
        found = self.register(name)
        return "" if found is None else found.register_class

    def numbered(self, digits: str) -> list[str]:
        """The registers that have this number: `%r7` and `%rd7`."""
        found = [f"{stem}{digits}" for stem in self._ranges if self.known(f"{stem}{digits}")]
        return list(
            dict.fromkeys(
                [*found, *(name for name in islice(self, 4000) if name.rstrip("0123456789") + digits == name)]
            )
        )

    def declare(self, name: str, register_class: str, count: int | None = None) -> str | None:
        """Declare one register, or a range when `count` is given. Returns a message if the name is taken in this scope."""
        if count is None:
            if self._taken(name):
                return f"register {name} is declared twice in this scope"
            self._log(name)
            self[name] = Reg(name, register_class, self.scope)
            if _is_padded(name):
                self._padded.add(name)
            return None
        if (name, self.scope) in self._declared:
            return f"register range {name}<> is declared twice in this scope"
        self._declared.add((name, self.scope))
        if name[-1].isdigit():
            return None  # legal, but ptxas reads no `%r10` into `%r1<12>`
        self._bare |= name[:1] != "%"
        made = Range(register_class, count, self.scope, self._ranges.get(name))
        if self._stack:
            self._stack[-1].ranges[name] = made.outer
        self._uncover(name, made)
        self._ranges[name] = made
        return None

    def _uncover(self, stem: str, made: Range) -> None:
        """Take away the registers that a range hides: those of outer scopes, and of its own the first one and padded names."""
        names = [f"{stem}0"]
        if self._stack:
            names = [f"{stem}{i}" for i in range(made.count)] if made.count <= len(self) else list(self)
        for name in dict.fromkeys((*names, *self._padded)):
            if dict.__contains__(self, name) and _is_of(name, stem, made.count):
                self._log(name)
                del self[name]
        for name in [n for n in self._hidden if _is_of(n, stem, made.count)]:
            self._log(name)
            self[name] = Reg(name, made.register_class, made.scope)

    def hide(self, name: str) -> None:
        """A label or variable of an inner scope has the name of an outer register, which it hides up to the scope's end."""
        reg = self.register(name)
        if reg is None or reg.scope == self.scope:  # in one scope it is an error, which `Names` reports
            return
        self._log(name)
        self.pop(name, None)
        self._hidden.add(name)

    def open(self) -> int:
        """Enter a `{ }` scope; returns its ordinal."""
        self._opened += 1
        opened = self._scopes[self._opened] = _Scope(self.scope)
        self._stack.append(opened)
        self.scope = self._opened
        return self.scope

    def close(self) -> None:
        """Leave the innermost scope; its declarations go."""
        closed = self._stack.pop()
        del self._scopes[self.scope]
        self.scope = closed.around
        for stem, hidden in closed.ranges.items():
            if hidden is None:
                del self._ranges[stem]
            else:
                self._ranges[stem] = hidden
        for name, old in closed.registers.items():
            self._hidden.discard(name)
            if old is None:
                self.pop(name, None)
            else:
                self[name] = old

    def _taken(self, name: str) -> bool:
        reg = self.get(name)
        return reg is not None and reg.scope == self.scope

    def _log(self, name: str) -> None:
        if self._stack:
            self._stack[-1].registers.setdefault(name, self.get(name))


def _is_padded(name: str) -> bool:
    """Whether a name ends in a number with leading zeros."""
    stem = name.rstrip("0123456789")
    return len(name) - len(stem) > 1 and name[len(stem)] == "0"


def _is_of(name: str, stem: str, count: int) -> bool:
    """Whether a name is of a range, as `%r01` is of `%r<2>`."""
    digits = name[len(stem) :]
    return name.startswith(stem) and digits.isdecimal() and len(digits.lstrip("0")) < 12 and int(digits) < count
