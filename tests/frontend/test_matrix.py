"""ldmatrix, stmatrix, mma, wgmma, tcgen05 and their descriptors, against the layouts' own tables where there are
any.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import PTXError, kernel, ptx, reg, simulate, smem
from pyptx.types import b32, b64, bf16, e4m3, f16, f32, pred, s8, s32, tf32, u32, u64
from tests.frontend.tracing import body, ptx_of


def emitted(function, arch="sm_90a", **options):
    return [line for line in body(ptx_of(function, arch, **options)) if line != "ret;"]


def test_ldmatrix_and_stmatrix():
    def function():
        tile = smem.alloc(bf16, (2, 16, 16))
        regs = reg.array(b32, 4)
        address = smem.base(tile.name)
        ptx.ldmatrix(dst=regs, src=tile[1])
        ptx.ldmatrix(dst=regs.regs()[:2], src=address, layout="x2.trans")
        ptx.ldmatrix(dst=regs[0], src=ptx.addr(address, 64), layout="x1", trans=True)
        ptx.stmatrix(smem=tile, regs=regs)
        ptx.stmatrix(smem=address, regs=regs, layout="x4.trans")

    assert emitted(function)[1:] == [
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [smem_0+512];",
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%r4];",
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r0}, [%r4+64];",
        "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [smem_0], {%r0, %r1, %r2, %r3};",
        "stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%r4], {%r0, %r1, %r2, %r3};",
    ]


def test_stmatrix_of_an_accumulator():
    def function():
        frag = reg.array(f32, 16)
        out = smem.alloc(bf16, (32, 72))
        ptx.stmatrix_x4_trans_f32_bf16(frag=frag, smem_base=out, lane=ptx.special.tid.x(), row_stride=72)

    lines = emitted(function)
    assert sum(line.startswith("stmatrix") for line in lines) == 2
    assert sum(line.startswith("cvt.rn.bf16x2.f32") for line in lines) == 8


def test_mma():
    def function():
        d, c = reg.array(f32, 4), reg.array(f32, 4)
        a, b = reg.array(b32, 4), reg.array(b32, 2)
        ptx.mma.sync(shape=(16, 8, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, dtype_c=f32, d=d, a=a, b=b, c=c)

    assert emitted(function, "sm_80")[0].startswith("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0, %f1,")


@pytest.mark.parametrize(
    ("dtype", "k", "dtype_d", "tail"),
    [(bf16, 16, f32, "1, 1, 0, 0"), (f16, 16, f32, "1, 1, 0, 0"), (tf32, 8, f32, "1, 1"), (e4m3, 32, f32, "1, 1"),
     (s8, 32, s32, None)],
)  # fmt: skip
def test_wgmma_has_the_immediates_of_its_type(dtype, k, dtype_d, tail):
    def function():
        acc = reg.wgmma_frag(m=64, n=64, dtype=dtype_d)
        a = smem.wgmma_tile(dtype, (64, 128 * 8 // dtype.bits))
        b = smem.wgmma_tile(dtype, (64, 128 * 8 // dtype.bits))
        ptx.wgmma.fence()
        ptx.wgmma.mma_async(
            shape=(64, 64, k), dtype_d=dtype_d, dtype_a=dtype, dtype_b=dtype, d=acc, a=a, b=b, scale_d=False
        )
        ptx.wgmma.commit_group()
        ptx.wgmma.wait_group(0)

    line = next(line for line in emitted(function) if "mma_async" in line)
    assert line.endswith("%rd0, %rd1, %p0" + (f", {tail};" if tail else ";"))


def test_wgmma_operands():
    def function():
        acc = reg.wgmma_frag(m=64, n=64, dtype=f32)
        fragment = reg.array(b32, 4)
        b = smem.wgmma_tile(bf16, (64, 64), "MN")
        descriptor = reg.scalar(b64, init=0)
        p = reg.scalar(pred)
        half = {"dtype_d": f32, "dtype_a": bf16, "dtype_b": bf16, "shape": (64, 64, 16), "d": acc}
        ptx.wgmma.mma_async(**half, a=fragment, b=b, scale_d=p)
        ptx.wgmma.mma_async(**half, a=descriptor, b=descriptor, scale_d=True, scale_a=-1, trans_a=1, b_k_offset=32)

    first, second = (line for line in emitted(function) if "mma_async" in line)
    assert first.endswith("{%r0, %r1, %r2, %r3}, %rd1, %p0, 1, 1, 1;")
    assert second.endswith("%rd0, %rd2, %p1, -1, 1, 1, 0;")


def test_wgmma_mistakes():
    def accumulators():
        acc = reg.array(f32, 16)
        tile = smem.wgmma_tile(bf16, (64, 64))
        ptx.wgmma.mma_async(shape=(64, 64, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=acc, a=tile, b=tile)

    with pytest.raises(PTXError, match="must have 32 elements, not 16"):
        ptx_of(accumulators)

    def transposed():
        tile = smem.wgmma_tile(e4m3, (64, 128))
        ptx.wgmma.mma_async(
            shape=(64, 64, 32), dtype_d=f32, dtype_a=e4m3, dtype_b=e4m3, d=reg.array(f32, 32), a=tile, b=tile, trans_b=1
        )

    with pytest.raises(PTXError, match="K-major"):
        ptx_of(transposed)


def computed_descriptor(make, arch="sm_90a"):
    """What a descriptor function gives for the shared address 0x12340 (as a register)."""

    @kernel(arch=arch, raw_params=[("u64", "out")])
    def run():
        address = reg.scalar(u32, init=0x12340)
        out = ptx.param(u64, "out")
        ptx.st(u64, out, make(address))
        ptx.ret()

    out = np.zeros(1, np.uint64)
    simulate(run, out, grid=1, block=1)
    return int(out[0])


def test_wgmma_descriptors():
    """Bit fields of PTX ISA 9.7.17.5.1.2.2: start 0-13, leading 16-29, stride 32-45, base offset 49-51, swizzle
    62-63.
    """
    got = computed_descriptor(
        lambda a: ptx.wgmma.make_descriptor(
            a, leading_byte_offset=16, stride_byte_offset=1024, swizzle=ptx.wgmma.SWIZZLE_128B, base_offset=3,
            addr_byte_offset=0x20,
        )
    )  # fmt: skip
    assert got == 0x1236 | 1 << 16 | 64 << 32 | 3 << 49 | 1 << 62
    got = computed_descriptor(lambda a: ptx.wgmma.auto_descriptor(a, dtype=bf16, shape=(64, 32), major="K"))
    assert got == 0x1234 | 1 << 16 | (8 * 64 >> 4) << 32 | 2 << 62
    for offset in (0, 32, 96, 1024):  # the mask cuts the address 0x12340 to 0x12300, and no offset
        got = computed_descriptor(lambda a, b=offset: ptx.wgmma.masked_descriptor(a, byte_offset=b))
        assert got == (0x12300 + offset) >> 4 | 0x4000004000010000
    got = computed_descriptor(lambda a: ptx.wgmma.masked_descriptor(a, byte_offset=reg.scalar(u32, init=96)))
    assert got == 0x12360 >> 4 | 0x4000004000010000
    with pytest.raises(PTXError, match="multiple of 16"):
        computed_descriptor(lambda a: ptx.wgmma.make_descriptor(a, leading_byte_offset=8, stride_byte_offset=16))


def test_tcgen05_descriptors():
    """PTX ISA 9.7.18.4.1: version 46-47 is 1, swizzle 61-63 (128B is 2); the instruction descriptor as CUTLASS
    encodes it.
    """
    got = computed_descriptor(lambda a: ptx.tcgen05.descriptor(a, stride_bytes=1024, byte_offset=32), "sm_100a")
    assert got == 0x1236 | 1 << 16 | 64 << 32 | 1 << 46 | 2 << 61
    assert ptx.tcgen05.BLACKWELL_MASKED_DESC_B128 == 1 << 16 | 64 << 32 | 1 << 46 | 2 << 61
    got = computed_descriptor(lambda a: ptx.tcgen05.masked_descriptor(a), "sm_100a")
    assert got == 0x12340 >> 4 | 0x4000404000010000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # CUTLASS 4.7.0, cute::UMMA::make_instr_desc
        ({"m": 128, "n": 128, "ab_dtype": "f16"}, 0x08200010),
        ({"m": 64, "n": 64, "ab_dtype": "f16"}, 0x04100010),
        ({"m": 256, "n": 256, "ab_dtype": "f16", "a_major": "MN"}, 0x10408010),
        ({"m": 128, "n": 96, "ab_dtype": "f16", "b_major": "MN"}, 0x08190010),
    ],
)
def test_instruction_descriptor(options, expected):
    assert ptx.tcgen05.make_instr_desc_f16bf16_f32(**options) == expected


def test_instruction_descriptor_refuses_what_it_cannot_say():
    for wrong in ({"n": 12}, {"m": 100}, {"ab_dtype": "f32"}, {"a_major": "N"}, {"scale_a": 2}):
        with pytest.raises(ValueError, match=r"is|are"):
            ptx.tcgen05.make_instr_desc_f16bf16_f32(**wrong)


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        # CUTLASS 4.7.0, cute::UMMA::make_instr_desc and make_instr_desc_block_scaled
        ("f16", {"m": 128, "n": 16, "a": "f16", "a_major": "MN", "b_major": "MN", "sparse": True}, 0x08058014),
        ("mxf8f6f4", {"m": 128, "n": 128, "a": "e4m3", "b_scale_byte": 3}, 0x08A00030),
        ("mxf4", {"m": 128, "n": 128, "a": "e2m1", "a_scale_byte": 1, "b_scale_byte": 2}, 0x28A004A0),
        ("mxf4nvf4", {"m": 128, "n": 64, "a": "e2m1", "scale_type": "ue4m3"}, 0x08100480),
        # PTX ISA 9.4, tables 51 to 53
        ("ti16", {"m": 64, "n": 24, "a": "s1z4m11"}, 2 << 4 | 3 << 7 | 3 << 10 | 3 << 17 | 4 << 24),
        (
            "f8f6f4",
            {"m": 128, "n": 8, "a": "e4m3", "b": "e5m2", "k": 64},
            1 << 4 | 1 << 10 | 1 << 17 | 8 << 24 | 1 << 29,
        ),
        (
            "mxf4nvf4",
            {"m": 256, "n": 16, "a": "e2m1", "k": 128, "scale_type": "ue5m3", "scale_lanes": 128, "cta_group": 2},
            1 << 3 | 1 << 7 | 1 << 10 | 2 << 17 | 2 << 23 | 1 << 26 | 2 << 27,
        ),
    ],
)
def test_instruction_descriptors_of_all_kinds(kind, options, expected):
    assert ptx.tcgen05.make_instr_desc(kind, **options) == expected


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("f32", {"a": "f32"}, "kind is one of f16, tf32"),
        ("f16", {"a": "e4m3"}, "a of kind f16 is f16 or bf16, not e4m3"),
        ("ti16", {"a": "s1z4m11", "d": "f32"}, "d of kind ti16 is s32"),
        ("ti16", {"a": "s1z4m11", "n": 24}, "N is 24; it is a multiple of 16"),
        ("f8f6f4", {"a": "e2m1", "a_major": "MN"}, "A of .e2m1 is K-major"),
        ("f8f6f4", {"a": "e2m1", "k": 64}, "with K = 64 are of .e4m3 or .e5m2"),
        ("f8f6f4", {"a": "e4m3", "k": 96}, "k of kind f8f6f4 is 32 or 64, not 96"),
        ("mxf4", {"a": "e2m1", "scale_type": "ue5m3"}, "scale_type of kind mxf4 is ue8m0, not ue5m3"),
        ("mxf4", {"a": "e2m1", "k": 128}, "with .cta_group::2 128"),
        ("mxf8f6f4", {"a": "e4m3", "m": 64}, "m is a multiple of 128"),
        ("i8", {"a": "s8", "scale_a": -1}, "does not negate"),
        ("f16", {"a": "f16", "a_scale_byte": 1}, "cannot say a_scale = 1"),
        ("f16", {"a": "f16", "ws": True, "n": 32}, "64, 128 or 256 with .ws"),
    ],
)
def test_instruction_descriptors_that_there_are_not(kind, options, reason):
    with pytest.raises(ValueError, match=reason):
        ptx.tcgen05.make_instr_desc(kind, **({"m": 128, "n": 64} | options))


def test_tcgen05_of_sm_107():
    def function():
        t = ptx.tcgen05
        slot = smem.alloc(u32, 1)
        t.alloc(slot, 576, exclusive=True)
        taddr = smem.load(u32, slot)
        a = smem.alloc(bf16, (128, 64), align=1024)
        desc = t.descriptor(a, stride_bytes=1024, second_half=True)
        idesc = t.make_instr_desc("ti16", m=128, n=128, a="s1z4m11")
        t.mma(taddr, desc, desc, idesc, kind="ti16", collector_a="fill", collector_b="lastuse")
        wide = t.make_instr_desc("f8f6f4", m=128, n=128, a="e4m3", k=64)
        t.mma(taddr, desc, desc, wide, kind="f8f6f4", lut=taddr)
        t.dealloc(taddr, 576, exclusive=True)

    lines = emitted(function, "sm_107a")
    mmas = [line for line in lines if line.startswith("tcgen05.mma")]
    assert mmas[0].startswith("tcgen05.mma.cta_group::1.kind::ti16.collector::a::fill.collector::b::lastuse [")
    assert mmas[1].startswith("tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b [")
    assert mmas[1].count("[") == 2
    assert any(line.startswith("tcgen05.alloc.exclusive.cta_group::1") for line in lines)


def test_tcgen05():
    def function():
        t = ptx.tcgen05
        slot = smem.alloc(u32, 1)
        bar = smem.mbarrier(1)[0]
        t.alloc(slot, 128)
        t.relinquish_alloc_permit()
        taddr = smem.load(u32, slot)
        a = smem.alloc(bf16, (128, 64), align=1024)
        desc = t.descriptor(a, stride_bytes=1024)
        idesc = t.make_instr_desc_f16bf16_f32(m=128, n=128)
        t.mma(taddr, desc, desc, idesc, scale_d=False)
        t.mma(taddr, desc, desc, idesc, collector_a="fill")
        p = reg.scalar(pred)
        t.mma(taddr, taddr, desc, idesc, a_is_tmem=True, pred_operand=p, kind="f8f6f4")
        t.commit(bar)
        t.commit(bar, space="cta", multicast_mask=3)
        t.fence_before_thread_sync()
        t.fence_after_thread_sync()
        data = reg.array(b32, 32)
        t.ld(data, taddr, shape="32x32b", count=32)
        t.wait_ld()
        t.st(taddr, data, shape="32x32b", count=32)
        t.wait_st()
        t.ld(data.regs()[:2], taddr)
        t.cp(taddr, desc)
        t.cp(taddr, desc, "32x128b")
        t.shift(taddr)
        t.dealloc(taddr, 128)

    lines = emitted(function, "sm_100a")
    mmas = [line for line in lines if line.startswith("tcgen05.mma")]
    assert [line.rpartition(", ")[2] for line in mmas] == ["%p0;", "%p1;", "%p2;"]
    moved = {line.split()[1][:-1]: line.split()[2][:-1] for line in lines if line.startswith("mov.b32")}
    compared = {line.split()[1][:-1]: line.split()[2][:-1] for line in lines if line.startswith("setp.ne")}
    assert [moved[compared[p]] for p in ("%p0", "%p1")] == ["0", "1"]
    [mask] = [line.split()[1][:-1] for line in lines if line.startswith("mov.u16") and line.endswith(" 3;")]
    assert (
        f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [mbar_0], {mask};"
        in lines
    )
    assert mmas[2].startswith("tcgen05.mma.cta_group::1.kind::f8f6f4 [%r9], [%r10], %rd0,")
    assert any(line.startswith("tcgen05.ld.sync.aligned.16x128b.x1.b32 {%r") for line in lines)
