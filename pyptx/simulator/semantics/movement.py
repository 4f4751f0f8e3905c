"""Loads, stores and address conversion (PTX ISA 9.7.10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..machine.memory import Access, address_of, aligned, locate_span, span
from ..machine.program import (
    CLUSTER_SHIFT,
    LOCAL_WINDOW,
    PARAMETER_BASE,
    SHARED_WINDOW,
    Address,
    Inst,
    Operand,
    Place,
    Reg,
    Sink,
    Vec,
)
from ..machine.registry import Action, Mask, Pure, Step, dtype_of, meaning

Array = Any
SPACES = (
    "const",
    "global",
    "local",
    "param",
    "param::entry",
    "param::func",
    "shared",
    "shared::cta",
    "shared::cluster",
)


def space_of(inst: Inst) -> str:
    return inst.one_of(*SPACES) or "generic"


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vec) else (operand,)


@meaning("ld", "ldu")
def load(inst: Inst) -> Step:
    return Step(_bind_load, moves=inst.type != "b128")


def _bind_load(machine: Machine, inst: Inst) -> Action:
    targets = _elements(inst.operands[0])
    address = inst.operands[1]
    kind = inst.type
    dtype = dtype_of(kind)
    space = space_of(inst)
    if kind == "b128":
        return _bind_load_128(machine, inst, targets, address, space)
    writers: list[np.ndarray | None] = []
    for target in targets:
        found = machine.destination(target, kind)
        if found is not None and found[1] is not None:
            dtype = np.dtype(f"u{dtype.itemsize}")  # a float into a wider register: its bits
        writers.append(None if found is None else found[0])
    if isinstance(address, Address) and isinstance(address.base, Place) and address.base.space == "param":
        return _bind_parameter(machine, inst, address, dtype, writers)
    access = Access(machine, inst, address, space, dtype, len(targets))
    if len(writers) == 1:
        d = writers[0]
        assert d is not None
        plain = d.dtype == dtype and not machine.observers  # those watch `load`

        def step(m: Mask) -> None:
            if m is None and plain:
                access.load_all(d)
            elif m is None:
                d[...] = access.load(None)
            else:
                lanes = machine.lanes_of(m)
                d[lanes] = access.load(lanes)

        return step

    def vector(m: Mask) -> None:
        lanes = None if m is None else machine.lanes_of(m)
        values = access.load(lanes)
        for i, d in enumerate(writers):
            if d is not None:
                d[... if lanes is None else lanes] = values[:, i]

    return vector


def _bind_parameter(
    machine: Machine, inst: Inst, address: Address, dtype: np.dtype[Any], writers: list[np.ndarray | None]
) -> Action:
    """A kernel parameter at a fixed place: the same constant for all threads."""
    assert isinstance(address.base, Place)
    start = address.base.address + address.offset - 0x0000_7200_0000_0000
    end = start + dtype.itemsize * len(writers)
    if start < 0 or end > machine.parameters.size:
        machine.fault(inst, f"a load of bytes {start} to {end - 1} of {machine.parameters.size} bytes of parameters")
    if start % (end - start):
        machine.fault(inst, f"a load of {end - start} bytes at byte {start} of the parameters is misaligned")
    values = machine.parameters[start:end].view(dtype)
    pairs = [(d, values[i]) for i, d in enumerate(writers) if d is not None]

    def step(m: Mask) -> None:
        for d, value in pairs:
            if m is None:
                d[...] = value
            else:
                np.copyto(d, value, "unsafe", m)

    return step


def _bind_load_128(machine: Machine, inst: Inst, targets: tuple[Operand, ...], address: Operand, space: str) -> Action:
    access = Access(machine, inst, address, space, np.dtype(np.uint64), 2 * len(targets))
    rows = [None if isinstance(t, Sink) else machine.row(t) for t in targets if isinstance(t, (Reg, Sink))]

    def step(m: Mask) -> None:
        lanes = None if m is None else machine.lanes_of(m)
        values = access.load(lanes)
        for i, row in enumerate(rows):
            if row is not None:
                row[:, slice(None) if lanes is None else lanes] = values[:, 2 * i : 2 * i + 2].T

    return step


@meaning("st")
def store(inst: Inst) -> Step:
    return Step(_bind_store, moves=inst.type != "b128")


def _bind_store(machine: Machine, inst: Inst) -> Action:
    sources = _elements(inst.operands[1])
    kind = inst.type
    dtype = dtype_of(kind)
    space = space_of(inst)
    if kind == "b128":
        access = Access(machine, inst, inst.operands[0], space, np.dtype(np.uint64), 2 * len(sources))
        rows = [machine.source(s, kind) for s in sources]

        def wide(m: Mask) -> None:
            lanes = None if m is None else machine.lanes_of(m)
            pick = slice(None) if lanes is None else lanes
            access.store(lanes, np.concatenate([row[:, pick].T for row in rows], axis=1))

        return wide
    access = Access(machine, inst, inst.operands[0], space, dtype, len(sources))
    values = [machine.source(s, kind) for s in sources]
    full = [v if v.size == machine.lanes else None for v in values]
    if len(values) == 1:
        value = values[0]
        constant = full[0] is None

        def step(m: Mask) -> None:
            if m is None:
                access.store(None, value)
            else:
                lanes = machine.lanes_of(m)
                access.store(lanes, value if constant else value[lanes])

        return step

    def vector(m: Mask) -> None:
        lanes = None if m is None else machine.lanes_of(m)
        size = machine.lanes if lanes is None else lanes.size
        packed = np.empty((size, len(values)), dtype)
        for i, value in enumerate(values):
            packed[:, i] = value if lanes is None or value.size == 1 else value[lanes]
        access.store(lanes, packed)

    return vector


@meaning("st.bulk")
def store_bulk(inst: Inst) -> Step:
    def bind(machine: Machine, inst: Inst) -> Action:
        place, count, _ = inst.operands
        space = "shared" if inst.has("shared::cta") else "generic"
        size = machine.source(count, "u64" if isinstance(count, Reg) and count.pool == "64" else "u32")

        def step(m: Mask) -> None:
            for lane in np.flatnonzero(machine.executing(m)).tolist():
                total = int(np.broadcast_to(size, machine.lanes)[lane])
                if total % 8:
                    machine.fault(inst, f"the size {total} is not a multiple of 8", lane)
                address = address_of(machine, place, lane)
                target = span(machine, inst, address, space, lane, total, write=True, align=8)
                if total and machine.observers:
                    _, start = locate_span(machine, address, space, lane)
                    for observer in machine.observers:
                        observer.filled(inst, lane, start, total)
                target[...] = 0

        return step

    return Step(bind)


@meaning("applypriority", "discard")
def cache_line(inst: Inst) -> Step:
    """Hints about a line of the cache change no values. (After `discard` the data is undefined; here it stays.)"""
    return Step(lambda machine, inst: aligned(machine, inst, inst.operands[0], 128))


@meaning("prefetch", "prefetchu")
def hint(inst: Inst) -> Step:
    """Hints to the caches change no values."""
    return Step(lambda machine, inst: lambda m: None)


@meaning("createpolicy.fractional", "createpolicy.range", "createpolicy.cvt")
def create_policy(inst: Inst) -> Pure:
    """An opaque number; nothing reads it but cache hints."""
    return Pure(lambda: np.zeros(1, np.uint64), [(inst.operands[0], "b64")], [])


_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


def _window(inst: Inst) -> int:
    return _WINDOWS.get(space_of(inst).partition("::")[0], 0)


@meaning("cvta")
def cvta(inst: Inst) -> Pure | Step:
    kind = inst.type
    window = _window(inst)
    d, a = inst.operands
    if isinstance(a, Place) and a.frame is not None:

        def bind(machine: Machine, inst: Inst) -> Action:
            assert isinstance(d, Reg)
            assert a.frame is not None
            row, frame = machine.row(d), machine.row(a.frame)
            offset = machine.address_of(a) + window

            def step(m: Mask) -> None:
                np.copyto(row, frame.astype(np.uint64) + np.uint64(offset), "unsafe", machine.executing(m))

            return step

        return Step(bind)
    target = dtype_of(kind)
    base = target.type(window & ((1 << (8 * target.itemsize)) - 1))
    if space_of(inst).startswith("param") and target.itemsize == 8 and not inst.has("to"):
        # a register of 32 bits holds the address of a parameter without its upper half (`mov.b32 %r1, parameter`)
        return Pure(lambda x: np.where(x >> np.uint64(32), x, x | np.uint64(PARAMETER_BASE)), [(d, kind)], [(a, kind)])
    if not window:
        return Pure(lambda x: x, [(d, kind)], [(a, kind)])
    if inst.has("to"):
        return Pure(lambda x: x - base, [(d, kind)], [(a, kind)])
    return Pure(lambda x: x + base, [(d, kind)], [(a, kind)])


@meaning("isspacep")
def isspacep(inst: Inst) -> Pure | Step:
    p, a = inst.operands
    space = space_of(inst)
    wide = "u32" if isinstance(a, Reg) and a.pool == "32" else "u64"

    def test(x: Array) -> Array:
        x = x.astype(np.uint64)
        if space == "shared::cluster":
            return x - np.uint64(SHARED_WINDOW) < np.uint64(1 << 32)
        if space == "local":
            return x - np.uint64(LOCAL_WINDOW) < np.uint64(1 << 32)
        high = x >> np.uint64(40)
        if space.startswith("param"):
            return high == np.uint64(0x72)
        if space == "const":
            return np.zeros(x.shape, np.bool_)
        return (high >= np.uint64(0x72)) & (high < np.uint64(0x76))  # the window of parameters is one of global memory

    if space not in ("shared", "shared::cta"):
        return Pure(test, [(p, "pred")], [(a, wide)])

    def bind(machine: Machine, inst: Inst) -> Action:
        source = machine.source(a, wide)
        start = np.uint64(SHARED_WINDOW)
        if machine.rank_bits is not None:
            start = start + machine.rank_bits
        if not isinstance(p, Reg):
            return lambda m: None
        row = machine.row(p)

        def step(m: Mask) -> None:
            inside = source.astype(np.uint64) - start < np.uint64(1 << CLUSTER_SHIFT)
            np.copyto(row, inside, "unsafe", machine.executing(m))

        return step

    return Step(bind)


@meaning("mapa")
def mapa(inst: Inst) -> Pure:
    kind = "u" + inst.type[1:]
    d, a, b = inst.operands
    target = dtype_of(kind)

    def mapped(x: Array, rank: Array) -> Array:
        return x & ~target.type(0xFF << CLUSTER_SHIFT) | rank.astype(target) << target.type(CLUSTER_SHIFT)

    return Pure(mapped, [(d, kind)], [(a, kind), (b, "u32")])


@meaning("getctarank")
def getctarank(inst: Inst) -> Pure:
    d, a = inst.operands
    kind = "u" + inst.type[1:]
    shift, low = dtype_of(kind).type(CLUSTER_SHIFT), dtype_of(kind).type(0xFF)
    return Pure(lambda x: (x >> shift & low).astype(np.uint32), [(d, "u32")], [(a, kind)])
