"""One canonical, readable layout for any module: what `pyptx fmt` writes.

One statement a line; tabs for indentation, one more in each `{ }` scope; operands of instructions in a column
of their own; one parameter and one directive of a kernel a line; labels at the margin; at most one blank line
in a row, one before each function. Comments keep their places: before a statement, inside it, or after it.
Modifiers go in the manual's order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

from xdsl.ir import Operation

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    FallOp,
    FunctionOp,
    HeaderOp,
    LabelOp,
    ModuleOp,
    ParameterOp,
    ScopeBeginOp,
    ScopeEndOp,
    Structural,
    TextAttr,
    TokensAttr,
    UndefOp,
)
from ..dialects.ptx.style import Style, StyleAttr
from .tokens import instruction_tokens

STYLE = Style(indent="\t", after_opcode=" ", after_comma=" ", after_inner_comma=" ", after_guard=" ", line_end="\n")
COLUMN = 20
"""Characters from the indentation to the operands, where the opcode leaves room."""
WIDTH = 100
"""Where long initialisers and sections are broken."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_DATA = frozenset(f".{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64))
_TIGHT_BEFORE = frozenset(";,)]>}:[<(")
_TIGHT_AFTER = frozenset("([<{@!~")
_JOINING = frozenset("+-*/|&^%")


def canonicalise(module: ModuleOp, names: Mapping[str, str] | None = None) -> None:
    """Lay a module out afresh, in place. `names` are readable names of functions, written as comments above
    them.
    """
    module.attributes["style"] = StyleAttr(STYLE)
    first = True
    previous: Operation | None = None
    for op in module.body.ops:
        if not isinstance(op, Structural):
            continue
        apart = not first and (isinstance(op, FunctionOp) or isinstance(previous, FunctionOp))
        lead = _before(op, "", first=first, apart=apart)
        if isinstance(op, FunctionOp):
            name = (names or {}).get(op.symbol)
            if name is not None and f"// {name}\n" not in lead:
                lead += f"// {name}\n"
            tokens, gaps = op.tokens(), header_gaps(op)
        else:
            tokens = op.tokens()
            gaps = _structural_gaps(op, tokens, "")
        _set(op, lead, _with_comments(op, gaps, ""))
        if isinstance(op, FunctionOp) and not op.is_declaration:
            _body(op)
        previous, first = op, False
    tail = module.attributes.pop("tail", None)
    if isinstance(tail, TextAttr):
        text = _lead(tail.data, "", first=False, apart=False)
        if text.strip():
            module.attributes["tail"] = TextAttr(text)


def _body(function: FunctionOp) -> None:
    depth = 1
    first = True
    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, (UndefOp, FallOp, ParameterOp)):
                continue
            if isinstance(op, ScopeEndOp):
                depth = max(depth - 1, 1)
            indent = "\t" * depth
            lead = _before(op, indent, first=first, apart=False)
            if isinstance(op, Instruction):
                op.attributes.pop("written", None)
                op.attributes.pop("spelling", None)
                gaps = _instruction_gaps(op, indent)
            elif isinstance(op, LabelOp):
                gaps = ["", "", "\n"]
            else:
                gaps = _structural_gaps(cast(Structural, op), cast(Structural, op).tokens(), indent)
            _set(op, lead, _with_comments(op, gaps, indent))
            if isinstance(op, ScopeBeginOp):
                depth += 1
            first = False
    end = function.attributes.get("end")
    before, after = "", ""
    if isinstance(end, TokensAttr) and len(end.data) == 3:
        before = _lead(end.data[0] + end.data[1], "\t", first=first, apart=False).rstrip("\n")
        before += "\n" if before else ""
        after = _behind(end.data[2])
    function.attributes["end"] = TokensAttr((before, "", f"{after}\n"))


# ---------------------------------------------------------------------- comments


def _before(op: Operation, indent: str, *, first: bool, apart: bool) -> str:
    """The text before a statement: its comments, each on a line of its own, and at most one blank line."""
    lead = op.attributes.get("lead")
    gaps = op.attributes.get("gaps")
    text = lead.data if isinstance(lead, TextAttr) else ""
    if isinstance(gaps, TokensAttr):
        text += gaps.data[0]
    return _lead(text, indent, first=first, apart=apart)


def _lead(text: str, indent: str, *, first: bool, apart: bool) -> str:
    out: list[str] = []
    at = 0
    for match in _COMMENT.finditer(text):
        if _has_blank_line(text[at : match.start()], at == 0) and (out or not first):
            out.append("")
        out.append(indent + "\n".join(line.rstrip() for line in match.group().splitlines()))
        at = match.end()
    if _has_blank_line(text[at:], at == 0) and (out or not first):
        out.append("")
    if apart and "" not in out[:1]:
        out.insert(0, "")
    return "".join(line + "\n" for line in out)


def _has_blank_line(gap: str, start: bool) -> bool:
    """Whether a gap has an empty line: two line ends, or one at the start of the text (the line before has
    ended).
    """
    return gap.count("\n") >= (1 if start else 2)


def _behind(gap: str) -> str:
    comments = [" ".join(c.split("\n")) if c.startswith("//") else c for c in _COMMENT.findall(gap)]
    return "".join(f" {c.rstrip()}" for c in comments)


