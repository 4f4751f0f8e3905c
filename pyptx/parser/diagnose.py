"""Judge PTX text without building IR: syntax, labels, and every instruction's legality on the module's target.

Verdicts are memoised on (statement shape, register classes), so real files cost little more than reading.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import Diagnostic
from ..dialects.ptx.forms import Problem
from ..dialects.ptx.structure import UnknownOp
from ..dialects.ptx.target import FIRST_PTX, Version, parse_version, version_text
from ..ssa.builder import FunctionSource
from ..ssa.fastir import gc_paused
from ..ssa.shapes import guard_tokens
from ..ssa.statement import Kind, Shape
from .module import diagnostics, header_issues
from .reader import Issue, ModuleText, Reader


def diagnose_text(text: str, filename: str | None = None) -> list[Diagnostic]:
    """Everything wrong with a PTX text, in order of place; empty when ptxas should accept it. Never raises on bad PTX."""
    with gc_paused():
        source = Reader(text).read()
        issues = list(source.issues)
        headers = list(header_issues(source))
        issues += headers
        issues += _missing_labels(source)
        if not headers:
            issues += instruction_issues(source)
    return list(diagnostics(issues, text, filename))


def instruction_issues(source: ModuleText) -> Iterator[Issue]:
    """Illegal instructions, and a version that does not know the target."""
    version = parse_version(source.version)
    target = source.target
    first = FIRST_PTX[target]
    if version < first:
        yield Issue(f"target {target} needs PTX {version_text(first)} or newer, and .version is {source.version}", 1, 1)
        return
    for item in source.items:
        if isinstance(item, FunctionSource):
            yield from _function_issues(item, version, target)


def _function_issues(source: FunctionSource, version: Version, target: str) -> Iterator[Issue]:
    for shape, regs, _, line, _ in source.statements:
        if shape.kind > Kind.TERMINATOR or shape.op_class is UnknownOp:
            continue
        classes = tuple([r.register_class for r in regs])
        try:
            problem = shape.verdicts[classes]
        except KeyError:
            problem = shape.verdicts[classes] = _judge(shape, classes, version, target)
        if problem is not None:
            yield issue_at(shape, problem, line)


def _judge(shape: Shape, classes: tuple[str, ...], version: Version, target: str) -> Problem | None:
    cls = shape.instruction
    if cls is None:
        return None
    if shape.guard >= 0:
        if classes[0] != "pred":
            return Problem(f"the guard must be a .pred register, and it is .{classes[0]}")
        classes = classes[1:]
    return cls.resolve(shape.modifiers, shape.plain_layout, classes).verdict(version, target)


def issue_at(shape: Shape, problem: Problem, line: int) -> Issue:
    """A problem with the line and column of the operand it is about."""
    at = guard_tokens(shape.guard_mark)
    if problem.operand >= 0:
        at = _operand_token(shape, problem.operand)
    before = "".join(g + t for g, t in zip(shape.gaps[:at], shape.tokens[:at], strict=True)) + shape.gaps[at]
    newline = before.rfind("\n")
    return Issue(problem.message, line + before.count("\n"), len(before) - newline, problem.hint)


def _operand_token(shape: Shape, operand: int) -> int:
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


def _missing_labels(source: ModuleText) -> Iterator[Issue]:
    for item in source.items:
        if not isinstance(item, FunctionSource):
            continue
        labels = {s[4] for s in item.statements if s[0].kind in (Kind.LABEL, Kind.TABLE)}
        for shape, _, _, line, name in item.statements:
            if shape.kind == Kind.TERMINATOR and name and name not in labels:
                yield issue_at(shape, Problem(f"label {name} is not defined in this function", 0), line)
