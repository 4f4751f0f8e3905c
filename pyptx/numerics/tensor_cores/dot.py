"""Matrix products as a tensor core computes them, from NumPy arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...diagnostics import Diagnostic, PTXError
from .. import formats
from ..floating import quiet
from ..formats import FORMATS
from .accumulate import Bits, Numbers, Scales, accumulate, numbers
from .rules import Kind, read_kind, rule_for

_NAMES: dict[Any, str] = {
    np.dtype(np.float16): "f16",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "e4m3",
    np.dtype(ml_dtypes.float8_e5m2): "e5m2",
    np.dtype(ml_dtypes.float6_e3m2fn): "e3m2",
    np.dtype(ml_dtypes.float6_e2m3fn): "e2m3",
    np.dtype(ml_dtypes.float4_e2m1fn): "e2m1",
    np.dtype(ml_dtypes.float8_e8m0fnu): "ue8m0",
}
"""The format of a dtype. float32 and float64 arrays are rounded to the format that the kind asks for."""
_RESULTS: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "f64": np.float64}


def dot(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike | None = None,
    *,
    kind: str,
    arch: str,
    scale_a: ArrayLike | None = None,
    scale_b: ArrayLike | None = None,
) -> NDArray[Any]:
    """``c + a @ b``, bit for bit as the tensor core of an architecture computes it.

    Shapes are those of ``numpy.matmul``: a is (..., M, K) or (K,), b is (..., K, N) or (K,), c broadcasts to the result (None is
    zero). K is a multiple of that of one instruction; instructions along K are chained, ascending, as a kernel's main loop
    chains them: D of one is C of the next.

    ``kind`` is the instruction as PTX writes it: instruction, shape, the types of D, A, B (and C). Of the shape only K counts,
    without one it is the deepest there is: ``"wgmma.m64n128k32.f32.e4m3.e4m3"``, ``"mma.m16n8k16.f32.bf16.bf16.f32"``,
    ``"tcgen05.f32.e4m3.e5m2"``, ``"mma.m8n8k4.f64.f64.f64.f64"``. With scale factors it names the elements that share one, and
    their type: ``"tcgen05.block32.f32.e4m3.e4m3.ue8m0"``, ``"mma.block16.f32.e2m1.e2m1.ue4m3"``. ``scale_a`` is then
    (..., M, K / block), ``scale_b`` (..., K / block, N).

    ``arch`` is the GPU: ``"sm_90"``, also for PTX of ``.target sm_80`` that runs there.

    Arrays of a dtype that is the operand's type (``numpy.float16`` or of ml_dtypes) are taken as they are, so are unsigned integers
    of its width as bit patterns (8 bits for fp6 and fp4, one element in each). float32 and float64 arrays are rounded to nearest
    even first (overflow: infinity, or NaN where there is none); for tf32 the hardware cuts float32 off. The result is float32,
    float16 or float64, as the type of D says.

    Raises PTXError (a ValueError) for an unknown kind or architecture, a kind that the architecture does not have, shapes and
    dtypes that do not fit.
    """
    what = read_kind(kind)
    rule = rule_for(what, arch)
    with quiet():
        x, y = _operand(a, what.a, "a", what), _operand(b, what.b, "b", what)
        lost = tuple(axis for axis, v in ((-2, x), (-1, y)) if v.value.ndim == 1)
        x, y = (x[None, :] if -2 in lost else x), (y[:, None] if -1 in lost else y)
        scales = _scales(what, x, y, scale_a, scale_b, lost)
        shape = _result_shape(what, x, y)
        total = _addend(what, c, shape, lost)
        deep = len(shape)
        x, y = _deepened(x, deep), _deepened(y, deep)
        if scales is not None:
            scales = _deepened(scales[0], deep), _deepened(scales[1], deep)
        for first in range(0, x.value.shape[-1], what.k):
            part = slice(first, first + what.k)
            factors = None
            if scales is not None:
                blocks = slice(first // what.block, (first + what.k) // what.block)
                factors = scales[0][..., blocks], scales[1][..., blocks, :]
            total = accumulate(what, rule, x[..., part], y[..., part, :], total, factors)
    return np.squeeze(np.ascontiguousarray(total).view(_RESULTS[what.d]), lost)


def _bits(values: ArrayLike, name: str, which: str, kind: Kind) -> Bits:
    """An array as codes of a format."""
    array, f = np.asarray(values), FORMATS[name]
    if np.issubdtype(array.dtype, np.unsignedinteger) and array.dtype == np.dtype(f.dtype):
        return array
    if name == "tf32" and array.dtype == np.float32:
        return np.ascontiguousarray(array).view(np.uint32)
    if _NAMES.get(array.dtype) == name:
        return np.ascontiguousarray(array).view(f.dtype).reshape(array.shape)
    if array.dtype == np.float32 or array.dtype == np.float64:
        return formats.encode(np.atleast_1d(array).astype(np.float64), name).reshape(array.shape)
    raise PTXError(
        Diagnostic(
            "error",
            f"{kind.text}: {which} is {array.dtype}, not {name}",
            hint=f"an array of the type {name}, float32 or float64 (rounded first), or {np.dtype(f.dtype)} bit patterns",
        )
    )


def _operand(values: ArrayLike, name: str, which: str, kind: Kind) -> Numbers:
    bits = _bits(values, name, which, kind)
    if not bits.ndim:
        raise PTXError(f"{kind.text}: {which} has at least one dimension")
    return numbers(bits, name)


def _result_shape(kind: Kind, x: Numbers, y: Numbers) -> tuple[int, ...]:
    (*before, m, k), (*after, depth, n) = x.value.shape, y.value.shape
    if k != depth:
        raise PTXError(f"{kind.text}: a has K = {k}, b has K = {depth}")
    if k % kind.k or not k:
        raise PTXError(f"{kind.text}: K = {k} is not a multiple of {kind.k}, the K of the instruction")
    try:
        return (*np.broadcast_shapes(tuple(before), tuple(after)), m, n)
    except ValueError:
        raise PTXError(f"{kind.text}: the leading dimensions {before} of a and {after} of b do not broadcast") from None


def _addend(kind: Kind, c: ArrayLike | None, shape: tuple[int, ...], lost: tuple[int, ...]) -> Bits:
    """C as bits of D's type, in the shape of the result before dimensions are dropped. An f16 C of an f32 D is widened."""
    if c is None:
        return np.zeros(shape, FORMATS[kind.d].dtype)
    bits = _bits(c, kind.c, "c", kind)
    if kind.c != kind.d:
        bits = formats.encode(formats.decode(np.atleast_1d(bits), kind.c), kind.d).reshape(bits.shape)
    final = tuple(n for i, n in enumerate(shape) if i - len(shape) not in lost)
    try:
        return np.broadcast_to(bits, final).reshape(shape)
    except ValueError:
        raise PTXError(f"{kind.text}: c of shape {bits.shape} does not broadcast to {final}") from None


