"""`memref`: loads, stores, variables and views.

Memory space 3 (or `#gpu.address_space<workgroup>`) is shared memory, 5 (`private`) local memory, 0, 1 or none
global memory; an `alloca`
without a space is local. Shared addresses have 32 bits, the others 64. Indices are not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from itertools import product as product_of
from operator import mul
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.dialects.memref import DimOp, ExpandShapeOp, GetGlobalOp, ReinterpretCastOp, SubviewOp
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.ptx.integer import Add
from ...dialects.ptx.syntax import Immediate
from .emitter import At, Emitter, is_vector, lowers
from .values import (
    I32,
    I64,
    Constant,
    Element,
    Lowered,
    Memory,
    Scalar,
    ScalarValue,
    Unsupported,
    element_of,
    vector_shape,
)

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
    if isinstance(type_.layout, StridedLayoutAttr):
        start, numbers = type_.layout.get_offset(), type_.layout.get_strides()
        if start is None or any(n is None for n in numbers):
            raise Unsupported(f"{type_}: strides and offset must be numbers")
        return extents, tuple(Constant(cast(int, n), index) for n in numbers), Constant(start, index)
    _only_strided(type_)
    strides: list[ScalarValue] = []
    step: ScalarValue = Constant(1, index)
    for extent in reversed(extents):
        strides.insert(0, step)
        step = product(e, step, extent)
    return extents, tuple(strides), Constant(0, index)


def _only_strided(type_: MemRefType[Attribute]) -> None:
    if not isinstance(type_.layout, (NoneAttr, StridedLayoutAttr)):
        raise Unsupported(f"{type_}: only identity and strided layouts are lowered")


def static_strides(type_: MemRefType[Attribute]) -> list[int | None]:
    """The strides a memref type states in elements; None where it does not."""
    if isinstance(type_.layout, StridedLayoutAttr):
        return list(type_.layout.get_strides())
    _only_strided(type_)
    strides: list[int | None] = []
    step: int | None = 1
    for extent in reversed(type_.get_shape()):
        strides.insert(0, step)
        step = None if step is None or extent < 0 else step * extent
    return strides


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
    size = memory.element.size
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


def loaded(e: Emitter, memory: Memory, where: At, rows: Rows) -> tuple[ScalarValue, ...]:
    """Load rows of neighbouring scalars, each in as few instructions as 16 bytes and the alignment allow."""
    scalar = memory.element.scalar
    opcode = f"ld.{memory.space}"
    found: list[ScalarValue] = []
    for start, step in rows.pieces(scalar):
        here = where.further(start)
        if scalar.bits == 1:
            byte = e.emit(f"{opcode}.u8", here, result="b16")
            found.append(e.emit("setp.ne.s16", byte, Constant(0, Scalar("b16", 16)), result="pred"))
        elif step == 1:
            found.append(e.emit(f"{opcode}.{scalar.memory}", here, result=scalar.register_class))
        else:
            classes = (scalar.register_class,) * step
            found += e.emit_vector(f"{opcode}.v{step}.{scalar.memory}", here, result=classes)
    return tuple(found)


def stored(e: Emitter, memory: Memory, where: At, rows: Rows, values: tuple[ScalarValue, ...]) -> None:
    """Store rows of neighbouring scalars, as `loaded` loads them."""
    scalar = memory.element.scalar
    opcode = f"st.{memory.space}"
    done = 0
    for start, step in rows.pieces(scalar):
        here = where.further(start)
        chosen = values[done : done + step]
        done += step
        if scalar.bits == 1:
            byte = e.emit("selp.b16", Constant(1, scalar), Constant(0, scalar), e.register(chosen[0]), result="b16")
            e.effect(f"{opcode}.u8", here, byte)
        elif step == 1:
            value = chosen[0] if scalar.bits >= 32 else e.register(chosen[0])
            e.effect(f"{opcode}.{scalar.memory}", here, value)
        else:
            e.effect(f"{opcode}.v{step}.{scalar.memory}", here, tuple(map(e.register, chosen)))


@dataclass(frozen=True, slots=True)
class Rows:
    """What one access touches: rows of `count` neighbouring scalars at these bytes from its address, which is
    aligned to `alignment` bytes."""

    count: int
    starts: tuple[int, ...] = (0,)
    alignment: int = 16

    def pieces(self, scalar: Scalar) -> list[tuple[int, int]]:
        """(byte, scalars) of each instruction: 1, 2 or 4 scalars of at most 16 bytes, aligned to their size."""
        sizes = (4, 2, 1) if scalar.bits > 1 else (1,)
        aligned = min((start & -start for start in self.starts if start), default=16)
        most = min(16, self.alignment, aligned)
        found: list[tuple[int, int]] = []
        for row in self.starts:
            done = 0
            while done < self.count:
                here = done * scalar.size
                step = next(
                    n
                    for n in sizes
                    if n == 1 or (n <= self.count - done and n * scalar.size <= most and here % (n * scalar.size) == 0)
                )
                found.append((row + here, step))
                done += step
        return found


def rows_of_element(element: Element) -> Rows:
    """One element of a memref; a vector is aligned to its size."""
    if not element.shape:
        return Rows(1)
    return Rows(element.shape[-1], tuple(range(0, element.size, element.row)), element.size & -element.size)


def rows_of_vector(memory: Memory, type_: Attribute) -> Rows:
    """A vector out of a memref of scalars: its dimensions are the last ones of the memref.

    The address is aligned to the largest power of two that divides the size of a row.
    """
    element, shape = memory.element, vector_shape(type_)
    if element.shape:
        if element.shape != shape:
            raise Unsupported(f"a {type_} from a memref of other vectors; load the memref's own elements")
        return rows_of_element(element)
    if len(shape) > len(memory.strides):
        raise Unsupported(f"a {type_} has more dimensions than its memref")
    if not shape:
        return Rows(1)
    steps = memory.strides[-len(shape) :]
    if any(not isinstance(step, Constant) for step in steps):
        raise Unsupported(f"a {type_} needs a memref whose last {len(shape)} strides are numbers")
    *outer, last = (int(step.value) * element.size for step in steps if isinstance(step, Constant))
    if last != element.size and shape[-1] > 1:
        raise Unsupported("a vector access needs neighbouring elements: a last stride of 1")
    starts = tuple(sum(map(mul, place, outer)) for place in product_of(*map(range, shape[:-1])))
    row = shape[-1] * element.size
    return Rows(shape[-1], starts, row & -row)


def indices_of(e: Emitter, values: Any) -> list[ScalarValue]:
    return [e.operand(v) for v in values]


def set_vector(e: Emitter, result: SSAValue, lanes: tuple[ScalarValue, ...]) -> None:
    e.values[result] = lanes if is_vector(result.type) else lanes[0]


@lowers("memref.load")
def load(e: Emitter, op: Operation) -> None:
    memory = e.memory(op.operands[0])
    where = address(e, memory, indices_of(e, op.operands[1:]))
    set_vector(e, op.results[0], loaded(e, memory, where, rows_of_element(memory.element)))


@lowers("memref.store")
def store(e: Emitter, op: Operation) -> None:
    memory = e.memory(op.operands[1])
    where = address(e, memory, indices_of(e, op.operands[2:]))
    stored(e, memory, where, rows_of_element(memory.element), e.lanes(op.operands[0]))


@lowers("vector.load")
def vector_load(e: Emitter, op: Operation) -> None:
    """The address must be aligned as `rows_of_vector` says."""
    memory = e.memory(op.operands[0])
    rows = rows_of_vector(memory, op.results[0].type)
    where = address(e, memory, indices_of(e, op.operands[1:]))
    set_vector(e, op.results[0], loaded(e, memory, where, rows))


@lowers("vector.store")
def vector_store(e: Emitter, op: Operation) -> None:
    """As for `vector.load`."""
    memory = e.memory(op.operands[1])
    rows = rows_of_vector(memory, op.operands[0].type)
    where = address(e, memory, indices_of(e, op.operands[2:]))
    stored(e, memory, where, rows, e.lanes(op.operands[0]))


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
    wanted = op.properties.get("alignment")
    alignment = wanted.value.data if isinstance(wanted, IntegerAttr) else 16
    e.values[result] = variable_of(e, type_, result.name_hint, space, alignment)


def variable_of(
    e: Emitter, type_: MemRefType[Attribute], hint: str | None, space: str = "", alignment: int = 16
) -> Memory:
    """A new variable of the kernel with room for a memref."""
    space = space or space_of(type_)
    element = element_of(type_.element_type, e.index_bits)
    size = extent_of_type(type_) * element.size
    name = e.variable(space, size, max(alignment, element.size & -element.size), hint)
    sizes, strides, offset = shape_of(e, type_, [])
    return Memory(element, space, name, offset, sizes, strides)


def extent_of_type(type_: MemRefType[Attribute]) -> int:
    """Elements from the start of a variable to the end of its last element. Unsupported where that is not known."""
    shape, strides = type_.get_shape(), static_strides(type_)
    start = type_.layout.get_offset() if isinstance(type_.layout, StridedLayoutAttr) else 0
    known = [step for step in strides if step is not None]
    if start is None or len(known) < len(shape) or any(n < 0 for n in shape):
        raise Unsupported(f"{type_}: a variable has static sizes, strides and offset")
    if 0 in shape:
        return 1  # a variable needs a byte, so that it has an address
    if any(step < 0 for step in known):
        raise Unsupported(f"{type_}: a negative stride would leave the variable at its start")
    return start + sum((n - 1) * step for n, step in zip(shape, known, strict=True)) + 1


@lowers("memref.dealloc")
def free(e: Emitter, op: Operation) -> None:
    """Variables end with the kernel."""


@lowers("memref.get_global")
def get_global(e: Emitter, op: Operation) -> None:
    assert isinstance(op, GetGlobalOp)
    type_ = cast("MemRefType[Attribute]", op.results[0].type)
    sizes, strides, offset = shape_of(e, type_, [])
    element = element_of(type_.element_type, e.index_bits)
    name, _ = e.setting.symbols[op.name_.string_value()]  # `check_globals` has found it
    e.values[op.results[0]] = Memory(element, space_of(type_), name, offset, sizes, strides)


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
    mixed = _mixed(e)
    offsets = mixed(op.static_offsets, op.offsets)
    sizes = mixed(op.static_sizes, op.sizes)
    steps = mixed(op.static_strides, op.strides)
    offset = memory.offset
    for start, stride in zip(offsets, memory.strides, strict=True):
        offset = total(e, offset, product(e, start, stride))
    strides = [product(e, step, stride) for step, stride in zip(steps, memory.strides, strict=True)]
    kept = _kept_dimensions(cast("MemRefType[Attribute]", op.results[0].type), sizes, strides)
    found: Lowered = replace(
        memory, offset=offset, sizes=tuple(sizes[i] for i in kept), strides=tuple(strides[i] for i in kept)
    )
    e.values[op.results[0]] = found


def _mixed(e: Emitter) -> Callable[[Any, Any], list[ScalarValue]]:
    """Numbers and values: a list of numbers in which some stand for the next value."""

    def mixed(static: Any, dynamic: Any) -> list[ScalarValue]:
        given = iter(dynamic)
        return [e.operand(next(given)) if n == DYNAMIC else Constant(n, _index(e)) for n in static.get_values()]

    return mixed


def _kept_dimensions(
    type_: MemRefType[Attribute], sizes: list[ScalarValue], strides: list[ScalarValue]
) -> tuple[int, ...]:
    """Which dimensions the result of a subview has: all but some of those of size 1, so that its sizes and strides are
    those of its type."""
    units = [i for i, size in enumerate(sizes) if isinstance(size, Constant) and size.value == 1]
    dropped = len(sizes) - type_.get_num_dims()
    wanted = list(zip(type_.get_shape(), static_strides(type_), strict=True))
    for gone in combinations(units, dropped) if dropped >= 0 else ():
        kept = tuple(i for i in range(len(sizes)) if i not in gone)
        if all(_fits(sizes[i], size) and _fits(strides[i], step) for i, (size, step) in zip(kept, wanted, strict=True)):
            return kept
    raise Unsupported(f"no dimensions of size 1 can be dropped so that the result is a {type_}")


def _fits(value: ScalarValue, number: int | None) -> bool:
    """Whether a size or stride may be what its type says: None is `?`."""
    return number is None or number < 0 or not isinstance(value, Constant) or value.value == number


@lowers("memref.view")
def view(e: Emitter, op: Operation) -> None:
    """Bytes as a memref of another type, some bytes on."""
    memory = e.memory(op.operands[0])
    type_ = cast("MemRefType[Attribute]", op.results[0].type)
    bits = 32 if memory.space == "shared" else 64
    start = address(e, memory, [e.operand(op.operands[1])])
    base = start.base if isinstance(start.base, SSAValue) else e.address_of(start.base, bits)
    if start.offset:
        base = e.emit(f"add.s{bits}", base, Constant(start.offset, I32), result=f"b{bits}")
    sizes, strides, offset = shape_of(e, type_, [e.operand(v) for v in op.operands[2:]])
    e.values[op.results[0]] = Memory(
        element_of(type_.element_type, e.index_bits), memory.space, base, offset, sizes, strides
    )


@lowers("memref.reinterpret_cast")
def reinterpret_cast(e: Emitter, op: Operation) -> None:
    """Other offset, sizes and strides on the same elements; the offset counts from the memref's own start."""
    assert isinstance(op, ReinterpretCastOp)
    memory = e.memory(op.source)
    if memory.offset != Constant(0, _index(e)):
        raise Unsupported("reinterpret_cast of a view; reinterpret the memref that it is a view of")
    mixed = _mixed(e)
    (offset,) = mixed(op.static_offsets, op.offsets)
    sizes, strides = mixed(op.static_sizes, op.sizes), mixed(op.static_strides, op.strides)
    e.values[op.results[0]] = replace(memory, offset=offset, sizes=tuple(sizes), strides=tuple(strides))


