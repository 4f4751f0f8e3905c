"""Scalar instructions with the type first: `ptx.add(f32, d, a, b)`, and the same without a destination, `d =
ptx.add(f32, a, b)`.
"""

from __future__ import annotations

from typing import Any

from ...types import PtxType
from ..core.instructions import bits_of, emit, moved
from ..core.operators import UNSIGNED
from ..core.registers import Guard, NegPred, Reg, SpecialReg, checked_type, temporary
from ..core.trace import current
from ..memory.shared import bracketed, memory_type

__all__ = [
    "add", "and_", "cvt", "ld", "mad", "mov", "mul", "not_", "or_", "selp", "setp", "shl", "shr", "st", "sub", "xor_",
]  # fmt: skip


_FIRST = "the first argument of these instructions"


def _operation(text: str, dtype: PtxType, count: int, operands: tuple[Any, ...], pred: Any) -> Reg:
    """Emit with a destination: given as first operand, or (one operand less) made here. Returns it."""
    if len(operands) == count - 1:
        operands = (temporary(current(), dtype), *operands)
    elif len(operands) != count:
        raise TypeError(
            f"{text.partition('.')[0]} takes {count - 1} operands, or {count} with the destination first, not "
            f"{len(operands)}"
        )
    emit(text, *[_constant(dtype, o) for o in operands], pred=pred)
    return operands[0]


def _constant(dtype: PtxType, operand: Any) -> Any:
    if dtype.is_float and isinstance(operand, (int, float)) and dtype.name in ("f32", "f64", "tf32"):
        return bits_of(dtype, operand)
    return operand


def _bits(dtype: PtxType) -> str:
    checked_type(dtype, _FIRST)
    return "pred" if dtype.name == "pred" else f"b{dtype.bits}"


def _number(dtype: PtxType) -> str:
    checked_type(dtype, _FIRST)
    return UNSIGNED.get(dtype.name, dtype.name)


