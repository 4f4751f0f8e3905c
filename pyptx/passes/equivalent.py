"""Compare two modules up to the names of registers, labels, parameters and local variables.

    for difference in differences(a, b):
        print(difference.text)

Functions are paired by name (one left over on each side is taken for renamed), their statements aligned by
what they are without names, and names bound as they meet: the modules are equal where one renaming, the same
for a whole function, makes every statement of one the statement of the other. Layout, comments, the order of
modifiers and register declarations do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import (
    FallOp,
    FunctionOp,
    LabelListOp,
    LabelOp,
    ModuleOp,
    ParameterOp,
    RegisterOp,
    ScopeBeginOp,
    ScopeEndOp,
    Structural,
    UndefOp,
    VariableOp,
    head_labels,
)
from ..dialects.ptx.style import Style
from .strip_debug import strip_debug
from .tokens import Token, instruction_tokens
from .verify import ptx_modules

_STYLE = Style(indent="", after_opcode=" ", line_end="")
_SILENT = (UndefOp, FallOp, ParameterOp, RegisterOp, ScopeBeginOp, ScopeEndOp)
_LONG = 4000
"""Statements beyond which frequent ones no longer count when aligning (difflib's autojunk)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One statement: its tokens, those that are names as (index, identity), and its line."""

    words: tuple[str, ...]
    names: tuple[tuple[int, str], ...]
    key: tuple[str, ...]
    gaps: tuple[str, ...]
    line: int | None

    def text(self, renamed: dict[str, str] | None = None) -> str:
        """The statement on one line, names replaced by what `renamed` says of their identity."""
        words = list(self.words)
        for index, identity in self.names:
            words[index] = (renamed or {}).get(identity, words[index])
        parts = [self.gaps[0]]
        for word, gap in zip(words, self.gaps[1:], strict=True):
            parts += (word, gap)
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two modules differ: the rows that only one has. Names of `b` are written as those of `a`
    they stand for.
    """

    function: str
    a_line: int | None
    b_line: int | None
    removed: tuple[str, ...]
    added: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The difference as a hunk of a unified diff."""
        where = f" {self.function}" if self.function else ""
        lines = [f"@@ line {self.a_line or '?'} / line {self.b_line or '?'} @@{where}"]
        lines += [f"  {line}" for line in self.before]
        lines += [f"- {line}" for line in self.removed]
        lines += [f"+ {line}" for line in self.added]
        lines += [f"  {line}" for line in self.after]
        return "\n".join(lines)


def differences(a: Operation, b: Operation, *, ignore_debug: bool = False, context: int = 3) -> list[Difference]:
    """Where two modules (`builtin.module` or `ptx.module`) differ; empty where they are the same but for
    names.

    `ignore_debug` leaves `.loc`, `.file`, DWARF sections and labels that only they name out of the
    comparison. `context` is the number of equal statements shown around each difference.
    """
    first, second = _module(a), _module(b)
    if ignore_debug:
        first, second = first.clone(), second.clone()
        strip_debug(first)
        strip_debug(second)
    left = {f.symbol: f for f in _defined(first)}
    right = {f.symbol: f for f in _defined(second)}
    only_left = [name for name in left if name not in right]
    only_right = [name for name in right if name not in left]
    pairs = {name: name for name in left if name in right}
    if len(only_left) == len(only_right) == 1:
        pairs[only_left[0]] = only_right[0]
    found: list[Difference] = []
    labels = _Renaming()
    for name, function in left.items():
        partner = right.get(pairs.get(name, ""))
        renaming = _Renaming()
        rows = _function_rows(partner) if partner is not None else []
        found += _compare(name, _function_rows(function), rows, context, renaming)
        labels.learn_labels(renaming)
    for name in only_right:
        if name not in pairs.values():
            found += _compare(name, [], _function_rows(right[name]), context, _Renaming())
    return _compare("", _module_rows(first), _module_rows(second), context, labels) + found


def _module(op: Operation) -> ModuleOp:
    modules = ptx_modules(op)
    if len(modules) != 1:
        raise ValueError(f"expected one ptx.module, found {len(modules)}")
    return modules[0]


def _defined(module: ModuleOp) -> list[FunctionOp]:
    return [f for f in module.functions if not f.is_declaration]


# ---------------------------------------------------------------------- rows


def _module_rows(module: ModuleOp) -> list[Row]:
    """Everything outside function bodies. Debug sections name labels of functions, which may be renamed."""
    labels = {op.label for f in _defined(module) for b in f.blocks for op in b.ops if isinstance(op, LabelOp)}

    def local(name: str) -> str | None:
        return f"{name}@0" if name in labels else None

    rows: list[Row] = []
    for op in module.body.ops:
        if isinstance(op, FunctionOp) and not op.is_declaration:
            continue
        if isinstance(op, Structural) and op.tokens() != [";"]:
            rows.append(_row([Token(w) for w in op.tokens()], op, local))
    return rows


def _function_rows(function: FunctionOp) -> list[Row]:
    outer = {name: name for d in (*function.parameters, *function.returns) for name, _ in d.items}
    scopes = _scopes(function, outer)
    first = _first_labels(function)
    stack = [scopes[0]]
    opened = 0

    def local(name: str) -> str | None:
        return next((scope[name] for scope in reversed(stack) if name in scope), None)

    rows = [_row([Token(w) for w in function.tokens()], function, local)]
    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, ScopeBeginOp):
                opened += 1
                stack.append(scopes[opened])
            elif isinstance(op, ScopeEndOp):
                stack.pop()
            elif isinstance(op, _SILENT) or (isinstance(op, LabelOp) and first[op][0] is not op):
                continue
            elif isinstance(op, Instruction):
                statement = instruction_tokens(op)
                gaps = _STYLE.instruction_gaps(statement.words, statement.guard, statement.opcode)
                opcode = statement.guard + statement.opcode
                tokens, named = _one_label(op, list(statement.tokens), first, local)
                rows.append(_row(tokens, op, named, gaps, opcode))
            elif isinstance(op, Structural):
                rows.append(_row([Token(w) for w in op.tokens()], op, local))
    return rows


