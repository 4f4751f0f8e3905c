"""Machine instructions as rows of the replay's table: the pipe, how long it is taken, and what the instruction waits for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..sass import Function, Immediate, Instruction, Keyword, Register
from . import layout as r
from .cards import Card
from .layout import Unit
from .native import Ints

__all__ = ["ASYNCHRONOUS", "Use", "asynchronous", "pipe_of", "table", "unit_of", "use_of"]

WARP, SUBCORES = 32, 4


class Use(NamedTuple):
    """The pipe of an instruction, the cycles that it is taken for in a sub-core, and the latency that scoreboards see."""

    unit: Unit
    interval: int
    latency: int
    kind: int = r.PLAIN


def _opcodes(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNITS = {
    Unit.BRANCH: _opcodes(
        "BRA BRX JMP JMX EXIT KILL CALL RET BSSY BSYNC BREAK WARPSYNC NOP YIELD NANOSLEEP BMOV DEPBAR ERRBAR MEMBAR CCTL CCTLL BPT ACQBULK PREEXIT ENDCOLLECTIVE CGAERRBAR FENCE DEPCHK RPCMOV USETMAXREG PMTRIG"
    ),
    Unit.FMA: _opcodes("FFMA FADD FMUL FADD32I FMUL32I FFMA32I FFMA2 FADD2 FMUL2"),
    Unit.IMAD: _opcodes("IMAD IMAD32I IDP"),
    Unit.XU: _opcodes("MUFU I2F F2I F2F FRND I2FP F2IP POPC FLO BREV I2I"),
    Unit.MEMORY: _opcodes(
        "LDG STG LD ST LDS STS LDL STL LDSM STSM LDGSTS LDGDEPBAR ATOM ATOMG ATOMS RED REDG REDS SHFL BAR MOVM REDUX MATCH TEX TLD TLD4 TMML TXD TXQ SULD SUST SURED SUATOM"
    ),
    Unit.TENSOR: _opcodes("HMMA QMMA OMMA IMMA DMMA BMMA"),
    Unit.HALF: _opcodes("HADD2 HFMA2 HMUL2 HSETP2 HMNMX2 HSET2"),
    Unit.DOUBLE: _opcodes("DADD DMUL DFMA DSETP"),
    Unit.UNIFORM: _opcodes("S2UR R2UR LDC LDCU CREDUX VOTEU ELECT"),
    Unit.ALU: _opcodes(
        "IADD3 IADD VIADD VIADDMNMX LEA LOP3 PLOP3 SHF SHL SHR ISETP FSETP SEL FSEL IMNMX VIMNMX VIMNMX3 FMNMX FMNMX3 PRMT IABS BMSK SGXT "
        "MOV MOV32I CS2R S2R P2R R2P VOTE F2FP FSET FCHK IADD32I LOP32I B2R LEPC I2IP VABSDIFF VABSDIFF4 ISCADD BFE BFI R2B CS2UR CSMTEST GETLMEMBASE QSPC"
    ),
}
ASYNCHRONOUS = {
    "TMA": _opcodes("UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UBLKCP UBLKRED UBLKPF"),
    "mbarrier": _opcodes("SYNCS ARRIVES UCGABAR_ARV UCGABAR_WAIT UCGABAR_GET"),
    "remote store": _opcodes("STAS REDAS"),
    "wgmma": _opcodes("HGMMA QGMMA IGMMA BGMMA WARPGROUP WARPGROUPDEPBAR WARPGROUPSET"),
    "tcgen05": _opcodes(
        "LDTM STTM LDT STT UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCMXQMMA UTCBAR UTCCP UTCSHIFT UTCATOMSWS UVIRTCOUNT"
    ),
    "work queue": _opcodes("UGETNEXTWORKID"),
}
"""What runs by itself, or waits for that."""
REPLAYED = _opcodes(
    "UTMALDG UTMASTG UTMAREDG SYNCS HGMMA QGMMA IGMMA BGMMA WARPGROUP LDTM STTM LDT STT UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCMXQMMA UTCBAR "
    "UTCATOMSWS UVIRTCOUNT STAS"
)
"""Of those, what the replay knows; the time of kernels with others is only bounded (`bounds`)."""
WAITS_ONLY = frozenset("UCGABAR_ARV UCGABAR_WAIT UCGABAR_GET ARRIVES UTMACCTL UTMACMDFLUSH".split())
_ASYNCHRONOUS = {opcode: name for name, opcodes in ASYNCHRONOUS.items() for opcode in opcodes}
NAMES = {
    Unit.BRANCH: "branch", Unit.FMA: "fp32", Unit.ALU: "integer", Unit.IMAD: "multiply", Unit.XU: "special", Unit.MEMORY: "memory",
    Unit.TENSOR: "tensor", Unit.UNIFORM: "uniform", Unit.HALF: "half", Unit.DOUBLE: "fp64",
}  # fmt: skip
_OF = {opcode: unit for unit, opcodes in UNITS.items() for opcode in opcodes}
_KINDS = {
    "BAR": r.BARRIER,
    "DEPBAR": r.WAIT_GROUPS,
    "LDGDEPBAR": r.COMMIT,
    "LDSM": r.LDMATRIX,
    "STSM": r.LDMATRIX,
    "SHFL": r.SHUFFLE,
}


def asynchronous(function: Function) -> list[str]:
    """The opcodes of a function that run by themselves, or wait for that."""
    return sorted({i.opcode for i in function if i.opcode in _ASYNCHRONOUS} - WAITS_ONLY)


def not_replayed(function: Function) -> list[str]:
    """The opcodes of a function that keep it from being replayed."""
    return [opcode for opcode in asynchronous(function) if opcode not in REPLAYED]


def unit_of(instruction: Instruction) -> Unit | None:
    """The pipe that it goes to; None for an opcode whose pipe is not known."""
    found = _OF.get(instruction.opcode)
    if found is None and re.match(r"U(?!T|BLK|GETNEXT|VIRT|SETMAXREG)", instruction.opcode):
        return Unit.UNIFORM
    return found


def pipe_of(instruction: Instruction) -> str | None:
    """The name of the pipe, or of the unit that works by itself; None for an opcode that is not known."""
    if found := _ASYNCHRONOUS.get(instruction.opcode):
        return found
    unit = unit_of(instruction)
    return None if unit is None else NAMES[unit]


def _cycles(rate: float) -> int:
    """The cycles that 32 lanes take at so many results of a clock and SM."""
    return max(1, round(WARP * SUBCORES / rate))


_INTERVALS: dict[Unit, Callable[[Instruction, Card], int]] = {
    Unit.FMA: lambda i, card: _cycles(card.architecture.fp32.value) * (2 if i.opcode.endswith("2") else 1),
    Unit.IMAD: lambda i, card: _cycles(card.architecture.multiply.value) * (2 if {"WIDE", "HI"} & {*i.modifiers} else 1),
    Unit.ALU: lambda i, card: _cycles(card.architecture.integer.value),
    Unit.XU: lambda i, card: _cycles(card.architecture.special.value),
    Unit.DOUBLE: lambda i, card: _cycles(card.architecture.fp64.value),
    Unit.HALF: lambda i, card: _cycles(card.architecture.half2.value / 2),
    Unit.TENSOR: lambda i, card: tensor_interval(i, card),
    Unit.UNIFORM: lambda i, card: 2,
    Unit.MEMORY: lambda i, card: 1,
    Unit.BRANCH: lambda i, card: 1,
}  # fmt: skip
_LATENCIES = {
    Unit.FMA: 20, Unit.IMAD: 20, Unit.ALU: 20, Unit.XU: 25, Unit.DOUBLE: 50, Unit.HALF: 20, Unit.UNIFORM: 22, Unit.MEMORY: 25, Unit.BRANCH: 20,
}  # fmt: skip
_OPCODE_LATENCIES = {"MUFU": 30, "MOVM": 30, "S2R": 28, "CS2R": 28, "LDC": 28, "LDCU": 28, "ULDC": 28}
"""Where an opcode's latency is not that of its unit."""


