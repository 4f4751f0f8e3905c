"""PTX modules written in Python, statement by statement: `Module` and what its functions are made of."""

from .frontend.core.instructions import inst
from .frontend.module.arguments import load
from .frontend.module.async_objects import Mbarrier, descriptor, mbarrier, tma
from .frontend.module.calls import call
from .frontend.module.module import Function, Module, Style, declaration, param
from .frontend.module.statements import (
    addr,
    at,
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
from .frontend.module.values import Block, If, Loop, Value, block, else_, if_, loop, new, op, special

__all__ = [
    "Block", "Function", "If", "Loop", "Mbarrier", "Module", "Style", "Value", "addr", "at", "block", "call", "close_scope", "declaration",
    "declare", "descriptor", "directive", "else_", "exact", "fmt", "if_", "inst", "label", "label_list", "lead", "load", "loc", "loop", "mbarrier", "new",
    "op", "open_scope", "pair", "param", "pragma", "reg", "section", "special", "targets", "tma", "unknown", "variable",
]  # fmt: skip
