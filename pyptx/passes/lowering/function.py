"""A `gpu.func` kernel as a `.entry`: parameters, blocks and branches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, MemRefType
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.dialects.gpu import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.ptx.attributes import layout_attr, string_attr
from ...dialects.ptx.control import Branch, Return
from ...dialects.ptx.structure import DeclarationAttr, EntryOp, FallOp, LabelOp, TokensAttr
from ...dialects.ptx.syntax import Target
from ...dialects.ptx.types import RegType
from ...ssa.fastir import add_ops, create
from .emitter import LOWERINGS, At, Emitter, LoweringError, Setting, known_block_size, written
from .memory import shape_of, space_of, variable_of
from .values import Constant, Memory, Scalar, ScalarValue, Unsupported, element_of, lanes_of, scalar_of


def lower_function(function: FuncOp, setting: Setting) -> EntryOp:
    """The entry for a kernel whose structured control flow is already lowered to `cf`. LoweringError where it
    has none."""
    name, _ = setting.symbols[function.sym_name.data]
    e = Emitter(name, setting)
    e.function_op = function
    e.source = function
    entry = function.body.blocks[0]
    before = _dominance_order(entry)
    source = [block for block in function.body.blocks if block in before]  # as written, less what is never reached
    made: dict[Block, Block] = {}
    for block in source:
        try:
            types = [] if block is entry else [t for a in block.args for t in _register_types(e, a)]
        except Unsupported as problem:
            raise LoweringError(f"an argument of a block: {problem}") from None
        made[block] = Block(arg_types=types)
        if block is not entry:
            _bind(e, block, made[block])
    following = dict(pairwise(source))
    number = {block: i for i, block in enumerate(source)}
    parts: dict[Block, list[Block]] = {}
    parameters: list[DeclarationAttr] = []
    for block in before:
        e.new_block()
        e.source = function
        if block is entry:
            parameters = _guarded(function, lambda: _parameters(e, function))
        else:
            label = create(LabelOp, (), (), {"label": string_attr(f"$L__BB_{number[block]}")}, {})
            e.ops.append(label)
        extra = _block(e, block, following.get(block), made)
        add_ops(made[block], e.ops)
        parts[block] = [made[block], *extra]
    order = [part for block in source for part in parts[block]]
    if e.variables:
        first = order[0].first_op
        assert first is not None
        order[0].insert_ops_before(e.variables, first)
    properties: dict[str, Attribute] = {
        "sym_name": string_attr(name),
        "head": TokensAttr((".visible", ".entry")),
        "params": ArrayAttr(parameters),
        "directives": TokensAttr(_directives(function)),
    }
    return create(EntryOp, (), (), properties, {}, (), function.location, (Region(order),))


def _dominance_order(entry: Block) -> dict[Block, None]:
    """The blocks that can be reached, each after those that dominate it: in reverse postorder."""
    seen = {entry}
    finished: list[Block] = []
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, rest = stack[-1]
        successor = next(rest, None)
        if successor is None:
            finished.append(block)
            stack.pop()
        elif successor not in seen:
            seen.add(successor)
            stack.append((successor, iter(_successors(successor))))
    return dict.fromkeys(reversed(finished))


def _successors(block: Block) -> Sequence[Block]:
    last = block.last_op
    return last.successors if last is not None else ()


def _directives(function: FuncOp) -> tuple[str, ...]:
    known = known_block_size(function)
    if known is None:
        return ()
    x, y, z = known
    return (".reqntid", str(x), ",", str(y), ",", str(z))


def _guarded(op: Operation, work: Any) -> Any:
    """Run a lowering; what it does not support is said about the op."""
    try:
        return work()
    except Unsupported as problem:
        name, text = written(op)
        raise LoweringError(f"{name} cannot become PTX: {problem}\n  {text}") from None


# ----------------------------------------------------------------------------------------------------------
# parameters


def _parameters(e: Emitter, function: FuncOp) -> list[DeclarationAttr]:
    """Load the parameters at the head of the kernel.

    A memref is a pointer to its first element, followed by one integer per `?` of its shape, in order; it
    must be contiguous or
    have static strides. Scalars are themselves; i1 and i8 take a byte.
    """
    declared: list[DeclarationAttr] = []
    pointers: list[tuple[SSAValue, str, list[str]]] = []

    def declare(*words: str) -> str:
        name = e.setting.names.unique(f"{e.name}_param_{len(declared)}")
        declared.append(DeclarationAttr(((".param", *words), ((name, ()),))))
        return name

    arguments = function.body.blocks[0].args
    taken = len(function.function_type.inputs)
    for argument in arguments[taken:]:  # workgroup and private memory of the function
        _attribution(e, argument)
    for argument in arguments[:taken]:
        type_ = argument.type
        if isinstance(type_, MemRefType):
            if space_of(type_) != "global":
                raise Unsupported(f"a parameter of type {type_}: kernels take pointers to global memory only")
            size = element_of(type_.element_type, e.index_bits).size
            align = str(min(size & -size, 128))
            pointer = declare(".u64", ".ptr", ".global", ".align", align)
            sizes = [declare(f".u{e.index_bits}") for extent in type_.get_shape() if extent < 0]
            pointers.append((argument, pointer, sizes))
        else:
            scalar = scalar_of(type_, e.index_bits)
            kind = scalar.float if scalar.float in ("f32", "f64") else f"u{max(scalar.bits, 8)}"
            pointers.append((argument, declare("." + kind), []))
    for argument, name, sizes in pointers:
        type_ = argument.type
        if isinstance(type_, MemRefType):
            generic = e.emit("ld.param.u64", At(name), result="b64")
            base = e.emit("cvta.to.global.u64", generic, result="b64")
            bits = e.index_bits
            given: list[ScalarValue] = [e.emit(f"ld.param.u{bits}", At(s), result=f"b{bits}") for s in sizes]
            extents, strides, offset = shape_of(e, type_, given)
            element = element_of(type_.element_type, bits)
            e.values[argument] = Memory(element, "global", base, offset, extents, strides)
        else:
            e.values[argument] = _scalar_parameter(e, name, scalar_of(type_, e.index_bits))
    return declared


def _attribution(e: Emitter, argument: SSAValue) -> None:
    type_ = argument.type
    if not isinstance(type_, MemRefType) or space_of(type_) == "global":
        raise Unsupported(f"an attribution of type {type_}: it is a memref in workgroup or private memory")
    e.values[argument] = variable_of(e, type_, argument.name_hint)


def _scalar_parameter(e: Emitter, name: str, scalar: Scalar) -> SSAValue:
    if scalar.bits == 1:
        byte = e.emit("ld.param.u8", At(name), result="b16")
        return e.emit("setp.ne.s16", byte, Constant(0, Scalar("b16", 16)), result="pred")
    kind = scalar.float if scalar.float in ("f32", "f64") else f"u{scalar.bits}"
    return e.emit(f"ld.param.{kind}", At(name), result=scalar.register_class)


# ------------------------------------------------------------------------------------------------------------
# -- blocks


def _register_types(e: Emitter, argument: SSAValue) -> list[RegType]:
    """The registers of a block argument: one per element."""
    scalar = scalar_of(argument.type, e.index_bits)
    return [RegType((scalar.register_class, "", 0))] * lanes_of(argument.type)


def _bind(e: Emitter, block: Block, made: Block) -> None:
    position = 0
    for argument in block.args:
        count = lanes_of(argument.type)
        values = tuple(made.args[position : position + count])
        position += count
        vector = type(argument.type).__name__ == "VectorType"
        e.values[argument] = values if vector else values[0]


def _block(e: Emitter, block: Block, following: Block | None, made: dict[Block, Block]) -> list[Block]:
    """Lower the ops of a block into the emitter; returns blocks that must come right after it."""
    for op in block.ops:
        e.source = op
        if isinstance(op, BranchOp):
            _jump(e, made[op.successor], _passed(e, op.arguments), op.successor is following)
        elif isinstance(op, ConditionalBranchOp):
            return _guarded(op, lambda op=op: _branch(e, op, following, made))
        elif op.name == "gpu.return":
            e.ops.append(create(Return, (), (), {"layout": layout_attr(())}, {}, (), op.location))
        else:
            lowering = LOWERINGS.get(op.name)
            if lowering is None:
                raise LoweringError(_unknown(op))
            _guarded(op, lambda lowering=lowering, op=op: lowering(e, op))
    return []


_INSTEAD = {
    "gpu.printf": "store what it would print to a buffer",
    "gpu.launch": "a kernel launches nothing; outline it on the host, with mlir-opt --gpu-kernel-outlining",
    "gpu.launch_func": "a kernel launches nothing; launch it from the host",
    "scf.execute_region": "write the operations of its region in its place, with mlir-opt --canonicalize",
    "math.ipowi": "multiply in a loop, or use math.fpowi",
    "vector.print": "store what it would print to a buffer",
}
"""What to use in the place of operations that are common and have no lowering."""


def _unknown(op: Operation) -> str:
    if op.name in _INSTEAD:
        return f"{op.name} has no lowering to PTX: {_INSTEAD[op.name]}\n  {written(op)[1]}"
    dialect = op.name.partition(".")[0]
    others = sorted(n for n in LOWERINGS if n.startswith(dialect + "."))
    hint = f"of {dialect} there are: {', '.join(others)}" if others else "there is no lowering of that dialect"
    return f"{op.name} has no lowering to PTX; {hint}\n  {written(op)[1]}"


def _passed(e: Emitter, arguments: Any) -> list[SSAValue]:
    return [e.register(v) for a in arguments for v in e.lanes(a)]


def _jump(e: Emitter, target: Block, passed: list[SSAValue], next_: bool) -> None:
    if next_:
        e.ops.append(create(FallOp, passed, (), {}, {}, (target,), e.location))
    else:
        properties: dict[str, Attribute] = {"layout": layout_attr((Target("0"),))}
        e.ops.append(create(Branch, passed, (), properties, {}, (target,), e.location))


def _branch(e: Emitter, op: ConditionalBranchOp, following: Block | None, made: dict[Block, Block]) -> list[Block]:
    """`@p bra` to one successor and fall through to the other, or into a block that jumps there."""
    condition = e.register(e.operand(op.cond))
    yes, no = op.then_block, op.else_block
    yes_passed, no_passed = _passed(e, op.then_arguments), _passed(e, op.else_arguments)
    guard = "@"
    if following is yes and following is not no:  # turn the branch round, so that the block below is fallen into
        yes, no, yes_passed, no_passed, guard = no, yes, no_passed, yes_passed, "@!"
    extra: list[Block] = []
    below = made[no]
    if no is not following or no is yes:
        properties: dict[str, Attribute] = {"layout": layout_attr((Target("0"),))}
        below = Block([create(Branch, no_passed, (), properties, {}, (made[no],), op.location)])
        no_passed = []
        extra.append(below)
    properties = {"layout": layout_attr((Target("0"),)), "guard": string_attr(guard)}
    operands = [condition, *yes_passed, *no_passed]
    e.ops.append(create(Branch, operands, (), properties, {}, (made[yes], below), op.location))
    return extra