def use_of(instruction: Instruction, card: Card) -> Use | None:
    """What an instruction needs on a card; None where its pipe is not known."""
    unit, opcode = unit_of(instruction), instruction.opcode
    if unit is None:
        return _ASYNCHRONOUS_USES.get(opcode, _issued)(instruction) if opcode in _ASYNCHRONOUS else None
    if unit is Unit.TENSOR:
        latency = round(card.architecture.tensor_latency.value)
    else:
        latency = _OPCODE_LATENCIES.get(opcode, _LATENCIES[unit])
    kind = _KINDS.get(opcode, r.PLAIN)
    if kind == r.BARRIER and "ARV" in instruction.modifiers:
        kind = r.ARRIVE
    return Use(unit, _INTERVALS[unit](instruction, card), latency, kind)


def _issued(_instruction: Instruction) -> Use:
    """What is issued and then works by itself; its own time is the replay's matter (`completions`)."""
    return Use(Unit.UNIFORM, 2, 22)


def _wgmma(instruction: Instruction) -> Use:
    return Use(Unit.TENSOR, wgmma_interval(instruction), WGMMA_LATENCY, r.WARPGROUP_MATRIX)


def _warpgroup(instruction: Instruction) -> Use:
    return Use(Unit.BRANCH, 1, 20, r.WAIT_MATRICES if "DEPBAR" in instruction.modifiers else r.PLAIN)


def _tensor_memory(instruction: Instruction) -> Use:
    return Use(Unit.UNIFORM, max(2, registers_of(instruction)), 20 + registers_of(instruction))


