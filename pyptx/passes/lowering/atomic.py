"""`memref.atomic_rmw` as one `atom` instruction."""

from __future__ import annotations

from xdsl.dialects.memref import AtomicRMWOp
from xdsl.ir import Operation

from .emitter import Emitter, lowers
from .memory import address, indices_of
from .values import Unsupported

_KINDS = (
    "addf", "addi", "andi", "assign", "maximumf", "maxnumf", "maxs", "maxu", "minimumf", "minnumf", "mins", "minu", "mulf", "muli",
    "ori", "xori",
)  # fmt: skip
"""`arith.AtomicRMWKind` by number, as MLIR has them today. Older versions agree in the first two only."""
_OPERATIONS = {
    "addi": ("add", "u"), "assign": ("exch", "b"), "maxs": ("max", "s"), "maxu": ("max", "u"), "mins": ("min", "s"),
    "minu": ("min", "u"), "ori": ("or", "b"), "andi": ("and", "b"), "xori": ("xor", "b"),
}  # fmt: skip


@lowers("memref.atomic_rmw")
def atomic(e: Emitter, op: Operation) -> None:
    """Relaxed, at the scope of the GPU."""
    assert isinstance(op, AtomicRMWOp)
    memory = e.memory(op.memref)
    number = op.kind.value.data
    kind = _KINDS[number] if number < len(_KINDS) else str(number)
    scalar = memory.element.scalar
    if memory.element.shape or memory.space == "local":
        raise Unsupported("atomics are on scalars of global or shared memory")
    if kind != "assign" and bool(scalar.float) != kind.endswith("f"):
        raise Unsupported(f"kind {number} is {kind} in MLIR today, which is not for a {op.value.type}")
    if kind == "addf":
        opcode = f"add.{scalar.float}" if scalar.bits >= 32 else f"add.noftz.{scalar.float}"
        if scalar.float == "bf16" and e.target < 90:
            raise Unsupported("an atomic addf of bf16 needs sm_90; accumulate in f32")
    elif kind not in _OPERATIONS:
        raise Unsupported(f"PTX has no atomic {kind}; compare and swap bits of the value in a loop, or reduce before")
    elif scalar.bits < 32:
        raise Unsupported(f"an atomic {kind} is on 32 or 64 bits")
    else:
        name, sign = _OPERATIONS[kind]
        opcode = f"{name}.{sign}{scalar.bits}"
    where = address(e, memory, indices_of(e, op.indices))
    value = e.register(e.operand(op.value))
    e.values[op.results[0]] = e.emit(f"atom.{memory.space}.{opcode}", where, value, result=scalar.register_class)
