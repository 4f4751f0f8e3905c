"""What a tcgen05.mma reads besides D: A, B, scale factors, sparsity metadata, lookup tables, masks (PTX ISA 9.7.18.10).

The manual shows some layouts in figures only. Those of CUTLASS are followed where it has them; the lookup table and scale
factors of A in 128 lanes are as the text of the manual suggests: see `looked_up` and `scale_factors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...dialects.ptx.instruction_descriptor import InstructionDescriptor
from ...numerics import formats
from ..machine.machine import Machine, OperandRead
from ..machine.memory import address_of
from ..machine.program import Address, Inst, Operand
from ..machine.tensor_access import tensor_memory, touched
from ..tensor.shared_operand import OperandError, chunk_addresses, numbers, packed_fields, read_patterns, tell_operands
from ..tensor.sparsity import nibbles, place_nonzeros
from .matrix import unpacked
from .tcgen05 import descriptor_of

Array = Any
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s1z4m11": 16}
_PACKED = {"e2m1": 4, "e3m2": 6, "e2m3": 6}
_PADDED = {"e2m1": "b4x16_p64", "e3m2": "b6x16_p32", "e2m3": "b6x16_p32"}
FOURS = ("mxf4", "mxf4nvf4")


@dataclass(frozen=True, slots=True)
class Issue:
    """A tcgen05.mma that a thread issues."""

    machine: Machine
    inst: Inst
    lane: int
    shape: InstructionDescriptor
    group: int
    """How many CTAs take part."""
    ws: bool

    @property
    def rows(self) -> int:
        """Rows of A and D in each CTA."""
        return self.shape.m // self.group

    def fault(self, why: str) -> NoReturn:
        self.machine.fault(self.inst, why, self.lane)

    def words(self, what: str, cta: int, lanes: Array, columns: Array) -> Array:
        """Words of a CTA's tensor memory, checked; `what` names them."""
        memory = tensor_memory(self.machine)
        why = memory.check(cta, int(np.min(columns)), int(np.max(columns)))
        if why:
            self.fault(f"{what}: {why}")
        if int(np.max(lanes)) > 127:
            self.fault(f"{what} reaches lane {int(np.max(lanes))}: tensor memory has 128")
        touched(self.machine, self.inst, self.lane, cta, lanes, columns, reads=True)
        return memory.data[cta][lanes, columns]


def _element_bits(shape: InstructionDescriptor, kind: str) -> int:
    """Bits of an element in memory. 4 and 6 bit elements of the mixed kinds have a byte each once unpacked, but none is
    padded where K is 64.
    """
    if shape.kind in FOURS:
        return 4
    if shape.kind == "mxf8f6f4" and shape.dense_k == 64:
        return _PACKED.get(kind, 8)
    return _BITS.get(kind, 8)


def _decoded(patterns: Array, kind: str, bits: int, *, in_memory: bool) -> Array:
    """Bit patterns as numbers; those of shared memory are still in their 16-byte chunks."""
    if bits in (4, 6):
        return numbers(packed_fields(patterns, bits), kind)
    packing = _PADDED.get(kind)
    if packing and in_memory:
        raw = np.ascontiguousarray(patterns)
        patterns = unpacked(raw.reshape(raw.shape[0], -1, 16), packing).reshape(raw.shape)
    return numbers(np.ascontiguousarray(patterns), kind)


