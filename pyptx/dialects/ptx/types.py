"""PTX scalar types and the register type `!ptx.reg<b32, "%r1">`.

A register's class (`b32`, `pred`, `v4.f32`) and its name live in the SSA type, so printing an operand is one attribute
read and "no copy is needed here" is type equality. PTX ISA 5.2 (types), 9.4 (operand size and type rules).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from .foundation import Data, TypeAttribute, data_attr, irdl_attr_definition
from .memo import Memo

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


@dataclass(frozen=True, slots=True)
class ScalarType:
    """One fundamental or instruction type: its PTX name without the dot, its size in bits and its kind.

    `kind` is one of `bits`, `unsigned`, `signed`, `float`, `packed` (several elements in one register) and `pred`.
    """

    name: str
    bits: int
    kind: str

    @property
    def is_integer(self) -> bool:
        return self.kind in ("unsigned", "signed")


def _table() -> dict[str, ScalarType]:
    rows = [ScalarType("pred", 1, "pred")]
    rows += [ScalarType(f"b{n}", n, "bits") for n in (1, 2, 4, 8, 16, 32, 64, 128, 1024)]
    rows += [ScalarType(f"u{n}", n, "unsigned") for n in (2, 4, 8, 16, 32, 64)]
    rows += [ScalarType(f"s{n}", n, "signed") for n in (2, 4, 8, 16, 32, 64)]
    rows += [ScalarType(f"f{n}", n, "float") for n in (16, 32, 64)]
    rows += [ScalarType("bf16", 16, "float"), ScalarType("tf32", 32, "float")]
    small = {"e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8, "ue8m0": 8, "ue4m3": 8, "ue5m3": 8}
    rows += [ScalarType(name, bits, "float") for name, bits in small.items()]
    packed = {
        "f16x2": 32, "bf16x2": 32, "f32x2": 64, "u16x2": 32, "s16x2": 32, "u8x4": 32, "s8x4": 32,
        "e4m3x2": 16, "e5m2x2": 16, "e3m2x2": 16, "e2m3x2": 16, "e2m1x2": 8, "ue8m0x2": 16, "ue5m3x2": 16,
        "s2f6x2": 16, "e4m3x4": 32, "e5m2x4": 32, "e3m2x4": 32, "e2m3x4": 32, "e2m1x4": 16,
        "e2m1p4x4": 32, "ue8m0x4": 32,
    }  # fmt: skip
    rows += [ScalarType(name, bits, "packed") for name, bits in packed.items()]
    return {row.name: row for row in rows}


SCALAR_TYPES: dict[str, ScalarType] = _table()

REGISTER_CLASSES: tuple[str, ...] = (
    "pred", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64",
    "s8", "s16", "s32", "s64", "f16", "f16x2", "f32", "f64",
)  # fmt: skip
"""Types a `.reg` declaration may have (PTX ISA 5.2.1); bf16, tf32 and the 8-bit floats live in bit registers."""

ARRAY_TYPES = frozenset(
    "e4m3 e5m2 e4m3x2 e5m2x2 e3m2x2 e2m3x2 e2m1x2 ue8m0x2 s2f6x2 e4m3x4 e5m2x4 e3m2x4 e2m3x4 e2m1x4 ue8m0x4 u16x2 s16x2 f32x2".split()
)
"""Types of instructions that arrays may have, and no variable, register or parameter alone."""


def class_bits(register_class: str) -> int:
    """Size in bits of a register class such as `b32`, `pred` or `v2.f32` (all elements together)."""
    vector, _, scalar = register_class.rpartition(".")
    bits = SCALAR_TYPES[scalar].bits
    return bits * int(vector[1:]) if vector else bits


@lru_cache(maxsize=4096)
def register_fits(instruction_type: str, register_class: str, *, wider: bool = False) -> bool:
    """Whether a register declared `register_class` may stand where an instruction wants `instruction_type`.

    Bit-size types fit everything of their size, signed and unsigned mix, integers and floats do not.
    With `wider` (ld, st, cvt: PTX ISA 9.4.1) the register may be larger than the operand.
    """
    want = SCALAR_TYPES.get(instruction_type)
    have = SCALAR_TYPES.get(register_class)
    if want is None or have is None:
        return False
    if want.kind == "pred" or have.kind == "pred":
        return want.kind == have.kind
    if have.bits < want.bits or (have.bits != want.bits and not wider):
        return False
    if have.kind == "bits" or want.kind == "bits" or have.name == want.name:
        return True
    if want.name in _BIT_CARRIED:
        return False
    have_integer = have.is_integer or have.kind == "packed"  # `.reg .f16x2` behaves like .b32 for integers
    if want.name in _PACKED_INTEGERS:
        return have.kind == "packed"
    if have_integer or want.is_integer:
        return have_integer and want.is_integer
    return have.bits == want.bits and want.kind == have.kind


_PACKED_INTEGERS = frozenset({"u16x2", "s16x2", "u8x4", "s8x4"})
_BIT_CARRIED = (
    frozenset(n for n, t in SCALAR_TYPES.items() if t.kind in ("float", "packed"))
    - {"f16", "f32", "f64"}
    - _PACKED_INTEGERS
)


@irdl_attr_definition
class RegType(Data[tuple[str, str, int]], TypeAttribute):
    """A PTX register: `!ptx.reg<b32>` (blank), `!ptx.reg<b32, "%r1">`, `!ptx.reg<b32, "%r1", 2>` in scope 2.

    `data` is (class, name, scope); a blank register has the empty name. The scope tells registers of the same name in
    different `{ }` scopes apart and counts the opening braces before it; it does not print as PTX.
    """

    name: ClassVar[str] = "ptx.reg"

    @property
    def register_class(self) -> str:
        return self.data[0]

    @property
    def register_name(self) -> str:
        return self.data[1]

    @property
    def scope(self) -> int:
        return self.data[2]

    @classmethod
    def of(cls, register_class: str, register_name: str = "", scope: int = 0) -> RegType:
        return cls((register_class, register_name, scope))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, str, int]:
        with parser.in_angle_brackets():
            register_class = parser.parse_identifier()
            name, scope = "", 0
            if parser.parse_optional_punctuation(","):
                name = parser.parse_str_literal()
                if parser.parse_optional_punctuation(","):
                    scope = parser.parse_integer()
        return register_class, name, scope

    def print_parameter(self, printer: Printer) -> None:
        register_class, name, scope = self.data
        with printer.in_angle_brackets():
            printer.print_string(register_class)
            if name:
                printer.print_string(", ")
                printer.print_string_literal(name)
            if scope:
                printer.print_string(f", {scope}")


_registers: Memo[tuple[str, str, int], RegType] = Memo()


def register_type(register_class: str, name: str, scope: int) -> RegType:
    """The one type of the register: files and functions name theirs alike."""
    key = (register_class, name, scope)
    found = _registers.get(key)
    if found is None:
        found = _registers[key] = data_attr(RegType, key)
    return found


def takes_added_constant(register_class: str) -> bool:
    """Whether a register as a source takes a constant that is added, `%r1 + 4`: ptxas generates code for these classes only."""
    scalar = SCALAR_TYPES.get(register_class)
    return scalar is not None and scalar.kind in ("bits", "unsigned", "signed") and scalar.bits <= 64
