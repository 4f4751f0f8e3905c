"""Atomics (PTX ISA 9.7.15.5, 9.7.15.6). Threads that meet at one address take their turn in the order of
their lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...numerics import floating, half
from ..machine.machine import Machine
from ..machine.memory import Access
from ..machine.program import Inst, Operand, Reg, Sink, Vec
from ..machine.registry import Action, Mask, Step, dtype_of, meaning
from .movement import space_of
from .operands import HALVES

Array = Any
Update = Callable[..., Array]
"""new value = update(old, operand, ...)"""


def _increment(old: Array, b: Array) -> Array:
    return np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, b: Array) -> Array:
    return np.where((old == 0) | (old > b), b, old - old.dtype.type(1))


def update_of(inst: Inst) -> Update:
    """The function of an atomic operation in the instruction's type."""
    operation = inst.one_of("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas") or "add"
    # atom.global.add.f32 flushes subnormals
    return update_for(operation, inst.type, ftz=space_of(inst) == "global" and not inst.has("noftz"))


def update_for(operation: str, kind: str, *, ftz: bool = False) -> Update:
    """The function of an atomic operation on a type; `ftz`: f32 additions flush subnormals."""
    match operation:
        case "exch":
            return lambda old, b: b
        case "cas":
            return lambda old, b, c: np.where(old == b, c, old)
        case "inc":
            return _increment
        case "dec":
            return _decrement
        case "and":
            return np.bitwise_and
        case "or":
            return np.bitwise_or
        case "xor":
            return np.bitwise_xor
        case _:
            pass
    if kind in HALVES:
        name = {"add": "add", "min": "minimum", "max": "maximum"}[operation]
        return partial(getattr(half, name), kind=kind)
    if kind in ("f32", "f64"):
        function = {"add": floating.add, "min": floating.minimum, "max": floating.maximum}[operation]
        return partial(function, ftz=True) if kind == "f32" and operation == "add" and ftz else function
    return {"add": np.add, "min": np.minimum, "max": np.maximum}[operation]


def perform(view: Array, index: Array, update: Update, operands: list[Array], want_old: bool) -> Array | None:
    """Apply `update` at each index in order; the old values (shape of `index`) if wanted. `operands` have
    one value per lane.
    """
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.ones(ordered.size, np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    old = np.empty(index.size, view.dtype) if want_old else None
    if first.all():
        values = view[index]
        if old is not None:
            old[...] = values
        view[index] = update(values, *operands)
        return old
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, ordered.size))
    if isinstance(update, np.ufunc) and view.dtype.kind in "iu":
        # exact in any order: running results along each run of equal addresses
        b = operands[0][order]
        if update is np.add or lengths.max() > 8:
            return _runs(view, ordered, order, starts, lengths, b, update, old)
    # the k-th thread of every address at once
    rank = np.arange(ordered.size) - np.repeat(starts, lengths)
    for k in range(int(lengths.max())):
        turn = order[rank == k]
        at = index[turn]
        values = view[at]
        if old is not None:
            old[turn] = values
        view[at] = update(values, *[o[turn] for o in operands])
    return old


def _runs(
    view: Array,
    ordered: Array,
    order: Array,
    starts: Array,
    lengths: Array,
    b: Array,
    update: np.ufunc,
    old: Array | None,
) -> Array | None:
    if update is np.add:
        running = np.add.accumulate(b, dtype=b.dtype)
        before = running - b
        before -= np.repeat(before[starts], lengths)
        ends = starts + lengths - 1
        initial = view[ordered]
        if old is not None:
            old[order] = initial + before
        view[ordered[starts]] = (initial + before + b)[ends]
        return old
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        at = ordered[start]
        chain = update.accumulate(np.concatenate([view[at : at + 1], b[start : start + length]]))
        if old is not None:
            old[order[start : start + length]] = chain[:-1]
        view[at] = chain[-1]
    return old


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vec) else (operand,)


def _bind(machine: Machine, inst: Inst, returns: bool) -> Action:
    kind = inst.type
    d = inst.operands[0] if returns else Sink()
    address, *values = inst.operands[1 if returns else 0 :]
    count = 2 if inst.has("cas") else 1
    values = values[:count]  # what follows is a cache policy
    if kind == "b128":
        return _bind_128(machine, inst, d, address, values)
    update = update_of(inst)
    dtype = dtype_of(kind)
    targets = _elements(d)
    columns = [_elements(v) for v in values]
    width = len(columns[0])
    access = Access(machine, inst, address, space_of(inst), dtype, width)
    sources = [[machine.source(e, kind) for e in column] for column in columns]
    rows: list[np.ndarray | None] = []
    for target in targets:
        found = machine.destination(target, kind)
        rows.append(None if found is None else found[0])
    wanted = any(r is not None for r in rows)

    def step(m: Mask) -> None:
        lanes = machine.lane_numbers if m is None else machine.lanes_of(m)
        for view, index, where in access.locate(lanes if m is not None else None, True):
            chosen = lanes if where is None else lanes[where]
            for i in range(width):
                operands = [np.broadcast_to(column[i], machine.lanes)[chosen] for column in sources]
                flat = view if width == 1 else view.reshape(-1)
                at = index if width == 1 else index * width + i
                old = perform(flat, at, update, operands, wanted)
                row = rows[i] if i < len(rows) else None
                if row is not None:
                    row[chosen] = old

    return step


def _bind_128(machine: Machine, inst: Inst, d: Operand, address: Operand, values: list[Operand]) -> Action:
    access = Access(machine, inst, address, space_of(inst), np.dtype(np.uint64), 2)
    rows = [machine.source(v, "b128") for v in values]
    target = machine.row(d) if isinstance(d, Reg) else None

    def step(m: Mask) -> None:
        for lane in np.flatnonzero(machine.executing(m)):
            view, index, _ = access.locate(np.array([lane]), True)[0]
            old = view[index[0]].copy()
            new = [row[:, lane] for row in rows]
            if len(new) == 1:
                view[index[0]] = new[0]
            elif np.array_equal(old, new[0]):
                view[index[0]] = new[1]
            if target is not None:
                target[:, lane] = old

    return step


@meaning("atom", returns=True)
@meaning("red", returns=False)
def atomic(inst: Inst, *, returns: bool) -> Step:
    return Step(partial(_bind, returns=returns))
