"""Instructions of a whole warp: shfl, vote, match, redux, elect, activemask (PTX ISA 9.7.10.6, 9.7.15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...numerics import floating
from ..machine.machine import Machine
from ..machine.program import Imm, Inst, Not, Operand, Pair, Reg, Sink
from ..machine.registry import Action, Collective, Mask, Step, meaning

Array = Any


def _row(machine: Machine, operand: Operand, type_name: str | None = None) -> np.ndarray | None:
    """The register to write, or None for the sink."""
    if isinstance(operand, Sink):
        return None
    assert isinstance(operand, Reg)
    return machine.row(operand)


def _results(inst: Inst) -> tuple[Operand, Operand]:
    d = inst.operands[0]
    return (d.first, d.second) if isinstance(d, Pair) else (d, Sink())


def _write(row: np.ndarray | None, value: Array, m: Mask) -> None:
    if row is None:
        return
    if m is None:
        row[...] = value
    else:
        np.copyto(row, value, "unsafe", m)


def source_lanes(mode: str, lane: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """(lane in the warp to read, whether it is in range) of shfl.mode. PTX ISA 9.7.10.6."""
    lane = lane.astype(np.int64)
    b, c = b.astype(np.int64), c.astype(np.int64)
    segment = c >> 8 & 31
    clamp = c & 31
    amount = b & 31
    most = (lane & segment) | (clamp & ~segment)
    least = lane & segment
    match mode:
        case "up":
            j = lane - amount
            inside = j >= most
        case "down":
            j = lane + amount
            inside = j <= most
        case "bfly":
            j = lane ^ amount
            inside = j <= most
        case _:
            j = least | (amount & ~segment)
            inside = j <= most
    return np.where(inside, j, lane), inside


@meaning("shfl", waits=True)
def shfl(inst: Inst) -> Collective:
    mode = inst.one_of("up", "down", "bfly", "idx") or "idx"
    synced = inst.has("sync")
    operands = inst.operands
    mask = operands[4] if synced else "active"
    return Collective(lambda machine, inst: _bind_shfl(machine, inst, mode), mask, _shuffle_sources)


def _shuffle_sources(machine: Machine, inst: Inst) -> Callable[[], Array]:
    b, c = (machine.source(o, "u32") for o in inst.operands[2:4])
    start = machine.lane_numbers - machine.lane_in_warp
    mode = inst.one_of("up", "down", "bfly", "idx") or "idx"
    return lambda: start + source_lanes(mode, machine.lane_in_warp, b, c)[0]


def _bind_shfl(machine: Machine, inst: Inst, mode: str) -> Action:
    first, second = _results(inst)
    d, p = _row(machine, first), _row(machine, second)
    a, b, c = (machine.source(o, "u32") for o in inst.operands[1:4])
    lane = machine.lane_in_warp
    start = machine.lane_numbers - lane
    if isinstance(inst.operands[1], Imm):
        a = np.repeat(a, machine.lanes)
    if isinstance(inst.operands[2], Imm) and isinstance(inst.operands[3], Imm):
        j, inside = source_lanes(mode, lane, b, c)
        index = start + j
        whole = index.reshape(-1, 32)[0]

        def fixed(m: Mask) -> None:
            if m is None and d is not None:
                d.reshape(-1, 32)[...] = (
                    a.reshape(-1, 32)[:, whole] if a.flags.c_contiguous else a[index].reshape(-1, 32)
                )
            else:
                _write(d, a[index], m)
            _write(p, inside, m)

        return fixed

    def step(m: Mask) -> None:
        j, inside = source_lanes(mode, lane, b, c)
        _write(d, a[start + j], m)
        _write(p, inside, m)

    return step


def _predicate(machine: Machine, operand: Operand) -> tuple[np.ndarray, bool]:
    flip = isinstance(operand, Not)
    return machine.source(operand.operand if isinstance(operand, Not) else operand, "pred"), flip


@meaning("vote", waits=True)
def vote(inst: Inst) -> Collective:
    synced = inst.has("sync")
    return Collective(_bind_vote, inst.operands[2] if synced else "active")


def _bind_vote(machine: Machine, inst: Inst) -> Action:
    d = _row(machine, inst.operands[0])
    p, flip = _predicate(machine, inst.operands[1])
    mode = inst.one_of("all", "any", "uni", "ballot")
    members = machine.source(inst.operands[2], "u32") if inst.has("sync") else np.array([0xFFFF_FFFF], np.uint32)

    def step(m: Mask) -> None:
        here = machine.executing(m)
        value = np.broadcast_to(~p if flip else p, machine.lanes)
        votes = machine.per_lane(machine.ballot(value & here)) & members
        if mode == "ballot":
            _write(d, votes, m)
            return
        voters = machine.per_lane(machine.ballot(here)) & members
        if mode == "any":
            r = votes != 0
        elif mode == "all":
            r = votes == voters
        else:
            r = (votes == 0) | (votes == voters)
        _write(d, r, m)

    return step


@meaning("match", waits=True)
def match(inst: Inst) -> Collective:
    return Collective(_bind_match, inst.operands[2])


def _bind_match(machine: Machine, inst: Inst) -> Action:
    first, second = _results(inst)
    d, p = _row(machine, first), _row(machine, second)
    a = np.broadcast_to(machine.source(inst.operands[1], inst.type), machine.lanes)
    members = machine.source(inst.operands[2], "u32")
    every = inst.has("all")

    def step(m: Mask) -> None:
        here = machine.executing(m)
        warp = a.reshape(-1, 32)
        equal = (warp[:, :, None] == warp[:, None, :]) & here.reshape(-1, 1, 32)
        same = np.packbits(equal, axis=-1, bitorder="little").view(np.uint32).reshape(-1) & members
        if not every:
            _write(d, same, m)
            return
        voters = machine.per_lane(machine.ballot(here)) & members
        agree = same == voters
        _write(d, np.where(agree, same, np.uint32(0)), m)
        _write(p, agree, m)

    return step


@meaning("redux", waits=True)
def redux(inst: Inst) -> Collective:
    return Collective(_bind_redux, inst.operands[2])


def _combiner(inst: Inst) -> Callable[[Array], Array]:
    """The operation of a `redux`, on values of shape (groups, members)."""
    operation = inst.one_of("add", *_REDUCTIONS)
    assert operation is not None
    if operation == "add":
        return lambda values: np.add.reduce(values, axis=1, dtype=values.dtype)
    if inst.type != "f32":
        reduce = _REDUCTIONS[operation].reduce
        return lambda values: reduce(values, axis=1)
    choose = floating.minimum if operation == "min" else floating.maximum

    def extreme(values: Array) -> Array:
        if inst.has("abs"):
            values = np.abs(values)
        r = values[:, 0]
        for i in range(1, values.shape[1]):
            r = choose(r, values[:, i], nan=inst.has("NaN"))
        return choose(r, r, nan=inst.has("NaN"))

    return extreme


_REDUCTIONS = {
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _bind_redux(machine: Machine, inst: Inst) -> Action:
    d = _row(machine, inst.operands[0])
    assert d is not None
    kind = inst.type
    a = np.broadcast_to(machine.source(inst.operands[1], kind), machine.lanes)
    members = np.broadcast_to(machine.source(inst.operands[2], "u32"), machine.lanes)
    combine = _combiner(inst)
    out = d.view(a.dtype)

    def step(m: Mask) -> None:
        here = machine.executing(m)
        done = np.zeros(machine.lanes, np.bool_)
        # threads of a warp may name different sets: one at a time, all warps with the same set together
        while True:
            left = np.flatnonzero(here & ~done)
            if not left.size:
                return
            chosen = members[left[0]]
            bits = np.flatnonzero(chosen >> np.arange(32, dtype=np.uint32) & np.uint32(1))
            mine = here & ~done & (members == chosen)
            present = here.reshape(-1, 32)[:, bits].all(axis=1) & mine.reshape(-1, 32).any(axis=1) & (bits.size > 0)
            for whole in (True, False):
                warps = np.flatnonzero(present if whole else ~present & mine.reshape(-1, 32).any(axis=1))
                if not warps.size:
                    continue
                if whole:
                    values = combine(a.reshape(-1, 32)[warps][:, bits])
                    r = np.repeat(values, 32).reshape(-1, 32)
                else:  # some named threads have exited, or the mask names none
                    r = np.empty((warps.size, 32), a.dtype)
                    for i, w in enumerate(warps):
                        inside = [b for b in bits if here[32 * w + b]]
                        r[i] = combine(a[32 * w + np.array(inside)][None, :])[0] if inside else 0
                target = mine.reshape(-1, 32)[warps]
                rows = out.reshape(-1, 32)
                rows[warps] = np.where(target, r, rows[warps])
            done |= mine

    return step


@meaning("elect", waits=True)
def elect(inst: Inst) -> Collective:
    return Collective(_bind_elect, inst.operands[1])


def _bind_elect(machine: Machine, inst: Inst) -> Action:
    first, second = _results(inst)
    d, p = _row(machine, first), _row(machine, second)
    members = machine.source(inst.operands[1], "u32")

    def step(m: Mask) -> None:
        here = machine.per_lane(machine.ballot(machine.executing(m))) & members
        lowest = here & (~here + np.uint32(1))
        leader = np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32)
        _write(d, leader, m)
        _write(p, leader == machine.lane_in_warp, m)

    return step


@meaning("activemask")
def activemask(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        d = _row(machine, inst.operands[0])

        def step(m: Mask) -> None:
            _write(d, machine.per_lane(machine.ballot(machine.executing(m))), m)

        return step

    return Step(bind)
