"""mma: dense, sparse and block-scaled matrix multiplication by a warp (PTX ISA 9.7.16.5.14, 9.7.16.6).

Sums are those of `machine/matrix_sum.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...dialects.ptx.fragments import fragment
from ...numerics import formats
from ..machine.machine import Machine
from ..machine.matrix_sum import matrix_sum
from ..machine.program import Imm, Inst, Operand, Reg, Vec
from ..machine.registry import Action, Collective, Mask, meaning
from ..tensor.sparsity import place_nonzeros, quad_codes
from .matrix import BITS, elements, inverse, numbers, registers_of, sum_bits, write_registers

Array = Any
Reader = Callable[[], Array]
"""A matrix of each warp: (warps, rows, columns)."""


@meaning("mma", waits=True, sparse=False)
@meaning("mma.sp", "mma.sp::ordered_metadata", waits=True, sparse=True)
def mma(inst: Inst, *, sparse: bool) -> Collective:
    shape = next(x for x in inst.modifiers if re.fullmatch(r"m\d+n\d+k\d+", x))
    if shape == "m8n8k4" and inst.types[1] != "f64":
        return Collective(_bind_quads)
    return Collective(partial(_bind, sparse=sparse or bool(inst.one_of("sp", "sp::ordered_metadata"))))


def _targets(operand: Operand) -> list[Reg | None]:
    return [o if isinstance(o, Reg) else None for o in registers_of(operand)]


def _bind(machine: Machine, inst: Inst, sparse: bool) -> Action:
    m, n, k = map(int, re.findall(r"\d+", next(x for x in inst.modifiers if re.fullmatch(r"m\d+n\d+k\d+", x))))
    dtype, atype, btype, ctype = inst.types[:4]
    d, a, b, c, *rest = inst.operands
    packed = bool(inst.one_of("kind::mxf4", "kind::mxf4nvf4"))
    abits, bbits = (4, 4) if packed else (BITS[t] for t in (atype, btype))
    cbits, dbits = BITS[ctype], BITS[dtype]
    kept = k // 2 if sparse else k
    read_a = _reader(machine, a, abits, "A", m, n, kept, lambda x: _values(x, atype, packed))
    read_b = _reader(machine, b, bbits, "B", m, n, k, lambda x: _values(x, btype, packed))
    read_c = _reader(machine, c, cbits, "C", m, n, k, lambda x: sum_bits(x, ctype, dtype))
    expand = None
    if sparse:
        metadata, selector = rest[:2]
        rest = rest[2:]
        expand = _expander(machine, metadata, selector, abits, k)
    scales = None
    block, scale = 0, ""
    if inst.has("block_scale"):
        factors = int((inst.one_of("scale_vec::1X", "scale_vec::2X", "scale_vec::4X") or "scale_vec::0X")[11])
        factors = factors or (2 if inst.has("kind::mxf4") else 1)
        block, scale = (k // 2 if sparse else k) // factors, inst.types[-1]
        scales = [
            _scales(machine, rest[0], rest[1], factors, scale, rows=True),
            _scales(machine, rest[2], rest[3], factors, scale, rows=False),
        ]
    flips = inst.has("xor")
    total = matrix_sum(
        machine, inst, "mma", (dtype, atype, btype), (m, k),
        sparse=sparse, block=block, scale=scale, packed=packed, clamp=inst.has("satfinite"),
    )  # fmt: skip
    out_of_d = fragment("C", m, n, k, dbits)
    targets = _targets(d)

    def step(mask: Mask) -> None:
        x, y, z = read_a(), read_b(), read_c()
        if expand is not None:
            x = expand(x)
        if flips:
            x, y = both(x, y)
        factors = None if scales is None else (scales[0](), scales[1]().transpose(0, 2, 1))
        bits = total(x, y, z, factors).reshape(machine.warps, m * n)
        values = bits[:, out_of_d]  # (warps, 32, values)
        if dbits == 16:
            values = pairs(values)
        write_registers(machine, targets, values, mask)

    return step


def both(x: Array, y: Array) -> tuple[Array, Array]:
    """Matrices of bits whose product counts where those of `x` and `y` differ."""
    return np.concatenate([x, 1 - x], axis=-1), np.concatenate([1 - y, y], axis=-2)


def pairs(values: Array) -> Array:
    """Elements of 16 bits, two in a word."""
    return values[..., ::2] | values[..., 1::2].astype(np.uint32) << np.uint32(16)


def _values(patterns: Array, kind: str, packed: bool) -> Array:
    """The numbers of A or B; `packed`: two of e2m1 in a byte."""
    if packed:
        return formats.decode(patterns.astype(np.uint8), "e2m1")
    return numbers(np.ascontiguousarray(patterns), kind)


def _reader(
    machine: Machine, operand: Operand, bits: int, which: str, m: int, n: int, k: int, decode: Callable[[Array], Array]
) -> Reader:
    table = inverse(which, m, n, k, bits)
    rows, columns = {"A": (m, k), "B": (k, n), "C": (m, n)}[which]
    registers = registers_of(operand)

    def read() -> Array:
        patterns = elements(machine, registers, bits).reshape(machine.warps, -1)[:, table]
        return decode(patterns).reshape(machine.warps, rows, columns)

    return read


def _expander(machine: Machine, metadata: Operand, selector: Operand, bits: int, k: int) -> Callable[[Array], Array]:
    """A with its zeros."""
    row = machine.source(metadata, "b32", whole=True)
    assert isinstance(selector, Imm)
    chosen = int(selector.value)
    groups = k // {32: 2, 4: 8}.get(bits, 4)

    def expand(x: Array) -> Array:
        return place_nonzeros(x, quad_codes(row.reshape(machine.warps, 8, 4), chosen, groups), bits)

    return expand


def _scales(
    machine: Machine, operand: Operand, selectors: Operand, factors: int, kind: str, *, rows: bool
) -> Callable[[], Array]:
    """Scale factors along K of each row of A, or of each column of B: (warps, rows, factors)."""
    row = machine.source(operand, "b32", whole=True)
    assert isinstance(selectors, Vec)
    byte, thread = (machine.source(s, "u16", whole=True) for s in selectors.elements)

    def read() -> Array:
        start = int(byte[0])
        words = row.reshape(machine.warps, 8, 4)
        first = int(thread[0])
        if rows:
            # threads 2 * first and the next of each quad have rows i and i + 8
            words = words[:, :, 2 * first : 2 * first + 2].transpose(0, 2, 1).reshape(machine.warps, 16)
        else:
            words = words[:, :, first]
        bytes_ = words[..., None] >> (8 * np.arange(start, start + factors, dtype=np.uint32))
        return formats.decode((bytes_ & np.uint32(255)).astype(np.uint8), kind)

    return read


# ------------------------------------------------------------------------------------------------- four quad pairs

_QUAD_LANES = (np.arange(4)[:, None] * 4 + np.array([0, 1, 2, 3, 16, 17, 18, 19])).reshape(-1)
"""The lanes of the four groups of eight threads, group by group."""


def _bind_quads(machine: Machine, inst: Inst) -> Action:
    """m8n8k4: each group of eight threads (two quads) multiplies matrices of its own."""
    dtype, atype, btype, ctype = inst.types[:4]
    alayout, blayout = (x for x in inst.modifiers if x in ("row", "col"))
    d, a, b, c = inst.operands
    abits = BITS[atype]
    targets = _targets(d)
    back = np.argsort(_QUAD_LANES)
    total = matrix_sum(machine, inst, "mma", (dtype, atype, btype), (8, 4))

    def patterns(operand: Operand, bits: int) -> Array:
        """(warps, group, thread, value)"""
        chosen = elements(machine, registers_of(operand), bits)[:, _QUAD_LANES]
        return np.ascontiguousarray(chosen).reshape(machine.warps, 4, 8, -1)

    def by_threads(x: Array, along: str) -> Array:
        """A, or B transposed, as (warps, group, 8, 4): each thread holds a row ("row") or four rows at one k."""
        if along == "row":
            return x
        return x.reshape(machine.warps, 4, 2, 4, 4).transpose(0, 1, 2, 4, 3).reshape(machine.warps, 4, 8, 4)

    def spread(x: Array, kind: str) -> Array:
        """C of each group as (8, 8) from the order of threads and values."""
        if kind != "f32":
            return x
        # thread bits: row 1, column 2, row 4; value bits: column 1, row 2, column 4
        parts = x.reshape(machine.warps, 4, 2, 2, 2, 2, 2, 2)  # t4, t2, t1, v4, v2, v1
        return parts.transpose(0, 1, 2, 6, 4, 5, 3, 7).reshape(machine.warps, 4, 8, 8)

    def step(mask: Mask) -> None:
        x = by_threads(numbers(patterns(a, abits), atype), alayout)
        y = by_threads(numbers(patterns(b, abits), btype), "row" if blayout == "col" else "col")
        z = spread(sum_bits(patterns(c, BITS[ctype]), ctype, dtype), ctype)
        bits = total(x, y.transpose(0, 1, 3, 2), z)
        if dtype == "f32":
            parts = bits.reshape(machine.warps, 4, 2, 2, 2, 2, 2, 2)  # row 4, 2, 1; column 4, 2, 1
            bits = parts.transpose(0, 1, 2, 6, 4, 5, 3, 7)
        flat = np.ascontiguousarray(bits).reshape(machine.warps, 32, 8)[:, back]
        if dtype == "f16":
            flat = pairs(flat)
        write_registers(machine, targets, flat, mask)

    return step
