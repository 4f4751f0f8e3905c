"""`ptx.cp.async_` and `ptx.tma`: asynchronous copies between global and shared memory (PTX ISA 9.7.10.28).

Coordinates name the first element of a box, innermost dimension first, as in the tensor map. A tensor map is a register
with its address (`tensor.tma_desc()`) or the tensor itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...types import PtxType, u16, u32
from ..core.instructions import AddressOperand, emit
from ..core.registers import Guard, Reg, RegArray, temporary
from ..core.trace import current
from ..lint.tensor_copies import note_copy
from ..memory.parameters import TensorSpec
from ..memory.shared import bracketed

__all__ = ["CpAsync", "Tma", "cp", "tma"]

_BYTES = "mbarrier::complete_tx::bytes"


class CpAsync:
    """`ptx.cp.async_`: copies from global to shared memory that go on while the thread does other things (sm_80).

    `dst` and `src` are shared and global addresses, aligned to the size. Each thread makes groups of its copies and
    waits for its groups; a barrier then shows the bytes to the other threads:

        ptx.cp.async_.cg(tile[4 * t], ptx.addr(x, 16 * t))
        ptx.cp.async_.commit_group()
        ptx.cp.async_.wait_group(0)
        ptx.bar.sync(0)
    """

    def __init__(self) -> None:
        self.bulk = Bulk()

    @staticmethod
    def cg(dst: Any, src: Any, bytes: int = 16, *, src_bytes: Any = None, pred: Guard = None) -> None:
        """`cp.async.cg.shared.global`: copy `bytes` (16, nothing else) from global to shared memory, past L1. For
        4 and 8 bytes take `ca`.

        src_bytes: read that many only, a u32 or s32 register or int up to `bytes`, and fill the rest with 0: 0 at the edge of a tensor reads nothing.
        """
        _async_copy("cg", dst, src, bytes, src_bytes, pred)

    @staticmethod
    def ca(dst: Any, src: Any, bytes: int = 16, *, src_bytes: Any = None, pred: Guard = None) -> None:
        """`cp.async.ca.shared.global`: copy `bytes` (4, 8 or 16) from global to shared memory, through L1. src_bytes: as for `cg`."""
        _async_copy("ca", dst, src, bytes, src_bytes, pred)

    @staticmethod
    def mbarrier_arrive(mbar: Any, *, noinc: bool = False, pred: Guard = None) -> None:
        """`cp.async.mbarrier.arrive{.noinc}.shared.b64`: arrive at the mbarrier when all copies of this thread so far are complete. noinc: the
        arrival is one of those that the barrier was initialised with; without, the phase waits for one more.
        """
        emit(f"cp.async.mbarrier.arrive{'.noinc' if noinc else ''}.shared.b64", bracketed(mbar), pred=pred)

    @staticmethod
    def commit_group(*, pred: Guard = None) -> None:
        """Make a group of this thread's copies since the last group (it may be empty)."""
        emit("cp.async.commit_group", pred=pred)

    @staticmethod
    def wait_group(n: int, *, pred: Guard = None) -> None:
        """Wait until at most n (a constant) of this thread's newest groups are going on: 0 for all, `stages - 2` in a
        ring where `stages - 1` groups were started ahead.
        """
        emit("cp.async.wait_group", n, pred=pred)

    @staticmethod
    def wait_all(*, pred: Guard = None) -> None:
        """Wait for all copies of this thread, in groups or not."""
        emit("cp.async.wait_all", pred=pred)


def _async_copy(cache: str, dst: Any, src: Any, bytes: int, src_bytes: Any, pred: Guard) -> None:
    if isinstance(src_bytes, int) and not 0 <= src_bytes <= bytes:
        raise current().error(f"src_bytes are 0 to {bytes}, the bytes of the copy, not {src_bytes}")
    rest = () if src_bytes is None else (src_bytes,)
    emit(f"cp.async.{cache}.shared.global", bracketed(dst), bracketed(src), bytes, *rest, pred=pred)


