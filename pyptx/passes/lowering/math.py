"""`math`: instructions of PTX where there are any, else the sequences of `elementary`.

`fma`, `sqrt`, `absf`, `copysign`, the roundings to integral values and the integer functions are exact or correctly rounded.
The elementary functions of f32 are off by less than 0.501 ulp (`rsqrt` 1.5 ulp). With the fast-math flag `afn` (or `fast`), as in upstream's
`convert-gpu-to-nvvm`, they are PTX's approximations, whose errors the PTX ISA gives in 9.7.3 (`ex2` and `lg2` 2 to 3 ulp;
`exp(x)` is `ex2(x * log2(e))`, whose relative error grows with |x|). 16-bit floats are computed in f32. There are none for f64.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue

from .arith import SMALL, in_words, narrowed, widened
from .elementary import ACCURATE, Doubles, accurate
from .emitter import Emitter, elementwise, has_fastmath
from .values import F32, Constant, Scalar, ScalarValue, Unsupported

_APPROXIMATE = {
    "exp2": "ex2.approx.f32",
    "log2": "lg2.approx.f32",
    "sin": "sin.approx.f32",
    "cos": "cos.approx.f32",
    "tanh": "tanh.approx.f32",
    "rsqrt": "rsqrt.approx.f32",
}
_SCALED = {"log": ("log2", math.log(2)), "log10": ("log2", math.log10(2))}
"""Functions that are a number times another one."""


@elementwise(*(f"math.{name}" for name in (*ACCURATE, "rsqrt")))
def elementary(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    if scalar.bits == 64:
        raise Unsupported(f"{op.name} is not supported for f64; truncate to f32, or link libdevice through mlir-opt")
    values = [e.register(widened(e, v, scalar) if scalar.bits == 16 else v) for v in operands]
    name = op.name.removeprefix("math.")
    found = quick(e, name, values) if has_fastmath(op, "afn") else None
    if found is None:
        found = reciprocal_root(e, values[0]) if name == "rsqrt" else accurate(e, name, values)
    return narrowed(e, found, scalar) if scalar.bits == 16 else found


def quick(e: Emitter, name: str, values: list[SSAValue]) -> SSAValue | None:
    """The approximation of PTX; None where there is none for this target."""
    value = values[0]
    if name in _SCALED:
        base, factor = _SCALED[name]
        return e.emit(
            "mul.rn.f32", e.emit(_APPROXIMATE[base], value, result="f32"), Constant(factor, F32), result="f32"
        )
    if name == "exp":
        value = e.emit("mul.rn.f32", value, Constant(1 / math.log(2), F32), result="f32")
        name = "exp2"
    elif name == "powf":
        logarithm = e.emit("lg2.approx.f32", value, result="f32")
        value = e.emit("mul.rn.f32", values[1], logarithm, result="f32")
        name = "exp2"
    elif name == "tan":
        sine, cosine = (e.emit(_APPROXIMATE[n], value, result="f32") for n in ("sin", "cos"))
        return e.emit("div.approx.f32", sine, cosine, result="f32")
    if name not in _APPROXIMATE:
        return None
    return e.emit(_APPROXIMATE[name], value, result="f32")


def reciprocal_root(e: Emitter, value: SSAValue) -> SSAValue:
    """Two roundings: less than 1.5 ulp off, for subnormal numbers too."""
    return e.emit("rcp.rn.f32", e.emit("sqrt.rn.f32", value, result="f32"), result="f32")


def in_f32(e: Emitter, scalar: Scalar, values: list[ScalarValue], opcode: str) -> SSAValue:
    """An f32 instruction on 16-bit floats, rounded back."""
    wide = [e.register(widened(e, v, scalar)) for v in values]
    return narrowed(e, e.emit(opcode, *wide, result="f32"), scalar)


@elementwise("math.sqrt")
def square_root(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    quick = "approx" if has_fastmath(op, "afn") and scalar.bits <= 32 else "rn"
    if scalar.bits == 16:
        return in_f32(e, scalar, operands, f"sqrt.{quick}.f32")
    return e.emit(f"sqrt.{quick}.{scalar.float}", e.register(operands[0]), result=scalar.register_class)


@elementwise("math.fma", "vector.fma")
def fused(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    a, b, c = operands
    if scalar.bits == 16:
        return e.emit(f"fma.rn.{scalar.float}", *map(e.register, operands), result="b16")
    return e.emit(f"fma.rn.{scalar.float}", e.register(a), b, c, result=scalar.register_class)


@elementwise("math.absf")
def absolute(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    value = e.register(operands[0])
    if scalar.bits == 16:
        return e.emit("and.b16", value, Constant(0x7FFF, Scalar("b16", 16)), result="b16")
    return e.emit(f"abs.{scalar.float}", value, result=scalar.register_class)


@elementwise("math.copysign")
def copysign(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    magnitude, sign = map(e.register, operands)
    if scalar.bits == 16:
        raise Unsupported("copysign is for f32 and f64; extend first")
    return e.emit(f"copysign.{scalar.float}", sign, magnitude, result=scalar.register_class)  # PTX takes the sign first


_ROUNDINGS = {"math.floor": "rmi", "math.ceil": "rpi", "math.trunc": "rzi", "math.roundeven": "rni"}


@elementwise(*_ROUNDINGS)
def integral(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    mode = _ROUNDINGS[op.name]
    if scalar.bits == 16:
        return in_f32(e, scalar, operands, f"cvt.{mode}.f32.f32")
    return e.emit(f"cvt.{mode}.{scalar.float}.{scalar.float}", e.register(operands[0]), result=scalar.register_class)


@elementwise("math.round")
def half_away_from_zero(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    """The integral part, and one more where the rest, which is exact, is at least a half."""
    value = e.register(widened(e, operands[0], scalar) if scalar.bits == 16 else operands[0])
    wide = F32 if scalar.bits == 16 else scalar
    kind, class_ = wide.float, wide.register_class
    whole = e.emit(f"cvt.rzi.{kind}.{kind}", value, result=class_)
    rest = e.emit(f"abs.{kind}", e.emit(f"sub.rn.{kind}", value, whole, result=class_), result=class_)
    far = e.emit(f"setp.ge.{kind}", rest, Constant(0.5, wide), result="pred")
    one = e.emit(f"copysign.{kind}", value, e.register(Constant(1.0, wide)), result=class_)
    found = e.emit_guarded(far, whole, f"add.rn.{kind}", whole, one)
    return narrowed(e, found, scalar) if scalar.bits == 16 else found


@elementwise("math.fpowi")
def integral_power(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    """In f64, which holds every exponent that does not overflow; the sign is that of the lowest bit of the exponent."""
    exponent_type = e.scalar(op.operands[1])
    if scalar.bits == 64 or exponent_type.bits < 8:
        raise Unsupported(f"{op.name} of a {op.operands[0].type} and a {op.operands[1].type}: use f32, and i8 to i64")
    bits = max(exponent_type.bits, 16)
    (exponent,) = map(e.register, in_words([operands[1]], e, exponent_type, "s"))
    value = e.register(widened(e, operands[0], scalar) if scalar.bits == 16 else operands[0])
    wide = e.emit("cvt.f64.f32", value, result="f64")
    number = e.emit(f"cvt.rn.f64.s{bits}", exponent, result="f64")
    zero = Constant(0, Scalar(exponent_type.register_class, bits))
    low = e.emit(f"and.b{bits}", exponent, Constant(1, zero.scalar), result=zero.scalar.register_class)
    odd = e.emit(f"setp.ne.s{bits}", low, zero, result="pred")
    found = e.emit("cvt.rn.f32.f64", Doubles(e).whole_power(wide, number, odd), result="f32")
    return narrowed(e, found, scalar) if scalar.bits == 16 else found


@elementwise("math.absi", "math.ctpop", "math.ctlz", "math.cttz")
def bits(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    value = e.register(operands[0])
    if scalar.bits < 16:
        raise Unsupported(SMALL)
    if op.name == "math.absi":
        return e.emit(f"abs.s{scalar.bits}", value, result=scalar.register_class)
    if scalar.bits == 16:
        raise Unsupported(f"{op.name} is for 32 and 64 bits; extend first")
    if op.name == "math.cttz":  # leading zeros of the mirrored number
        value = e.emit(f"brev.b{scalar.bits}", value, result=scalar.register_class)
    count = e.emit(f"{'popc' if op.name == 'math.ctpop' else 'clz'}.b{scalar.bits}", value, result="b32")
    return count if scalar.bits == 32 else e.emit("cvt.u64.u32", count, result="b64")
