"""Where in a statement something is wrong: the line and column of an operand, an element, a modifier or a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..analysis.entities import Fault
from ..dialects.ptx.forms import Problem
from ..ssa.shapes import guard_tokens
from ..ssa.statement import Reg, Shape, Statement
from .module_text import Issue

if TYPE_CHECKING:
    from .fixes import Placed


def issue_at(shape: Shape, regs: Sequence[Reg], problem: Problem, line: int) -> Issue:
    """A problem with the line and column of the operand or modifier it is about."""
    at = guard_tokens(shape.guard_mark)
    if problem.operand >= 0:
        at = operand_token(shape, problem.operand)
        if problem.element >= 0:
            at = element_token(shape, at, problem.element)
    elif problem.word:
        words = (f".{problem.word}", problem.word)  # a modifier, or a special register
        at = next((i for i in range(len(shape.tokens) - 1, at, -1) if shape.tokens[i] in words), at)
    return _issue(shape, regs, at, problem.message, line, problem.hint)


def fault_at(shape: Shape, regs: Sequence[Reg], fault: Fault, line: int) -> Issue:
    """A broken rule of names with the line and column of the name or operand it is about."""
    at = operand_token(shape, fault.operand) if fault.operand >= 0 else guard_tokens(shape.guard_mark)
    if fault.word and fault.word in shape.tokens[at:]:
        at = shape.tokens.index(fault.word, at)
    issue = _issue(shape, regs, at, fault.message, line, fault.hint)
    issue.severity = fault.severity
    return issue


def placed_tokens(shape: Shape, regs: Sequence[Reg], line: int, label: str = "") -> Placed:
    """The tokens of a statement with the names of its own registers and, of a branch, its own label."""
    from .fixes import Placed

    tokens = shape.tokens
    if label and not shape.bare and tokens[-1] == ";":  # one shape for all labels: `known_lines.branch_key`
        tokens = [*tokens[:-2], label, ";"]
    # a shared shape holds the names of the first statement
    if sum(t[0] == "%" for t in tokens) == len(regs) and "spelling" not in shape.attributes:
        names = iter(regs)
        tokens = [next(names).name if t[0] == "%" else t for t in tokens]
    return Placed(tokens, shape.gaps, line, shape.column)


def _issue(shape: Shape, regs: Sequence[Reg], at: int, message: str, line: int, hint: str | None) -> Issue:
    placed = placed_tokens(shape, regs, line)
    return Issue(message, *placed.place(placed.start(at)), hint)


def element_token(shape: Shape, at: int, element: int) -> int:
    """Index of the first token of an element of the vector at token `at`; that itself if it is none."""
    depth = 0
    for i in range(at, len(shape.tokens)):
        token = shape.tokens[i]
        if token in "]})":
            depth -= 1
        if depth == 1 and element == 0:
            return i
        if token in "{[(":
            depth += 1
        elif token == "," and depth == 1:
            element -= 1
        if depth == 0:
            break
    return at


def operand_token(shape: Shape, operand: int) -> int:
    """Index of the first token of an operand."""
    at = guard_tokens(shape.guard_mark) + shape.opcode_tokens
    depth = 0
    for i in range(at, len(shape.tokens)):
        if operand == 0:
            return i
        token = shape.tokens[i]
        if token in ("{", "[", "("):
            depth += 1
        elif token in ("}", "]", ")"):
            depth -= 1
        elif token == "," and depth == 0:
            operand -= 1
    return at


def unresolved(statement: Statement, label: str) -> Issue:
    """The issue of a branch to a label that the function does not have."""
    shape, regs, _, line, name = statement
    tokens = [label if t == shape.name or (t == name and t != label) else t for t in shape.tokens]
    at = tokens.index(label) if label in tokens else operand_token(shape, 0)
    return _issue(shape, regs, at, f"label {label} is not defined in this function", line, None)
