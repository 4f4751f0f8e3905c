"""Operations on memory reached through fabric endpoints (PTX ISA 9.7.11), looped back to arrays of this process (`endpoint`).

An operation begins when its thread submits it. None fails: what a fabric would report, an address out of bounds, stops the
launch. How a sum of 8-bit floats is rounded back (`try_pullred`) the manual does not say: here to nearest even, and what is
too large becomes the largest number, as `cvt` does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ...numerics import formats
from ..machine.endpoint import Members
from ..machine.machine import Machine
from ..machine.memory import address_of, locate_span, span
from ..machine.pending import Copy
from ..machine.program import Address, Inst, Operand
from ..machine.registry import Action, Mask, Step, dtype_of, meaning
from .atomic import update_for
from .mbarrier import complete_tx, needs_payload
from .operands import scalar
from .tensor_copy import combine_for, combine_of, flat_offset, place_box, prepare, take_box

Array = Any
OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas")
FP8 = ("e4m3", "e5m2")
CHUNK = 16
COUNTER_ALIGNMENT = 256


@meaning("fabric.submit", "fabric.submit.commit_group")
def submit(inst: Inst) -> Step:
    """Begin what the thread has issued."""
    fetching = inst.has("op_restrict::fetching")

    def bind(machine: Machine, inst: Inst) -> Action:
        def step(m: Mask) -> None:
            machine.pending.submit(machine.lanes_of(machine.executing(m)), fetching=fetching)

        return step

    return Step(bind)


@meaning("fabric.wait")
def wait(inst: Inst) -> Step:
    """Wait for the sources of the thread's operations: for all, which newer groups may, but need not be left."""

    def bind(machine: Machine, inst: Inst) -> Action:
        def step(m: Mask) -> None:
            machine.pending.finish_submitted(machine.lanes_of(machine.executing(m)))

        return step

    return Step(bind)


class _Far:
    """The memory that a fabric address `[endpoint, offset]` names."""

    def __init__(self, machine: Machine, inst: Inst, endpoint: Operand, offset: Operand, multicast: bool):
        self.machine, self.inst, self.endpoint, self.offset = machine, inst, endpoint, offset
        self.multicast = multicast

    def members(self, lane: int) -> Members:
        number = scalar(self.machine, self.endpoint, lane)
        found = self.machine.memory.endpoints.get(number)
        if found is None:
            self.machine.fault(
                self.inst, f"{number} is not an endpoint", lane, "pass a pyptx.simulator.Endpoint for a .u32 parameter"
            )
        if (len(found.bases) > 1) != self.multicast:
            kind = "several memories, which .multimem accesses" if not self.multicast else "one memory, not several"
            self.machine.fault(self.inst, f"endpoint {number} has {kind}", lane)
        return found

    def addresses(self, lane: int, size: int, align: int = CHUNK, offset: Operand | None = None) -> list[int]:
        """The address of `size` bytes in the memory of each member, checked."""
        members = self.members(lane)
        at = scalar(self.machine, offset or self.offset, lane, "u64")
        if at % align:
            self.machine.fault(self.inst, f"the offset 0x{at:x} must be a multiple of {align}", lane)
        if at + size > members.size:
            self.machine.fault(
                self.inst,
                f"{size} bytes at offset 0x{at:x} are out of bounds: there are {members.size} bytes after the endpoint",
                lane,
            )
        return [base + at for base in members.bases]


def _far(machine: Machine, inst: Inst, address: Operand) -> _Far:
    assert isinstance(address, Address)
    return _Far(machine, inst, address.base, address.rest[0], inst.has("multimem"))


def _view(machine: Machine, inst: Inst, lane: int, address: int, size: int, *, write: bool) -> Array:
    return span(machine, inst, address, "global", lane, size, write=write)


