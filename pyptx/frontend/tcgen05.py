"""`ptx.tcgen05`: tensor memory and the matrix multiply of sm_100a, and its descriptors (PTX ISA 9.7.18)."""

from __future__ import annotations

from typing import Any

from ..types import b32, u16
from .copies import _half
from .instructions import AddressOperand, emit
from .registers import Reg, RegArray, from_, temporary
from .shared import address_register, bracketed
from .trace import current
from .wgmma import descriptor_register, scale_predicate

__all__ = ["tcgen05"]

_SWIZZLES = {None: 0, "none": 0, "128B_32B": 1, "128B": 2, "64B": 4, "32B": 6}


class Tcgen05:
    """`ptx.tcgen05`: the matrix multiply of sm_100a, whose sums lie in tensor memory: 128 lanes (rows) by 512 columns of
    32 bits per CTA. An address there has the lane in its upper 16 bits and the column in its lower ones.

    In order: one warp calls `alloc` and reads the address from shared memory; one thread issues `mma`s and `commit`s
    them to an mbarrier; all wait for it, `fence_after_thread_sync`, `ld` (each warp its 32 lanes) and `wait_ld`; in the
    end the warp that allocated calls `dealloc`. `cta_group` is 1, or 2 for a pair of CTAs, the same in all of them.
    """

    BLACKWELL_MASKED_DESC_B128 = 0x4000_4040_0001_0000
    """128-byte swizzle, 1024 bytes between groups of 8 rows, descriptor version 1."""

    @staticmethod
    def alloc(addr: Any, ncols: Any, *, cta_group: int = 1, pred: Any = None) -> None:
        """Allocate `ncols` columns of tensor memory (a power of two from 32 to 512); its address is written to
        shared memory at `addr`.
        """
        emit(f"tcgen05.alloc.cta_group::{cta_group}.sync.aligned.shared::cta.b32", bracketed(addr), ncols, pred=pred)

    @staticmethod
    def dealloc(taddr: Any, ncols: Any, *, cta_group: int = 1, pred: Any = None) -> None:
        """Free what `alloc` gave."""
        emit(f"tcgen05.dealloc.cta_group::{cta_group}.sync.aligned.b32", taddr, ncols, pred=pred)

    @staticmethod
    def relinquish_alloc_permit(*, cta_group: int = 1, pred: Any = None) -> None:
        """Promise that this CTA allocates no more."""
        emit(f"tcgen05.relinquish_alloc_permit.cta_group::{cta_group}.sync.aligned", pred=pred)

    @staticmethod
    def mma(
        d: Any, a_desc: Any, b_desc: Any, idesc: Any, *, cta_group: int = 1, kind: str = "f16",
        enable_input_d: Any = True, scale_d: Any = None, sparse: bool = False, ashift: bool = False,
        collector_a: str | None = None, a_is_tmem: bool = False, sparse_metadata: Any = None, pred_operand: Any = None,
        scale_c: Any = None, pred: Any = None,
    ) -> None:  # fmt: skip
        """`tcgen05.mma`: D = A * B + D, or D = A * B, in tensor memory; issued by one thread.

        d: tensor memory address (register). a_desc: descriptor of A in shared memory, or with `a_is_tmem` its tensor
        memory address. idesc: the instruction descriptor (b32 register or int). kind: "f16", "tf32", "f8f6f4", "i8".
        Whether D is added: `pred_operand` (a predicate), else `scale_d`, `scale_c` or `enable_input_d` (a bool, a
        predicate, or an integer register), the first given. sparse: A is 2:4 sparse, `sparse_metadata` its metadata's
        tensor memory address. collector_a: "fill", "use", "lastuse", "discard".
        """
        trace = current()
        chosen = next(c for c in (pred_operand, scale_d, scale_c, enable_input_d) if c is not None)
        accumulate = scale_predicate(trace, chosen)
        words = f"tcgen05.mma{'.sp' if sparse else ''}.cta_group::{cta_group}.kind::{kind.removeprefix('kind::')}"
        if ashift:
            words += ".ashift"
        if collector_a is not None:
            words += f".collector::a::{collector_a.removeprefix('collector::a::')}"
        operands = [_bits_address(d), _bits_address(a_desc) if a_is_tmem else a_desc, b_desc]
        if sparse:
            if sparse_metadata is None:
                raise trace.error("a sparse mma needs sparse_metadata")
            operands.append(_bits_address(sparse_metadata))
        if isinstance(idesc, int):
            idesc = from_(idesc, b32)
        emit(words, *operands, idesc, accumulate, pred=pred)

    @staticmethod
    def fence_before_thread_sync(*, pred: Any = None) -> None:
        """Order the tcgen05 operations so far before a following barrier."""
        emit("tcgen05.fence::before_thread_sync", pred=pred)

    @staticmethod
    def fence_after_thread_sync(*, pred: Any = None) -> None:
        """Order the following tcgen05 operations after a preceding barrier."""
        emit("tcgen05.fence::after_thread_sync", pred=pred)

    @staticmethod
    def wait_ld(*, pred: Any = None) -> None:
        """Wait for this thread's `ld`s; only then may their registers be read."""
        emit("tcgen05.wait::ld.sync.aligned", pred=pred)

    @staticmethod
    def wait_st(*, pred: Any = None) -> None:
        """Wait for this thread's `st`s."""
        emit("tcgen05.wait::st.sync.aligned", pred=pred)

    @staticmethod
    def commit(
        mbar: Any,
        *,
        cta_group: int = 1,
        multicast: bool = False,
        multicast_mask: Any = None,
        space: str = "cluster",
        pred: Any = None,
    ) -> None:
        """Arrive at `mbar` when the async tcgen05 operations of this thread so far are complete; with a mask, in
        each of those CTAs.

        The address is a shared one; PTX spells the space `.shared::cluster` for this CTA's memory (`space="cta"`) too.
        """
        trace = current()
        if space not in ("cluster", "cta"):
            raise trace.error(f'space is "cluster" or "cta", not {space!r}')
        words = f"tcgen05.commit.cta_group::{cta_group}.mbarrier::arrive::one.shared::cluster"
        if multicast or multicast_mask is not None:
            if multicast_mask is None:
                raise trace.error("commit(multicast=True) needs multicast_mask, a bit for each CTA")
            # ptxas of CUDA 13.0 takes no constant here
            mask = from_(multicast_mask, u16) if isinstance(multicast_mask, int) else _half(multicast_mask)
            emit(words + ".multicast::cluster.b64", bracketed(mbar), mask, pred=pred)
        else:
            emit(words + ".b64", bracketed(mbar), pred=pred)

    @staticmethod
    def ld(
        dst: Any,
        taddr: Any,
        *,
        shape: str = "16x128b",
        count: int = 1,
        dtype: str = "b32",
        pack: bool = False,
        pred: Any = None,
    ) -> None:
        """`tcgen05.ld.sync.aligned.<shape>.x<count>{.pack::16b}.b32`: load from tensor memory, by a warp; `wait_ld`
        must follow. Warp w reaches lanes 32*(w%4) to 32*(w%4)+31, which `taddr` names in its upper half.

        dst: b32 registers, `count` of them for shapes "32x32b" and "16x64b", twice as many for "16x128b", four times for
        "16x256b". With "32x32b" thread t has lane t and `count` columns. PTX ISA 9.7.16.8.
        """
        words = f"tcgen05.ld.sync.aligned.{shape}.x{count}{'.pack::16b' if pack else ''}.{dtype}"
        emit(words, _registers(dst), _tensor_memory(taddr), pred=pred)

    @staticmethod
    def st(
        taddr: Any,
        src: Any,
        *,
        shape: str = "16x128b",
        count: int = 1,
        dtype: str = "b32",
        unpack: bool = False,
        pred: Any = None,
    ) -> None:
        """`tcgen05.st.sync.aligned.<shape>.x<count>{.unpack::16b}.b32`: store to tensor memory, by a warp;
        `wait_st` must follow. Lanes, shapes and registers as for `ld`.
        """
        words = f"tcgen05.st.sync.aligned.{shape}.x{count}{'.unpack::16b' if unpack else ''}.{dtype}"
        emit(words, _tensor_memory(taddr), _registers(src), pred=pred)

    @staticmethod
    def cp(
        taddr: Any,
        src: Any,
        size: str = "128x256b",
        *,
        cta_group: int = 1,
        multicast: str | None = None,
        pred: Any = None,
    ) -> None:
        """`tcgen05.cp`: copy from shared memory (descriptor `src`) to tensor memory.

        size: "128x256b", "4x256b", "128x128b", "64x128b" (multicast "warpx2::02_13" or "warpx2::01_23"), "32x128b"
        (multicast "warpx4", the only one).
        """
        if multicast is None and size == "32x128b":
            multicast = "warpx4"
        words = f"tcgen05.cp.cta_group::{cta_group}.{size}{'.' + multicast if multicast else ''}"
        emit(words, _tensor_memory(taddr), src, pred=pred)

    @staticmethod
    def shift(taddr: Any, *, cta_group: int = 1, pred: Any = None) -> None:
        """`tcgen05.shift.down`: move rows of a matrix in tensor memory down by one lane."""
        emit(f"tcgen05.shift.cta_group::{cta_group}.down", _tensor_memory(taddr), pred=pred)

    @staticmethod
    def make_instr_desc_f16bf16_f32(
        *, m: int = 128, n: int = 256, ab_dtype: str = "bf16", a_major: str = "K", b_major: str = "K",
        scale_a: int = 1, scale_b: int = 1, saturate: bool = False, sparse: bool = False, max_shift: int = 0,
    ) -> int:  # fmt: skip
        """The instruction descriptor for f16 or bf16 operands and f32 results (PTX ISA 9.7.18.4.2). ValueError for
        what it cannot say.

        m: 64, 128, or 256 for a pair of CTAs; n: a multiple of 8 up to 256; majors: "K" or "MN"; scales: 1, or -1 to
        negate.
        """
        name = getattr(ab_dtype, "name", ab_dtype)
        if name not in ("f16", "bf16"):
            raise ValueError(f"ab_dtype is f16 or bf16, not {ab_dtype!r}")
        if m not in (32, 64, 128, 256):
            raise ValueError(f"m is 64, 128 or 256 (32 for .ws), not {m}")
        if n % 8 or not 8 <= n <= 256:
            raise ValueError(f"n is a multiple of 8 from 8 to 256, not {n}")
        if a_major not in ("K", "MN") or b_major not in ("K", "MN"):
            raise ValueError('majors are "K" or "MN"')
        if scale_a not in (1, -1) or scale_b not in (1, -1):
            raise ValueError("scales are 1 or -1")
        if max_shift not in (0, 1, 2, 3):
            raise ValueError("max_shift is 0 to 3")
        kind = 1 if name == "bf16" else 0
        return (
            int(sparse) << 2 | int(saturate) << 3 | 1 << 4 | kind << 7 | kind << 10 | (scale_a < 0) << 13 |
            (scale_b < 0) << 14 | (a_major == "MN") << 15 | (b_major == "MN") << 16 | (n >> 3) << 17 | (m >> 4) << 24 |
            max_shift << 30
        )  # fmt: skip

    @staticmethod
    def descriptor(
        addr: Any, *, byte_offset: Any = 0, stride_bytes: int, leading_bytes: int = 16, swizzle: str | None = "128B",
        version: int = 1, base_offset: int = 0, lbo_mode: int = 0,
    ) -> Reg:  # fmt: skip
        """The shared-memory descriptor (b64) for tcgen05.mma and tcgen05.cp (PTX ISA 9.7.18.4.1).

        stride_bytes, leading_bytes: multiples of 16. swizzle: None, "32B", "64B", "128B", or "128B_32B" (32-byte
        atoms).
        """
        trace = current()
        if swizzle not in _SWIZZLES:
            raise trace.error(f"unknown swizzle {swizzle!r}", "None, 32B, 64B, 128B or 128B_32B")
        for name, value in (("stride_bytes", stride_bytes), ("leading_bytes", leading_bytes)):
            if value % 16 or not 0 <= value < 1 << 18:
                raise trace.error(f"{name} is a multiple of 16 below 2^18, not {value}")
        constant = (
            (leading_bytes >> 4) << 16 | (stride_bytes >> 4) << 32 | version << 46 | base_offset << 49 | lbo_mode << 52
            | _SWIZZLES[swizzle] << 61
        )  # fmt: skip
        return descriptor_register(trace, addr, byte_offset, 0x3FFFF, constant)

    @staticmethod
    def masked_descriptor(
        addr: Any, *, byte_offset: Any = 0, mask: int = 0x3FF80, const_bits: int = BLACKWELL_MASKED_DESC_B128
    ) -> Reg:
        """`((addr + byte_offset) & mask) >> 4 | const_bits` in a b64 register."""
        return descriptor_register(current(), addr, byte_offset, mask, const_bits)


def _tensor_memory(address: Any) -> Any:
    if isinstance(address, AddressOperand):
        return address
    if isinstance(address, (Reg, int)):
        return AddressOperand(address)
    return AddressOperand(address_register(address))


def _bits_address(address: Any) -> AddressOperand:
    """A tensor memory address as mma takes it: in a .b32 register, where ld, st and cp take any 32-bit integer."""
    operand = _tensor_memory(address)
    base = operand.base
    if isinstance(base, Reg) and base.dtype.register_class != "b32":
        copy = temporary(current(), b32)
        emit("mov.b32", copy, base)
        return AddressOperand(copy, operand.offset)
    return operand


def _registers(regs: Any) -> Any:
    return regs if isinstance(regs, RegArray) else list(regs) if isinstance(regs, (list, tuple)) else [regs]


tcgen05 = Tcgen05()
