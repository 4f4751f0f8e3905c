"""mbarrier objects (PTX ISA 9.7.13.15).

The object's 64 bits, which PTX leaves opaque: pending arrivals (bits 0 to 19), arrivals per phase (20 to 39),
transaction count with a
bias (40 to 61), whether it is an mbarrier at all (62) and the parity of the current phase (63).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np

from ..machine import Machine
from ..memory import Access, address_of, seen_by
from ..program import Inst, Not, Operand, Pair, Reg, Sink
from .movement import space_of
from .registry import Action, Mask, Pure, Step, meaning

Array = Any
COUNT = (1 << 20) - 1
BIAS = 1 << 21
VALID = 1 << 62
PHASE = 1 << 63


ABSENT = "there is no mbarrier at this address: it was not initialised, or made invalid"


def advance(word: int, arrivals: int, transactions: int, drop: int = 0) -> tuple[int, str]:
    """(the object after arrivals and a change of the transaction count, what is wrong). A phase that is complete
    ends.
    """
    pending, expected = word & COUNT, word >> 20 & COUNT
    balance = (word >> 40 & (1 << 22) - 1) - BIAS
    if not word & VALID or abs(balance) > COUNT:
        return word, ABSENT
    balance += transactions
    if arrivals > pending:
        return word, f"{arrivals} arrivals are more than the {pending} that the phase still waits for (of {expected})"
    if abs(balance) > COUNT:
        return word, f"the transaction count {balance} leaves its range of +-{COUNT}"
    pending -= arrivals
    expected -= drop
    phase = word & PHASE
    if pending == 0 and balance == 0:
        phase ^= PHASE
        pending = expected
    return pending | expected << 20 | (balance + BIAS) << 40 | VALID | phase, ""


def _shared(inst: Inst) -> str:
    return (
        "shared::cluster"
        if space_of(inst) == "shared::cluster"
        else "shared"
        if space_of(inst) != "generic"
        else "generic"
    )


def _wrong(machine: Machine, inst: Inst, why: str, lane: int) -> NoReturn:
    machine.fault(inst, why, lane)


def update(
    machine: Machine,
    inst: Inst,
    access: Access,
    mask: Mask,
    arrivals: Array,
    transactions: Array,
    drop: int,
    d: Reg | None,
) -> None:
    """Apply one arrival or transaction per lane, in the order of the lanes; writes the state before into d."""
    lanes = machine.lane_numbers if mask is None else machine.lanes_of(mask)
    row = None if d is None else machine.row(d)
    for view, index, where in access.locate(None if mask is None else lanes, True):
        chosen = lanes if where is None else lanes[where]
        counts = np.broadcast_to(arrivals, machine.lanes)[chosen].tolist()
        bytes_ = np.broadcast_to(transactions, machine.lanes)[chosen].tolist()
        words = {i: int(view[i]) for i in set(index.tolist())}
        states: list[int] = []
        for lane, i, count, tx in zip(chosen.tolist(), index.tolist(), counts, bytes_, strict=True):
            states.append(words[i])
            # the expected bytes count before the arrival does
            words[i], why = advance(words[i], count, tx, drop)
            if why:
                _wrong(machine, inst, why, lane)
        if machine.observers:
            ended = {i for i, word in words.items() if (word ^ int(view[i])) & PHASE}
            for observer in machine.observers:
                observer.mbarrier_updated(inst, chosen, index, ended)
        for i, word in words.items():
            view[i] = word
        if row is not None:
            row[chosen] = np.array(states, np.uint64)


@meaning("mbarrier.init")
def init(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        access = Access(machine, inst, inst.operands[0], _shared(inst), np.dtype(np.uint64))
        count = machine.source(inst.operands[1], "u32")

        def step(m: Mask) -> None:
            lanes = None if m is None else machine.lanes_of(m)
            n = np.broadcast_to(count, machine.lanes) if lanes is None else np.broadcast_to(count, machine.lanes)[lanes]
            bad = np.flatnonzero((n < 1) | (n > COUNT))
            if bad.size:
                lane = int(bad[0]) if lanes is None else int(lanes[bad[0]])
                machine.fault(inst, f"an mbarrier counts 1 to {COUNT} arrivals, not {int(n[bad[0]])}", lane)
            if machine.observers:
                everyone = machine.lane_numbers if lanes is None else lanes
                for _, index, where in access.locate(lanes, True):
                    for observer in machine.observers:
                        observer.mbarrier_initialised(inst, everyone if where is None else everyone[where], index)
            wide = n.astype(np.uint64)
            access.store(lanes, wide | wide << np.uint64(20) | np.uint64(BIAS << 40 | VALID))

        return step

    return Step(bind)


@meaning("mbarrier.inval")
def inval(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        access = Access(machine, inst, inst.operands[0], _shared(inst), np.dtype(np.uint64))

        def step(m: Mask) -> None:
            access.store(None if m is None else machine.lanes_of(m), np.zeros(1, np.uint64))

        return step

    return Step(bind)


@meaning("mbarrier.arrive", drops=0)
@meaning("mbarrier.arrive_drop", drops=1)
def arrive(inst: Inst, *, drops: int) -> Step:
    """`drops`: by how much each arrival lowers the count of the phases to come."""
    return Step(partial(_bind_arrive, drops=drops))


def _bind_arrive(machine: Machine, inst: Inst, drops: int) -> Action:
    d, address, *rest = inst.operands
    if any("multicast" in m for m in inst.modifiers):
        if drops:
            machine.fault(inst, "the simulator does not execute multicast arrive_drop")
        return _bind_multicast(machine, inst, address, rest, arrives=True, sign=-1 if inst.has("expect_tx") else 0)
    access = Access(machine, inst, address, _shared(inst), np.dtype(np.uint64))
    one = np.ones(1, np.uint32)
    amount = machine.source(rest[0], "u32") if rest else one
    transactions = inst.has("expect_tx")
    arrivals, bytes_ = (one, amount) if transactions else (amount, np.zeros(1, np.uint32))
    target = d if isinstance(d, Reg) else None

    def step(m: Mask) -> None:
        update(machine, inst, access, machine.alive if m is None else m, arrivals, bytes_, drops, target)

    return step


def _bind_multicast(
    machine: Machine, inst: Inst, address: Operand, rest: list[Operand], *, arrives: bool, sign: int
) -> Action:
    """The same in each CTA of the cluster that the mask names: the mbarrier at the same offset.

    `sign`: 1 if the operand is a number of bytes that are complete, -1 for expected ones, 0 if it counts arrivals.
    """
    from .async_copy import complete_tx
    from .tensor_copy import receivers_of, scalar

    def step(m: Mask) -> None:
        for lane in np.flatnonzero(machine.executing(m)).tolist():
            amount = scalar(machine, rest[0], lane) if len(rest) > 1 else 1
            sizes = sign * amount
            arrivals = 0 if not arrives else 1 if sign else amount
            for receiver in receivers_of(machine, lane, scalar(machine, rest[-1], lane)):
                place = seen_by(machine, address_of(machine, address, lane), receiver, lane)
                complete_tx(machine, inst, place, receiver, sizes, "shared::cluster", arrivals)

    return step


@meaning("mbarrier.expect_tx", expects=True)
@meaning("mbarrier.complete_tx", expects=False)
def transactions(inst: Inst, *, expects: bool) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        if any("multicast" in m for m in inst.modifiers):
            rest = list(inst.operands[1:])
            return _bind_multicast(machine, inst, inst.operands[0], rest, arrives=False, sign=-1 if expects else 1)
        access = Access(machine, inst, inst.operands[0], _shared(inst), np.dtype(np.uint64))
        bytes_ = machine.source(inst.operands[1], "u32").astype
        sign = 1 if expects else -1

        def step(m: Mask) -> None:
            none = np.zeros(1, np.uint32)
            update(machine, inst, access, machine.alive if m is None else m, none, sign * bytes_(np.int64), 0, None)

        return step

    return Step(bind)


@meaning("mbarrier.test_wait", "mbarrier.try_wait")
def wait(inst: Inst) -> Step:
    """Whether a phase is complete; nobody sleeps here, so try_wait answers at once."""
    return Step(_bind_wait)


def _bind_wait(machine: Machine, inst: Inst) -> Action:
    results, address, state = inst.operands[:3]
    first: Operand = results.first if isinstance(results, Pair) else results
    access = Access(machine, inst, address, _shared(inst), np.dtype(np.uint64))
    parity = inst.has("parity")
    token = machine.source(state, "u32" if parity else "u64")
    assert isinstance(first, (Reg, Sink))
    row = machine.row(first) if isinstance(first, Reg) else None

    pending = machine.pending

    def step(m: Mask) -> None:
        lanes = None if m is None else machine.lanes_of(m)
        words = access.load(lanes)
        balance = (words >> np.uint64(40) & np.uint64((1 << 22) - 1)).astype(np.int64) - BIAS
        bad = np.flatnonzero((words & np.uint64(VALID) == 0) | (abs(balance) > COUNT))
        if bad.size:
            lane = int(bad[0]) if lanes is None else int(lanes[bad[0]])
            machine.fault(inst, ABSENT, lane)
        wanted = token if lanes is None or token.size == 1 else token[lanes]
        phase = words >> np.uint64(63)
        before = wanted & np.uint32(1) if parity else wanted >> np.uint64(63)
        if machine.observers:
            everyone = machine.lane_numbers if lanes is None else lanes
            for _, index, where in access.locate(lanes, False):
                chosen = everyone if where is None else everyone[where]
                looked = (phase != before) if where is None else (phase != before)[where]
                for observer in machine.observers:
                    observer.mbarrier_waited(inst, chosen, index, looked)
        if row is not None:
            row[... if lanes is None else lanes] = phase != before
        if pending.copies and not (phase != before).all():
            pending.force_one()  # what is polled for happens in the end

    return step


@meaning("mbarrier.pending_count")
def pending_count(inst: Inst) -> Pure:
    return Pure(
        lambda state: (state & np.uint64(COUNT)).astype(np.uint32),
        [(inst.operands[0], "u32")],
        [(inst.operands[1], "u64")],
    )


@meaning("mbarrier.check_layout")
def check_layout(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        p = inst.operands[0]
        assert isinstance(p, Reg)
        assert not isinstance(p, Not)
        row = machine.row(p)

        def step(m: Mask) -> None:
            np.copyto(row, inst.has("layout::v0"), "unsafe", machine.executing(m))

        return step

    return Step(bind)
