"""Statements over register *names*: what the parser reads, the tracer records and `builder` turns into SSA.

A `Shape` is everything about a statement except the names in it; statements of one shape share it, so tokens, roles,
properties, trivia and verdicts are computed once per shape. A statement is the tuple (shape, registers, lead, line,
name).
"""

from __future__ import annotations

from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation, SSAValue

    from ..dialects.ptx.forms import Problem
    from ..dialects.ptx.instruction import Instruction
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
        found = Shape(self.kind, self.tokens, self.gaps)
        for slot in Shape.__slots__:
            setattr(found, slot, getattr(self, slot))
        found.attributes = dict(self.attributes)
        found.trivia, found.verdicts = {}, {}
        return found


Verdict = tuple["Problem | None", "tuple[SymbolUse, ...]"]
"""What is wrong with an instruction, and the symbols it names."""

Statement = tuple[Shape, "list[Reg] | tuple[()]", str, int, str]
"""(shape, registers in text order, text before the statement, line number, label or branch target or scope)."""


class Environment(dict[str, Reg]):
    """The registers visible at a point of a function; `%r<100>` ranges are materialised on first use."""

    def __init__(self) -> None:
        super().__init__()
        self.scope = 0
        self._opened = 0
        self._ranges: dict[str, tuple[str, int, int]] = {}
        self._declared: set[tuple[str, int]] = set()  # (range, scope)
        self._hidden: set[str] = set()  # names that a label or variable has taken from a register
        self._stack: list[tuple[int, dict[str, Reg | None], dict[str, tuple[str, int, int]]]] = []

    def __missing__(self, name: str) -> Reg:
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        found = self._ranges.get(stem)
        if found is None or not digits or (digits[0] == "0" and len(digits) > 1) or int(digits) >= found[1]:
            raise KeyError(name)
        if name in self._hidden:
            raise KeyError(name)
        reg = self[name] = Reg(name, found[0], found[2])
        return reg

    def known(self, name: str) -> bool:
        """Whether the name is a register here (materialising it if it lies in a range)."""
        if name in self:
            return True
        try:
            self[name]
        except KeyError:
            return False
        return True

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
            return None
        if (name, self.scope) in self._declared:
            return f"register range {name}<> is declared twice in this scope"
        self._declared.add((name, self.scope))
        if name[-1].isdigit():
            return None  # legal, but ptxas reads no `%r10` into `%r1<12>`
        if self._stack or name[:1] != "%":
            # in an inner scope the range may hide outer registers, and a bare name may hide a symbol: be exact
            for i in range(min(count, 65536)):
                self._log(f"{name}{i}")
                self[f"{name}{i}"] = Reg(f"{name}{i}", register_class, self.scope)
            if name in self._ranges and count <= 65536:
                return None  # the outer range's names beyond these stay visible
        self._ranges[name] = (register_class, count, self.scope)
        return None

    def hide(self, name: str) -> None:
        """A label or variable of an inner scope has the name of an outer register, which it hides up to the scope's end."""
        reg = self[name] if self.known(name) else None
        if reg is None or reg.scope == self.scope:  # in one scope it is an error, which `Names` reports
            return
        self._log(name)
        del self[name]
        self._hidden.add(name)

    def open(self) -> int:
        """Enter a `{ }` scope; returns its ordinal."""
        self._stack.append((self.scope, {}, dict(self._ranges)))
        self._opened += 1
        self.scope = self._opened
        return self.scope

    def close(self) -> None:
        """Leave the innermost scope; its declarations go."""
        self.scope, log, self._ranges = self._stack.pop()
        for name, old in log.items():
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
            self._stack[-1][1].setdefault(name, self.get(name))
