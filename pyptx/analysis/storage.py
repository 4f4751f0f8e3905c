"""Which 32-bit registers each value occupies when values that are the same bits share them (see `pressure`)."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ..dialects.ptx.conversion import Cvt
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.move import Mov
from ..dialects.ptx.movement import ConvertAddress
from ..dialects.ptx.operands import Bound, Group, Value, bound_operands
from ..dialects.ptx.structure import FunctionOp, UndefOp
from ..dialects.ptx.syntax import Immediate
from ..dialects.ptx.types import class_bits
from .cfg import CFG
from .operands import register_class

Units = tuple[int, ...]
"""The 32-bit registers a value occupies, low bits first; values that share bits share numbers."""


def storage_of(function: FunctionOp, cfg: CFG) -> Storage:
    """The storage of every value of a function."""
    storage = Storage()
    for block in cfg.blocks:
        for argument in block.args:
            storage.fresh(argument)
        for op in block.ops:
            storage.define(op)
    return storage


class Storage:
    """Which 32-bit registers each value occupies in the estimate, and its size as written."""

    def __init__(self) -> None:
        self.units: dict[SSAValue, Units] = {}
        self.size: dict[SSAValue, tuple[int, int]] = {}
        self.next = 0

    def weight(self, value: SSAValue) -> int:
        """Registers of a value in the estimate."""
        return len(self.units[value])

    def fresh(self, value: SSAValue) -> None:
        """Registers of its own."""
        class_ = register_class(value)
        registers = 0 if class_ == "pred" else -(-class_bits(class_) // 32)
        self.size[value] = registers, int(class_ == "pred")
        self.units[value] = tuple(range(self.next, self.next + registers))
        self.next += registers

    def define(self, op: Operation) -> None:
        """The results of an op."""
        for value in op.results:
            self.fresh(value)
        if isinstance(op, UndefOp):
            for value in op.results:
                self.units[value] = ()
        if not isinstance(op, Instruction) or op.guard:
            return
        if isinstance(op, (Mov, ConvertAddress, Cvt)):
            self._copy(op)

    def _copy(self, op: Instruction) -> None:
        bound = bound_operands(op)
        if len(bound) != 2:
            return
        target, source = bound
        if isinstance(op, Cvt):
            types = [m for m in op.modifiers if m[1:].isdigit() and m[0] in "bsu"]
            if len(types) != len(op.modifiers) or len(types) != 2:
                return
            wide, narrow = int(types[0][1:]), int(types[1][1:])
            if (
                (wide, narrow) == (64, 32)
                and types[1][0] == "u"
                and isinstance(source, Value)
                and isinstance(target, Value)
            ):
                self.units[target.value] = self._of(source)[:1]  # the high half is zero, which costs nothing
            elif (wide, narrow) == (64, 32) and isinstance(source, Value) and isinstance(target, Value):
                self.units[target.value] = (*self._of(source)[:1], *self.units[target.value][1:])
            elif (wide, narrow) == (32, 64) and isinstance(source, Value) and isinstance(target, Value):
                self.units[target.value] = self._of(source)[:1]
            return
        match target, source:
            case Value(value, True, ""), Value(_, False, "") if self.size[value][0] == self._size(source):
                self.units[value] = self._of(source)
            case Value(value, True, ""), Group(elements) if self._whole(elements):
                self.units[value] = tuple(u for e in elements for u in self._of(e))
            case Group(elements), Value(_, False, ""):
                self._split(elements, self._of(source))
            case _:
                pass

    def _split(self, elements: tuple[Bound, ...], units: Units) -> None:
        """`mov.b64 {lo, hi}, pair`: parts of 32 bits are registers of the pair, smaller ones lie in one."""
        at = 0
        for i, element in enumerate(elements):
            size = self._size(element) or 1
            if isinstance(element, Value) and class_bits(register_class(element.value)) >= 32:
                self.units[element.value] = units[at : at + size] if len(units) >= at + size else ()
            elif isinstance(element, Value) and units:
                share = len(elements) // max(len(units), 1) or 1
                self.units[element.value] = units[i // share : i // share + 1]
            at += size

    def _whole(self, elements: tuple[Bound, ...]) -> bool:
        return all(
            isinstance(e, Immediate) or (isinstance(e, Value) and class_bits(register_class(e.value)) >= 32)
            for e in elements
        )

    def _of(self, source: Bound) -> Units:
        return self.units.get(source.value, ()) if isinstance(source, Value) else ()

    def _size(self, source: Bound) -> int:
        return self.size.get(source.value, (0, 0))[0] if isinstance(source, Value) else 0
