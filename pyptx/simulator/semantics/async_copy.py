"""cp.async and bulk copies (PTX ISA 9.7.10.28). An instruction issues a `Copy`; `pending` says when it completes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..machine.memory import Access, address_of, aligned, locate_span, seen_by, span
from ..machine.payload import inspection_of
from ..machine.pending import Copy
from ..machine.program import Address, Imm, Inst, Not, Operand, Reg
from ..machine.registry import Action, Mask, Step, meaning
from .matrix import registers_of
from .mbarrier import complete_tx, needs_payload, report_on, update

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
    negated = bool(rest) and isinstance(rest[0], Not)
    if rest:
        flag = rest[0].operand if isinstance(rest[0], Not) else rest[0]
        if isinstance(flag, Reg) and flag.pool == "p":
            ignore = machine.source(flag, "pred")
        else:
            length = machine.source(rest[0], "u32")

    def step(m: Mask) -> None:
        lanes = machine.lane_numbers if m is None else machine.lanes_of(m)
        some, kept = slice(None), None
        if length is not None or ignore is not None:
            n = np.full(lanes.size, 4 * words) if length is None else np.broadcast_to(length, machine.lanes)[lanes]
            if ignore is not None:
                n = np.where(ignore[lanes] != negated, 0, n)
            some = np.flatnonzero(n)  # a thread that reads nothing may have any address
            kept = np.arange(4 * words) < n[some, None]
        reading = lanes[some]
        origin = source.locate(reading, False) if reading.size else []
        goal = target.locate(lanes, True)

        def complete() -> None:
            read = np.zeros((reading.size, words), np.uint32)
            for view, index, where in origin:
                read[slice(None) if where is None else where] = view[index].reshape(-1, words)
            if kept is not None:
                read = np.where(kept, read.view(np.uint8), np.uint8(0)).view(np.uint32)
            full = np.zeros((lanes.size, words), np.uint32)
            full[some] = read
            data = full if words > 1 else full[:, 0]
            for view, index, where in goal:
                view[index] = data if where is None else data[where]

        machine.pending.issue(Copy(inst, lanes, "group", complete, source=(source, reading), target=target))

    return step


@meaning("cp.async.bulk.prefetch")
def prefetch(inst: Inst) -> Step:
    return Step(lambda machine, inst: aligned(machine, inst, inst.operands[0], 16))


@meaning(
    "cp.async.bulk.prefetch.tensor",
    "applypriority.async.bulk",
    "applypriority.async.bulk.tensor",
)
def nothing(inst: Inst) -> Step:
    """A prefetch or a cache line's priority changes no values."""
    return Step(lambda machine, inst: lambda m: None)


@meaning("cp.async.commit_group", bulk=False)
@meaning("cp.async.bulk.commit_group", bulk=True)
def commit_group(inst: Inst, *, bulk: bool) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        pending = machine.pending
        counts = pending.bulk_groups if bulk else pending.groups

        def step(m: Mask) -> None:
            counts[... if m is None else machine.lanes_of(m)] += 1

        return step

    return Step(bind)


@meaning("cp.async.wait_group", "cp.async.wait_all", bulk=False)
@meaning("cp.async.bulk.wait_group", bulk=True)
def wait_group(inst: Inst, *, bulk: bool) -> Step:
    """Wait until at most N of the groups that the thread committed are not complete."""

    def bind(machine: Machine, inst: Inst) -> Action:
        pending = machine.pending
        mechanism, counts = ("bulk_group", pending.bulk_groups) if bulk else ("group", pending.groups)
        # wait_all waits for copies that are in no group, too
        left = min(int(inst.operands[0].value), 1 << 62) if inst.operands and isinstance(inst.operands[0], Imm) else -1

        def step(m: Mask) -> None:
            lanes = machine.lane_numbers if m is None else machine.lanes_of(m)
            newest = counts[lanes] - left
            pending.wait(mechanism, lanes, newest)
            for observer in machine.observers:
                observer.groups_waited(inst, mechanism, lanes, newest)

        return step

    return Step(bind)


@meaning("cp.async.mbarrier.arrive")
def mbarrier_arrive(inst: Inst) -> Step:
    """Arrive when the thread's cp.async are complete: at once. Without `.noinc` the arrival is added first, so nothing
    is left of it.
    """

    def bind(machine: Machine, inst: Inst) -> Action:
        space = "shared" if inst.one_of("shared", "shared::cta") else "generic"
        access = Access(machine, inst, inst.operands[0], space, np.dtype(np.uint64), own=True)
        if not inst.has("noinc"):

            def wait(m: Mask) -> None:
                lanes = machine.lane_numbers if m is None else machine.lanes_of(m)
                access.locate(None if m is None else lanes, True)
                machine.pending.wait("group", lanes, machine.pending.groups[lanes] + 1)

            return wait
        one, none = np.ones(1, np.uint32), np.zeros(1, np.uint32)

        def step(m: Mask) -> None:
            lanes = machine.lane_numbers if m is None else machine.lanes_of(m)
            # arriving right after the copies is one of the orders that are allowed
            machine.pending.wait("group", lanes, machine.pending.groups[lanes] + 1)
            update(machine, inst, access, machine.alive if m is None else m, one, none, 0, None)

        return step

    return Step(bind)


