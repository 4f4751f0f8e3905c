"""`.param` variables of inlined calls: kept in registers where their accesses are plain, else in local
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import Operation, SSAValue

from ..analysis.cfg import cfg_of
from ..dialects.ptx.attributes import layout_attr, string_attr
from ..dialects.ptx.control import Call
from ..dialects.ptx.instruction import Instruction, slot_properties
from ..dialects.ptx.move import Mov
from ..dialects.ptx.movement import Load, Store
from ..dialects.ptx.structure import DeclarationAttr, FunctionOp, LabelListOp, ScopeBeginOp, ScopeEndOp, VariableOp
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

Variable = tuple[VariableOp | None, str]
"""A variable by its declaration, which is None outside the function's body, and its name."""


class Uses:
    """The statements of a function that name each variable. Names are those of the scope they stand in."""

    def __init__(self, function: FunctionOp) -> None:
        self._ops: dict[Variable, list[Operation]] = {}
        self._at: dict[Operation, dict[str, Variable]] = {}
        open_scopes: list[list[str]] = [[]]
        visible: dict[str, list[VariableOp]] = {}
        for block in function.blocks:
            for op in block.ops:
                if isinstance(op, ScopeBeginOp):
                    open_scopes.append([])
                elif isinstance(op, ScopeEndOp):
                    for name in open_scopes.pop():
                        visible[name].pop()
                elif isinstance(op, VariableOp):
                    for name, _ in op.declaration.items:
                        visible.setdefault(name, []).append(op)
                        open_scopes[-1].append(name)
                else:
                    named = symbols_of(op)
                    meant = {n: (declared[-1] if (declared := visible.get(n)) else None, n) for n in named}
                    if isinstance(op, Call):
                        self._at[op] = meant
                    for variable in meant.values():
                        self.add(variable, op)

    def add(self, variable: Variable, op: Operation) -> None:
        """One more statement names the variable, whatever it calls it now."""
        self._ops.setdefault(variable, []).append(op)

    def at(self, call: Call, name: str) -> Variable:
        """The variable that a name stands for where a call stands."""
        return self._at[call][name]

    def of(self, variable: Variable) -> list[Operation]:
        return self._ops.get(variable, [])

    def drop_call(self, variable: Variable, call: Operation) -> None:
        """A call that is about to go does not count any more."""
        self._ops[variable] = [op for op in self._ops[variable] if op is not call]

    def are_plain(self, variable: Variable, call: Operation | None) -> bool:
        """Whether a `.param` variable is only loaded and stored by name (and named by `call`)."""
        return all(op is call or access(op, variable[1]) is not None for op in self.of(variable))


def symbols_of(op: Operation) -> set[str]:
    """The symbols that a statement names."""
    found: set[str] = set()

    def note(operand: Operand) -> Operand:
        if isinstance(operand, Symbol):
            found.add(operand.name)
        return operand

    if isinstance(op, Instruction):
        transform(op.layout, note)
    elif isinstance(op, LabelListOp):
        found.update(op.words)
    elif isinstance(op, VariableOp):
        found.update(word for _, tail in op.declaration.items for word in tail)
    return found


@dataclass(slots=True)
class Access:
    """A load or store of a `.param` variable: (byte offset, bits, element) of each element, in order."""

    op: Instruction
    store: bool
    elements: list[tuple[int, int, Operand]] = field(default_factory=list[tuple[int, int, Operand]])


def access(op: Operation, name: str) -> Access | None:
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


class Order:
    """Which op comes before which on every path; of ops that stand in the function now."""

    def __init__(self, function: FunctionOp) -> None:
        self._cfg = cfg_of(function)
        self._tree = self._cfg.dominators()
        self._at = {op: i for block in function.blocks for i, op in enumerate(block.ops)}

    def before(self, a: Operation, b: Operation) -> bool:
        block_a, block_b = a.parent_block(), b.parent_block()
        assert block_a is not None
        assert block_b is not None
        if block_a is block_b:
            return self._at[a] < self._at[b]
        x, y = self._cfg.index[block_a], self._cfg.index[block_b]
        return self._tree.reachable(x) and self._tree.reachable(y) and self._tree.dominates(x, y)


def keep_in_registers(variable: Variable, ops: Sequence[Operation], order: Order) -> None:
    """Replace a variable by values: every load reads what the one store before it wrote. Else it becomes
    `.local`.
    """
    declared, name = variable
    assert declared is not None
    found = [a for op in ops if (a := access(op, name))]
    head, items = declared.declaration.data
    own = next(item for item in items if item[0] == name)
    if _forward(found, order):
        for entry in found:
            erase(entry.op)
    else:
        for entry in found:
            entry.op.properties["space"] = string_attr("local")
        local = DeclarationAttr((tuple(".local" if w == ".param" else w for w in head), (own,)))
        if len(items) == 1:
            declared.declaration = local
            return
        block = declared.parent_block()
        assert block is not None
        block.insert_op_before(create(VariableOp, (), (), {"declaration": local}, {}), declared)
    if len(items) == 1:
        erase(declared)
        return
    declared.declaration = DeclarationAttr((head, tuple(item for item in items if item is not own)))
    declared.attributes.pop("gaps", None)


def _forward(accesses: list[Access], order: Order) -> bool:
    """Give every load the stored values; nothing is changed where that is not possible."""
    stored: dict[int, tuple[Instruction, int, Operand, SSAValue | None]] = {}
    written: set[int] = set()
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
                its_bytes = range(offset, offset + bits // 8)
                if not written.isdisjoint(its_bytes):
                    return False
                written.update(its_bytes)
                stored[offset] = (entry.op, bits, item, value)
    loads: list[tuple[Access, int, int]] = []
    for entry in accesses:
        if entry.store:
            continue
        for i, (offset, bits, _) in enumerate(entry.elements):
            source = stored.get(offset)
            if source is None or source[1] != bits or not order.before(source[0], entry.op):
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