def _in_shared_memory(
    issue: Issue,
    operand: Operand,
    cta: int,
    rows: int,
    k: int,
    bits: int,
    mn: bool,
    skipped: int = 0,
    of_a: bool = False,
) -> Array:
    """The bit patterns of an operand in shared memory, without its first `skipped` rows."""
    machine, inst, lane = issue.machine, issue.inst, issue.lane
    d = descriptor_of(machine, inst, operand, lane)
    rows += skipped
    try:
        patterns = read_patterns(machine.shared[cta], machine.shared_size, d, rows, k, bits, mn)
    except OperandError as error:
        issue.fault(str(error))
    if mn and (d.swizzle == "128B_ATOM_32B") != (issue.shape.kind == "tf32"):
        issue.fault("M- or N-major operands of kind tf32 have 128-byte swizzle with atoms of 32 bytes, others have not")
    if machine.observers:
        addresses = chunk_addresses(rows, k * bits // 8, rows * bits // 8, k, d, mn)
        chunks = addresses if mn else addresses[skipped:]
        tell_operands(machine, inst, [OperandRead(lane, cta, chunks)], of_a=of_a)
    return patterns[skipped:]


def read_b(issue: Issue, b: Operand, cta: int, shift: int = 0) -> Array:
    """The part of B that a CTA holds: shape (n, k). `shift`: its first columns that are left out."""
    shape = issue.shape
    bits = _element_bits(shape, shape.b)
    patterns = _in_shared_memory(issue, b, cta, shape.n // issue.group, shape.k, bits, shape.b_mn, shift)
    return _decoded(patterns, shape.b, bits, in_memory=True)


def read_a(issue: Issue, a: Operand, cta: int) -> Array:
    """The part of A that a CTA holds: shape (m, k), k / 2 for a sparse one."""
    shape, rows = issue.shape, issue.rows
    k = shape.k // 2 if shape.sparse else shape.k
    bits = _element_bits(shape, shape.a)
    if not isinstance(a, Address):
        patterns = _in_shared_memory(issue, a, cta, rows, k, bits, shape.a_mn, of_a=True)
        return _decoded(patterns, shape.a, bits, in_memory=True)
    if bits == 4 and shape.kind not in FOURS:
        issue.fault("A of .e2m1 with K = 64 lies in shared memory, not in tensor memory")
    where = address_of(issue.machine, a, issue.lane)
    row = np.arange(rows)
    lanes = row if rows == 128 or issue.ws or issue.group == 2 else row % 16 + 32 * (row // 16)
    words = issue.words("A", cta, (where >> 16) + lanes[:, None], (where & 0xFFFF) + np.arange(k * bits // 32))
    patterns = np.ascontiguousarray(words).view(np.dtype(f"u{bits // 8 or 1}"))
    return _decoded(patterns, shape.a, bits, in_memory=False)


def shifted(issue: Issue, x: Array) -> Array:
    """`.ashift`: every row but the last moves down by one, as with tcgen05.shift; the first stays as it is."""
    if issue.shape.m == 64:
        issue.fault(".ashift needs M = 128 or 256")
    return np.concatenate([x[:1], x[:-1]])


# -------------------------------------------------------------------------------------------------- lookup tables


def read_indices(issue: Issue, b: Operand, cta: int) -> Array:
    """The indices that stand for the part of B a CTA holds: shape (n, 64).

    A row has 48 bytes with 128 indices of three bits, the first in the lowest bits; bit 53 of the descriptor says which
    half counts.
    """
    shape = issue.shape
    if (shape.b, shape.b_mn, shape.k) != ("e4m3", False, 64):
        issue.fault(
            f".decompress::lut::b makes a B of .e4m3, K-major, with K = 64, not of .{shape.b} with K = {shape.k}"
        )
    if issue.rows != 128:
        issue.fault(f".decompress::lut::b needs 128 rows in each CTA, not {issue.rows}")
    second = descriptor_of(issue.machine, issue.inst, b, issue.lane).second_half
    raw = _in_shared_memory(issue, b, cta, shape.n // issue.group, 48, 8, False)
    return packed_fields(raw[:, 24:] if second else raw[:, :24], 3)


def looked_up(issue: Issue, table: Operand, cta: int, indices: Array) -> Array:
    """B by its indices: shape (n, k).

    Eight columns of B share eight values of type e4m3. Those of columns 8i to 8i + 7 are the two words of lane i, the
    first value in the lowest byte (so `tcgen05.cp.32x128b.warpx4` brings the tables of 256 x 128 elements to four
    columns). The manual shows this in figures only; that each CTA of a pair has the tables of all N columns, as it has
    their scale factors, is our choice.
    """
    where = address_of(issue.machine, table, issue.lane)
    column = where & 0xFFFF
    if column & 1:
        issue.fault(f"the lookup table begins at column {column}: it is a multiple of 2")
    group = np.arange(issue.shape.n // 8)
    words = issue.words("the lookup table", cta, (where >> 16) + group[:, None], column + np.arange(2))
    values = numbers(np.ascontiguousarray(words).view(np.uint8), "e4m3")
    return values[np.arange(issue.shape.n)[:, None] // 8, indices]


# ------------------------------------------------------------------------------------------------ sparsity, scales


def expanded(issue: Issue, metadata: Operand, cta: int, x: Array) -> Array:
    """A with its zeros, from the metadata in tensor memory."""
    shape = issue.shape
    if issue.rows != 128:
        issue.fault("the simulator executes sparse tcgen05.mma with 128 rows per CTA only")
    if shape.selector:
        issue.fault(f"the simulator knows the sparsity selector 0 only, not {shape.selector}")
    where = address_of(issue.machine, metadata, issue.lane)
    pairs = shape.kind in FOURS and not shape.sparsity_version
    groups = shape.k // (8 if pairs else 2 if shape.a == "tf32" else 4)
    columns = (where & 0xFFFF) + np.arange(groups // 8)
    wide = _BITS.get(shape.a, 8) > 8
    codes = nibbles(issue.words("metadata", cta, np.arange(128)[:, None], columns[: 1 if wide else None]))
    if wide:
        # lanes: row % 8, half of K, row // 16; nibbles: (row // 8) % 2, group
        codes = codes.reshape(8, 2, 8, 2, 4).transpose(0, 3, 2, 1, 4)
    return place_nonzeros(x, codes.reshape(128, -1), 4 if pairs else 32 if shape.a == "tf32" else 8)


def scales_along_k(issue: Issue) -> int:
    """Scale factors along K of one instruction (PTX ISA table 68)."""
    inst, shape = issue.inst, issue.shape
    vector = inst.one_of("scale_vec::1X", "scale_vec::2X", "scale_vec::4X")
    if vector:
        return int(vector[11])
    if shape.kind not in FOURS:
        return 1
    return shape.dense_k // (16 if inst.has("block16") else 32)


def scale_factors(issue: Issue, operand: Operand, cta: int, rows: int, which: str) -> Array:
    """The scale factors of the rows of A or the columns of B (`which`): shape (rows, factors along K), float64.

    The factor of row m for the i-th block of K is byte i % 4, counted from the one that the instruction descriptor names,
    of a word in lane m % 32 and column m / 32; the next four are the words after those of all rows (128, or 256 columns
    of B). Where the descriptor says that those of A have 128 lanes, row m has lane m: our reading of a figure.
    """
    shape = issue.shape
    count = scales_along_k(issue)
    first = shape.a_scale if which == "A" else shape.b_scale
    if first + count > 4 and shape.dense_k != 96 and (first or count != 8):
        issue.fault(f"the {count} scale factors of {which} do not fit a word from byte {first} on")
    where = address_of(issue.machine, operand, issue.lane)
    outer = np.arange(rows)
    halved = which == "B" and issue.group == 2 and issue.rows == 64
    held = rows // 2 if halved else rows
    lanes, columns = outer % held % 32 + (64 * (outer // held) if halved else 0), outer % held // 32
    step = -(-held // 128) * 4
    if which == "A" and shape.wide_scales:
        if issue.rows != 128:
            issue.fault("the simulator knows scale factors in 128 lanes with 128 rows per CTA only")
        lanes, columns, step = outer, 0 * outer, 1
    byte = first + np.arange(count)
    words = issue.words(
        f"scale factors of {which}", cta, lanes[:, None], (where & 0xFFFF) + columns[:, None] + byte // 4 * step
    )
    codes = (words >> (8 * (byte % 4)).astype(np.uint32) & np.uint32(255)).astype(np.uint8)
    return formats.decode(codes, shape.scale_type)


# ---------------------------------------------------------------------------------------------------------- masks


def column_mask(word: int, m: int, n: int) -> Array:
    """Which columns of B count as zero, from a zero-column mask descriptor (PTX ISA 9.7.18.4.3).

    Spans of used and of skipped columns alternate. The lengths are named as in the manual's examples, which its table
    contradicts: bits 40 to 47 are that of skipped columns, bits 48 to 55 that of used ones.
    """
    if not word >> 39 & 1:
        return np.zeros(n, np.bool_)
    skip, use = (word >> 40 & 255) + 1, (word >> 48 & 255) + 1
    parts = 128 // m
    at = [
        np.arange(n // parts) + (word >> 8 * part & 255) + (use if word >> 32 + part & 1 else 0)
        for part in range(parts)
    ]
    return np.concatenate(at) % (use + skip) >= use


def column_shift(word: int) -> int:
    """How many columns of B a zero-column mask descriptor leaves out."""
    return word >> 56 & 63