@meaning("cp.async.bulk")
def bulk(inst: Inst) -> Step:
    return Step(_bind_bulk)


def _value(machine: Machine, operand: Operand, lane: int, kind: str = "u32") -> int:
    source = machine.source(operand, kind)
    return int(source[lane % source.size])


def _bind_bulk(machine: Machine, inst: Inst) -> Action:
    spaces = [m for m in inst.modifiers if m in ("global", "shared::cta", "shared::cluster")]
    to, origin = spaces[0], spaces[1]
    dst, src, size, *rest = inst.operands
    masked = registers_of(rest[-1])[0] if inst.has("cp_mask") else None
    ignored = (rest.pop(0), rest.pop(0)) if inst.has("ignore_oob") else None
    barrier = rest[0] if rest and isinstance(rest[0], Address) else None
    multicast = any(m.startswith("multicast") for m in inst.modifiers)

    def step(m: Mask) -> None:
        for lane in np.flatnonzero(machine.executing(m)).tolist():
            count = _value(machine, size, lane)
            if count % 16:
                machine.fault(inst, f"a bulk copy moves a multiple of 16 bytes, not {count}", lane)
            target = address_of(machine, dst, lane)
            start = address_of(machine, src, lane)
            combine = _assign
            if ignored is None:
                data = span(machine, inst, start, origin, lane, count, write=False, align=16)
            else:  # bytes at both ends that need not be there; what is written for them is not defined
                left, right = (_value(machine, o, lane) for o in ignored)
                data = np.zeros(count, np.uint8)
                inner = span(machine, inst, start + left, origin, lane, count - left - right, write=False)
                data[left : count - right] = inner
            if masked is not None:
                combine = _assign_bytes(_value(machine, masked, lane, "u16"))
            receivers = [lane]
            if multicast:
                mask = _value(machine, rest[1], lane, "u32" if inst.has("multicast::cluster::32b") else "u16")
                first = int(machine.cta_of_lane[lane]) // machine.cluster_size * machine.cluster_size
                receivers = [(first + r) * machine.padded for r in range(machine.cluster_size) if mask >> r & 1]
            goals = [
                span(machine, inst, seen_by(machine, target, r, lane), to, r, count, write=True, align=16)
                for r in receivers
            ]
            told = None if barrier is None else address_of(machine, barrier, lane)
            issue_bulk(machine, inst, lane, receivers, data, goals, told, (origin, start), (to, target), count, combine)

    return step


def _assign_bytes(mask: int) -> Callable[[np.ndarray, np.ndarray], None]:
    """Write the bytes of each 16-byte chunk that the mask names."""
    chosen = np.flatnonzero(mask >> np.arange(16) & 1)

    def assign(goal: np.ndarray, data: np.ndarray) -> None:
        goal.reshape(-1, 16)[:, chosen] = data.reshape(-1, 16)[:, chosen]

    return assign


def _assign(goal: np.ndarray, data: np.ndarray) -> None:
    goal[...] = data


def issue_bulk(
    machine: Machine,
    inst: Inst,
    lane: int,
    receivers: list[int],
    data: np.ndarray,
    goals: list[np.ndarray],
    barrier: int | None,
    source: tuple[str, int],
    target: tuple[str, int],
    count: int,
    combine: Callable[[np.ndarray, np.ndarray], None],
) -> None:
    """Issue a bulk copy of `count` bytes. `receivers` are lanes in whose CTAs `target` and `barrier` lie;
    `source` and `target` are (space, address).
    """

    inspect = inspection_of(inst.modifiers)
    if inspect is not None and barrier is not None:
        for r in receivers:
            needs_payload(machine, inst, seen_by(machine, barrier, r, lane), r)

    def complete() -> None:
        moved = data.copy()
        reports = inspect is not None and inspect(moved)
        for receiver, goal in zip(receivers, goals, strict=True):
            combine(goal, moved)
            if barrier is not None:
                signal = seen_by(machine, barrier, receiver, lane)
                if reports:
                    report_on(machine, signal, receiver)
                complete_tx(machine, inst, signal, receiver, count)

    copy = Copy(inst, np.array([lane]), "bulk_group" if barrier is None else "mbarrier", complete)
    if machine.observers:
        copy.reads.append((*locate_span(machine, source[1], source[0], lane), count))
        copy.writes += [
            (*locate_span(machine, seen_by(machine, target[1], r, lane), target[0], r), count) for r in receivers
        ]
        if barrier is not None:
            copy.barriers = [
                locate_span(machine, seen_by(machine, barrier, r, lane), "shared::cluster", r)[1] // 8
                for r in receivers
            ]
    machine.pending.issue(copy)
