"""Lines of bodies read before in this process: each is one statement whose shape is known."""

from __future__ import annotations

import re
from typing import cast

from ..dialects.ptx.memo import Memo
from ..ssa.statement import Shape
from . import templates
from .recipes import SPLIT

__all__ = ["LINES", "branch", "branch_key", "keep", "key_of", "label", "without_names"]

_NAME = r"(?!_[;:]|WARP_SZ[;:])[A-Za-z_$][\w$]*"
label = re.compile(rf"({_NAME}):(\r?)").fullmatch
branch = re.compile(rf"([ \t]*(?:@!?%[\w$]+[ \t]+)?bra(?:\.uni)?[ \t]+)({_NAME});(\r?)").fullmatch

LINES: Memo[object, Shape | str] = Memo()
"""Lines cut at their %names (`key_of`): the statement, or the empty string for a comment."""


def key_of(text: str) -> object:
    """The pieces of a text between its %names."""
    parts = SPLIT(text)
    return tuple(parts[::2]) if len(parts) > 1 else text


def without_names(key: object) -> str:
    """A key as one text. Where the registers stood is a character that no PTX has."""
    return "\1".join(cast("tuple[str, ...]", key)) if key.__class__ is tuple else cast(str, key)


def branch_key(match: re.Match[str]) -> object:
    """The key of a branch, one for all labels."""
    return "bra", key_of(match[1]), match[3]


def keep(text: str, shape: Shape, name: str, count: int) -> None:
    """Remember the instruction that a line is, with so many %names; `name` is the label or table that it mentions."""
    match = branch(text)
    if match is not None and name:
        shape.bare = ()
        LINES[branch_key(match)] = shape
        return
    shape.name = name
    key = key_of(text)
    LINES[key] = shape
    templates.keep(shape, without_names(key), count)
