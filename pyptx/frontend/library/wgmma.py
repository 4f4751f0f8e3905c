"""`ptx.wgmma`: warpgroup matrix multiply of sm_90a, and its shared-memory descriptors (PTX ISA 9.7.17)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...types import PtxType, b32, b64
from ...wgmma_layout import GmmaLayout, Major, pick_gmma_layout
from ..core.instructions import emit, move
from ..core.registers import Guard, NegPred, Reg, RegArray, predicate, temporary
from ..core.trace import Trace, current
from ..memory.matrix_operands import array_of, matrix_operand
from ..memory.shared import SharedAlloc, SharedSlice, address_register
from .matrix import extents, shape_name

__all__ = ["descriptor_register", "scale_predicate", "wgmma"]


def descriptor_register(trace: Trace, address: Any, byte_offset: Any, mask: int, constant: int) -> Reg:
    """`((address + byte_offset) & mask) >> 4 | constant` in a b64 register. An offset is never cut off: where the mask
    would (32 bytes along K, with a mask for multiples of 128), it is added after it.
    """
    masked = temporary(trace, b32)
    moves = isinstance(byte_offset, Reg) or byte_offset
    behind = isinstance(byte_offset, Reg) or byte_offset % (mask & -mask)
    start = address_register(address)
    if moves and not behind:
        moved = temporary(trace, b32)
        emit("add.s32", moved, start, byte_offset)
        start = moved
    emit("and.b32", masked, start, mask)
    if behind:
        emit("add.s32", masked, masked, byte_offset)
    emit("shr.b32", masked, masked, 4)
    result = temporary(trace, b64)
    emit("cvt.u64.u32", result, masked)
    emit("or.b64", result, result, f"0x{constant:016X}")
    return result


def scale_predicate(trace: Trace, value: Any) -> Any:
    """Whether to accumulate, as a predicate: a predicate stays one, a bool or an integer register is compared with
    0.
    """
    if not isinstance(value, (NegPred, Reg, bool, int, np.bool_, np.integer)):
        raise trace.error(f"whether to accumulate is a bool, a predicate or an integer register, not {value!r}")
    if isinstance(value, NegPred) or (isinstance(value, Reg) and value.dtype.name == "pred"):
        return value
    word = value
    if not isinstance(value, Reg):
        word = temporary(trace, b32)
        move(word, int(bool(value)))
    result = predicate(trace)
    emit("setp.ne.b32", result, word, 0)
    return result


def _readable(stored: PtxType, dtype: PtxType) -> bool:
    """Whether elements of one type may be multiplied as another: the same, bits without a type (and unsigned integers as the bits of
    floats), and .f32 as .tf32, which is its upper bits.
    """
    if stored.bits != dtype.bits:
        return False
    untyped = stored.name[0] == "b" and stored.name[1:].isdecimal()
    raw = stored.name[0] == "u" and not dtype.is_integer
    return stored.name == dtype.name or untyped or raw or (stored.name, dtype.name) == ("f32", "tf32")


def _check_tile(trace: Trace, name: str, operand: Any, dtype: PtxType, rows: int, k: int) -> None:
    """PTXError where a tile has not the elements that the instruction reads: `rows` (of M or N) times k."""
    tile = operand.alloc if isinstance(operand, SharedSlice) else operand
    if not isinstance(tile, SharedAlloc) or tile.gmma_layout is None:
        return
    if not _readable(tile.dtype, dtype):
        raise trace.error(
            f"{name} is read as {dtype}, and {tile.symbol} has elements of {tile.dtype}",
            f"make it with smem.wgmma_tile({dtype}, ...)",
        )
    along = tile.shape[-2:] if tile.gmma_major == "K" else tile.shape[:-3:-1]
    if along[0] < rows or along[1] < k:
        raise trace.error(
            f"{name} is {rows} x {k} ({'M' if name == 'A' else 'N'} x K), and {tile.symbol} is {along[0]} x {along[1]}",
            'wgmma_tile takes (rows, K) for major "K", (K, rows) for "MN"',
        )


_SWIZZLES = {None: 0, "128B": 1, "64B": 2, "32B": 3}


class Wgmma:
    """`ptx.wgmma`: D += A * B by a warpgroup (128 threads, all of which execute each of these), sm_90a.

    A and B lie in shared memory, D in registers. An instruction takes 32 bytes of K: k is 16 for f16 and bf16, 8 for
    tf32, 32 for 8-bit types. The products run until they are waited for; till then D's registers are theirs.

        d = reg.wgmma_frag(m=64, n=64, dtype=f32)
        ptx.wgmma.fence()
        for step in range(4):  # K = 64 of bf16: 4 steps of 16, that is of 32 bytes
            ptx.wgmma.mma_async(
                shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=d, a=a, b=b,
                a_k_offset=32 * step, b_k_offset=32 * step, scale_d=step > 0,
            )
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)

    with `a = smem.wgmma_tile(bf16, (64, 64))` and `b` the same, (N, K), filled by TMA. Where a thread's elements of D
    are: `d.origin(thread)`, `pyptx.draw.wgmma`.
    """

    SWIZZLE_NONE = 0
    SWIZZLE_128B = 1
    SWIZZLE_64B = 2
    SWIZZLE_32B = 3
    MASKED_DESC_B128 = 0x4000_0040_0001_0000
    """128-byte swizzle, 1024 bytes between groups of 8 rows."""

    def mma_async(
        self, *, shape: Any, dtype_d: PtxType, dtype_a: PtxType, dtype_b: PtxType, d: Any, a: Any, b: Any,
        scale_d: Any = False, scale_a: int = 1, scale_b: int = 1, trans_a: int = 0, trans_b: int = 0,
        a_k_offset: Any = 0, b_k_offset: Any = 0, pred: Guard = None,
    ) -> None:  # fmt: skip
        """`wgmma.mma_async.sync.aligned`: D = A * B, or D = A * B + D with `scale_d`, by one warpgroup.

        shape: (64, n, k). d: the accumulators. a: a tile made with `smem.wgmma_tile` (or a part of it), an array with a layout or swizzle
        (M or N, K), a descriptor (b64 register), or four b32 registers. b: a tile, array or descriptor. scale_d: a bool, a predicate, or an integer
        register (0: D is overwritten). scale_a, scale_b: 1 or -1 (float types). trans_a, trans_b: 1 for MN-major
        operands of 16-bit types; tiles made with major "MN" imply it. a_k_offset, b_k_offset: bytes to add to the start
        of the tile, for steps along K (16-byte multiples).
        """
        trace = current()
        if not isinstance(shape, (tuple, list, str)):
            raise trace.error(f"shape is (64, n, k), not {shape!r}")
        for offset in (a_k_offset, b_k_offset):
            if isinstance(offset, int) and offset % 16:
                raise trace.error(f"an offset along K is a multiple of 16 bytes, not {offset}")
        m, n, k = extents(shape)
        operand_a, major_a = self._operand(trace, a, a_k_offset, "A", dtype_a, m)
        operand_b, major_b = self._operand(trace, b, b_k_offset, "B", dtype_b, n)
        in_registers = isinstance(operand_a, (RegArray, list))
        half = dtype_a.name in ("f16", "bf16")
        integer = dtype_a.name in ("s8", "u8", "b1")
        turned_a, turned_b = int(bool(trans_a) or major_a == "MN"), int(bool(trans_b) or major_b == "MN")
        if not half and (turned_a or turned_b):
            raise trace.error(f"operands of type {dtype_a} are K-major", "only f16 and bf16 can be transposed")
        if in_registers and turned_a:
            raise trace.error("A in registers cannot be transposed")
        if integer and (scale_a != 1 or scale_b != 1):
            raise trace.error("integer operands cannot be negated: scale_a and scale_b are 1")
        immediates: list[int] = [] if integer else [scale_a, scale_b]
        if half:
            immediates += [turned_b] if in_registers else [turned_a, turned_b]
        if k != 256 // dtype_a.bits:
            raise trace.error(
                f"k is {256 // dtype_a.bits} for operands of type {dtype_a}, not {k}: an instruction reads 32 bytes along K",
                "a longer K is several of them, with a_k_offset and b_k_offset",
            )
        accumulate = scale_predicate(trace, scale_d)
        words = f"wgmma.mma_async.sync.aligned.{shape_name(shape)}.{dtype_d.name}.{dtype_a.name}.{dtype_b.name}"
        emit(words, d if isinstance(d, RegArray) else list(d), operand_a, operand_b, accumulate, *immediates, pred=pred)
        _check_tile(trace, "A", a, dtype_a, m, k)
        _check_tile(trace, "B", b, dtype_b, n, k)

    def _operand(
        self, trace: Trace, operand: Any, byte_offset: Any, name: str, dtype: PtxType, rows: int
    ) -> tuple[Any, str | None]:
        """(what the instruction takes, the tile's major)."""
        array = array_of(operand)
        if array is not None:
            if not _readable(array.dtype, dtype):
                raise trace.error(f"{name} is read as {dtype}, and {array.symbol} has elements of {array.dtype}")
            return self._of_array(trace, array, byte_offset, rows, 32)
        tile = operand.alloc if isinstance(operand, SharedSlice) else operand
        if isinstance(tile, SharedAlloc) and tile.gmma_layout is not None:
            return self._describe(trace, operand, tile.gmma_layout, byte_offset), tile.gmma_major
        if isinstance(operand, (RegArray, list, tuple)):
            return operand if isinstance(operand, RegArray) else list(operand), None
        if isinstance(operand, Reg) and (isinstance(byte_offset, Reg) or byte_offset):
            moved = temporary(trace, b64)
            emit("add.s64", moved, operand, byte_offset >> 4)
            return moved, None
        return operand, None

    def _of_array(
        self, trace: Trace, array: SharedAlloc, byte_offset: Any, rows: int | None, k_bytes: int
    ) -> tuple[Reg, str]:
        found = matrix_operand(trace, array, rows=rows, k_bytes=k_bytes, swizzles=tuple(_SWIZZLES))
        descriptor = self.make_descriptor(
            array, leading_byte_offset=found.leading, stride_byte_offset=found.stride, swizzle=_SWIZZLES[found.swizzle],
            addr_byte_offset=byte_offset,
        )  # fmt: skip
        return descriptor, found.major

    def _describe(self, trace: Trace, base: Any, layout: GmmaLayout, byte_offset: Any) -> Reg:
        return self.make_descriptor(
            base, leading_byte_offset=layout.leading_byte_offset, stride_byte_offset=layout.stride_byte_offset,
            swizzle=layout.swizzle_code, addr_byte_offset=byte_offset,
        )  # fmt: skip

    @staticmethod
    def fence(*, pred: Guard = None) -> None:
        """`wgmma.fence.sync.aligned`: order register accesses before the following wgmmas. Before the first one, and
        whenever registers of D (or of A) were written in between.
        """
        emit("wgmma.fence.sync.aligned", pred=pred)

    @staticmethod
    def commit_group(*, pred: Guard = None) -> None:
        """`wgmma.commit_group.sync.aligned`: make a group of the wgmmas so far."""
        emit("wgmma.commit_group.sync.aligned", pred=pred)

    @staticmethod
    def wait_group(n: int, *, pred: Guard = None) -> None:
        """`wgmma.wait_group.sync.aligned n`: wait until at most n (a constant) of the newest groups are going on. 0
        before D is read; 1 keeps the newest running while the stage of the one before is given back.
        """
        emit("wgmma.wait_group.sync.aligned", n, pred=pred)

    @staticmethod
    def make_descriptor(
        base: Any,
        *,
        leading_byte_offset: int | None = None,
        stride_byte_offset: int | None = None,
        swizzle: int = 0,
        base_offset: int = 0,
        addr_byte_offset: Any = 0,
        k_bytes: int = 32,
    ) -> Reg:
        """The matrix descriptor (b64) of shared memory at `base` + `addr_byte_offset` (PTX ISA 9.7.17.5.1.2.2).

        Without offsets they are those of the layout of `base`, an array (M or N, K) of `smem.alloc` with `layout=` or `swizzle=`, or a part of one
        (`s[stage]`, `s[0:64, 16:32]`), as is the swizzle; PTXError for a layout that the hardware cannot read. k_bytes: what the instruction reads along
        K, 64 for B with a sparse A.

        Offsets are bytes, multiples of 16; swizzle is one of the SWIZZLE_ constants; base_offset (0..7) is for patterns
        that do not start at a multiple of their size.
        """
        trace = current()
        if leading_byte_offset is None or stride_byte_offset is None:
            array = array_of(base)
            if array is None or (leading_byte_offset, stride_byte_offset, swizzle) != (None, None, 0):
                raise trace.error(
                    "a descriptor needs leading_byte_offset and stride_byte_offset, or an array with a layout",
                    'smem.alloc(bf16, (64, 64), swizzle="128B") is one',
                )
            return wgmma._of_array(trace, array, addr_byte_offset, None, k_bytes)[0]
        for name, value, limit in (
            ("leading_byte_offset", leading_byte_offset, 1 << 18), ("stride_byte_offset", stride_byte_offset, 1 << 18)
        ):  # fmt: skip
            if value % 16 or not 0 <= value < limit:
                raise trace.error(f"{name} is a multiple of 16 below 2^18, not {value}")
        if swizzle not in (0, 1, 2, 3) or not 0 <= base_offset < 8:
            raise trace.error(f"swizzle is 0 to 3 and base_offset 0 to 7, not {swizzle} and {base_offset}")
        constant = (
            (leading_byte_offset >> 4) << 16 | (stride_byte_offset >> 4) << 32 | base_offset << 49 | swizzle << 62
        )
        return descriptor_register(trace, base, addr_byte_offset, 0x3FFFF, constant)

    def auto_descriptor(self, base: Any, *, dtype: PtxType, shape: tuple[int, int], major: str) -> Reg:
        """The descriptor of a tile: shape (M, K) with major "K", (K, N) with major "MN"; the layout is
        `pick_gmma_layout`'s.
        """
        rows, columns = shape
        m_or_n, k = (rows, columns) if major == "K" else (columns, rows)
        layout = pick_gmma_layout(
            elem_bytes=dtype.bits // 8, m_or_n=m_or_n, k=k, major=Major.K if major == "K" else Major.MN
        )
        return self._describe(current(), base, layout, 0)

    @staticmethod
    def masked_descriptor(
        addr: Any, *, byte_offset: Any = 0, mask: int = 0x3FF80, const_bits: int = MASKED_DESC_B128
    ) -> Reg:
        """`((addr + byte_offset) & mask) >> 4 | const_bits` in a b64 register; the mask cuts the address, not the offset."""
        return descriptor_register(current(), addr, byte_offset, mask, const_bits)


wgmma = Wgmma()
