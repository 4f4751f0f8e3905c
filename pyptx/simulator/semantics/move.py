"""mov and prmt (PTX ISA 9.7.10.3, 9.7.10.7)."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...numerics import integer, native
from ..machine.machine import Machine
from ..machine.program import Inst, Operand, Pair, Place, Reg, Special, Vec
from ..machine.registry import Action, Mask, Pure, Step, dtype_of, meaning
from .operands import Array, lanewise

_CLOCKS = ("%clock", "%globaltimer", "%pm")


def _same(a: Array) -> Array:
    return a


@meaning("mov")
def mov(inst: Inst) -> Pure | Step:
    d, a = inst.operands
    kind = inst.type
    if isinstance(a, Special) and a.name.startswith(_CLOCKS):
        return Step(partial(_read_clock, kind=kind))
    if isinstance(a, Place) and a.frame is not None:
        return Step(_frame_address)
    if kind == "b128":
        return _wide(d, a)
    if inst.one_of("v2", "v4"):
        targets = d.elements if isinstance(d, Vec) else (d,)
        if isinstance(a, Special):
            sources: tuple[Operand, ...] = tuple(Special(f"{a.name}.{c}") for c in "xyzw"[: len(targets)])
        else:
            sources = a.elements if isinstance(a, Vec) else (a,) * len(targets)
        return Pure(lambda *xs: xs, [(t, kind) for t in targets], [(s, kind) for s in sources], native=native.several)
    d, a = (o.elements[0] if isinstance(o, Vec) and len(o.elements) == 1 else o for o in (d, a))
    if isinstance(a, Vec) and isinstance(d, Vec):
        pairs = list(zip(d.elements, a.elements, strict=False))
        return Pure(lambda *xs: xs, [(t, kind) for t, _ in pairs], [(s, kind) for _, s in pairs], native=native.several)
    if isinstance(a, Vec):
        return _pack(d, a, kind)
    if isinstance(d, Vec):
        return _unpack(d, a, kind)
    return Pure(_same, [(d, kind)], [(a, kind)], native=native.same)


def _pack(d: Operand, a: Vec, kind: str) -> Pure:
    count = len(a.elements)
    width = int(kind[1:]) // count
    element = f"b{width}"
    target = dtype_of(kind)

    def join(*xs: Array) -> Array:
        r = xs[0].astype(target)
        for i, x in enumerate(xs[1:], 1):
            r = r | x.astype(target) << target.type(width * i)
        return r

    return Pure(
        join, [(d, kind)], [(e, element) for e in a.elements], native=partial(native.join, type=f"i{width * count}")
    )


def _unpack(d: Vec, a: Operand, kind: str) -> Pure:
    count = len(d.elements)
    width = int(kind[1:]) // count
    element = f"b{width}"
    source, target = dtype_of(kind), dtype_of(element)

    def split(x: Array) -> tuple[Array, ...]:
        return tuple((x >> source.type(width * i)).astype(target) for i in range(count))

    return Pure(split, [(e, element) for e in d.elements], [(a, kind)], native=partial(native.split, type=f"i{width}"))


def _wide(d: Operand, a: Operand) -> Pure | Step:
    """128-bit values: two rows of 64 bits."""
    if isinstance(a, Vec):

        def join(*xs: Array) -> Array:
            if len(xs) == 4:
                u64 = np.uint64
                w = [x.astype(u64) for x in xs]
                xs = (w[0] | w[1] << u64(32), w[2] | w[3] << u64(32))
            return np.stack(np.broadcast_arrays(*xs))

        element = "b64" if len(a.elements) == 2 else "b32"
        return Pure(join, [(d, "b128")], [(e, element) for e in a.elements])
    if isinstance(d, Vec):
        count = len(d.elements)

        def split(x: Array) -> tuple[Array, ...]:
            if count == 2:
                return x[0], x[1]
            return tuple((x[i // 2] >> np.uint64(32 * (i % 2))).astype(np.uint32) for i in range(4))

        return Pure(split, [(e, "b64" if count == 2 else "b32") for e in d.elements], [(a, "b128")])
    return Pure(_same, [(d, "b128")], [(a, "b128")])


def _read_clock(machine: Machine, inst: Inst, kind: str) -> Action:
    d, a = inst.operands
    assert isinstance(a, Special)
    targets = d.elements if isinstance(d, Vec) else (d,)
    rows = [machine.row(t) if isinstance(t, Reg) else None for t in targets]
    width = int(kind[1:]) // len(targets)
    shift = 32 if a.name.endswith("_hi") else 0

    def step(m: Mask) -> None:
        machine.clock += 1
        value = machine.clock >> shift
        for i, row in enumerate(rows):
            if row is not None:
                part = value >> width * i & (1 << width) - 1
                np.copyto(row, row.dtype.type(part), "unsafe", machine.executing(m))

    return step


def _frame_address(machine: Machine, inst: Inst) -> Action:
    d, a = inst.operands
    assert isinstance(d, Reg)
    assert isinstance(a, Place)
    assert a.frame is not None
    row, frame = machine.row(d), machine.row(a.frame)
    offset = machine.address_of(a)

    def step(m: Mask) -> None:
        np.copyto(row, frame + np.uint32(offset), "unsafe", machine.executing(m))

    return step


@meaning("prmt")
def prmt(inst: Inst) -> Pure:
    mode = inst.one_of("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    return lanewise(inst, partial(integer.prmt, mode=mode), "u32")  # pyright: ignore[reportArgumentType]


@meaning("copies")
def copies(inst: Inst) -> Step:
    """The moves that values without a register name need where control flow meets; all read before any is
    written.
    """

    def bind(machine: Machine, inst: Inst) -> Action:
        pairs = [(o.first, o.second) for o in inst.operands if isinstance(o, Pair)]
        rows = [(machine.row(d), machine.row(s)) for d, s in pairs if isinstance(d, Reg) and isinstance(s, Reg)]

        def step(m: Mask) -> None:
            values = [s.copy() for _, s in rows]
            for (d, _), value in zip(rows, values, strict=True):
                np.copyto(d, value, "unsafe", True if m is None else m)

        return step

    return Step(bind)
