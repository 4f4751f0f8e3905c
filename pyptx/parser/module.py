"""PTX text -> `builtin.module { ptx.module }`."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import UNKNOWN_LOC, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Attribute, Operation

from ..diagnostics import PTXError
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
from ..dialects.ptx.target import TargetAttr
from ..ssa.builder import FunctionSource, UnresolvedLabel, build_function
from ..ssa.fastir import create, gc_paused, line_location
from ..ssa.shapes import guard_tokens
from ..ssa.statement import Kind, Statement
from .issues import diagnostics, header_issues
from .module_text import ModuleText
from .places import unresolved
from .reader import Reader


def parse_text(text: str, filename: str | None = None, *, allow_unknown: bool = False) -> BuiltinModule:
    """Parse PTX into IR. PTXError with every syntax error found; legality is the verifier's business."""
    trim()
    with gc_paused():
        source = Reader(text, allow_unknown=allow_unknown).read()
        problems: list[UnresolvedLabel] = []
        module = build_module(source, filename, problems)
    errors = list(source.issues)
    errors += [unresolved(p.statement, p.label) for p in problems]
    errors += header_issues(source)
    if errors:
        raise PTXError(diagnostics(errors, text, filename))
    return module


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
