"""What xDSL's passes may ask of the dialect's ops: the traits of each kind of op class."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Operation
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    OpTrait,
    Pure,
    SymbolOpInterface,
    SymbolTable,
)

from .effects import InstructionEffects, InstructionSpeculatable
from .rewrites import InstructionFolder, InstructionPatterns
from .structure import ModuleOp


class FunctionTable(SymbolTable):
    """The functions of a module by name. PTX lets a function be declared before it is defined, and more than once."""

    def verify(self, op: Operation) -> None:
        """`analysis.module_rules` judges what may be declared again."""

    @staticmethod
    def lookup_symbol(op: Operation, name: str | StringAttr | SymbolRefAttr) -> Operation | None:
        """The definition of that function, else its first declaration; None if there is neither."""
        while not isinstance(op, ModuleOp):
            parent = op.parent_op()
            if parent is None:
                raise ValueError(f"{op.name} is not inside a ptx.module")
            op = parent
        wanted = name.root_reference.data if isinstance(name, SymbolRefAttr) else name
        wanted = wanted.data if isinstance(wanted, StringAttr) else wanted
        found = [function for function in op.functions if function.symbol == wanted]
        return next((f for f in found if not f.is_declaration), found[0] if found else None)


_INSTRUCTION = (InstructionEffects(), InstructionSpeculatable(), InstructionFolder(), InstructionPatterns())

TRAITS: dict[str, tuple[OpTrait, ...]] = {
    "instruction": _INSTRUCTION,
    "terminator": (IsTerminator(), *_INSTRUCTION),
    "module": (NoTerminator(), IsolatedFromAbove(), FunctionTable()),
    "function": (IsolatedFromAbove(), SymbolOpInterface()),
    "undefined": (Pure(),),
    "fall": (IsTerminator(),),
}
