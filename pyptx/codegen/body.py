"""A function that is being written readably: what its registers are called and hold, and the lines so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr

from ..dialects.ptx.structure import DeclarationAttr
from ..frontend.core.instructions import wide_floats
from ..frontend.core.operators import operator_opcode
from ..frontend.core.results import operator_type
from ..frontend.module.arguments import Statement
from ..ssa.builder import FunctionSource
from ..ssa.statement import Reg, Shape
from . import constants
from .faithful import HELPERS, FaithfulWriter, FunctionWriter
from .names import NameTable, string
from .naming import Namer
from .operands import constant
from .runnable import NAMES
from .structure import Region

__all__ = ["ATOM", "BINARY", "Body", "Line", "Shared"]

BINARY = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6}
"""Python's binary operators that are instructions, with their precedence."""
ATOM = 9
"""The precedence of what needs no brackets."""
QUOTES = "\"'"
MAX_TEXT = 76
"""Characters beyond which an expression is not nested into another."""
_STATE = ("expressions", "arrays", "array_sizes", "kinds", "bound", "forced", "nested_not", "whole", "vectors")
_UNDO = 40
"""Lines before a loop that writing its beginning may nest into it."""


@dataclass(slots=True)
class Line:
    """One line to be written; `target` is the register that it assigns, if it may be nested into its use."""

    depth: int
    text: str
    target: Reg | None = None
    value: str = ""
    precedence: int = ATOM
    comment: str = ""
    """What stands above it."""


@dataclass(slots=True)
class Shared:
    """What the functions of a module have in common."""

    used: set[str]
    """The helpers that the program imports."""
    registers: str
    """How registers are declared: `bit`, `unsigned` or the usual way."""
    calls: str
    """The style of calls."""
    implicit_ret: bool
    fixed_labels: set[str]
    """Names that debug data mentions: labels of these names keep them."""
    symbols: dict[str, str]
    """Python names of variables and functions."""
    constants: set[str] = field(default_factory=set[str])
    """Of the known constants, those that are used by name."""
    mentioned: set[str] = field(default_factory=set[str])
    """Of the Python names of variables and functions, those that a function uses."""


