"""The tokens of a statement with what each of them is: the common ground of layout (`canonical`) and
comparison (`equivalent`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from ..dialects.ptx.instruction import Instruction, modifiers_of
from ..dialects.ptx.structure import head_labels
from ..dialects.ptx.syntax import layout_tokens
from ..dialects.ptx.types import RegType
from .operands import places_of


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `kind` is empty for what stands for itself, else `register` or `label`; `register` is its
    type.
    """

    text: str
    kind: str = ""
    register: RegType | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction's tokens, the semicolon included: first `guard` tokens, then `opcode` ones, then the
    operands.
    """

    tokens: tuple[Token, ...]
    guard: int
    opcode: int

    @property
    def words(self) -> list[str]:
        return [t.text for t in self.tokens]


def instruction_tokens(op: Instruction, *, written_order: bool = False) -> Statement:
    """The tokens of an instruction, modifiers in canonical order or (`written_order`) in that of the text it
    came from.
    """
    tokens: list[Token] = []
    if op.guard:
        tokens += [Token(mark) for mark in op.guard]
        tokens.append(_register(op.operands[places_of(op).guard]))
    guard = len(tokens)
    modifiers = modifiers_of(type(op), op.properties)
    written = op.attributes.get("written")
    if written_order and isinstance(written, StringAttr):
        modifiers = tuple(written.data.split(".")[1:])
    root, *rest = op.opcode.split(".")
    tokens += [Token(root), *(Token("." + word) for word in (*rest, *modifiers))]
    opcode = len(tokens) - guard
    reads, results = iter(op.operands), iter(op.results)
    for word in layout_tokens(op.layout):
        if word == "$":
            tokens.append(_register(next(reads)))
        elif word in ("=", "~"):
            tokens.append(_register(next(results)))
        elif word[0] == "^" != word:  # a label; `^` alone is an operator of an offset
            tokens.append(Token(_label(op, word[1:]), "label"))
        else:
            tokens.append(Token(word))
    tokens.append(Token(";"))
    return Statement(tuple(tokens), guard, opcode)


def _register(value: SSAValue) -> Token:
    type_ = cast(RegType, value.type)
    return Token(type_.register_name, "register", type_)


def _label(op: Instruction, name: str) -> str:
    if not name.isdigit() or not op.successors:
        return name
    labels = head_labels(op.successors[0])
    return labels[min(int(name), len(labels) - 1)].label if labels else name
