"""cp.async, bulk and tensor copies, tensor maps, cluster launch control, fabric."""

import pytest

from tests.dialects.judge import refusal, roles

LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.cg.shared.global.L2::128B [%r0], [%d0], 16;",
        "cp.async.ca.shared::cta.global.L2::cache_hint [%r0], [%d0], 8, 4, %d1;",
        "cp.async.ca.shared.global [%r0], [%d0], 4, !%p1;",
        "cp.async.wait_group 2;",
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r0];",
        f"{BULK}.multicast::cluster.L2::cache_hint [%r0], [%d0], %r1, [%r2], %h1, %d1;",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d0], [%r0], 64, %h0;",
        "cp.async.bulk.wait_group.read 0;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%d0], [%r0], %r1;",
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.relaxed.cluster.inc.u32"
        " [%r0], [%r1], 32, [%r2];",
        "multimem.cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r0], %r1;",
        f"{LOAD} [%r0], [%d0, {{%r1, 0}}], [%r2];",
        f"{LOAD}.multicast::cluster.cta_group::2.L2::cache_hint [%r0], [%d0, {{%r1, %r2}}], [%r3], 3, %d1;",
        "cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes"
        " [%r0], [%d0, {%r1, %r2, %r3, %r4}], [%r5], {%h1, %h2};",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%d0, {%r1, %r2, %r3, %r4, %r5}], [%r6];",
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%d0, {%r1}], [%r2];",
        "cp.async.bulk.prefetch.tensor.5d.L2.global.im2col::w [%d0, {%r1, %r2, %r3, %r4, %r5}], {%h1, %h2};",
        "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r0], 1, %d0;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%r0], 128;",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r0, %r1, _, _}, %q0;",
        "fabric.try_get.async.shared::cta.mbarrier::complete_tx::bytes.mbarrier::report::fabric.relaxed.sys.b128"
        " [%r0], [%r1, %d0], %r2, [%r3];",
    ],
)
def test_legal(text: str):
    assert refusal(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cp.async.cg.shared.global [%r0], [%d0], 8;", "size must be 16 with .cg, not 8"),
        ("cp.async.ca.shared.global [%r0], [%d0], 12;", "must be one of 4, 8, 16, not 12"),
        ("cp.async.ca.shared.global [%r0], [%d0], 4, 5;", "source_size must be in 0..4"),
        ("cp.async.ca.shared.global [%r0], [%d0], 4, %d1;", ""),
        ("cp.async.wait_group %r0;", "must be a constant, not a register"),
        (f"{BULK} [%r0], [%d0], 24, [%r2];", "a multiple of 16"),
        (f"{BULK} [%r0], [%d0], %r1, [%r2], %d1;", ""),
        (f"{BULK}.multicast::cluster [%r0], [%d0], %r1, [%r2], %r3;", "mask must be .u16"),
        (f"{BULK}.multicast::cluster [%r0], [%d0], %r1, [%r2], 65536;", "mask must be in 0..65535"),
        ("cp.async.bulk.global.shared::cta.mbarrier::complete_tx::bytes [%d0], [%r0], %r1, [%r2];", ""),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%d0], [%r0], %r1;", "noftz"),
        (f"{LOAD} [%r0], [%d0, {{%r1}}], [%r2];", "must have 2 elements, not 1"),
        (f"{LOAD} [%r0], [%d0, {{%h1, %h2}}], [%r2];", ".s32"),
        (f"{LOAD} [%r0], [%d0+64, {{%r1, %r2}}], [%r2];", "takes no offset"),
        ("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d0, %r1], [%r2];", "in braces"),
        ("cp.async.bulk.tensor.2d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%r0], [%d0], [%r2];", ""),
        ("tensormap.replace.tile.elemtype.global.b1024.b32 [%d0], %r0;", "must be a constant"),
        ("tensormap.replace.tile.box_dim.global.b1024.b32 [%d0], 5, %r0;", "index must be in 0..4"),
        ("tensormap.replace.tile.rank.shared.b1024.b32 [%r0], 1;", "no modifier .shared"),
        ("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %r0, %q0;", "a .pred register"),
    ],
)
def test_illegal(text: str, reason: str):
    message = refusal(text)
    assert message
    assert reason in message


@pytest.mark.parametrize(
    ("text", "version", "target", "reason"),
    [
        ("cp.async.ca.shared.global [%r0], [%d0], 4, %p1;", "7.4", "sm_80", "PTX 7.5"),
        ("cp.async.ca.shared.global [%r0], [%d0], 4;", "8.0", "sm_75", "sm_80 or newer"),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r0], [%d0], 16, [%r1];",
            "8.5", "sm_90", "PTX 8.6",
        ),
        (f"{LOAD}.cta_group::1 [%r0], [%d0, {{%r1, %r2}}], [%r3];", "8.6", "sm_120a", "sm_100a"),
        (
            "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
            " [%r0], [%d0, {%r1, %r2, %r3, %r4, %r5}], [%r6];",
            "8.6", "sm_90a", "sm_100 or newer",
        ),
        (f"{LOAD}.override::global_address [%r0], [%d0, %d1, {{%r1, %r2}}], [%r3];", "9.5", "sm_100a", "sm_107a"),
        ("tensormap.replace.tile.rank.global.b1024.b32 [%d0], 1;", "8.6", "sm_90", "sm_90a"),
        ("tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%d0], 4;", "9.5", "sm_100a", "sm_103a"),
        ("clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];", "8.6", "sm_90a",
         "sm_100 or newer"),
        ("cp.async.bulk.wait_group.sync_restrict::proxy::async 0;", "9.4", "sm_90", "PTX 9.5"),
    ],
)  # fmt: skip
def test_availability(text: str, version: str, target: str, reason: str):
    assert reason in refusal(text, version, target)


def test_roles():
    assert roles(f"{LOAD} [%r0], [%d0, {{%r1, %r2}}], [%r3];") == "[$], [$, {$, $}], [$]"
    assert roles("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p0, %q0;") == "=, $"
