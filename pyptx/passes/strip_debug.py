"""`ptx-strip-debug`: remove what is only there for debuggers and profilers."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Block

from ..dialects.ptx.directive_facts import SOURCE_SECTION
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import (
    DirectiveOp,
    FunctionOp,
    LabelListOp,
    LabelOp,
    LocOp,
    ModuleOp,
    VariableOp,
    head_labels,
)
from ..dialects.ptx.syntax import Operand, Symbol, Target, transform
from ..dialects.ptx.target import TargetAttr
from .ptx_pass import PTXPass
from .trivia import erase


class StripDebug(PTXPass):
    """Remove `.loc`, `.file`, DWARF sections, labels that only debug information names, and `.target`'s
    `debug`.

    Contract: instructions, their order, registers and all other directives stay. A label stays where a
    branch, a table, an instruction or a section that is not removed names it. Idempotent.
    """

    name: ClassVar[str] = "ptx-strip-debug"

    def run(self, module: ModuleOp) -> None:
        strip_debug(module)


def strip_debug(module: ModuleOp) -> None:
    """Strip one module."""
    target = module.target
    if "debug" in target.options:
        options = tuple(o for o in target.options if o != "debug")
        module.target = TargetAttr((target.target, target.data[1], options))
    kept: set[str] = set()
    for op in list(module.body.ops):
        if isinstance(op, DirectiveOp):
            if is_debug_directive(op):
                erase(op)
            else:
                kept.update(op.words)
        elif isinstance(op, VariableOp):
            kept.update(word for _, tail in op.declaration.items for word in tail)
    for function in module.functions:
        if not function.is_declaration:
            _strip_function(function, kept)


def is_debug_directive(op: DirectiveOp) -> bool:
    """`.loc`, `.loc_intermediate`, `.file`, sections named `.debug...` and of intermediate sources."""
    words = op.words
    if isinstance(op, LocOp) or words[0] in (".file", ".loc_intermediate", SOURCE_SECTION):
        return True
    return len(words) > 1 and words[0] == ".section" and words[1].strip('"').startswith(".debug")


def _strip_function(function: FunctionOp, kept: set[str]) -> None:
    named = set(kept)
    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, LabelListOp):
                named.update(op.words)
            elif isinstance(op, Instruction):
                transform(op.layout, lambda o: _note(o, named))
            elif isinstance(op, VariableOp):
                named.update(word for _, tail in op.declaration.items for word in tail)
    branches: dict[Block, list[Instruction]] = {}
    for block in function.blocks:
        last = block.last_op
        if isinstance(last, Instruction) and last.successors and any(isinstance(o, Target) for o in last.layout):
            branches.setdefault(last.successors[0], []).append(last)
    for block in function.blocks:
        _strip_head(block, branches.get(block, []), named)
        for op in list(block.ops):
            if isinstance(op, DirectiveOp) and not isinstance(op, LabelListOp) and is_debug_directive(op):
                erase(op)
            elif isinstance(op, LabelOp) and op.label not in named and op not in head_labels(block):
                erase(op)


def _strip_head(block: Block, branches: list[Instruction], named: set[str]) -> None:
    """Remove the labels at a block's head that nothing names; branches name them by their index, which
    shifts.
    """
    heads = head_labels(block)
    used = {int(o.name) for op in branches for o in op.layout if isinstance(o, Target) and o.name.isdigit()}
    kept = [i for i, label in enumerate(heads) if i in used or label.label in named]
    if len(kept) == len(heads):
        return
    moved = {str(old): str(new) for new, old in enumerate(kept)}
    for op in branches:
        op.layout = transform(op.layout, lambda o: Target(moved.get(o.name, o.name)) if isinstance(o, Target) else o)
    for i, label in enumerate(heads):
        if i not in kept:
            erase(label)


def _note(operand: Operand, named: set[str]) -> Operand:
    if isinstance(operand, Symbol):
        named.add(operand.name)
    return operand
