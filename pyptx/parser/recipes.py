"""Text read before and read again without tokens: what it recorded, with holes for its registers.

Unlike a template this stands for any whole chunk of a function's body: several statements on a line, statements over several
lines, scopes, declarations, labels with comments, special registers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..dialects.ptx.foundation import Attribute
from ..dialects.ptx.memo import CHARACTERS, Memo, count_entry
from ..dialects.ptx.structure import DeclarationAttr, FunctionOp, LabelListOp, TokensAttr, UnknownOp
from ..dialects.ptx.syntax import is_special_register
from ..ssa.statement import Environment, Kind, Shape, Statement
from .declarations import Header

_NAME = re.compile(r"(%[\w$]+)")
SPLIT = _NAME.split
_WORD = re.compile(r"[A-Za-z_$][\w$]*").fullmatch


@dataclass(frozen=True, slots=True)
class Head:
    """A function's head."""

    op_class: type[FunctionOp]
    properties: dict[str, Attribute]
    gaps: TokensAttr
    header: Header
    has_body: bool


@dataclass(slots=True)
class Definition:
    """A module-level statement: a declaration or directive, or a function's head. The same in every module."""

    shape: Shape | None
    head: Head | None = None
    line: int = 0
    """After the first of its text."""


_definitions: Memo[str, Definition] = Memo()
_LONGEST = 16_384  # characters


def definition_of(text: str) -> Definition | None:
    """The module-level statement that a text was read as before."""
    return _definitions.get(text)


def keep_definition(text: str, definition: Definition, line: int) -> None:
    if len(text) > _LONGEST:
        return
    definition.line = line
    count_entry(len(text))
    _definitions[text] = definition


@dataclass(slots=True)
class Event:
    """One recorded statement: its registers are places in the chunk's names, or names of their own."""

    shape: Shape
    registers: tuple[int | str, ...]
    line: int
    """After the chunk's first."""
    name: str
    before: tuple[int, ...] = ()
    """Places of the free names before it on its line: its column depends on their lengths."""
    length: int = 0
    """Of those names, as they were."""
    moved: dict[int, Shape] = field(default_factory=dict[int, Shape])

    def shape_for(self, names: Sequence[str]) -> Shape:
        """The shape, in the column that these names give it."""
        if not self.before:
            return self.shape
        by = sum([len(names[i]) for i in self.before]) - self.length
        if not by:
            return self.shape
        shape = self.moved.get(by)
        if shape is None:
            shape = self.moved[by] = self.shape.copy()
            shape.model = self.shape.model or self.shape
            shape.trivia, shape.verdicts = self.shape.trivia, self.shape.verdicts
            shape.column += by
        return shape


@dataclass(slots=True)
class Recipe:
    """A chunk as it was recorded, and what must hold for its text to mean the same again."""

    events: list[Event]
    free: tuple[int, ...]
    """Places of names that may be any register. The others are as they were."""
    known: tuple[str, ...]
    """Names that must be registers."""
    strangers: tuple[str, ...]
    """Words and names that must not be registers."""
    symbols: tuple[str, ...]
    """`%names` that must be declared as symbols."""
    closes: int
    """How many of the scopes around it the chunk leaves."""

    def fits(self, names: Sequence[str], environment: Environment, depth: int, symbols: set[str]) -> bool:
        """Whether the chunk means the same with these names, here."""
        known = environment.known
        return (
            depth > self.closes
            and not any(known(n) for n in self.strangers)
            and all(environment.spelled(names[at]) for at in self.free)
            and all(environment.spelled(n) for n in self.known)
            and symbols.issuperset(self.symbols)
        )


@dataclass(slots=True)
class _Group:
    """The recipes of chunks that are equal but for their names."""

    fixed: tuple[int, ...]
    """Places of names that tell one from another: special registers, symbols, declared names, names in comments."""
    recipes: dict[tuple[str, ...], Recipe] = field(default_factory=dict[tuple[str, ...], Recipe])


