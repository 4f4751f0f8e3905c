"""PTX modules written in Python, statement by statement: `Module` and what its functions are made of."""

from .frontend.instructions import inst
from .frontend.modules import Function, Module, Style, declaration, param
from .frontend.statements import (
    addr,
    close_scope,
    declare,
    directive,
    exact,
    fmt,
    label,
    label_list,
    lead,
    loc,
    open_scope,
    pair,
    pragma,
    reg,
    section,
    targets,
    unknown,
    variable,
)

__all__ = [
    "Function", "Module", "Style", "addr", "close_scope", "declaration", "declare", "directive", "exact", "fmt", "inst",
    "label", "label_list", "lead", "loc", "open_scope", "pair", "param", "pragma", "reg", "section", "targets",
    "unknown", "variable",
]  # fmt: skip
