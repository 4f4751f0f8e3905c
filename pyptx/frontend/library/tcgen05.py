"""`ptx.tcgen05`: tensor memory and the matrix multiply of sm_100a, and its descriptors (PTX ISA 9.7.18)."""

from __future__ import annotations

from typing import Any

from ...dialects.ptx.instruction_descriptor import KINDS, InstructionDescriptor
from ...types import b32, u16
from ..core.instructions import AddressOperand, emit
from ..core.registers import Guard, Reg, RegArray, from_, temporary
from ..core.trace import current
from ..memory.matrix_operands import MatrixOperand, array_of, matrix_operand
from ..memory.shared import SharedAlloc, address_register, bracketed
from .copies import _half
from .wgmma import descriptor_register, scale_predicate

__all__ = ["tcgen05"]

_SWIZZLES = {None: 0, "none": 0, "NONE": 0, "128B_32B": 1, "128B_BASE32B": 1, "128B": 2, "64B": 4, "32B": 6}


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
    def alloc(addr: Any, ncols: Any, *, cta_group: int = 1, pred: Guard = None, exclusive: bool = False) -> None:
        """Allocate `ncols` columns of tensor memory (a power of two from 32 to 512); its address is written to
        shared memory at `addr`. exclusive: a multiple of 32 up to the whole memory (576 on sm_107), while the CTA has no other
        allocation.
        """
        words = f"tcgen05.alloc{'.exclusive' if exclusive else ''}.cta_group::{cta_group}.sync.aligned.shared::cta.b32"
        emit(words, bracketed(addr), ncols, pred=pred)

    @staticmethod
    def dealloc(taddr: Any, ncols: Any, *, cta_group: int = 1, pred: Guard = None, exclusive: bool = False) -> None:
        """Free what `alloc` gave, `exclusive` if it was."""
        words = f"tcgen05.dealloc{'.exclusive' if exclusive else ''}.cta_group::{cta_group}.sync.aligned.b32"
        emit(words, taddr, ncols, pred=pred)

    @staticmethod
    def relinquish_alloc_permit(*, cta_group: int = 1, pred: Guard = None) -> None:
        """Promise that this CTA allocates no more."""
        emit(f"tcgen05.relinquish_alloc_permit.cta_group::{cta_group}.sync.aligned", pred=pred)

    @staticmethod
    def mma(
        d: Any, a_desc: Any, b_desc: Any, idesc: Any, *, cta_group: int = 1, kind: str = "f16",
        enable_input_d: Any = True, scale_d: Any = None, sparse: bool = False, ashift: bool = False,
        collector_a: str | None = None, a_is_tmem: bool = False, sparse_metadata: Any = None, pred_operand: Any = None,
        scale_c: Any = None, pred: Guard = None, collector_b: str | None = None, lut: Any = None,
    ) -> None:  # fmt: skip
        """`tcgen05.mma`: D = A * B + D, or D = A * B, in tensor memory; issued by one thread.

        d: tensor memory address (register). a_desc: descriptor of A in shared memory, or an array (M, K) with a layout, or with `a_is_tmem` its tensor
        memory address. b_desc: the same of B, (N, K). idesc: the instruction descriptor (b32 register or int). kind: "f16", "tf32", "f8f6f4", "i8",
        "ti16".
        Whether D is added: `pred_operand` (a predicate), else `scale_d` or `enable_input_d` (a bool, a
        predicate, or an integer register), the first given. scale_c: D is multiplied by 2**-scale_c before it is added, 0
        to 15 (kinds "f16" and "tf32"). sparse: A is 2:4 sparse, `sparse_metadata` its metadata's
        tensor memory address. collector_a, collector_b: "fill", "use", "lastuse", "discard". lut: the tensor memory address
        of a table of values, whose indices B is (kind "f8f6f4"). Kind "ti16", collector_b and lut: sm_107.
        """
        trace = current()
        chosen = next(c for c in (pred_operand, scale_d, enable_input_d) if c is not None)
        accumulate = scale_predicate(trace, chosen)
        words = f"tcgen05.mma{'.sp' if sparse else ''}.cta_group::{cta_group}.kind::{kind.removeprefix('kind::')}"
        if ashift:
            words += ".ashift"
        if lut is not None:
            words += ".decompress::lut::b"
        for matrix, use in (("a", collector_a), ("b", collector_b)):
            if use is not None:
                words += f".collector::{matrix}::{use.removeprefix(f'collector::{matrix}::')}"
        operands = [
            _bits_address(d),
            _bits_address(a_desc) if a_is_tmem else _described("A", a_desc, idesc, 15, 32),
            _described("B", b_desc, idesc, 16, 64 if sparse else 32),
        ]
        if sparse:
            if sparse_metadata is None:
                raise trace.error("a sparse mma needs sparse_metadata")
            operands.append(_bits_address(sparse_metadata))
        if lut is not None:
            operands.append(_bits_address(lut))
        if isinstance(idesc, int):
            idesc = from_(idesc, b32)
        scale = [] if scale_c is None else [scale_c]
        emit(words, *operands, idesc, accumulate, *scale, pred=pred)

    @staticmethod
    def fence_before_thread_sync(*, pred: Guard = None) -> None:
        """Order the tcgen05 operations so far before a following barrier."""
        emit("tcgen05.fence::before_thread_sync", pred=pred)

    @staticmethod
    def fence_after_thread_sync(*, pred: Guard = None) -> None:
        """Order the following tcgen05 operations after a preceding barrier."""
        emit("tcgen05.fence::after_thread_sync", pred=pred)

    @staticmethod
    def wait_ld(*, pred: Guard = None) -> None:
        """Wait for this thread's `ld`s; only then may their registers be read."""
        emit("tcgen05.wait::ld.sync.aligned", pred=pred)

    @staticmethod
    def wait_st(*, pred: Guard = None) -> None:
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
        pred: Guard = None,
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
        pred: Guard = None,
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
        pred: Guard = None,
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
        src_is_addr: bool | None = None,
        pred: Guard = None,
    ) -> None:
        """`tcgen05.cp`: copy from shared memory (descriptor `src`) to tensor memory.

        size: "128x256b", "4x256b", "128x128b", "64x128b" (multicast "warpx2::02_13" or "warpx2::01_23"), "32x128b"
        (multicast "warpx4", the only one). src_is_addr: not needed.
        """
        del src_is_addr  # the descriptor is a register, with or without the brackets that PTX does not have there
        if isinstance(src, AddressOperand):
            src = src.base
        if multicast is None and size == "32x128b":
            multicast = "warpx4"
        words = f"tcgen05.cp.cta_group::{cta_group}.{size}{'.' + multicast if multicast else ''}"
        emit(words, _tensor_memory(taddr), src, pred=pred)

    @staticmethod
    def shift(taddr: Any, *, cta_group: int = 1, pred: Guard = None) -> None:
        """`tcgen05.shift.down`: move rows of a matrix in tensor memory down by one lane."""
        emit(f"tcgen05.shift.cta_group::{cta_group}.down", _tensor_memory(taddr), pred=pred)

    @staticmethod
    def make_instr_desc(
        kind: str, *, m: int, n: int, a: Any, b: Any = None, d: Any = None, k: int | None = None,
        a_major: str = "K", b_major: str = "K", scale_a: int = 1, scale_b: int = 1, saturate: bool = False,
        sparse: bool = False, scale_type: Any = None, a_scale_byte: int = 0, b_scale_byte: int = 0,
        scale_lanes: int = 32, sparsity_version: int = 0, max_shift: int = 0, cta_group: int = 1, ws: bool = False,
    ) -> int:  # fmt: skip
        """The instruction descriptor of a multiplication of m x k by k x n (PTX ISA 9.7.18.4.2). ValueError for what
        the kind cannot say and for shapes that it does not have.

        kind: "f16", "tf32", "f8f6f4", "i8", "ti16", "mxf8f6f4", "mxf4" or "mxf4nvf4". a, b, d: types such as "bf16",
        "e4m3", "s1z4m11"; b is a and d "f32" (or "s32") where left out. k: the least that the kind has where left out.
        Majors: "K" or "MN"; scale_a, scale_b: 1, or -1 to negate. scale_type: of the scale factors, which begin at a byte
        (0 to 3) of a word of tensor memory; scale_lanes: those of A lie in 32 or 128 lanes. sparsity_version: 0, or 1 on
        sm_107. max_shift: 0 to 3, for 0, 8, 16 or 32 columns. cta_group, ws: as in the instruction, for the check.
        """
        described = KINDS.get(kind.removeprefix("kind::"))
        if described is None:
            raise ValueError(f"kind is one of {', '.join(KINDS)}, not {kind!r}")
        if a_major not in ("K", "MN") or b_major not in ("K", "MN"):
            raise ValueError('majors are "K" or "MN"')
        if scale_a not in (1, -1) or scale_b not in (1, -1):
            raise ValueError("scales are 1 or -1")
        if scale_lanes not in (32, 128):
            raise ValueError(f"scale_lanes is 32 or 128, not {scale_lanes}")
        found = InstructionDescriptor(
            kind.removeprefix("kind::"), _type_name(a), _type_name(b or a), _type_name(d or described.sums[0]), m, n, k or described.depths[0] * (1 + sparse),
            sparse, saturate, scale_a < 0, scale_b < 0, a_major == "MN", b_major == "MN", max_shift=max_shift,
            a_scale=a_scale_byte, b_scale=b_scale_byte, scale_type=_type_name(scale_type or next(iter(described.scales), "")),
            wide_scales=scale_lanes == 128, sparsity_version=sparsity_version,
        )  # fmt: skip
        word = found.word
        problem = found.problem(cta_group, ws)
        if problem:
            raise ValueError(problem)
        return word

    @staticmethod
    def make_instr_desc_f16bf16_f32(
        *, m: int = 128, n: int = 256, ab_dtype: str = "bf16", a_major: str = "K", b_major: str = "K",
        scale_a: int = 1, scale_b: int = 1, saturate: bool = False, sparse: bool = False, max_shift: int = 0,
    ) -> int:  # fmt: skip
        """The instruction descriptor for f16, bf16 or tf32 operands and f32 results (PTX ISA 9.7.18.4.2). ValueError for
        what it cannot say.

        m: 64, 128, or 256 for a pair of CTAs; n: a multiple of 8 up to 256; majors: "K" or "MN"; scales: 1, or -1 to
        negate.
        """
        name = _type_name(ab_dtype)
        if name not in ("f16", "bf16", "tf32"):
            raise ValueError(f"ab_dtype is f16, bf16 or tf32, not {ab_dtype!r}")
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
        kind = "tf32" if name == "tf32" else "f16"
        return InstructionDescriptor(
            kind, name, name, "f32", m, n, KINDS[kind].depths[0] * (1 + sparse), sparse, saturate, scale_a < 0, scale_b < 0, a_major == "MN",
            b_major == "MN", max_shift=max_shift,
        ).word  # fmt: skip

    @staticmethod
    def descriptor(
        addr: Any, *, byte_offset: Any = 0, stride_bytes: int | None = None, leading_bytes: int = 16, swizzle: str | None = "128B",
        version: int = 1, base_offset: int = 0, lbo_mode: int = 0, second_half: bool = False, k_bytes: int = 32,
    ) -> Reg:  # fmt: skip
        """The shared-memory descriptor (b64) for tcgen05.mma and tcgen05.cp (PTX ISA 9.7.18.4.1).

        Without stride_bytes, both offsets and the swizzle are those of the layout of `addr`, an array (M or N, K) of `smem.alloc` with `layout=` or
        `swizzle=`, or a part of one; PTXError for a layout that the hardware cannot read. k_bytes: what the instruction reads along K, 64 for B
        with a sparse A.

        stride_bytes, leading_bytes: multiples of 16. swizzle: None (or "NONE"), "32B", "64B", "128B", or
        "128B_32B" (32-byte atoms, also "128B_BASE32B"). lbo_mode=1: leading_bytes is the address where rows of 48 bytes go on beyond 128 bytes, with swizzle
        "128B" only. second_half: of 128 indices into a table (`mma(lut=)`) the last 64 count.
        """
        trace = current()
        if stride_bytes is None:
            array = array_of(addr)
            if array is None:
                raise trace.error(
                    "a descriptor needs stride_bytes, or an array with a layout",
                    'smem.alloc(bf16, (128, 64), swizzle="128B") is one',
                )
            found = _of_array(array, k_bytes)
            stride_bytes, leading_bytes, swizzle, addr = found.stride, found.leading, found.swizzle, array
        if swizzle not in _SWIZZLES:
            raise trace.error(f"unknown swizzle {swizzle!r}", "None, 32B, 64B, 128B or 128B_32B")
        for name, value in (("stride_bytes", stride_bytes), ("leading_bytes", leading_bytes)):
            if value % 16 or not 0 <= value < 1 << 18:
                raise trace.error(f"{name} is a multiple of 16 below 2^18, not {value}")
        if lbo_mode and (swizzle != "128B" or base_offset):
            raise trace.error("an absolute leading address (lbo_mode=1) needs swizzle 128B and base_offset 0")
        constant = (
            (leading_bytes >> 4) << 16 | (stride_bytes >> 4) << 32 | version << 46 | base_offset << 49 | lbo_mode << 52
            | int(second_half) << 53 | _SWIZZLES[swizzle] << 61
        )  # fmt: skip
        return descriptor_register(trace, addr, byte_offset, 0x3FFFF, constant)

    @staticmethod
    def masked_descriptor(
        addr: Any, *, byte_offset: Any = 0, mask: int = 0x3FFF0, const_bits: int = BLACKWELL_MASKED_DESC_B128
    ) -> Reg:
        """`((addr + byte_offset) & mask) >> 4 | const_bits` in a b64 register."""
        return descriptor_register(current(), addr, byte_offset, mask, const_bits)


def _of_array(array: SharedAlloc, k_bytes: int) -> MatrixOperand:
    return matrix_operand(current(), array, k_bytes=k_bytes, swizzles=(None, "32B", "64B", "128B", "128B_32B"))


def _described(name: str, operand: Any, idesc: Any, bit: int, k_bytes: int) -> Any:
    """A descriptor as it is, or that of an array. `bit` of the instruction descriptor says that the operand is MN-major."""
    array = array_of(operand)
    if array is None:
        return operand
    major = _of_array(array, k_bytes).major
    said = "MN" if isinstance(idesc, int) and idesc >> bit & 1 else "K"
    if isinstance(idesc, int) and said != major:
        raise current().error(
            f"{array.symbol} lies {major}-major, and the instruction descriptor says that {name} is {said}-major",
            f'make_instr_desc(..., {name.lower()}_major="{major}")',
        )
    return Tcgen05.descriptor(array, k_bytes=k_bytes)


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


def _type_name(dtype: Any) -> str:
    return str(getattr(dtype, "name", dtype))


def _registers(regs: Any) -> Any:
    return regs if isinstance(regs, RegArray) else list(regs) if isinstance(regs, (list, tuple)) else [regs]


tcgen05 = Tcgen05()
