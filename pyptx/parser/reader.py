"""PTX text -> statements. Lines are cut at their %names; the literal pieces are the line's shape, read once per
distinct shape.

A line is looked up by its pieces; on a miss it is tokenised and read statement by statement. Statements may span lines
and lines may hold several statements. Text that is not PTX is reported with its place, and reading goes on after the
next `;` or line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from ..diagnostics import Fix, did_you_mean
from ..dialects.ptx.attributes import string_attr
from ..dialects.ptx.directive_facts import SOURCE_SECTION, judge_directive
from ..dialects.ptx.instruction import admits, takes_modifiers, unknown_opcode
from ..dialects.ptx.memo import Memo
from ..dialects.ptx.proposals import Admits
from ..dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    EntryOp,
    FunctionOp,
    LabelListOp,
    LocOp,
    RegisterOp,
    ScopeBeginOp,
    ScopeEndOp,
    TextAttr,
    TokensAttr,
    UnknownOp,
    VariableOp,
    address_size,
)
from ..dialects.ptx.syntax import LINE_MARKER, SyntaxProblem, Token, is_special_register, lex
from ..dialects.ptx.target import parse_version, target_meant, target_of
from ..dialects.ptx.types import REGISTER_CLASSES
from ..ssa.builder import FunctionSource
from ..ssa.shapes import branch_target, fill_instruction, guard_tokens, table_name
from ..ssa.statement import Environment, Kind, Reg, Shape, Statement
from . import recipes, templates
from .declarations import read_declaration, read_header
from .extent import (
    LINE_DIRECTIVES,
    Incomplete,
    comment_start,
    continued,
    line_directive_end,
    matching,
    pragma_before,
    section_end,
    until,
)
from .instruction import InstructionText, read_instruction
from .positions import Positions
from .recipes import SPLIT, Definition, Head, definition_of, keep_definition, recipe_of
from .shapes import declaration_shape, directive_shape, label_shape, with_whole_constants

_NAME = r"(?!_[;:]|WARP_SZ[;:])[A-Za-z_$][\w$]*"
_LABEL = re.compile(rf"({_NAME}):(\r?)").fullmatch
_BRANCH = re.compile(rf"([ \t]*(?:@!?%[\w$]+[ \t]+)?bra(?:\.uni)?[ \t]+)({_NAME});(\r?)").fullmatch
_LINE_MARKER = re.compile(LINE_MARKER).fullmatch
_ENDS_IN_MARKER = re.compile(rf'(?:[^"/#]|/(?![/*])|"[^"]*"|/\*.*?\*/)*+({LINE_MARKER})').fullmatch
"""A line that ends in a line marker, which is none for ptxas where the file ends without a newline."""
_IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$]*").fullmatch
_VARIABLE_WORDS = frozenset({".global", ".const", ".shared", ".local", ".param", ".tex", ".sampler", ".surf"})
_BEFORE_A_SPACE = frozenset({".extern", ".visible", ".weak", ".common", ".align", ".attribute"})
_MAX_RETRIES = 64


@dataclass(slots=True)
class Issue:
    """A syntax error: what, and where (line and column count from 1)."""

    message: str
    line: int
    column: int
    hint: str | None = None
    severity: str = "error"
    fixes: tuple[Fix, ...] = ()


@dataclass(slots=True)
class ModuleText:
    """What was read: module-level statements and functions in order, the text after the last statement, and the
    issues.
    """

    items: list[Statement | FunctionSource] = field(default_factory=list["Statement | FunctionSource"])
    tail: str = ""
    issues: list[Issue] = field(default_factory=list[Issue])
    version: str = ""
    target: str = ""
    options: tuple[str, ...] = ()
    address_size: str = ""
    header_lines: dict[str, int] = field(default_factory=dict[str, int])
    """`version`, `target`, `address_size` -> the line of the directive."""
    lines: int = 0


@lru_cache(maxsize=4096)
def _ending(line: str) -> tuple[int, bool, bool, bool]:
    """The brackets that a line opens less those it closes; whether a statement or a head may end in it; whether it
    closes a brace; whether it opens a comment and does not close it.
    """
    pairs, gaps = lex(line)
    opening = comment_start(pairs, gaps)
    tokens = [t for _, t in pairs[:opening]]
    balance = sum((t in ("{", "(")) - (t in ("}", ")")) for t in tokens)
    return balance, ";" in tokens or tokens[-1:] == ["{"], "}" in tokens, opening is not None


def _goes_on_as_source(line: str, inside: bool) -> bool:
    """Whether a program that a section holds goes on after this line."""
    begin, end = line.rfind(".source_begin"), line.rfind(".source_end")
    return begin > end if max(begin, end) >= 0 else inside


def _without_names(key: object) -> str:
    """A cache key as one text. Where the registers stood is a character that no PTX has."""
    return "\1".join(cast("tuple[str, ...]", key)) if key.__class__ is tuple else cast(str, key)


_lines: Memo[object, Shape | str] = Memo()
"""Lines of bodies read before in this process, cut at their %names: the statement, or the empty string for a comment."""
_unended: Memo[tuple[bool, str], int] = Memo()
"""(outside functions, a line that starts a statement and does not end it) -> the brackets open in it."""


class Reader:
    """One pass over a PTX text. `read()` returns the statements; nothing here builds IR."""

    def __init__(self, text: str, *, allow_unknown: bool = False):
        self.text = text
        self.allow_unknown = allow_unknown
        self.module = ModuleText()
        self.defined: Definition | None = None
        """The module-level statement read last."""
        self.function: FunctionSource | None = None
        self.environment: Environment | None = None
        self.depth = 0
        self.lead = ""
        self.line = 0
        self.opened = 0
        """Brackets open in the lines of an unfinished statement."""
        self.commented = False
        """Whether these lines end inside a comment."""
        self.sourced = False
        """Whether these lines hold a program (`.source_begin`) whose end was not seen: its brackets do not count."""
        self.next_try = 0
        """The length at which to read an unfinished statement again where a comment ends."""
        self._symbols: set[str] = set()
        self._taken: set[str] = set()
        """The names of special registers that this function gives to something else."""
        self._issues_before = 0
        """Issues found before the statement that is being read."""

    # ------------------------------------------------------------------------------------------------------ main loop

    def read(self) -> ModuleText:
        lines = self.text.split("\n")
        last = lines.pop()
        self.module.lines = len(lines)
        if last:
            lines.append(last)
        has_final_newline = not last
        chunk: str | None = None
        chunk_line = retries = 0
        lookup = _lines.get
        count = len(lines)
        environment: Environment | None = None
        append = None
        names: list[str] = []
        goes_on = self._continued()
        for number, line in enumerate(lines, 1):
            newline = "\n" if number < count or has_final_newline else ""
            if chunk is not None:
                chunk += "\n" + line
                if number < count and not self._may_end(line, len(chunk)):
                    continue
                line = chunk
            elif number in goes_on:
                chunk, chunk_line, retries = line, number, 1
                self._start(line, 0)
                continue
            elif environment is not None:
                parts = SPLIT(line)
                names = parts[1::2]
                key: object = tuple(parts[::2]) if names else line
                entry = lookup(key)
                if entry is not None and newline:
                    if entry.__class__ is Shape:
                        try:
                            for word in entry.bare:  # pyright: ignore
                                if word in environment:
                                    break
                            else:
                                regs = [environment[n] for n in names] if names else ()
                                append((entry, regs, self.lead, number, entry.name))  # pyright: ignore
                                self.lead = ""
                                continue
                        except KeyError:
                            pass
                    else:
                        lead, self.lead = self.lead, ""  # the only reference: it grows in place
                        lead += line + "\n"
                        self.lead = lead
                        continue
                if newline and (self._quick(line, names, number) or self._read_before(key, names, number)):
                    continue
            if chunk is None:
                stripped = line.strip()
                if not stripped or stripped.startswith("//") or (stripped[0] == "#" and _LINE_MARKER(stripped)):
                    lead, self.lead = self.lead, ""
                    lead += line + newline
                    self.lead = lead
                    if environment is not None and newline and not names:
                        _lines[line] = ""
                    continue
                first = number
                opened = _unended.get((environment is None, line))
                if opened is not None and newline:
                    chunk, chunk_line, retries = line, number, 1
                    self._start(line, opened)
                    continue
            else:
                first = chunk_line
            try:
                if not newline or not self._seen(line, first, whole=chunk is not None):
                    self._read_chunk(line, newline, first, final=number == count)
                chunk = None
                retries = 0
            except Incomplete:
                if chunk is None:
                    chunk, chunk_line = line, number
                    self._start(line, _ending(line)[0])
                    _unended[environment is None, line] = self.opened
                retries += 1
                self.next_try = len(chunk) + len(chunk) // 4
                if retries > _MAX_RETRIES and self._hopeless(chunk):
                    self._issue("this statement does not end", chunk_line, 1)
                    self.lead += chunk + newline
                    chunk = None
                    retries = 0
            environment = self.environment
            append = self.function.statements.append if self.function is not None else None
        if chunk is not None:
            self._unfinished(chunk, chunk_line)
        elif self.function is not None:
            self._issue(f"the body of {self._name()} is not closed: a '}}' is missing", max(count, 1), 1)
            self.module.items.append(self.function)
        self.module.tail = self.lead
        if not has_final_newline and (marker := _ENDS_IN_MARKER(last)) is not None:
            self._issue("a newline must follow a line marker", count, marker.start(1) + 1)
        return self.module

    def _continued(self) -> set[int]:
        """The numbers of the lines with a line directive that goes on in a later line."""
        found: set[int] = set()
        number, at = 1, 0
        for match in continued(self.text):
            number, at = number + self.text.count("\n", at, match.start()), match.start()
            found.add(number)
        return found

    def _start(self, line: str, opened: int) -> None:
        """A statement starts in this line, which opens so many brackets, and does not end in it."""
        self.opened, self.next_try = opened, 0
        self.commented = "/*" in line and _ending(line)[3]
        self.sourced = _goes_on_as_source(line, False)

    def _may_end(self, line: str, length: int) -> bool:
        """Whether an unfinished statement, which has this length with this line, may end here. Reading it again at each of
        its lines would take quadratic time.
        """
        ended = False
        if self.commented:
            _, mark, line = line.partition("*/")
            if not mark:
                return False
            self.commented, ended = False, True
        if self.sourced or ".source_" in line:
            self.sourced = _goes_on_as_source(line, self.sourced)
            return "}" in line and not self.sourced
        balance, ends, closes, self.commented = _ending(line)
        self.opened += balance
        if self.commented:
            return False
        # what ends without a semicolon may end after a comment
        return ends or (self.opened <= 0 and (closes or (ended and length >= self.next_try)))

    def _quick(self, line: str, names: list[str], number: int) -> bool:
        """Labels and branches: one shape for all of them, whatever the label."""
        assert self.function is not None and self.environment is not None
        if not names:
            match = _LABEL(line)
            if match is not None and match[1] not in self.environment:
                key: object = ("label", match[2])
                shape = _lines.get(key)
                if shape is None:
                    shape = _lines[key] = label_shape(match[1], match[2] + "\n")
                assert isinstance(shape, Shape)
                self.function.statements.append((shape, (), self.lead, number, match[1]))
                self.lead = ""
                return True
        if "bra" not in line:
            return False
        match = _BRANCH(line)
        if match is None or match[2] in self.environment:
            return False
        shape = _lines.get(("bra", match[1] if not names else tuple(SPLIT(match[1])[::2]), match[3]))
        if not isinstance(shape, Shape):
            return False
        try:
            regs = [self.environment[n] for n in names]
        except KeyError:
            return False
        self.function.statements.append((shape, regs, self.lead, number, match[2]))
        self.lead = ""
        return True

    def _read_before(self, key: object, names: list[str], number: int) -> bool:
        """A line read before in another file, or one that differs from a line read before in its constants only."""
        assert self.function is not None and self.environment is not None
        if self._repeated(key, names, number):
            return True
        shape = templates.find(_without_names(key), len(names))
        if shape is None:
            return False
        environment = self.environment
        if any(word in environment for word in shape.bare):
            return False
        try:
            regs = [environment[n] for n in names]
        except KeyError:
            return False
        _lines[key] = shape
        self.function.statements.append((shape, regs, self.lead, number, shape.name))
        self.lead = ""
        return True

    def _seen(self, text: str, line: int, *, whole: bool) -> bool:
        """A chunk that was read before; in a body, one of several lines (`whole`), since lines were looked up already."""
        if self.environment is None:
            definition = definition_of(text)
            if definition is not None:
                self._define(definition, line + definition.line)
            return definition is not None
        if not whole:
            return False
        parts = SPLIT(text)
        return self._repeated(tuple(parts[::2]) if len(parts) > 1 else text, parts[1::2], line)

    def _repeated(self, key: object, names: list[str], line: int) -> bool:
        """A chunk of a body that was read before: its pieces between the names, and these."""
        if self._taken:
            return False  # what it reads as a special register may be another thing here
        recipe = recipes.find(key, names)
        environment = self.environment
        assert environment is not None
        if recipe is None or not recipe.fits(names, environment, self.depth, self._symbols):
            return False
        for event in recipe.events:
            shape, name = event.shape_for(names), event.name
            if shape.kind == Kind.OPEN:
                self.depth += 1
                name = str(environment.open())
            elif shape.kind == Kind.CLOSE:
                self.depth -= 1
                environment.close()
            elif shape.kind == Kind.REGISTERS:
                column = len(shape.gaps[0]) - shape.gaps[0].rfind("\n")
                self._declare_registers(cast(DeclarationAttr, shape.payload), line + event.line, column)
            elif isinstance(shape.payload, DeclarationAttr):
                self._declare_symbols(shape.payload)
            regs = [environment[names[r] if r.__class__ is int else r] for r in event.registers]  # pyright: ignore
            self._record(shape, regs or (), line + event.line, name)
        return True

    def _hopeless(self, chunk: str) -> bool:
        """Whether a chunk that was tried many times is garbage rather than a long initialiser or section."""
        head = chunk.lstrip()[:400]
        return not re.match(
            r"(?:\.\w+\s+)*\.(?:section|nv_intermediate_source_section|global|const|visible|extern|weak|common|func|entry)\b",
            head,
        )

    def _unfinished(self, chunk: str, line: int) -> None:
        where = chunk.rstrip()
        last = line + where.count("\n")
        column = len(where) - (where.rfind("\n") + 1) + 1
        what = (
            "a comment is not closed" if comment_start(*lex(chunk)) is not None else "the file ends inside a statement"
        )
        self._issue(what, last, max(column, 1), "expected ';', '}' or the rest of the statement")
        self.lead += chunk
        if self.function is not None:
            self.module.items.append(self.function)
            self.function = None

    def _name(self) -> str:
        assert self.function is not None
        attr = self.function.properties.get("sym_name")
        return getattr(attr, "data", "the function")

    def _issue(self, message: str, line: int, column: int, hint: str | None = None) -> None:
        self.module.issues.append(Issue(message, line, column, hint))

    # ---------------------------------------------------------------------------------------------------- one chunk

    def _read_chunk(self, text: str, newline: str, line: int, *, final: bool) -> None:
        """Read whole lines of text; Incomplete if the last statement goes on. Nothing is recorded then."""
        tokens, gaps = lex(text)
        if "/*" in text and comment_start(tokens, gaps) is not None:
            raise Incomplete
        gaps[-1] += newline
        if not tokens:
            self.lead += text + newline
            return
        # a statement that may go on is found before anything is recorded
        ends = self._statement_ends(tokens)
        position = Positions(text, tokens, gaps, line)
        start = 0
        single = len(ends) == 1
        names = SPLIT(text)[1::2] if single else []
        function, environment = self.function, self.environment
        recorded = len(function.statements) if function is not None else 0
        self.defined = None
        issues = len(self.module.issues)
        known = {t for k, t in tokens if k == "id" and environment.known(t)} if environment is not None else set[str]()
        for end in ends:
            piece_gaps = [*gaps[start:end], gaps[end] if end == len(tokens) else ""]
            self._statement(tokens, start, end, piece_gaps, position, single, text, names, newline)
            start = end
        if not newline or len(self.module.issues) != issues:
            return
        if function is None and single and self.defined is not None:
            keep_definition(text, self.defined, position.line(0) - line)
        elif function is not None and self.function is function and not self._taken:
            self._remember(text, function.statements[recorded:], line, known)

    def _remember(self, text: str, statements: list[Statement], line: int, known: set[str]) -> None:
        """Keep what a chunk recorded, if no template or shape of one line stands for it."""
        parts = SPLIT(text)
        names = parts[1::2]
        key: object = tuple(parts[::2]) if names else text
        if len(statements) == 1:
            shape = statements[0][0]
            if shape.op_class is LocOp or key in _lines or _BRANCH(text):
                return
        recipe = recipe_of(text, statements, line, known)
        if recipe is not None:
            recipes.keep(key, names, recipe)

    def _statement_ends(self, tokens: list[Token]) -> list[int]:
        """Where each statement of the chunk ends; Incomplete if the last one does not."""
        ends: list[int] = []
        at = 0
        depth = self.depth
        while at < len(tokens):
            at, depth = self._end_of(tokens, at, depth)
            ends.append(at)
        return ends

    def _end_of(self, tokens: list[Token], at: int, depth: int) -> tuple[int, int]:
        kind, token = tokens[at]
        count = len(tokens)
        if token == "{":
            return at + 1, depth + 1
        if token == "}":
            return at + 1, max(depth - 1, 0)
        if token == ";":
            return at + 1, depth
        if kind == "id" and at + 1 < count and tokens[at + 1][1] == ":":
            if at + 2 < count and tokens[at + 2][1] in (".branchtargets", ".calltargets", ".callprototype"):
                return until(tokens, at, ";"), depth
            return at + 2, depth
        if token in LINE_DIRECTIVES:
            return line_directive_end(tokens, at), depth
        if token in (".section", SOURCE_SECTION):
            return section_end(tokens, at), depth
        if depth == 0:
            return self._module_statement_end(tokens, at)
        return until(tokens, at, ";"), depth

    def _module_statement_end(self, tokens: list[Token], at: int) -> tuple[int, int]:
        function = False
        i = at
        while i < len(tokens):
            token = tokens[i][1]
            if token in (".func", ".entry"):
                function = True
            elif token == "(":
                i = matching(tokens, i)
                continue
            elif token == ";":
                if function and pragma_before(tokens, at, i):
                    i += 1
                    continue
                return i + 1, 0
            elif token == "{":
                if function:
                    return i + 1, 1
                i = matching(tokens, i)
                continue
            i += 1
        raise Incomplete

    # ------------------------------------------------------------------------------------------------- one statement

    def _statement(
        self, tokens: list[Token], start: int, end: int, gaps: list[str], position: Positions, single: bool, text: str,
        names: list[str], newline: str,
    ) -> None:  # fmt: skip
        kind, token = tokens[start]
        line = position.line(start)
        words = [t for _, t in tokens[start:end]]
        self._issues_before = len(self.module.issues)
        try:
            if self.function is None:
                self._module_statement(tokens, start, end, words, gaps, position)
                return
            if token == "{":
                self._open(words, gaps, line)
            elif token == "}":
                self._close(words, gaps, line)
            elif token == ";":
                raise SyntaxProblem("a ';' alone: PTX has no empty statement", start)
            elif kind == "id" and end - start == 2 and words[1] == ":":
                if token in ("WARP_SZ", "_") or "::" in token:
                    raise SyntaxProblem(f"{token} cannot be a label", start)
                assert self.environment is not None
                self.environment.hide(token)
                self._take(token)
                self._record(label_shape(token, gaps[-1], words, gaps), (), line, token)
            elif kind == "mod" or (kind == "id" and end - start > 2 and words[1] == ":"):
                self._directive(tokens, start, end, words, gaps, position, single and bool(newline), text)
            else:
                self._instruction(tokens, start, end, words, gaps, position, single, text, names, newline)
        except SyntaxProblem as problem:
            at = min(max(problem.position, start), end - 1)
            if at > start and "\n" in gaps[at - start] and words[at - start] != ";":
                # what is wrong starts a line: the line before it was not ended
                message = f"expected ';' after {words[at - start - 1]!r}"
                column = position.column(at - 1) + len(words[at - start - 1])
                self._issue(message, position.line(at - 1), column)
            else:
                self._issue(str(problem), position.line(at), position.column(at))
            self._record_raw(words, gaps, line, position.column(start))

    def _record(self, shape: Shape, regs: list[Reg] | tuple[()], line: int, name: str = "") -> None:
        assert self.function is not None
        self.function.statements.append((shape, regs, self.lead, line, name))
        self.lead = ""

    def _record_raw(self, words: list[str], gaps: list[str], line: int, column: int) -> None:
        shape = directive_shape(UnknownOp, words, gaps)
        shape.column = column
        shape.payload = self.module.issues[self._issues_before :]
        if self.function is None:
            self.module.items.append((shape, (), self.lead, line, ""))
            self.lead = ""
        else:
            self._record(shape, (), line)

    def _open(self, words: list[str], gaps: list[str], line: int) -> None:
        assert self.environment is not None
        self.depth += 1
        shape = Shape(Kind.OPEN, words, gaps)
        shape.op_class, shape.properties = ScopeBeginOp, {}
        self._record(shape, (), line, str(self.environment.open()))

    def _close(self, words: list[str], gaps: list[str], line: int) -> None:
        assert self.function is not None and self.environment is not None
        self.depth -= 1
        if self.depth == 0:
            self.function.attributes["end"] = TokensAttr((self.lead, *gaps))
            self.lead = ""
            self.module.items.append(self.function)
            self.function = self.environment = None
            return
        self.environment.close()
        shape = Shape(Kind.CLOSE, words, gaps)
        shape.op_class, shape.properties = ScopeEndOp, {}
        self._record(shape, (), line)

    def _instruction(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions,
        single: bool, text: str, names: list[str], newline: str,
    ) -> None:  # fmt: skip
        environment = self.environment
        assert environment is not None
        if words[-1] != ";":
            raise SyntaxProblem("expected ';' at the end of the instruction", end - 1)
        reading = read_instruction(tokens, start, end - 1, environment.known, self._is_special, position.gaps)
        line = position.line(start)
        if reading.cls is None:
            at = reading.opcode_at
            if not self.allow_unknown:
                problem = unknown_opcode(reading.root, reading.modifiers, self._admits(reading))
                self._issue(problem.message, position.line(at), position.column(at), problem.hint)
            self._record_raw(words, gaps, line, position.column(start))
            return
        if not reading.cls.terminator and self._undeclared(tokens, start, end, position):
            self._record_raw(words, gaps, line, position.column(start))
            return
        if reading.guard_register is not None and not environment.known(reading.guard_register):
            raise SyntaxProblem(
                f"the guard {reading.guard_register} is not a declared register",
                start + guard_tokens(reading.guard) - 1,
            )
        all_names = ([reading.guard_register] if reading.guard_register else []) + reading.registers
        regs = [environment[n] for n in all_names]
        cls = reading.cls
        layout, name = reading.layout, ""
        if cls.jumps:
            layout, name = branch_target(layout)
        elif cls.terminator:
            name = table_name(layout)
        words, gaps = with_whole_constants(words, gaps, reading.constants, start)
        shape = Shape(Kind.TERMINATOR if cls.terminator else Kind.INSTRUCTION, words, gaps)
        classes = tuple(r.register_class for r in regs[1 if reading.guard else 0 :])
        fill_instruction(shape, cls, reading.modifiers, layout, classes, reading.guard)
        shape.opcode_tokens = reading.operands_at - reading.opcode_at
        shape.column = position.column(start)  # not of the opcode: that depends on the length of the guard
        self._record(shape, regs, line, name)
        if single and newline and names == all_names and "\n" not in text:
            shape.bare = tuple({t for k, t in tokens[start:end] if k == "id" and t[0] != "%"})
            match = _BRANCH(text)
            if match is not None and name:
                shape.bare = ()
                _lines[("bra", match[1] if not names else tuple(SPLIT(match[1])[::2]), match[3])] = shape
            else:
                shape.name = name
                parts = SPLIT(text)
                key: object = tuple(parts[::2]) if names else text
                _lines[key] = shape
                templates.keep(shape, _without_names(key), len(names))

    def _take(self, name: str) -> None:
        """Something in this function gets a name, which may be a special register's: that is then hidden."""
        if name[0] == "%" and is_special_register(name):
            self._taken.add(name)

    def _is_special(self, name: str) -> bool:
        return is_special_register(name) and name not in self._taken

    def _admits(self, reading: InstructionText) -> Admits:
        """Judges heads with the operands of an instruction, on the module's target."""
        module, environment = self.module, self.environment
        assert environment is not None
        classes = tuple([environment[n].register_class for n in reading.registers])
        try:
            version = parse_version(module.version)
            target_of(module.target)
        except ValueError:
            return takes_modifiers
        return admits(lambda found: found.exists(version, module.target, module.options), reading.layout, classes)

    def _undeclared(self, tokens: list[Token], start: int, end: int, position: Positions) -> bool:
        """Report `%names` that are neither registers, special registers nor declared symbols."""
        environment = self.environment
        assert environment is not None
        found = False
        for at in range(start, end):
            kind, token = tokens[at]
            if kind != "id" or token[0] != "%" or environment.known(token) or is_special_register(token):
                continue
            if token not in self._symbols:
                self._issue(f"{token} is not declared", position.line(at), position.column(at))
                found = True
        return found

    def _declare_symbols(self, declaration: DeclarationAttr) -> None:
        for i, (name, tail) in enumerate(declaration.items):
            ranged = tail[:1] == ("<",)  # `.param .b64 %p<2>` declares %p0 and %p1
            names = [f"{name}{n}" for n in range(min(declaration.count(i) or 0, 65536))] if ranged else [name]
            self._symbols.update(names)
            if self.environment is not None:
                for hidden in names:
                    self.environment.hide(hidden)
                    self._take(hidden)

    # ----------------------------------------------------------------------------------------------------- directives

    def _directive(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions,
        whole_line: bool, text: str,
    ) -> None:  # fmt: skip
        first = words[0]
        line = position.line(start)
        if first == ".reg":
            self._registers(tokens, start, end, words, gaps, position)
            return
        if ".func" in words[:2]:
            header = read_header(tokens, start, end)
            if words[-1] != ";":
                raise SyntaxProblem(f"{header.name} cannot have a body here: only declarations of functions", end - 1)
            self._symbols.add(header.name)
            self._record(directive_shape(DirectiveOp, words, gaps), (), line)
            return
        if first in _VARIABLE_WORDS or first in _BEFORE_A_SPACE:
            if ".reg" in words[:8]:
                self._registers(tokens, start, end, words, gaps, position)
                return
            if words[-1] != ";":
                raise SyntaxProblem("expected ';' at the end of the declaration", end - 1)
            declaration = read_declaration(tokens, start, end - 1)
            self._declare_symbols(declaration)
            shape = declaration_shape(VariableOp, declaration, words, gaps, Kind.OTHER)
            self._record(shape, (), line)
            return
        if first == ".loc":
            shape = directive_shape(LocOp, words, gaps)
            self._record(shape, (), line)
            if whole_line:
                templates.keep(shape, text, 0)
            return
        list_at = 2 if len(words) > 2 and words[1] == ":" else 0
        if words[list_at] in (".branchtargets", ".calltargets", ".callprototype"):
            self._label_list(words, gaps, line, list_at)
            return
        if first in (".pragma", ".file", ".section", ".alias", ".loc_intermediate"):
            self._record(directive_shape(DirectiveOp, words, gaps), (), line)
            return
        raise SyntaxProblem(f"unknown directive {first}", start)

    def _label_list(self, words: list[str], gaps: list[str], line: int, list_at: int) -> None:
        label = words[0] if list_at else ""
        branches = words[list_at] == ".branchtargets"
        shape = directive_shape(LabelListOp, words[list_at:], gaps, words)
        assert shape.properties is not None
        if label:
            shape.properties["label"] = string_attr(label)
            self._symbols.add(label)
            assert self.environment is not None
            self.environment.hide(label)
            self._take(label)
        if branches:
            shape.kind = Kind.TABLE
            shape.payload = [w for w in words[list_at + 1 :] if _IDENTIFIER(w)]
        self._record(shape, (), line, label)

    def _registers(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions
    ) -> None:
        environment = self.environment
        assert environment is not None
        declaration = read_declaration(tokens, start, end - 1)
        if declaration.type not in REGISTER_CLASSES:
            given = next((w for w in declaration.head[1:] if w not in (".v2", ".v4")), "")
            types = self._register_types()
            known = did_you_mean(given, types) or f"types of registers: {' '.join(types)}"
            message = f"a register cannot have the type {given}" if given else ".reg needs a type"
            self._issue(message, position.line(start), position.column(start), known)
            self._record_raw(words, gaps, position.line(start), position.column(start))
            return
        self._declare_registers(declaration, position.line(start), position.column(start))
        self._record(declaration_shape(RegisterOp, declaration, words, gaps, Kind.REGISTERS), (), position.line(start))

    def _register_types(self) -> list[str]:
        """The types that registers may have on the module's target."""
        types = [f".{c}" for c in REGISTER_CLASSES]
        try:
            version, target = parse_version(self.module.version), target_of(self.module.target).name
        except ValueError:
            return types
        return [t for t in types if judge_directive(".reg", [t], "entry body", version, target) is None]

    def _declare_registers(self, declaration: DeclarationAttr, line: int, column: int) -> None:
        assert self.environment is not None
        register_class = declaration.register_class
        for i, (name, tail) in enumerate(declaration.items):
            count = declaration.count(i) if tail[:1] == ("<",) else None
            message = self.environment.declare(name, register_class, count)
            if message is not None:
                self._issue(message, line, column)

    # ---------------------------------------------------------------------------------------------------- module level

    def _module_statement(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions
    ) -> None:
        first = words[0]
        line = position.line(start)
        if first not in (".section", SOURCE_SECTION) and (".func" in words or ".entry" in words):
            self._function(tokens, start, end, words, gaps, position)
            return
        if first in (".version", ".target", ".address_size"):
            self._header(words, gaps, line, start)
            return
        if first in (".file", ".section", ".pragma", ".alias", ".loc", ".loc_intermediate", SOURCE_SECTION):
            shape = directive_shape(DirectiveOp, words, gaps)
        elif any(w in _VARIABLE_WORDS or w in (".texref", ".samplerref", ".surfref") for w in words[:20]):
            shape = declaration_shape(VariableOp, read_declaration(tokens, start, end - 1), words, gaps, Kind.OTHER)
        else:
            raise SyntaxProblem(f"expected a module-level directive, found {first!r}", start)
        self._define(Definition(shape), line)

    def _define(self, definition: Definition, line: int) -> None:
        """Record a module-level statement."""
        self.defined = definition
        if definition.head is not None:
            self._enter(definition.head, line)
            return
        assert definition.shape is not None
        if isinstance(definition.shape.payload, DeclarationAttr):
            self._declare_symbols(definition.shape.payload)
        self.module.items.append((definition.shape, (), self.lead, line, ""))
        self.lead = ""

    def _header(self, words: list[str], gaps: list[str], line: int, start: int) -> None:
        module = self.module
        what = words[0][1:]
        if len(words) < 2:
            raise SyntaxProblem(f".{what} needs a value", start)
        value = words[1]
        if what == "version":
            if gaps[1].strip(" \t"):
                raise SyntaxProblem("the number of .version must follow it on its line, after spaces only", start)
            if not re.fullmatch(r"\d+\.\d+", value):
                raise SyntaxProblem(f".version needs a number such as 8.7, not {value!r}", start + 1)
            repeated = bool(module.version) and module.version != value
            module.version = module.version or value
        elif what == "target":
            if words[2::2] != [","] * len(words[2::2]) or len(words) % 2 or not _IDENTIFIER(value):
                raise SyntaxProblem(".target is a target such as sm_90a, and words after commas", start + 1)
            repeated = bool(module.target)
            if not repeated:
                module.target = target_meant(value)
                module.options = tuple(words[3::2])
        else:
            size = address_size(value) if len(words) == 2 else None
            if size is None:
                raise SyntaxProblem(f".address_size needs 32 or 64, not {' '.join(words[1:])}", start + 1)
            repeated = bool(module.address_size)
            module.address_size = module.address_size or str(size)
        if not repeated:
            module.header_lines[what] = line
        shape = directive_shape(DirectiveOp, words, gaps)
        if not repeated:
            shape.payload = what  # printed from the module's own attributes
        module.items.append((shape, (), self.lead, line, ""))
        self.lead = ""

    def _function(
        self, tokens: list[Token], start: int, end: int, words: list[str], gaps: list[str], position: Positions
    ) -> None:
        header = read_header(tokens, start, end)
        if words[-1] not in (";", "{"):
            raise SyntaxProblem(f"expected '{{' or ';' after the head of {header.name}, found {words[-1]!r}", end - 1)
        properties: dict[str, Attribute] = {
            "head": TokensAttr(tuple(header.head)),
            "sym_name": string_attr(header.name),
        }
        if header.returns is not None:
            properties["returns"] = ArrayAttr(header.returns)
        if header.params is not None:
            properties["params"] = ArrayAttr(header.params)
        properties["directives"] = TokensAttr(tuple(header.directives))
        op_class = EntryOp if ".entry" in header.head else FunctionOp
        head = Head(op_class, properties, TokensAttr(tuple(gaps)), header, words[-1] != ";")
        self._define(Definition(None, head), position.line(start))

    def _enter(self, head: Head, line: int) -> None:
        """Record a declared function, or start on the body of a defined one."""
        source = FunctionSource(head.op_class, dict(head.properties), line=line, has_body=head.has_body)
        source.attributes["gaps"] = head.gaps
        if self.lead:
            source.attributes["lead"] = TextAttr(self.lead)
        self.lead = ""
        header = head.header
        self._symbols.add(header.name)
        if not head.has_body:
            self.module.items.append(source)
            return
        environment = Environment()
        self._taken = set()
        for declarations, regs in ((header.returns, source.outputs), (header.params, source.inputs)):
            for declaration in declarations or ():
                for name, _ in declaration.items:
                    if declaration.space == "reg" and declaration.type not in REGISTER_CLASSES:
                        self._symbols.add(name)  # reported with the header
                    elif declaration.space == "reg":
                        environment.declare(name, declaration.register_class)
                        regs.append(environment[name])
                    else:
                        self._symbols.add(name)
                        self._take(name)
        self.function, self.environment, self.depth = source, environment, 1
