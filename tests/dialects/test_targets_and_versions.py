"""Instructions of PTX 9.4 and 9.5 that move data: ours and ptxas's verdicts on every target, one line of each form."""

from __future__ import annotations

import pytest

from benchmarks.fuzz_verdicts import TARGETS, asked_deeply, ours
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version, target_of
from pyptx.runtime.ptxas import ToolNotFound, find_tool

VERSIONS = ("9.2", "9.3", "9.4", "9.5")
OLD = ("sm_50", "sm_89")
"""Two of the targets before sm_90, where there is none of these."""
BYTES, REPORT = "mbarrier::complete_tx::bytes", "mbarrier::report::fabric"
LINES = (
    f"cp.async.bulk.relaxed.gpu.shared::cta.global.{BYTES}.ignore_oob.b128 [%r1], [%d1], 64, 1, 2, [%r2];",
    f"cp.async.bulk.relaxed.sys.shared::cluster.global.{BYTES}.multicast::cluster.b128 [%r1], [%d1], 64, [%r2], %h1;",
    f"cp.async.bulk.shared::cluster.global.{BYTES}.multicast::cluster::16b [%r1], [%d1], 64, [%r2], %h1;",
    f"cp.async.bulk.relaxed.cluster.shared::cluster.shared::cta.{BYTES}.b128 [%r1], [%r3], 64, [%r2];",
    "cp.async.bulk.relaxed.cta.global.shared::cta.bulk_group.cp_mask.b128 [%d1], [%r1], 64, {%h1};",
    "cp.async.bulk.global.shared::cta.bulk_group.b128 [%d1], [%r1], 64;",
    "multimem.cp.async.bulk.relaxed.sys.global.shared::cta.bulk_group.b128 [%d1], [%r1], 64;",
    f"cp.async.bulk.tensor.1d.shared::cluster.global.{BYTES}.multicast::cluster::16b [%r1], [%d1, {{%r2}}], [%r3], %h1;",
    "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs::w.bulk_group [%d1, {%r1, %r2, %r3}], [%r4];",
    "cp.reduce.async.bulk.tensor.3d.global.shared::cta.or.im2col_no_offs::w.bulk_group [%d1, {%r1, %r2, %r3}], [%r4];",
    "applypriority.async.bulk.tensor.2d.bulk_group.tile::gather4.L2::evict_normal [%d1, {%r1, %r2, %r3, %r4, %r5}];",
    "applypriority.async.bulk.tensor.1d.global.bulk_group.L2::evict_normal.override::global_address.override::global_dim"
    " [%d1, %d2, {%h1}, {0}];",
    "ld.proxy::readonly.v2.f32 {%f1, %f2}, [%d1];",
    "ld.global.nc.proxy::readonly.L2::evict_last.v4.b64 {%d1, _, %d3, %d4}, [%d5].unified;",
    "createpolicy.range.fabric.L2::evict_last.L2::evict_first.b64 %d1, [%r1, %d2], 16, %r2;",
    f"fabric.try_pullred.async.multimem.shared::cta.{BYTES}.{REPORT}.max.e4m3.sync [%r1], [%r2, %d2], %r3, [%r4], -1;",
    f"fabric.try_pullred.async.multimem.shared::cta.{BYTES}.{REPORT}.relaxed.sys.add.acc::f16.e5m2.sync"
    " [%r1], [%r2, %d2], %r3, [%r4], -1;",
    f"fabric.try_pullred.async.multimem.shared::cta.{BYTES}.{REPORT}.add.acc::f32.e5m2.sync"
    " [%r1], [%r2, %d2], %r3, [%r4], -1;",
    "tensormap.replace.tile.global_address.alloc_same.b1024.b64 [%d1], %d2;",
    "tensormap.replace.tile.alloc_large.shared::cta.b1024 [%r1];",
    "spcompress.b8.b2.sp::2:4.x1 {%r1}, {%r2}, {%r3, %r4}, %r5;",
    "spcompress.b16.b4.sp::2:4.x2 {%r1}, {%r2, %r6}, {%r3, %r4, %r5, %r7}, %r5;",
    "spdecompress.b8.b2.sp::2:4.x1 {%r1}, {%r2}, {%r3};",
    "spdecompress.b16.b4.sp::1:16.x1 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r8}, {%r9};",
)


@pytest.mark.parametrize("version", VERSIONS)
def test_ours_are_those_of_ptxas(version: str) -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    accepted: set[str] = set()
    for target in TARGETS:
        if FIRST_PTX[target] > parse_version(version) or (target_of(target).number < 90 and target not in OLD):
            continue
        theirs, mine = asked_deeply(list(LINES), version, target), ours(list(LINES), version, target)
        for line, refused, wrong in zip(LINES, theirs, mine, strict=True):
            assert bool(wrong) == bool(refused), (version, target, line, refused, wrong)
        accepted.update(line for line, refused in zip(LINES, theirs, strict=True) if not refused)
    if version == "9.5":
        assert accepted == set(LINES)


def test_sizes_of_compressed_vectors() -> None:
    """Every combination of modifiers: which exist and how many registers each vector has."""
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    names = lambda n, first: "{" + ", ".join(f"%r{first + i}" for i in range(n)) + "}"  # noqa: E731
    lines: list[str] = []
    for bits in (8, 16):
        for index in (2, 4):
            for repeat in (1, 2, 4, 8, 16, 32, 64):
                meta = -(-repeat * index // bits)
                lines += [
                    f"spcompress.b{bits}.b{index}.sp::2:4.x{repeat}"
                    f" {names(m, 0)}, {names(repeat, 100)}, {names(2 * repeat, 200)}, %r1;"
                    for m in (meta, meta + 1)
                ]
                for factor in "1:2 1:4 1:8 1:16 2:4 2:8 2:16 4:8 4:16 4:4 8:16".split():
                    kept, size = map(int, factor.split(":"))
                    dense, meta, few = (-(-n * repeat // 32) for n in (size * bits, kept * index, kept * bits))
                    lines += [
                        f"spdecompress.b{bits}.b{index}.sp::{factor}.x{repeat}"
                        f" {names(min(n, 128), 0)}, {names(meta, 200)}, {names(few, 300)};"
                        for n in (dense, dense + 1)
                    ]
    theirs, mine = asked_deeply(lines, "9.4", "sm_107a"), ours(lines, "9.4", "sm_107a")
    different = [line for line, a, b in zip(lines, theirs, mine, strict=True) if bool(a) != bool(b)]
    assert not different, different[:3]
    assert sum(not a for a in theirs) > 150
