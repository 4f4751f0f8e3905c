"""Short names for registers and labels, by class and order of appearance: `pyptx fmt --rename`."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import cast

from ..diagnostics import PTXError
from ..dialects.ptx.structure import (
    DirectiveOp,
    FunctionOp,
    LabelOp,
    ModuleOp,
    RegisterOp,
    UnknownOp,
    head_labels,
)
from ..dialects.ptx.types import RegType
from ..ssa.fastir import set_type
from .flatten_scopes import flatten_scopes
from .fresh import FreshRegisters, module_names
from .rename import rename_in_sections, rename_labels_inside
from .strip_debug import is_debug_directive
from .trivia import erase
from .verify import diagnostic_at

_NUMBER = re.compile(r"(0x[0-9a-f]+|[1-9][0-9]*|0)", re.IGNORECASE)


def rename_readable(module: ModuleOp) -> None:
    """Name registers by their class (`%r0`, `%f0`, `%p0`) and labels by what they are (`loop_0`, `L_0`), in
    order of appearance.

    Scopes are flattened; one declaration per class at the head of each function replaces the old ones;
    register parameters keep their names. PTXError where DWARF sections describe registers by name (strip them
    first); sections for line numbers only do not.
    """
    for op in module.body.ops:
        if isinstance(op, DirectiveOp) and is_debug_directive(op) and _may_name_registers(op):
            found = diagnostic_at(op, "this debug section describes registers by name, so these cannot be renamed")
            command = f"pyptx-opt {found.filename or 'FILE'} -p ptx-strip-debug -t ptx"
            raise PTXError(replace(found, hint=f"remove debug information first: {command}"))
    symbols = {function.symbol for function in module.functions}
    labels: dict[str, str] = {}
    with module_names(module):
        for function in module.functions:
            if function.is_declaration:
                continue
            flatten_scopes(function)
            _registers(function)
            labels |= _labels(function, symbols)
    rename_in_sections(module, labels)


def _may_name_registers(op: DirectiveOp) -> bool:
    """Whether a debug section may hold a location in a register: DW_OP_regx or DW_OP_bregx (DWARF 4, 7.7.1) and a name."""
    if op.words[0] != ".section" or op.words[1].strip('"') not in (".debug_info", ".debug_loc"):
        return False
    words = zip(("", *op.words), op.words, strict=False)
    numbers = (-int(w, 0) if sign == "-" else int(w, 0) for sign, w in words if _NUMBER.fullmatch(w))
    return any(byte in (0x90, 0x92) for n in numbers for byte in (n & (1 << 64) - 1).to_bytes(8, "little"))


def _registers(function: FunctionOp) -> None:
    fixed = {n for d in (*function.parameters, *function.returns) if d.space == "reg" for n, _ in d.items}
    ops = [op for block in function.blocks for op in block.ops]
    if any(isinstance(op, UnknownOp) for op in ops):
        return
    for op in ops:
        if isinstance(op, RegisterOp):
            erase(op)
    fresh = FreshRegisters(function)
    types: dict[RegType, RegType] = {}
    for block in function.blocks:
        for value in (*block.args, *(r for op in block.ops for r in op.results)):
            old = cast(RegType, value.type)
            if old.register_name in fixed:
                continue
            new = types.get(old)
            if new is None:
                new = types[old] = fresh.type(old.register_class)
            set_type(value, new)
    fresh.declare()


def _labels(function: FunctionOp, taken: Collection[str]) -> dict[str, str]:
    position = {block: i for i, block in enumerate(function.blocks)}
    loops: set[str] = set()
    for block in function.blocks:
        for successor in block.last_op.successors if block.last_op is not None else ():
            if position[successor] <= position[block]:
                loops.update(label.label for label in head_labels(successor))
    names: dict[str, str] = {}
    counts = {"loop": 0, "L": 0}
    labels = [op.label for block in function.blocks for op in block.ops if isinstance(op, LabelOp)]
    for label in labels:
        stem = "loop" if label in loops else "L"
        while (new := f"{stem}_{counts[stem]}") in taken:
            counts[stem] += 1
        counts[stem] += 1
        names[label] = new
    return rename_labels_inside(function, lambda name: names.get(name, name))
