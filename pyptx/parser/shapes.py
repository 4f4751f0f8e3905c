"""Shapes of the statements that are not instructions."""

from __future__ import annotations

from ..dialects.ptx.foundation import data_attr
from ..dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    LabelOp,
    RegisterOp,
    TokensAttr,
    UnknownOp,
    VariableOp,
)
from ..ssa.statement import Kind, Shape


def label_shape(label: str, end: str, words: list[str] | None = None, gaps: list[str] | None = None) -> Shape:
    shape = Shape(Kind.LABEL, words or [label, ":"], gaps or ["", "", end])
    shape.op_class, shape.properties = LabelOp, {}
    return shape


def directive_shape(
    op_class: type[DirectiveOp | UnknownOp], words: list[str], gaps: list[str], tokens: list[str] | None = None
) -> Shape:
    shape = Shape(Kind.OTHER, tokens or words, gaps)
    shape.op_class, shape.properties = op_class, {"words": data_attr(TokensAttr, tuple(words))}
    return shape


def with_whole_constants(
    words: list[str], gaps: list[str], constants: list[tuple[int, int]], start: int
) -> tuple[list[str], list[str]]:
    """Make each constant one token, as the IR has it."""
    for first, last in reversed(constants):
        a, b = first - start, last - start
        whole = words[a] + "".join(g + w for g, w in zip(gaps[a + 1 : b], words[a + 1 : b], strict=True))
        words = [*words[:a], whole, *words[b:]]
        gaps = [*gaps[: a + 1], *gaps[b:]]
    return words, gaps


def declaration_shape(
    op_class: type[VariableOp | RegisterOp],
    declaration: DeclarationAttr,
    words: list[str],
    gaps: list[str],
    kind: Kind,
) -> Shape:
    shape = Shape(kind, words, gaps)
    shape.op_class, shape.properties = op_class, {"declaration": declaration}
    shape.payload = declaration
    return shape