_groups: Memo[object, _Group] = Memo()


def find(key: object, names: Sequence[str]) -> Recipe | None:
    """The recipe of a chunk: its pieces between the names (its text if it has none), and these."""
    group = _groups.get(key)
    return group.recipes.get(tuple([names[i] for i in group.fixed])) if group is not None else None


def keep(key: object, names: Sequence[str], recipe: Recipe) -> None:
    fixed = tuple([i for i in range(len(names)) if i not in recipe.free])
    group = _groups.get(key)
    if group is None or group.fixed != fixed:
        group = _groups[key] = _Group(fixed)
    count_entry(len(recipe.events) * CHARACTERS)
    group.recipes[tuple([names[i] for i in fixed])] = recipe


def recipe_of(text: str, statements: Sequence[Statement], line: int, known: set[str]) -> Recipe | None:
    """The recipe of a chunk at `line` that recorded these statements; None if it may not be repeated. `known` are its words that
    were registers before it.
    """
    names = SPLIT(text)[1::2]
    commented = "//" in text or "/*" in text
    events: list[Event] = []
    declared: set[str] = set()
    labels: set[str] = set()
    words: set[str] = set()
    at = depth = lowest = 0
    for shape, regs, _, number, name in statements:
        if lowest < 0 and shape.kind != Kind.CLOSE:
            return None  # it is read outside of the scope it begins in, where names may mean something else
        if shape.op_class in (UnknownOp, LabelListOp) or "spelling" in shape.attributes:
            return None
        if shape.kind == Kind.LABEL:
            labels.add(name)
        elif shape.kind == Kind.OPEN:
            depth, name = depth + 1, ""
        elif shape.kind == Kind.CLOSE:
            depth -= 1
            lowest = min(lowest, depth)
        spelled = [n for t in shape.tokens for n in SPLIT(t)[1::2]]
        places: list[int | str] = []
        if isinstance(shape.payload, DeclarationAttr):
            if len(statements) > 1 and any(tail[:1] == ("<",) for _, tail in shape.payload.items):
                return None  # a range: its names are many
            declared.update(item for item, _ in shape.payload.items)
        elif shape.kind <= Kind.TERMINATOR:
            words.update(spelled)
            words.update(t for t in shape.tokens if _WORD(t))
            remaining = iter(enumerate(spelled, at))
            for reg in regs:
                if reg.name[0] != "%" or commented:
                    places.append(reg.name)
                else:
                    places.append(next(i for i, n in remaining if n == reg.name))
        at += len(spelled)
        events.append(Event(shape, tuple(places), number - line, name))
    if (declared | labels) & known:
        return None  # it hides a register: which of them a name means depends on the place
    assert commented or at == len(names)
    for event in events:  # registers that the chunk declares go by their names
        event.registers = tuple(
            [names[r] if isinstance(r, int) and names[r] in declared else r for r in event.registers]
        )
    used = {r for e in events for r in e.registers if isinstance(r, str)}
    free = sorted({r for e in events for r in e.registers if isinstance(r, int)})
    _note_columns(text, events, free)
    others = words - used - {names[i] for i in free}
    if declared & others:
        return None
    symbols = {n for n in others if n[0] == "%" and not is_special_register(n)}
    return Recipe(
        events,
        tuple(free),
        tuple(sorted(used - declared)),
        tuple(sorted(others | declared | labels)),
        tuple(sorted(symbols)),
        -lowest,
    )


def _note_columns(text: str, events: Sequence[Event], free: Sequence[int]) -> None:
    places = [
        (text.count("\n", 0, match.start()), match.start() - text.rfind("\n", 0, match.start()), len(match.group()))
        for match in _NAME.finditer(text)
    ]
    for event in events:
        event.before = tuple([i for i in free if places[i][0] == event.line and places[i][1] < event.shape.column])
        event.length = sum([places[i][2] for i in event.before])