class Bulk:
    """`ptx.cp.async_.bulk`: copies by the TMA unit (sm_90), issued by one thread.

    Loads are counted in bytes by an mbarrier: `arrive_expect_tx`, load, wait. Stores are waited for in groups. What
    ordinary stores have written to shared memory needs `ptx.fence.proxy_async_shared_cta()` and a barrier before it is
    stored.
    """

    def __init__(self) -> None:
        self.tensor_1d, self.tensor_2d, self.tensor_3d, self.tensor_4d, self.tensor_5d = (
            TensorCopy(n) for n in range(1, 6)
        )
        self.tensor = TensorCopies(self.tensor_1d, self.tensor_2d, self.tensor_3d, self.tensor_4d, self.tensor_5d)

    @staticmethod
    def load(dst: Any, src: Any, size: Any, mbar: Any, *, pred: Guard = None) -> None:
        """Copy `size` bytes (a multiple of 16) from global to shared memory, both 16-byte aligned; `mbar` counts the
        bytes.

            ptx.mbarrier.arrive_expect_tx(bar, 512)
            ptx.cp.async_.bulk.load(tile, ptx.addr(x), 512, bar)
        """
        emit(
            f"cp.async.bulk.shared::cluster.global.{_BYTES}",
            bracketed(dst),
            bracketed(src),
            size,
            bracketed(mbar),
            pred=pred,
        )

    @staticmethod
    def store(dst: Any, src: Any, size: Any, *, pred: Guard = None) -> None:
        """Copy `size` bytes (a multiple of 16) from shared to global memory, in the bulk group."""
        emit("cp.async.bulk.global.shared::cta.bulk_group", bracketed(dst), bracketed(src), size, pred=pred)

    @staticmethod
    def reduce(op: str, dtype: PtxType, dst: Any, src: Any, size: Any, *, pred: Guard = None) -> None:
        """Combine `size` bytes of shared memory with global memory, element by element, in the bulk group. op: add, min,
        max, inc, dec, and, or, xor. PTX ISA 9.7.10.28.4.2.
        """
        rounding = "noftz." if dtype.name in ("f16", "bf16") and op == "add" else ""
        words = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{rounding}{dtype.name}"
        emit(words, bracketed(dst), bracketed(src), size, pred=pred)

    @staticmethod
    def commit_group(*, pred: Guard = None) -> None:
        """Make a group of this thread's bulk copies to global memory so far."""
        emit("cp.async.bulk.commit_group", pred=pred)

    @staticmethod
    def wait_group(n: int, read: bool = False, *, pred: Guard = None) -> None:
        """Wait until at most n of this thread's newest bulk groups are going on; with `read`, only until their
        sources have been read.
        """
        emit(f"cp.async.bulk.wait_group{'.read' if read else ''}", n, pred=pred)


class TensorCopy:
    """`ptx.cp.async_.bulk.tensor_<n>d`: calling it loads a box of an n-dimensional tensor; `.store` writes one.

    The tensor is a kernel's parameter with a `Tile` (its `tma_box` is the box) or its `tma_desc()`. `coord` has n
    elements, ints and 32-bit registers, the innermost first: (column, row) for a matrix. What lies outside of the
    tensor is read as 0 and not written.

        ptx.mbarrier.arrive_expect_tx(bar, 16 * 32 * 4)  # a box of 16 x 32 f32
        ptx.cp.async_.bulk.tensor_2d(dst=tile, src=tensor, coord=(column, row), mbar=bar)
    """

    def __init__(self, rank: int):
        self.rank = rank

    def __call__(
        self, *, dst: Any, src: Any, coord: Sequence[Any] | None = None, mbar: Any = None, cta_group: int = 1,
        multicast_mask: Any = None, cache_hint: Any = None, pred: Guard = None,
    ) -> None:  # fmt: skip
        """Load a box of the tensor `src` to shared memory at `dst`, 128-byte aligned (a swizzled box more, as
        `smem.wgmma_tile` does); `mbar` counts the bytes of the whole box. Without `coord`, `src` has them:
        `ptx.addr(desc, (column, row))`.

        `multicast_mask`: the CTAs of the cluster that get it, at the same offsets. `cta_group=2`: `mbar` may be the
        peer CTA's (sm_100).
        """
        _load(self.rank, "", dst, src, coord, mbar, multicast_mask, cache_hint, cta_group=cta_group, pred=pred)

    def shared_cta_global_tile(
        self, *, dst: Any, src: Any, coord: Sequence[Any] | None = None, mbar: Any = None, cta_group: int = 1,
        cache_hint: Any = None, pred: Guard = None,
    ) -> None:  # fmt: skip
        """Load a box to this CTA's shared memory (`.shared::cta`, PTX 8.6)."""
        _load(
            self.rank, ".tile", dst, src, coord, mbar, None, cache_hint, cta_group=cta_group, space="shared::cta", pred=pred
        )  # fmt: skip

    def store(
        self, *, dst: Any, src: Any, coord: Sequence[Any] | None = None, cache_hint: Any = None, pred: Guard = None
    ) -> None:
        """Store shared memory at `src` to a box of the tensor `dst`, in the bulk group."""
        _store(self.rank, "", dst, src, coord, cache_hint, pred)

    def reduce(
        self, op: str, *, dst: Any, src: Any, coord: Sequence[Any], cache_hint: Any = None, pred: Guard = None
    ) -> None:
        """Combine shared memory at `src` with a box of the tensor `dst`, in the bulk group. op: add, min, max, inc, dec,
        and, or, xor, for the tensor's element type. PTX ISA 9.7.10.28.5.4.
        """
        _store(self.rank, "", dst, src, coord, cache_hint, pred, reduction=op)