def _scales(
    kind: Kind, x: Numbers, y: Numbers, scale_a: ArrayLike | None, scale_b: ArrayLike | None, lost: tuple[int, ...]
) -> Scales:
    if not kind.block:
        if scale_a is not None or scale_b is not None:
            raise PTXError(f"{kind.text}: this kind has no scale factors")
        return None
    if scale_a is None or scale_b is None:
        raise PTXError(f"{kind.text}: this kind needs scale_a and scale_b")
    of_a = _operand(scale_a, kind.scale, "scale_a", kind)
    of_b = _operand(scale_b, kind.scale, "scale_b", kind)
    of_a, of_b = (of_a[None, :] if -2 in lost else of_a), (of_b[:, None] if -1 in lost else of_b)
    wanted_a = (*x.value.shape[:-1], x.value.shape[-1] // kind.block)
    wanted_b = (*y.value.shape[:-2], y.value.shape[-2] // kind.block, y.value.shape[-1])
    for name, found, wanted in (("scale_a", of_a, wanted_a), ("scale_b", of_b, wanted_b)):
        if found.value.shape != wanted:
            raise PTXError(f"{kind.text}: {name} has the shape {found.value.shape}, not {wanted}")
    return of_a, of_b


def _deepened(x: Numbers, dimensions: int) -> Numbers:
    """With leading dimensions of one, so that all operands have the same number."""
    return x[(None,) * (dimensions - x.value.ndim)]
