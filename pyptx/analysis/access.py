"""The memory accesses of instructions: state space, address, bytes per thread, in the shape that the hardware
serves them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..dialects.ptx.async_copy import CpAsync, CpAsyncBulk, CpAsyncBulkTensor, CpReduceAsyncBulkTensor
from ..dialects.ptx.atomic import Atom, Red
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.matrix import Ldmatrix, Stmatrix
from ..dialects.ptx.move import Mov
from ..dialects.ptx.movement import ConvertAddress, Load, LoadUniform, Store
from ..dialects.ptx.operands import Memory, Value, bound_operands
from ..dialects.ptx.syntax import Immediate, Symbol
from ..dialects.ptx.types import SCALAR_TYPES

_NO_BOX = frozenset({"gather4", "scatter4", "im2col", "w", "128"})
"""Modes in which a tensor copy does not move the box of its map."""
_STEPS = 16
"""Moves that are followed from a copy to the parameter of its tensor map."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access: `space` is `global`, `shared`, `local`, `param`, `const` or `generic`; `width` is bytes per
    thread.

    `whole` is the size in bytes of one bulk copy, which a single thread asks for; None for an ordinary
    access.
    """

    op: Instruction
    kind: str
    """`load`, `store`, `copy` (either end of an asynchronous copy), `matrix` (ldmatrix, stmatrix) or
    `atomic`."""
    space: str
    memory: Memory
    width: int
    writes: bool
    lanes: int = 32
    """Threads of a warp whose address counts (ldmatrix.x1: 8)."""
    whole: int | None = None


def accesses(op: Instruction) -> Iterator[Access]:
    """The accesses of one instruction whose size can be told from it. Tensor copies and the matrix loads of
    `wmma` are not here."""
    match op:
        case Load() | LoadUniform() | Store():
            for address in _memories(op)[:1]:
                yield Access(op, op.access, _space(op), address, _width(op), op.access == "store")
        case Ldmatrix() | Stmatrix():
            count = next((int(m[1:]) for m in op.modifiers if m in ("x1", "x2", "x4")), 1)
            rows = 16 if "m16n16" in op.modifiers else 8
            width = op.bytes_together(op.modifiers)
            for address in _memories(op)[:1]:
                yield Access(op, "matrix", "shared", address, width, op.access == "store", min(rows * count, 32))
        case Atom() | Red():
            for address in _memories(op)[:1]:
                yield Access(op, "atomic", _space(op), address, _width(op), True)
        case CpAsync():
            operands = bound_operands(op)
            sizes = [o.value for o in operands if isinstance(o, Immediate)]
            memory = [o for o in operands if isinstance(o, Memory)]
            if len(memory) >= 2 and sizes:
                width = int(sizes[0])
                yield Access(op, "copy", "shared", memory[0], width, True)
                yield Access(op, "copy", "global", memory[1], width, False)
        case CpAsyncBulk():
            yield from _bulk(op)
        case _:
            pass


def _bulk(op: Instruction) -> Iterator[Access]:
    operands = bound_operands(op)
    memory = [o for o in operands if isinstance(o, Memory)]
    sizes = [o.value for o in operands if isinstance(o, Immediate)]
    spaces = [m.partition("::")[0] for m in op.modifiers if m.partition("::")[0] in ("shared", "global")]
    if len(memory) < 2 or len(spaces) < 2 or not sizes:
        return
    size = int(sizes[0])
    yield Access(op, "copy", spaces[0], memory[0], size, True, 1, size)
    yield Access(op, "copy", spaces[1], memory[1], size, False, 1, size)


def on_launch(op: Instruction) -> bool:
    """Whether the instruction may move data of global memory, and does not tell how much: through a tensor map or a
    texture, `wmma`, a bulk copy whose size is a register.
    """
    spaces = {m.partition("::")[0] for m in op.modifiers}
    if "shared" in spaces and "global" not in spaces:
        return False
    return op.partial_access or (isinstance(op, CpAsyncBulk) and not any(_bulk(op)))


def tensor_of(op: Instruction) -> tuple[str, bool] | None:
    """The parameter of the tensor map that a copy of one box goes through, and whether it writes the tensor; None where the
    address of the map is computed, and for copies of other sizes than the box.
    """
    if (
        not isinstance(op, (CpAsyncBulkTensor, CpReduceAsyncBulkTensor))
        or {m.rpartition("::")[2] for m in op.modifiers} & _NO_BOX
    ):
        return None
    maps = [m for m in _memories(op) if m.rest]
    value = maps[0].base if maps else None
    for _ in range(_STEPS):
        if isinstance(value, Symbol):
            return value.name, next(m for m in op.modifiers if m.partition("::")[0] in ("global", "shared")) == "global"
        made = value.value.owner if isinstance(value, Value) else None
        if isinstance(made, Load) and "param" in made.modifiers:
            value = _memories(made)[0].base
        elif isinstance(made, (Mov, ConvertAddress)):
            value = bound_operands(made)[1]
        else:
            return None
    return None


def _memories(op: Instruction) -> list[Memory]:
    return [o for o in bound_operands(op) if isinstance(o, Memory)]


def _space(op: Instruction) -> str:
    for modifier in op.modifiers:
        space = modifier.partition("::")[0]
        if space in ("global", "shared", "local", "param", "const"):
            return space
    memory = _memories(op)[:1]
    return "param" if memory and isinstance(memory[0].base, Symbol) and "param" in op.modifiers else "generic"


def _width(op: Instruction) -> int:
    scalar = next((SCALAR_TYPES[m] for m in reversed(op.modifiers) if m in SCALAR_TYPES), None)
    vector = next((int(m[1:]) for m in op.modifiers if m in ("v2", "v4", "v8")), 1)
    return (scalar.bits + 7) // 8 * vector if scalar is not None else 0