def _with_comments(op: Operation, gaps: list[str], indent: str) -> list[str]:
    """Put the comments inside and after the statement into its new gaps."""
    old = op.attributes.get("gaps")
    if not isinstance(old, TokensAttr) or len(old.data) != len(gaps):
        return gaps
    result = list(gaps)
    for i in range(1, len(gaps) - 1):
        comments = [c.rstrip() for c in _COMMENT.findall(old.data[i])]
        if not comments:
            continue
        text = ""
        for comment in comments:
            ended = text.endswith("\n")
            text += (f"{indent}\t" if ended else " ") + comment + ("\n" if comment.startswith("//") else "")
        if not text.endswith("\n"):
            text += result[i] or " "
        else:
            text += result[i].partition("\n")[2] if "\n" in result[i] else f"{indent}\t"
        result[i] = text
    result[-1] = _behind(old.data[-1]) + result[-1]
    return result


def _set(op: Operation, lead: str, gaps: Sequence[str]) -> None:
    op.attributes["gaps"] = TokensAttr(tuple(gaps))
    if lead:
        op.attributes["lead"] = TextAttr(lead)
    else:
        op.attributes.pop("lead", None)


# ---------------------------------------------------------------------- statements


def _instruction_gaps(op: Instruction, indent: str) -> list[str]:
    statement = instruction_tokens(op)
    words = statement.words
    gaps = STYLE.instruction_gaps(words, statement.guard, statement.opcode)
    gaps[0] = indent
    operands = statement.guard + statement.opcode
    if words[operands] != ";":
        used = sum(map(len, words[:operands])) + (1 if statement.guard else 0)
        gaps[operands] = " " * max(COLUMN - used, 1)
    return gaps


def _structural_gaps(op: Structural, tokens: Sequence[str], indent: str) -> list[str]:
    if isinstance(op, HeaderOp) and op.what == "target":
        return ["", " ", *("" if w == "," else " " for w in tokens[2:]), "\n"]
    if isinstance(op, DirectiveOp) and tokens[:1] == [".section"]:
        return _section_gaps(tokens)
    return [indent, *_spread(tokens, len(indent.expandtabs(8)), indent + "\t"), "\n"]


def _spread(tokens: Sequence[str], column: int, indent: str) -> list[str]:
    """The gaps between tokens on one line, broken after commas where it gets too long."""
    gaps: list[str] = []
    column += len(tokens[0]) if tokens else 0
    for i in range(1, len(tokens)):
        gap = _between(tokens[i - 1], tokens[i], tokens[i - 2] if i > 1 else "")
        column += len(gap) + len(tokens[i])
        if tokens[i - 1] == "," and column > WIDTH:
            gap = "\n" + indent
            column = len(indent.expandtabs(8)) + len(tokens[i])
        gaps.append(gap)
    return gaps


def _between(previous: str, token: str, before: str) -> str:
    if token in _TIGHT_BEFORE or previous in _TIGHT_AFTER:
        return ""
    if previous in _JOINING:  # a sign binds to what follows, and so does an operator between two constants
        return ""
    if token in _JOINING and previous not in ("=", ",", "{"):
        return ""
    return " "


def _section_gaps(tokens: Sequence[str]) -> list[str]:
    """One datum or label of a section a line; lists of bytes as long as the line is."""
    gaps = ["\t"]
    column = 0
    inside = False
    for i in range(1, len(tokens)):
        previous, token = tokens[i - 1], tokens[i]
        gap = _between(previous, token, "")
        if previous == "{":
            inside = True
        if token == "{" or token == "}":
            gap, column = ("\n\t", 8)
        elif inside and (token in _DATA or tokens[i + 1 : i + 2] == [":"] or previous == ":"):
            gap, column = "\n\t", 8
        elif previous == "," and column + len(token) > WIDTH:
            gap, column = "\n\t\t", 16
        column += len(gap) + len(token)
        gaps.append(gap)
    return [*gaps, "\n"]


def header_gaps(function: FunctionOp) -> list[str]:
    """One parameter and one directive a line; those of a device function on one line where they fit."""
    gaps: list[str] = []

    def spaced(words: Sequence[str], first: str) -> None:
        if words:
            gaps.append(first)
            gaps.extend(_between(a, b, "") for a, b in pairwise(words))

    def listed(declarations: Sequence[DeclarationAttr], opening: str, broken: bool) -> None:
        gaps.append(opening)
        for i, declaration in enumerate(declarations):
            if i:
                gaps.append("")
            spaced(declaration.tokens(), "\n\t" if broken else (" " if i else ""))
        gaps.append("\n" if broken and declarations else "")

    spaced(function.head, "")
    if "returns" in function.properties:
        listed(function.returns, " ", False)
    gaps.append(" ")
    if "params" in function.properties:
        width = sum(len(w) + 1 for d in function.parameters for w in d.tokens()) + len(function.symbol)
        listed(function.parameters, "", function.is_entry or width > WIDTH)
    depth = 0
    previous = ""
    for word in function.directives:
        starts = word.startswith(".") and depth == 0
        gaps.append("\n" if starts else _between(previous, word, ""))
        depth += (word == "(") - (word == ")")
        previous = word
    gaps.append("" if function.is_declaration else "\n")
    gaps.append("\n")
    return gaps
