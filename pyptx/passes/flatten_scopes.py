"""`ptx-flatten-scopes`: remove `{ }` scopes inside functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, cast

from xdsl.ir import Operation

from ..dialects.ptx.attributes import string_attr
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import (
    DeclarationAttr,
    FunctionOp,
    LabelListOp,
    LabelOp,
    RegisterOp,
    ScopeBeginOp,
    ScopeEndOp,
    VariableOp,
)
from ..dialects.ptx.syntax import Operand, Symbol, Target, transform
from ..dialects.ptx.types import RegType
from ..ssa.fastir import set_type
from ..ssa.numbered import numbered
from .fresh import FreshNames, Names, names_around
from .ptx_pass import FunctionPass
from .trivia import erase


class FlattenScopes(FunctionPass):
    """Dissolve inner scopes into the function's own, so that any value may be used wherever it is defined.

    Contract: registers, variables, labels and label lists declared in an inner scope keep their names where
    nothing else in the function and nothing in the module has them, else get new ones; declarations stay in their places. Instructions,
    their order and their meaning stay. No `ptx.scope_begin` or `ptx.scope_end` is left, and every register is
    in scope 0. Idempotent.
    """

    name: ClassVar[str] = "ptx-flatten-scopes"

    def run_on_function(self, function: FunctionOp) -> None:
        flatten_scopes(function)


@dataclass(slots=True)
class _Scope:
    """The new names of what one scope declares. `ranges` are register ranges: stem -> (count, new stem)."""

    ordinal: int = 0
    registers: dict[str, str] = field(default_factory=dict[str, str])
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    symbols: dict[str, str] = field(default_factory=dict[str, str])

    def register(self, name: str) -> str:
        found = self.registers.get(name)
        if found is not None:
            return found
        for stem, number in numbered(name):
            count, new = self.ranges.get(stem, (0, ""))
            if number < count:
                return new + name[len(stem) :]
        return name


def flatten_scopes(function: FunctionOp, module: Operation | None = None) -> bool:
    """Flatten one function; whether it had scopes. A function that stands in no module is told which to look at."""
    ops = [op for block in function.blocks for op in block.ops]
    if not any(isinstance(op, ScopeBeginOp) for op in ops):
        return False
    scopes = _Renamer(function, ops, module or function.parent_op()).scopes
    stack = [scopes[0]]
    visible: dict[str, list[str]] = {}
    """What each symbol of the open scopes is called now, innermost last."""
    opened = 0
    for op in ops:
        if isinstance(op, ScopeBeginOp):
            opened += 1
            stack.append(scopes[opened])
            for name, new in stack[-1].symbols.items():
                visible.setdefault(name, []).append(new)
        elif isinstance(op, ScopeEndOp):
            for name in stack.pop().symbols:
                visible[name].pop()
        else:
            _rename(op, stack[-1], visible)
    types: dict[RegType, RegType] = {}
    for block in function.blocks:
        for value in (*block.args, *(r for op in block.ops for r in op.results)):
            old = cast(RegType, value.type)
            if not old.scope:
                continue
            new = types.get(old)
            if new is None:
                name = scopes[old.scope].register(old.register_name)
                new = types[old] = RegType((old.register_class, name, 0))
            set_type(value, new)
    for op in ops:
        if isinstance(op, (ScopeBeginOp, ScopeEndOp)):
            erase(op, trailing=True)
    return True


class _Renamer:
    """Decides the new names, scope by scope, before anything is changed (labels may be used before they
    stand).
    """

    def __init__(self, function: FunctionOp, ops: list[Operation], module: Operation | None):
        self.names = FreshNames(function, module)
        # what hides a variable of the module in a scope would hide it everywhere
        self.used = Names(names_around(module))
        for declaration in (*function.parameters, *function.returns):
            for name, _ in declaration.items:
                self.used.take(name)
        self.tried: dict[str, int] = {}
        """Stem of a range -> the number that the next new stem gets."""
        self.scopes = [_Scope()]
        depth = 0
        for op in ops:
            depth += isinstance(op, ScopeBeginOp) - isinstance(op, ScopeEndOp)
            if depth == 0 and isinstance(op, (RegisterOp, VariableOp)):
                self.used.add(op.declaration)
            elif depth == 0 and isinstance(op, (LabelOp, LabelListOp)) and op.label:
                self.used.take(op.label)
        stack = [self.scopes[0]]
        for op in ops:
            if isinstance(op, ScopeBeginOp):
                self.scopes.append(_Scope(len(self.scopes)))
                stack.append(self.scopes[-1])
            elif isinstance(op, ScopeEndOp):
                stack.pop()
            elif len(stack) > 1:
                self._declare(op, stack[-1])

    def _declare(self, op: Operation, scope: _Scope) -> None:
        if isinstance(op, RegisterOp):
            for i, (name, tail) in enumerate(op.declaration.items):
                if tail[:1] == ("<",):
                    count = op.declaration.count(i) or 0
                    scope.ranges[name] = (count, self._range(name, count))
                else:
                    scope.registers[name] = self._single(name)
        elif isinstance(op, VariableOp):
            for name, _ in op.declaration.items:
                scope.symbols[name] = self._single(name)
        elif isinstance(op, (LabelOp, LabelListOp)) and op.label:
            scope.symbols[op.label] = self._single(op.label)

    def _single(self, name: str) -> str:
        """The name itself the first time, if no range covers it; then a new one."""
        new = name
        while not self.used.is_free(new):
            new = self.names.name(name)
        self.used.take(new)
        return new

    def _range(self, stem: str, count: int) -> str:
        new, n = stem, self.tried.get(stem, 0)
        while not self.used.is_free_range(new, count):
            new, n = f"{stem}s{n}_", n + 1
        self.tried[stem] = n
        self.used.take_range(new, count)
        return new


def _rename(op: Operation, here: _Scope, visible: dict[str, list[str]]) -> None:  # noqa: C901  over every statement: a call for each costs too much
    """Give the names in one statement their new spelling, as seen from the scopes around it."""

    def symbol(name: str) -> str:
        found = visible.get(name)
        return found[-1] if found else name

    if isinstance(op, RegisterOp):
        items: list[tuple[str, tuple[str, ...]]] = []
        for name, tail in op.declaration.items:
            new = here.ranges[name][1] if name in here.ranges and tail[:1] == ("<",) else here.registers.get(name, name)
            items.append((new, tail))
        if tuple(items) != op.declaration.items:
            op.declaration = DeclarationAttr((op.declaration.head, tuple(items)))
    elif isinstance(op, VariableOp):
        renamed = tuple((symbol(name), tuple(symbol(t) for t in tail)) for name, tail in op.declaration.items)
        if renamed != op.declaration.items:
            op.declaration = DeclarationAttr((op.declaration.head, renamed))
    elif isinstance(op, LabelListOp):
        if op.label and symbol(op.label) != op.label:
            op.properties["label"] = string_attr(symbol(op.label))
        words = tuple(symbol(w) for w in op.words)
        if words != op.words:
            op.words = words
    elif isinstance(op, LabelOp):
        if symbol(op.label) != op.label:
            op.label = symbol(op.label)
    elif isinstance(op, Instruction):

        def leaf(operand: Operand) -> Operand:
            if isinstance(operand, Symbol):
                return Symbol(symbol(operand.name), operand.offset)
            if isinstance(operand, Target):
                return Target(symbol(operand.name))
            return operand

        layout = transform(op.layout, leaf)
        if layout != op.layout:
            op.layout = layout
