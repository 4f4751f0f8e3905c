"""`memref`: loads, stores, variables and views.

Memory space 3 (or `#gpu.address_space<workgroup>`) is shared memory, 5 (`private`) local memory, 0, 1 or none
global memory; an `alloca`
without a space is local. Shared addresses have 32 bits, the others 64. Indices are not checked.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.dialects.memref import AtomicRMWOp, DimOp, GetGlobalOp, SubviewOp
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.ptx.integer import Add
from ...dialects.ptx.syntax import Immediate
from .emitter import At, Emitter, lowers
from .values import I32, I64, Constant, Lowered, Memory, Scalar, ScalarValue, Unsupported, scalar_of

DYNAMIC = -(1 << 63)
"""What MLIR writes for `?` among static numbers."""
_SPACES = {0: "global", 1: "global", 3: "shared", 5: "local"}


def space_of(type_: MemRefType[Attribute], default: str = "global") -> str:
    """The PTX state space of a memref type."""
    attr = type_.memory_space
    if isinstance(attr, NoneAttr):
        return default
    if isinstance(attr, IntegerAttr) and attr.value.data in _SPACES:
        return _SPACES[attr.value.data]
    text = str(attr)
    for word, space in (("workgroup", "shared"), ("private", "local"), ("global", "global")):
        if word in text:
            return space
    raise Unsupported(f"memory space {attr}: known are 1 (global), 3 (workgroup, shared) and 5 (private, local)")


def shape_of(
    e: Emitter, type_: MemRefType[Attribute], sizes: list[ScalarValue]
) -> tuple[tuple[ScalarValue, ...], tuple[ScalarValue, ...], ScalarValue]:
    """(sizes, strides, offset) in elements of a memref type, given its dynamic sizes in order."""
    given = iter(sizes)
    index = _index(e)
    extents = tuple(next(given) if n < 0 else Constant(n, index) for n in type_.get_shape())
    layout = type_.layout
    if isinstance(layout, StridedLayoutAttr):
        numbers = [s.data if not isinstance(s, NoneAttr) else None for s in layout.strides]
        offset = layout.offset
        start = 0 if offset is None else getattr(offset, "data", None)
        if any(n is None for n in numbers) or start is None:
            raise Unsupported(f"{type_}: strides and offset of a parameter must be numbers")
        return extents, tuple(Constant(cast(int, n), index) for n in numbers), Constant(start, index)
    if not isinstance(layout, NoneAttr):
        raise Unsupported(f"{type_}: only identity and strided layouts are lowered")
    strides: list[ScalarValue] = []
    step: ScalarValue = Constant(1, index)
    for extent in reversed(extents):
        strides.insert(0, step)
        step = product(e, step, extent)
    return extents, tuple(strides), Constant(0, index)


def _index(e: Emitter) -> Scalar:
    return I64 if e.index_bits == 64 else I32


def product(e: Emitter, a: ScalarValue, b: ScalarValue) -> ScalarValue:
    """a * b of two indices."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(int(a.value) * int(b.value), a.scalar)
    if isinstance(a, Constant):
        a, b = b, a
    assert isinstance(a, SSAValue)
    if isinstance(b, Constant) and b.value == 1:
        return a
    if isinstance(b, Constant) and b.value == 0:
        return b
    return e.emit(f"mul.lo.s{e.index_bits}", a, b, result=f"b{e.index_bits}")