class TensorCopies:
    """`ptx.cp.async_.bulk.tensor`: the access modes by name. Operands as those of `ptx.cp.async_.bulk.tensor_2d`, whose
    mode is the tile too; that is here as `tensor_2d` as well.
    """

    def __init__(self, *plain: TensorCopy):
        self.tensor_1d, self.tensor_2d, self.tensor_3d, self.tensor_4d, self.tensor_5d = plain

    def tile_1d(self, dst: Any, src: Any, coord: Sequence[Any], **options: Any) -> None:
        """Load a box (options: mbar, cta_group, cache_hint, multicast_mask, pred)."""
        self._tile(1, dst, src, coord, **options)

    def tile_2d(self, dst: Any, src: Any, coord: Sequence[Any], **options: Any) -> None:
        """Load a box (options: mbar, cta_group, cache_hint, multicast_mask, pred)."""
        self._tile(2, dst, src, coord, **options)

    def tile_3d(self, dst: Any, src: Any, coord: Sequence[Any], **options: Any) -> None:
        """Load a box (options: mbar, cta_group, cache_hint, multicast_mask, pred)."""
        self._tile(3, dst, src, coord, **options)

    def tile_4d(self, dst: Any, src: Any, coord: Sequence[Any], **options: Any) -> None:
        """Load a box (options: mbar, cta_group, cache_hint, multicast_mask, pred)."""
        self._tile(4, dst, src, coord, **options)

    def tile_5d(self, dst: Any, src: Any, coord: Sequence[Any], **options: Any) -> None:
        """Load a box (options: mbar, cta_group, cache_hint, multicast_mask, pred)."""
        self._tile(5, dst, src, coord, **options)

    @staticmethod
    def _tile(
        rank: int,
        dst: Any,
        src: Any,
        coord: Sequence[Any],
        *,
        mbar: Any = None,
        cta_group: int = 1,
        cache_hint: Any = None,
        multicast_mask: Any = None,
        pred: Guard = None,
    ) -> None:
        _load(rank, ".tile", dst, src, coord, mbar, multicast_mask, cache_hint, cta_group=cta_group, pred=pred)

    def im2col_3d(self, dst: Any, src: Any, coord: Sequence[Any], **options: Any) -> None:
        """Load in im2col mode (options: mbar, offsets (1 of u16), cache_hint, multicast_mask, pred)."""
        self._im2col(3, dst, src, coord, **options)

    def im2col_4d(self, dst: Any, src: Any, coord: Sequence[Any], **options: Any) -> None:
        """Load in im2col mode (options: mbar, offsets (2 of u16), cache_hint, multicast_mask, pred)."""
        self._im2col(4, dst, src, coord, **options)

    def im2col_5d(self, dst: Any, src: Any, coord: Sequence[Any], **options: Any) -> None:
        """Load in im2col mode (options: mbar, offsets (3 of u16), cache_hint, multicast_mask, pred)."""
        self._im2col(5, dst, src, coord, **options)

    @staticmethod
    def _im2col(
        rank: int, dst: Any, src: Any, coord: Sequence[Any], *, mbar: Any = None, offsets: Sequence[Any] | None = None,
        cache_hint: Any = None, multicast_mask: Any = None, pred: Guard = None,
    ) -> None:  # fmt: skip
        offsets = [0] * (rank - 2) if offsets is None else offsets
        if len(offsets) != rank - 2:
            raise current().error(f"im2col_{rank}d has {rank - 2} offsets, not {len(offsets)}")
        _load(rank, ".im2col", dst, src, coord, mbar, multicast_mask, cache_hint, offsets=offsets, pred=pred)

    @staticmethod
    def gather4_2d(
        dst: Any,
        src: Any,
        coord: Sequence[Any],
        *,
        mbar: Any = None,
        cache_hint: Any = None,
        multicast_mask: Any = None,
        pred: Guard = None,
    ) -> None:
        """Load four rows (sm_100): `coord` is the column and the four row numbers."""
        _load(2, ".tile::gather4", dst, src, coord, mbar, multicast_mask, cache_hint, coordinates=5, pred=pred)

    @staticmethod
    def scatter4_2d(
        dst: Any, src: Any, coord: Sequence[Any], *, mbar: Any = None, cache_hint: Any = None, pred: Guard = None
    ) -> None:
        """Store four rows (sm_100), in the bulk group: `coord` is the column and the four row numbers.

        A store does not arrive at an mbarrier; TraceWarning for an `mbar`, which is left out.
        """
        if mbar is not None:
            trace = current()
            trace.warn(
                "scatter4_2d is a store and does not arrive at mbar: a wait for it does not end",
                "ptx.cp.async_.bulk.commit_group(), then wait_group(0)",
                trace.place(),
            )
        _store(2, ".tile::scatter4", dst, src, coord, cache_hint, pred, coordinates=5)

    def store_1d(self, dst: Any, src: Any, coord: Sequence[Any], *, cache_hint: Any = None, pred: Guard = None) -> None:
        """Store a box, in the bulk group."""
        _store(1, ".tile", dst, src, coord, cache_hint, pred)

    def store_2d(self, dst: Any, src: Any, coord: Sequence[Any], *, cache_hint: Any = None, pred: Guard = None) -> None:
        """Store a box, in the bulk group."""
        _store(2, ".tile", dst, src, coord, cache_hint, pred)

    def store_3d(self, dst: Any, src: Any, coord: Sequence[Any], *, cache_hint: Any = None, pred: Guard = None) -> None:
        """Store a box, in the bulk group."""
        _store(3, ".tile", dst, src, coord, cache_hint, pred)

    def store_4d(self, dst: Any, src: Any, coord: Sequence[Any], *, cache_hint: Any = None, pred: Guard = None) -> None:
        """Store a box, in the bulk group."""
        _store(4, ".tile", dst, src, coord, cache_hint, pred)

    def store_5d(self, dst: Any, src: Any, coord: Sequence[Any], *, cache_hint: Any = None, pred: Guard = None) -> None:
        """Store a box, in the bulk group."""
        _store(5, ".tile", dst, src, coord, cache_hint, pred)


