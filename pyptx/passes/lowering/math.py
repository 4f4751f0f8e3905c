"""`math`, as far as PTX has an instruction for it.

`fma`, `sqrt`, `absf`, `copysign`, the roundings to integral values and the integer functions are exact or
correctly rounded. `exp`,
`exp2`, `log`, `log2`, `sin`, `cos`, `tanh` and `rsqrt` are PTX's approximations for f32 (PTX ISA 9.7.3 gives
their errors: `ex2` and `lg2`
2 to 3 ulp; `exp(x)` is `ex2(x * log2(e))`, whose relative error grows with |x|); 16-bit floats are computed
in f32. There are none for f64.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue

from .arith import SMALL, narrowed, widened
from .emitter import Emitter, elementwise, has_fastmath
from .values import F32, Constant, Scalar, ScalarValue, Unsupported

_APPROXIMATE = {
    "math.exp2": "ex2.approx.f32",
    "math.log2": "lg2.approx.f32",
    "math.sin": "sin.approx.f32",
    "math.cos": "cos.approx.f32",
    "math.tanh": "tanh.approx.f32",
    "math.rsqrt": "rsqrt.approx.f32",
}


@elementwise(*_APPROXIMATE, "math.exp", "math.log")
def approximate(e: Emitter, op: Operation, scalar: Scalar, operands: list[ScalarValue]) -> ScalarValue:
    if scalar.bits == 64:
        raise Unsupported(f"PTX has no {op.name} for f64; truncate to f32, or expand it to a polynomial first")
    value = e.register(widened(e, operands[0], scalar) if scalar.bits == 16 else operands[0])
    if op.name == "math.exp":
        power = e.emit("mul.rn.f32", value, Constant(1 / math.log(2), F32), result="f32")
        found = e.emit("ex2.approx.f32", power, result="f32")
    elif op.name == "math.log":
        power = e.emit("lg2.approx.f32", value, result="f32")
        found = e.emit("mul.rn.f32", power, Constant(math.log(2), F32), result="f32")
    else:
        found = e.emit(_APPROXIMATE[op.name], value, result="f32")
    return narrowed(e, found, scalar) if scalar.bits == 16 else found


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