def total(e: Emitter, a: ScalarValue, b: ScalarValue) -> ScalarValue:
    """a + b of two indices."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(int(a.value) + int(b.value), a.scalar)
    if isinstance(a, Constant):
        a, b = b, a
    if isinstance(b, Constant) and b.value == 0:
        return a
    return e.emit(f"add.s{e.index_bits}", e.register(a), b, result=f"b{e.index_bits}")


def difference(e: Emitter, a: ScalarValue, b: ScalarValue) -> ScalarValue:
    """a - b of two indices."""
    return total(e, a, product(e, b, Constant(-1, _index(e))))


# -----------------------------------------------------------------------------------------------------------
# addresses


def address(e: Emitter, memory: Memory, indices: list[ScalarValue]) -> At:
    """The operand `[base+offset]` of an element. The constant part of the index is the offset."""
    linear: ScalarValue = memory.offset
    fixed = 0
    for index, stride in zip(indices, memory.strides, strict=True):
        linear = total(e, linear, product(e, index, stride))
    # constants met on the way are in the instruction, not in a register
    if isinstance(linear, Constant):
        fixed, variable = int(linear.value), None
    else:
        variable, fixed = _split(e, linear)
    size = memory.scalar.size
    bits = 32 if memory.space == "shared" else 64
    if variable is None:
        return At(memory.base, fixed * size)
    base = memory.base if isinstance(memory.base, SSAValue) else e.address_of(memory.base, bits)

    def make() -> SSAValue:
        index = variable
        scale = Constant(size, I32)
        if bits == 32:
            if e.index_bits == 64:
                index = e.once(("low", index), lambda: e.emit("cvt.u32.u64", variable, result="b32"))
            return e.emit("mad.lo.s32", index, scale, base, result="b32")
        if e.index_bits == 32:
            return e.emit("mad.wide.s32", index, scale, base, result="b64")
        return e.emit("mad.lo.s64", index, scale, base, result="b64")

    return At(e.once(("address", variable, base, size), make), fixed * size)


def _split(e: Emitter, linear: SSAValue) -> tuple[SSAValue, int]:
    """Take the constant out of an index that ends in the addition of one."""
    owner = linear.owner
    if isinstance(owner, Add) and len(owner.operands) == 1:
        last = owner.layout[-1]
        if isinstance(last, Immediate) and abs(int(last.value)) < 1 << 20:
            return owner.operands[0], int(last.value)
    return linear, 0


def loaded(e: Emitter, memory: Memory, where: At, count: int) -> tuple[ScalarValue, ...]:
    """Load `count` neighbouring elements, in as few instructions as 16 bytes each allow."""
    scalar = memory.scalar
    if scalar.bits == 1:
        byte = e.emit(f"ld.{memory.space}.u8", where, result="b16")
        return (e.emit("setp.ne.s16", byte, Constant(0, Scalar("b16", 16)), result="pred"),)
    opcode = f"ld.{memory.space}"
    if count == 1:
        return (e.emit(f"{opcode}.{scalar.memory}", where, result=scalar.register_class),)
    found: list[ScalarValue] = []
    for start, step in pieces(scalar, count):
        here = where.further(start * scalar.size)
        if step == 1:
            found.append(e.emit(f"{opcode}.{scalar.memory}", here, result=scalar.register_class))
        else:
            classes = (scalar.register_class,) * step
            found += e.emit_vector(f"{opcode}.v{step}.{scalar.memory}", here, result=classes)
    return tuple(found)


def stored(e: Emitter, memory: Memory, where: At, values: tuple[ScalarValue, ...]) -> None:
    """Store neighbouring elements, in as few instructions as 16 bytes each allow."""
    scalar = memory.scalar
    if scalar.bits == 1:
        byte = e.emit("selp.b16", Constant(1, scalar), Constant(0, scalar), e.register(values[0]), result="b16")
        e.effect(f"st.{memory.space}.u8", where, byte)
        return
    for start, step in pieces(scalar, len(values)):
        here = where.further(start * scalar.size)
        chosen = values[start : start + step]
        if step == 1:
            value = chosen[0] if scalar.bits >= 32 else e.register(chosen[0])
            e.effect(f"st.{memory.space}.{scalar.memory}", here, value)
        else:
            e.effect(f"st.{memory.space}.v{step}.{scalar.memory}", here, tuple(map(e.register, chosen)))


def pieces(scalar: Scalar, count: int) -> list[tuple[int, int]]:
    """(first element, elements) of each access: 1, 2 or 4 elements of at most 16 bytes."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < count:
        step = next(n for n in (4, 2, 1) if n <= count - start and n * scalar.size <= 16 and start % n == 0)
        found.append((start, step))
        start += step
    return found


def _indices(e: Emitter, values: Any) -> list[ScalarValue]:
    return [e.operand(v) for v in values]


@lowers("memref.load")
def load(e: Emitter, op: Operation) -> None:
    memory = e.memory(op.operands[0])
    (e.values[op.results[0]],) = loaded(e, memory, address(e, memory, _indices(e, op.operands[1:])), 1)


@lowers("memref.store")
def store(e: Emitter, op: Operation) -> None:
    memory = e.memory(op.operands[1])
    where = address(e, memory, _indices(e, op.operands[2:]))
    stored(e, memory, where, (e.operand(op.operands[0]),))


@lowers("vector.load")
def vector_load(e: Emitter, op: Operation) -> None:
    """The address must be aligned to the whole vector (to 16 bytes, if it is larger), as PTX wants it."""
    memory = e.memory(op.operands[0])
    _unit_stride(memory)
    count = cast("Any", op.results[0].type).get_shape()[0]
    e.values[op.results[0]] = loaded(e, memory, address(e, memory, _indices(e, op.operands[1:])), count)


@lowers("vector.store")
def vector_store(e: Emitter, op: Operation) -> None:
    """As for `vector.load`."""
    memory = e.memory(op.operands[1])
    _unit_stride(memory)
    stored(e, memory, address(e, memory, _indices(e, op.operands[2:])), e.lanes(op.operands[0]))


def _unit_stride(memory: Memory) -> None:
    last = memory.strides[-1] if memory.strides else None
    if not isinstance(last, Constant) or last.value != 1:
        raise Unsupported("a vector access needs neighbouring elements: a last stride of 1")


# -----------------------------------------------------------------------------------------------------------
# variables


