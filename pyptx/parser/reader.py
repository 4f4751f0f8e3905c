"""PTX text -> statements. Lines are cut at their %names; the literal pieces are the line's shape, read once per
distinct shape.

A line is looked up by its pieces; on a miss it is tokenised and read statement by statement. Statements may span lines
and lines may hold several statements. Text that is not PTX is reported with its place, and reading goes on after the
next `;` or line.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import cast

from ..dialects.ptx.memo import Memo
from ..dialects.ptx.structure import (
    DeclarationAttr,
    LocOp,
)
from ..dialects.ptx.syntax import LINE_MARKER, Token, lex
from ..ssa.statement import Environment, Kind, Shape, Statement
from . import known_lines, recipes, templates
from .extent import (
    Incomplete,
    comment_start,
    continued,
    statement_ends,
)
from .known_lines import branch, branch_key, key_of, label, without_names
from .module_text import ModuleText
from .positions import Positions
from .recipes import SPLIT, definition_of, keep_definition, recipe_of
from .shapes import label_shape
from .statements import StatementReader

_LINE_MARKER = re.compile(LINE_MARKER).fullmatch
_ENDS_IN_MARKER = re.compile(rf'(?:[^"/#]|/(?![/*])|"[^"]*"|/\*.*?\*/)*+({LINE_MARKER})').fullmatch
"""A line that ends in a line marker, which is none for ptxas where the file ends without a newline."""
_MAX_RETRIES = 64
_unended: Memo[tuple[bool, str], int] = Memo()
"""(outside functions, a line that starts a statement and does not end it) -> the brackets open in it."""


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


def _is_instruction(tokens: list[Token]) -> bool:
    """Whether a single statement of a body is an instruction."""
    return tokens[0][1] == "@" or (tokens[0][0] == "id" and tokens[1:2] != [("p", ":")])


class Reader(StatementReader):
    """One pass over a PTX text. `read()` returns the statements."""

    def __init__(self, text: str, *, allow_unknown: bool = False):
        super().__init__(allow_unknown=allow_unknown)
        self.text = text
        self.opened = 0
        """Brackets open in the lines of an unfinished statement."""
        self.commented = False
        """Whether these lines end inside a comment."""
        self.sourced = False
        """Whether these lines hold a program (`.source_begin`) whose end was not seen: its brackets do not count."""
        self.next_try = 0
        """The length at which to read an unfinished statement again where a comment ends."""

    def read(self) -> ModuleText:  # noqa: C901  the loop over lines: a call for each line is what this saves
        lines = self.text.split("\n")
        last = lines.pop()
        self.module.lines = len(lines)
        lines += [last] if last else []
        has_final_newline = not last
        chunk: str | None = None
        chunk_line = retries = 0
        lookup = known_lines.LINES.get
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
            first = chunk_line
            if chunk is None:
                first = number
                if self._is_blank(line, newline, keep=bool(newline) and environment is not None and not names):
                    continue
                opened = _unended.get((environment is None, line))
                if opened is not None and newline:
                    chunk, chunk_line, retries = line, number, 1
                    self._start(line, opened)
                    continue
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
        self._end(chunk, chunk_line, count, last)
        return self.module

    def _is_blank(self, line: str, newline: str, *, keep: bool) -> bool:
        """Take a line of white space or comment, and remember it where `keep`."""
        stripped = line.strip()
        if stripped and not stripped.startswith("//") and not (stripped[0] == "#" and _LINE_MARKER(stripped)):
            return False
        lead, self.lead = self.lead, ""
        lead += line + newline
        self.lead = lead
        if keep:
            known_lines.LINES[line] = ""
        return True

    def _end(self, chunk: str | None, chunk_line: int, count: int, last: str) -> None:
        """The file ends: in the middle of a chunk, in a function, in a line without a newline."""
        if chunk is not None:
            self._unfinished(chunk, chunk_line)
        elif self.function is not None:
            self._issue(f"the body of {self._name()} is not closed: a '}}' is missing", max(count, 1), 1)
            self.module.items.append(self.function)
        self.module.tail = self.lead
        if last and (marker := _ENDS_IN_MARKER(last)) is not None:
            self._issue("a newline must follow a line marker", count, marker.start(1) + 1)

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
            match = label(line)
            if match is not None and match[1] not in self.environment:
                key: object = ("label", match[2])
                shape = known_lines.LINES.get(key)
                if shape is None:
                    shape = known_lines.LINES[key] = label_shape(match[1], match[2] + "\n")
                assert isinstance(shape, Shape)
                self.function.statements.append((shape, (), self.lead, number, match[1]))
                self.lead = ""
                return True
        if "bra" not in line:
            return False
        match = branch(line)
        if match is None or match[2] in self.environment:
            return False
        shape = known_lines.LINES.get(branch_key(match))
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
        shape = templates.find(without_names(key), len(names))
        if shape is None:
            return False
        environment = self.environment
        if any(word in environment for word in shape.bare):
            return False
        try:
            regs = [environment[n] for n in names]
        except KeyError:
            return False
        known_lines.LINES[key] = shape
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
        ends = statement_ends(tokens, self.depth)
        position = Positions(text, tokens, gaps, line)
        start = 0
        single = len(ends) == 1
        names = SPLIT(text)[1::2] if single else []
        function, environment = self.function, self.environment
        recorded = len(function.statements) if function is not None else 0
        self.defined = None
        issues = len(self.module.issues)
        known: set[str] = set()
        if environment is not None and not (single and _is_instruction(tokens)):  # which declares nothing
            known = {t for k, t in tokens if k == "id" and environment.known(t)}
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
        key = key_of(text)
        if len(statements) == 1:
            shape = statements[0][0]
            if shape.op_class is LocOp or key in known_lines.LINES or branch(text):
                return
        recipe = recipe_of(text, statements, line, known)
        if recipe is not None:
            recipes.keep(key, SPLIT(text)[1::2], recipe)
