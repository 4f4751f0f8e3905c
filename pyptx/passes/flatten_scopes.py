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
from .fresh import FreshNames, Names
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
        for stem, (count, new) in self.ranges.items():
            digits = name[len(stem) :]
            if name.startswith(stem) and digits.isdigit() and int(digits) < count:
                return new + digits
        return name


def flatten_scopes(function: FunctionOp, module: Operation | None = None) -> bool:
    """Flatten one function; whether it had scopes. A function that stands in no module is told which to look at."""
    ops = [op for block in function.blocks for op in block.ops]
    if not any(isinstance(op, ScopeBeginOp) for op in ops):
        return False
    scopes = _Renamer(function, ops, module or function.parent_op()).scopes
    stack = [scopes[0]]
    opened = 0
    for op in ops:
        if isinstance(op, ScopeBeginOp):
            opened += 1
            stack.append(scopes[opened])
        elif isinstance(op, ScopeEndOp):
            stack.pop()
        else:
            _rename(op, stack)
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
        self.names = FreshNames(function)
        self.names.add_module(module)
        around = Names().add_module(module)
        self.used = self._outer_names(function, ops)
        self.used |= around.taken  # what hides a variable of the module in a scope would hide it everywhere
        self.ranges: dict[str, int] = dict(around.ranges)
        for declaration in self._outer_registers(ops):
            for i, (name, tail) in enumerate(declaration.items):
                if tail[:1] == ("<",):
                    self.ranges[name] = declaration.count(i) or 0
        self.scopes = [_Scope()]
        stack = [self.scopes[0]]
        for op in ops:
            if isinstance(op, ScopeBeginOp):
                self.scopes.append(_Scope(len(self.scopes)))
                stack.append(self.scopes[-1])
            elif isinstance(op, ScopeEndOp):
                stack.pop()
            elif len(stack) > 1:
                self._declare(op, stack[-1])

    def _outer_registers(self, ops: list[Operation]) -> list[DeclarationAttr]:
        depth = 0
        found: list[DeclarationAttr] = []
        for op in ops:
            depth += isinstance(op, ScopeBeginOp) - isinstance(op, ScopeEndOp)
            if depth == 0 and isinstance(op, RegisterOp):
                found.append(op.declaration)
        return found

    def _outer_names(self, function: FunctionOp, ops: list[Operation]) -> set[str]:
        """Names outside all inner scopes: an inner declaration of one of them must change."""
        found = {name for d in (*function.parameters, *function.returns) for name, _ in d.items}
        depth = 0
        for op in ops:
            depth += isinstance(op, ScopeBeginOp) - isinstance(op, ScopeEndOp)
            if depth:
                continue
            if isinstance(op, (RegisterOp, VariableOp)):
                found.update(n for n, tail in op.declaration.items if tail[:1] != ("<",))
            elif isinstance(op, (LabelOp, LabelListOp)) and op.label:
                found.add(op.label)
        return found

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
        if name not in self.used and not self._in_range(name):
            self.used.add(name)
            return name
        new = self.names.name(name)
        while new in self.used or self._in_range(new):
            new = self.names.name(name)
        self.used.add(new)
        return new

    def _range(self, stem: str, count: int) -> str:
        new, n = stem, 0
        while self._is_taken(new, count):
            new, n = f"{stem}s{n}_", n + 1
        self.ranges[new] = count
        return new

    def _is_taken(self, stem: str, count: int) -> bool:
        if stem in self.ranges or self._overlaps(stem, count):
            return True
        return any(self._collides(stem, count, name) for name in self.used)

    def _in_range(self, name: str) -> bool:
        return any(self._collides(stem, count, name) for stem, count in self.ranges.items())

    @staticmethod
    def _collides(stem: str, count: int, name: str) -> bool:
        digits = name[len(stem) :]
        return name.startswith(stem) and digits.isdigit() and int(digits) < count

    def _overlaps(self, stem: str, count: int) -> bool:
        """Whether the names meet those of a range whose stem differs by digits (`%r<20>` and `%r1<5>`)."""
        for other, size in self.ranges.items():
            short, long = sorted((stem, other), key=len)
            if long != short and long.startswith(short) and long[len(short) :].isdigit():
                return bool(size and count)
        return False


def _rename(op: Operation, stack: list[_Scope]) -> None:
    """Give the names in one statement their new spelling, as seen from the scopes around it."""

    def symbol(name: str) -> str:
        for scope in reversed(stack):
            if name in scope.symbols:
                return scope.symbols[name]
        return name

    here = stack[-1]
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
