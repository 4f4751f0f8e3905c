"""tcgen05.mma: matrix multiplication with the accumulator in tensor memory (PTX ISA 9.7.18.10).

Products are exact; the products of one instruction are summed in float32 in an order that PTX leaves open and added to
D, rounding once more. Block-scaled kinds are summed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..machine import Machine
from ..memory import address_of
from ..numerics import formats
from ..program import Address, Imm, Inst, Not, Operand, Vec
from ..shared_operand import OperandError, chunk_addresses, numbers, read_patterns, tell_operand
from ..sparsity import place_nonzeros
from ..tensor_memory import accumulator_places, tensor_memory, touched
from .matrix import unpacked
from .registry import Action, Step, meaning
from .tcgen05 import descriptor_of, each, pair_of
from .tensor_copy import scalar

Array = Any
SCALED = ("kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")
_F8F6F4 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES = {
    "kind::f16": {0: "f16", 1: "bf16"}, "kind::tf32": {2: "tf32"}, "kind::i8": {0: "u8", 1: "s8"},
    "kind::f8f6f4": _F8F6F4, "kind::mxf8f6f4": _F8F6F4, "kind::mxf4": {1: "e2m1"}, "kind::mxf4nvf4": {1: "e2m1"},
}  # fmt: skip
K_BITS = {"f16": 16, "bf16": 16, "tf32": 32}


@dataclass(frozen=True, slots=True)
class Shape:
    """What an instruction descriptor says. `d`: f16, f32 or s32; k: elements of a dense row."""

    kind: str
    d: str
    a: str
    b: str
    m: int
    n: int
    k: int
    negate: bool
    a_mn: bool
    b_mn: bool
    sparse: bool
    saturate: bool
    selector: int
    a_scale: int
    b_scale: int
    scale_type: str


@lru_cache(maxsize=256)
def instruction_shape(word: int, kind: str) -> Shape | str:
    """A 32-bit instruction descriptor, or what is wrong with it. PTX ISA 9.7.18.4.2."""
    scaled = kind in SCALED
    types = TYPES[kind]
    a, b = types.get(word >> 7 & 7), types.get(word >> 10 & 7 if kind not in SCALED[1:] else word >> 10 & 3)
    if a is None or b is None:
        return (
            f"the operand types {word >> 7 & 7} and {word >> 10 & 7} in bits 7 to 12 of the instruction descriptor "
            f"0x{word:08x} are not of .{kind}"
        )
    d = {0: "f16", 1: "f32", 2: "s32"}.get(word >> 4 & 3) if not scaled else "f32"
    legal = ("s32",) if kind == "kind::i8" else ("f32",) if kind == "kind::tf32" else ("f16", "f32")
    if d not in legal:
        return f"the type {word >> 4 & 3} of D in bits 4 and 5 of the instruction descriptor is not of .{kind}"
    m, n = (word >> 24 & 31) << 4, (word >> 17 & 63) << 3
    sparse = bool(word >> 2 & 1)
    k = 64 if kind in SCALED[1:] else 256 // K_BITS.get(a, 8)
    if kind in SCALED[1:] and word >> 31:
        k = 96
    return Shape(
        kind, d or "", a, b, m, n, 2 * k if sparse else k, bool((word >> 13 ^ word >> 14) & 1), bool(word >> 15 & 1),
        bool(word >> 16 & 1), sparse, bool(word >> 3 & 1), word & 3, word >> 29 & 3, word >> 4 & 3,
        "ue8m0" if word >> 23 & 1 else "ue4m3",
    )  # fmt: skip


def _check_shape(s: Shape, group: int, ws: bool) -> str:
    rows = (32, 64, 128) if ws else (64, 128) if group == 1 else (128, 256)
    if s.m not in rows:
        return f"M is {s.m}; it is {' or '.join(map(str, rows))} here"
    if not 8 <= s.n <= 256:
        return f"N is {s.n}; it is 8 to 256"
    if ws and s.n not in (64, 128, 256):
        return f"N is {s.n}; it is 64, 128 or 256 with .ws"
    step = 16 if group == 2 or (s.m == 128 and not ws) else 8
    if s.n % step:
        return f"N is {s.n}; it is a multiple of {step} here"
    return ""


@meaning("tcgen05.mma", ws=False, sparse=False)
@meaning("tcgen05.mma.sp", ws=False, sparse=True)
@meaning("tcgen05.mma.ws", ws=True, sparse=False)
@meaning("tcgen05.mma.ws.sp", ws=True, sparse=True)
def mma(inst: Inst, *, ws: bool, sparse: bool) -> Step:
    return Step(partial(_bind, ws=ws, sparse=sparse))


def _bind(machine: Machine, inst: Inst, ws: bool, sparse: bool) -> Action:
    kind = inst.one_of(*TYPES) or ""
    group = 2 if inst.has("cta_group::2") else 1
    d, a, b, *rest = inst.operands
    metadata = rest.pop(0) if sparse else None
    idesc = rest.pop(0)
    scales = (rest.pop(0), rest.pop(0)) if inst.has("block_scale") else None
    found = rest.pop(0) if rest and isinstance(rest[0], Vec) else None
    disabled = found if isinstance(found, Vec) else None
    enable = rest.pop(0)
    divide = rest[0] if rest and not ws and isinstance(rest[0], Imm) else None
    zero_mask = rest[0] if rest and ws else None
    ashift = inst.has("ashift")

    def issue(lane: int) -> None:
        shape = instruction_shape(scalar(machine, idesc, lane), kind)
        why = shape if isinstance(shape, str) else _check_shape(shape, group, ws)
        if isinstance(shape, str) or why:
            machine.fault(inst, f"tcgen05.mma: {why}", lane)
        if shape.sparse != sparse:
            machine.fault(inst, "the instruction descriptor and the instruction disagree about sparsity", lane)
        if zero_mask is not None and not scalar(machine, zero_mask, lane, "u64") >> 39 & 1:
            machine.fault(inst, "the simulator does not execute zero-column masks", lane)
        if ashift:
            machine.fault(inst, "the simulator does not execute .ashift", lane)
        for observer in machine.observers:
            observer.multiplied(inst, 2 * shape.m * shape.n * shape.k)
        ctas = pair_of(machine, inst, lane)
        rows = shape.m // group
        y = np.concatenate([_read_b(machine, inst, shape, b, c, lane, group) for c in ctas])  # (n, k)
        accumulate = _flag(machine, enable, lane)
        for i, cta in enumerate(ctas):
            x = _read_a(machine, inst, shape, a, cta, lane, rows, ws, group)
            if metadata is not None:
                x = _expanded(machine, inst, shape, metadata, cta, lane, x)
            if scales is not None:
                x, z = _scaled(machine, inst, shape, scales, cta, lane, x, y, rows, group)
            else:
                z = y
            product = machine.arithmetic.product(x, z.T, shape.d)
            if shape.negate:
                product = -product
            keep = None if disabled is None else _disabled(machine, disabled, lane, i)
            shift = 0 if divide is None else int(divide.value)
            _accumulate(machine, inst, shape, d, cta, lane, product, accumulate, shift, rows, ws, group, keep)

    return each(machine, issue)


def _flag(machine: Machine, operand: Operand, lane: int) -> bool:
    if isinstance(operand, Not):
        return not _flag(machine, operand.operand, lane)
    return bool(scalar(machine, operand, lane, "u32" if isinstance(operand, Imm) else "pred"))


def _bits(shape: Shape, kind: str) -> int:
    """Bits of an element in memory: 4 and 6 bit elements of the mixed kinds have a byte each once unpacked."""
    return 4 if shape.kind in SCALED[1:] else K_BITS.get(kind, 8)


def _decoded(shape: Shape, patterns: Array, kind: str, *, in_memory: bool) -> Array:
    """Bit patterns as numbers; those of shared memory are still in their 16-byte chunks."""
    if shape.kind in SCALED[1:]:
        raw = np.ascontiguousarray(patterns).view(np.uint8)
        codes = np.stack([raw & np.uint8(15), raw >> np.uint8(4)], axis=-1).reshape(raw.shape[0], -1)
        return numbers(codes, "e2m1")
    packing = {"e2m1": "b4x16_p64", "e3m2": "b6x16_p32", "e2m3": "b6x16_p32"}.get(kind)
    if packing and in_memory:
        raw = np.ascontiguousarray(patterns)
        patterns = unpacked(raw.reshape(raw.shape[0], -1, 16), packing).reshape(raw.shape)
    return numbers(np.ascontiguousarray(patterns), kind)


def _read(
    machine: Machine,
    inst: Inst,
    shape: Shape,
    operand: Operand,
    cta: int,
    lane: int,
    rows: int,
    k: int,
    kind: str,
    mn: bool,
) -> Array:
    d = descriptor_of(machine, inst, operand, lane)
    bits = _bits(shape, kind)
    if mn and kind in ("e2m1", "e3m2", "e2m3"):
        machine.fault(inst, f"operands of .{kind} are K-major", lane)
    try:
        patterns = read_patterns(machine.shared[cta], machine.shared_size, d, rows, k, bits, mn)
    except OperandError as error:
        machine.fault(inst, str(error), lane)
    if machine.observers:
        tell_operand(machine, inst, lane, cta, chunk_addresses(rows, k * bits // 8, rows * bits // 8, k, d, mn))
    return _decoded(shape, patterns, kind, in_memory=True)


def _read_b(machine: Machine, inst: Inst, shape: Shape, b: Operand, cta: int, lane: int, group: int) -> Array:
    return _read(machine, inst, shape, b, cta, lane, shape.n // group, shape.k, shape.b, shape.b_mn)


def _read_a(
    machine: Machine, inst: Inst, shape: Shape, a: Operand, cta: int, lane: int, rows: int, ws: bool, group: int
) -> Array:
    k = shape.k // 2 if shape.sparse else shape.k
    if not isinstance(a, Address):
        return _read(machine, inst, shape, a, cta, lane, rows, k, shape.a, shape.a_mn)
    where = address_of(machine, a, lane)
    bits = _bits(shape, shape.a)
    column = where & 0xFFFF
    why = tensor_memory(machine).check(cta, column, column + k * bits // 32 - 1)
    if why:
        machine.fault(inst, f"A: {why}", lane)
    row = np.arange(rows)
    lanes = row if rows == 128 or ws or group == 2 else row % 16 + 32 * (row // 16)
    places = ((where >> 16) + lanes)[:, None], column + np.arange(k * bits // 32)
    touched(machine, inst, lane, cta, *places, reads=True)
    words = tensor_memory(machine).data[cta, (where >> 16) + lanes, column : column + k * bits // 32]
    patterns = np.ascontiguousarray(words).view(np.dtype(f"u{max(8, bits) // 8}"))
    return _decoded(shape, patterns, shape.a, in_memory=False)


def _expanded(machine: Machine, inst: Inst, shape: Shape, metadata: Operand, cta: int, lane: int, x: Array) -> Array:
    """A with its zeros, from the metadata in tensor memory."""
    rows, bits = x.shape[0], _bits(shape, shape.a)
    if rows != 128 or bits == 4:
        machine.fault(
            inst, "the simulator executes sparse tcgen05.mma with 128 rows per CTA and 8 to 32 bits only", lane
        )
    where = address_of(machine, metadata, lane)
    column = where & 0xFFFF
    columns = 2 if bits == 8 else 1
    why = tensor_memory(machine).check(cta, column, column + columns - 1)
    if why:
        machine.fault(inst, f"metadata: {why}", lane)
    touched(machine, inst, lane, cta, np.arange(128)[:, None], column + np.arange(columns), reads=True)
    words = tensor_memory(machine).data[cta, :, column : column + columns]
    codes = (words[..., None] >> (4 * np.arange(8, dtype=np.uint32)) & np.uint32(15)).reshape(128, -1)
    if bits != 8:
        # lanes: row % 8, half of K, row // 16; nibbles: (row // 8) % 2, group
        codes = codes.reshape(8, 2, 8, 2, 4).transpose(0, 3, 2, 1, 4).reshape(128, 8)
    return place_nonzeros(x, codes, bits)


def _factors(inst: Inst, shape: Shape) -> int:
    """Scale factors along K of one instruction."""
    vector = inst.one_of("scale_vec::1X", "scale_vec::2X", "scale_vec::4X")
    if vector:
        return int(vector[11])
    if shape.kind == "kind::mxf4nvf4" and inst.has("block16"):
        return 4
    return 2 if shape.kind in SCALED[1:] else 1


def _scaled(
    machine: Machine, inst: Inst, shape: Shape, scales: tuple[Operand, Operand], cta: int, lane: int, x: Array,
    y: Array, rows: int, group: int,
) -> tuple[Array, Array]:  # fmt: skip
    """A and B times their scale factors, float64."""
    count = _factors(inst, shape)
    data = tensor_memory(machine).data[cta]
    made: list[Array] = []
    for operand, matrix, first in ((scales[0], x, shape.a_scale), (scales[1], y, shape.b_scale)):
        where = address_of(machine, operand, lane)
        outer = np.arange(matrix.shape[0])
        column = where & 0xFFFF
        if matrix is y and group == 2 and rows == 64:
            half = matrix.shape[0] // 2
            lanes, columns = outer % half % 32 + 64 * (outer // half), outer % half // 32
        else:
            lanes, columns = outer % 32, outer // 32
        why = tensor_memory(machine).check(cta, column, column + int(columns.max()))
        if why:
            machine.fault(inst, f"scale factors: {why}", lane)
        touched(machine, inst, lane, cta, lanes, column + columns, reads=True)
        words = data[lanes, column + columns]
        codes = words[:, None] >> (8 * np.arange(first, first + count, dtype=np.uint32)) & np.uint32(255)
        factors = formats.decode(codes.astype(np.uint8), shape.scale_type)
        made.append(matrix * np.repeat(factors, matrix.shape[1] // count, axis=1))
    return made[0], made[1]


def _disabled(machine: Machine, operand: Vec, lane: int, number: int) -> Array:
    """Lanes of D that stay as they are."""
    words = np.array([scalar(machine, e, lane) for e in operand.elements[4 * number : 4 * number + 4]], np.uint32)
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)


def _accumulate(
    machine: Machine, inst: Inst, shape: Shape, d: Operand, cta: int, lane: int, product: Array, accumulate: bool,
    shift: int, rows: int, ws: bool, group: int, keep: Array | None,
) -> None:  # fmt: skip
    where = address_of(machine, d, lane)
    lanes, columns = accumulator_places(rows, shape.n, "ws" if ws else str(group))
    column = where & 0xFFFF
    memory = tensor_memory(machine)
    why = memory.check(cta, column, column + int(columns.max()))
    if why:
        machine.fault(inst, f"D: {why}", lane)
    lanes = lanes + (where >> 16)
    if int(lanes.max()) > 127:
        machine.fault(inst, f"D reaches lane {int(lanes.max())}: tensor memory has 128", lane)
    touched(machine, inst, lane, cta, lanes, column + columns, reads=accumulate, writes=True)
    data = memory.data[cta]
    whole = rows == 128
    old = data[:, column : column + shape.n] if whole else data[lanes, column + columns]
    if shape.d == "s32":
        total = product.astype(np.int64)
        if accumulate:
            total = total + old.view(np.int32)
        if shape.saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        new = total.astype(np.uint32)
    elif shape.d == "f16":
        if accumulate:
            before = (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
            product = product + before * np.float32(2.0**-shift)
        new = product.astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        if accumulate:
            before = old.view(np.float32)
            product = product + (before * np.float32(2.0**-shift) if shift else before)
        new = np.ascontiguousarray(product, np.float32).view(np.uint32)
    if keep is not None:
        new = np.where(keep[np.broadcast_to(lanes, new.shape)], old, new)
    if whole:
        old[...] = new
    else:
        data[lanes, column + columns] = new
