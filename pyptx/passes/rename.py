"""Rename registers and labels of a function in place (used by `fmt --rename`, register assignment and tests)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import SSAValue

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    FunctionOp,
    LabelListOp,
    LabelOp,
    ModuleOp,
    RegisterOp,
    TokensAttr,
)
from ..dialects.ptx.syntax import Symbol, Target, transform
from ..dialects.ptx.types import RegType
from ..ssa.fastir import set_type


def rename_registers(function: FunctionOp, rename: Callable[[str], str]) -> None:
    """Give every named register of a function the name `rename` answers: in the values' types, the declarations, the
    parameters.
    """
    types: dict[RegType, RegType] = {}

    def renamed(value: SSAValue) -> None:
        old = cast(RegType, value.type)
        new = types.get(old)
        if new is None:
            register_class, name, scope = old.data
            new = types[old] = RegType((register_class, rename(name) if name else "", scope))
        set_type(value, new)

    for block in function.blocks:
        for argument in block.args:
            renamed(argument)
        for op in block.ops:
            for result in op.results:
                renamed(result)
            if isinstance(op, RegisterOp):
                op.declaration = _renamed_declaration(op.declaration, rename)
    for key in ("params", "returns"):
        attr = function.properties.get(key)
        if attr is None:
            continue
        declarations = cast("ArrayAttr[DeclarationAttr]", attr)
        function.properties[key] = ArrayAttr(
            [_renamed_declaration(d, rename) if d.space == "reg" else d for d in declarations]
        )


def _renamed_declaration(declaration: DeclarationAttr, rename: Callable[[str], str]) -> DeclarationAttr:
    items: list[tuple[str, tuple[str, ...]]] = []
    for i, (name, tail) in enumerate(declaration.items):
        count = declaration.count(i) if tail[:1] == ("<",) else None
        if count is None:
            items.append((rename(name), tail))
            continue
        names = [rename(f"{name}{n}") for n in range(count)]
        stem = names[0].removesuffix("0") if names else rename(f"{name}0").removesuffix("0")
        if all(new == f"{stem}{n}" for n, new in enumerate(names)):
            items.append((stem, tail))
        else:
            items += [(new, ()) for new in names]
    return DeclarationAttr((declaration.head, tuple(items)))


def rename_labels(function: FunctionOp, rename: Callable[[str], str]) -> None:
    """Give every label of a function the name `rename` answers; branches follow their successors, tables and debug sections
    their words.
    """
    labels = rename_labels_inside(function, rename)
    module = function.parent_op()
    if isinstance(module, ModuleOp):
        rename_in_sections(module, labels)


def rename_in_sections(module: ModuleOp, labels: Mapping[str, str]) -> None:
    """Let debug sections name labels as they are called now."""
    for op in module.body.ops if labels else ():
        if isinstance(op, DirectiveOp) and op.words and op.words[0] == ".section":
            words = tuple([labels.get(w, w) for w in op.words])
            if words != op.words:
                op.properties["words"] = TokensAttr(words)


def rename_labels_inside(function: FunctionOp, rename: Callable[[str], str]) -> dict[str, str]:
    """Give labels new names in the function only; what each is called now."""
    labels: dict[str, str] = {}
    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, LabelOp):
                labels[op.label] = rename(op.label)
                op.label = labels[op.label]

    def word(text: str) -> str:
        return labels.get(text, text)

    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, LabelListOp):
                if op.words and op.words[0] == ".branchtargets":
                    op.words = tuple(word(w) for w in op.words)
            elif isinstance(op, DirectiveOp):
                continue
            elif isinstance(op, Instruction):
                layout = transform(
                    op.layout,
                    lambda o: (
                        Target(word(o.name))
                        if isinstance(o, Target)
                        else Symbol(word(o.name), o.offset) if isinstance(o, Symbol) and o.name in labels else o
                    ),
                )  # fmt: skip
                if layout != op.layout:
                    op.layout = layout
    return labels