def _scopes(function: FunctionOp, outer: dict[str, str]) -> list[dict[str, str]]:
    """What each `{ }` scope declares, as name -> identity; labels may be used before they stand."""
    scopes = [outer]
    stack = [0]
    for block in function.blocks:
        for op in block.ops:
            names: list[str] = []
            if isinstance(op, ScopeBeginOp):
                stack.append(len(scopes))
                scopes.append({})
            elif isinstance(op, ScopeEndOp):
                stack.pop()
            elif isinstance(op, VariableOp):
                names = [name for name, _ in op.declaration.items]
            elif isinstance(op, (LabelOp, LabelListOp)) and op.label:
                names = [op.label]
            scopes[stack[-1]].update({name: f"{name}@{stack[-1]}" for name in names})
    return scopes


def _first_labels(function: FunctionOp) -> dict[LabelOp, tuple[LabelOp, str]]:
    """For each label the first one at its place, in whatever scope, with its identity: they are one."""
    found: dict[LabelOp, tuple[LabelOp, str]] = {}
    stack, opened = [0], 0
    here: tuple[LabelOp, str] | None = None
    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, ScopeBeginOp):
                opened += 1
                stack.append(opened)
            elif isinstance(op, ScopeEndOp):
                stack.pop()
            elif isinstance(op, LabelOp):
                here = here or (op, f"{op.label}@{stack[-1]}")
                found[op] = here
            elif not isinstance(op, _SILENT):
                here = None
    return found


def _one_label(
    op: Instruction, tokens: list[Token], first: dict[LabelOp, tuple[LabelOp, str]], local: Callable[[str], str | None]
) -> tuple[list[Token], Callable[[str], str | None]]:
    """A branch with the first of the labels where it goes, and what names stand for in it."""
    labels = head_labels(op.successors[0]) if op.successors and any(t.kind == "label" for t in tokens) else []
    if not labels:
        return tokens, local
    label, identity = first[labels[0]]
    tokens = [Token(label.label, "label") if t.kind == "label" else t for t in tokens]
    return tokens, lambda name: identity if name == label.label else local(name)


def _row(
    tokens: Sequence[Token],
    op: Operation,
    local: Callable[[str], str | None],
    gaps: Sequence[str] | None = None,
    opcode: int = 0,
) -> Row:
    """`opcode`: how many tokens come before the operands; a name may be spelled like an opcode."""
    words = tuple(t.text for t in tokens)
    names: list[tuple[int, str]] = []
    key: list[str] = []
    for i, token in enumerate(tokens):
        if token.register is not None:
            register_class, name, scope = token.register.data
            names.append((i, f"{name}@register@{scope}"))
            key.append(f"\0{register_class}")
        elif token.kind or (i >= opcode and local(token.text) is not None):
            names.append((i, local(token.text) or token.text))
            key.append("\0")
        else:
            key.append(token.text)
    if gaps is None:
        gaps = [*_STYLE.directive_gaps(words)]
        gaps[0] = gaps[-1] = ""
    location = op.location
    line = location.line.data if isinstance(location, FileLineColLoc) else None
    return Row(words, tuple(names), tuple(key), tuple(gaps), line)


