"""`gpu`: where a thread is, and barriers."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.gpu import AllReduceOp, BlockDimOp, BlockIdOp, GlobalIdOp, GridDimOp, ThreadIdOp
from xdsl.ir import Operation, SSAValue

from ...dialects.ptx.syntax import Immediate
from .emitter import At, Emitter, lowers
from .values import I32, Constant, Scalar, Unsupported

_REGISTERS = {
    "gpu.thread_id": "%tid",
    "gpu.block_id": "%ctaid",
    "gpu.block_dim": "%ntid",
    "gpu.grid_dim": "%nctaid",
}


@lowers(*_REGISTERS)
def place(e: Emitter, op: Operation) -> None:
    assert isinstance(op, (ThreadIdOp, BlockIdOp, BlockDimOp, GridDimOp))
    e.values[op.results[0]] = e.as_index(e.special(f"{_REGISTERS[op.name]}.{_axis(op)}"))


def _axis(op: Operation) -> str:
    dimension = cast("Any", op.properties["dimension"]).data
    return str(getattr(dimension, "value", dimension))


@lowers("gpu.global_id")
def global_id(e: Emitter, op: Operation) -> None:
    assert isinstance(op, GlobalIdOp)
    axis = _axis(op)
    parts = [e.special(f"{name}.{axis}") for name in ("%ctaid", "%ntid", "%tid")]
    e.values[op.results[0]] = e.as_index(e.emit("mad.lo.s32", *parts, result="b32"))


def linear_thread(e: Emitter) -> SSAValue:
    """The number of the thread in its CTA, x running fastest."""

    def make() -> SSAValue:
        row = e.emit("mad.lo.s32", *(e.special(n) for n in ("%tid.z", "%ntid.y", "%tid.y")), result="b32")
        return e.emit("mad.lo.s32", row, e.special("%ntid.x"), e.special("%tid.x"), result="b32")

    return e.once("linear thread", make)


@lowers("gpu.lane_id")
def lane_id(e: Emitter, op: Operation) -> None:
    e.values[op.results[0]] = e.as_index(e.special("%laneid"))


@lowers("gpu.subgroup_id")
def subgroup_id(e: Emitter, op: Operation) -> None:
    """The warp, counted from the number of the thread: `%warpid` may change (PTX ISA 10)."""
    e.values[op.results[0]] = e.as_index(e.emit("shr.u32", linear_thread(e), Constant(5, I32), result="b32"))


@lowers("gpu.subgroup_size")
def subgroup_size(e: Emitter, op: Operation) -> None:
    e.values[op.results[0]] = Constant(32, e.scalar(op.results[0]))


@lowers("gpu.num_subgroups")
def num_subgroups(e: Emitter, op: Operation) -> None:
    plane = e.emit("mul.lo.s32", e.special("%ntid.x"), e.special("%ntid.y"), result="b32")
    padded = e.emit("mad.lo.s32", plane, e.special("%ntid.z"), Constant(31, I32), result="b32")
    e.values[op.results[0]] = e.as_index(e.emit("shr.u32", padded, Constant(5, I32), result="b32"))


@lowers("gpu.barrier")
def barrier(e: Emitter, op: Operation) -> None:
    e.effect("bar.sync", Immediate("0"))


_COMBINE = {
    "add": {"f": "add.rn.f", "i": "add.s"},
    "mul": {"f": "mul.rn.f", "i": "mul.lo.s"},
    "min": {"f": "min.f", "i": "min.s"},
    "max": {"f": "max.f", "i": "max.s"},
    "and": {"i": "and.b"},
    "or": {"i": "or.b"},
    "xor": {"i": "xor.b"},
}


@lowers("gpu.all_reduce")
def all_reduce(e: Emitter, op: Operation) -> None:
    """Butterflies in each warp, then over the warps through shared memory. The CTA must consist of whole
    warps.

    The order of the sums is that of the butterflies, the same in all threads.
    """
    assert isinstance(op, AllReduceOp)
    if op.op is None:
        raise Unsupported("gpu.all_reduce with a body has no lowering; name the operation")
    kind = str(getattr(op.op.data, "value", op.op.data))
    value = e.register(e.operand(op.operand))
    scalar = e.scalar(op.operand)
    opcode = _COMBINE.get(kind, {}).get("f" if scalar.float else "i")
    if scalar.bits != 32 or opcode is None:
        raise Unsupported(f"gpu.all_reduce {kind} is lowered for i32 and f32 only")
    function = e.function_op
    known = function.attributes.get("gpu.known_block_size") if function is not None else None
    if known is None:
        raise Unsupported("gpu.all_reduce needs gpu.known_block_size on the kernel, to be sure of whole warps")
    threads = 1
    for extent in cast("Any", known).get_values():
        threads *= extent
    if threads % 32:
        raise Unsupported(f"gpu.all_reduce needs whole warps, and the block has {threads} threads")
    opcode = f"{opcode}32"
    value = _warp(e, opcode, scalar, value, 32)
    warps = threads // 32
    if warps == 1:
        e.values[op.results[0]] = value
        return
    if warps & (warps - 1):
        raise Unsupported(f"gpu.all_reduce needs a power of two of warps, and the block has {warps}")
    memory = e.variable("shared", warps * 4, 16, "reduce")
    base = e.address_of(memory, 32)
    thread = linear_thread(e)
    warp = e.emit("shr.u32", thread, Constant(5, I32), result="b32")
    mine = e.emit("mad.lo.s32", warp, Constant(4, I32), base, result="b32")
    # every lane of a warp stores the same number to the same place
    e.effect("bar.sync", Immediate("0"))  # an earlier reduction may still be read
    e.effect(f"st.shared.{scalar.memory}", At(mine), value)
    e.effect("bar.sync", Immediate("0"))
    lane = e.emit("and.b32", thread, Constant(warps - 1, I32), result="b32")
    other = e.emit("mad.lo.s32", lane, Constant(4, I32), base, result="b32")
    partial = e.emit(f"ld.shared.{scalar.memory}", At(other), result=scalar.register_class)
    e.values[op.results[0]] = _warp(e, opcode, scalar, partial, warps)


def _warp(e: Emitter, opcode: str, scalar: Scalar, value: SSAValue, lanes: int) -> SSAValue:
    """Combine over groups of `lanes` lanes; every lane gets the result."""
    distance = lanes // 2
    while distance:
        parts = (Constant(distance, I32), Constant(31, I32), Constant(-1, I32))
        other = e.emit("shfl.sync.bfly.b32", value, *parts, result=scalar.register_class)
        value = e.emit(opcode, value, other, result=scalar.register_class)
        distance //= 2
    return value
