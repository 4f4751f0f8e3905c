"""The module's variables: where they lie, and what they hold before the first launch (PTX ISA 5.4,
initialisers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...analysis.source_map import SourceMap, map_of
from ...diagnostics import SimulationError
from ...dialects.ptx.structure import DeclarationAttr, FunctionOp, ModuleOp, ScopeBeginOp, ScopeEndOp, VariableOp
from ...dialects.ptx.syntax import evaluate, plain_name
from ...dialects.ptx.types import SCALAR_TYPES
from ..machine.program import CODE_BASE, MODULE_BASE

MOST_BYTES = 4 << 30
"""What the variables of a module may need together."""


@dataclass(slots=True)
class Variable:
    """A module variable with its contents; `space` is global, const or shared, `address` its address
    there.
    """

    name: str
    space: str
    address: int
    size: int
    alignment: int
    external: bool
    declaration: DeclarationAttr
    index: int
    scope: dict[str, str]
    """What the names of a function's variables mean where this one is declared: the keys of `Image.variables`."""


@dataclass(slots=True)
class Image:
    """All variables of a module, and the numbers of its functions."""

    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    functions: dict[str, int] = field(default_factory=dict[str, int])
    operations: dict[str, FunctionOp] = field(default_factory=dict[str, FunctionOp])
    inner: dict[tuple[VariableOp, str], Variable] = field(default_factory=dict[tuple[VariableOp, str], Variable])
    """The variables that are declared inside functions, by declaration and name."""
    sources: SourceMap = field(default_factory=lambda: SourceMap(()))
    """What the `.loc` directives say."""
    top: int = MODULE_BASE
    """Where the next variable may lie."""

    def place(self, key: str, declaration: DeclarationAttr, index: int, scope: dict[str, str]) -> Variable:
        size = declaration.size(index)
        tail = declaration.items[index][1]
        if not size and "=" in tail:
            size = len(_items(tail[tail.index("=") + 1 :])) * ((SCALAR_TYPES[declaration.type].bits + 7) // 8)
        address = 0
        alignment = natural_alignment(declaration)
        if declaration.space in ("global", "const"):
            address = align(self.top, max(256, alignment))
            self.top = address + max(size, 1)
        external = ".extern" in declaration.head
        return Variable(key, declaration.space, address, size, alignment, external, declaration, index, scope)

    def contents(self) -> dict[str, np.ndarray]:
        """Fresh bytes of every .global and .const variable, initialised. SimulationError where they are too many."""
        placed = [v for v in self.variables.values() if v.space in ("global", "const")]
        total = sum(v.size for v in placed)
        if total > MOST_BYTES:
            largest = max(placed, key=lambda v: v.size)
            raise SimulationError(
                f"the .global and .const variables have {total:,} bytes (the largest is {largest.name} with {largest.size:,}): "
                f"at most {MOST_BYTES >> 30} GiB are allowed; pass large arrays as arguments"
            )
        found: dict[str, np.ndarray] = {}
        for v in self.variables.values():
            if v.space in ("global", "const"):
                found[v.name] = self._initial(v)
        return found

    def _initial(self, v: Variable) -> np.ndarray:
        data = np.zeros(max(v.size, 1), np.uint8)
        tail = v.declaration.items[v.index][1]
        if "=" not in tail or v.declaration.type not in SCALAR_TYPES:
            return data
        words = list(tail[tail.index("=") + 1 :])
        scalar = SCALAR_TYPES[v.declaration.type]
        step = (scalar.bits + 7) // 8
        at = 0
        for level, item in _items(words):
            del level
            value, exact = self._value(item, v.scope)
            if isinstance(value, float) or scalar.kind == "float":
                kind = {32: np.float32, 64: np.float64}.get(scalar.bits)
                if exact is not None:
                    raw = exact.to_bytes(step, "little")
                elif kind is None:
                    raw = int(value).to_bytes(step, "little")
                else:
                    raw = np.array([value], kind).tobytes()
            else:
                raw = (int(value) & ((1 << (8 * step)) - 1)).to_bytes(step, "little")
            data[at : at + step] = np.frombuffer(raw, np.uint8)[: len(data) - at]
            at += step
        return data

    def _value(self, words: Sequence[str], scope: dict[str, str]) -> tuple[int | float, int | None]:
        """The value of one initialiser: a number, `symbol`, `generic(symbol)+4`, or `0xFF(symbol)`, a byte
        of an address.
        """
        text = "".join(words)
        mask: int | None = None
        if len(words) > 3 and words[1] == "(" and words[0][:2].lower() == "0x":
            mask = int(words[0], 16)
            words = list(words[2:-1])
            text = "".join(words)
        if text[:2] in ("0f", "0F", "0d", "0D"):
            return evaluate(text), int(text[2:], 16)
        words = [w if w in scope or w in self.variables else plain_name(w) for w in words]
        at = next((i for i, w in enumerate(words) if w in scope or w in self.variables or w in self.functions), None)
        if at is None:
            return evaluate(text), None
        symbol = scope.get(words[at], words[at])
        rest = "".join(words[at + 1 :]).lstrip(")")
        address = self.variables[symbol].address if symbol in self.variables else code_address(self.functions[symbol])
        address += int(evaluate("0" + rest)) if rest else 0
        if mask:
            while not mask & 1:
                mask >>= 1
                address >>= 1
            address &= mask
        return address, None


def code_address(number: int) -> int:
    return CODE_BASE + 16 * number


def _items(words: Sequence[str]) -> list[tuple[int, list[str]]]:
    """The initialisers in order, braces flattened."""
    items: list[tuple[int, list[str]]] = []
    current: list[str] = []
    depth = parentheses = 0
    for word in words:
        if word in "({" and word == "(":
            parentheses += 1
        elif word == ")":
            parentheses -= 1
        if parentheses == 0 and word in ("{", "}", ","):
            if current:
                items.append((depth, current))
                current = []
            depth += (word == "{") - (word == "}")
        else:
            current.append(word)
    if current:
        items.append((depth, current))
    return items


def element_bytes(scalar: str) -> int:
    """The bytes that an index of an array of this type counts in (PTX ISA 6.4.2)."""
    return (SCALAR_TYPES[scalar].bits + 7) // 8 if scalar in SCALAR_TYPES else 8


def align(value: int, alignment: int) -> int:
    return (value + alignment - 1) // alignment * alignment


def natural_alignment(declaration: DeclarationAttr) -> int:
    scalar = SCALAR_TYPES.get(declaration.type)
    element = (scalar.bits + 7) // 8 if scalar is not None else 8
    return declaration.alignment or element * declaration.vector


def build_image(module: ModuleOp) -> Image:
    """Place the .global and .const variables, those declared inside functions too, and number the functions. Shared variables
    get their place per entry.
    """
    image = Image(sources=map_of(module))
    for op in module.body.ops:
        if isinstance(op, VariableOp):
            for name, declaration, index in op.declaration.variables():
                known = image.variables.get(name)
                if known is None or known.external:
                    image.variables[name] = image.place(name, declaration, index, {})
        elif isinstance(op, FunctionOp):
            if op.symbol not in image.functions:
                image.functions[op.symbol] = len(image.functions)
            if not op.is_declaration or op.symbol not in image.operations:
                image.operations[op.symbol] = op
    for function in image.operations.values():
        _place_inner(image, function)
    return image


def _place_inner(image: Image, function: FunctionOp) -> None:
    """Place the .global and .const variables of a body. There is one of each, however often the function is called."""
    scopes: list[dict[str, str]] = [{}]
    for block in function.blocks:
        for op in block.ops:
            if isinstance(op, ScopeBeginOp):
                scopes.append(dict(scopes[-1]))
            elif isinstance(op, ScopeEndOp):
                if len(scopes) > 1:
                    scopes.pop()
            elif isinstance(op, VariableOp) and op.declaration.space in ("global", "const"):
                for name, declaration, index in op.declaration.variables():
                    key = f"{function.symbol}::{name}"  # no name in PTX has a colon
                    while key in image.variables:
                        key += "'"
                    placed = image.place(key, declaration, index, dict(scopes[-1]))
                    image.variables[key] = image.inner[op, name] = placed
                    scopes[-1][name] = key