# ---------------------------------------------------------------------- comparing


@dataclass(slots=True)
class _Renaming:
    """One-to-one names: identities of b to identities of a, and the spelling to show."""

    to_a: dict[str, str] = field(default_factory=dict[str, str])
    to_b: dict[str, str] = field(default_factory=dict[str, str])
    shown: dict[str, str] = field(default_factory=dict[str, str])

    def learn_labels(self, other: _Renaming) -> None:
        """Take over the names of a function's labels, as far as no function before had them otherwise."""
        for b, a in other.to_a.items():
            if b.endswith("@0") and "@register@" not in b and b not in self.to_a and a not in self.to_b:
                self.to_a[b], self.to_b[a], self.shown[b] = a, b, other.shown[b]

    def fits(self, a: Row, b: Row) -> bool:
        """Whether two rows of one key are equal under the renaming so far, which they extend if they are."""
        new: dict[str, tuple[str, int]] = {}
        claimed: dict[str, str] = {}
        for (i, x), (_, y) in zip(a.names, b.names, strict=True):
            known = self.to_a.get(y) or (new[y][0] if y in new else None)
            back = self.to_b.get(x) or claimed.get(x)
            if (known is not None and known != x) or (back is not None and back != y):
                return False
            if known is None:
                new[y] = (x, i)
                claimed[x] = y
        for y, (x, i) in new.items():
            self.to_a[y], self.to_b[x] = x, y
            self.shown[y] = a.words[i]
        return True


def _compare(function: str, a: Sequence[Row], b: Sequence[Row], context: int, renaming: _Renaming) -> list[Difference]:
    pieces: list[tuple[bool, int, int, int, int]] = []
    for equal, a0, a1, b0, b1 in _align(a, b):
        if not equal:
            pieces.append((False, a0, a1, b0, b1))
            continue
        for x, y in zip(range(a0, a1), range(b0, b1), strict=True):
            pieces.append((renaming.fits(a[x], b[y]), x, x + 1, y, y + 1))
    merged: list[tuple[int, int, int, int]] = []
    for equal, a0, a1, b0, b1 in pieces:
        if equal:
            continue
        if merged and merged[-1][1] == a0 and merged[-1][3] == b0:
            merged[-1] = (merged[-1][0], a1, merged[-1][2], b1)
        else:
            merged.append((a0, a1, b0, b1))
    found: list[Difference] = []
    for a0, a1, b0, b1 in merged:
        removed = tuple(row.text() for row in a[a0:a1])
        added = tuple(row.text(renaming.shown) for row in b[b0:b1])
        before = tuple(row.text() for row in a[max(a0 - context, 0) : a0])
        after = tuple(row.text() for row in a[a1 : a1 + context])
        found.append(Difference(function, _line(a, a0), _line(b, b0), removed, added, before, after))
    return found


def _line(rows: Sequence[Row], at: int) -> int | None:
    """The line of a row, or of the one before it where the rows end."""
    if not rows:
        return None
    return rows[min(at, len(rows) - 1)].line


def _align(a: Sequence[Row], b: Sequence[Row]) -> Iterable[tuple[bool, int, int, int, int]]:
    """Runs of rows with equal keys and runs without, in order."""
    start = 0
    while start < min(len(a), len(b)) and a[start].key == b[start].key:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end].key == b[-1 - end].key:
        end += 1
    if start:
        yield True, 0, start, 0, start
    left, right = [r.key for r in a[start : len(a) - end]], [r.key for r in b[start : len(b) - end]]
    if left or right:
        matcher = SequenceMatcher(None, left, right, autojunk=max(len(left), len(right)) > _LONG)
        for tag, a0, a1, b0, b1 in matcher.get_opcodes():
            yield tag == "equal", a0 + start, a1 + start, b0 + start, b1 + start
    if end:
        yield True, len(a) - end, len(a), len(b) - end, len(b)