class Body(FunctionWriter):
    """One function: its statements, what is known of its registers, and the lines so far."""

    def __init__(self, module: FaithfulWriter, shared: Shared, source: FunctionSource):
        super().__init__(module, source)
        self.shared = shared
        self.names = NameTable((*HELPERS, "m", *NAMES, *constants.ALL_NAMES, *shared.symbols.values(), *self.arguments))
        self.statements: list[Statement] = []
        self.parameters: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.bound: set[Reg] = {*source.outputs, *source.inputs}
        self.kinds: dict[Reg, str] = {r: self.kind_of(r.register_class) for r in self.bound}
        self.arrays: dict[Reg, tuple[str, int]] = {}
        self.array_sizes: dict[str, int] = {}
        self.vectors: dict[tuple[Reg, ...], str] = {}
        self.whole: set[tuple[Reg, ...]] = set()
        self.defs: dict[Reg, int] = {}
        self.uses: dict[Reg, int] = {}
        self.makes: dict[int, tuple[Reg, ...]] = {}
        self.namer = Namer(self.defs)
        self.forced: dict[Reg, str] = {}
        """Names that loops want."""
        self.nested_not: set[Reg] = set()
        """Registers that are needed after the loop which makes them."""
        self.lines: list[Line] = []
        self.depth = 0
        self.flat = False
        """Whether nothing is nested just now."""
        self.popped: list[Line] = []
        """The lines that went into the latest."""
        self.regions_of: dict[int, Region] = {}
        self.conditions: dict[int, int] = {}
        """Conditions without an else, whose label is theirs alone: their branch -> their label."""

    def kind_of(self, dtype: str) -> str:
        """What operators take a register of this type for."""
        return operator_type(dtype)

    def operator(self, symbol: str, kind: str) -> str | None:
        """The instruction of an operator on a register of that kind."""
        return operator_opcode(symbol, kind, self.shared.registers == "unsigned")

    def _declarations(self, which: str) -> list[DeclarationAttr]:
        attr = self.source.properties.get(which)
        return list(cast("ArrayAttr[DeclarationAttr]", attr)) if attr is not None else []

    def symbol(self, name: str) -> str:
        """A symbol as an operand: a parameter by its Python name."""
        known = self.parameters.get(name) or self.variables.get(name)
        if known is None and (known := self.shared.symbols.get(name)) is not None:
            self.shared.mentioned.add(known)
        return known or string(name)

    def is_exact(self, shape: Shape, regs: Sequence[Reg]) -> bool:
        if shape.instruction is None:
            return False
        key = shape, tuple([r.register_class for r in regs])
        found = self.judged.get(key)
        if found is None:
            found = self.judged[key] = self._must_be_exact(*key)
        return found

    # ---------------------------------------------------------------------------------------------------------- lines

    def line(self, text: str, deeper: int = 0) -> Line:
        return Line(self.depth + deeper, text)

    def write_line(self, text: str, **more: object) -> None:
        self.lines.append(Line(self.depth, text, **more))  # pyright: ignore[reportArgumentType]

    def take(self, reg: Reg) -> tuple[str, int]:
        """The expression of a register: the line before, if that computes it for this use alone, else its name."""
        last = self.lines[-1] if self.lines else None
        if (
            not self.flat
            and last is not None
            and last.target is reg
            and last.depth == self.depth
            and self.defs.get(reg) == 1
            and self.uses.get(reg) == 1
            and len(last.value) <= MAX_TEXT
        ):
            self.popped.append(self.lines.pop())
            self.names.release(self.expressions[reg])
            return last.value, last.precedence
        return self.expressions[reg], ATOM

    def fold(self, used: Sequence[Reg], guard: Reg | None) -> dict[int, tuple[str, int]]:
        """Which registers are computed by the lines before, by position (-1: the guard), taken from the last on."""
        taken: dict[int, tuple[str, int]] = {}
        total = 0
        positions = [*range(len(used)), *([-1] if guard is not None else [])]
        for position in reversed(positions):
            reg = guard if position < 0 else used[position]
            assert reg is not None
            if not self.lines or self.lines[-1].target is not reg or total + len(self.lines[-1].value) > MAX_TEXT:
                continue
            text, precedence = self.take(reg)
            if text == self.expressions[reg]:
                continue
            taken[position] = text, precedence
            total += len(text)
        return taken

    def unnest(self) -> None:
        """Put the nested lines back."""
        for line in reversed(self.popped):
            assert line.target is not None
            self.names.take(self.expressions[line.target])
            self.lines.append(line)
        self.popped = []

    def snapshot(self) -> tuple[object, ...]:
        """What writing changes, to take it back with `restore`."""
        state = {name: getattr(self, name).copy() for name in _STATE}
        return (
            len(self.lines),
            self.lines[-_UNDO:],
            self.depth,
            state,
            self.names.taken.copy(),
            (self.shared.used.copy(), self.shared.constants.copy()),
        )

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        count, last, self.depth, state, self.names.taken, (used, known) = snapshot
        self.shared.used.intersection_update(used)
        self.shared.constants.intersection_update(known)
        for name in _STATE:
            setattr(self, name, state[name])
        del self.lines[max(count - _UNDO, 0) :]
        self.lines += last

    def number(self, text: str, words: tuple[str, ...]) -> str:
        """A constant of an instruction: by its name, in hexadecimal, or as it is."""
        python = constant(text, wide_floats(words))
        if python[0] in QUOTES:
            python = string(text)
        call = constants.descriptor_call(int(python)) if len(python) > 15 and python.isdigit() else None
        if call is not None:
            self.shared.used.add("descriptor")
            return call
        python, name = constants.spelled(python, words)
        if name is not None:
            self.shared.constants.add(name)
        return python

    # --------------------------------------------------------------------------------------------------------- arrays

    def vector(self, regs: Sequence[Reg]) -> str | None:
        """An array or slice of one that is these registers."""
        if tuple(regs) in self.vectors:
            return self.vectors[tuple(regs)]
        first = self.arrays.get(regs[0])
        if first is None:
            return None
        name, start = first
        if any(self.arrays.get(r) != (name, start + i) for i, r in enumerate(regs)):
            return None
        if start == 0 and len(regs) == self.array_sizes[name]:
            return name
        return f"{name}[{start}:{start + len(regs)}]"

    def sequence(self, regs: Sequence[Reg]) -> str:
        """An expression for a list of these registers: an array, a stretch of one, or their names."""
        found = self.vector(regs)
        if found is not None:
            return found
        places = [self.arrays.get(r) for r in regs]
        if None not in places and len({p[0] for p in places if p}) == 1:
            text = self.stretch(next(p[0] for p in places if p), [p[1] for p in places if p])
            if text is not None:
                return text
        parts: list[str] = []
        at = 0
        while at < len(regs):
            end = at + 1
            while end < len(regs) and regs[end] is regs[at]:
                end += 1
            text = self.expressions[regs[at]]
            if end - at > 3:
                parts.append(f"*[{text}] * {end - at}")
                at = end
                continue
            run = self._run(regs[at:])
            if len(run) > 2:
                part = self.stretch(self.arrays[regs[at]][0], run)
                parts.append(f"*{part}")
                at += len(run)
                continue
            parts.append(text)
            at += 1
        if len(parts) == 1 and parts[0][0] == "*":
            return parts[0][1:]
        return f"[{', '.join(parts)}]"

    def _run(self, regs: Sequence[Reg]) -> list[int]:
        """The places of the first registers in their array, as far as they go up or down by one."""
        places: list[int] = []
        name = ""
        for reg in regs:
            array, place = self.arrays.get(reg) or ("", 0)
            step = place - places[-1] if places else 0
            if not array or (places and (array != name or abs(step) != 1)):
                break
            if len(places) > 1 and step != places[1] - places[0]:
                break
            name = array
            places.append(place)
        return places

    def stretch(self, name: str, at: Sequence[int]) -> str | None:
        """`array[::-1]` or another stretch of an array with a step; None for other places."""
        step = at[1] - at[0]
        if step == 0 or any(b - a != step for a, b in pairwise(at)):
            return None
        size = self.array_sizes[name]
        if step == 1 and at[0] == 0 and len(at) == size:
            return name
        stop = at[-1] + (1 if step > 0 else -1)
        begin = "" if at[0] == (0 if step > 0 else size - 1) else str(at[0])
        end = "" if stop < 0 or stop >= size else str(stop)
        return f"{name}[{begin}:{end}]" if step == 1 else f"{name}[{begin}:{end}:{step}]"
