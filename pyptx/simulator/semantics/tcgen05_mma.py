"""tcgen05.mma: matrix multiplication with the accumulator in tensor memory (PTX ISA 9.7.18.10).

Sums are those of `machine/matrix_sum.py`. With scale-input-d, D is divided and rounded to the nearest number of its type before
it is added.

Collectors are permissions to read an operand again from where an earlier instruction put it; values do not depend on them
unless the operand was changed in between, which is a mistake of its own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...dialects.ptx.instruction_descriptor import KINDS, InstructionDescriptor, read_descriptor
from ...dialects.ptx.target import condition_text, target_in
from ...numerics import formats
from ...numerics.tensor_cores.native import matrix_places
from ...numerics.tensor_cores.sums import Factors
from ..machine.machine import Machine
from ..machine.matrix_sum import MatrixSum, matrix_sum
from ..machine.memory import address_of
from ..machine.program import Imm, Inst, Not, Operand, Vec
from ..machine.registry import Action, Step, meaning
from ..machine.tensor_access import tensor_memory, touched
from ..machine.tensor_memory import accumulator_places
from .operands import scalar
from .tcgen05 import each, pair_of
from .tensor_core_operands import (
    FOURS,
    Issue,
    column_mask,
    column_shift,
    expanded,
    looked_up,
    read_a,
    read_b,
    read_indices,
    scale_factors,
    scales_along_k,
    shifted,
)

Array = Any


@meaning("tcgen05.mma", ws=False, sparse=False)
@meaning("tcgen05.mma.sp", ws=False, sparse=True)
@meaning("tcgen05.mma.ws", ws=True, sparse=False)
@meaning("tcgen05.mma.ws.sp", ws=True, sparse=True)
def mma(inst: Inst, *, ws: bool, sparse: bool) -> Step:
    return Step(partial(_bind, ws=ws, sparse=sparse))


def _bind(machine: Machine, inst: Inst, ws: bool, sparse: bool) -> Action:
    kind = (inst.one_of(*(f"kind::{k}" for k in KINDS)) or "").removeprefix("kind::")
    group = 2 if inst.has("cta_group::2") else 1
    d, a, b, *rest = inst.operands
    metadata = rest.pop(0) if sparse else None
    table = rest.pop(0) if inst.has("decompress::lut::b") else None
    idesc = rest.pop(0)
    scales = (rest.pop(0), rest.pop(0)) if inst.has("block_scale") else None
    found = rest.pop(0) if rest and isinstance(rest[0], Vec) else None
    disabled = found if isinstance(found, Vec) else None
    enable = rest.pop(0)
    divide = rest[0] if rest and not ws and isinstance(rest[0], Imm) else None
    zero_mask = rest[0] if rest and ws else None
    ashift = inst.has("ashift")

    def issue(lane: int) -> None:
        shape = _shape(machine, inst, lane, scalar(machine, idesc, lane), kind, group, ws)
        if shape.sparse != sparse:
            machine.fault(inst, "the instruction descriptor and the instruction disagree about sparsity", lane)
        if divide is not None and kind not in ("f16", "tf32"):
            machine.fault(inst, "scale-input-d is for the kinds f16 and tf32 only", lane)
        this = Issue(machine, inst, lane, shape, group, ws)
        for observer in machine.observers:
            observer.multiplied(inst, 2 * shape.m * shape.n * shape.k)
        total = _sum(this)
        ctas = pair_of(machine, inst, lane)
        mask = 0 if zero_mask is None else scalar(machine, zero_mask, lane, "u64")
        y = _whole_b(this, b, ctas, mask, table is not None)
        _tell_collector(this, ctas[0], "b", y)
        accumulate = _flag(machine, enable, lane)
        for i, cta in enumerate(ctas):
            x = read_a(this, a, cta)
            if not ws:
                _tell_collector(this, cta, "a", x)
            if metadata is not None:
                x = expanded(this, metadata, cta, x)
            if ashift:
                x = shifted(this, x)
            z = y if table is None else looked_up(this, table, cta, y)
            factors = None
            if scales is not None:
                rows = len(x), len(z)
                of_a, of_b = (scale_factors(this, s, cta, n, m) for s, n, m in zip(scales, rows, "AB", strict=True))
                factors = of_a, of_b.T
            keep = None if disabled is None else _disabled(machine, disabled, lane, i)
            shift = 0 if divide is None else int(divide.value)
            x = -x if shape.negate else x
            _accumulate(this, d, cta, (total, x, z.T, factors), accumulate, shift, keep)

    return each(machine, issue)


def _shape(
    machine: Machine, inst: Inst, lane: int, word: int, kind: str, group: int, ws: bool
) -> InstructionDescriptor:
    """What the instruction descriptor says, checked."""
    shape = read_descriptor(word, kind)
    why = shape if isinstance(shape, str) else shape.problem(group, ws)
    if isinstance(shape, str) or why:
        machine.fault(inst, f"tcgen05.mma: {why}", lane)
    for what, targets in shape.needs:
        if not target_in(machine.program.target, targets):
            machine.fault(
                inst,
                f"tcgen05.mma: {what}, which the instruction descriptor 0x{word:08x} says, needs {condition_text(targets)}",
                lane,
            )
    return shape


def _sum(issue: Issue) -> MatrixSum:
    shape = issue.shape
    block = shape.dense_k // scales_along_k(issue) if shape.scale_type else 0
    return matrix_sum(
        issue.machine, issue.inst, "tcgen05", (shape.d, shape.a, shape.b), (shape.m, shape.k),
        sparse=shape.sparse, block=block, scale=shape.scale_type, packed=shape.kind in FOURS, clamp=shape.saturate,
    )  # fmt: skip


def _whole_b(issue: Issue, b: Operand, ctas: list[int], mask: int, indices: bool) -> Array:
    """B of all CTAs, (n, k), or the indices that stand for it."""
    if indices:
        return np.concatenate([read_indices(issue, b, c) for c in ctas])
    shape, shift = issue.shape, column_shift(mask)
    most = 16 if shape.m == 32 else 32
    if shift > most:
        issue.fault(f"the zero-column mask shifts B by {shift} columns; {most} is the most with M = {shape.m}")
    y = np.concatenate([read_b(issue, b, c, shift) for c in ctas])
    if mask:
        y = np.where(column_mask(mask, shape.m, shape.n)[:, None], y.dtype.type(0), y)
    return y


def _tell_collector(issue: Issue, cta: int, matrix: str, values: Array) -> None:
    """Tell the observers what the instruction says of the collector buffer of A or B."""
    prefix = f"collector::{matrix}"
    said = next((m for m in issue.inst.modifiers if m.startswith(prefix)), "")
    buffer, use = said.split("::")[1:] if said else ("b0" if issue.ws else matrix, "discard")
    for observer in issue.machine.observers:
        observer.collected(issue.inst, issue.lane, cta, buffer, use, values)


def _flag(machine: Machine, operand: Operand, lane: int) -> bool:
    if isinstance(operand, Not):
        return not _flag(machine, operand.operand, lane)
    return bool(scalar(machine, operand, lane, "u32" if isinstance(operand, Imm) else "pred"))


def _disabled(machine: Machine, operand: Vec, lane: int, number: int) -> Array:
    """Lanes of D that stay as they are."""
    words = np.array([scalar(machine, e, lane) for e in operand.elements[4 * number : 4 * number + 4]], np.uint32)
    return np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)


def _accumulate(
    issue: Issue,
    d: Operand,
    cta: int,
    product: tuple[MatrixSum, Array, Array, Factors],
    accumulate: bool,
    shift: int,
    keep: Array | None,
) -> None:
    machine, inst, lane, shape, rows = issue.machine, issue.inst, issue.lane, issue.shape, issue.rows
    where = address_of(machine, d, lane)
    lanes, columns = accumulator_places(rows, shape.n, "ws" if issue.ws else str(issue.group))
    column = where & 0xFFFF
    memory = tensor_memory(machine)
    why = memory.check(cta, column, column + int(columns.max()))
    if why:
        issue.fault(f"D: {why}")
    lanes = lanes + (where >> 16)
    if int(lanes.max()) > 127:
        issue.fault(f"D reaches lane {int(lanes.max())}: tensor memory has 128")
    touched(machine, inst, lane, cta, lanes, column + columns, reads=accumulate, writes=True)
    data = memory.data[cta]
    whole = rows == 128
    old = data[:, column : column + shape.n] if whole else data[lanes, column + columns]
    if whole and keep is None and not shift and shape.d == "f32":
        if not accumulate:
            old[...] = 0
        if product[0].in_place(*product[1:3], old, matrix_places(128, old.strides[0] // 4), product[3]):
            return
    before = old.astype(np.uint16) if shape.d == "f16" else old
    if not accumulate:
        before = np.zeros_like(before)
    elif shift:
        before = formats.encode(formats.decode(before, shape.d) * 2.0**-shift, shape.d)
    total, x, y, factors = product
    new = total(x, y, before, factors, lane).astype(np.uint32)
    if keep is not None:
        new = np.where(keep[np.broadcast_to(lanes, new.shape)], old, new)
    if whole:
        old[...] = new
    else:
        data[lanes, column + columns] = new
