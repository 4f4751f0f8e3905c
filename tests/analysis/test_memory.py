"""Bank conflicts, global traffic, shared memory and occupancy: known cases, and the tools of NVIDIA where
there are some."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx.analysis.banks import conflicts
from pyptx.analysis.occupancy import LIMITS, limits_of, occupancy
from pyptx.analysis.shared import ModuleNames, shared_use
from pyptx.analysis.traffic import warp_sectors
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.tools.ptxas import ToolNotFound, assemble

from .kernels import report_of

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"
LANES = np.arange(32, dtype=np.int64)


@pytest.mark.parametrize(
    ("addresses", "width", "expected"),
    [
        (LANES * 4, 4, (1, 1, 1)),
        (LANES * 0, 4, (1, 1, 1)),  # all lanes read one word: broadcast
        (LANES * 8, 4, (2, 2, 1)),
        (LANES * 128, 4, (32, 32, 1)),
        (LANES * 132, 4, (1, 1, 1)),  # a padded column
        (LANES // 2 * 4, 2, (1, 1, 1)),  # halves of words
        (LANES * 8, 8, (1, 2, 2)),
        (LANES * 16, 16, (1, 4, 4)),
        (LANES * 32, 16, (2, 8, 4)),
        (LANES * 128, 16, (8, 32, 4)),
        ((LANES * 128) ^ ((LANES % 8) * 16), 16, (1, 4, 4)),  # the swizzle of 128-byte rows
    ],
)
def test_conflicts(addresses: np.ndarray, width: int, expected: tuple[int, int, int]) -> None:
    assert conflicts(addresses, width) == expected
    assert conflicts(addresses + 4 * 17, width)[0] == expected[0]


def test_inactive_lanes_do_not_conflict() -> None:
    assert conflicts(LANES * 128, 4, LANES < 2) == (2, 2, 1)


@pytest.mark.parametrize(
    ("row", "ways"), [(128, 32), (132, 1), (136, 2), (144, 4)]
)  # strides of 32, 33, 34 and 36 words
def test_reading_a_column_of_a_tile(row: int, ways: int) -> None:
    report = report_of(
        f"""
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, tile;
	mad.lo.u32 %r3, %r1, {row}, %r2;
	ld.shared.f32 %f1, [%r3+12];
	ret;""",
        declarations=".shared .align 16 .b8 tile[8192];",
        directives=".reqntid 32",
    )
    (use,) = report.banks
    assert use.ways == ways
    assert [f.analysis for f in report.findings] == (["banks"] if ways > 1 else [])


def test_a_guard_and_a_branch_restrict_the_lanes() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, tile;
	mad.lo.u32 %r3, %r1, 128, %r2;
	setp.lt.u32 %p1, %r1, 4;
	@%p1 st.shared.f32 [%r3], %f1;
	setp.ge.u32 %p2, %r1, 2;
	@%p2 bra L;
	st.shared.f32 [%r3], %f1;
L:
	ret;""",
        declarations=".shared .align 16 .b8 tile[8192];",
        directives=".reqntid 32",
    )
    assert [use.ways for use in report.banks] == [4, 2]


def test_generic_address_of_a_shared_variable() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	mov.u64 %rd1, tile;
	cvta.shared.u64 %rd2, %rd1;
	mul.wide.u32 %rd3, %r1, 8;
	add.u64 %rd4, %rd2, %rd3;
	st.u32 [%rd4], %r1;
	ret;""",
        declarations=".shared .align 16 .b8 tile[8192];",
        directives=".reqntid 32",
    )
    assert [use.ways for use in report.banks] == [2]
    assert report.traffic.accesses == []


@pytest.mark.parametrize(
    ("addresses", "width", "expected"),
    [
        (LANES * 4, 4, (4, 4)),
        (LANES * 16, 16, (16, 16)),
        (LANES * 32, 4, (32, 4)),
        (LANES * 0, 4, (1, 1)),
        (LANES * 4 + 16, 4, (5, 4)),
        (LANES * 2, 2, (2, 2)),
    ],
)
def test_sectors(addresses: np.ndarray, width: int, expected: tuple[int, int]) -> None:
    assert warp_sectors(addresses, width) == expected


def test_traffic_of_a_loop() -> None:
    report = report_of(
        """
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 16;
	add.u64 %rd3, %rd1, %rd2;
	mov.u32 %r2, 0;