@lowers("memref.alloca", "memref.alloc")
def allocate(e: Emitter, op: Operation) -> None:
    """A variable of the kernel: static shared memory in space 3, else local memory (`alloca` only)."""
    result = op.results[0]
    type_ = cast("MemRefType[Attribute]", result.type)
    space = space_of(type_, "local" if op.name == "memref.alloca" else "global")
    if space == "global" or (op.name == "memref.alloc" and space != "shared"):
        raise Unsupported("a kernel allocates shared memory (space 3) or, with memref.alloca, local memory")
    if op.operands:
        raise Unsupported("the size of a variable must be static")
    scalar = scalar_of(type_.element_type, e.index_bits)
    count = 1
    for extent in type_.get_shape():
        count *= extent
    wanted = op.properties.get("alignment")
    alignment = cast("Any", wanted).value.data if isinstance(wanted, IntegerAttr) else 16
    name = e.variable(space, count * scalar.size, max(alignment, scalar.size), result.name_hint)
    sizes, strides, offset = shape_of(e, type_, [])
    e.values[result] = Memory(scalar, space, name, offset, sizes, strides)


@lowers("memref.dealloc")
def free(e: Emitter, op: Operation) -> None:
    """Variables end with the kernel."""


@lowers("memref.get_global")
def get_global(e: Emitter, op: Operation) -> None:
    assert isinstance(op, GetGlobalOp)
    type_ = cast("MemRefType[Attribute]", op.results[0].type)
    sizes, strides, offset = shape_of(e, type_, [])
    scalar = scalar_of(type_.element_type, e.index_bits)
    name = op.name_.string_value()
    e.values[op.results[0]] = Memory(scalar, space_of(type_), name, offset, sizes, strides)


# ------------------------------------------------------------------------------------------------------------
# --- views


@lowers("memref.dim")
def dim(e: Emitter, op: Operation) -> None:
    assert isinstance(op, DimOp)
    which = e.operand(op.operands[1])
    if not isinstance(which, Constant):
        raise Unsupported("the dimension must be a constant")
    e.values[op.results[0]] = e.memory(op.operands[0]).sizes[int(which.value)]


@lowers("memref.cast", "memref.memory_space_cast")
def cast_memory(e: Emitter, op: Operation) -> None:
    memory = e.memory(op.operands[0])
    type_ = cast("MemRefType[Attribute]", op.results[0].type)
    if op.name == "memref.memory_space_cast" and space_of(type_, memory.space) != memory.space:
        raise Unsupported("a memref stays in its memory space")
    e.values[op.results[0]] = memory


@lowers("memref.subview")
def subview(e: Emitter, op: Operation) -> None:
    """Offsets, sizes and strides may be numbers or indices; unit dimensions are dropped if the result drops
    them."""
    assert isinstance(op, SubviewOp)
    memory = e.memory(op.source)
    index = _index(e)

    def mixed(static: Any, dynamic: Any) -> list[ScalarValue]:
        given = iter(dynamic)
        return [e.operand(next(given)) if n == DYNAMIC else Constant(n, index) for n in static.get_values()]

    offsets = mixed(op.static_offsets, op.offsets)
    sizes = mixed(op.static_sizes, op.sizes)
    steps = mixed(op.static_strides, op.strides)
    offset = memory.offset
    for start, stride in zip(offsets, memory.strides, strict=True):
        offset = total(e, offset, product(e, start, stride))
    strides = [product(e, step, stride) for step, stride in zip(steps, memory.strides, strict=True)]
    rank = cast("Any", op.results[0].type).get_num_dims()
    kept = list(range(len(sizes)))
    for i, size in enumerate(sizes):
        if len(kept) > rank and isinstance(size, Constant) and size.value == 1:
            kept.remove(i)
    if len(kept) != rank:
        raise Unsupported("the result of a subview has fewer dimensions than it has sizes other than 1")
    found: Lowered = Memory(
        memory.scalar, memory.space, memory.base, offset, tuple(sizes[i] for i in kept), tuple(strides[i] for i in kept)
    )
    e.values[op.results[0]] = found


_ATOMICS = {0: "f", 1: "u"}
"""The kinds of `arith.AtomicRMWKind` that have the same number in all versions of MLIR: addf and addi."""


@lowers("memref.atomic_rmw")
def atomic(e: Emitter, op: Operation) -> None:
    """Relaxed, at the scope of the GPU (of the CTA, for shared memory)."""
    assert isinstance(op, AtomicRMWOp)
    memory = e.memory(op.memref)
    kind = op.kind.value.data
    if kind not in _ATOMICS:
        raise Unsupported(
            f"of the kinds, 0 (addf) and 1 (addi) are lowered, not {kind}, whose meaning depends on MLIR's version"
        )
    scalar = memory.scalar
    if memory.space == "local" or scalar.bits < 32:
        raise Unsupported("atomics are on 32 or 64 bits of global or shared memory")
    type_ = scalar.float if kind == 0 else scalar.unsigned
    where = address(e, memory, _indices(e, op.indices))
    value = e.register(e.operand(op.value))
    e.values[op.results[0]] = e.emit(f"atom.{memory.space}.add.{type_}", where, value, result=scalar.register_class)
