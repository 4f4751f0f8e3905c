"""PTX text -> `builtin.module { ptx.module }`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import UNKNOWN_LOC, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Attribute, Operation

from ..analysis.source_map import map_of_text
from ..diagnostics import Diagnostic, PTXError
from ..dialects.ptx.attributes import string_attr
from ..dialects.ptx.memo import trim
from ..dialects.ptx.structure import (
    DirectiveOp,
    HeaderOp,
    ModuleOp,
    TextAttr,
    TokensAttr,
    UnknownOp,
    header_value,
    text_attr,
)
from ..dialects.ptx.style import Style, StyleAttr, detect
from ..dialects.ptx.target import FIRST_PTX, TargetAttr, target_of
from ..ssa.builder import FunctionSource, UnresolvedLabel, build_function
from ..ssa.fastir import create, gc_paused, line_location
from ..ssa.shapes import guard_tokens
from ..ssa.statement import Kind, Statement
from .module_text import Issue, ModuleText
from .reader import Reader


def parse_text(text: str, filename: str | None = None, *, allow_unknown: bool = False) -> BuiltinModule:
    """Parse PTX into IR. PTXError with every syntax error found; legality is the verifier's business."""
    trim()
    with gc_paused():
        source = Reader(text, allow_unknown=allow_unknown).read()
        problems: list[UnresolvedLabel] = []
        module = build_module(source, filename, problems)
    errors = list(source.issues)
    errors += [Issue(f"label {p.label} is not defined in this function", p.line, 1) for p in problems]
    errors += header_issues(source)
    if errors:
        raise PTXError(diagnostics(errors, text, filename))
    return module


def header_issues(source: ModuleText) -> Iterator[Issue]:
    """A module starts with `.version` and names a known `.target`."""
    if not source.version:
        yield Issue("the module has no .version", 1, 1, "a PTX file starts with .version 8.7 and .target sm_90a")
    if not source.target:
        yield Issue("the module has no .target", 1, 1, "a PTX file starts with .version 8.7 and .target sm_90a")
        return
    try:
        known = target_of(source.target).known
    except ValueError:
        known = False
    if not known:
        yield Issue(f"unknown target {source.target}", source.header_lines.get("target", 1), 9, _like(source.target))


def _like(target: str) -> str:
    """The targets that may have been meant: those of the same number, else all since sm_50."""
    number = re.sub(r"\D", "", target)
    modern = [t for t in FIRST_PTX if target_of(t).number >= 50]
    near = [t for t in modern if number and str(target_of(t).number) == number]
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {' '.join(modern)}"


def diagnostics(issues: Iterable[Issue], text: str, filename: str | None) -> tuple[Diagnostic, ...]:
    """Issues as diagnostics with their source lines, in order of place."""
    lines = text.split("\n")
    found: list[Diagnostic] = []
    for issue in sorted(issues, key=lambda i: (i.line, i.column)):
        line = lines[issue.line - 1].rstrip("\r") if 0 < issue.line <= len(lines) else None
        severity = "warning" if issue.severity == "warning" else "error"
        found.append(
            Diagnostic(
                severity,
                issue.message,
                filename,
                issue.line,
                issue.column,
                issue.hint,
                source_line=line,
                fixes=issue.fixes,
            )
        )
    return tuple(map_of_text(text).attach(found) if found else found)


def build_module(source: ModuleText, filename: str | None, problems: list[UnresolvedLabel]) -> BuiltinModule:
    """IR for what the reader found."""
    style = detect(style_samples(source))
    name_attr = StringAttr(filename or "<ptx>")
    ops: list[Operation] = []
    for item in source.items:
        if isinstance(item, FunctionSource):
            ops.append(build_function(item, style, name_attr, problems))
        else:
            ops.append(_module_op(item, style, name_attr))
    target = TargetAttr((source.target or "sm_50", source.version or "4.0", source.options))
    module = ModuleOp.build(target, ops, source.address_size or "64")
    module.attributes["style"] = StyleAttr(style)
    if source.tail:
        module.attributes["tail"] = TextAttr(source.tail)
    return BuiltinModule([module])


def _module_op(statement: Statement, style: Style, filename: StringAttr | None) -> Operation:
    shape, _, lead, line, _ = statement
    properties: dict[str, Attribute] = shape.properties or {}
    op_class = shape.op_class
    assert op_class is not None
    if isinstance(shape.payload, str) and op_class is DirectiveOp:
        op_class, properties = HeaderOp, dict[str, Attribute](what=string_attr(shape.payload))
        if header_value(shape.payload, shape.tokens[1]) != shape.tokens[1]:
            properties["written"] = string_attr(shape.tokens[1])
    attributes: dict[str, Attribute] = {}
    if shape.gaps != style.module_gaps(shape.tokens):
        attributes["gaps"] = TokensAttr(tuple(shape.gaps))
    if lead:
        attributes["lead"] = text_attr(lead)
    location = UNKNOWN_LOC if filename is None else line_location(filename, line, 1)
    return create(op_class, (), (), properties, attributes, (), location)


def style_samples(source: ModuleText) -> Iterator[tuple[list[str], list[str], int, int]]:
    """The first instructions, to detect the style from."""
    left = 300
    for item in source.items:
        if not isinstance(item, FunctionSource):
            continue
        for shape, _, _, _, _ in item.statements:
            if shape.kind in (Kind.INSTRUCTION, Kind.TERMINATOR) and shape.op_class is not UnknownOp:
                yield shape.tokens, shape.gaps, guard_tokens(shape.guard_mark), shape.opcode_tokens
                left -= 1
                if not left:
                    return
