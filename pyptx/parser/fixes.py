"""Fixes of refused instructions: changes of their text, each tried against our own verdict before it is offered.

The dialect proposes opcodes and modifiers (`Problem.proposals`), versions and targets (`Problem.cures`). Here these become edits
of the text, and what can be wrong with the rest of a statement is tried: a name like a declared one, punctuation, brackets,
constants. A module has a number of tries, so that many errors cost no more than some.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..analysis.symbols import Names
from ..diagnostics import Edit, Fix, suggest
from ..dialects.ptx.forms import Problem
from ..dialects.ptx.instruction import Judge, Resolution, admits, nothing
from ..dialects.ptx.opcode_problems import unknown_opcode
from ..dialects.ptx.proposals import any_of, common_ends, hint_of, title
from ..dialects.ptx.special_registers import SPECIAL_REGISTERS
from ..dialects.ptx.structure import MOST_OF_A_RANGE, DeclarationAttr, LabelListOp
from ..dialects.ptx.symbol_use import symbol_uses
from ..dialects.ptx.syntax import Layout, SyntaxProblem, Token, is_special_register, lex
from ..dialects.ptx.target import Version
from ..ssa.shapes import branch_target, guard_tokens
from ..ssa.statement import Environment, FunctionSource, Kind, Shape, Statement
from .instruction import read_instruction

_TRIES = 4000
"""Of a module."""
_STATEMENTS = 1000
"""Of a module, for which the dialect looks for proposals."""
_TRIES_OF_ONE = 160
"""Of a statement."""
_SHOWN = 3
_LONGEST = 64
"""Tokens of the longest statement that is looked into."""
CUDA_NAMES = {"threadidx": "%tid", "blockidx": "%ctaid", "blockdim": "%ntid", "griddim": "%nctaid", "threadid": "%tid",
              "blockid": "%ctaid", "warpsize": "WARP_SZ", "lane": "%laneid", "lane_id": "%laneid", "warp_id": "%warpid",
              "clusteridx": "%clusterid", "clusterdim": "%cluster_nctaid"}  # fmt: skip
"""What CUDA C++ and other languages call a special register, in small letters."""


@dataclass(frozen=True, slots=True)
class Change:
    """Tokens `[start, end)` of a statement replaced by a text (without blanks around it)."""

    start: int
    end: int
    text: str
    title: str


@dataclass(slots=True)
class Placed:
    """The tokens of a statement, the gaps around them, and where the first token stands."""

    tokens: Sequence[str]
    gaps: Sequence[str]
    line: int
    column: int
    _starts: list[int] = field(default_factory=list[int])
    text: str = ""

    def __post_init__(self) -> None:
        at = 0
        for i, token in enumerate(self.tokens):
            at += len(self.gaps[i]) if i else 0
            self._starts.append(at)
            at += len(token)
        self.text = "".join(g * (i > 0) + t for i, (g, t) in enumerate(zip(self.gaps, self.tokens, strict=False)))

    def place(self, at: int) -> tuple[int, int]:
        """Line and column of a character of the text."""
        before = self.text[:at]
        lines = before.count("\n")
        return self.line + lines, at - before.rfind("\n") if lines else self.column + at

    def token_at(self, place: tuple[int, int]) -> int:
        """The token that stands at a place, or the first one after it."""
        return next((i for i, at in enumerate(self._starts) if self.place(at) >= place), len(self.tokens))

    def start(self, token: int) -> int:
        return self._starts[token] if token < len(self._starts) else len(self.text)

    def end(self, token: int) -> int:
        """Where the token before this place ends."""
        return self._starts[token - 1] + len(self.tokens[token - 1]) if token else self.start(0)

    def span(self, change: Change) -> tuple[int, int]:
        """The characters that a change replaces; of an insertion the place before the gap."""
        if change.start == change.end:
            at = self.end(change.start)
            return at, at
        return self.start(change.start), self.end(change.end)

    def changed(self, change: Change) -> str:
        first, last = self.span(change)
        return self.text[:first] + change.text + self.text[last:]

    def fix(self, change: Change) -> Fix:
        first, last = self.span(change)
        return Fix(change.title, (Edit(*self.place(first), *self.place(last), change.text),))


class Scope:
    """The registers visible at a statement of a function, found by walking on from the last one asked about."""

    def __init__(self, source: FunctionSource):
        self.environment = Environment()
        self._statements: Sequence[Statement] = source.statements
        self._next = 0
        for reg in (*source.outputs, *source.inputs):
            self.environment.declare(reg.name, reg.register_class)

    def at(self, index: int) -> Environment:
        """The registers before the statement of this index, which is not before the last one."""
        environment = self.environment
        for shape, _, _, _, name in self._statements[self._next : index]:
            if shape.kind == Kind.OPEN:
                environment.open()
            elif shape.kind == Kind.CLOSE:
                environment.close()
            elif shape.kind == Kind.LABEL or shape.op_class is LabelListOp:
                environment.hide(name)
            elif isinstance(shape.payload, DeclarationAttr):
                self._declare(shape.payload, registers=shape.kind == Kind.REGISTERS)
        self._next = max(self._next, index)
        return environment

    def _declare(self, declaration: DeclarationAttr, *, registers: bool) -> None:
        for i, (name, tail) in enumerate(declaration.items):
            count = declaration.count(i) if tail[:1] == ("<",) else None
            if registers:
                self.environment.declare(name, declaration.register_class, count)
            else:
                for hidden in [name] if count is None else [f"{name}{n}" for n in range(min(count, MOST_OF_A_RANGE))]:
                    self.environment.hide(hidden)


class Fixer:
    """Finds the fixes of a module's refused statements."""

    def __init__(self, version: Version, target: str, options: Sequence[str], text: str):
        self.version, self.target, self.options = version, target, options
        self._text = text
        self._left = _TRIES
        self._statements = _STATEMENTS
        self._here = 0
        self._scope: Scope | None = None
        self._environment = Environment()

    def enter(self, source: FunctionSource) -> None:
        self._scope = Scope(source)

    def arrive(self, index: int) -> bool:
        """Go to a statement of the function; whether there are tries left for it."""
        assert self._scope is not None
        if not self._left:
            return False
        self._environment = self._scope.at(index)
        self._here = _TRIES_OF_ONE
        return True

    # ------------------------------------------------------------------------------------------------------- verdicts

    def judge(self, names: Names) -> Judge:
        """What judges the proposals of one more statement; it admits nothing once there were many."""
        if not self._statements:
            return nothing
        self._statements -= 1
        return lambda resolution: self.admits(resolution, names, undeclared=True)

    def admits(self, resolution: Resolution, names: Names, *, undeclared: bool = False) -> bool:
        """Whether an instruction exists on the module's target, and its symbols are what it needs; `undeclared`: those
        that are declared at all.
        """
        if not resolution.exists(self.version, self.target, self.options):
            return False
        use = resolution.use(self.version, self.target)
        uses = symbol_uses(use) if use is not None else ()
        for symbol in uses:
            if undeclared and symbol.name not in names.visible:
                continue
            if names.check(symbol) is not None:
                return False
        if use is not None and uses and uses[0].wanted == "call":
            return names.check_call(use.layout, use.classes) is None
        return True

    def takes(self, text: str, names: Names) -> bool:
        """Whether a statement is legal here: an instruction with its semicolon, a label may stand before it."""
        if not self._here or not self._left:
            return False
        self._here -= 1
        self._left -= 1
        tokens, gaps = lex(text)
        start = 2 if len(tokens) > 2 and tokens[0][0] == "id" and tokens[1][1] == ":" else 0
        if not tokens or tokens[-1][1] != ";" or any(t == ";" or kind == "bad" for kind, t in tokens[:-1]):
            return False
        try:
            return self._is_legal(tokens, gaps, start, names)
        except SyntaxProblem:
            return False

    def _is_legal(self, tokens: list[Token], gaps: list[str], start: int, names: Names) -> bool:
        environment = self._environment
        reading = read_instruction(tokens, start, len(tokens) - 1, environment.known, is_special_register, gaps)
        cls = reading.cls
        if cls is None:
            return False
        for kind, token in tokens[start:]:
            if kind == "id" and token[0] == "%" and not environment.known(token) and not is_special_register(token):
                if token not in names.visible:
                    return False
        guard = reading.guard_register
        if guard is not None and (not environment.known(guard) or environment.class_of(guard) != "pred"):
            return False
        layout: Layout = reading.layout
        classes = tuple(environment.class_of(n) for n in reading.registers)
        if not cls.jumps:
            return self.admits(cls.resolve(reading.modifiers, layout, classes), names)
        layout, label = branch_target(layout)
        resolution = cls.resolve(reading.modifiers, layout, classes)
        return self.admits(resolution, names) and (not label or names.branch(label) is None)

    # -------------------------------------------------------------------------------------------------------- the fixes

    def of_problem(self, placed: Placed, shape: Shape, problem: Problem) -> list[Fix]:
        """What the dialect proposes, as edits."""
        at = guard_tokens(shape.guard_mark)
        written = tuple(t.lstrip(".") for t in placed.tokens[at : at + shape.opcode_tokens])
        return [*self.of_heads(placed, at, written, problem.proposals), *self._of_cures(problem.cures)]

    def of_heads(
        self, placed: Placed, at: int, written: tuple[str, ...], heads: Iterable[tuple[str, ...]]
    ) -> Iterator[Fix]:
        for head in heads:
            first, last = common_ends(written, head)
            words = head[first : len(head) - last]
            text = "".join(w if first + i == 0 else f".{w}" for i, w in enumerate(words))
            yield placed.fix(Change(at + first, at + len(written) - last, text, title(written, head)))

    def _of_cures(self, cures: Iterable[tuple[str, str]]) -> Iterator[Fix]:
        for version, target in cures:
            edits: list[Edit] = []
            words: list[str] = []
            for name, pattern, old, new in (
                ("PTX", r"^\s*\.version\s+(\d+\.\d+)", f"{self.version[0]}.{self.version[1]}", version),
                (
                    "target",
                    r"^\s*\.target\s+(?:sm|compute)_(\w+)",
                    self.target.removeprefix("sm_"),
                    target.removeprefix("sm_"),
                ),
            ):
                if old == new:
                    continue
                match = re.compile(pattern, re.M).search(self._text)
                if match is None or match[1] != old:
                    break
                before = self._text[: match.start(1)]
                line, column = before.count("\n") + 1, match.start(1) - before.rfind("\n")
                edits.append(Edit(line, column, line, column + len(old), new))
                words.append(f"{name} {new if name == 'PTX' else target}")
            else:
                if edits:
                    yield Fix(f"use {' and '.join(words)}", tuple(edits))

    def search(
        self, placed: Placed, changes: Iterable[Change], names: Names, most: int = _SHOWN
    ) -> tuple[list[Fix], str | None]:
        """Those of these changes after which the statement is legal, and their hint."""
        found: list[Change] = []
        tried: set[str] = set()
        for change in changes:
            if not self._here or not self._left or len(found) == most:
                break
            text = placed.changed(change)
            if text in tried:
                continue
            tried.add(text)
            if all(self.takes(part, names) for part in _statements(text)):
                found.append(change)
        return [placed.fix(c) for c in found], advice_of(found)

    def makes_legal(self, placed: Placed, fix: Fix, names: Names) -> bool:
        """Whether a fix inside a statement makes it legal."""
        if any(edit.line < placed.line for edit in fix.edits):
            return True  # another version or target
        text = "\n" * (placed.line - 1) + " " * (placed.column - 1) + placed.text
        return self.takes(fix.apply(text).strip(), names)

    def of_unread(self, placed: Placed, place: tuple[int, int], names: Names) -> tuple[list[Fix], str | None]:
        """The fixes of a statement that could not be read, with something wrong at a place, and their hint."""
        tokens = list(placed.tokens)
        kinds = lex(placed.text)[0]
        environment = self._environment
        try:
            reading = read_instruction(
                kinds, 0, len(kinds) - (tokens[-1:] == [";"]), environment.known, is_special_register
            )
        except SyntaxProblem:
            reading = None
        if reading is not None and reading.cls is None:
            classes = tuple([environment.class_of(n) for n in reading.registers])
            judge = admits(self.judge(names), reading.layout, classes)
            problem = unknown_opcode(reading.root, reading.modifiers, judge)
            if problem.proposals:
                written = (reading.root, *reading.modifiers)
                return list(self.of_heads(placed, reading.opcode_at, written, problem.proposals)), problem.hint
        fixes, advice = self.search(placed, self.near_syntax(placed, placed.token_at(place), names), names)
        wider = self._wider_range(placed, names)
        if wider is not None:
            return [wider, *fixes][:_SHOWN], hint_of(wider.title, advice)
        return fixes, advice

    # ------------------------------------------------------------------------------------------------------- candidates

    def near_syntax(self, placed: Placed, at: int, names: Names) -> Iterator[Change]:
        """Changes of a statement that could not be read, with what is wrong at token `at`."""
        if len(placed.tokens) > _LONGEST:
            return
        yield from self._guards(placed)
        yield from self._names(placed, names)
        yield from _punctuated(placed, at)
        yield from _operand_changes(placed, range(len(_operand_spans(placed.tokens))))

    def near_operand(self, placed: Placed, operand: int, names: Names) -> Iterator[Change]:
        """Changes of the operands of a statement, of the one at fault first."""
        if len(placed.tokens) > _LONGEST:
            return
        spans = _operand_spans(placed.tokens)
        order = sorted(range(len(spans)), key=lambda i: (i != operand, i))
        yield from self._names(placed, names)
        if placed.tokens[0] == "@":
            at = 2 if placed.tokens[1] == "!" else 1
            yield from self._registers(placed, [(at, at + 1)])
        yield from _operand_changes(placed, order)
        yield from self._registers(placed, [spans[i] for i in order])
        if len(spans) == 2:  # `add.u32 %r1, 4`
            start, end = spans[0]
            first = placed.text[placed.start(start) : placed.end(end)]
            yield Change(end, end, f", {first}", f"write the result once more if it is an operand: `{first}, {first}`")
        if not spans:
            end = len(placed.tokens) - 1
            yield Change(end, end, " 0", "write `0`, the first of them")

    def _guards(self, placed: Placed) -> Iterator[Change]:
        """The guard's `@` or `%`."""
        tokens = placed.tokens
        at = 0
        if tokens[0] == "!" or (self._environment.known(tokens[0]) and len(tokens) > 2):
            yield Change(0, 0, "@", "write `@` before the guard")
        if tokens[0] == "@":
            at = 2 if tokens[1:2] == ["!"] else 1
            if at < len(tokens) and not self._environment.known(tokens[at]):
                yield Change(0, at, "", "remove the `@`")

    def _names(self, placed: Placed, names: Names) -> Iterator[Change]:
        """Names that are declared nowhere, replaced by those that are spelled nearly like them."""
        tokens = placed.tokens
        for i, token in enumerate(tokens):
            if not re.match(r"[%$_A-Za-z]", token) or self._is_name(token, names):
                continue
            if i == 0 or (tokens[i - 1] in (";", ":")):
                continue
            member = tokens[i + 1] if i + 1 < len(tokens) and re.match(r"\.\w", tokens[i + 1]) else ""
            element = SPECIAL_REGISTERS.keys() if member else ()
            for near in self._near(token, names):
                if near in element:
                    yield _renamed(i, i + 2, token + member, near + member)
                else:
                    yield _renamed(i, i + 1, token, near)
            if member:
                yield from self._undotted(i, token + member, names)
        for i, token in enumerate(tokens[:-1]):
            if i and re.match(r"\.\w", tokens[i + 1]) and (token in names.visible or names.has_label(token)):
                yield from self._undotted(i, token + tokens[i + 1], names)
            elif i and token in SPECIAL_REGISTERS:
                if tokens[i + 1][0] == "." and not SPECIAL_REGISTERS[token].elements:
                    yield Change(i + 1, i + 2, "", f"remove `{tokens[i + 1]}`")
                elif tokens[i + 1][0] != "." and SPECIAL_REGISTERS[token].elements:
                    yield from (_renamed(i, i + 1, token, f"{token}.{e}") for e in "xyz")

    def _wider_range(self, placed: Placed, names: Names) -> Fix | None:
        """A range with more registers, where the statement is legal with those: `%r<10>` for `%r9` of `%r<9>`."""
        environment = self._environment
        beyond = [
            (t.rstrip("0123456789"), int(t[len(t.rstrip("0123456789")) :]))
            for t in placed.tokens
            if t[-1:].isdecimal()
            and len(t) < 20
            and environment.count_of(t.rstrip("0123456789"))
            and not self._is_name(t, names)
        ]
        stems = {stem for stem, _ in beyond}
        if len(stems) != 1:
            return None
        stem, count = stems.pop(), 1 + max(number for _, number in beyond)
        with environment.widened(stem, count):
            if not self.takes(placed.text, names):
                return None
        pattern = rf"(?<![\w$%]){re.escape(stem)}\s*<\s*({environment.count_of(stem)})\s*>"
        before = "\n".join(self._text.split("\n")[: placed.line])
        found = list(re.finditer(pattern, before))
        if not found:
            return None
        at = found[-1].start(1)
        line, column = before.count("\n", 0, at) + 1, at - before.rfind("\n", 0, at)
        return Fix(f"declare `{stem}<{count}>`", (Edit(line, column, line, column + len(found[-1][1]), str(count)),))

    def _undotted(self, at: int, whole: str, names: Names) -> Iterator[Change]:
        """A name with a dot, replaced by a declared one without."""
        for joined in (
            whole.replace(".", "_"),
            whole.replace(".", "$"),
            whole.replace(".", ""),
            whole.partition(".")[0],
        ):
            if joined in names.visible or names.has_label(joined):
                yield _renamed(at, at + 2, whole, joined)

    def _is_name(self, token: str, names: Names) -> bool:
        return (
            token in ("_", "WARP_SZ")
            or self._environment.known(token)
            or is_special_register(token)
            or token in names.visible
            or names.has_label(token)
        )

    def _near(self, token: str, names: Names) -> list[str]:
        """Declared names like an undeclared one: with its `%`, of its number, or with a slip."""
        bare = token.lstrip("%$_")
        exact = [n for n in (f"%{bare}", f"%{bare.lower()}", bare) if self._is_name(n, names)]
        cuda = CUDA_NAMES.get(bare.lower())
        if exact or cuda:
            return exact or [cuda or ""]
        digits = bare[len(bare.rstrip("0123456789")) :]
        registers = self._environment.numbered(digits) if digits else []
        others = [n for n in self._environment if not digits or not n.endswith(digits)][:4000]
        symbols = [*names.visible, *(label for labels in names.labels.values() for label in labels)][:4000]
        near = suggest(token, registers, 3) or (suggest(token, others, 3) if token[0] == "%" or digits else [])
        special = suggest(f"%{bare}", SPECIAL_REGISTERS)
        return list(dict.fromkeys([*near, *suggest(token, symbols), *special]))

    def _registers(self, placed: Placed, spans: Iterable[tuple[int, int]]) -> Iterator[Change]:
        """Registers of the same number: `%rd2` for `%r2`; those like the others of the statement first."""
        stems = {t.rstrip("0123456789") for t in placed.tokens if self._environment.known(t)}
        for start, end in spans:
            for i in range(start, end):
                token = placed.tokens[i]
                digits = re.search(r"\d+$", token)
                if digits is None or not self._environment.known(token):
                    continue
                own = self._environment.class_of(token)
                near = suggest(token, self._environment.numbered(digits[0]), 40)
                for name in sorted(near, key=lambda n: n.rstrip("0123456789") not in stems):
                    if self._environment.class_of(name) != own:
                        yield _renamed(i, i + 1, token, name)