def mov(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`mov`: d, a."""
    checked_type(dtype, _FIRST)
    name = dtype.name
    if name not in ("pred", "f32", "f64") and (dtype.is_float or name[0] not in "us" or not dtype.is_integer):
        name = f"b{dtype.bits}"
    if operands and isinstance(operands[-1], (int, float)) and not isinstance(operands[-1], bool):
        operands = (*operands[:-1], bits_of(dtype, operands[-1]))
    return _operation(f"mov.{name}", dtype, 2, operands, pred)


def add(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`add`: d, a, b."""
    return _operation(f"add.{_number(dtype)}", dtype, 3, operands, pred)


def sub(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`sub`: d, a, b."""
    return _operation(f"sub.{_number(dtype)}", dtype, 3, operands, pred)


def mul(dtype: PtxType, *operands: Any, mode: str | None = None, pred: Guard = None) -> Reg:
    """`mul`: d, a, b. Integers have a `mode`: "lo" (the default), "hi" or "wide" (d is twice as wide)."""
    checked_type(dtype, _FIRST)
    if not dtype.is_float and dtype.is_integer:
        mode = mode or "lo"
        result = _doubled(dtype) if mode == "wide" else dtype
        return _operation(f"mul.{mode}.{_number(dtype)}", result, 3, operands, pred)
    return _operation(f"mul.{mode + '.' if mode else ''}{dtype.name}", dtype, 3, operands, pred)


def mad(*operands: Any, mode: str = "lo", pred: Guard = None) -> Reg:
    """`mad`: dtype, d, a, b, c, or without d for a new one, or a, b, c alone. Integers have a `mode`: "lo", "hi" or
    "wide" (c and d are twice as wide).

    Floats are `fma.rn`. Without a type it is that of the first register operand, and without d the result has it, too
    (twice as wide for "wide").
    """
    trace = current()
    first = next((o.dtype for o in operands if isinstance(o, Reg)), None)
    if operands and not isinstance(operands[0], PtxType) and len(operands) == 3 and first is not None:
        operands = (first, *operands)
    dtype = checked_type(operands[0] if operands else None, _FIRST)
    operands = operands[1:]
    if dtype.is_float:
        return _operation(f"fma.rn.{dtype.name}", dtype, 4, operands, pred)
    if len(operands) != 3:
        return _operation(f"mad.{mode}.{_number(dtype)}", dtype, 4, operands, pred)
    result = _doubled(dtype) if mode == "wide" else first or dtype
    name = "s32" if dtype.bits == 32 and mode == "lo" else _number(dtype)
    return _operation(f"mad.{mode}.{name}", dtype, 4, (temporary(trace, result), *operands), pred)


def _doubled(dtype: PtxType) -> PtxType:
    from ...types import from_name

    return from_name(f"{_number(dtype)[0]}{2 * dtype.bits}")


def shl(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`shl`: d, a, amount."""
    return _operation(f"shl.{_bits(dtype)}", dtype, 3, operands, pred)


def shr(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`shr`: d, a, amount; arithmetic for signed types."""
    checked_type(dtype, _FIRST)
    return _operation(f"shr.{dtype.name}", dtype, 3, operands, pred)


def and_(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`and`: d, a, b, on the bits of the type."""
    return _operation(f"and.{_bits(dtype)}", dtype, 3, operands, pred)


def or_(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`or`: d, a, b, on the bits of the type."""
    return _operation(f"or.{_bits(dtype)}", dtype, 3, operands, pred)


def xor_(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`xor`: d, a, b, on the bits of the type."""
    return _operation(f"xor.{_bits(dtype)}", dtype, 3, operands, pred)


def not_(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`not`: d, a, on the bits of the type."""
    return _operation(f"not.{_bits(dtype)}", dtype, 2, operands, pred)


def selp(dtype: PtxType, *operands: Any, pred: Guard = None) -> Reg:
    """`selp`: d, a, b, p: a where p holds, else b. 16-bit floats and packed types are selected as bits."""
    checked_type(dtype, _FIRST)
    name = dtype.name if dtype.name in ("f32", "f64") or (dtype.is_integer and dtype.bits > 8) else f"b{dtype.bits}"
    return _operation(f"selp.{name}", dtype, 4, operands, pred)


def setp(cmp: str, dtype: PtxType, p: Any, a: Any, b: Any, *, pred: Guard = None, pred_negate: Any = False) -> Any:
    """`setp.<cmp>`: p = a cmp b; p is a predicate or a pair `p | q`. `pred` guards the instruction, negated with
    `pred_negate=True`; a predicate as `pred_negate` is the guard itself.
    """
    if isinstance(pred_negate, (Reg, NegPred)):
        if pred is not None:
            raise current().error("pred and pred_negate are two guards: give one of them")
        pred = pred_negate
    elif pred is not None and pred_negate:
        pred = ~pred
    return emit(f"setp.{cmp}.{_number(dtype)}", p, _constant(dtype, a), _constant(dtype, b), pred=pred)


def cvt(
    dst_t: PtxType,
    src_t: PtxType,
    dst: Any = None,
    src: Any = None,
    *,
    rounding: str | None = None,
    ftz: bool = False,
    sat: bool = False,
    pred: Guard = None,
) -> Any:
    """`cvt`: dst = src converted from `src_t` to `dst_t`.

    Without `rounding` the usual one is taken where PTX asks for one: `rzi` from float to integer, `rn` from integer and
    to a narrower float. PTXError unless there are two types, a destination and a source, in this order.
    """
    if dst is None or src is None:
        raise current().error(
            "cvt takes two types, the destination and the source",
            "d = reg.scalar(f32); ptx.cvt(f32, u32, d, a): to, from, destination, source",
        )
    checked_type(dst_t, _FIRST)
    checked_type(src_t, "the second argument of cvt, the type of its source,")
    if isinstance(src, SpecialReg):
        src = moved(current(), src)  # a cvt itself reads one into a 32-bit register only
    rounding = rounding or _usual_rounding(dst_t, src_t)
    words = ["cvt", rounding or "", "ftz" if ftz else "", "sat" if sat else "", dst_t.name, src_t.name]
    return emit(".".join(w for w in words if w), dst, src, pred=pred)


def _usual_rounding(dst: PtxType, src: PtxType) -> str | None:
    if src.is_float and not dst.is_float:
        return "rzi"
    if dst.is_float and not src.is_float:
        return "rn"
    if dst.is_float and src.is_float and dst.name == "tf32":
        return "rna"
    if dst.is_float and src.is_float and (dst.bits < src.bits or {dst.name, src.name} == {"f16", "bf16"}):
        return "rn"
    return None


def ld(
    dtype: PtxType, dst: Any, address: Any, *, space: str = "global", cache: str | None = None, pred: Guard = None
) -> Any:
    """`ld.<space>`: dst (a register, or a list of 2, 4 or 8 for a vector) from an address."""
    return emit(_access("ld", dtype, space, cache, dst), dst, bracketed(address), pred=pred)


def st(
    dtype: PtxType, address: Any, src: Any, *, space: str = "global", cache: str | None = None, pred: Guard = None
) -> None:
    """`st.<space>`: src (a register, a number, or a list for a vector) to an address."""
    emit(_access("st", dtype, space, cache, src), bracketed(address), _constant(dtype, src), pred=pred)


def _access(root: str, dtype: PtxType, space: str, cache: str | None, data: Any) -> str:
    checked_type(dtype, _FIRST)
    vector = (
        f"v{len(data)}" if isinstance(data, (list, tuple)) or (hasattr(data, "count") and hasattr(data, "regs")) else ""
    )
    return ".".join(w for w in (root, space.replace(" ", ""), cache or "", vector, memory_type(dtype)) if w)
