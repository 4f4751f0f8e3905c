"""mbarrier objects (PTX ISA 9.7.15.16).

The object's 64 bits, which PTX leaves opaque: pending arrivals (bits 0 to 19), arrivals per phase (20 to 39),
transaction count with a
bias (40 to 61), whether it is an mbarrier at all (62) and the parity of the current phase (63).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np

from ..machine.machine import Machine
from ..machine.memory import Access, address_of, locate_span, seen_by, span
from ..machine.payload import Payload
from ..machine.program import Address, Inst, Operand, Pair, Reg, Sink
from ..machine.registry import Action, Mask, Pure, Step, meaning
from .movement import space_of
from .operands import receivers_of, scalar

Array = Any
COUNT = (1 << 20) - 1
BIAS = 1 << 21
VALID = 1 << 62
PHASE = 1 << 63
COUNT_V1 = (1 << 9) - 1
"""The largest count of an mbarrier with `.layout::v1`."""


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


def _object(machine: Machine, inst: Inst, address: Operand, *, own: bool = False) -> Access:
    """The access to an mbarrier. `own`: it must lie in the own CTA, also where the address is a generic one."""
    return Access(machine, inst, address, _shared(inst), np.dtype(np.uint64), own=own)


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
    payloads = machine.payloads
    lanes = machine.lane_numbers if mask is None else machine.lanes_of(mask)
    row = None if d is None else machine.row(d)
    for view, index, where in access.locate(None if mask is None else lanes, True):
        chosen = lanes if where is None else lanes[where]
        counts = np.broadcast_to(arrivals, machine.lanes)[chosen].tolist()
        bytes_ = np.broadcast_to(transactions, machine.lanes)[chosen].tolist()
        words = {i: int(view[i]) for i in set(index.tolist())}
        states: list[int] = []
        ended: set[int] = set()
        later: list[bool] = []
        for lane, i, count, tx in zip(chosen.tolist(), index.tolist(), counts, bytes_, strict=True):
            states.append(words[i])
            # the expected bytes count before the arrival does
            words[i], why = advance(words[i], count, tx, drop)
            if why:
                _wrong(machine, inst, why, lane)
            later.append(i in ended)
            if (words[i] ^ states[-1]) & PHASE:
                ended.add(i)
                if i in payloads:
                    payloads[i].end()
        for observer in machine.observers:
            observer.mbarrier_updated(inst, chosen, index, ended, np.array(later))
        for i, word in words.items():
            view[i] = word
        if row is not None:
            row[chosen] = np.array(states, np.uint64)


@meaning("mbarrier.init")
def init(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        access = _object(machine, inst, inst.operands[0], own=True)
        count = machine.source(inst.operands[1], "u32")
        with_payload = inst.has("layout::v1")
        most = COUNT_V1 if with_payload else COUNT

        def step(m: Mask) -> None:
            lanes = None if m is None else machine.lanes_of(m)
            n = np.broadcast_to(count, machine.lanes) if lanes is None else np.broadcast_to(count, machine.lanes)[lanes]
            bad = np.flatnonzero((n < 1) | (n > most))
            if bad.size:
                lane = int(bad[0]) if lanes is None else int(lanes[bad[0]])
                machine.fault(inst, f"an mbarrier counts 1 to {most} arrivals, not {int(n[bad[0]])}", lane)
            if with_payload or machine.payloads:
                for _, index, _ in access.locate(lanes, True):
                    for slot in index.tolist():
                        machine.payloads.pop(slot, None)
                        if with_payload:
                            machine.payloads[slot] = Payload()
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
        access = _object(machine, inst, inst.operands[0], own=True)

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
        sign = -1 if inst.has("expect_tx") else 0
        return _bind_multicast(machine, inst, address, rest, arrives=True, sign=sign, drops=drops)
    access = _object(machine, inst, address, own=isinstance(d, Reg))
    one = np.ones(1, np.uint32)
    amount = machine.source(rest[0], "u32") if rest else one
    transactions = inst.has("expect_tx")
    arrivals, bytes_ = (one, amount) if transactions else (amount, np.zeros(1, np.uint32))
    target = d if isinstance(d, Reg) else None

    def step(m: Mask) -> None:
        update(machine, inst, access, machine.alive if m is None else m, arrivals, bytes_, drops, target)

    return step


def _bind_multicast(
    machine: Machine, inst: Inst, address: Operand, rest: list[Operand], *, arrives: bool, sign: int, drops: int = 0
) -> Action:
    """The same in each CTA of the cluster that the mask names: the mbarrier at the same offset.

    `sign`: 1 if the operand is a number of bytes that are complete, -1 for expected ones, 0 if it counts arrivals.
    """

    def step(m: Mask) -> None:
        for lane in np.flatnonzero(machine.executing(m)).tolist():
            amount = scalar(machine, rest[0], lane) if len(rest) > 1 else 1
            sizes = sign * amount
            arrivals = 0 if not arrives else 1 if sign else amount
            for receiver in receivers_of(machine, lane, scalar(machine, rest[-1], lane)):
                place = seen_by(machine, address_of(machine, address, lane), receiver, lane)
                complete_tx(machine, inst, place, receiver, sizes, "shared::cluster", arrivals, drops)

    return step


def complete_tx(
    machine: Machine,
    inst: Inst,
    address: int,
    lane: int,
    size: int,
    space: str = "shared::cluster",
    arrivals: int = 0,
    drop: int = 0,
) -> None:
    """Tell the mbarrier at an address that `size` bytes have come, or that something arrives."""
    word = span(machine, inst, address, space, lane, 8, write=True, align=8).view(np.uint64)
    new, why = advance(int(word[0]), arrivals, -size, drop)
    if why:
        machine.fault(inst, f"mbarrier: {why}", lane)
    ended = bool((new ^ int(word[0])) & PHASE)
    if machine.observers or machine.payloads:
        slot = locate_span(machine, address, space, lane)[1] // 8
        for observer in machine.observers:
            done = {slot} if ended else set[int]()
            observer.mbarrier_updated(inst, np.array([lane]), np.array([slot]), done, np.zeros(1, np.bool_))
        if ended and slot in machine.payloads:
            machine.payloads[slot].end()
    word[0] = new


def report_on(machine: Machine, address: int, lane: int) -> None:
    """The operation reports something at the mbarrier at an address, so that its conditional phase does not end."""
    slot = locate_span(machine, address, "shared::cluster", lane)[1] // 8
    machine.payloads[slot].reported = True


def needs_payload(machine: Machine, inst: Inst, address: int, lane: int) -> None:
    """SimulationError if the mbarrier at an address cannot take reports."""
    if locate_span(machine, address, "shared::cluster", lane)[1] // 8 not in machine.payloads:
        machine.fault(
            inst,
            f"the operation reports at the mbarrier at 0x{address:x}, which has not the format for it",
            lane,
            "initialise it with mbarrier.init.layout::v1",
        )


@meaning("mbarrier.expect_tx", expects=True)
@meaning("mbarrier.complete_tx", expects=False)
def transactions(inst: Inst, *, expects: bool) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        if any("multicast" in m for m in inst.modifiers):
            rest = list(inst.operands[1:])
            return _bind_multicast(machine, inst, inst.operands[0], rest, arrives=False, sign=-1 if expects else 1)
        access = _object(machine, inst, inst.operands[0])
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


def _tell_observers(machine: Machine, inst: Inst, access: Access, lanes: Array, complete: Array) -> None:
    everyone = machine.lane_numbers if lanes is None else lanes
    for _, index, where in access.locate(lanes, False):
        chosen, looked = (everyone, complete) if where is None else (everyone[where], complete[where])
        for observer in machine.observers:
            observer.mbarrier_waited(inst, chosen, index, looked)


def _bind_wait(machine: Machine, inst: Inst) -> Action:
    results, *rest = inst.operands
    report = rest.pop(0) if not isinstance(rest[0], Address) else None
    address, state = rest[:2]
    first, second = (results.first, results.second) if isinstance(results, Pair) else (results, None)
    predicate, value = [machine.row(r) if isinstance(r, Reg) else None for r in (second, report)]
    conditional = inst.has("phase_type::conditional")
    access = _object(machine, inst, address, own=True)
    parity = inst.has("parity")
    token = machine.source(state, "u32" if parity else "u64")
    assert isinstance(first, (Reg, Sink))
    row = machine.row(first) if isinstance(first, Reg) else None

    pending = machine.pending

    def _reported(lanes: Array, phase: Array) -> Array:
        """Write the report of the phase that ended last; the parity of the conditional phases where these are asked for."""
        phase = phase.copy()
        numbers = machine.lane_numbers if lanes is None else lanes
        for _, index, where in access.locate(lanes, False):
            places = range(numbers.size) if where is None else where.tolist()
            for at, slot in zip(places, index.tolist(), strict=True):
                payload = machine.payloads.get(slot)
                if payload is not None and conditional:
                    phase[at] = payload.conditional & 1
                if predicate is not None:
                    predicate[numbers[at]] = payload is not None and payload.last
        return phase

    def step(m: Mask) -> None:
        lanes = None if m is None else machine.lanes_of(m)
        for written in (predicate, value):  # a report without more information has the value 0
            if written is not None:
                written[... if lanes is None else lanes] = 0
        words = access.load(lanes)
        balance = (words >> np.uint64(40) & np.uint64((1 << 22) - 1)).astype(np.int64) - BIAS
        bad = np.flatnonzero((words & np.uint64(VALID) == 0) | (abs(balance) > COUNT))
        if bad.size:
            lane = int(bad[0]) if lanes is None else int(lanes[bad[0]])
            machine.fault(inst, ABSENT, lane)
        wanted = token if lanes is None or token.size == 1 else token[lanes]
        phase = words >> np.uint64(63)
        if (conditional or predicate is not None) and machine.payloads:
            phase = _reported(lanes, phase)
        before = wanted & np.uint32(1) if parity else wanted >> np.uint64(63)
        complete = phase != before
        if machine.observers:
            _tell_observers(machine, inst, access, lanes, complete)
        if row is not None:
            row[... if lanes is None else lanes] = complete
        if pending.copies and not complete.all():
            pending.polled()

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
        p, address = inst.operands
        if not isinstance(p, Reg):
            return lambda m: None
        row = machine.row(p)
        access = _object(machine, inst, address)

        def step(m: Mask) -> None:
            lanes = machine.lanes_of(machine.executing(m))
            for _, index, where in access.locate(lanes, False):
                has = np.isin(index, list(machine.payloads))
                row[lanes if where is None else lanes[where]] = has == inst.has("layout::v1")

        return step

    return Step(bind)
