"""Machine instructions as rows of numbers, for `emulate`: what each does to registers, predicates and the program counter.

One function for each family of opcodes, in `FAMILIES`. An opcode that is in no family does nothing and makes what it writes unknown; where that
reaches a branch or an address, the prediction says so.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from ..sass import Constant, Function, Immediate, Instruction, Label, Memory, Operand, Register
from . import codes as e
from .native import Ints

__all__ = ["Encoded", "encode"]

SPECIALS = (
    "SR_TID.X", "SR_TID.Y", "SR_TID.Z", "SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z", "SR_LANEID", "SR_WARPID", "SR_SWINHI", "SR_LTMASK",
    "SR_LEMASK", "SR_GTMASK", "SR_GEMASK", "SR_EQMASK", "SR_CgaCtaId", "SR_SMEMSZ", "SR_TID", "SR_CgaSize",
)  # fmt: skip
"""Those that have slots; others read as zero."""
_UNIFORM = ("U", "R2UR", "S2UR", "LDCU", "VOTEU")
"""How the opcodes of instructions begin that run once for all lanes."""
_NO_CODE = frozenset(
    "NOP WARPSYNC YIELD DEPBAR LDGDEPBAR MEMBAR ERRBAR CCTL CCTLL CCTLT NANOSLEEP BMOV FENCE WARPGROUP WARPGROUPSET ARRIVES "
    "UTMACMDFLUSH UTMACCTL UTMAPF ACQBULK PREEXIT DEPCHK UVIRTCOUNT CGAERRBAR BPT".split()
)
"""Opcodes that neither write a register nor change the flow of control."""


@dataclass
class Encoded:
    """The code of one function."""

    code: Ints
    marks: Ints
    constants: dict[tuple[str, int], int]
    """("c", offset) of the first constant bank or ("i", value) -> the number of its first slot of two, from 0 on."""
    slots: int
    unknown: dict[int, str]
    """Instructions that are in no family: their index, and what they are."""
    local_loads: int = 0


@dataclass
class Encoder:
    function: Function
    constants: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    slots: int = 0
    unknown: dict[int, str] = field(default_factory=dict[int, str])

    # -- operands

    def constant(self, kind: str, value: int) -> int:
        key = (kind, value)
        if key not in self.constants:
            self.constants[key] = self.slots
            self.slots += 2
        return e.CONSTANTS + self.constants[key]

    def slot(self, operand: Operand | None, real: bool = False) -> tuple[int, int]:
        """(slot, flags) of a source."""
        if operand is None:
            return e.ZERO, 0
        kind = e.REAL if real else 0
        if isinstance(operand, Register):
            flags = kind | (e.ABSOLUTE if operand.absolute else 0)
            if operand.negated:
                flags |= e.NEGATE
            return register_slot(operand), flags
        if isinstance(operand, Immediate):
            return self.constant("i", _bits(operand, real)), 0
        if isinstance(operand, Label):
            return self.constant("i", operand.address or 0), 0
        if isinstance(operand, Constant) and operand.bank == 0 and operand.base is None:
            flags = kind | (e.NEGATE if operand.negated else 0) | (e.ABSOLUTE if operand.absolute else 0)
            return self.constant("c", operand.offset), flags
        raise NotEncoded

    def source(self, row: Ints, column: int, operand: Operand | None, more: int = 0, real: bool = False) -> None:
        """`column`: 0, 1 or 2 for A, B, C."""
        slot, flags = self.slot(operand, real)
        if slot == e.ZERO:
            more &= ~e.WIDE  # the slot after it is another register
        row[e.E_A + column] = slot
        row[e.E_FA + column] = flags | more


class NotEncoded(Exception):
    """An operand or form that this module has no row for."""


def register_slot(register: Register) -> int:
    if register.file == "SR":
        return e.SPECIAL + SPECIALS.index(register.special) if register.special in SPECIALS else e.ZERO
    if register.number is None:
        return e.ZERO
    return register.number + (e.UNIFORM if register.file == "UR" else 0)


def predicate(register: Operand | None) -> int:
    """The number of a predicate, 16 more for its complement."""
    if not isinstance(register, Register) or register.file not in ("P", "UP"):
        raise NotEncoded
    number = e.TRUE if register.number is None else register.number
    if register.file == "UP":
        number += e.UNIFORM_PREDICATES
    return number + (16 if register.negated else 0)


def _bits(operand: Immediate, real: bool) -> int:
    """The 64 bits of an immediate: of a float its single-precision ones."""
    if isinstance(operand.value, float):
        return struct.unpack("<I", struct.pack("<f", min(max(operand.value, -3.4028234e38), 3.4028234e38) if abs(operand.value) != float("inf") else operand.value))[0]  # fmt: skip
    if real and not operand.text.lstrip("-+").startswith("0x"):
        return struct.unpack("<I", struct.pack("<f", float(operand.value)))[0]
    return operand.value & (1 << 64) - 1


def is_predicate(operand: Operand) -> bool:
    return isinstance(operand, Register) and operand.file in ("P", "UP")


def split(operands: Sequence[Operand]) -> tuple[list[Register], list[Operand], list[Register]]:
    """(predicates that are written, sources, predicates that are read) of an instruction without its destination."""
    rest = list(operands)
    written: list[Register] = []
    while rest and is_predicate(rest[0]):
        written.append(rest.pop(0))  # pyright: ignore[reportArgumentType]
    read = [o for o in rest if isinstance(o, Register) and is_predicate(o)]
    return written, [o for o in rest if not is_predicate(o)], read


Family = Callable[[Encoder, Ints, Instruction], None]
FAMILIES: dict[str, Family] = {}
Encode = TypeVar("Encode", bound=Callable[..., None])


def family(*opcodes: str, **facts: int) -> Callable[[Encode], Encode]:
    """Register the function of opcodes; `facts`: its arguments for these."""

    def register(function: Encode) -> Encode:
        FAMILIES.update(dict.fromkeys(opcodes, partial(function, **facts)))
        return function

    return register


def written(row: Ints, register: Operand, words: int = 1) -> None:
    """The register that an operation writes."""
    if not isinstance(register, Register):
        raise NotEncoded
    row[e.E_D] = register_slot(register)
    row[e.E_WORDS] = words


def predicates(row: Ints, out: Sequence[Register], read: Sequence[Register]) -> None:
    for column, register in zip((e.E_P, e.E_Q), out, strict=False):
        row[column] = predicate(register) & 15
    for column, register in zip((e.E_I, e.E_J), read, strict=False):
        row[column] = predicate(register)


def operation(row: Ints, op: int) -> None:
    row[e.E_DO], row[e.E_OP] = e.DO_VALUE, op


# -- moves


@family("MOV", "UMOV", "S2R", "S2UR", "R2UR", "IMAD.MOV", "MOV32I", "CREDUX", "R2UR.FILL")
@family("CS2R", words=2)
@family("IABS", flags=e.ABSOLUTE)
def _move(at: Encoder, row: Ints, i: Instruction, words: int = 1, flags: int = 0) -> None:
    """`words`: without a modifier that says how many."""
    _, operands, _ = split(i.operands)
    words = next((n for m, n in (("64", 2), ("32", 1)) if m in i.modifiers), words)
    operation(row, e.V_MOVE)
    written(row, operands[0], words)
    at.source(row, 0, operands[1], flags | (e.WIDE if words == 2 else 0))


@family("LDC", "ULDC", "LDCU")
def _load_constant(at: Encoder, row: Ints, i: Instruction) -> None:
    words = next((n for m, n in (("64", 2), ("128", 4)) if m in i.modifiers), 1)
    source = i.operands[1]
    if not isinstance(source, Constant):
        raise NotEncoded
    if source.bank == 0 and source.base is None and words < 4 and not {"U8", "S8", "U16", "S16"} & {*i.modifiers}:
        operation(row, e.V_MOVE)
        written(row, i.operands[0], words)
        at.source(row, 0, source, e.WIDE if words == 2 else 0)
        return
    row[e.E_DO] = e.DO_CONSTANT
    written(row, i.operands[0], words)
    row[e.E_A] = e.ZERO if source.base is None else register_slot(source.base)
    row[e.E_X] = source.offset
    row[e.E_Y] = int(source.bank != 0 or bool({"U8", "S8", "U16", "S16"} & {*i.modifiers}))


# -- integers


@family("IADD3", "UIADD3", "IADD", "UIADD", "VIADD", "IADD32I")
def _add(at: Encoder, row: Ints, i: Instruction) -> None:
    out, sources, read = split(i.operands[1:])
    wide = "64" in i.modifiers
    extended = "X" in i.modifiers
    operation(row, e.V_ADD)
    written(row, i.operands[0], 2 if wide else 1)
    for column in range(3):
        source = sources[column] if column < len(sources) else None
        at.source(row, column, source, e.WIDE if wide else 0)
    if extended:
        _complement(row)
    predicates(row, out, read if extended else ())


def _complement(row: Ints) -> None:
    """The upper words of a sum that continues with a carry are complemented, not negated."""
    for column in range(3):
        if row[e.E_FA + column] & e.NEGATE:
            row[e.E_FA + column] += e.INVERT - e.NEGATE


@family("IMAD", "UIMAD", "IMAD32I")
def _multiply(at: Encoder, row: Ints, i: Instruction) -> None:
    out, sources, read = split(i.operands[1:])
    signed = 0 if "U32" in i.modifiers else e.SIGNED
    extended = "X" in i.modifiers
    if "WIDE" in i.modifiers:
        operation(row, e.V_MAD)
        written(row, i.operands[0], 2)
        at.source(row, 0, sources[0], signed)
        at.source(row, 1, sources[1], signed)
        at.source(row, 2, sources[2], e.WIDE)
    elif "HI" in i.modifiers:
        operation(row, e.V_HIGH)
        written(row, i.operands[0])
        at.source(row, 0, sources[0], signed)
        at.source(row, 1, sources[1], signed)
        at.source(row, 2, sources[2], e.WIDE)
    else:
        operation(row, e.V_MAD)
        written(row, i.operands[0])
        for column in range(3):
            at.source(row, column, sources[column] if column < len(sources) else None)
    predicates(row, out, read if extended else ())


@family("LEA", "ULEA")
def _lea(at: Encoder, row: Ints, i: Instruction) -> None:
    out, sources, read = split(i.operands[1:])
    high = "HI" in i.modifiers
    written(row, i.operands[0])
    if high:
        operation(row, e.V_LEA_HIGH)
        at.source(row, 0, sources[0])
        at.source(row, 1, sources[1])
        if "SX32" in i.modifiers:
            # the high word is the sign
            operation(row, e.V_LEA_HIGH)
            at.source(row, 0, sources[0], e.SIGNED)
            row[e.E_C], row[e.E_FC] = e.ZERO, 0
            row[e.E_Y] = 1
        else:
            at.source(row, 2, sources[2])
    else:
        operation(row, e.V_LEA)
        at.source(row, 0, sources[0])
        at.source(row, 1, sources[1])
    amount = sources[-1]
    if not isinstance(amount, Immediate) or (not high and len(sources) < 3) or (high and len(sources) < 3):
        raise NotEncoded
    row[e.E_X] = int(amount.value) & 31
    if "X" in i.modifiers:
        _complement(row)
    predicates(row, out, read if "X" in i.modifiers else ())


@family("LOP3", "ULOP3", "LOP32I")
def _lop3(at: Encoder, row: Ints, i: Instruction) -> None:
    out, rest, _ = split(i.operands)
    operation(row, e.V_LOGIC)
    written(row, rest[0])
    table = rest[4]
    if not isinstance(table, Immediate):
        raise NotEncoded
    for column in range(3):
        at.source(row, column, rest[1 + column])
    row[e.E_X] = int(table.value) & 255
    predicates(row, out, ())


@family("SHF", "USHF")
def _funnel(at: Encoder, row: Ints, i: Instruction) -> None:
    left, high = "L" in i.modifiers, "HI" in i.modifiers
    signed = "S32" in i.modifiers or "S64" in i.modifiers
    operation(row, {(1, 0): e.V_LEFT, (1, 1): e.V_LEFT_HIGH, (0, 0): e.V_RIGHT, (0, 1): e.V_RIGHT_HIGH}[left, high])
    written(row, i.operands[0])
    at.source(row, 0, i.operands[1])
    at.source(row, 1, i.operands[2])
    at.source(row, 2, i.operands[3], e.SIGNED if signed else 0)
    bits = 64 if "S64" in i.modifiers or "U64" in i.modifiers else 32
    row[e.E_X] = bits if "W" in i.modifiers else bits + 1  # odd: clamps
    if bits == 64 and high and not left:
        row[e.E_OP] = e.V_RIGHT_HIGH


@family("SHL", "USHL")
def _shift_left(at: Encoder, row: Ints, i: Instruction) -> None:
    operation(row, e.V_LEFT)
    written(row, i.operands[0])
    at.source(row, 0, i.operands[1])
    at.source(row, 1, i.operands[2])
    row[e.E_X] = 32 if "W" in i.modifiers else 33


@family("FCHK")
def _check_division(at: Encoder, row: Ints, i: Instruction) -> None:
    """Whether a division needs the slow path for very large and small numbers: taken to be rare."""
    row[e.E_DO], row[e.E_OP] = e.DO_COMPARE, e.C_FALSE
    out, _, _ = split(i.operands)
    predicates(row, out, ())
    row[e.E_I] = e.TRUE
    at.source(row, 0, None)
    at.source(row, 1, None)


COMPARISONS = {
    "EQ": e.C_EQ,
    "NE": e.C_NE,
    "LT": e.C_LT,
    "LE": e.C_LE,
    "GT": e.C_GT,
    "GE": e.C_GE,
    "T": e.C_TRUE,
    "F": e.C_FALSE,
}
COMBINED = {"AND": 0, "OR": 1, "XOR": 2}


@family("ISETP", "UISETP")
@family("FSETP", real=True)
def _set_predicate(at: Encoder, row: Ints, i: Instruction, real: bool = False) -> None:
    row[e.E_DO] = e.DO_COMPARE
    out, sources, read = split(i.operands)
    name = i.modifiers[0]
    if real:
        if name in ("NAN", "NUM"):
            raise NotEncoded
        row[e.E_OP] = e.C_FLOAT + COMPARISONS[name.removesuffix("U")] + (8 if name.endswith("U") else 0)
    else:
        row[e.E_OP] = COMPARISONS[name]
    signed = 0 if "U32" in i.modifiers or "U64" in i.modifiers or real else e.SIGNED
    wide = e.WIDE if "S64" in i.modifiers or "U64" in i.modifiers or "64" in i.modifiers else 0
    at.source(row, 0, sources[0], signed | wide, real)
    at.source(row, 1, sources[1], signed | wide, real)
    row[e.E_X] = next((COMBINED[m] for m in i.modifiers if m in COMBINED), 0)
    predicates(row, out, read)
    if row[e.E_I] < 0:
        row[e.E_I] = e.TRUE
    row[e.E_Y] = int("EX" in i.modifiers)
    if row[e.E_Y] and row[e.E_J] < 0:
        raise NotEncoded


@family("SEL", "USEL")
@family("FSEL", real=True)
def _select(at: Encoder, row: Ints, i: Instruction, real: bool = False) -> None:
    operation(row, e.V_SELECT)
    written(row, i.operands[0], 2 if "64" in i.modifiers else 1)
    wide = e.WIDE if "64" in i.modifiers else 0
    at.source(row, 0, i.operands[1], wide, real)
    at.source(row, 1, i.operands[2], wide, real)
    predicates(row, (), [o for o in i.operands[3:] if isinstance(o, Register)])


@family("IMNMX", "UIMNMX", "VIMNMX", "UVIMNMX")
@family("FMNMX", real=True)
def _extreme(at: Encoder, row: Ints, i: Instruction, real: bool = False) -> None:
    _, sources, read = split(i.operands[1:])
    operation(row, e.V_MIN)
    written(row, i.operands[0])
    signed = 0 if "U32" in i.modifiers or real else e.SIGNED
    at.source(row, 0, sources[0], signed, real)
    at.source(row, 1, sources[1], signed, real)
    predicates(row, (), read[-1:])
    if real:
        if read[-1].number is not None:
            raise NotEncoded
        row[e.E_OP] = e.F_MAX if read[-1].negated else e.F_MIN
        row[e.E_I] = -1


@family("PRMT", "UPRMT")
def _permute(at: Encoder, row: Ints, i: Instruction) -> None:
    if any(not m.startswith("U") and m not in ("IDX",) for m in i.modifiers):
        raise NotEncoded
    operation(row, e.V_PERMUTE)
    written(row, i.operands[0])
    for column in range(3):
        at.source(row, column, i.operands[1 + column])


@family("BREV", "UBREV", op=e.V_REVERSE)
@family("POPC", "UPOPC", op=e.V_COUNT)
def _one_source(at: Encoder, row: Ints, i: Instruction, op: int) -> None:
    operation(row, op)
    written(row, i.operands[0])
    at.source(row, 0, i.operands[-1])


@family("FLO", "UFLO")
def _leading(at: Encoder, row: Ints, i: Instruction) -> None:
    if "SH" in i.modifiers or "U32" not in i.modifiers:
        raise NotEncoded
    out, sources, _ = split(i.operands[1:])
    operation(row, e.V_LEADING)
    written(row, i.operands[0])
    at.source(row, 0, sources[0])
    if out and out[0].number is not None:
        raise NotEncoded


@family("BMSK", "UBMSK")
def _mask(at: Encoder, row: Ints, i: Instruction) -> None:
    operation(row, e.V_MASK)
    written(row, i.operands[0])
    at.source(row, 0, i.operands[1])
    at.source(row, 1, i.operands[2])


@family("SGXT", "USGXT")
def _extend(at: Encoder, row: Ints, i: Instruction) -> None:
    operation(row, e.V_EXTEND)
    written(row, i.operands[0])
    at.source(row, 0, i.operands[1])
    at.source(row, 1, i.operands[2])
    row[e.E_X] = int("U32" not in i.modifiers)


@family("PLOP3", "UPLOP3")
def _predicate_logic(at: Encoder, row: Ints, i: Instruction) -> None:
    registers = [o for o in i.operands if isinstance(o, Register)]
    tables = [int(o.value) for o in i.operands if isinstance(o, Immediate)]
    row[e.E_DO] = e.DO_LOGIC
    predicates(row, registers[:2], ())
    for column in range(3):
        row[e.E_FA + column] = predicate(registers[2 + column])
    row[e.E_X] = tables[0] & 255
    row[e.E_Y] = tables[1] & 255 if len(tables) > 1 else 0


def bit_of_byte(i: Instruction) -> int:
    """The lowest bit of the byte of a register that holds predicates."""
    words = [*i.modifiers, *(m for o in i.operands if isinstance(o, Register) for m in o.modifiers)]
    return 8 * next((int(m[1]) for m in words if re.fullmatch(r"B\d", m)), 0)


@family("R2P")
def _to_predicates(at: Encoder, row: Ints, i: Instruction) -> None:
    row[e.E_DO], row[e.E_X] = e.DO_TO_PREDICATES, bit_of_byte(i)
    at.source(row, 0, i.operands[1])
    at.source(row, 1, i.operands[2])


@family("P2R")
def _from_predicates(at: Encoder, row: Ints, i: Instruction) -> None:
    row[e.E_DO], row[e.E_X] = e.DO_FROM_PREDICATES, bit_of_byte(i)
    written(row, i.operands[0])
    *_, kept, wanted = i.operands
    at.source(row, 0, kept if len(i.operands) > 3 else None)
    at.source(row, 1, wanted)


# -- floats

FUNCTIONS = {"RCP": e.F_RCP, "RSQ": e.F_RSQ, "SQRT": e.F_SQRT, "EX2": e.F_EX2, "LG2": e.F_LG2}


@family("FADD", "FADD32I", op=e.F_ADD)
@family("FMUL", "FMUL32I", op=e.F_MUL)
@family("FFMA", op=e.F_FMA)
def _real(at: Encoder, row: Ints, i: Instruction, op: int) -> None:
    operation(row, op)
    written(row, i.operands[0])
    for column, source in enumerate(i.operands[1:4]):
        at.source(row, column, source, 0, True)


@family("MUFU")
def _function(at: Encoder, row: Ints, i: Instruction) -> None:
    name = next((m for m in i.modifiers if m in FUNCTIONS), None)
    if name is None or "F16" in i.modifiers:
        raise NotEncoded
    operation(row, FUNCTIONS[name])
    written(row, i.operands[0])
    at.source(row, 0, i.operands[1], 0, True)


@family("I2F", "I2FP")
def _from_integer(at: Encoder, row: Ints, i: Instruction) -> None:
    if {"F16", "F64", "S64", "U64", "S8", "U8", "S16", "U16", "BF16"} & {*i.modifiers}:
        raise NotEncoded
    operation(row, e.F_FROM_UINT if "U32" in i.modifiers else e.F_FROM_INT)
    written(row, i.operands[0])
    at.source(row, 0, i.operands[1])


@family("F2I", "F2IP")
def _to_integer(at: Encoder, row: Ints, i: Instruction) -> None:
    if {"F16", "F64", "S64", "U64", "FLOOR", "CEIL"} & {*i.modifiers} or not {"TRUNC", "NTZ"} & {*i.modifiers}:
        raise NotEncoded
    operation(row, e.F_TO_INT)
    written(row, i.operands[0])
    at.source(row, 0, i.operands[1], 0, True)
    row[e.E_X] = int("U32" in i.modifiers)


@family("HFMA2")
def _packed_constant(at: Encoder, row: Ints, i: Instruction) -> None:
    """ptxas makes constants of two halves with `HFMA2 R1, -RZ, RZ, high, low`."""
    values = [o for o in i.operands if isinstance(o, Immediate)]
    zeros = [o for o in i.operands[1:] if isinstance(o, Register)]
    if len(values) != 2 or any(z.number is not None for z in zeros):
        raise NotEncoded
    high, low = (int(np.float16(float(v.value)).view(np.uint16)) for v in values)
    operation(row, e.V_MOVE)
    written(row, i.operands[0])
    at.source(row, 0, Immediate(high << 16 | low, "0x"))


# -- control flow


@family("BRA", "JMP")
def _branch(at: Encoder, row: Ints, i: Instruction) -> None:
    if i.target is None:
        raise NotEncoded
    if "DIV" in i.modifiers:  # taken where lanes are apart, which the warp's own code takes care of
        row[e.E_DO] = e.DO_NOTHING
        return
    row[e.E_DO] = e.DO_BRANCH
    row[e.E_TARGET] = i.target // 16
    tests = [o for o in i.operands if isinstance(o, Register) and is_predicate(o)]
    predicates(row, (), tests[:1])
    if len(tests) > 1:
        raise NotEncoded


@family("EXIT", "KILL")
def _exit(at: Encoder, row: Ints, i: Instruction) -> None:
    row[e.E_DO] = e.DO_EXIT


@family("CALL")
def _call(at: Encoder, row: Ints, i: Instruction) -> None:
    if i.target is None:
        raise NotEncoded
    row[e.E_DO] = e.DO_CALL
    row[e.E_TARGET] = i.target // 16


@family("RET")
def _return(at: Encoder, row: Ints, i: Instruction) -> None:
    register = next((o for o in i.operands if isinstance(o, Register)), None)
    if register is None:
        raise NotEncoded
    row[e.E_DO] = e.DO_RETURN
    row[e.E_A] = register_slot(register)


@family("BRX")
def _indirect(at: Encoder, row: Ints, i: Instruction) -> None:
    register = next((o for o in i.operands if isinstance(o, Register) and o.file == "R"), None)
    offset = next((o.value for o in i.operands if isinstance(o, Immediate)), 0)
    if register is None:
        raise NotEncoded
    row[e.E_DO] = e.DO_INDIRECT
    row[e.E_A] = register_slot(register)
    row[e.E_X] = i.address + 16 + int(offset)


@family("BSSY", what=e.DO_BEGIN)
@family("BSYNC", what=e.DO_JOIN)
@family("BREAK", what=e.DO_BREAK)
def _join(at: Encoder, row: Ints, i: Instruction, what: int) -> None:
    register = next((o for o in i.operands if isinstance(o, Register) and o.file == "B"), None)
    if register is None or register.number is None:
        raise NotEncoded
    row[e.E_DO] = what
    row[e.E_X] = register.number


@family("BAR")
def _barrier(at: Encoder, row: Ints, i: Instruction) -> None:
    if "RED" in i.modifiers:
        raise NotEncoded
    row[e.E_DO] = e.DO_ARRIVE if "ARV" in i.modifiers else e.DO_BARRIER
    row[e.E_A] = row[e.E_B] = -1
    for column, (which, operand) in enumerate(zip((e.E_X, e.E_Y), i.operands, strict=False)):
        if isinstance(operand, Immediate):
            row[which] = int(operand.value)
        elif isinstance(operand, Register):
            row[e.E_A + column] = register_slot(operand)


# -- between lanes

SHUFFLES = {"IDX": 0, "UP": 1, "DOWN": 2, "BFLY": 3}


@family("SHFL")
def _shuffle(at: Encoder, row: Ints, i: Instruction) -> None:
    row[e.E_DO] = e.DO_SHUFFLE
    row[e.E_OP] = next(SHUFFLES[m] for m in i.modifiers if m in SHUFFLES)
    out, rest, _ = split(i.operands)
    predicates(row, out, ())
    written(row, rest[0])
    for column in range(3):
        at.source(row, column, rest[1 + column])


@family("VOTE", "VOTEU")
def _vote(at: Encoder, row: Ints, i: Instruction) -> None:
    row[e.E_DO] = e.DO_VOTE
    row[e.E_OP] = {"ALL": 0, "ANY": 1, "EQ": 2}[i.modifiers[0]]
    registers = [o for o in i.operands if isinstance(o, Register)]
    if registers[0].file in ("R", "UR"):
        written(row, registers.pop(0))
    predicates(row, registers[:1] if len(registers) > 1 else (), registers[-1:])


@family("ELECT")
def _elect(at: Encoder, row: Ints, i: Instruction) -> None:
    row[e.E_DO] = e.DO_ELECT
    predicates(row, [o for o in i.operands if is_predicate(o)][:1], ())  # pyright: ignore[reportArgumentType]


# -- memory

WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "16": 2, "64": 8, "128": 16}


def width_of(instruction: Instruction) -> int:
    return next((WIDTHS[m] for m in instruction.modifiers if m in WIDTHS), 4)


def address(at: Encoder, row: Ints, memory: Memory) -> None:
    """Base, uniform register and offset; each register is 64 bits wide where the instruction says so."""
    row[e.E_Y] = 1
    base, uniform = memory.base, memory.uniform
    at.source(row, 0, base)
    at.source(row, 1, uniform)
    row[e.E_X] = memory.offset
    glob = row[e.E_SPACE] in (e.S_GLOBAL, e.S_GENERIC)
    if base is not None:
        scale = next((int(m[1:]) for m in base.modifiers if re.fullmatch(r"X\d+", m)), 1)
        row[e.E_Y] = scale
        if "64" in base.modifiers:
            row[e.E_FA] |= e.WIDE
        elif glob and "U32" not in base.modifiers and base.file == "R" and uniform is not None:
            row[e.E_FA] |= e.SIGNED
        if base.number is None:
            row[e.E_FA] = 0
    if uniform is not None and glob and uniform.number is not None:
        row[e.E_FB] |= e.WIDE


def memory_of(instruction: Instruction) -> Memory:
    found = next((o for o in instruction.operands if isinstance(o, Memory)), None)
    if found is None:
        raise NotEncoded
    return found


@family("LDG", space=e.S_GLOBAL)
@family("LDS", space=e.S_SHARED)
@family("LDL", space=e.S_LOCAL)
@family("LD", space=e.S_GENERIC)
def _load(at: Encoder, row: Ints, i: Instruction, space: int) -> None:
    row[e.E_DO], row[e.E_OP] = e.DO_LOAD, int("S8" in i.modifiers or "S16" in i.modifiers)
    row[e.E_SPACE] = space
    row[e.E_WIDTH] = width_of(i)
    registers = [o for o in i.operands if isinstance(o, Register) and not is_predicate(o)]
    written(row, registers[0])
    address(at, row, memory_of(i))


@family("STG", space=e.S_GLOBAL)
@family("STS", space=e.S_SHARED)
@family("STL", space=e.S_LOCAL)
@family("ST", space=e.S_GENERIC)
def _store(at: Encoder, row: Ints, i: Instruction, space: int) -> None:
    row[e.E_DO] = e.DO_STORE
    row[e.E_SPACE] = space
    row[e.E_WIDTH] = width_of(i)
    address(at, row, memory_of(i))
    at.source(row, 2, i.operands[-1])


@family("ATOM", space=e.S_GENERIC)
@family("ATOMS", "REDS", space=e.S_SHARED)
@family("ATOMG", "REDG", "RED", space=e.S_GLOBAL)
def _atomic(at: Encoder, row: Ints, i: Instruction, space: int) -> None:
    row[e.E_DO], row[e.E_SPACE] = e.DO_ATOMIC, space
    row[e.E_WIDTH] = width_of(i)
    address(at, row, memory_of(i))


@family("LDSM", "STSM")
def _matrix_load(at: Encoder, row: Ints, i: Instruction) -> None:
    """`ldmatrix` and `stmatrix`: 8 rows of 16 bytes for each matrix; the width is 4 bytes a matrix."""
    row[e.E_DO] = e.DO_MATRIX_LOAD
    row[e.E_SPACE] = e.S_SHARED
    row[e.E_WIDTH] = 4 * next((int(m) for m in reversed(i.modifiers) if m in ("2", "4")), 1)
    address(at, row, memory_of(i))


@family("LDGSTS")
def _copy(at: Encoder, row: Ints, i: Instruction) -> None:
    to, source = (o for o in i.operands if isinstance(o, Memory))
    row[e.E_DO] = e.DO_COPY
    row[e.E_SPACE] = e.S_GLOBAL
    row[e.E_WIDTH] = width_of(i)
    address(at, row, source)
    row[e.E_C] = e.ZERO if to.base is None else register_slot(to.base)
    row[e.E_OP] = to.offset
    if to.uniform is not None and to.base is not None and to.uniform.number is not None:
        raise NotEncoded
    if to.base is None and to.uniform is not None:
        row[e.E_C] = register_slot(to.uniform)


# -- the whole function


def encode(function: Function) -> Encoded:
    at = Encoder(function)
    code = np.zeros((len(function.instructions), e.ENCODED), np.int64)
    code[:, [e.E_P, e.E_Q, e.E_I, e.E_J]] = -1
    code[:, [e.E_A, e.E_B, e.E_C, e.E_D]] = e.ZERO
    code[:, e.E_GUARD] = e.TRUE
    marks: list[int] = []
    for index, (row, instruction) in enumerate(zip(code, function.instructions, strict=True)):
        _encode(at, index, row, instruction)
        slots = [mark_slot(name) for name in sorted(instruction.writes)]
        row[e.E_MARKS], row[e.E_MARKED] = len(marks), len(slots)
        marks += slots
        row[e.E_UNIFORM] = int(instruction.opcode.startswith(_UNIFORM))
        if instruction.guard is not None:
            found = re.fullmatch(r"(U?P)(\d+|T)", instruction.guard.register)
            assert found is not None
            number = e.TRUE if found[2] == "T" else int(found[2]) + (e.UNIFORM_PREDICATES if found[1] == "UP" else 0)
            row[e.E_GUARD] = number + (16 if instruction.guard.negated else 0)
    return Encoded(code, np.array(marks or [0], np.int64), at.constants, at.slots, at.unknown)


def _encode(at: Encoder, index: int, row: Ints, instruction: Instruction) -> None:
    blank = row.copy()
    known = FAMILIES.get(instruction.opcode)
    if known is None:
        if instruction.opcode not in _NO_CODE:
            at.unknown[index] = instruction.mnemonic
            row[e.E_DO] = e.DO_CONVERGED
        return
    try:
        known(at, row, instruction)
    except (NotEncoded, IndexError, ValueError, KeyError):
        row[:] = blank
        row[e.E_DO] = e.DO_CONVERGED
        at.unknown[index] = instruction.mnemonic


def mark_slot(name: str) -> int:
    """Where the flag of a register is that says whether it is known."""
    found = re.fullmatch(r"(UR|UP|R|P|B)(\d+)", name)
    if found is None:
        return 1023
    number = int(found[2])
    return {
        "R": number,
        "UR": e.UNIFORM + number,
        "P": 600 + number,
        "UP": 600 + e.UNIFORM_PREDICATES + number,
        "B": 1023,
    }[found[1]]
