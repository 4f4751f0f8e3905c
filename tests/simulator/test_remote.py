"""st.async, red.async, masked bulk copies, multimem on one device, multicast arrivals, cluster launch control."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx.simulator import LoadedKernel, load


def kernel(body: str, target: str = "sm_100a", version: str = "9.3") -> LoadedKernel:
    return load(f""".version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .pred %p<10>; .reg .b32 %r<30>; .reg .b64 %rd<30>; .reg .f32 %f<9>; .reg .b128 %q<2>; .reg .f64 %d<4>;
    .shared .align 128 .b8 box[1024]; .shared .align 8 .b64 bar; .shared .align 16 .b8 answer[16];
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive; barrier.cluster.wait;
{body}
    ret;
}}
""")["k"]


def waiting(phase: str = "0") -> str:
    return f"""
$wait:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], {phase};
    @!%p2 bra $wait;"""


@pytest.mark.parametrize(
    ("words", "size", "values"),
    [("b32", 4, "%r5"), ("v2.b32", 8, "{%r5, %r6}"), ("b64", 8, "%rd5"), ("v4.f32", 16, "{%f1, %f2, %f3, %f4}")],
)
def test_stores_to_the_other_cta(words: str, size: int, values: str) -> None:
    """Each of 32 threads of each CTA writes into the other CTA, whose mbarrier counts the bytes."""
    source = np.random.default_rng().integers(0, 1 << 20, (2, 32, 4)).astype(np.uint32)
    out = np.zeros((2, 32, size // 4), np.uint32)
    body = f"""
    mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %rd3, %r3, 16; add.s64 %rd3, %rd1, %rd3;
    ld.global.v2.b32 {{%r5, %r6}}, [%rd3]; ld.global.b64 %rd5, [%rd3]; ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd3];
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {32 * size};
    xor.b32 %r7, %r2, 1; mov.u32 %r8, box; mad.lo.u32 %r8, %r1, {size}, %r8; mov.u32 %r9, bar;
    mapa.shared::cluster.u32 %r8, %r8, %r7; mapa.shared::cluster.u32 %r9, %r9, %r7;
    barrier.cluster.arrive; barrier.cluster.wait;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{words} [%r8], {values}, [%r9];
    {waiting()}
    mov.u32 %r8, box; mad.lo.u32 %r8, %r1, {size}, %r8; mul.wide.u32 %rd6, %r3, {size}; add.s64 %rd6, %rd2, %rd6;
    {"".join(f"ld.shared.b32 %r10, [%r8+{4 * i}]; st.global.b32 [%rd6+{4 * i}], %r10;" for i in range(size // 4))}
    barrier.cluster.arrive; barrier.cluster.wait;"""
    kernel(body, "sm_90a").simulate(source, out, grid=2, block=32, cluster=2)
    assert np.array_equal(out, source[::-1, :, : size // 4])


@pytest.mark.parametrize(("operation", "kind", "function"), [("add", "u32", np.add), ("max", "s32", np.maximum), ("xor", "b32", np.bitwise_xor), ("add", "u64", np.add)])  # fmt: skip
def test_reductions_in_the_other_cta(operation: str, kind: str, function: Any) -> None:
    """All threads of CTA 0 combine their values into one word of CTA 1."""
    wide = kind == "u64"
    dtype = np.dtype({"u32": "u4", "s32": "i4", "b32": "u4", "u64": "u8"}[kind])
    source = np.random.default_rng().integers(0, 1 << 30, 33).astype(dtype)
    out = np.zeros(1, dtype)
    size = dtype.itemsize
    register = "%rd5" if wide else "%r5"
    body = f"""
    mul.wide.u32 %rd3, %r1, {size}; add.s64 %rd3, %rd1, %rd3; ld.global.b{8 * size} {register}, [%rd3];
    setp.eq.u32 %p3, %r2, 1; and.pred %p4, %p1, %p3;
    @%p4 ld.global.b{8 * size} {register}, [%rd1+{32 * size}];
    @%p4 st.shared.b{8 * size} [box], {register};
    @%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {32 * size};
    mov.u32 %r8, box; mov.u32 %r9, bar; mov.u32 %r7, 1;
    mapa.shared::cluster.u32 %r8, %r8, %r7; mapa.shared::cluster.u32 %r9, %r9, %r7;
    barrier.cluster.arrive; barrier.cluster.wait;
    @!%p3 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}.{kind} [%r8], {register}, [%r9];
    @!%p3 bra $end;
    {waiting()}
    ld.shared.b{8 * size} {register}, [box];
    @%p1 st.global.b{8 * size} [%rd2], {register};
$end:
    barrier.cluster.arrive; barrier.cluster.wait;"""
    kernel(body, "sm_90a").simulate(source, out, grid=2, block=32, cluster=2)
    assert out[0] == function.reduce(source, dtype=dtype)


@pytest.mark.parametrize(
    ("store", "mask"),
    [
        ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask", "%h"),
        ("cp.async.bulk.relaxed.sys.global.shared::cta.bulk_group.cp_mask.b128", "{%h}"),
        ("multimem.cp.async.bulk.relaxed.cta.global.shared::cta.bulk_group.cp_mask.b128", "%h"),
    ],
)
def test_masked_bulk_store(store: str, mask: str) -> None:
    source = np.random.default_rng().integers(1, 255, 64).astype(np.uint8)
    out = np.zeros(64, np.uint8)
    body = f"""
    mov.u32 %r5, 0x8011;
    .reg .b16 %h; cvt.u16.u32 %h, %r5;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd1], 64, [bar];
    {waiting()}
    {store} [%rd2], [box], 64, {mask};
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    kernel(body).simulate(source, out, grid=1, block=1)
    keep = np.tile([i in (0, 4, 15) for i in range(16)], 4)
    assert np.array_equal(out, np.where(keep, source, 0))


def test_bulk_load_past_the_ends_of_an_array() -> None:
    """The last 12 bytes of the copy are not in the array."""
    source = np.random.default_rng().integers(1, 255, 68).astype(np.uint8)
    out = np.zeros(64, np.uint8)
    body = f"""
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 48;
    mov.u32 %r5, 0; mov.u32 %r6, 12; add.s64 %rd3, %rd1, 32;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [box], [%rd3], 48, %r5, %r6, [bar];
    {waiting()}
    ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [box]; st.global.v4.b32 [%rd2], {{%r10, %r11, %r12, %r13}};
    ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [box+16]; st.global.v4.b32 [%rd2+16], {{%r10, %r11, %r12, %r13}};
    ld.shared.b32 %r10, [box+32]; st.global.b32 [%rd2+32], %r10;"""
    kernel(body).simulate(source, out, grid=1, block=1)
    assert np.array_equal(out[:36], source[32:])


@pytest.mark.parametrize(
    ("load_", "store_", "dtype"),
    [
        ("multimem.ld_reduce.weak.global.add.f32 %f1, [%rd3];", "multimem.st.weak.global.f32 [%rd4], %f1;", np.float32),
        ("multimem.ld_reduce.relaxed.sys.global.min.s32 %r5, [%rd3];", "multimem.red.relaxed.gpu.global.add.u32 [%rd4], %r5;", np.uint32),
        ("multimem.ld_reduce.weak.global.add.acc::f32.bf16x2 %r5, [%rd3];", "multimem.red.global.add.bf16x2 [%rd4], %r5;", ml_dtypes.bfloat16),
    ],
)  # fmt: skip
def test_multimem_on_one_device(load_: str, store_: str, dtype: Any) -> None:
    """One memory follows the address: reading is a load, reducing into it an addition."""
    source = np.random.default_rng().integers(0, 30, 64 if dtype == ml_dtypes.bfloat16 else 32).astype(dtype)
    out = np.random.default_rng().integers(0, 30, source.size).astype(dtype)
    want = source if ".st." in store_ else (source + out).astype(dtype)
    body = f"mul.wide.u32 %rd5, %r1, 4; add.s64 %rd3, %rd1, %rd5; add.s64 %rd4, %rd2, %rd5; {load_} {store_}"
    kernel(body).simulate(source, out, grid=1, block=32)
    assert np.array_equal(out, want)


def test_multicast_arrivals() -> None:
    """CTA 2 arrives, with 64 expected bytes, at the mbarriers of CTAs 1 and 3; only these change their phase."""
    out = np.zeros(4, np.uint32)
    body = """
    mov.u32 %r5, 10; mov.u32 %r6, 64; setp.eq.u32 %p3, %r2, 2;
    @%p3 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [bar], %r6, %r5;
    @%p3 mbarrier.complete_tx.relaxed.cluster.shared::cluster.multicast::cluster::32b.b64 [bar], %r6, %r5;
    barrier.cluster.arrive; barrier.cluster.wait;
    mbarrier.test_wait.parity.shared::cta.b64 %p4, [bar], 0; selp.u32 %r7, 1, 0, %p4;
    mul.wide.u32 %rd3, %r2, 4; add.s64 %rd3, %rd2, %rd3; st.global.u32 [%rd3], %r7;"""
    kernel(body, "sm_107a", "9.4").simulate(0, out, grid=4, block=1, cluster=4)
    assert out.tolist() == [0, 1, 0, 1]


def test_multicast_arrivals_that_drop_out() -> None:
    """CTA 2 arrives at CTAs 1 and 3 and takes no part in later phases: there the second phase waits for one less."""
    out = np.zeros((4, 2), np.uint32)
    body = """
    @%p1 mbarrier.inval.shared.b64 [bar]; @%p1 mbarrier.init.shared.b64 [bar], 2; mov.u32 %r5, 10; mov.u32 %r6, 1;
    fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
    setp.eq.u32 %p3, %r2, 2;
    @%p3 mbarrier.arrive_drop.release.cluster.shared::cluster.multicast::cluster::32b.b64 _, [bar], %r6, %r5;
    barrier.cluster.arrive; barrier.cluster.wait;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.test_wait.parity.shared::cta.b64 %p4, [bar], 0; selp.u32 %r7, 1, 0, %p4;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    and.b32 %r8, %r2, 1; mbarrier.test_wait.parity.shared::cta.b64 %p4, [bar], %r8; selp.u32 %r9, 1, 0, %p4;
    mul.wide.u32 %rd3, %r2, 8; add.s64 %rd3, %rd2, %rd3; st.global.v2.u32 [%rd3], {%r7, %r9};"""
    kernel(body, "sm_107a", "9.4").simulate(0, out, grid=4, block=1, cluster=4)
    # elsewhere the first phase waits for both arrivals
    assert out.tolist() == [[0, 1], [1, 1], [0, 1], [1, 1]]


@pytest.mark.parametrize(("grid", "cluster"), [((7, 3, 2), 1), ((8, 3), 2), (1, 1)])
def test_cluster_launch_control(grid: Any, cluster: int) -> None:
    """Clusters that run take over those that have not begun: each CTA of the grid is worked on exactly once."""
    sizes = (*np.atleast_1d(grid), 1, 1)[:3]
    total = int(np.prod(sizes))
    out = np.zeros(total + 1, np.uint32)
    body = f"""
    mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ctaid.y; mov.u32 %r12, %ctaid.z; mov.u32 %r20, 0; mov.u32 %r21, %cluster_ctarank;
    @%p1 atom.global.add.u32 %r5, [%rd2+{4 * total}], 1;
$work:
    mad.lo.u32 %r13, %r12, {sizes[1]}, %r11; mad.lo.u32 %r13, %r13, {sizes[0]}, %r10;
    mul.wide.u32 %rd3, %r13, 4; add.s64 %rd3, %rd2, %rd3;
    @%p1 red.global.add.u32 [%rd3], 1;
    barrier.cluster.arrive; barrier.cluster.wait;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
    setp.eq.u32 %p5, %r21, 0; and.pred %p5, %p5, %p1;
    barrier.cluster.arrive; barrier.cluster.wait;
    @%p5 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [answer], [bar];
    {waiting("%r20")}
    xor.b32 %r20, %r20, 1;
    ld.shared.b128 %q0, [answer];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p6, %q0;
    @!%p6 bra $end;
    clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {{%r10, %r11, %r12, _}}, %q0;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r14, %q0;
    add.u32 %r10, %r14, %r21;
    bra $work;
$end:"""
    kernel(body).simulate(0, out, grid=grid, block=32, cluster=cluster if cluster > 1 else None)
    assert (out[:total] == 1).all()
    if total > 3:
        assert out[total] < total  # some were cancelled before they began