def _map(tensor: Any, coord: Sequence[Any] | None, rank: int) -> AddressOperand:
    """`[map, {coordinates}]`; the coordinates may be in an address already."""
    trace = current()
    if coord is None:
        if isinstance(tensor, AddressOperand) and tensor.rest:
            return tensor
        raise trace.error(f"the copy needs coord=, the {rank} coordinates of its first element")
    if isinstance(coord, AddressOperand) or not isinstance(coord, (list, tuple, RegArray)):
        raise trace.error(f"coordinates are a tuple of ints and registers, not {coord!r}")
    if len(coord) != rank:
        raise trace.error(f"the copy takes {rank} coordinates, not {len(coord)}")
    if isinstance(tensor, TensorSpec):
        tensor = tensor.tma_desc()
    elif isinstance(tensor, AddressOperand):
        tensor = tensor.base
    return AddressOperand(tensor, None, (list(coord),))


def _load(
    rank: int, mode: str, dst: Any, src: Any, coord: Sequence[Any] | None, mbar: Any, multicast_mask: Any, cache_hint: Any, *,
    cta_group: int = 1, space: str = "shared::cluster", offsets: Sequence[Any] | None = None, coordinates: int |
    None = None, pred: Guard = None,
) -> None:  # fmt: skip
    words = f"cp.async.bulk.tensor.{rank}d.{space}.global{mode}.{_BYTES}"
    tensor = _map(src, coord, coordinates or rank)
    if mbar is None:
        raise current().error("a load needs mbar=, the mbarrier that counts its bytes", "smem.mbarrier(1)[0] is one")
    note_copy(current(), tensor.base, dst, rank, mode)
    operands: list[Any] = [bracketed(dst), tensor, bracketed(mbar)]
    if offsets is not None:
        operands.append([_half(o) for o in offsets])
    if multicast_mask is not None:
        words += ".multicast::cluster"
        operands.append(_half(multicast_mask))
    if cta_group != 1:
        words += f".cta_group::{cta_group}"
    if cache_hint is not None:
        words += ".L2::cache_hint"
        operands.append(cache_hint)
    emit(words, *operands, pred=pred)


