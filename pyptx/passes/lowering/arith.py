"""`arith` on integers, floats and their vectors.

Floats are IEEE: every operation is rounded once (`.rn`, which keeps ptxas from contracting), unless fast-math
flags say otherwise:
`contract` lets it, `arcp` or `afn` allow `div.full`. f16 is native; bf16 is computed in f32 and rounded,
which gives the same results.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.arith import CmpfOp, CmpiOp, ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from .emitter import Emitter, elementwise, has_fastmath, is_vector, lowers
from .values import F32, I32, PREDICATE, Constant, Scalar, ScalarValue, Unsupported, lanes_of

SMALL = "PTX has no such instruction for integers of less than 16 bits; extend them first"


@lowers("arith.constant")
def constant(e: Emitter, op: Operation) -> None:
    assert isinstance(op, ConstantOp)
    result, attr = op.results[0], cast(Attribute, op.value)
    scalar = e.scalar(result)
    if isinstance(attr, DenseIntOrFPElementsAttr):
        numbers = list(cast("Any", attr).get_values())
        count = lanes_of(result.type)
        numbers = numbers * count if len(numbers) == 1 else numbers
        e.values[result] = tuple(Constant(number(v, scalar), scalar) for v in numbers)
    elif isinstance(attr, (IntegerAttr, FloatAttr)):
        e.values[result] = Constant(number(cast("Any", attr).value.data, scalar), scalar)
    else:
        raise Unsupported(f"a constant {attr} has no lowering")


def number(value: Any, scalar: Scalar) -> int | float:
    """A number as a Python float, or as a signed integer of the type's size (0 or 1 for i1)."""
    if scalar.float:
        return float(value)
    if scalar.bits == 1:
        return int(value) & 1
    wrapped = int(value) & ((1 << scalar.bits) - 1)
    return wrapped - (1 << scalar.bits) if wrapped >> (scalar.bits - 1) else wrapped


# ------------------------------------------------------------------------------------------------------------
# integers

_INTEGER = {
    "arith.addi": "add.s",
    "arith.subi": "sub.s",
    "arith.muli": "mul.lo.s",
    "arith.divsi": "div.s",
    "arith.divui": "div.u",
    "arith.remsi": "rem.s",
    "arith.remui": "rem.u",
    "arith.maxsi": "max.s",
    "arith.maxui": "max.u",
    "arith.minsi": "min.s",
    "arith.minui": "min.u",
    "arith.andi": "and.b",
    "arith.ori": "or.b",
    "arith.xori": "xor.b",
}
_LOGIC = {
    "arith.andi": "and.pred",
    "arith.ori": "or.pred",
    "arith.xori": "xor.pred",
    "arith.addi": "xor.pred",
    "arith.muli": "and.pred",
}
_FOLDED = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
}


