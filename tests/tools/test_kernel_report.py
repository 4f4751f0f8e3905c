"""`Kernel.report()` knows the kernel's launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.hopper import gemm_highperf
from pyptx import PTXError, Tile, dim, kernel, ptx
from pyptx.analysis.occupancy import occupancy
from pyptx.types import f32


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


N = dim("N", runtime=True)


@kernel(arch="sm_80", in_specs=[Tile(N, f32)], out_specs=[Tile(N, f32)], grid=lambda N: N // 128, block=128)
def copy(x: Any, out: Any, *, N: Any = None) -> None:
    i = ptx.special.ctaid.x() * 128 + ptx.special.tid.x()
    (ptx.pointer(out) + i).store((ptx.pointer(x) + i).load())


def test_arrays_say_the_dimensions() -> None:
    x = np.zeros(512, np.float32)
    assert copy.report(x, x).launch.grid == copy.report(N=512).launch.grid == (4, 1, 1)
    with pytest.raises(PTXError, match="copy: N=7, and the arrays have N=512: leave it out"):
        copy.report(x, x, N=7)


@pytest.mark.parametrize(("card", "words"), [(5, "card must be the name of a card, .* not 5"), ("", "'' is not a known card"), (["A100", None], "not None")])  # fmt: skip
def test_the_card_of_a_report_is_a_name(card: Any, words: str) -> None:
    with pytest.raises(PTXError, match=words):
        copy.report(N=512, card=card)