@lowers("memref.collapse_shape")
def collapse_shape(e: Emitter, op: Operation) -> None:
    """Dimensions that follow each other in memory become one."""
    memory = e.memory(op.operands[0])
    groups = [[i.value.data for i in group] for group in cast("Any", op.properties["reassociation"])]
    index = _index(e)
    sizes: list[ScalarValue] = []
    strides: list[ScalarValue] = []
    for group in groups:
        size: ScalarValue = Constant(1, index)
        for i in group:
            size = product(e, size, memory.sizes[i])
        sizes.append(size)
        # a unit dimension has no step of its own
        real = [i for i in group if memory.sizes[i] != Constant(1, index)]
        strides.append(memory.strides[real[-1] if real else group[-1]] if group else Constant(1, index))
    e.values[op.results[0]] = replace(memory, sizes=tuple(sizes), strides=tuple(strides))


@lowers("memref.expand_shape")
def expand_shape(e: Emitter, op: Operation) -> None:
    """One dimension becomes several, the last of which has its stride."""
    assert isinstance(op, ExpandShapeOp)
    memory = e.memory(op.operands[0])
    groups = [[i.value.data for i in group] for group in cast("Any", op.properties["reassociation"])]
    sizes = _mixed(e)(op.static_output_shape, op.output_shape)
    strides: list[ScalarValue] = []
    for group, stride in zip(groups, memory.strides, strict=True):
        step = stride
        steps: list[ScalarValue] = []
        for i in reversed(group):
            steps.insert(0, step)
            step = product(e, step, sizes[i])
        strides += steps
    e.values[op.results[0]] = replace(memory, sizes=tuple(sizes), strides=tuple(strides))


@lowers("memref.copy")
def copy(e: Emitter, op: Operation) -> None:
    """Element by element, for sizes that are known and small."""
    source, target = map(e.memory, op.operands)
    sizes = [n.value if isinstance(n, Constant) else None for n in source.sizes]
    count = 1
    for n in sizes:
        count = -1 if n is None or count < 0 else count * int(n)
    if not 0 <= count <= MOST_COPIED:
        raise Unsupported(
            f"a copy of more than {MOST_COPIED} elements, or of a number not known here; write a loop over it"
        )
    index = _index(e)
    for place in product_of(*(range(int(cast("Any", n))) for n in sizes)):
        at: list[ScalarValue] = [Constant(n, index) for n in place]
        moved = loaded(e, source, address(e, source, at), rows_of_element(source.element))
        stored(e, target, address(e, target, at), rows_of_element(target.element), moved)


MOST_COPIED = 64
"""Elements that `memref.copy` moves one by one."""
