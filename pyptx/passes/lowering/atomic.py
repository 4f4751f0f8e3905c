"""`memref.atomic_rmw`: one `atom` instruction, or a loop around a compare and swap where PTX has no such instruction.

Relaxed, at the scope of the GPU.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.memref import AtomicRMWOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, var_operand_def

from .emitter import Emitter, Setting, keep_written, lowers
from .memory import address, indices_of
from .values import Scalar, Unsupported, scalar_of

_KINDS = (
    "addf", "addi", "andi", "assign", "maximumf", "maxnumf", "maxs", "maxu", "minimumf", "minnumf", "mins", "minu", "mulf", "muli",
    "ori", "xori",
)  # fmt: skip
"""`arith.AtomicRMWKind` by number, as MLIR has them today. Older versions agree in the first two only."""
_OPERATIONS = {
    "addi": ("add", "u"), "assign": ("exch", "b"), "maxs": ("max", "s"), "maxu": ("max", "u"), "mins": ("min", "s"),
    "minu": ("min", "u"), "ori": ("or", "b"), "andi": ("and", "b"), "xori": ("xor", "b"),
}  # fmt: skip
_COMBINED: dict[str, type[arith.SignlessIntegerBinaryOperation | arith.FloatingPointLikeBinaryOperation]] = {
    "addf": arith.AddfOp, "addi": arith.AddiOp, "andi": arith.AndIOp, "maximumf": arith.MaximumfOp, "maxnumf": arith.MaxnumfOp,
    "maxs": arith.MaxSIOp, "maxu": arith.MaxUIOp, "minimumf": arith.MinimumfOp, "minnumf": arith.MinnumfOp, "mins": arith.MinSIOp,
    "minu": arith.MinUIOp, "mulf": arith.MulfOp, "muli": arith.MuliOp, "ori": arith.OrIOp, "xori": arith.XOrIOp,
}  # fmt: skip
"""What a kind does, for kinds and types without an instruction."""


def _kind(op: AtomicRMWOp) -> str:
    number = op.kind.value.data
    return _KINDS[number] if 0 <= number < len(_KINDS) else str(number)


def _fits(kind: str, scalar: Scalar) -> bool:
    """Whether a kind is for values of this type."""
    return kind == "assign" or (kind in _COMBINED and bool(scalar.float) == kind.endswith("f"))


def _instruction(kind: str, scalar: Scalar, target: int) -> str | None:
    """The operation of `atom` that does it, with its type."""
    if kind == "addf":
        if scalar.float == "bf16" and target < 90:
            return None
        return f"add.{scalar.float}" if scalar.bits >= 32 else f"add.noftz.{scalar.float}"
    if kind not in _OPERATIONS or scalar.bits < 32:
        return None
    name, sign = _OPERATIONS[kind]
    return f"{name}.{sign}{scalar.bits}"


@lowers("memref.atomic_rmw")
def atomic(e: Emitter, op: Operation) -> None:
    assert isinstance(op, AtomicRMWOp)
    memory = e.memory(op.memref)
    kind, scalar = _kind(op), memory.element.scalar
    if memory.element.shape or memory.space == "local":
        raise Unsupported("atomics are on scalars of global or shared memory")
    if not _fits(kind, scalar):
        raise Unsupported(f"kind {op.kind.value.data} is {kind} in MLIR today, which is not for a {op.value.type}")
    opcode = _instruction(kind, scalar, e.target)
    if opcode is None:
        raise Unsupported(f"an atomic {kind} is on 16, 32 or 64 bits")
    where = address(e, memory, indices_of(e, op.indices))
    value = e.register(e.operand(op.value))
    e.values[op.results[0]] = e.emit(f"atom.{memory.space}.{opcode}", where, value, result=scalar.register_class)


# -----------------------------------------------------------------------------------------------------------
# compare and swap


@irdl_op_definition
class PresentOp(IRDLOperation):
    """What is in memory now."""

    name = "pyptx.present"
    memref = operand_def(Attribute)
    indices = var_operand_def(Attribute)
    value = result_def(Attribute)


@irdl_op_definition
class CompareAndSwapOp(IRDLOperation):
    """Put `new` where the bits of `expected` are: what was there, and whether it was that."""

    name = "pyptx.compare_and_swap"
    memref = operand_def(Attribute)
    expected = operand_def(Attribute)
    new = operand_def(Attribute)
    indices = var_operand_def(Attribute)
    found = result_def(Attribute)
    same = result_def(i1)


def expand_atomics(module: Operation, setting: Setting) -> None:
    """Write loops for the kinds that have no instruction. Illegal ones stay, and `atomic` reports them."""
    for op in list(module.walk()):
        if isinstance(op, AtomicRMWOp) and _needs_loop(op, setting):
            _expand(op)


def _needs_loop(op: AtomicRMWOp, setting: Setting) -> bool:
    kind = _kind(op)
    try:
        scalar = scalar_of(op.value.type, setting.index_bits)
    except Unsupported:
        return False
    return _fits(kind, scalar) and scalar.bits >= 16 and _instruction(kind, scalar, setting.target) is None


def _expand(op: AtomicRMWOp) -> None:
    block = op.parent
    assert block is not None
    region = block.parent
    assert region is not None
    rest = block.split_before(op)
    loop = Block(arg_types=(op.value.type,))
    region.insert_block_before(loop, rest)
    present = PresentOp(operands=[op.memref, list(op.indices)], result_types=[op.value.type])
    keep_written(op, present)
    block.add_ops([present, BranchOp(loop, present.value)])
    (old,) = loop.args
    combine = _COMBINED.get(_kind(op))
    made = [] if combine is None else [combine(old, op.value)]
    new = made[0].result if made else op.value
    swap = CompareAndSwapOp(operands=[op.memref, old, new, list(op.indices)], result_types=[op.value.type, i1])
    loop.add_ops([*made, swap, ConditionalBranchOp(swap.same, rest, (), loop, (swap.found,))])
    op.result.replace_all_uses_with(swap.found)
    op.detach()
    op.erase()


@lowers("pyptx.present")
def present(e: Emitter, op: Operation) -> None:
    assert isinstance(op, PresentOp)
    memory = e.memory(op.memref)
    scalar = memory.element.scalar
    if memory.element.shape or memory.space == "local":
        raise Unsupported("atomics are on scalars of global or shared memory")
    where = address(e, memory, indices_of(e, op.indices))
    e.values[op.value] = e.emit(f"ld.relaxed.gpu.{memory.space}.{scalar.memory}", where, result=scalar.register_class)


@lowers("pyptx.compare_and_swap")
def compare_and_swap(e: Emitter, op: Operation) -> None:
    assert isinstance(op, CompareAndSwapOp)
    memory = e.memory(op.memref)
    scalar = memory.element.scalar
    where = address(e, memory, indices_of(e, op.indices))
    old, new = (e.register(e.operand(value)) for value in (op.expected, op.new))
    found = e.emit(f"atom.{memory.space}.cas.{scalar.untyped}", where, old, new, result=scalar.register_class)
    e.values[op.found] = found
    e.values[op.same] = e.emit(f"setp.eq.{scalar.untyped}", found, old, result="pred")
