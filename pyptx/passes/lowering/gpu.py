"""`gpu`: where a thread is, and barriers."""

from __future__ import annotations

from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.gpu import BlockDimOp, BlockIdOp, GlobalIdOp, GridDimOp, ThreadIdOp
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.ptx.syntax import Immediate
from .emitter import At, Emitter, is_vector, known_block_size, lowers, register_class
from .values import I32, Constant, Memory, Scalar, Unsupported, element_of

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
    """A barrier of the workgroup, which is the CTA, or of the subgroup."""
    scope = op.properties.get("scope")
    match "workgroup" if scope is None else str(cast("Any", scope).data):
        case "workgroup" if "named_barrier" not in op.properties:
            e.effect("bar.sync", Immediate("0"))
        case "subgroup":
            e.effect("bar.warp.sync", Constant(-1, I32))
        case other:
            raise Unsupported(f"a barrier of scope {other} has no lowering; use the workgroup's or the subgroup's")


_COMBINE = {
    "add": ("add.rn.f", "add.s"),
    "mul": ("mul.rn.f", "mul.lo.s"),
    "min": ("min.f", "min.s"),  # the names of older versions of MLIR
    "max": ("max.f", "max.s"),
    "minnumf": ("min.f", ""),
    "maxnumf": ("max.f", ""),
    "minimumf": ("min.NaN.f", ""),
    "maximumf": ("max.NaN.f", ""),
    "minsi": ("", "min.s"),
    "maxsi": ("", "max.s"),
    "minui": ("", "min.u"),
    "maxui": ("", "max.u"),
    "and": ("", "and.b"),
    "or": ("", "or.b"),
    "xor": ("", "xor.b"),
}
"""The instruction that combines two floats, and two integers."""


@lowers("gpu.all_reduce")
def all_reduce(e: Emitter, op: Operation) -> None:
    """Butterflies in each warp, then over the warps through shared memory. The CTA must consist of whole
    warps.

    The order of the sums is that of the butterflies, the same in all threads.
    """
    value = e.register(e.operand(op.operands[0]))
    scalar = e.scalar(op.operands[0])
    opcode = _combining(e, op, scalar)
    assert e.function_op is not None
    known = known_block_size(e.function_op)
    if known is None:
        raise Unsupported("gpu.all_reduce needs known_block_size on the kernel, to be sure of whole warps")
    threads = prod(known)
    if threads % 32:
        raise Unsupported(f"gpu.all_reduce needs whole warps, and the block has {threads} threads")
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


def _combining(e: Emitter, op: Operation, scalar: Scalar) -> str:
    """The instruction that combines two values of a reduction."""
    given = op.properties.get("op")
    if given is None:
        raise Unsupported(f"{op.name} with a body has no lowering; name the operation")
    kind = str(cast("Any", given).data)
    opcode = _COMBINE[kind][0 if scalar.float else 1]
    if scalar.bits != 32 or not opcode:
        raise Unsupported(f"{op.name} {kind} is lowered for i32 and f32 only; convert before and after")
    if ".NaN" in opcode and e.target < 80:
        raise Unsupported(f"{op.name} {kind} needs sm_80; use minnumf or maxnumf")
    return f"{opcode}32"


def _warp(e: Emitter, opcode: str, scalar: Scalar, value: SSAValue, lanes: int, nearest: int = 1) -> SSAValue:
    """Combine over groups of `lanes` lanes that are `nearest` apart; every lane gets the result."""
    distance = lanes // 2
    while distance >= nearest:
        parts = (Constant(distance, I32), Constant(31, I32), Constant(-1, I32))
        other = e.emit("shfl.sync.bfly.b32", value, *parts, result=scalar.register_class)
        value = e.emit(opcode, value, other, result=scalar.register_class)
        distance //= 2
    return value


_SHUFFLES = {"xor": ("bfly", 31), "up": ("up", 0), "down": ("down", 31), "idx": ("idx", 31)}


@lowers("gpu.shuffle")
def shuffle(e: Emitter, op: Operation) -> None:
    """All 32 lanes take part. The width is a power of two that is known here: lanes of one segment exchange values."""
    value, offset, width = op.operands
    number = e.operand(width)
    if not isinstance(number, Constant) or number.value not in (1, 2, 4, 8, 16, 32):
        raise Unsupported("the width of a shuffle must be a constant: 1, 2, 4, 8, 16 or 32")
    mode, clamp = _SHUFFLES[str(cast("Any", op.properties["mode"]).data)]
    segment = 32 - int(number.value)
    control = Constant(segment << 8 | (clamp if mode == "up" else 31), I32)
    distance = e.operand(offset)
    scalar = e.scalar(value)
    given = e.register(e.operand(value))
    if scalar.bits < 32 or scalar.register_class == "pred":
        raise Unsupported(f"a shuffle of {value.type}: values have 32 or 64 bits; extend first")
    halves = (given,) if scalar.bits == 32 else e.emit_vector("mov.b64", given, result=("b32", "b32"))
    moved: list[SSAValue] = []
    valid: SSAValue | None = None
    for half in halves:
        found, valid = e.emit_pair(
            f"shfl.sync.{mode}.b32", half, distance, control, Constant(-1, I32), result=(register_class(half), "pred")
        )
        moved.append(found)
    assert valid is not None
    e.values[op.results[0]] = (
        moved[0] if len(moved) == 1 else e.emit("mov.b64", tuple(moved), result=scalar.register_class)
    )
    e.values[op.results[1]] = valid


@lowers("gpu.subgroup_reduce")
def subgroup_reduce(e: Emitter, op: Operation) -> None:
    """Butterflies over the warp, or over clusters of neighbouring lanes, or of lanes a power of two apart."""
    scalar = e.scalar(op.operands[0])
    opcode = _combining(e, op, scalar)
    size, stride = (_number(op, name, default) for name, default in (("cluster_size", 32), ("cluster_stride", 1)))
    if size & (size - 1) or stride & (stride - 1) or size * stride > 32:
        raise Unsupported(f"a cluster of {size} lanes, {stride} apart: both are powers of two, with a product up to 32")
    columns = [_warp(e, opcode, scalar, e.register(v), size * stride, stride) for v in e.lanes(op.operands[0])]
    e.values[op.results[0]] = tuple(columns) if is_vector(op.results[0].type) else columns[0]


def _number(op: Operation, name: str, default: int) -> int:
    attr = op.properties.get(name)
    return default if attr is None else cast("Any", attr).value.data


@lowers("gpu.dynamic_shared_memory")
def dynamic_shared_memory(e: Emitter, op: Operation) -> None:
    """The bytes that the launch gives to the kernel; their number is a special register."""
    name = e.setting.dynamic_shared()
    size = e.as_index(e.special("%dynamic_smem_size"))
    index = Scalar(f"b{e.index_bits}", e.index_bits)
    element = element_of(cast("MemRefType[Attribute]", op.results[0].type).element_type, e.index_bits)
    e.values[op.results[0]] = Memory(element, "shared", name, Constant(0, index), (size,), (Constant(1, index),))
