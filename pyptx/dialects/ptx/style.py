"""How a PTX file lays out its statements: the text between tokens that the printer writes unless an op carries its own.

A file's style is detected on import and kept on `ptx.module`; ops keep `gaps` only where they differ from it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .foundation import Data, irdl_attr_definition
from .memo import Numbers

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

Gaps = list[str]


@dataclass(frozen=True, slots=True)
class Style:
    """Indentation of a statement, and what follows an opcode, a comma, a comma inside brackets, a guard; the line end."""

    indent: str = "\t"
    after_opcode: str = " \t"
    after_comma: str = " "
    after_inner_comma: str = " "
    after_guard: str = " "
    line_end: str = "\n"

    def instruction_gaps(self, tokens: Sequence[str], guard: int, opcode: int) -> Gaps:
        """Gaps around an instruction whose first `guard` tokens are its guard, and the next `opcode` its opcode and
        modifiers.
        """
        gaps = [self.indent]
        depth = 0
        first_operand = guard + opcode
        previous = tokens[0]
        for i in range(1, len(tokens)):
            token = tokens[i]
            if i < guard:
                gap = ""
            elif i == guard:
                gap = self.after_guard if guard else ""
            elif i < first_operand:
                gap = ""
            elif i == first_operand:
                gap = "" if token == ";" else self.after_opcode
            elif previous == ",":
                gap = self.after_inner_comma if depth else self.after_comma
            else:
                gap = ""
            gaps.append(gap)
            if i >= first_operand and len(token) == 1:
                if token in "{[(":
                    depth += 1
                elif token in "}])":
                    depth -= 1
            previous = token
        gaps.append(self.line_end)
        return gaps

    def directive_gaps(self, tokens: Sequence[str]) -> Gaps:
        """Gaps around any other statement."""
        if not tokens:
            return [""]
        if len(tokens) == 2 and tokens[1] == ":":
            return ["", "", self.line_end]
        indent = self.indent
        gaps = [indent]
        for previous, token in itertools.pairwise(tokens):
            tight = token in _TIGHT_BEFORE or previous in _TIGHT_AFTER
            gaps.append("" if tight else " ")
        gaps.append(self.line_end)
        return gaps

    def module_gaps(self, tokens: Sequence[str]) -> Gaps:
        """Gaps around a module-level statement: no indentation."""
        gaps = self.directive_gaps(tokens)
        gaps[0] = ""
        return gaps


_TIGHT_BEFORE = frozenset(";,)]>:[<(")
_TIGHT_AFTER = frozenset("([<{@!-~")

DEFAULT = Style(indent="\t", after_opcode=" ", after_comma=" ", after_inner_comma=" ")
"""The style of modules that did not come from text."""


style_numbers: Numbers[Style] = Numbers()


def detect(samples: Iterable[tuple[Sequence[str], Sequence[str], int, int]]) -> Style:
    """The commonest gaps among instructions given as (tokens, gaps, guard tokens, opcode tokens)."""
    counters: list[Counter[str]] = [Counter() for _ in range(6)]
    indent, after_opcode, comma, inner, guard_gap, end = counters
    for tokens, gaps, guard, opcode in samples:
        indent[gaps[0]] += 1
        end["\r\n" if gaps[-1].endswith("\r\n") else "\n"] += 1
        if guard:
            guard_gap[gaps[guard]] += 1
        start = guard + opcode
        if tokens[start] != ";":
            after_opcode[gaps[start]] += 1
        depth = 0
        for i in range(start, len(tokens)):
            if i > start and tokens[i - 1] == ",":
                (inner if depth else comma)[gaps[i]] += 1
            if tokens[i] in ("{", "[", "("):
                depth += 1
            elif tokens[i] in ("}", "]", ")"):
                depth -= 1

    def top(counter: Counter[str], default: str) -> str:
        return counter.most_common(1)[0][0] if counter else default

    comma_gap = top(comma, " ")
    return Style(
        top(indent, "\t"), top(after_opcode, " "), comma_gap, top(inner, comma_gap), top(guard_gap, " "), top(end, "\n")
    )


@irdl_attr_definition
class StyleAttr(Data[Style]):
    """`#ptx.style<"\\t", " ", " ", " ", " ", "\\n">`: the fields of `Style` in order."""

    name: ClassVar[str] = "ptx.style"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Style:
        words = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_str_literal)
        if len(words) != 6:
            parser.raise_error("a style has six fields")
        return Style(*words)

    def print_parameter(self, printer: Printer) -> None:
        s = self.data
        fields = (s.indent, s.after_opcode, s.after_comma, s.after_inner_comma, s.after_guard, s.line_end)
        with printer.in_angle_brackets():
            for i, word in enumerate(fields):
                printer.print_string(", " if i else "")
                printer.print_string_literal(word)
