"""cp.async and bulk copies (PTX ISA 9.7.9.25). A copy is complete as soon as it is issued, which is one of the orders
PTX allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine import Machine
from ..memory import Access, address_of, span
from ..program import Address, Imm, Inst, Operand, Reg
from .mbarrier import advance, update
from .registry import Action, Mask, Step, meaning

Array = Any


@meaning("cp.async")
def cp_async(inst: Inst) -> Step:
    return Step(_bind_cp_async)


def _bind_cp_async(machine: Machine, inst: Inst) -> Action:
    dst, src, size, *rest = inst.operands
    assert isinstance(size, Imm)
    words = int(size.value) // 4
    target = Access(machine, inst, dst, "shared", np.dtype(np.uint32), words)
    source = Access(machine, inst, src, "global", np.dtype(np.uint32), words)
    if rest and inst.has("L2::cache_hint"):
        rest = rest[:-1]
    ignore: Array = None
    length: Array = None
    if rest:
        if isinstance(rest[0], Reg) and rest[0].pool == "p":
            ignore = machine.source(rest[0], "pred")
        else:
            length = machine.source(rest[0], "u32")

    def step(m: Mask) -> None:
        lanes = machine.lane_numbers if m is None else machine.lanes_of(m)
        full = np.zeros((lanes.size, words), np.uint32)
        if length is None and ignore is None:
            full[...] = np.asarray(source.load(None if m is None else lanes)).reshape(lanes.size, words)
        else:
            n = np.full(lanes.size, 4 * words) if length is None else np.broadcast_to(length, machine.lanes)[lanes]
            if ignore is not None:
                n = np.where(np.broadcast_to(ignore, machine.lanes)[lanes], 0, n)
            some = np.flatnonzero(n)  # a thread that reads nothing may have any address
            if some.size:
                read = np.asarray(source.load(lanes[some])).reshape(some.size, words)
                kept = np.arange(4 * words) < n[some, None]
                raw = np.ascontiguousarray(read).view(np.uint8)
                full[some] = np.where(kept, raw, np.uint8(0)).view(np.uint32)
        target.store(None if m is None else lanes, full if words > 1 else full[:, 0])

    return step


@meaning(
    "cp.async.commit_group",
    "cp.async.wait_group",
    "cp.async.wait_all",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group",
    "cp.async.bulk.prefetch",
    "cp.async.bulk.prefetch.tensor",
)
def nothing(inst: Inst) -> Step:
    """Copies are complete when issued: there is nothing to wait for."""
    return Step(lambda machine, inst: lambda m: None)


@meaning("cp.async.mbarrier.arrive")
def mbarrier_arrive(inst: Inst) -> Step:
    """Arrive when the thread's cp.async are complete: at once. Without `.noinc` the arrival is added first, so nothing
    is left of it.
    """

    def bind(machine: Machine, inst: Inst) -> Action:
        if not inst.has("noinc"):
            return lambda m: None
        access = Access(
            machine,
            inst,
            inst.operands[0],
            "shared" if inst.one_of("shared", "shared::cta") else "generic",
            np.dtype(np.uint64),
        )
        one, none = np.ones(1, np.uint32), np.zeros(1, np.uint32)

        def step(m: Mask) -> None:
            update(machine, inst, access, machine.alive if m is None else m, one, none, 0, None)

        return step

    return Step(bind)


@meaning("cp.async.bulk")
def bulk(inst: Inst) -> Step:
    return Step(_bind_bulk)


def _value(machine: Machine, operand: Operand, lane: int, kind: str = "u32") -> int:
    source = machine.source(operand, kind)
    return int(source[lane % source.size])


def complete_tx(
    machine: Machine, inst: Inst, address: int, lane: int, size: int, space: str = "shared::cluster"
) -> None:
    """Tell the mbarrier at an address that `size` bytes have come."""
    word = span(machine, inst, address, space, lane, 8, write=True, align=8).view(np.uint64)
    new, why = advance(int(word[0]), 0, -size)
    if why:
        machine.fault(inst, f"mbarrier: {why}", lane)
    word[0] = new


def _bind_bulk(machine: Machine, inst: Inst) -> Action:
    spaces = [m for m in inst.modifiers if m in ("global", "shared::cta", "shared::cluster")]
    to, origin = spaces[0], spaces[1]
    if inst.has("cp_mask") or inst.has("ignore_oob"):
        machine.fault(inst, "the simulator does not execute .cp_mask and .ignore_oob yet")
    dst, src, size, *rest = inst.operands
    barrier = rest[0] if rest and isinstance(rest[0], Address) else None
    multicast = any(m.startswith("multicast") for m in inst.modifiers)

    def step(m: Mask) -> None:
        for lane in np.flatnonzero(machine.executing(m)).tolist():
            count = _value(machine, size, lane)
            if count % 16:
                machine.fault(inst, f"a bulk copy moves a multiple of 16 bytes, not {count}", lane)
            target = address_of(machine, dst, lane)
            data = span(
                machine, inst, address_of(machine, src, lane), origin, lane, count, write=False, align=16
            ).copy()
            receivers = [lane]
            if multicast:
                mask = _value(machine, rest[1], lane, "u16" if machine.cluster_size <= 16 else "u32")
                first = int(machine.cta_of_lane[lane]) // machine.cluster_size * machine.cluster_size
                receivers = [(first + r) * machine.padded for r in range(machine.cluster_size) if mask >> r & 1]
            for receiver in receivers:
                span(machine, inst, target, to, receiver, count, write=True, align=16)[...] = data
                if barrier is not None:
                    complete_tx(machine, inst, address_of(machine, barrier, lane), receiver, count)

    return step