@elementwise(*_INTEGER)
def integer(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    a, b = operands
    if scalar == PREDICATE:
        if op.name not in _LOGIC:
            raise Unsupported(f"{op.name} on i1 has no PTX instruction; extend to i32 first")
        return e.emit(_LOGIC[op.name], e.register(a), e.register(b), result="pred")
    if isinstance(a, Constant) and isinstance(b, Constant) and op.name in _FOLDED:
        return Constant(number(_FOLDED[op.name](a.value, b.value), scalar), scalar)
    opcode = _INTEGER[op.name]
    (a, b), bits = in_words([a, b], e, scalar, opcode[-1]), max(scalar.bits, 16)
    return e.emit(f"{opcode}{bits}", e.register(a), b, result=scalar.register_class)


def in_words(values: list[ScalarValue], e: Emitter, scalar: Scalar, sign: str) -> list[ScalarValue]:
    """Values of 8 bits as 16 bits, extended by sign (`s`), by zeros (`u`) or in any way (`b`); others as they are.

    A register that holds 8 bits says nothing with its upper half.
    """
    if scalar.bits != 8:
        return values
    wide = Scalar("b16", 16)
    return [
        Constant(int(v.value) & 0xFF if sign == "u" else v.value, wide)
        if isinstance(v, Constant)
        else v
        if sign == "b"
        else e.emit(f"cvt.{sign}16.{sign}8", v, result="b16")
        for v in values
    ]


_ROUNDED_UP = {"arith.ceildivsi": "s", "arith.ceildivui": "u", "arith.floordivsi": "s"}


@elementwise(*_ROUNDED_UP)
def rounded_division(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    """The quotient towards zero, and one more (or less) where the rest has (not) the divisor's sign."""
    if scalar == PREDICATE:
        raise Unsupported(f"{op.name} on i1 has no PTX instruction; extend to i32 first")
    sign, bits = _ROUNDED_UP[op.name], max(scalar.bits, 16)
    a, b = map(e.register, in_words(operands, e, scalar, sign))
    kind, class_ = f"{sign}{bits}", scalar.register_class
    zero = Constant(0, Scalar(class_, bits))
    quotient = e.emit(f"div.{kind}", a, b, result=class_)
    rest = e.emit(f"rem.{kind}", a, b, result=class_)
    wrong = e.emit(f"setp.ne.{kind}", rest, zero, result="pred")
    if sign == "s":
        differ = e.emit(f"xor.b{bits}", rest, b, result=class_)
        relation = "lt" if op.name == "arith.floordivsi" else "ge"
        wrong = e.emit("and.pred", wrong, e.emit(f"setp.{relation}.{kind}", differ, zero, result="pred"), result="pred")
    step = Constant(-1 if op.name == "arith.floordivsi" else 1, Scalar(class_, bits))
    moved = e.emit(f"add.s{bits}", quotient, step, result=class_)
    return e.emit(f"selp.b{bits}", moved, quotient, wrong, result=class_)


@lowers("arith.mulsi_extended", "arith.mului_extended")
def extended_product(e: Emitter, op: Operation) -> None:
    """The low and the high half of a product."""
    scalar = e.scalar(op.operands[0])
    if scalar.bits < 16:
        raise Unsupported(f"{op.name} on {scalar.bits} bits; extend, multiply, and shift")
    sign = "s" if op.name == "arith.mulsi_extended" else "u"
    rows = list(zip(*map(e.lanes, op.operands), strict=True))
    for result, part in zip(op.results, ("lo", "hi"), strict=True):
        made = tuple(
            e.emit(f"mul.{part}.{sign}{scalar.bits}", e.register(a), b, result=scalar.register_class) for a, b in rows
        )
        e.values[result] = made if is_vector(result.type) else made[0]


@lowers("arith.addui_extended")
def extended_sum(e: Emitter, op: Operation) -> None:
    """The sum, and whether it is carried out of: it is less than a summand then."""
    scalar = e.scalar(op.operands[0])
    if scalar == PREDICATE:
        raise Unsupported(f"{op.name} on i1 has no PTX instruction; extend to i32 first")
    bits, class_ = max(scalar.bits, 16), scalar.register_class
    sums: list[ScalarValue] = []
    carries: list[ScalarValue] = []
    for row in zip(*map(e.lanes, op.operands), strict=True):
        a, b = map(e.register, in_words(list(row), e, scalar, "u"))
        found = e.emit(f"add.s{bits}", a, b, result=class_)
        (whole,) = in_words([found], e, scalar, "u")
        sums.append(found)
        carries.append(e.emit(f"setp.lt.u{bits}", e.register(whole), a, result="pred"))
    for result, made in zip(op.results, (sums, carries), strict=True):
        e.values[result] = tuple(made) if is_vector(result.type) else made[0]


_SHIFTS = {"arith.shli": "shl.b", "arith.shrsi": "shr.s", "arith.shrui": "shr.u"}


@elementwise(*_SHIFTS)
def shift(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    a, amount = operands
    if scalar == PREDICATE:
        raise Unsupported("i1 values are not shifted; extend to i32 first")
    opcode = _SHIFTS[op.name]
    if isinstance(amount, Constant):
        amount = Constant(int(amount.value) & 0xFFFFFFFF if amount.value >= 0 else 0xFFFF, I32)
    elif scalar.bits != 32:
        amount = e.emit(f"cvt.u32.u{scalar.bits}", amount, result="b32")
    (a,) = in_words([a], e, scalar, opcode[-1])
    return e.emit(f"{opcode}{max(scalar.bits, 16)}", e.register(a), amount, result=scalar.register_class)


_RELATIONS = (
    ("eq", "s"),
    ("ne", "s"),
    ("lt", "s"),
    ("le", "s"),
    ("gt", "s"),
    ("ge", "s"),
    ("lt", "u"),
    ("le", "u"),
    ("gt", "u"),
    ("ge", "u"),
)
"""Relation and sign of each predicate of `arith.cmpi`, by its number."""


@elementwise("arith.cmpi")
def compare_integers(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    assert isinstance(op, CmpiOp)
    relation, sign = _RELATIONS[op.predicate.value.data]
    a, b = operands
    if scalar == PREDICATE:
        differ = e.emit("xor.pred", e.register(a), e.register(b), result="pred")
        if relation == "ne":
            return differ
        if relation == "eq":
            return e.emit("not.pred", differ, result="pred")
        raise Unsupported("i1 values are compared with eq and ne only; extend to i32 first")
    a, b = in_words([a, b], e, scalar, sign)
    return e.emit(f"setp.{relation}.{sign}{max(scalar.bits, 16)}", e.register(a), b, result="pred")


# ------------------------------------------------------------------------------------------------------------
# ---- floats


def widened(e: Emitter, value: ScalarValue, scalar: Scalar) -> ScalarValue:
    """A 16-bit float as f32, exactly."""
    if isinstance(value, Constant):
        return Constant(value.value, F32)
    if scalar.float == "f16":
        return e.emit("cvt.f32.f16", value, result="f32")
    zero = e.register(Constant(0, Scalar("b16", 16)))
    return e.emit("mov.b32", (zero, value), result="f32")  # a bf16 is the upper half of an f32


def narrowed(e: Emitter, value: SSAValue, scalar: Scalar) -> SSAValue:
    """An f32 rounded to a 16-bit float."""
    return e.emit(f"cvt.rn.{scalar.float}.f32", value, result="b16")


_FLOAT = {"arith.addf": "add", "arith.subf": "sub", "arith.mulf": "mul", "arith.divf": "div"}


@elementwise(*_FLOAT)
def floating(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    a, b = operands
    name = _FLOAT[op.name]
    if scalar.float == "bf16" or (scalar.float == "f16" and name == "div"):
        wide = float_instruction(e, op, name, F32, widened(e, a, scalar), widened(e, b, scalar))
        return narrowed(e, wide, scalar)
    return float_instruction(e, op, name, scalar, a, b)


def float_instruction(e: Emitter, op: Operation, name: str, scalar: Scalar, a: ScalarValue, b: ScalarValue) -> SSAValue:
    if name == "div":
        quick = scalar.float == "f32" and has_fastmath(op, "arcp", "afn")
        opcode = "div.full.f32" if quick else f"div.rn.{scalar.float}"
    else:
        opcode = f"{name}.{scalar.float}" if has_fastmath(op, "contract") else f"{name}.rn.{scalar.float}"
    second = e.register(b) if scalar.bits == 16 else b
    return e.emit(opcode, e.register(a), second, result=scalar.register_class)


@elementwise("arith.negf")
def negate(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    (a,) = operands
    if isinstance(a, Constant):
        return Constant(-a.value, scalar)
    if scalar.bits == 16:
        return e.emit("xor.b16", a, Constant(-0x8000, Scalar("b16", 16)), result="b16")
    return e.emit(f"neg.{scalar.float}", a, result=scalar.register_class)


_EXTREMES = {
    "arith.maximumf": ("max", True),
    "arith.minimumf": ("min", True),
    "arith.maxnumf": ("max", False),
    "arith.minnumf": ("min", False),
}


@elementwise(*_EXTREMES)
def extreme(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    """`maximumf` gives NaN for NaN (from sm_80 on `max.NaN`), `maxnumf` the other operand."""
    name, nan = _EXTREMES[op.name]
    a, b = operands
    if scalar.bits == 16:
        wide = extreme_of(e, name, nan, F32, widened(e, a, scalar), widened(e, b, scalar))
        return narrowed(e, wide, scalar)
    return extreme_of(e, name, nan, scalar, a, b)


def extreme_of(e: Emitter, name: str, nan: bool, scalar: Scalar, a: ScalarValue, b: ScalarValue) -> SSAValue:
    first = e.register(a)
    if not nan:
        return e.emit(f"{name}.{scalar.float}", first, b, result=scalar.register_class)
    if scalar.float == "f32" and e.target >= 80:
        return e.emit(f"{name}.NaN.f32", first, b, result="f32")
    second = e.register(b)
    found = e.emit(f"{name}.{scalar.float}", first, second, result=scalar.register_class)
    either = e.emit(f"setp.nan.{scalar.float}", first, second, result="pred")
    total = e.emit(f"add.rn.{scalar.float}", first, second, result=scalar.register_class)  # NaN if one is
    return e.emit(f"selp.{scalar.float}", total, found, either, result=scalar.register_class)


_FLOAT_RELATIONS = ("", "eq", "gt", "ge", "lt", "le", "ne", "num", "equ", "gtu", "geu", "ltu", "leu", "neu", "nan", "")
"""`setp`'s relation for each predicate of `arith.cmpf`, by its number; the first is false, the last true."""


@elementwise("arith.cmpf")
def compare_floats(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    assert isinstance(op, CmpfOp)
    which = op.predicate.value.data
    if which in (0, 15):
        return Constant(int(which == 15), PREDICATE)
    a, b = operands
    if scalar.bits == 16:
        a, b = widened(e, a, scalar), widened(e, b, scalar)
        scalar = F32
    return e.emit(f"setp.{_FLOAT_RELATIONS[which]}.{scalar.float}", e.register(a), b, result="pred")


# -----------------------------------------------------------------------------------------------------
# select, convert


@lowers("arith.select")
def select(e: Emitter, op: Operation) -> None:
    condition, yes, no = op.operands
    scalar = e.scalar(yes)
    result = op.results[0]
    rows = zip(e.lanes(yes), e.lanes(no), strict=True)
    conditions = e.lanes(condition)
    count = lanes_of(result.type)
    conditions = conditions * count if len(conditions) == 1 else conditions
    made = tuple(_chosen(e, scalar, c, a, b) for c, (a, b) in zip(conditions, rows, strict=True))
    e.values[result] = made if is_vector(result.type) else made[0]


def _chosen(e: Emitter, scalar: Scalar, condition: ScalarValue, yes: ScalarValue, no: ScalarValue) -> ScalarValue:
    if isinstance(condition, Constant):
        return yes if condition.value else no
    if scalar == PREDICATE:
        here = e.emit("and.pred", condition, e.register(yes), result="pred")
        not_condition = e.emit("not.pred", condition, result="pred")
        there = e.emit("and.pred", not_condition, e.register(no), result="pred")
        return e.emit("or.pred", here, there, result="pred")
    type_ = scalar.float if scalar.float in ("f32", "f64") else f"b{max(scalar.bits, 16)}"
    return e.emit(f"selp.{type_}", e.register(yes), no, condition, result=scalar.register_class)


def _target(e: Emitter, op: Operation) -> Scalar:
    return e.scalar(op.results[0])


@elementwise("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def resize(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    """Integers to other sizes. `index_cast` extends by sign."""
    (a,) = operands
    to = _target(e, op)
    sign = "u" if op.name in ("arith.extui", "arith.index_castui") else "s"
    if isinstance(a, Constant):
        value = int(a.value)
        if scalar.bits == 1:
            value = -value if sign == "s" and to.bits > 1 else value
        elif sign == "u":
            value &= (1 << scalar.bits) - 1
        return Constant(number(value, to), to)
    if to.bits == scalar.bits:
        return a
    if scalar == PREDICATE:
        one = Constant(1 if sign == "u" else -1, to)
        return e.emit(f"selp.b{max(to.bits, 16)}", one, Constant(0, to), a, result=to.register_class)
    if to == PREDICATE:
        bits = max(scalar.bits, 16)
        low = e.emit(f"and.b{bits}", a, Constant(1, scalar), result=scalar.register_class)
        return e.emit(f"setp.ne.s{bits}", low, Constant(0, scalar), result="pred")
    kind = "u" if to.bits < scalar.bits else sign
    return e.emit(f"cvt.{kind}{max(to.bits, 16)}.{kind}{scalar.bits}", a, result=to.register_class)


@elementwise("arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui")
def between(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    """Integers to floats, to nearest even; floats to integers, towards zero."""
    (a,) = operands
    to = _target(e, op)
    sign = op.name.removeprefix("arith.").replace("fpto", "")[0]
    value = e.register(a)
    if op.name.startswith("arith.fpto"):
        if to == PREDICATE:
            raise Unsupported(f"{op.name} to i1: convert to i32 and compare")
        if scalar.bits == 16:
            value, scalar = e.register(widened(e, value, scalar)), F32
        return e.emit(f"cvt.rzi.{sign}{max(to.bits, 16)}.{scalar.float}", value, result=to.register_class)
    if scalar == PREDICATE:
        one = Constant(1 if sign == "u" else -1, I32)
        value, scalar = e.emit("selp.b32", one, Constant(0, I32), value, result="b32"), I32
    if to.float == "bf16":
        if scalar.bits > 16:
            raise Unsupported(
                "an integer of more than 16 bits is rounded twice on its way to bf16; go through f32 yourself"
            )
        wide = e.emit(f"cvt.rn.f32.{sign}{scalar.bits}", value, result="f32")
        return narrowed(e, wide, to)
    return e.emit(f"cvt.rn.{to.float}.{sign}{scalar.bits}", value, result=to.register_class)


@elementwise("arith.extf", "arith.truncf")
def float_resize(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    (a,) = operands
    to = _target(e, op)
    if isinstance(a, Constant) and op.name == "arith.extf":
        return Constant(a.value, to)
    value = e.register(a)
    if op.name == "arith.extf":
        wide = widened(e, value, scalar) if scalar.bits == 16 else value
        return wide if to.bits == 32 else e.emit("cvt.f64.f32", e.register(wide), result="f64")
    if to.float == "bf16" and scalar.bits == 64:
        raise Unsupported("truncf from f64 to bf16 would be rounded twice; go through f32 yourself")
    return e.emit(f"cvt.rn.{to.float}.{scalar.float}", value, result=to.register_class)


@elementwise("arith.bitcast")
def bitcast(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    to = _target(e, op)
    if to.bits < 16 or to.bits != scalar.bits:
        raise Unsupported("a bitcast is between types of 16, 32 or 64 bits of the same size")
    return e.emit(f"mov.b{to.bits}", e.register(operands[0]), result=to.register_class)
