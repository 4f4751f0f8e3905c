"""`smem`: names, alignment, element addresses; static or dynamic shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import PTXError, kernel, ptx, reg, simulate, smem
from pyptx.types import bf16, f32, u32, u64
from pyptx.wgmma_layout import LayoutType, Major, layout_for_a, layout_for_b, pick_gmma_layout
from tests.frontend.tracing import assembled, body, ptx_of


def test_names_count_per_trace_and_alignment_is_128():
    def function():
        for _ in range(2):
            smem.alloc(bf16, (4, 8))
        smem.mbarrier(3)

    for _ in range(2):
        text = ptx_of(function)
        assert ".shared .align 128 .b8 smem_0[64];\n\t.shared .align 128 .b8 smem_1[64];" in text
        assert ".shared .align 8 .b64 mbar_0[3];" in text


def test_elements():
    def function():
        tile = smem.alloc(f32, (4, 8))
        row = reg.scalar(u32, init=2)
        tile[1, 2] = 1.5
        tile[row, 3] = tile[1, 2]
        stages = smem.alloc(f32, (2, 4, 8))
        stages[1][2, 3] = 0.0

    lines = body(ptx_of(function))
    assert "st.shared.f32 [smem_0+40], 0f3FC00000;" in lines
    assert "ld.shared.f32 %f0, [smem_0+40];" in lines
    assert "mad.lo.u32 %r1, %r0, 32, %r1;" in lines
    assert "st.shared.f32 [%r1+12], %f0;" in lines
    assert "st.shared.f32 [smem_1+204], 0f00000000;" in lines


def test_indices_are_checked():
    def outside():
        smem.alloc(f32, (4, 8))[4, 0]

    with pytest.raises(IndexError, match="outside dimension 0"):
        ptx_of(outside)
    with pytest.raises(PTXError, match="2 dimensions"):
        ptx_of(lambda: smem.alloc(f32, (4, 8))[1, 2, 3])
    with pytest.raises(IndexError, match="has 2 parts"):
        ptx_of(lambda: smem.alloc(f32, (2, 8))[2])
    with pytest.raises(IndexError, match="has 2 mbarriers"):
        ptx_of(lambda: smem.mbarrier(2)[2])


def two_buffers(rows: int):
    @kernel(grid=1, block=32, raw_params=[("u64", "out")])
    def buffers():
        first = smem.alloc(f32, (rows, 32))
        second = smem.alloc(f32, (rows, 32))
        tid = reg.from_(ptx.special.tid.x(), u32)
        first[0, tid] = 1.0
        second[0, tid] = 2.0
        ptx.bar.sync(0)
        total = first[0, tid] + second[0, tid]
        out = ptx.param(u64, "out")
        out += tid * 4
        ptx.st(f32, out, total)
        ptx.ret()

    return buffers


@pytest.mark.parametrize("rows", [4, 400])
def test_buffers_do_not_alias_static_or_dynamic(rows):
    k = two_buffers(rows)
    text = assembled(k)
    dynamic = rows * 32 * 8 > 48 * 1024
    assert ("dyn_smem" in text) == dynamic
    assert (".shared .align 128 .b8 smem_0" in text) != dynamic
    launch = k.resolve_launch()
    assert launch.smem == (rows * 32 * 8 if dynamic else 0)
    out = np.zeros(32, np.float32)
    simulate(k, out, grid=1, block=32, smem=launch.smem)
    np.testing.assert_array_equal(out, 3)


def test_the_function_is_traced_once_even_when_the_memory_turns_out_dynamic():
    runs = []

    @kernel
    def once():
        runs.append(1)
        smem.alloc(f32, (16_384,))[5]
        ptx.ret()

    assert "dyn_smem" in assembled(once)
    assert runs == [1]


@pytest.mark.parametrize("known", [True, False])
def test_the_manual_pattern_of_name_and_byte_offset(known):
    """A symbol by name plus `byte_offset` is the address in dynamic memory; a name alone is the allocation's
    address too.
    """

    def function():
        smem.alloc(f32, (8_192,))
        manual = smem.alloc(f32, (8_192,))
        plain = smem.alloc(f32, (64,))
        address = reg.scalar(u32)
        ptx.inst.mov.u32(address, manual.name)
        address += manual.byte_offset
        other = reg.scalar(u32)
        ptx.inst.mov.u32(other, plain.name)
        ptx.inst.st.shared.f32(ptx.addr(address), 1.0)
        ptx.inst.st.shared.f32(ptx.addr(plain), 1.0)

    lines = body(ptx_of(function, smem=66_000 if known else 0))
    assert lines[:3] == ["mov.u32 %r0, dyn_smem;", "add.s32 %r0, %r0, 32768;", "mov.u32 %r1, dyn_smem+65536;"]
    assert "st.shared.f32 [dyn_smem+65536], 0f3F800000;" in lines


def test_name_is_dyn_smem_when_the_kernel_asks_for_more_than_48_kib():
    names = []
    ptx_of(lambda: names.append(str(smem.alloc(f32, 4).name)), smem=50_000)
    ptx_of(lambda: names.append(str(smem.alloc(f32, 4).name)))
    assert names == ["dyn_smem", "smem_0"]


def test_extern_shared_memory():
    def function():
        base = smem.base()
        ptx.inst.st.shared.u32(ptx.addr(base, 64), 1)
        smem.mbarrier(2)

    text = ptx_of(function, extern_smem=True, smem=100_000)
    assert ".extern .shared .align 128 .b8 global_smem[];" in text
    assert "mov.u32 %r0, global_smem;" in text
    assert "dyn_smem" not in text
    assert ".b8 mine[];" in ptx_of(function, extern_smem="mine")
    with pytest.raises(PTXError, match="extern_smem takes the dynamic part"):
        ptx_of(lambda: smem.alloc(f32, 16_384), extern_smem=True)


def test_apply_swizzle_is_the_xor_of_chunk_and_row():
    """Checked against the definition: bits 4.. ^= bits 7.., for every 16-byte chunk of 8 rows of 128 bytes."""

    @kernel(raw_params=[("u64", "out")])
    def swizzled(*, mode=None):
        tid = reg.from_(ptx.special.tid.x(), u32)
        out = ptx.param(u64, "out")
        out += tid * 4
        ptx.st(u32, out, smem.apply_swizzle(tid * 16, mode))
        ptx.ret()

    offsets = np.arange(64) * 16
    for mode, mask in ((None, 0), ("32B", 1), ("64B", 3), ("128B", 7)):
        out = np.zeros(64, np.uint32)
        simulate(swizzled.module(mode=mode), out, grid=1, block=64)
        np.testing.assert_array_equal(out, offsets ^ (((offsets >> 7) & mask) << 4))
    with pytest.raises(ValueError, match="swizzle"):
        swizzled.ptx(mode="96B")


def test_wgmma_tiles():
    seen = {}

    def function():
        a = smem.wgmma_tile(bf16, (64, 64))
        b = smem.wgmma_tile(bf16, (16, 32), "MN")
        stages = smem.wgmma_tile(bf16, (3, 64, 64))
        seen.update(a=a.gmma_layout, b=(b.swizzle, b.gmma_major), stages=stages[2].offset)

    text = ptx_of(function)
    assert seen["a"].layout_type == LayoutType.B128
    assert (seen["a"].leading_byte_offset, seen["a"].stride_byte_offset) == (16, 1024)
    assert seen["b"] == ("64B", "MN")
    assert seen["stages"] == 2 * 64 * 64 * 2
    assert ".shared .align 1024 .b8 smem_0[8192];" in text
    assert ".shared .align 512 .b8 smem_1[1024];" in text


@pytest.mark.parametrize(
    ("k", "expected"),
    [(8, (LayoutType.INTERLEAVE, 16, 128)), (16, (LayoutType.B32, 16, 256)), (32, (LayoutType.B64, 16, 512)),
     (64, (LayoutType.B128, 16, 1024)), (128, (LayoutType.B128, 64 * 128, 1024))],
)  # fmt: skip
def test_layouts_of_k_major_tiles(k, expected):
    layout = layout_for_a(dtype=bf16, m=64, k=k)
    assert (layout.layout_type, layout.leading_byte_offset, layout.stride_byte_offset) == expected
    assert layout.swizzle_code == expected[0]


def test_layouts_of_mn_major_tiles():
    layout = layout_for_b(dtype=bf16, k=64, n=256)
    assert (layout.layout_type, layout.leading_byte_offset, layout.stride_byte_offset) == (LayoutType.B128, 8192, 1024)
    for wrong in ({"m_or_n": 12, "k": 64}, {"m_or_n": 64, "k": 24}):
        with pytest.raises(ValueError, match="must be"):
            pick_gmma_layout(elem_bytes=2, major=Major.K, **wrong)
