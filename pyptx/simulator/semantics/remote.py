"""Stores and reductions that complete at an mbarrier (st.async, red.async), multimem on one device, and cluster launch
control (PTX ISA 9.7.10.12 to 9.7.10.15, 9.7.15.7, 9.7.15.8, 9.7.15.18).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..machine.memory import address_of, locate_span, seen_by, span
from ..machine.pending import Copy
from ..machine.program import Inst, Operand, Reg, Sink, Vec
from ..machine.registry import Action, Mask, Step, dtype_of, meaning
from . import async_copy, atomic, movement
from .atomic import update_of
from .mbarrier import complete_tx
from .operands import receivers_of

Array = Any


@meaning("st.async", reduces=False)
@meaning("red.async", reduces=True)
def counted(inst: Inst, *, reduces: bool) -> Step:
    """Without an mbarrier (to global memory) like st and red; else each thread's bytes are counted when they come."""
    if len(inst.operands) < 3:
        plain = atomic.atomic(inst, returns=False) if reduces else movement.store(inst)
        assert isinstance(plain, Step)
        return plain
    return Step(partial(_bind_counted, reduces=reduces))


def _bind_counted(machine: Machine, inst: Inst, reduces: bool) -> Action:
    address, value, barrier = inst.operands
    elements = value.elements if isinstance(value, Vec) else (value,)
    kind = inst.type
    space = "shared::cluster" if inst.has("shared::cluster") else "generic"
    rows = [machine.source(e, kind, whole=True) for e in elements]
    wide = kind == "b128"
    dtype = np.dtype(np.uint64) if wide else dtype_of(kind)
    update = update_of(inst) if reduces else None
    size = (16 if wide else dtype.itemsize) * len(elements)

    def issue(lane: int) -> None:
        start, signal = address_of(machine, address, lane), address_of(machine, barrier, lane)
        target = span(machine, inst, start, space, lane, size, write=True, align=size).view(dtype)
        parts = [row[..., lane] for row in rows]
        data = np.concatenate([np.atleast_1d(p) for p in parts]).astype(dtype)

        def complete() -> None:
            target[...] = data if update is None else update(target.copy(), data)
            complete_tx(machine, inst, signal, lane, size, space)

        copy = Copy(inst, np.array([lane]), "mbarrier", complete)
        if machine.observers:
            copy.writes.append((*locate_span(machine, start, space, lane), size))
            copy.barriers.append(locate_span(machine, signal, space, lane)[1] // 8)
        machine.pending.issue(copy)

    def step(m: Mask) -> None:
        for lane in np.flatnonzero(machine.executing(m)).tolist():
            issue(lane)

    return step


# On one device a multimem address is an ordinary one: there is one memory reached through it.
meaning("multimem.ld_reduce")(movement.load)
meaning("multimem.st", "multimem.st.async")(movement.store)
meaning("multimem.red", "multimem.red.async", returns=False)(atomic.atomic)
meaning("multimem.cp.async.bulk")(async_copy.bulk)


# -------------------------------------------------------------------------------------------- cluster launch control


@meaning("clusterlaunchcontrol.try_cancel.async")
def try_cancel(inst: Inst) -> Step:
    """The last cluster of the grid that has not begun is cancelled, if there is one."""

    def bind(machine: Machine, inst: Inst) -> Action:
        dst, barrier = inst.operands
        space = "shared" if inst.has("shared::cta") else "generic"
        every = inst.has("multicast::cluster::all")

        def issue(lane: int) -> None:
            start, signal = address_of(machine, dst, lane), address_of(machine, barrier, lane)
            answer = np.zeros(4, np.uint32)
            first = machine.cancel_cluster()
            if first is not None:
                answer[:3] = [int(x) for x in machine.cta_index(first - machine.first_cta)]
                answer[3] = 1
            receivers = receivers_of(machine, lane, -1) if every else [lane]
            targets = [
                span(machine, inst, seen_by(machine, start, r, lane), space, r, 16, write=True, align=16)
                for r in receivers
            ]

            def complete() -> None:
                for receiver, target in zip(receivers, targets, strict=True):
                    target[...] = answer.view(np.uint8)
                    complete_tx(machine, inst, seen_by(machine, signal, receiver, lane), receiver, 16, space)

            copy = Copy(inst, np.array([lane]), "mbarrier", complete)
            if machine.observers:
                for receiver in receivers:
                    there = seen_by(machine, start, receiver, lane)
                    copy.writes.append((*locate_span(machine, there, space, receiver), 16))
                    there = seen_by(machine, signal, receiver, lane)
                    copy.barriers.append(locate_span(machine, there, space, receiver)[1] // 8)
            machine.pending.issue(copy)

        def step(m: Mask) -> None:
            for lane in np.flatnonzero(machine.executing(m)).tolist():
                issue(lane)

        return step

    return Step(bind)


@meaning("clusterlaunchcontrol.query_cancel")
def query_cancel(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        d, answer = inst.operands
        if not isinstance(answer, Reg):
            machine.fault(inst, "the answer of clusterlaunchcontrol.try_cancel is 16 bytes, in a .b128 register")
        low, high = machine.source(answer, "b128")
        targets: list[tuple[Operand, int]] = []
        if inst.has("is_canceled"):
            targets = [(d, 3)]
        elif isinstance(d, Vec):
            targets = [(e, i) for i, e in enumerate(d.elements[:3])]
        else:
            targets = [(d, next(i for i, c in enumerate("xyz") if inst.has(f"get_first_ctaid::{c}")))]
        rows = [(machine.row(t), i) for t, i in targets if isinstance(t, Reg) and not isinstance(t, Sink)]

        def step(m: Mask) -> None:
            for row, i in rows:
                half = low if i < 2 else high
                value = (half >> np.uint64(32 * (i % 2)) & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
                np.copyto(row, value != 0 if row.dtype == np.bool_ else value, "unsafe", machine.executing(m))

        return step

    return Step(bind)