L:
	ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3];
	st.global.f32 [%rd3+4], %f1;
	add.u64 %rd3, %rd3, 2048;
	add.u32 %r2, %r2, 3;
	setp.ne.u32 %p1, %r2, 30;
	@%p1 bra L;
	ret;""",
        directives=".reqntid 128",
    )
    load, store = report.traffic.accesses
    assert report.trips == [10]
    assert (load.requested, load.sectors, load.per_request, load.times) == (2048, 64, 16, 10)
    assert (store.requested, store.per_request, store.ideal) == (512, 16, 4)
    assert (report.traffic.read, report.traffic.written, report.traffic.complete) == (20480, 5120, True)
    assert [f.analysis for f in report.findings] == ["traffic"]


def test_unknown_trip_count_is_said() -> None:
    report = report_of(
        """
	ld.param.u32 %r3, [n];
	ld.param.u64 %rd1, [p];
	mov.u32 %r2, 0;
L:
	ld.global.f32 %f1, [%rd1];
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p1, %r2, %r3;
	@%p1 bra L;
	ret;""",
        directives=".reqntid 128",
    )
    assert report.trips == [None]
    assert not report.traffic.complete
    assert report.traffic.accesses[0].requested == 512


def test_static_shared_memory_is_that_of_ptxas() -> None:
    compared = 0
    for path in sorted(DATA.glob("*.ptx")):
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        if ".shared" not in text or ".entry" not in text:
            continue
        module = pyptx.parse(text).body.block.first_op
        assert isinstance(module, ModuleOp)
        target = module.target.target
        try:
            result = assemble(text, target)
        except ToolNotFound:
            pytest.skip("no ptxas")
        for function in module.functions:
            usage = result.usage.get(function.symbol)
            if usage is None:
                continue
            compared += 1
            # ptxas prints what sm_90 and newer reserve as static too
            assert shared_use(function, ModuleNames(module)).size in (usage.shared_bytes, usage.shared_bytes - 1024), (
                path
            )
    assert compared


@pytest.mark.parametrize(
    ("target", "arguments", "ctas", "by"),
    [
        # 1024 threads of 64 registers are all 65536 of an SM
        ("sm_80", {"threads": 1024, "registers": 64}, 1, ("registers",)),
        ("sm_80", {"threads": 1024, "registers": 65}, 0, ("registers",)),
        # 64 warps of 32 registers fill sm_80 and sm_90, of which sm_86 has 48
        ("sm_90a", {"threads": 256, "registers": 32}, 8, ("warps", "registers")),
        ("sm_86", {"threads": 256, "registers": 32}, 6, ("warps",)),
        # small CTAs: sm_75 holds 16, sm_89 24
        ("sm_75", {"threads": 32, "registers": 16}, 16, ("CTAs",)),
        ("sm_89", {"threads": 32, "registers": 16}, 24, ("CTAs",)),
        # 228 KB, of which each CTA takes 1 KB for the system: two of 113 KB fit, of 114 KB one
        ("sm_90", {"threads": 128, "registers": 32, "shared": 113 << 10}, 2, ("shared memory",)),
        ("sm_90", {"threads": 128, "registers": 32, "shared": 114 << 10}, 1, ("shared memory",)),
        ("sm_90", {"threads": 128, "registers": 32, "shared": 228 << 10}, 0, ("shared memory",)),
        ("sm_70", {"threads": 128, "registers": 32, "shared": 96 << 10}, 1, ("shared memory",)),
        ("sm_120", {"threads": 1024, "registers": 40}, 1, ("warps", "registers")),
    ],
)
def test_occupancy(target: str, arguments: dict[str, int], ctas: int, by: tuple[str, ...]) -> None:
    found = occupancy(target, **arguments)
    assert (found.ctas, found.limited_by) == (ctas, by)


def test_every_target_from_sm_50_has_limits() -> None:
    from pyptx.dialects.ptx.target import FIRST_PTX, target_of

    for name in FIRST_PTX:
        number = target_of(name).number
        if number < 50:
            with pytest.raises(ValueError, match="sm_50"):
                limits_of(name)
        else:
            limits = limits_of(name)
            assert bool(limits.assumed) == ((number // 10, number % 10) not in LIMITS)
