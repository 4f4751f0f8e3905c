"""What an instruction needs of the symbols among its operands, from its form and `Instruction.variables`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from .forms import OperandSpec, Use
from .instruction import OPCODES
from .special_registers import SPECIAL_REGISTERS
from .syntax import Address, Element, Not, Operand, Pair, SpecialRegister, Sum, Symbol, Vector
from .types import SCALAR_TYPES


@dataclass(frozen=True, slots=True)
class SymbolUse:
    """A symbol in an instruction: its operand, and what it must be.

    `wanted` is `address` (in brackets), `value` (a variable's address), `displaced` (a variable's address plus an
    offset), `constant` (a symbol plus an offset, a mere number), `number` (that of a variable), `array`, `label`, `branch targets`, `call`, a kind of
    reference such as `texref`, or, for a special register, the directive that it needs in a kernel. `places` are those of legal variables, `references` whether a texture or surface
    reference will do too.
    """

    name: str
    operand: int
    wanted: str
    places: frozenset[str]
    references: bool
    opcode: str
    functions: bool = True
    """Whether a function's name is a value here."""


def symbol_uses(use: Use) -> tuple[SymbolUse, ...]:
    """Every symbol of an instruction that has been read as `use`."""
    if use.symbols is not None:
        return cast("tuple[SymbolUse, ...]", use.symbols)
    specs = use.form.alternative(use.layout) or ()
    addresses = sum(s.kind == "address" for s in specs)
    found: list[SymbolUse] = []
    for i, (spec, operand) in enumerate(zip(specs, use.layout, strict=True)):
        _collect(use, spec, operand, i, addresses == 1, found)
    use.symbols = tuple(found)
    return use.symbols


def _collect(use: Use, spec: OperandSpec, operand: Operand, index: int, alone: bool, found: list[SymbolUse]) -> None:  # noqa: C901  one case for each kind of operand
    cls = OPCODES[use.form.opcode]

    def add(symbol: Symbol, wanted: str, places: frozenset[str] = frozenset(), references: bool = False) -> None:
        found.append(SymbolUse(symbol.name, index, wanted, places, references, cls.opcode, cls.takes_functions))

    match operand:
        case SpecialRegister(name):
            special = SPECIAL_REGISTERS.get(name)
            if special is not None and special.directive:  # as an address ptxas takes it without
                found.append(SymbolUse(name, index, special.directive, frozenset(), False, cls.opcode))
        case Address(base, _, rest):
            if isinstance(base, Symbol) and cls.reference and "&" in spec.parts[0].flags:
                add(base, cls.reference)
            elif isinstance(base, Symbol):
                add(base, "address", *cls.variables(spec.name, use.slots, alone))
            for part, item in zip(spec.parts[1:], rest, strict=False):
                _collect(use, part, item, index, alone, found)
        case Element(Symbol() as array):
            add(array, "array")
            wanted = "address" if spec.kind == "address" else "value"
            add(array, wanted, *cls.variables(spec.name, use.slots, alone))
        case Symbol(_, offset):
            if spec.type == "label":
                add(operand, "label")
            elif spec.type == "symbol":
                add(operand, cls.symbol_kind)
            elif offset and ("&" not in spec.flags or cls.numbers_with_offset):
                add(operand, "number" if spec.type in SCALAR_TYPES else "constant")
            elif offset:
                add(operand, "displaced", *cls.variables(spec.name, use.slots, alone))
            else:
                add(operand, "value", *cls.variables(spec.name, use.slots, alone))
        case Not(inner) | Sum(inner):
            _collect(use, spec, inner, index, alone, found)
        case Vector(elements):
            for element in elements:
                if isinstance(element, Symbol):
                    add(element, "constant" if element.offset else "value")
        case Pair(first, second) if spec.parts:
            _collect(use, spec.parts[0], first, index, alone, found)
            _collect(use, spec.parts[1], second, index, alone, found)
        case _:
            pass