def _issue(
    machine: Machine,
    inst: Inst,
    lane: int,
    barrier: int,
    transactions: int,
    act: Callable[[], None],
    *,
    near: tuple[Array, bool],
    far: list[tuple[int, int, bool]],
) -> None:
    """`near`: bytes in shared memory, and whether they are written; `far`: (address, size, whether it is written)."""
    needs_payload(machine, inst, barrier, lane)

    def complete() -> None:
        act()
        complete_tx(machine, inst, barrier, lane, transactions, "shared")

    copy = Copy(inst, np.array([lane]), "mbarrier", complete)
    if machine.observers:
        view, written = near
        (copy.writes if written else copy.reads).append(("shared", flat_offset(machine, view), view.size))
        for address, size, stored in far:
            (copy.writes if stored else copy.reads).append(("global", address, size))
        copy.barriers = [locate_span(machine, barrier, "shared", lane)[1] // 8]
    machine.pending.hold(copy, fetches=inst.has("mbarrier::complete_tx::bytes"))


def _each(machine: Machine, issue: Callable[[int], None]) -> Action:
    def step(m: Mask) -> None:
        for lane in machine.lanes_of(machine.executing(m)).tolist():
            issue(lane)

    return step


def _size(machine: Machine, inst: Inst, operand: Operand, lane: int) -> int:
    size = scalar(machine, operand, lane)
    if size % CHUNK:
        machine.fault(inst, f"a fabric operation moves a multiple of {CHUNK} bytes, not {size}", lane)
    return size


@meaning("fabric.try_get.async")
def get(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        dst, address, size, barrier, *_ = inst.operands
        far = _far(machine, inst, address)

        def issue(lane: int) -> None:
            count = _size(machine, inst, size, lane)
            (start,) = far.addresses(lane, count)
            source = _view(machine, inst, lane, start, count, write=False)
            target = span(machine, inst, address_of(machine, dst, lane), "shared", lane, count, write=True, align=CHUNK)

            def act() -> None:
                target[...] = source

            signal = address_of(machine, barrier, lane)
            _issue(machine, inst, lane, signal, count, act, near=(target, True), far=[(start, count, False)])

        return _each(machine, issue)

    return Step(bind)


def _assign(old: Array, new: Array) -> Array:
    return new


@meaning("fabric.try_put.async", "fabric.try_red.async")
def put(inst: Inst) -> Step:
    """Copy, or combine, bytes of shared memory; with a counter, add their number to it afterwards."""

    def bind(machine: Machine, inst: Inst) -> Action:
        address, src, size, barrier, *rest = inst.operands
        far = _far(machine, inst, address)
        counter = _counter(address)
        mask = rest[0] if inst.has("cp_mask") else None
        operation = inst.one_of(*OPERATIONS)
        combine = _assign if operation is None else combine_of(operation, inst.type)
        assert combine is not None

        def issue(lane: int) -> None:
            count = _size(machine, inst, size, lane)
            starts = far.addresses(lane, count)
            goals = [_view(machine, inst, lane, start, count, write=True) for start in starts]
            counters = _counters(far, counter, lane)
            source = span(
                machine, inst, address_of(machine, src, lane), "shared", lane, count, write=False, align=CHUNK
            )
            bits = 0xFFFF if mask is None else scalar(machine, mask, lane, "u16")
            kept = np.tile(bits >> np.arange(CHUNK) & 1 == 1, count // CHUNK)

            def act() -> None:
                for goal in goals:
                    np.copyto(goal, combine(goal, source), where=kept)
                _count(machine, inst, lane, counters, count)

            touched = [(start, count, True) for start in starts]
            signal = address_of(machine, barrier, lane)
            _issue(machine, inst, lane, signal, count // CHUNK, act, near=(source, False), far=touched)

        return _each(machine, issue)

    return Step(bind)


def _counter(address: Operand) -> Operand | None:
    assert isinstance(address, Address)
    return address.rest[1] if len(address.rest) > 1 else None


def _counters(far: _Far, counter: Operand | None, lane: int) -> list[int]:
    return [] if counter is None else far.addresses(lane, 8, COUNTER_ALIGNMENT, counter)


def _count(machine: Machine, inst: Inst, lane: int, counters: list[int], count: int) -> None:
    for address in counters:
        _view(machine, inst, lane, address, 8, write=True).view(np.uint64)[0] += np.uint64(count)


@meaning("fabric.try_pullred.async")
def pull(inst: Inst) -> Step:
    """The members' elements combined in their order, small floats in a wider type, once for each warp."""

    def bind(machine: Machine, inst: Inst) -> Action:
        dst, address, size, barrier, *_ = inst.operands
        far = _far(machine, inst, address)
        operation = inst.one_of(*OPERATIONS) or "add"
        wide = "f32" if inst.has("acc::f32") else "f16" if inst.type in FP8 else ""

        def issue(lane: int) -> None:
            count = _size(machine, inst, size, lane)
            starts = far.addresses(lane, count)
            sources = [_view(machine, inst, lane, start, count, write=False) for start in starts]
            target = span(machine, inst, address_of(machine, dst, lane), "shared", lane, count, write=True, align=CHUNK)

            def act() -> None:
                target[...] = _reduced(sources, operation, inst.type, wide)

            touched = [(start, count, False) for start in starts]
            signal = address_of(machine, barrier, lane)
            _issue(machine, inst, lane, signal, count, act, near=(target, True), far=touched)

        def step(m: Mask) -> None:
            for warp in np.flatnonzero(machine.ballot(machine.executing(m))).tolist():
                issue(warp * 32)

        return step

    return Step(bind)


def _reduced(sources: list[Array], operation: str, kind: str, wide: str) -> Array:
    """The bytes of the members' elements combined, in the type `wide` if there is one."""
    combine = combine_of(operation, wide or kind)
    assert combine is not None
    if not wide:
        return reduce(combine, sources)
    dtype = np.dtype(f"f{int(wide[1:]) // 8}")
    total = reduce(
        combine, [formats.decode(s.view(dtype_of(kind)), kind).astype(dtype).view(np.uint8) for s in sources]
    )
    numbers = total.view(dtype).astype(np.float64)
    return formats.encode(numbers, kind, "rn", satfinite=kind in FP8).view(np.uint8)


@meaning("fabric.try_atom.async")
def atom(inst: Inst) -> Step:
    """One element: its old value goes to the block `dst`, at its place within 16 bytes."""

    def bind(machine: Machine, inst: Inst) -> Action:
        address, dst, src, barrier, *_ = inst.operands
        far = _far(machine, inst, address)
        operation = inst.one_of(*OPERATIONS) or "add"
        kind = "u64" if inst.type == "b128" else inst.type
        width = CHUNK if inst.type == "b128" else dtype_of(kind).itemsize
        blocks = 2 if operation == "cas" else 1

        def issue(lane: int) -> None:
            (start,) = far.addresses(lane, width, width)
            place = start % CHUNK
            goal = _view(machine, inst, lane, start, width, write=True)
            old = span(machine, inst, address_of(machine, dst, lane), "shared", lane, CHUNK, write=True, align=CHUNK)
            size = CHUNK * blocks
            given = span(machine, inst, address_of(machine, src, lane), "shared", lane, size, write=False, align=size)
            operands = [block[place : place + width] for block in given.reshape(blocks, CHUNK)]

            def act() -> None:
                before = goal.copy()
                old[place : place + width] = before
                goal[...] = _updated(operation, kind, before, operands)

            signal = address_of(machine, barrier, lane)
            _issue(machine, inst, lane, signal, 1, act, near=(given, False), far=[(start, width, True)])

        return _each(machine, issue)

    return Step(bind)


def _updated(operation: str, kind: str, before: Array, operands: list[Array]) -> Array:
    if operation == "exch":
        return operands[0]
    if operation == "cas":
        return operands[1] if np.array_equal(before, operands[0]) else before
    dtype = dtype_of(kind)
    update = update_for(operation, kind)
    return np.asarray(update(before.view(dtype), operands[0].copy().view(dtype))).view(np.uint8)


# ------------------------------------------------------------------------------------------------------- tensors


def _tensor(machine: Machine, inst: Inst, tensor: Operand) -> tuple[_Far, Operand | None, Callable[..., Any]]:
    """(the tensor's memory, its counter, what makes boxes): `[map, endpoint, base{, counter}, ..., {c...}]`."""
    assert isinstance(tensor, Address)
    counted = inst.has("counted::bytes")
    far = _Far(machine, inst, tensor.rest[0], tensor.rest[1], inst.has("multimem"))
    return far, tensor.rest[2] if counted else None, prepare(machine, inst, tensor, 3 if counted else 2)


@meaning("fabric.try_get.async.tensor")
def get_tensor(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        dst, tensor, barrier, *_ = inst.operands
        far, _, box_of = _tensor(machine, inst, tensor)

        def issue(lane: int) -> None:
            (base,) = far.addresses(lane, 0)
            box = box_of(lane, (), base)
            start = address_of(machine, dst, lane)
            target = span(machine, inst, start, "shared", lane, box.size, write=True, align=128)

            def act() -> None:
                place_box(target, box.read(), box.m.swizzle, start)

            signal = address_of(machine, barrier, lane)
            _issue(machine, inst, lane, signal, box.size, act, near=(target, True), far=[])

        return _each(machine, issue)

    return Step(bind)


@meaning("fabric.try_put.async.tensor", "fabric.try_red.async.tensor")
def put_tensor(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        tensor, src, size, barrier, *_ = inst.operands
        far, counter, box_of = _tensor(machine, inst, tensor)

        def issue(lane: int) -> None:
            boxes = [box_of(lane, (), base) for base in far.addresses(lane, 0)]
            first = boxes[0]
            count = scalar(machine, size, lane)
            if count != first.size:
                machine.fault(inst, f"the size {count} is not that of the box, {first.size} bytes", lane)
            combine = combine_for(machine, inst, lane, first.m)
            counters = _counters(far, counter, lane)
            start = address_of(machine, src, lane)
            view = span(machine, inst, start, "shared", lane, count, write=False, align=128)

            def act() -> None:
                for box in boxes:
                    box.write(take_box(view, box.m.swizzle, start), combine)
                _count(machine, inst, lane, counters, count)

            signal = address_of(machine, barrier, lane)
            _issue(machine, inst, lane, signal, count // CHUNK, act, near=(view, False), far=[])

        return _each(machine, issue)

    return Step(bind)