def advice_of(changes: Sequence[Change]) -> str | None:
    """One hint for several changes."""
    renamed = [c.title.rpartition(" with ")[2] for c in changes if c.title.startswith("replace ")]
    asked = f"did you mean {any_of(renamed)}?" if renamed else None
    said = ", or ".join(dict.fromkeys(c.title for c in changes if not c.title.startswith("replace ")))
    return "\n".join(filter(None, (asked, said))) or None


def _renamed(start: int, end: int, old: str, new: str) -> Change:
    return Change(start, end, new, f"replace `{old}` with `{new}`")


def _statements(text: str) -> list[str]:
    """A text of instructions, cut after its semicolons."""
    parts = [p for p in re.split(r"(?<=;)", text) if p.strip()]
    return parts or [text]


def _punctuated(placed: Placed, at: int) -> Iterator[Change]:
    """Punctuation put in, or left out, nearest to token `at` first."""
    tokens = placed.tokens
    places = sorted(range(1, len(tokens) + 1), key=lambda i: (abs(i - at), i))
    if tokens[-1:] != [";"]:
        yield Change(len(tokens), len(tokens), ";", "write `;` after the instruction")
    for i in places[:12]:
        if i < len(tokens) and "\n" in placed.gaps[i]:
            yield Change(i, i, ";", "write `;` after the instruction")
    for i in places[:1]:
        if i < len(tokens) and tokens[i] in _MARKS:
            yield Change(i, i + 1, "", f"remove `{tokens[i]}`")
    lacking = [b for a, b in ("[]", "{}", "()") if list(tokens).count(a) > list(tokens).count(b)]
    lacking += [a for a, b in ("[]", "{}", "()") if list(tokens).count(b) > list(tokens).count(a)]
    for mark in (*lacking, ",", "|"):
        for i in places:
            where = (
                f"after `{tokens[i - 1]}`" if mark in ",]})|" else f"before `{tokens[i]}`" if i < len(tokens) else ""
            )
            if mark in ",|" and abs(i - at) > 3:
                continue
            yield Change(i, i, mark if mark in ",]})|" else f" {mark}", f"write `{mark}` {where}")
    for i in places[:6]:
        if i < len(tokens) and tokens[i] in _MARKS:
            yield Change(i, i + 1, "", f"remove `{tokens[i]}`")


