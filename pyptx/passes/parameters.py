"""`.param` variables of inlined calls: kept in registers where their accesses are plain, else in local
memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import Operation, SSAValue

from ..analysis.cfg import cfg_of
from ..dialects.ptx.attributes import layout_attr, string_attr
from ..dialects.ptx.instruction import Instruction, slot_properties
from ..dialects.ptx.move import Mov
from ..dialects.ptx.movement import Load, Store
from ..dialects.ptx.structure import DeclarationAttr, FunctionOp, LabelListOp, VariableOp
from ..dialects.ptx.syntax import (
    PLACEHOLDERS,
    Address,
    Immediate,
    Operand,
    Register,
    Symbol,
    Vector,
    evaluate,
    transform,
)
from ..dialects.ptx.types import SCALAR_TYPES, RegType, class_bits
from ..ssa.fastir import create
from .assign_registers import move_op
from .trivia import erase


def accesses_only(function: FunctionOp, name: str, call: Operation | None) -> bool:
    """Whether a `.param` variable is only loaded and stored by name (and named by `call`)."""
    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, Instruction) and op is not call and _names(op, name) and access(op, name) is None:
                return False
            if isinstance(op, LabelListOp) and name in op.words:
                return False
    return True


def _names(op: Instruction, name: str) -> bool:
    found: list[bool] = []

    def note(operand: Operand) -> Operand:
        if isinstance(operand, Symbol) and operand.name == name:
            found.append(True)
        return operand

    transform(op.layout, note)
    return bool(found)


@dataclass(slots=True)
class Access:
    """A load or store of a `.param` variable: (byte offset, bits, element) of each element, in order."""

    op: Instruction
    store: bool
    elements: list[tuple[int, int, Operand]] = field(default_factory=list[tuple[int, int, Operand]])


def access(op: Instruction, name: str) -> Access | None:
    """The plain `ld.param` or `st.param` of the variable that an op is, or None."""
    if not isinstance(op, (Load, Store)) or op.slot("space") not in ("param", "param::func"):
        return None
    store = isinstance(op, Store)
    if len(op.layout) != 2:
        return None
    address, data = op.layout if store else (op.layout[1], op.layout[0])
    if not isinstance(address, Address) or not isinstance(address.base, Symbol) or address.rest:
        return None
    if address.base.name != name:
        return None
    text = address.base.offset + address.offset
    offset = int(evaluate(f"0{text}")) if text else 0
    bits = SCALAR_TYPES[op.slots["type"]].bits
    found = Access(op, store)
    items = data.elements if isinstance(data, Vector) else (data,)
    for i, item in enumerate(items):
        found.elements.append((offset + i * bits // 8, bits, item))
    return found


def keep_in_registers(function: FunctionOp, name: str) -> None:
    """Replace a variable by values: every load reads what the one store before it wrote. Else it becomes
    `.local`.
    """
    found = [
        a for block in function.blocks for op in block.ops if isinstance(op, Instruction) if (a := access(op, name))
    ]
    variable = next(
        op for block in function.blocks for op in block.ops
        if isinstance(op, VariableOp) and any(n == name for n, _ in op.declaration.items)
    )  # fmt: skip
    if len(variable.declaration.items) == 1 and _forward(function, found):
        for entry in found:
            erase(entry.op)
        erase(variable)
        return
    for entry in found:
        entry.op.properties["space"] = string_attr("local")
    head = tuple(".local" if w == ".param" else w for w in variable.declaration.head)
    variable.declaration = DeclarationAttr((head, variable.declaration.items))


def _forward(function: FunctionOp, accesses: list[Access]) -> bool:
    """Give every load the stored values; nothing is changed where that is not possible."""
    cfg = cfg_of(function)
    tree = cfg.dominators()
    order = {op: i for block in function.blocks for i, op in enumerate(block.ops)}

    def before(a: Operation, b: Operation) -> bool:
        block_a, block_b = a.parent_block(), b.parent_block()
        assert block_a is not None
        assert block_b is not None
        if block_a is block_b:
            return order[a] < order[b]
        x, y = cfg.index[block_a], cfg.index[block_b]
        return tree.reachable(x) and tree.reachable(y) and tree.dominates(x, y)

    stored: dict[int, tuple[Instruction, int, Operand, SSAValue | None]] = {}
    for entry in accesses:
        if entry.op.guard:
            return False
        values = iter(entry.op.operands if entry.store else entry.op.results)
        for offset, bits, item in entry.elements:
            if isinstance(item, Register) and not item.member:
                value = next(values)
                if class_bits(cast(RegType, value.type).register_class) != bits:
                    return False
            elif isinstance(item, Immediate) and entry.store:
                value = None
            else:
                return False
            if entry.store:
                if any(at < offset + bits // 8 and offset < at + size // 8 for at, (_, size, _, _) in stored.items()):
                    return False
                stored[offset] = (entry.op, bits, item, value)
    loads: list[tuple[Access, int, int]] = []
    for entry in accesses:
        if entry.store:
            continue
        for i, (offset, bits, _) in enumerate(entry.elements):
            source = stored.get(offset)
            if source is None or source[1] != bits or not before(source[0], entry.op):
                return False
            loads.append((entry, i, offset))
    for entry, i, offset in loads:
        _, bits, item, value = stored[offset]
        result = entry.op.results[i]
        move = _bit_move(value, item, cast(RegType, result.type), bits, entry.op)
        block = entry.op.parent_block()
        assert block is not None
        block.insert_op_before(move, entry.op)
        result.replace_all_uses_with(move.results[0])
    return True


def _bit_move(value: SSAValue | None, item: Operand, type_: RegType, bits: int, at: Operation) -> Operation:
    if value is not None and cast(RegType, value.type).register_class == type_.register_class:
        return move_op(value, type_, at.location)
    form, slots = Mov.candidates((f"b{bits}",))[0]
    source = PLACEHOLDERS["$"] if value is not None else item
    layout = layout_attr((PLACEHOLDERS["="], source))
    operands = () if value is None else (value,)
    return create(Mov, operands, (type_,), {**slot_properties(form, slots), "layout": layout}, {}, (), at.location)
