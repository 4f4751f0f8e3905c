"""New names in a function: registers with their declarations, labels, variables."""

from __future__ import annotations

from xdsl.ir import Block, Operation

from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import (
    DeclarationAttr,
    FunctionOp,
    LabelListOp,
    LabelOp,
    ModuleOp,
    ParameterOp,
    RegisterOp,
    ScopeBeginOp,
    UndefOp,
    VariableOp,
)
from ..dialects.ptx.types import RegType
from ..ssa.fastir import create

_STEMS = {
    "pred": "%p", "b8": "%rc", "u8": "%rc", "s8": "%rc", "b16": "%rs", "u16": "%rs", "s16": "%rs",
    "b32": "%r", "u32": "%r", "s32": "%r", "b64": "%rd", "u64": "%rd", "s64": "%rd", "b128": "%rq",
    "f16": "%h", "f16x2": "%hh", "f32": "%f", "f64": "%fd",
}  # fmt: skip
"""What nvcc calls registers of each class."""


class Names:
    """Names that are declared in a module (outside its functions) or in functions."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.ranges: list[tuple[str, int]] = []

    def add_module(self, module: Operation | None) -> Names:
        if isinstance(module, ModuleOp):
            for op in module.body.ops:
                if isinstance(op, FunctionOp):
                    self.taken.add(op.symbol)
                elif isinstance(op, VariableOp):
                    self._add(op.declaration)
        return self

    def add_function(self, function: FunctionOp) -> Names:
        for declaration in (*function.parameters, *function.returns):
            self._add(declaration)
        for block in function.blocks:
            for op in block.ops:
                if isinstance(op, (RegisterOp, VariableOp)):
                    self._add(op.declaration)
                elif isinstance(op, (LabelOp, LabelListOp)):
                    self.taken.add(op.label)
        return self

    def _add(self, declaration: DeclarationAttr) -> None:
        for i, (name, tail) in enumerate(declaration.items):
            if tail[:1] == ("<",):
                self.ranges.append((name, declaration.count(i) or 0))
            else:
                self.taken.add(name)

    def is_free(self, name: str) -> bool:
        if name in self.taken:
            return False
        for stem, count in self.ranges:
            digits = name[len(stem) :]
            if name.startswith(stem) and digits.isdigit() and int(digits) < count:
                return False
        return True


class FreshNames(Names):
    """Names that nothing in a function or its module has."""

    def __init__(self, function: FunctionOp):
        super().__init__()
        self.function = function
        self.add_module(function.parent_op()).add_function(function)

    def name(self, stem: str) -> str:
        """A free name: the stem itself, else with a number after it. It is taken from now on."""
        name, n = stem, 0
        while not self.is_free(name):
            name, n = f"{stem}_{n}" if stem[-1:].isdigit() else f"{stem}{n}", n + 1
        self.taken.add(name)
        return name


class FreshRegisters:
    """New registers of a function. `declare()` adds what was handed out to the function's declarations."""

    def __init__(self, function: FunctionOp, names: FreshNames | None = None):
        self.function = function
        self.names = names or FreshNames(function)
        self._ranges: dict[str, tuple[str, int, RegisterOp | None, int]] = {}
        """Class -> (stem, next number, the declaration to extend, index of the range in it)."""

    def type(self, register_class: str) -> RegType:
        """The type of a register that the function does not have yet."""
        entry = self._ranges.get(register_class)
        if entry is None:
            entry = self._extendable(register_class) or (self._new_stem(register_class), 0, None, 0)
        stem, number, op, item = entry
        name = f"{stem}{number}"
        if op is not None and not self.names.is_free(name):
            stem, number, op, item = self._new_stem(register_class), 0, None, 0
            name = f"{stem}0"
        self._ranges[register_class] = (stem, number + 1, op, item)
        self.names.taken.add(name)
        return RegType((register_class, name, 0))

    def declare(self) -> None:
        """Write the declarations: extend the function's own ranges, or add new ones at its head."""
        new: list[Operation] = []
        for register_class, (stem, count, op, item) in self._ranges.items():
            tail = ("<", str(count), ">")
            if op is not None:
                head, items = op.declaration.data
                op.declaration = DeclarationAttr((head, (*items[:item], (stem, tail), *items[item + 1 :])))
                continue
            vector, _, scalar = register_class.rpartition(".")
            words = (".reg", *(["." + vector] if vector else []), "." + scalar)
            declaration = DeclarationAttr((words, ((stem, tail),)))
            new.append(create(RegisterOp, (), (), {"declaration": declaration}, {}))
        self._ranges.clear()
        if not new:
            return
        block = self.function.blocks[0]
        after = last_declaration(block)
        if after is not None:
            block.insert_ops_after(new, after)
        elif block.first_op is not None:
            block.insert_ops_before(new, block.first_op)
        else:
            block.add_ops(new)

    def _extendable(self, register_class: str) -> tuple[str, int, RegisterOp | None, int] | None:
        for op in self.function.blocks[0].ops:
            if isinstance(op, (Instruction, ScopeBeginOp)):
                return None
            if isinstance(op, RegisterOp) and op.declaration.register_class == register_class:
                for item, (stem, tail) in enumerate(op.declaration.items):
                    if tail[:1] == ("<",) and self.names.is_free(f"{stem}{op.declaration.count(item)}"):
                        return stem, op.declaration.count(item) or 0, op, item
        return None

    def _new_stem(self, register_class: str) -> str:
        stem = _STEMS.get(register_class, "%v")
        while True:
            used = any(
                s.startswith(stem) and (not s[len(stem) :] or s[len(stem) :].isdigit()) for s, _ in self.names.ranges
            )
            if not used and not any(n.startswith(stem) and n[len(stem) :].isdigit() for n in self.names.taken):
                return stem
            stem += "_"


def last_declaration(block: Block) -> Operation | None:
    """The op after which a function's new declarations may stand: its last leading declaration, else what
    prints nothing.
    """
    found: Operation | None = None
    for op in block.ops:
        if isinstance(op, (Instruction, ScopeBeginOp)):
            break
        if isinstance(op, (RegisterOp, ParameterOp, UndefOp)):
            found = op
    return found