def _store(
    rank: int,
    mode: str,
    dst: Any,
    src: Any,
    coord: Sequence[Any] | None,
    cache_hint: Any,
    pred: Any,
    *,
    coordinates: int | None = None,
    reduction: str = "",
) -> None:
    words = f"cp.async.bulk.tensor.{rank}d.global.shared::cta{mode}.bulk_group"
    if reduction:
        words = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{reduction}{mode}.bulk_group"
    tensor = _map(dst, coord, coordinates or rank)
    note_copy(current(), tensor.base, src, rank, mode)
    operands: list[Any] = [tensor, bracketed(src)]
    if cache_hint is not None:
        words += ".L2::cache_hint"
        operands.append(cache_hint)
    emit(words, *operands, pred=pred)


def _half(value: Any) -> Any:
    """A 16-bit operand: wider registers are narrowed."""
    if isinstance(value, Reg) and value.dtype.bits in (32, 64):
        narrow = temporary(current(), u16)
        emit(f"cvt.u16.u{value.dtype.bits}", narrow, value)
        return narrow
    return value


class Cp:
    """`ptx.cp`: asynchronous copies. `async_` by threads, `async_.bulk` by the TMA unit."""

    def __init__(self) -> None:
        self.async_ = CpAsync()
        self.async_bulk = self.async_.bulk


class Tma:
    """`ptx.tma`: boxes of a matrix of 2-byte elements that is described with rank 3 as (columns/64, rows, 64)
    (`Tile(..., tma_rank=3)`), so that one copy may be wider than a swizzle span of 128 bytes. For other tensors and
    ranks: `ptx.cp.async_.bulk.tensor_2d` and the like.

        ptx.mbarrier.arrive_expect_tx(bar, 64 * 128 * 2)  # a box of 64 x 128 bf16: two panels of 64 x 64
        ptx.tma.load_3d(tile, tensor, row, column, bar, issuer=first)
    """

    @staticmethod
    def load_3d(
        dst: Any,
        src: Any,
        row: Any = None,
        col: Any = None,
        mbar: Any = None,
        coords: Sequence[Any] | None = None,
        *,
        issuer: Any = None,
        pred: Guard = None,
    ) -> None:
        """Load the box at (row, col), in elements, col a multiple of 64; `coords` gives the three coordinates (within
        the panel, row, panel) instead. `mbar` counts the bytes. `issuer` (or `pred`): the predicate of the issuing
        thread.
        """
        _load(3, ".tile", dst, src, _rank3(row, col, coords), mbar, None, None, pred=_one_of(issuer, pred))

    @staticmethod
    def load_3d_multicast(
        dst: Any, src: Any, row: Any = None, col: Any = None, mbar: Any = None, mask: Any = None,
        coords: Sequence[Any] | None = None, *, issuer: Any = None, pred: Guard = None,
    ) -> None:  # fmt: skip
        """Load the box to every CTA of the cluster in `mask` (bit i: rank i), at the same offsets in shared memory;
        each CTA's own mbarrier at `mbar`'s offset counts the bytes. Otherwise as `load_3d`.
        """
        _load(3, ".tile", dst, src, _rank3(row, col, coords), mbar, mask, None, pred=_one_of(issuer, pred))

    @staticmethod
    def store_3d(
        dst: Any, src: Any, row: Any = None, col: Any = None, coords: Sequence[Any] | None = None, *,
        issuer: Any = None, pred: Guard = None,
    ) -> None:  # fmt: skip
        """Store the box at (row, col), in the bulk group: `ptx.cp.async_.bulk.commit_group` and `wait_group` follow."""
        _store(3, ".tile", dst, src, _rank3(row, col, coords), None, _one_of(issuer, pred))


def _one_of(issuer: Any, pred: Any) -> Any:
    """The guard of a TMA copy, under one of its two names."""
    if issuer is not None and pred is not None:
        raise current().error("issuer and pred are two names of one guard: give one of them")
    return issuer if pred is None else pred


def _rank3(row: Any, col: Any, coords: Sequence[Any] | None) -> Sequence[Any]:
    if coords is not None:
        return coords
    if row is None or col is None:
        raise current().error("a TMA copy needs row and col, or coords")
    if isinstance(col, Reg):
        panel = temporary(current(), u32)
        emit("shr.u32", panel, col, 6)
        col = panel
    else:
        col //= 64
    return (0, row, col)


cp = Cp()
tma = Tma()
