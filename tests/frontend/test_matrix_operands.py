"""Matrix operands that are described by their layout: fields against NVIDIA's headers (tests/data/layouts), products of wgmma and tcgen05 and fragments
of ldmatrix against NumPy.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import Layout, PTXError, Tile, kernel, ptx, reg, simulate, smem
from pyptx.frontend.core.trace import current
from pyptx.frontend.memory.matrix_operands import matrix_operand
from pyptx.types import b32, bf16, f32, s8, s32, tf32, u8, u32
from tests.frontend.tracing import assembled

TABLES = Path(__file__).parents[1] / "data" / "layouts"
OPERANDS = json.loads(gzip.decompress((TABLES / "smem_layouts.json.gz").read_bytes()))


@dataclass
class Plain:
    """A layout as the library tensor_layouts has them, which need not be installed here."""

    shape: Any
    stride: Any

    def __call__(self, *_: int) -> int:
        raise NotImplementedError


@dataclass
class Bits:
    bits: int
    base: int
    shift: int


@dataclass
class Swizzled:
    outer: Bits
    inner: Plain
    offset: int = 0

    def __call__(self, *_: int) -> int:
        raise NotImplementedError


def swizzled(plain: Plain, name: str, bits: int) -> Any:
    if name == "NONE":
        return plain
    count, base, shift = OPERANDS["swizzle_def"]["modes"][name]
    return Swizzled(Bits(count, base - (bits // 8).bit_length() + 1, shift), plain)


def as_tuple(value: Any) -> Any:
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


def test_fields_are_those_of_nvidias_headers() -> None:
    """Leading and stride offsets, swizzle and start of every slice along K, for 54 layouts of types of 8, 16 and 32 bits."""
    entries = OPERANDS["entries"]
    seen: list[int] = []

    @kernel(arch="sm_100a")
    def described(*, first: int = 0) -> None:
        for entry in entries[first : first + 6]:
            bits, (_, k) = entry["elem_bits"], entry["instr_mn_k"]
            linear = entry["linear_layout_elems"]
            made = swizzled(Plain(as_tuple(linear["shape"]), as_tuple(linear["stride"])), entry["swizzle"], bits)
            tile = smem.alloc({8: u8, 16: bf16, 32: f32}[bits], layout=made)
            for start, byte in zip(range(0, entry["tile_mn_k"][1], k), entry["k_slice_start_bytes"], strict=True):
                part = tile[:, start : start + k]
                found = matrix_operand(current(), part, swizzles=(None, "32B", "64B", "128B", "128B_32B"))
                name = {"NONE": None, "128B_BASE32B": "128B_32B"}.get(entry["swizzle"], entry["swizzle"])
                fields = entry["major"], entry["lbo_bytes"], entry["sbo_bytes"], name, byte
                assert (found.major, found.leading, found.stride, found.swizzle, part.first_byte) == fields, entry["id"]
            seen.append(entry["id"])

    for first in range(0, len(entries), 6):
        described.ptx(first=first)
    assert seen == [entry["id"] for entry in entries]


WIDTHS = {"NONE": 16, "32B": 32, "64B": 64, "128B": 128, "128B_BASE32B": 128}


def canonical(rows: int, k: int, bits: int, major: str, swizzle: str) -> Any:
    """A layout (stage, row, k) of two stages in the canonical form of PTX ISA 9.7.17.5.1."""
    width = WIDTHS[swizzle] * 8 // bits
    along: Any
    deep: Any
    if major == "K" and swizzle == "NONE":
        along, deep = ((8, rows // 8), (width, 8 * width)), ((width, k // width), (1, rows * width))
    elif major == "K":
        along, deep = (rows, width), ((width, k // width), (1, rows * width))
    elif swizzle == "NONE":
        along, deep = ((width, rows // width), (1, 8 * width)), ((8, k // 8), (width, 8 * rows))
    else:
        along, deep = ((width, rows // width), (1, k * width)), (k, width)
    plain = Plain((2, along[0], deep[0]), (max(rows * k, 1024 * 8 // bits), along[1], deep[1]))
    return swizzled(plain, swizzle, bits)


RNG = np.random.default_rng(19)
NUMPY = {"bf16": ml_dtypes.bfloat16, "f32": np.float32, "s8": np.int8}
BF16 = [(bf16, major, swizzle) for major in ("K", "MN") for swizzle in ("NONE", "32B", "64B", "128B")]
CASES = [*BF16, (s8, "K", "64B"), (f32, "K", "128B"), (s8, "K", "NONE")]


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    """Small integers: every sum of products is exact."""
    return RNG.integers(-4, 5, shape).astype(NUMPY[dtype.name])


def filled(tile: Any, tensor: Any, stage: Any, rows: int, k: int, thread: Any) -> None:
    """Thread t writes row t of a matrix of global memory, element by element."""
    with ptx.if_(thread < rows):
        for i in ptx.range_(k):
            tile[stage, thread, i] = (ptx.pointer(tensor) + (thread * k + i)).load()


@pytest.mark.parametrize(("dtype", "major", "swizzle"), CASES, ids=lambda v: getattr(v, "name", v))
def test_products_of_wgmma(dtype: Any, major: str, swizzle: str) -> None:
    """Two steps along K, in the stage that a register chooses."""
    rows, columns, k = 64, 64, 1024 // dtype.bits
    step = k // 4
    total, kind = (s32 if dtype is s8 else f32), (tf32 if dtype is f32 else dtype)

    @kernel(
        arch="sm_90a", in_specs=[Tile(rows, k, dtype), Tile(columns, k, dtype), Tile(1, u32)],
        out_specs=[Tile(rows, columns, total)], grid=1, block=128,
    )  # fmt: skip
    def multiplied(a: Any, b: Any, which: Any, out: Any) -> None:
        thread, stage = ptx.special.tid.x(), ptx.pointer(which).load()
        tile_a = smem.alloc(dtype, layout=canonical(rows, k, dtype.bits, major, swizzle))
        tile_b = smem.alloc(dtype, layout=canonical(columns, k, dtype.bits, major, swizzle))
        filled(tile_a, a, stage, rows, k, thread)
        filled(tile_b, b, stage, columns, k, thread)
        ptx.fence.proxy_async()
        ptx.bar.sync(0)
        d: Any = reg.wgmma_frag(m=rows, n=columns, dtype=total)
        ptx.wgmma.fence()
        for first in range(0, k, step):
            ptx.wgmma.mma_async(
                shape=(rows, columns, step), dtype_d=total, dtype_a=kind, dtype_b=kind, d=d, scale_d=first > 0,
                a=tile_a[stage, :, first : first + step], b=tile_b[stage][:, first : first + step],
            )  # fmt: skip
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        row, column = d.origin(thread)
        p = ptx.pointer(out) + (row * columns + column)
        for below, right, register, _ in d.items():
            p.store(register, below * columns + right)

    a, b = numbers(dtype, rows, k), numbers(dtype, columns, k)
    out = np.zeros((rows, columns), np.int32 if dtype is s8 else np.float32)
    assert simulate(multiplied, a, b, np.array([1], np.uint32), out).findings == []
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64).T)
    if swizzle == "128B":
        assembled(multiplied)


CASES_5 = [
    (bf16, "MN", "NONE"),
    (bf16, "MN", "128B"),
    (s8, "MN", "64B"),
    (f32, "MN", "128B_BASE32B"),
    (bf16, "K", "32B"),
]


@pytest.mark.parametrize(("dtype", "major", "swizzle"), CASES_5, ids=lambda v: getattr(v, "name", v))
def test_products_of_tcgen05(dtype: Any, major: str, swizzle: str) -> None:
    rows, columns, k = 128, 64, 512 // dtype.bits
    step = k // 2
    total = s32 if dtype is s8 else f32
    kind, name = {"bf16": ("f16", "bf16"), "f32": ("tf32", "tf32"), "s8": ("i8", "s8")}[dtype.name]

    @kernel(
        arch="sm_100a", in_specs=[Tile(rows, k, dtype), Tile(columns, k, dtype), Tile(1, u32)],
        out_specs=[Tile(rows, columns, total)], grid=1, block=128,
    )  # fmt: skip
    def multiplied(a: Any, b: Any, which: Any, out: Any) -> None:
        thread, stage = ptx.special.tid.x(), ptx.pointer(which).load()
        warp = thread >> 5
        tile_a = smem.alloc(dtype, layout=canonical(rows, k, dtype.bits, major, swizzle))
        tile_b = smem.alloc(dtype, layout=canonical(columns, k, dtype.bits, major, swizzle))
        slot, done = smem.alloc(b32, (1,)), smem.mbarrier(1)
        with ptx.if_(thread == 0):
            ptx.mbarrier.init(done[0], 1)
            ptx.fence.mbarrier_init()
        with ptx.if_(warp == 0):
            ptx.tcgen05.alloc(slot, columns)
            ptx.tcgen05.relinquish_alloc_permit()
        filled(tile_a, a, stage, rows, k, thread)
        filled(tile_b, b, stage, columns, k, thread)
        ptx.fence.proxy_async()
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        ptx.tcgen05.fence_after_thread_sync()
        sums = smem.load(b32, slot)
        with ptx.if_(thread == 0):
            how = ptx.tcgen05.make_instr_desc(kind, m=rows, n=columns, a=name, d=total, a_major=major, b_major=major)
            for first in range(0, k, step):
                ptx.tcgen05.mma(
                    sums, tile_a[stage, :, first : first + step], tile_b[stage, :, first : first + step], how, kind=kind,
                    enable_input_d=first > 0,
                )  # fmt: skip
            ptx.tcgen05.commit(done[0])
        ptx.mbarrier.wait(done[0], 0)
        ptx.tcgen05.fence_after_thread_sync()
        values = reg.array(b32, 32)
        for first in range(0, columns, 32):
            ptx.tcgen05.ld(values, sums + (warp << 21) + first, shape="32x32b", count=32)
            ptx.tcgen05.wait_ld()
            for i in range(32):
                (ptx.pointer(out, b32) + (thread * columns + first)).store(values[i], i)
        ptx.tcgen05.fence_before_thread_sync()
        ptx.bar.sync(0)
        with ptx.if_(warp == 0):
            ptx.tcgen05.dealloc(sums, columns)

    a, b = numbers(dtype, rows, k), numbers(dtype, columns, k)
    out = np.zeros((rows, columns), np.int32 if dtype is s8 else np.float32)
    assert simulate(multiplied, a, b, np.array([1], np.uint32), out).findings == []
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64).T)
    if swizzle == "128B":
        assembled(multiplied)


@pytest.mark.parametrize(("swizzle", "major"), [("NONE", "MN"), ("32B", "K"), ("64B", "MN"), ("128B", "K")])
def test_matrices_of_a_warp(swizzle: str, major: str) -> None:
    """ldmatrix takes a fragment out of one array, stmatrix puts it into another, turned and with the other order of matrices."""

    @kernel(
        arch="sm_90a", in_specs=[Tile(64, 64, bf16)], out_specs=[Tile(64, 64, bf16), Tile(32, 4, b32)], grid=1, block=64
    )
    def moved(x: Any, out: Any, fragment: Any) -> None:
        thread = ptx.special.tid.x()
        source = smem.alloc(bf16, layout=canonical(64, 64, 16, major, swizzle))
        target = smem.alloc(bf16, (64, 64), swizzle="128B")
        filled(source, x, 1, 64, 64, thread)
        ptx.bar.sync(0)
        stage = reg.from_(1, u32)
        registers = reg.array(b32, 4)
        with ptx.if_(thread < 32):
            for row in range(0, 64, 16):
                for column in ptx.range_(0, 64, 16):
                    ptx.ldmatrix(dst=registers, src=source[stage], at=(row, column))
                    ptx.stmatrix(
                        smem=target.T,
                        regs=registers,
                        at=(column, row),
                        order="rows",
                        trans=True,
                        lane=thread,
                    )
            ptx.ldmatrix(dst=registers, src=source[1], at=(16, 48))
            for i in range(4):
                (ptx.pointer(fragment) + (thread * 4 + i)).store(registers[i])
            ptx.bar.warp_sync()
            ptx.ldmatrix(dst=registers.regs()[:2], src=target, at=(8, 8), layout="x2", order="rows")
            ptx.ldmatrix(dst=registers.regs()[:1], src=target, at=(8, 8), layout="x1.trans")
        ptx.bar.sync(0)
        for i in ptx.range_(64):
            (ptx.pointer(out) + (thread * 64 + i)).store(target[thread, i])

    x = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64).view(ml_dtypes.bfloat16)
    out, fragment = np.zeros_like(x), np.zeros((32, 4), np.uint32)
    assert simulate(moved, x, out, fragment).findings == []
    np.testing.assert_array_equal(out.view(np.uint16), x.view(np.uint16))
    for lane in range(32):
        for i in range(4):  # the A of mma.m16n8k16: PTX ISA 9.7.16.5.8
            row, column = 16 + lane // 4 + 8 * (i % 2), 48 + lane % 4 * 2 + 8 * (i // 2)
            assert fragment[lane, i] == x.view(np.uint32)[row, column // 2]
    assembled(moved)


def test_columns_that_are_a_part_of_a_row_of_the_swizzle() -> None:
    """Half of the 64 columns that a row of 128 bytes has, and half of the rows of B."""

    @kernel(
        arch="sm_90a",
        in_specs=[Tile(64, 16, bf16), Tile(64, 16, bf16)],
        out_specs=[Tile(64, 32, f32)],
        grid=1,
        block=128,
    )
    def multiplied(a: Any, b: Any, out: Any, *, major: str = "K") -> None:
        thread = ptx.special.tid.x()
        tile_a = smem.alloc(bf16, layout=canonical(64, 16, 16, "MN", "128B"))
        tile_b = smem.alloc(bf16, layout=canonical(64, 16, 16, major, "128B" if major == "MN" else "32B"))
        filled(tile_a, a, 0, 64, 16, thread)
        filled(tile_b, b, 1, 64, 16, thread)
        ptx.fence.proxy_async()
        ptx.bar.sync(0)
        d: Any = reg.wgmma_frag(m=64, n=32, dtype=f32)
        ptx.wgmma.fence()
        ptx.wgmma.mma_async(
            shape=(64, 32, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=d, a=tile_a[0], b=tile_b[1][:32]
        )
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)
        row, column = d.origin(thread)
        for below, right, register, _ in d.items():
            (ptx.pointer(out) + (row * 32 + column)).store(register, below * 32 + right)

    a, b = numbers(bf16, 64, 16), numbers(bf16, 64, 16)
    for major in ("K", "MN"):
        np.testing.assert_array_equal(multiplied(a, b, major=major), a.astype(np.float32) @ b[:32].astype(np.float32).T)


def product(a: Any, b: Any) -> None:
    d = reg.wgmma_frag(m=64, n=64, dtype=f32)
    ptx.wgmma.mma_async(shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=d, a=a, b=b)


def rows_of(width: int) -> Any:
    return smem.alloc(bf16, (64, width), swizzle="128B")


def plain(shape: Any, stride: Any) -> Any:
    return smem.alloc(bf16, layout=Plain(shape, stride))


REFUSED = [
    (lambda: product(plain((64, 64), (64, 1)), rows_of(64)), "element (1, 0) is 128 bytes after the first one, not 16"),
    (lambda: product(rows_of(128), rows_of(64)), "with the 128B swizzle is read: element (1, 0) is 256 bytes after the first one, not 128"),
    (lambda: product(plain((64, 64), (2, 128)), rows_of(64)), "neither dimension of smem_0 is contiguous"),
    (lambda: product(plain((2, 64, 64), (4096, 64, 1)), rows_of(64)), "has two dimensions, (M or N, K), and smem_0 has 3"),
    (lambda: product(rows_of(64)[:32], rows_of(64)), "reads 64 x 16 elements of smem_0, which is 32 x 64"),
    (lambda: product(rows_of(64)[:, 4:36], rows_of(64)), "starts at a multiple of 16 bytes, and this part of smem_0 at 8"),
    (lambda: product(smem.alloc(f32, (64, 32), swizzle="128B"), rows_of(64)), "A is read as bf16, and smem_0 has elements of f32"),
    (lambda: product(smem.alloc(bf16, layout=Swizzled(Bits(3, 4, 3), Plain((64, 64), (64, 1)))), rows_of(64)), "Swizzle(3, 4, 3), is not one that matrix descriptors have"),
    (lambda: ptx.wgmma.make_descriptor(reg.scalar(u32)), "needs leading_byte_offset and stride_byte_offset, or an array with a layout"),
    (lambda: ptx.tcgen05.descriptor(reg.scalar(u32)), "needs stride_bytes, or an array with a layout"),
    (lambda: ptx.ldmatrix(dst=reg.array(b32, 4), src=smem.alloc(f32, (8, 8)), at=(0, 0)), "two dimensions of 16-bit elements"),
    (lambda: ptx.ldmatrix(dst=reg.array(b32, 4), src=plain((16, 16), (20, 1)), at=(0, 0)), "rows of 8 elements that fill 16 aligned bytes"),
    (lambda: ptx.ldmatrix(dst=reg.array(b32, 4), src=rows_of(64), at=0), "at is (row, column)"),
    (lambda: rows_of(64)[3:3], "has no elements 3:3 in dimension 0, which has 64"),
    (lambda: rows_of(64)[::2], "has no elements ::2"),
    (lambda: rows_of(64)[0 : reg.scalar(u32)], "a slice has constant ends"),
    (lambda: rows_of(64)[reg.scalar(u32), :], "moves the part by 128 bytes, and its swizzle repeats after 1024"),
    (lambda: plain(((4, 4), 8), ((1, 64), 4))[2:8, :], "do not follow each other in the layout of smem_0, (4, 4):(1, 64)"),
    (lambda: smem.alloc(bf16, (64, 64), swizzle="96B"), 'a swizzle is "32B", "64B", "128B" or None'),
    (lambda: rows_of(64)[0, 0, 1:2], "has 2 dimensions, and the index 3"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_layouts_that_the_hardware_cannot_read(use: Any, message: str) -> None:
    @kernel(arch="sm_100a" if "stride_bytes," in message else "sm_90a")
    def wrong() -> None:
        use()

    with pytest.raises(PTXError) as caught:
        wrong.ptx()
    assert message in caught.value.diagnostics[0].message


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_elements_of_a_swizzled_array_are_where_tma_puts_them(swizzle: str) -> None:
    """A box that TMA loads is read by rows and columns, changed, and stored by TMA, with a stage that a register chooses."""
    width = int(swizzle[:-1]) // 4
    tile_of = Tile(32, width, f32, Layout[f"TMA_{swizzle}"], tma_box=(16, width))

    @kernel(in_specs=[tile_of], out_specs=[tile_of], grid=1, block=16)
    def doubled(x: Any, out: Any) -> None:
        thread = ptx.special.tid.x()
        tiles, full = smem.alloc(f32, (2, 16, width), swizzle=swizzle), smem.mbarrier(1)
        with ptx.if_(thread == 0):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full[0], 32 * width * 4)
            for i in range(2):
                ptx.cp.async_.bulk.tensor_2d(dst=tiles[i], src=x, coord=(0, 16 * i), mbar=full[0])
        ptx.bar.warp_sync(0xFFFF)
        ptx.mbarrier.wait(full[0], 0)
        for stage in ptx.range_(2):
            for column in range(width):
                tiles[stage][thread, column] = tiles[stage, thread, column] * 2.0 + column
        ptx.fence.proxy_async()
        ptx.bar.warp_sync(0xFFFF)
        with ptx.if_(thread == 0):
            for i in range(2):
                ptx.cp.async_.bulk.tensor_2d.store(dst=out, src=tiles[i, :, :], coord=(0, 16 * i))
            ptx.cp.async_.bulk.commit_group()
            ptx.cp.async_.bulk.wait_group(0)

    assert doubled.check() == []
    x = RNG.standard_normal((32, width), dtype=np.float32)
    out = np.zeros_like(x)
    assert simulate(doubled, x, out).findings == []
    np.testing.assert_array_equal(out, x * np.float32(2) + np.arange(width, dtype=np.float32))


def test_a_box_that_is_not_as_the_layout() -> None:
    @kernel(in_specs=[Tile(32, 16, f32, tma_box=(32, 16))], out_specs=[])
    def loaded(x: Any) -> None:
        tile, full = smem.alloc(f32, layout=Plain((32, 16), (1, 32))), smem.mbarrier(1)
        ptx.mbarrier.init(full[0], 1)
        ptx.cp.async_.bulk.tensor_2d(dst=tile, src=x, coord=(0, 0), mbar=full[0])

    (found,) = loaded.check()
    assert "the layout of smem_0 has element (1, 0) 4 bytes after the first one, not 64" in found.message


def test_bank_conflicts_are_counted_before_the_first_run() -> None:
    """The rows of 8 x 8 matrices are 128 bytes apart: without a swizzle they lie in the same banks."""

    @kernel(arch="sm_90a", in_specs=[], out_specs=[Tile(32, 4, b32)], grid=1, block=32)
    def loaded(out: Any, *, swizzle: Any = None) -> None:
        registers = reg.array(b32, 4)
        tile = smem.alloc(bf16, (64, 64), swizzle=swizzle)
        tile[ptx.special.tid.x(), 0] = reg.scalar(bf16, init=0)
        ptx.bar.sync(0)
        ptx.ldmatrix(dst=registers, src=tile, at=(0, 16), lane=ptx.special.tid.x())
        for i in range(4):
            (ptx.pointer(out) + (ptx.special.tid.x() * 4 + i)).store(registers[i])

    for swizzle, ways in ((None, 8), ("32B", 4), ("64B", 2), ("128B", 1)):
        report = loaded.report(swizzle=swizzle).analysis
        (use,) = [use for use in report.banks if use.kind == "matrix"]
        assert use.ways == ways, swizzle
