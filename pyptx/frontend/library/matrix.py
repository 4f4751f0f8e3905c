"""`ptx.ldmatrix`, `ptx.stmatrix`, `ptx.mma.sync`: matrix fragments of a warp (PTX ISA 9.7.16)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...types import PtxType, b32, u32
from ..core.instructions import AddressOperand, emit
from ..core.registers import Guard, Reg, RegArray, temporary
from ..core.trace import current
from ..memory.shared import SharedAlloc, address_register, bracketed

__all__ = ["ldmatrix", "mma", "stmatrix", "stmatrix_x4_trans_f32_bf16"]


def ldmatrix(
    *, dst: Any, src: Any, layout: str = "x4", trans: bool = False, at: Any = None, order: str = "columns",
    lane: Any = None, pred: Guard = None,
) -> None:  # fmt: skip
    """`ldmatrix.sync.aligned.m8n8.<layout>{.trans}.shared.b16`: load 1, 2 or 4 8x8 matrices of 16-bit elements.

    dst: as many b32 registers as matrices. src: shared address of a row; lanes 8i to 8i+7 give the rows of matrix i.
    layout: "x1", "x2", "x4", also with ".trans", and with "m8n8." before it.

    at: (row, column), ints or registers, of the first element in `src`, an array of 16-bit elements, whose layout and swizzle give each lane its
    address. The matrices follow each other down the columns first (x4: (0, 0), (8, 0), (0, 8), (8, 8), the A of mma.m16n8k16), with
    order="rows" along the rows first ((0, 0), (0, 8), ..., two B of 8 x 16). `.trans` is added where the array's columns are contiguous, so that the
    registers are those of its rows and columns. lane: the thread's lane, %laneid if None.
    """
    if at is not None:
        src, turned = matrix_rows(src, at, layout, order, lane)
        trans = trans != turned
    emit(f"ldmatrix.sync.aligned.{_layout('m8n8', layout, trans)}.shared.b16", _vector(dst), bracketed(src), pred=pred)


def stmatrix(
    *, smem: Any, regs: Any, layout: str = "x4", trans: bool = False, shape: str = "m8n8", at: Any = None,
    order: str = "columns", lane: Any = None, pred: Guard = None,
) -> None:  # fmt: skip
    """`stmatrix.sync.aligned.<shape>.<layout>{.trans}.shared::cta.b16`: store 1, 2 or 4 8x8 matrices (sm_90); the
    reverse of `ldmatrix`, with `at`, `order` and `lane` as there.
    """
    kind = "b8" if shape == "m16n8" else "b16"
    if at is not None:
        if shape != "m8n8":
            raise current().error(f"at= is for matrices of 8 x 8, not {shape}")
        smem, turned = matrix_rows(smem, at, layout, order, lane)
        trans = trans != turned
    emit(
        f"stmatrix.sync.aligned.{_layout(shape, layout, trans)}.shared::cta.{kind}",
        bracketed(smem),
        _vector(regs),
        pred=pred,
    )


def matrix_rows(array: Any, at: Any, layout: str, order: str, lane: Any) -> tuple[AddressOperand, bool]:
    """(the address that each lane gives for its row of 8 x 8 matrices, whether the array's columns are contiguous)."""
    trace = current()
    if not isinstance(array, SharedAlloc) or len(array.shape) != 2 or array.dtype.bits != 16:
        what = f"{array.symbol}, {array.shape} of {array.dtype}" if isinstance(array, SharedAlloc) else repr(array)
        raise trace.error(
            f"at= is a place in an array with two dimensions of 16-bit elements, not in {what}",
            "s[stage] and s[stage, 0:64, :] are parts of arrays that have more dimensions",
        )
    if not isinstance(at, (tuple, list)) or len(at) != 2:
        raise trace.error(f"at is (row, column) of the first element, not {at!r}")
    counts = [w for w in layout.strip(".").split(".") if w in ("x1", "x2", "x4")]
    if len(counts) != 1 or order not in ("columns", "rows"):
        raise trace.error(f'layout is "x1", "x2" or "x4" and order "columns" or "rows", not {layout!r} and {order!r}')
    count = int(counts[0][1])
    placed = array.own_placement()
    contiguous = placed.contiguous(8)
    if contiguous is None:
        raise trace.error(
            f"neither dimension of {array.symbol} has rows of 8 elements that fill 16 aligned bytes, which ldmatrix and stmatrix take",
            "of elements of 16 bits: strides that are multiples of 8, and a swizzle Swizzle(n, 3, ...)",
        )
    steps: list[Any] = [at[0], at[1]]
    first, second = (0, 1) if order == "columns" else (1, 0)
    _check_place(array, at, contiguous, {first: 16 if count > 1 else 8, second: 16 if count == 4 else 8})
    if lane is None:
        lane = temporary(trace, u32)
        emit("mov.u32", lane, "%laneid")
    for dimension, bit in ((first, 8), (second, 16)):
        if bit < 8 * count:
            steps[dimension] = _plus(steps[dimension], _bit(lane, bit, 8))
    row = temporary(trace, u32)
    emit("and.b32", row, lane, 7)
    steps[1 - contiguous] = _plus(steps[1 - contiguous], row)
    return array.element(*steps), contiguous == 0


def _check_place(array: SharedAlloc, at: Sequence[Any], contiguous: int, extents: Mapping[int, int]) -> None:
    """PTXError where a constant place leaves rows without 16-byte alignment, or elements outside the array."""
    for dimension, (position, size) in enumerate(zip(at, array.shape, strict=True)):
        if not isinstance(position, int):
            continue
        if dimension == contiguous and position % 8:
            raise current().error(
                f"rows of 8 elements at {position} of dimension {dimension} of {array.symbol} do not begin at 16 bytes",
                "a multiple of 8 in the dimension whose elements lie next to each other",
            )
        if not 0 <= position <= size - extents[dimension]:
            raise current().error(
                f"the matrices have {extents[dimension]} elements from {position} on in dimension {dimension} of {array.symbol}, which has {size}"
            )


def _bit(lane: Any, bit: int, value: int) -> Reg:
    """`value` in lanes with that bit, 0 in the others."""
    result = temporary(current(), u32)
    emit("and.b32", result, lane, bit)
    if bit != value:
        emit("shr.u32", result, result, bit.bit_length() - value.bit_length())
    return result


def _plus(position: Any, register: Reg) -> Reg:
    if isinstance(position, int) and not position:
        return register
    total = temporary(current(), u32)
    if isinstance(position, Reg) and position.dtype.bits == 64:
        narrow = temporary(current(), u32)
        emit("cvt.u32.u64", narrow, position)
        position = narrow
    emit("add.u32", total, register, position)
    return total


def _layout(shape: str, layout: str, trans: bool) -> str:
    """The modifiers in a layout, in order: the shape, which the layout may name again, the count and `.trans`."""
    words = layout.strip(".").split(".")
    turned = trans or "trans" in words
    counts = [w for w in words if w not in (shape, "trans")]
    return ".".join([shape, *counts, *(["trans"] if turned else [])])


def _vector(regs: Any) -> Any:
    return regs if isinstance(regs, RegArray) else list(regs) if isinstance(regs, (list, tuple)) else [regs]


def stmatrix_x4_trans_f32_bf16(
    *, frag: Any, smem_base: Any, lane: Any, row_stride: int, tmp_bf16: Any = None, tmp_pack: Any = None
) -> None:
    """Store a wgmma accumulator as bf16, transposed: element (row, column) of the warpgroup's 64 rows goes to
    `smem_base + 2 * (column*row_stride + row)`.

    frag: the f32 accumulators of 16 columns per 8 registers, 16 rows per warp. smem_base: shared address of the
    warpgroup's first element (u32 register or allocation). lane: the thread of the warpgroup, 0 to 127; warp w stores
    rows 16w to 16w + 15, 32w bytes further on. row_stride: elements from one column to the next, a multiple of 8.
    tmp_pack: four b32 registers to use (fresh ones else); tmp_bf16 is not needed.
    """
    del tmp_bf16  # cvt.rn.bf16x2 rounds and packs in one instruction
    trace = current()
    values = list(frag)
    if len(values) % 8:
        raise trace.error(f"the fragment has 8 registers for each 16 columns, not {len(values)} in all")
    if not isinstance(row_stride, int) or row_stride % 8:
        raise trace.error(f"row_stride is a multiple of 8 elements (16 bytes), not {row_stride!r}")
    stride = 2 * row_stride
    # lane l gives row l%8 of matrix l/8; the matrices are (rows 0-7, 8-15) x (columns 0-7, 8-15), transposed
    address, part = temporary(trace, u32), temporary(trace, u32)
    emit("and.b32", part, lane, 7)
    emit("mad.lo.u32", address, part, stride, address_register(smem_base))
    emit("and.b32", part, lane, 8)
    emit("mad.lo.u32", address, part, 2, address)
    emit("and.b32", part, lane, 16)
    emit("mad.lo.u32", address, part, stride // 2, address)
    emit("and.b32", part, lane, 0xFFFFFFE0)
    emit("add.u32", address, address, part)  # 16 rows for each warp of 32 lanes: one byte for each lane
    packed = list(tmp_pack)[:4] if tmp_pack is not None else [temporary(trace, b32) for _ in range(4)]
    for group in range(len(values) // 8):
        for i, register in enumerate(packed):
            low, high = values[8 * group + 2 * i], values[8 * group + 2 * i + 1]
            emit("cvt.rn.bf16x2.f32", register, high, low)
        emit(
            "stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16",
            AddressOperand(address, 16 * group * stride or None),
            packed,
        )


class Mma:
    """`ptx.mma`."""

    @staticmethod
    def sync(
        *, shape: Any, dtype_d: PtxType, dtype_a: PtxType, dtype_b: PtxType, dtype_c: PtxType | None = None, d: Any,
        a: Any, b: Any, c: Any, a_layout: str = "row", b_layout: str = "col", pred: Guard = None,
    ) -> None:  # fmt: skip
        """`mma.sync.aligned.<shape>.<a_layout>.<b_layout>.<d>.<a>.<b>.<c>`: D = A * B + C by one warp.

        shape: (m, n, k) or "m16n8k16"; d, a, b, c: the fragments' registers.
        """
        words = shape_name(shape)
        types = f"{dtype_d.name}.{dtype_a.name}.{dtype_b.name}.{(dtype_c or dtype_d).name}"
        fragments = [_vector(f) for f in (d, a, b, c)]
        emit(f"mma.sync.aligned.{words}.{a_layout}.{b_layout}.{types}", *fragments, pred=pred)


def extents(shape: Any) -> tuple[int, int, int]:
    """`m64n128k16` -> (64, 128, 16); PTXError for what is not a shape."""
    parts = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape) if isinstance(shape, str) else None
    found = tuple(map(int, parts.groups())) if parts else () if isinstance(shape, str) else tuple(shape)
    if len(found) != 3:
        raise current().error(f'a shape is (m, n, k) or "m64n128k16", not {shape!r}')
    return found


def shape_name(shape: Any) -> str:
    """(64, 128, 16) -> `m64n128k16`."""
    if isinstance(shape, str):
        return shape
    m, n, k = extents(shape)
    return f"m{m}n{n}k{k}"


mma = Mma()