_MARKS = frozenset(", [ ] { } ( ) | ! - + ; :".split())


def _operand_spans(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """The token range of each operand of an instruction; the opcode is the first word that modifiers may follow."""
    at = 0
    if tokens and tokens[0] == "@":
        at = 3 if tokens[1:2] == ["!"] else 2
    at += 1
    while at < len(tokens) and re.match(r"\.\w", tokens[at]):
        at += 1
    end = len(tokens) - (tokens[-1:] == [";"])
    spans: list[tuple[int, int]] = []
    depth, start = 0, at
    for i in range(at, end):
        depth += (tokens[i] in ("[", "{", "(")) - (tokens[i] in ("]", "}", ")"))
        if tokens[i] == "," and depth == 0:
            spans.append((start, i))
            start = i + 1
    return [*spans, (start, end)] if end > at else spans


_OPENING = {"[": "]", "{": "}", "(": ")"}


def _operand_changes(placed: Placed, order: Iterable[int]) -> Iterator[Change]:
    """Other spellings of operands: in or out of brackets, constants of the other kind, without a sign, left out."""
    tokens = placed.tokens
    spans = _operand_spans(tokens)
    for index in order:
        start, end = spans[index]
        if start >= end:
            if len(spans) > 1:
                yield _left_out(spans, index, "remove the comma")
            continue
        text = placed.text[placed.start(start) : placed.end(end)]
        if _OPENING.get(tokens[start]) == tokens[end - 1]:
            inner = placed.text[placed.end(start + 1) : placed.start(end - 1)].strip()
            yield Change(start, end, inner, f"write it without brackets: `{inner}`")
            for opening, closing in _OPENING.items():
                if opening != tokens[start]:
                    yield Change(start, end, opening + inner + closing, f"write `{opening}{inner}{closing}`")
        else:
            yield Change(start, end, f"[{text}]", f"write the address in brackets: `[{text}]`")
            yield Change(start, end, f"{{{text}}}", f"write it in braces: `{{{text}}}`")
        if tokens[start] in ("!", "-") and end - start == 2:
            yield Change(start, start + 1, "", f"remove `{tokens[start]}`")
        for i in range(start, end):
            if tokens[i] == "-" and start + 1 < i < end - 1 and tokens[start] == "[":
                yield Change(i, i, "+", f"write `+-{tokens[i + 1]}`")
            for other in _constants(tokens[i]):
                yield _renamed(i, i + 1, tokens[i], other)
        if "|" in tokens[start:end]:
            bar = list(tokens[start:end]).index("|") + start
            yield Change(bar, end, "", f"remove `{placed.text[placed.start(bar) : placed.end(end)]}`")
        following = spans[index + 1] if index + 1 < len(spans) else None
        if following is not None:
            yield Change(following[0] - 1, following[0], " |", "write `|` between two results")
            both = placed.text[placed.start(start) : placed.end(following[1])]
            yield Change(start, following[1], f"{{{both}}}", f"write them in braces: `{{{both}}}`")
    yield from _left_out_each(placed, spans)


def _left_out_each(placed: Placed, spans: Sequence[tuple[int, int]]) -> Iterator[Change]:
    """One operand less, from the last one on."""
    for index in reversed(range(len(spans) if len(spans) > 1 else 0)):
        text = placed.text[placed.start(spans[index][0]) : placed.end(spans[index][1])]
        if "\n" not in text:  # else a statement that was not ended
            yield _left_out(spans, index, f"remove the operand `{text}`")


def _left_out(spans: Sequence[tuple[int, int]], index: int, title: str) -> Change:
    """The operand removed, with the comma that it does not need any more."""
    start, end = spans[index]
    return Change(start - 1, end, "", title) if index else Change(start, min(end + 1, spans[1][0]), "", title)


def _constants(token: str) -> Iterator[str]:
    """The same number as a constant of other kinds."""
    if re.fullmatch(r"\d+", token):
        yield f"{token}.0"
        yield from _hexadecimal(float(token))
        if int(token) >= 1 << 32:
            yield str(int(token) & 0xFFFF_FFFF)
    elif re.fullmatch(r"\d+\.\d*|\d*\.\d+", token):
        if float(token).is_integer():
            yield str(int(float(token)))
        yield from _hexadecimal(float(token))
    elif re.fullmatch(r"0[fF][0-9a-fA-F]{8}", token):
        value = struct.unpack(">f", bytes.fromhex(token[2:]))[0]
        yield from _plain(value)
        yield f"0d{struct.pack('>d', value).hex().upper()}"
    elif re.fullmatch(r"0[dD][0-9a-fA-F]{16}", token):
        yield from _plain(struct.unpack(">d", bytes.fromhex(token[2:]))[0])


def _hexadecimal(value: float) -> Iterator[str]:
    if value <= 3.4e38:
        yield f"0f{struct.pack('>f', value).hex().upper()}"


def _plain(value: float) -> Iterator[str]:
    if value == value and abs(value) < 1e15:
        if value.is_integer() and value >= 0:
            yield str(int(value))
        yield repr(value)
        yield from _hexadecimal(value)
