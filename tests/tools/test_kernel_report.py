"""`Kernel.report()` knows the kernel's launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.hopper import gemm_highperf
from pyptx.analysis.occupancy import occupancy


def test_the_page_and_the_text_know_the_launch(tmp_path: Path) -> None:
    built = gemm_highperf.build(512, 512, 512)
    launch = built.resolve_launch()
    report = built.report()
    assert report.launch == launch
    assert launch.smem > 48 << 10
    assert f"{launch.smem:,} dynamic" in str(report)
    report.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"{launch.smem:,}" in page
    o = report.analysis.occupancy
    assert o is not None
    assert o.shared == launch.smem
    assert o.by == occupancy("sm_90a", threads=384, registers=report.analysis.registers, shared=launch.smem).by
    assert "not known: what" not in str(report)
    known = {a.line: a.requested for a in report.analysis.traffic.accesses}
    assert not report.analysis.traffic.uncounted
    boxes = {t.tma_box: t.dtype.bits // 8 for t in built.specs if t.tma_box}
    sizes = {rows * columns * size for (rows, columns), size in boxes.items()}
    assert set(known.values()) == sizes


def test_usage_has_the_dynamic_memory() -> None:
    pytest.importorskip("nvidia.cu13", reason="needs ptxas")
    built = gemm_highperf.build(512, 512, 512)
    usage = built.usage()
    assert usage.shared_bytes < 1 << 10
    assert usage.dynamic_shared_bytes == built.resolve_launch().smem