_ASYNCHRONOUS_USES: dict[str, Callable[[Instruction], Use]] = {
    **dict.fromkeys("HGMMA QGMMA IGMMA BGMMA".split(), _wgmma),
    **dict.fromkeys("LDTM LDT STTM STT".split(), _tensor_memory),
    "WARPGROUP": _warpgroup,
    "UTMACMDFLUSH": lambda _: Use(Unit.UNIFORM, 2, 22, r.COMMIT),
}


WGMMA_LATENCY = 24
"""From the last cycle of a wgmma to its results."""
SHARED_BYTES_CLOCK = 128


def registers_of(instruction: Instruction) -> int:
    """The registers that a load from tensor memory writes in each lane."""
    return next((int(m[1:]) for m in instruction.modifiers if re.fullmatch(r"x\d+", m)), 1)


def wgmma_interval(instruction: Instruction) -> int:
    """The cycles of the tensor core of a sub-core: half a cycle for each column of B with 32 bytes of K, or the time that shared memory needs
    for the operands that lie there, of 64 rows and N columns (HOP).
    """
    shape = next((m for m in instruction.modifiers if re.fullmatch(r"64x\d+x\d+", m)), "64x256x16")
    n = int(shape.split("x")[1])
    in_registers = isinstance(instruction.operands[1], Register)
    width = 2 if "SP" in instruction.modifiers else 1
    read = ((0 if in_registers else 64) + width * n) * 32 / SHARED_BYTES_CLOCK
    return max(1, round(max(n / 2 * (2 if "TF32" in instruction.modifiers and shape.endswith("x16") else 1), read)))


def operations(instruction: Instruction) -> int:
    """Multiplications and additions of a tensor-core instruction of one warp; 0 where its shape is not known."""
    for modifier in instruction.modifiers:
        if found := re.fullmatch(r"(8|16)(8)(\d{1,3})", modifier):
            m, n, k = map(int, found.groups())
            return 2 * m * n * k
    return 0


RATES = {"QMMA": 2.0, "IMMA": 2.0, "OMMA": 4.0}
"""Operations of other types against those of halves."""


def tensor_interval(instruction: Instruction, card: Card) -> int:
    """The cycles between matrix instructions of a sub-core."""
    rate = card.architecture.tensor.value * RATES.get(instruction.opcode, 1.0)
    if "F32" in instruction.modifiers and instruction.opcode in ("HMMA", "QMMA", "OMMA"):
        rate *= card.tensor_factor
    if "TF32" in instruction.modifiers:
        rate /= 2
    return max(1, round(operations(instruction) * SUBCORES / rate)) if operations(instruction) else 16


_PORTS = {Unit.FMA, Unit.IMAD, Unit.ALU, Unit.TENSOR, Unit.HALF}


def table(function: Function, card: Card) -> tuple[Ints, dict[int, str]]:
    """The rows, and the instructions whose pipe is not known, by index."""
    rows = np.zeros((len(function.instructions), r.COLUMNS), np.int64)
    rows[:, r.SOURCE_0 :] = -1
    unknown: dict[int, str] = {}
    for index, (row, i) in enumerate(zip(rows, function.instructions, strict=True)):
        use = use_of(i, card)
        if use is None:
            unknown[index] = i.mnemonic
            use = Use(Unit.ALU, 2, 30)
        control = i.control
        row[r.UNIT], row[r.INTERVAL], row[r.LATENCY], row[r.KIND] = use.unit, use.interval, use.latency, use.kind
        row[r.STALL] = control.stall
        row[r.WRITE_BARRIER] = 7 if control.write_barrier is None else control.write_barrier
        row[r.READ_BARRIER] = 7 if control.read_barrier is None else control.read_barrier
        row[r.WAIT] = sum(1 << n for n in control.wait)
        row[r.REUSE] = sum(1 << n for n in control.reuse)
        if use.kind == r.WAIT_GROUPS:
            row[r.GROUPS] = next((int(o.value) for o in i.operands if isinstance(o, Immediate)), 0)
            if "LE" not in i.modifiers:
                row[r.KIND] = r.PLAIN
        elif use.kind == r.WAIT_MATRICES:
            row[r.GROUPS] = next((int(o.value) for o in i.operands if isinstance(o, Immediate)), 0)
        elif use.kind == r.WARPGROUP_MATRIX:
            row[r.GROUPS] = int(any(isinstance(o, Keyword) and o.text.startswith("gsb") for o in i.operands))
        if use.unit in _PORTS and use.kind != r.WARPGROUP_MATRIX:
            sources = [o for o in i.operands[1:] if not (isinstance(o, Register) and o.file in ("P", "UP"))][:3]
            for column, source in enumerate(sources):
                if isinstance(source, Register) and source.file == "R" and source.number is not None:
                    row[r.SOURCE_0 + column] = source.number
                    row[r.PORTS] = 1
    return rows, unknown
