"""New names in a function: registers with their declarations, labels, variables."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

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
from ..ssa.numbered import numbered

_STEMS = {
    "pred": "%p", "b8": "%rc", "u8": "%rc", "s8": "%rc", "b16": "%rs", "u16": "%rs", "s16": "%rs",
    "b32": "%r", "u32": "%r", "s32": "%r", "b64": "%rd", "u64": "%rd", "s64": "%rd", "b128": "%rq",
    "f16": "%h", "f16x2": "%hh", "f32": "%f", "f64": "%fd",
}  # fmt: skip
"""What nvcc calls registers of each class."""


class Names:
    """Names that are declared in a module (outside its functions) or in functions. `around` are names that count as well."""

    def __init__(self, around: Names | None = None) -> None:
        self._around = around
        self._taken: set[str] = set()
        self._ranges: dict[str, int] = {}
        """Stem -> how many registers or variables a range has."""
        self._lowest: dict[str, int] = {}
        """Stem -> the smallest number with which it is a name that is taken."""
        self._longer: set[str] = set()
        """Stems which, with a number, are the stem of a range that is not empty."""

    def add_module(self, module: Operation | None) -> Names:
        if isinstance(module, ModuleOp):
            for op in module.body.ops:
                if isinstance(op, FunctionOp):
                    self.take(op.symbol)
                elif isinstance(op, VariableOp):
                    self.add(op.declaration)
        return self

    def add_function(self, function: FunctionOp) -> Names:
        for declaration in (*function.parameters, *function.returns):
            self.add(declaration)
        for block in function.blocks:
            for op in block.ops:
                if isinstance(op, (RegisterOp, VariableOp)):
                    self.add(op.declaration)
                elif isinstance(op, (LabelOp, LabelListOp)):
                    self.take(op.label)
        return self

    def add(self, declaration: DeclarationAttr) -> None:
        for i, (name, tail) in enumerate(declaration.items):
            if tail[:1] == ("<",):
                self.take_range(name, declaration.count(i) or 0)
            else:
                self.take(name)

    def take(self, name: str) -> None:
        """Nothing else is to have this name."""
        if name in self._taken:
            return
        self._taken.add(name)
        for stem, number in numbered(name):
            self._lowest[stem] = min(number, self._lowest.get(stem, number))

    def take_range(self, stem: str, count: int) -> None:
        """Nothing else is to have a name of this range."""
        self._ranges[stem] = max(count, self._ranges.get(stem, 0))
        if count:
            self._longer.update(shorter for shorter, _ in numbered(stem))

    def is_free(self, name: str) -> bool:
        names: Names | None = self
        while names is not None:
            if name in names._taken or any(number < names._ranges.get(stem, 0) for stem, number in numbered(name)):
                return False
            names = names._around
        return True

    def is_free_range(self, stem: str, count: int) -> bool:
        """Whether a range would share no name with what is here, not even were it longer (`%r<20>` and `%r1<5>`)."""
        names: Names | None = self
        while names is not None:
            if stem in names._ranges or names._lowest.get(stem, count) < count:
                return False
            if count and (stem in names._longer or any(names._ranges.get(shorter, 0) for shorter, _ in numbered(stem))):
                return False
            names = names._around
        return True

    def is_free_stem(self, stem: str) -> bool:
        """Whether no name is the stem and a number, and no range has that stem or the stem and a number."""
        names: Names | None = self
        while names is not None:
            if stem in names._ranges or stem in names._lowest or stem in names._longer:
                return False
            names = names._around
        return True


_around: ContextVar[tuple[ModuleOp, Names] | None] = ContextVar("names of the module", default=None)


@contextmanager
def module_names(module: ModuleOp) -> Generator[Names]:
    """While its functions are changed one after another, the names of a module are collected once."""
    names = Names().add_module(module)
    token = _around.set((module, names))
    try:
        yield names
    finally:
        _around.reset(token)


def names_around(module: Operation | None) -> Names:
    """The names that are declared in a module outside its functions."""
    kept = _around.get()
    return kept[1] if kept is not None and kept[0] is module else Names().add_module(module)


class FreshNames(Names):
    """Names that nothing in a function or its module has."""

    def __init__(self, function: FunctionOp, module: Operation | None = None):
        super().__init__(names_around(module or function.parent_op()))
        self._next: dict[str, int] = {}
        self.add_function(function)

    def name(self, stem: str) -> str:
        """A free name: the stem itself, else with a number after it. It is taken from now on."""
        between = "_" if stem[-1:].isdigit() else ""
        n = self._next.get(stem, -1)
        name = stem if n < 0 else f"{stem}{between}{n}"
        while not self.is_free(name):
            n += 1
            name = f"{stem}{between}{n}"
        self._next[stem] = n
        self.take(name)
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
        self.names.take(name)
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
        while not self.names.is_free_stem(stem):
            stem += "_"
        return stem


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
