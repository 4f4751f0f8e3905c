"""Rows of the emulator for what works by itself: mbarriers, tensor copies, tcgen05, clusters (`asynchronous`)."""

from __future__ import annotations

import re

from ..sass import Function, Instruction, Memory, Register
from . import codes as e
from .encode import Encoded, Encoder, NotEncoded, encode, family, is_predicate, predicate, register_slot, width_of
from .native import Ints


def encode_all(function: Function) -> Encoded:
    """A function with the rows of this module as well: importing it has registered them."""
    return encode(function)


def memories(i: Instruction) -> list[Memory]:
    return [o for o in i.operands if isinstance(o, Memory)]


def uniform(memory: Memory) -> int:
    """The slot of the register that a vector of uniform registers begins with."""
    if memory.uniform is None or memory.uniform.number is None or memory.base is not None:
        raise NotEncoded
    return register_slot(memory.uniform)


ARRIVALS: dict[tuple[str, ...], int] = {(): 0, ("A1T0",): 2, ("A0T1",): 1, ("A0TR",): 1, ("ART0",): 6}
"""What an arrival brings, by its last modifier: bits of `E_OP`."""


@family("SYNCS")
def _mbarrier(at: Encoder, row: Ints, i: Instruction) -> None:
    what = i.modifiers[0]
    (memory,) = memories(i)
    row[e.E_A] = e.ZERO if memory.base is None else register_slot(memory.base)
    row[e.E_B] = e.ZERO if memory.uniform is None else register_slot(memory.uniform)
    row[e.E_X] = memory.offset
    if what == "CCTL":
        row[e.E_DO] = e.DO_NOTHING
        return
    at.source(row, 2, i.operands[-1])
    if what == "EXCH":
        row[e.E_DO] = e.DO_MBARRIER_INIT
    elif what == "PHASECHK":
        row[e.E_DO] = e.DO_MBARRIER_WAIT
        row[e.E_P] = predicate(i.operands[0]) & 15
    elif what == "ARRIVE":
        rest = tuple(m for m in i.modifiers[1:] if m not in ("TRANS64", "RED"))
        row[e.E_DO], row[e.E_OP] = e.DO_MBARRIER_ARRIVE, ARRIVALS[rest]
        row[e.E_Y] = int("RED" in i.modifiers)
        token = i.operands[0]
        row[e.E_D] = register_slot(token) if isinstance(token, Register) else e.ZERO
    else:
        raise NotEncoded


@family("STAS")
def _remote_store(at: Encoder, row: Ints, i: Instruction) -> None:
    """A store to a CTA of the cluster, which an mbarrier of it counts: a register for each address."""
    (memory,) = memories(i)
    if memory.base is None:
        raise NotEncoded
    row[e.E_DO], row[e.E_A], row[e.E_X] = e.DO_REMOTE_STORE, register_slot(memory.base), width_of(i)


@family("UCGABAR_ARV", do=e.DO_CLUSTER_ARRIVE)
@family("UCGABAR_WAIT", do=e.DO_CLUSTER_WAIT)
def _cluster_barrier(at: Encoder, row: Ints, i: Instruction, do: int) -> None:
    row[e.E_DO] = do


@family("UTMALDG", do=e.DO_TENSOR_LOAD)
@family("UTMASTG", do=e.DO_TENSOR_STORE)
@family("UTMAREDG", do=e.DO_TENSOR_STORE)
def _tensor_copy(at: Encoder, row: Ints, i: Instruction, do: int) -> None:
    dimensions = next((int(m[0]) for m in i.modifiers if re.fullmatch(r"[1-5]D", m)), 0)
    if not dimensions or {"IM2COL", "W", "GATHER4", "SCATTER4"} & {*i.modifiers}:
        raise NotEncoded
    vector, tensor_map, *_ = memories(i)
    row[e.E_DO] = do
    row[e.E_A], row[e.E_B], row[e.E_X] = uniform(vector), uniform(tensor_map), dimensions
    if "MULTICAST" in i.modifiers:
        mask = next(o for o in i.operands if isinstance(o, Register))
        row[e.E_C], row[e.E_Y] = register_slot(mask), 1
    row[e.E_Y] += 2 * ("2CTA" in i.modifiers)


@family("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA")
def _matrix(at: Encoder, row: Ints, i: Instruction) -> None:
    """`E_Y`: 1 where the first operand is in tensor memory, 2 for two CTAs."""
    described = next(m for m in memories(i) if m.space == "idesc")
    row[e.E_DO], row[e.E_A] = e.DO_MATRIX, uniform(described)
    row[e.E_Y] = int(memories(i)[0].space == "tmem") + 2 * ("2CTA" in i.modifiers)


@family("UTCBAR")
def _matrix_commit(at: Encoder, row: Ints, i: Instruction) -> None:
    row[e.E_DO], row[e.E_A] = e.DO_MATRIX_COMMIT, uniform(memories(i)[0])
    if "MULTICAST" in i.modifiers:
        mask = i.operands[-1]
        if not isinstance(mask, Register):
            raise NotEncoded
        row[e.E_C], row[e.E_Y] = register_slot(mask), 1


@family("USETMAXREG", "UTCATOMSWS")
def _grant(at: Encoder, row: Ints, i: Instruction) -> None:
    """More registers, or columns of tensor memory: there are enough."""
    row[e.E_DO] = e.DO_GRANT
    registers = [o for o in i.operands if isinstance(o, Register)]
    if registers and is_predicate(registers[0]):
        row[e.E_P] = predicate(registers.pop(0)) & 15
        if len(registers) > 1:
            row[e.E_D] = register_slot(registers[0])
