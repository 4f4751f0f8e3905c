"""Calls as pyptx 0.1 documents them mean what they meant: the same PTX as the call in today's names, or, where 0.1 meant
something that today's API did not have, what the PTX manual and NumPy say.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyptx
from pyptx import PTXError, Tile, kernel, ptx, reg, smem
from pyptx.types import b8, b32, b64, bf16, f16, f32, pred, s32, tf32, u32, u64
from pyptx.wgmma_layout import layout_for_a, layout_for_b
from tests.frontend.tracing import assembled

BOX = Tile(64, 64, bf16, tma_box=(64, 64))


def text(body: Callable[..., Any], arch: str = "sm_100a", judge: bool = False) -> str:
    """What a kernel of two tensors with this body is; with `judge`, ptxas takes it."""

    @kernel(arch=arch, in_specs=[BOX], out_specs=[BOX])
    def traced(x, y):
        body(x, y)

    return assembled(traced) if judge else traced.ptx()


class Operands:
    """Registers and memory for one call, the same for both spellings."""

    def __init__(self) -> None:
        self.a, self.b, self.d = (reg.scalar(u32, init=i) for i in range(3))
        self.f = reg.array(f32, 8)
        self.w = reg.array(b32, 4, init=0)
        self.p, self.q = self.a == 1, self.b == 2
        self.desc, self.desc2 = reg.scalar(b64, init=0), reg.scalar(b64, init=0)
        self.long = reg.scalar(u64, init=0)
        self.tile = smem.alloc(bf16, (64, 64))
        self.bars = smem.mbarrier(4)
        self.bar = self.bars[0]


SPELLINGS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "scalar": (
        lambda o: ptx.add(dtype=u32, dst=o.d, a=o.a, b=o.b, pred=o.p),
        lambda o: ptx.add(u32, o.d, o.a, o.b, pred=o.p),
    ),
    "mul": (
        lambda o: ptx.mul(u32, dst=o.long, a=o.a, b=o.b, mode="wide"),
        lambda o: ptx.mul(u32, o.long, o.a, o.b, mode="wide"),
    ),
    "mov": (lambda o: ptx.mov(u32, dst=o.d, src=o.a), lambda o: ptx.mov(u32, o.d, o.a)),
    "mad": (lambda o: ptx.mad(o.a, o.b, 3), lambda o: ptx.inst.mad.lo.s32(reg.scalar(u32), o.a, o.b, 3)),
    "mad.f32": (lambda o: ptx.mad(o.f[0], o.f[1], 2.0), lambda o: ptx.mad(f32, o.f[0], o.f[1], 2.0)),
    "mad.u64": (lambda o: ptx.mad(o.long, o.long, 3), lambda o: ptx.mad(u64, o.long, o.long, 3)),
    "selp": (
        lambda o: ptx.selp(dtype=u32, dst=o.d, true_val=o.a, false_val=o.b, pred_reg=o.p),
        lambda o: ptx.selp(u32, o.d, o.a, o.b, o.p),
    ),
    "setp": (
        lambda o: ptx.setp(cmp_op="lt", dtype=u32, pred_out=o.q, a=o.a, b=5, pred_negate=~o.p),
        lambda o: ptx.setp("lt", u32, o.q, o.a, 5, pred=~o.p),
    ),
    "cvt": (
        lambda o: ptx.cvt(dst_type=f32, src_type=u32, dst=o.f[0], src=o.a),
        lambda o: ptx.cvt(f32, u32, o.f[0], o.a),
    ),
    "ld": (lambda o: ptx.ld(u32, dst=o.d, addr=ptx.addr(o.long)), lambda o: ptx.ld(u32, o.d, ptx.addr(o.long))),
    "st": (lambda o: ptx.st(u32, addr=ptx.addr(o.long), src=o.a), lambda o: ptx.st(u32, ptx.addr(o.long), o.a)),
    "branches": (
        lambda o: (ptx.label("end"), ptx.bra(label="end", pred=o.p)),
        lambda o: (ptx.label("end"), ptx.bra("end", pred=o.p)),
    ),
    "barriers": (
        lambda o: (ptx.named_barrier(barrier_id=3, count=64).sync(), ptx.NamedBarrier(4, 32).sync(), ptx.NamedBarrier(5).sync()),
        lambda o: (ptx.bar.sync(3, 64), ptx.bar.sync(4, 32), ptx.bar.sync(5)),
    ),
    "elect": (
        lambda o: ptx.elect_sync(dst=o.d, pred_out=o.p, membermask=-1),
        lambda o: ptx.elect_sync(o.d, o.p, -1),
    ),
    "registers": (
        lambda o: (ptx.setmaxnreg(count=232), ptx.setmaxnreg_dec(reg_count=40)),
        lambda o: (ptx.setmaxnreg_inc(232), ptx.setmaxnreg(40, inc=False)),
    ),
    "warp": (lambda o: ptx.warp.reduce_max(val=o.a, width=8), lambda o: ptx.warp.reduce_max(o.a, width=8)),
    "special": (
        lambda o: (ptx.inst.mov.u32(o.a, ptx.ctaid_x()), ptx.inst.mov.u32(o.a, ptx.ctaid_y())),
        lambda o: (ptx.inst.mov.u32(o.a, ptx.special.ctaid.x()), ptx.inst.mov.u32(o.a, ptx.special.ctaid.y())),
    ),
    "sources": (
        lambda o: (ptx.file_(file_idx=1, filename="k.py"), ptx.loc(file_idx=1, line=2), ptx.pragma(value="nounroll")),
        lambda o: (ptx.file_(1, "k.py"), ptx.loc(1, 2, 0), ptx.pragma("nounroll")),
    ),
    "pipe": (
        lambda o: ptx.pipe(src=o.a).add.u32(o.d, 4),
        lambda o: ptx.inst.add.u32(o.d, o.a, 4),
    ),
    "pipeline": (
        lambda o: ptx.PipelineState(3).advance(),
        lambda o: ptx.pipeline(3, cursor=reg.scalar(u32, init=0), phase=reg.scalar(u32, init=0)).advance(),
    ),
    "variables": (
        lambda o: ptx.var(state_space="shared", dtype=b8, name="v", size=64, align=16),
        lambda o: ptx.var("shared", b8, "v", size=64, align=16),
    ),
    "mbarriers": (
        lambda o: (ptx.mbarrier.arrive_expect_tx(o.bar, tx_count=64), ptx.mbarrier.expect_tx(mbar=o.bar, tx_count=o.a)),
        lambda o: (ptx.mbarrier.arrive_expect_tx(o.bar, 64), ptx.mbarrier.expect_tx(o.bar, o.a)),
    ),
    "clusters": (
        lambda o: (
            ptx.cluster.arrive_remote(bar_addr=o.a, cta_id=o.b, count=2), ptx.cluster.arrive_multicast(bar_addr=o.a, mask=3),
            ptx.cluster.rank(cta_rank=0), ptx.cluster.map_shared_u32(bar_addr=o.a, cta_id=1, pred=o.p), ptx.cluster.sync(pred=~o.p),
        ),
        lambda o: (
            ptx.cluster.arrive_remote(o.a, o.b, 2), ptx.cluster.arrive_multicast(o.a, 3),
            ptx.cluster.rank(0), ptx.inst.mapa.shared__cluster.u32(reg.scalar(b32), o.a, 1, pred=o.p),
            ptx.cluster.arrive(pred=~o.p), ptx.cluster.wait(pred=~o.p),
        ),
    ),
    "cp.async": (
        lambda o: ptx.cp.async_.ca(smem_dst=ptx.addr(o.tile), global_src=ptx.addr(o.long), byte_count=8),
        lambda o: ptx.cp.async_.ca(ptx.addr(o.tile), ptx.addr(o.long), 8),
    ),
    "tensor copies": (
        lambda o: (
            ptx.cp.async_.bulk.tensor.tensor_2d(dst=o.tile, src=o.desc, coord=(0, o.a), mbar=o.bar, cta_group=2),
            ptx.cp.async_bulk.tensor.tile_2d(o.tile, o.desc, (0, o.a), mbar=o.bar, cta_group=2),
            ptx.cp.async_.bulk.tensor_2d(dst=o.tile, src=ptx.addr(o.desc, ", {%r0, %r1}"), mbar=o.bar),
        ),
        lambda o: (
            ptx.inst.cp.async_.bulk.tensor._2d.shared__cluster.global_.mbarrier__complete_tx__bytes.cta_group__2(
                ptx.addr(o.tile), ptx.addr(o.desc, [0, o.a]), ptx.addr(o.bar)
            ),
            ptx.inst.cp.async_.bulk.tensor._2d.shared__cluster.global_.tile.mbarrier__complete_tx__bytes.cta_group__2(
                ptx.addr(o.tile), ptx.addr(o.desc, [0, o.a]), ptx.addr(o.bar)
            ),
            ptx.cp.async_.bulk.tensor_2d(dst=o.tile, src=o.desc, coord=(o.a, o.b), mbar=o.bar),
        ),
    ),
    "cta_group": (
        lambda o: ptx.cp.async_.bulk.tensor_2d.shared_cta_global_tile(dst=o.tile, src=o.desc, coord=(0, 0), mbar=o.bar, cta_group=2),
        lambda o: ptx.inst.cp.async_.bulk.tensor._2d.shared__cta.global_.tile.mbarrier__complete_tx__bytes.cta_group__2(
            ptx.addr(o.tile), ptx.addr(o.desc, [0, 0]), ptx.addr(o.bar)
        ),
    ),
    "tma": (
        lambda o: (
            ptx.tma.load_3d(o.tile, o.desc, 0, 64, o.bar, pred=o.p), ptx.tma.load_3d(o.tile, o.desc, None, None, o.bar, (0, 1, 2)),
            ptx.tma.load_3d_multicast(o.tile, o.desc, 0, 64, o.bar, 3, (0, 1, 2), pred=o.p), ptx.tma.store_3d(o.desc, o.tile, 0, 64, pred=o.q),
        ),
        lambda o: (
            ptx.tma.load_3d(o.tile, o.desc, 0, 64, o.bar, issuer=o.p), ptx.tma.load_3d(o.tile, o.desc, mbar=o.bar, coords=(0, 1, 2)),
            ptx.tma.load_3d_multicast(o.tile, o.desc, mbar=o.bar, mask=3, coords=(0, 1, 2), issuer=o.p),
            ptx.tma.store_3d(o.desc, o.tile, 0, 64, issuer=o.q),
        ),
    ),
    "tcgen05": (
        lambda o: (
            ptx.tcgen05.alloc(tmem_addr=o.tile, ncols=32), ptx.tcgen05.descriptor(smem_addr=o.a, stride_bytes=1024),
            ptx.tcgen05.mma(d_tmem=o.a, a_desc=o.desc, b_desc=o.desc2, idesc=o.b, scale_d=False), ptx.tcgen05.cp(o.a, o.desc, src_is_addr=False),
            ptx.tcgen05.ld(dst_regs=o.w, taddr=o.a, shape="32x32b", count=4), ptx.tcgen05.st(taddr=o.a, src_regs=o.w, shape="32x32b", count=4),
        ),
        lambda o: (
            ptx.tcgen05.alloc(o.tile, 32), ptx.tcgen05.descriptor(o.a, stride_bytes=1024),
            ptx.tcgen05.mma(o.a, o.desc, o.desc2, o.b, scale_d=False), ptx.tcgen05.cp(o.a, o.desc),
            ptx.tcgen05.ld(o.w, o.a, shape="32x32b", count=4), ptx.tcgen05.st(o.a, o.w, shape="32x32b", count=4),
        ),
    ),
    "scale of D": (
        lambda o: ptx.tcgen05.mma(o.a, o.desc, o.desc2, o.b, pred_operand=o.p, scale_c=3),
        lambda o: ptx.inst.tcgen05.mma.cta_group__1.kind__f16(ptx.addr(ptx.inst.mov.b32(reg.scalar(b32), o.a)), o.desc, o.desc2, o.b, o.p, 3),
    ),
    "wgmma descriptors": (
        lambda o: (
            ptx.wgmma.make_descriptor(smem_base=o.a, leading_byte_offset=16, stride_byte_offset=1024, swizzle=1),
            ptx.wgmma.auto_descriptor(smem_base=o.a, dtype=bf16, shape=(64, 64), major="K"), ptx.wgmma.masked_descriptor(smem_addr=o.a),
        ),
        lambda o: (
            ptx.wgmma.make_descriptor(o.a, leading_byte_offset=16, stride_byte_offset=1024, swizzle=1),
            ptx.wgmma.auto_descriptor(o.a, dtype=bf16, shape=(64, 64), major="K"), ptx.wgmma.masked_descriptor(o.a),
        ),
    ),
    "smem": (
        lambda o: (smem.apply_swizzle(logical_offset=o.a, swizzle="128B"), smem.alloc_with_layout(bf16, (8, 64), "128B", name="t")),
        lambda o: (smem.apply_swizzle(o.a, "128B"), smem.alloc(bf16, (8, 64), "128B", 1024, "t")),
    ),
    "layouts of ldmatrix": (
        lambda o: [ptx.ldmatrix(dst=o.w, src=ptx.addr(o.a), layout=s) for s in ("m8n8.x4", ".m8n8.x4.trans", "x4.m8n8")],
        lambda o: [ptx.ldmatrix(dst=o.w, src=ptx.addr(o.a), trans=t) for t in (False, True, False)],
    ),
    "layouts of stmatrix": (
        lambda o: [ptx.stmatrix(smem=o.tile, regs=o.w, layout=s) for s in ("m8n8.x4", "x4.trans")],
        lambda o: [ptx.stmatrix(smem=o.tile, regs=o.w, trans=t) for t in (False, True)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", SPELLINGS)
def test_the_same_ptx_as_in_todays_names(family: str) -> None:
    former, today = (
        text(lambda x, y, call=call: call(Operands()), judge=not i) for i, call in enumerate(SPELLINGS[family])
    )
    assert former == today


SLOTS: dict[str, Callable[[Any, Any], Any]] = {
    "init": lambda o, m: ptx.mbarrier.init(m, 1),
    "arrive": lambda o, m: ptx.mbarrier.arrive(m),
    "expect": lambda o, m: ptx.mbarrier.arrive_expect_tx(m, 128),
    "wait": lambda o, m: ptx.mbarrier.wait(m, 0),
    "phased": lambda o, m: ptx.mbarrier.phased(m).wait(),
    "inst": lambda o, m: ptx.inst.mbarrier.init.shared.b64(m, 1),
    "addr": lambda o, m: ptx.inst.ld.shared.b64(o.desc, ptx.addr(m, 8)),
    "bulk": lambda o, m: ptx.cp.async_.bulk.load(o.tile, ptx.addr(o.long), 16, m),
    "tensor": lambda o, m: ptx.cp.async_.bulk.tensor_2d(dst=o.tile, src=o.desc, coord=(0, 0), mbar=m),
    "multicast": lambda o, m: ptx.cp.async_.bulk.tensor_2d(dst=o.tile, src=o.desc, coord=(0, 0), mbar=m, multicast_mask=3),
    "gather": lambda o, m: ptx.cp.async_.bulk.tensor.gather4_2d(o.tile, o.desc, (0, 1, 2, 3, 4), mbar=m),
    "tma": lambda o, m: ptx.tma.load_3d(o.tile, o.desc, 0, 0, mbar=m),
    "tma multicast": lambda o, m: ptx.tma.load_3d_multicast(o.tile, o.desc, 0, 0, m, 3),
    "commit": lambda o, m: ptx.tcgen05.commit(m),
    "cluster": lambda o, m: (ptx.cluster.arrive_remote(m, 1), ptx.cluster.arrive_multicast(m, 3), ptx.cluster.map_shared_u32(m, 1)),
}  # fmt: skip


@pytest.mark.parametrize("use", SLOTS)
def test_slots_of_a_ring_go_wherever_an_mbarrier_goes(use: str) -> None:
    """As its address does."""

    def traced(by_address: bool) -> Callable[..., None]:
        def body(x, y):
            o = Operands()
            ring = ptx.mbarrier.array(reg.from_(o.bars.name, u32), 0, 4)
            for slot in (ring[2], ring.at(o.a)):
                SLOTS[use](o, slot.address_operand() if by_address else slot)

        return body

    assert text(traced(False), judge=True) == text(traced(True))


def test_stmatrix_of_an_accumulator_counts_elements_and_warps() -> None:
    """`row_stride` in elements, `lane` the thread of the warpgroup: a bf16 matrix, transposed, against NumPy."""

    @kernel(arch="sm_90a", in_specs=[Tile(64, 32, f32)], out_specs=[Tile(32, 72, bf16)], grid=1, block=128)
    def transposed(x, y):
        px, py = ptx.global_ptrs(x, y)
        tid = ptx.special.tid.x()
        out = smem.alloc(bf16, (32, 72))
        frag = reg.array(f32, 16)
        row = ((tid >> 5) << 4) + ((tid & 31) >> 2)
        for i in range(16):  # the layout of wgmma's accumulator, PTX ISA 9.7.17.5.2
            column = (tid & 3) * 2 + (i % 2 + i // 4 * 8)
            ptx.inst.ld.global_.f32(frag[i], ptx.addr(px + ((row + i // 2 % 2 * 8) * 32 + column) * 4))
        ptx.stmatrix_x4_trans_f32_bf16(
            frag=frag, smem_base=out, lane=tid, row_stride=72, tmp_bf16=reg.array(f16, 8), tmp_pack=reg.array(b32, 4)
        )
        ptx.bar.sync(0)
        for i in range(32 * 72 // 2 // 128):
            v = reg.scalar(b32)
            ptx.inst.ld.shared.b32(v, ptx.addr(reg.from_(out.name, u32) + tid * 4, 512 * i))
            ptx.inst.st.global_.b32(ptx.addr(py + tid * 4, 512 * i), v)

    assembled(transposed)
    x = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    with pytest.warns(pyptx.diagnostics.SimulationWarning):  # the 8 elements of padding in each row are not written
        got = transposed(x)
    assert np.array_equal(got[:16, :64], x[:, :16].T.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("byte_offset", [16, 32, 48, 1024 + 16])
def test_masked_descriptors_keep_every_step_of_16_bytes(byte_offset: int) -> None:
    """PTX ISA 9.7.18.4.1: bits 0-13 of a descriptor are the address without its 4 lower bits."""

    @kernel(arch="sm_100a", in_specs=[Tile(1, u32)], out_specs=[Tile(2, u64)], grid=1, block=1)
    def described(x, y):
        px, py = ptx.global_ptrs(x, y)
        base = ptx.inst.ld.global_.u32(reg.scalar(u32), ptx.addr(px))
        ptx.inst.st.global_.b64(ptx.addr(py), ptx.tcgen05.masked_descriptor(base + byte_offset))
        ptx.inst.st.global_.b64(ptx.addr(py, 8), ptx.tcgen05.masked_descriptor(base, byte_offset=byte_offset))

    got = described(np.array([0x2000], np.uint32))
    want = (0x2000 + byte_offset) >> 4 | 0x4000404000010000
    assert [int(v) for v in got] == [want, want]


def test_instruction_descriptors_of_tf32() -> None:
    """PTX ISA 9.7.18.4.2: D is F32 (1 at bit 4), A and B are TF32 (2 at bits 7 and 10), N/8 at bit 17, M/16 at bit 24."""
    word = ptx.tcgen05.make_instr_desc_f16bf16_f32(ab_dtype="tf32", m=128, n=256)
    assert word == 1 << 4 | 2 << 7 | 2 << 10 | 32 << 17 | 8 << 24


def test_names_in_sibling_scopes() -> None:
    @kernel(arch="sm_80", in_specs=[], out_specs=[Tile(4, u32)], grid=1, block=1)
    def scoped(y):
        (py,) = ptx.global_ptrs(y)
        for i in range(4):
            with ptx.scope():
                total, more = reg.scalar(u32, init=0, name="total"), reg.scalar(pred)
                ptx.label("again")
                ptx.inst.add.u32(total, total, i + 1)
                ptx.setp("lt", u32, more, total, 5)
                ptx.bra("again", pred=more)
                ptx.inst.st.global_.u32(ptx.addr(py, 4 * i), total)

    assembled(scoped)
    assert scoped().tolist() == [5, 6, 6, 8]
    with pytest.raises(PTXError, match="again is placed twice"):
        text(lambda x, y: [ptx.label("again") for _ in range(2)])


def test_views_of_shared_memory_that_is_declared_elsewhere() -> None:
    @kernel(arch="sm_90a", in_specs=[], out_specs=[Tile(2, u32)], grid=1, block=1)
    def viewed(y):
        (py,) = ptx.global_ptrs(y)
        ptx.var("shared", b8, "pool", size=1024, align=128)
        table = smem.SharedAlloc("pool", u32, (4, 8), None, byte_offset=256)
        bars = smem.MbarrierArray(name="pool", count=2, byte_offset=8)
        assert (table.name, table.byte_offset, bars[1].byte_offset) == ("pool", 256, 16)
        ptx.mbarrier.init(bars[1], 1)
        table[1, 2] = 7
        ptx.inst.st.global_.u32(ptx.addr(py), smem.load(u32, ptx.addr("pool", 256 + 4 * (8 + 2))))
        ptx.inst.st.global_.u32(ptx.addr(py, 4), table[1][2])

    assert "mbarrier.init.shared::cta.b64 [pool+16], 1;" in assembled(viewed)
    assert viewed().tolist() == [7, 7]


def test_errors_are_value_errors_and_validation_errors() -> None:
    from pyptx.spec import PtxValidationError

    with pytest.raises(ValueError, match="coord="):
        text(lambda x, y: ptx.cp.async_.bulk.tensor_2d(dst=smem.alloc(bf16, (8, 8)), src=x, mbar=smem.mbarrier(1)[0]))
    with pytest.raises(ValueError, match="mbar="):
        text(lambda x, y: ptx.cp.async_.bulk.tensor_2d(dst=smem.alloc(bf16, (8, 8)), src=x, coord=(0, 0)))
    for call in (
        lambda x, y: ptx._emit("add", [".u32"], [reg.scalar(u32), 1]),
        lambda x, y: ptx.stmatrix(smem=ptx.addr(reg.scalar(u32)), regs=reg.array(b32, 4), layout="x3"),
        lambda x, y: ptx.inst.nosuch.u32(reg.scalar(u32)),
    ):
        with pytest.raises(PtxValidationError) as caught:
            text(call)
        assert caught.value.issues
        assert "test_meaning.py" in (caught.value.user_frame or "")
        assert isinstance(caught.value, ValueError)


def test_a_store_that_names_an_mbarrier() -> None:
    def body(x, y):
        tile, bar = smem.alloc(bf16, (4, 64)), smem.mbarrier(1)[0]
        ptx.cp.async_.bulk.tensor.scatter4_2d(y, tile, (0, 1, 2, 3, 4), mbar=bar)

    with pytest.warns(pyptx.diagnostics.TraceWarning, match="does not arrive at mbar"):
        text(body)


def test_a_ring_wraps_at_its_end() -> None:
    """`advance()` compares the cursor with `n_stages`, flips the phase where it wraps, and then moves the cursor on."""

    @kernel(arch="sm_80", in_specs=[], out_specs=[Tile(6, u32)], grid=1, block=1)
    def walked(y):
        (py,) = ptx.global_ptrs(y)
        ring = ptx.pipeline(n_stages=2, cursor=reg.scalar(u32, init=2), phase=reg.scalar(u32, init=1))
        for i in range(6):
            stage, phase = ring.advance()
            ptx.inst.st.global_.u32(ptx.addr(py, 4 * i), stage * 10 + phase)

    assert walked().tolist() == [0, 10, 1, 11, 0, 10]


def test_variables_for_calls() -> None:
    def body(x, y):
        ptx.var("param", b32, "param0")
        ptx.var("param", b8, "structure", size=16, align=8)
        ptx.inst.st.param.b32(ptx.addr("structure", 4), ptx.inst.mov.u32(reg.scalar(u32), 1))
        ptx.ld(u32, reg.scalar(u32), ptx.addr("param0"), space="param")
        ptx.inst.ld.param.u64(reg.scalar(u64), ptx.addr(x))

    # ptxas takes them around a call only, which a kernel of its own has not
    assert ".param .align 8 .b8 structure[16];" in text(body)


@pytest.mark.parametrize(("swizzle", "code"), [("NONE", 0), ("32B", 6), ("64B", 4), ("128B", 2), ("128B_BASE32B", 1)])
def test_swizzles_of_tcgen05_descriptors(swizzle: str, code: int) -> None:
    """PTX ISA 9.7.18.4.1: bits 61 to 63; bits 16 to 29 and 32 to 45 are the offsets in 16 bytes, bit 46 is the version."""

    def body(x, y):
        ptx.tcgen05.descriptor(reg.scalar(u32, init=0), stride_bytes=1024, leading_bytes=16, swizzle=swizzle)

    assert f"0x{1 << 16 | 64 << 32 | 1 << 46 | code << 61:016X};" in text(body)


def test_layouts_without_swizzle() -> None:
    for layout in (layout_for_a(dtype=bf16, m=64, k=8), layout_for_b(dtype=bf16, k=64, n=8)):
        assert (layout.tma_swizzle, layout.smem_swizzle) == ("NONE", None)

    def body(x, y):
        tile = smem.alloc(bf16, (64, 8), swizzle=layout.tma_swizzle)
        assert tile.swizzle is None
        offset = reg.scalar(u32, init=0)
        assert smem.apply_swizzle(offset, layout.tma_swizzle) is offset

    text(body)


def test_former_signatures_of_kernels() -> None:
    def body(x, y):
        ptx.ret()

    made = pyptx.Kernel(
        body, "sm_80", (8, 5), [Tile(4, s32)], [Tile(4, tf32)], (1, 1, 1), (32, 1, 1), (1, 1, 1), 0, None, False, (32,)
    )
    assert ".version 8.5" in made.ptx()
    assert ".reqntid 32" in made.ptx()


PROGRAM = """
from my_kernel import my_kernel
assert my_kernel.ptx().count(".visible .entry") == 1
assert "bar.sync" in my_kernel.ptx() == str(my_kernel.ptx())
assert my_kernel.block == (64,)
assert my_kernel.arch == "sm_80"
print(my_kernel, [d for d in my_kernel.check() if d.severity == "error"])
"""


def transpilable() -> str:
    @kernel(arch="sm_80", raw_params=[("u64", "p")], reqntid=(64,))
    def original():
        ptx.bar.sync(0)

    return original.ptx()


def test_transpiled_programs_hold_kernels(tmp_path: Path) -> None:
    """`python -m pyptx.codegen kernel.ptx --sugar --name my_kernel > my_kernel.py`, then `from my_kernel import my_kernel`."""
    (tmp_path / "kernel.ptx").write_text(transpilable())
    root = str(Path(pyptx.__file__).resolve().parent.parent)
    run: dict[str, Any] = {
        "cwd": tmp_path,
        "capture_output": True,
        "text": True,
        "env": {"PYTHONPATH": root, "PATH": ""},
    }
    words = [sys.executable, "-m", "pyptx.codegen", "kernel.ptx", "--sugar", "--name", "my_kernel"]
    done = subprocess.run(words, check=True, **run)
    (tmp_path / "my_kernel.py").write_text(done.stdout)
    done = subprocess.run([sys.executable, "-c", PROGRAM], **run)
    assert done.stderr == ""
    assert done.stdout == "Kernel(original, arch='sm_80') []\n"


@pytest.mark.parametrize("sugar", [False, True])
def test_every_way_to_transpile_leaves_kernels(sugar: bool) -> None:
    from pyptx.codegen.codegen import ptx_to_python

    names: dict[str, Any] = {"__name__": "transpiled"}
    exec(ptx_to_python(transpilable(), sugar=sugar, kernel_name="my_kernel"), names)
    found = names["my_kernel" if sugar else "original"]
    assert isinstance(found, pyptx.Kernel)
    assert found.ptx() == names["m"].ptx()
    assert (found.name, found.block) == ("original", (64,))


def test_kernels_of_modules_follow_the_module() -> None:
    from pyptx.modules import Module, addr, inst, load, op

    m = Module("sm_80", "8.5")

    @m.entry(params=["u64"], directives=[("reqntid", 32)])
    def doubled(p):
        at = op.cvta.to.global_.u64(load(p)) + op.mul.wide.u32(op.mov.u32(ptx.special.tid.x()), 4)
        inst.st.global_.u32(addr(at), op.ld.global_.u32(addr(at)) << 1)
        inst.ret()

    assert isinstance(doubled, pyptx.Kernel)
    assert (doubled.name, doubled.block, [p.name for p in doubled.parameters]) == (
        "doubled",
        (32,),
        ["doubled_param_0"],
    )
    x = np.arange(32, dtype=np.uint32)
    pyptx.simulate(doubled, x, grid=1)
    assert x.tolist() == [2 * i for i in range(32)]

    @m.entry
    def empty():
        inst.ret()

    assert doubled.ptx() == m.ptx() == empty.ptx()
    assert "empty" in doubled.ptx()
    pyptx.simulate(doubled, x, grid=1)
    assert x.tolist() == [4 * i for i in range(32)]
