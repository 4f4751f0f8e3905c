"""`simulate(..., numerics=True)`: what the sums of matrix instructions lose, by line."""

from __future__ import annotations

import io
import json
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pyptx
from examples.blackwell import primitives
from pyptx import numerics
from pyptx.diagnostics import SimulationError
from pyptx.simulator import Report, load
from pyptx.tools.cli import main

from .sanitizer.kernels import HEAD
from .sanitizer.wgmma_pieces import BEGIN, DESCRIPTORS, END, FILL, PROXY, ZERO
from .test_hardware_sums import MMA, fragments


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal(s) * 2.0 ** rng.integers(-6, 6, s) for s in ((16, 16), (16, 8)))
    return a.astype(np.float16), b.astype(np.float16), rng.standard_normal((16, 8)).astype(np.float32)


def run(text: str = MMA, block: int = 32, arch: str | None = None, arithmetic: str = "hardware") -> Report:
    of_a, of_b, d = fragments(*operands())
    parts = [np.concatenate([x] * (block // 32)) for x in (of_a, of_b, d)]
    return load(text)["k"].simulate(*parts, grid=1, block=block, numerics=True, arch=arch, arithmetic=arithmetic)


def test_mma_against_exact_sums() -> None:
    a, b, c = operands()
    report = run()
    assert report.numerics is not None
    (line,) = report.numerics.lines.values()
    assert (line.line, line.kind, line.fraction, line.sums) == (13, "mma.k16.f32.f16.f16", 24, 128)
    d = numerics.dot(a, b, c, kind="mma.m16n8k16.f32.f16.f16.f32", arch="sm_80")
    errors, sums, ulps = 0.0, 0.0, 0.0
    for i, j in np.ndindex(16, 8):
        true = Fraction(float(c[i, j])) + sum(Fraction(float(a[i, k])) * Fraction(float(b[k, j])) for k in range(16))
        error = abs(Fraction(float(d[i, j])) - true)
        largest = np.float32(max(abs(float(true)), abs(float(d[i, j]))))
        errors += float(error) ** 2
        sums += float(true) ** 2
        ulps = max(ulps, float(error / Fraction(float(np.spacing(largest)))))
    assert line.worst_ulps == pytest.approx(ulps, rel=1e-6)
    assert line.relative_error == pytest.approx((errors / sums) ** 0.5, rel=1e-6)
    assert line.overflowed == line.not_finite == 0
    others = {
        arch: np.count_nonzero(numerics.dot(a, b, c, kind="mma.m16n8k16.f32.f16.f16.f32", arch=arch) != d)
        for arch in ("sm_89", "sm_90", "sm_100", "sm_120")
    }
    assert dict(line.differ) == {arch: n for arch, n in others.items() if arch != "sm_89"}
    assert others["sm_90"] > 0 and others["sm_89"] == 0


def test_table_and_data() -> None:
    report = run(arch="sm_90")
    assert report.numerics is not None
    (line,) = report.numerics.lines.values()
    text = str(report.numerics)
    assert text.splitlines()[0].startswith("numerics on sm_90")
    assert "13: mma.k16.f32.f16.f16" in text
    assert "on sm_80, sm_89" in text and "sm_100" not in text
    assert text in str(report)
    data = json.loads(report.numerics.json())
    assert data == report.numerics.data()
    assert data["lines"][0]["sums"] == 128 and data["lines"][0]["differ"] == dict(line.differ)
    assert data["relative_error"] == data["lines"][0]["relative_error"] == line.relative_error


def test_unrolled_code_is_one_row() -> None:
    """Two instructions on one line of the text: a row for both, and each on its own in the data."""
    product = next(line for line in MMA.split("\n") if "mma.sync" in line)
    report = run(MMA.replace(product, f"{product} {product}"))
    assert report.numerics is not None
    first, second = report.numerics.lines.values()
    (row,) = [x for x in str(report.numerics).splitlines() if "mma.k16" in x]
    assert row.split()[:2] == ["256", f"{max(first.worst_ulps, second.worst_ulps):.3g}"]
    cut = f"{(first.cut + second.cut) / 256:.1%}"
    assert cut in row and [x["sums"] for x in report.numerics.data()["lines"]] == [128, 128]
    assert f"{(first.differ['sm_90'] + second.differ['sm_90']) / 256:.1%} on sm_90, sm_100, sm_120" in str(
        report.numerics
    )


def test_warps_that_skip_it_do_not_count() -> None:
    guarded = MMA.replace("mma.sync", "@%p0 mma.sync").replace(
        "mov.u32 %t0, %laneid;", ".reg .pred %p0; mov.u32 %t1, %tid.x; setp.lt.u32 %p0, %t1, 32;\nmov.u32 %t0, %laneid;"
    )
    report = run(guarded, block=96)
    assert report.numerics is not None
    (line,) = report.numerics.lines.values()
    assert line.sums == 128
    alone = run()
    assert alone.numerics is not None
    assert line.worst_ulps == next(iter(alone.numerics.lines.values())).worst_ulps


def test_overflow() -> None:
    text = MMA.replace("f32.f16.f16.f32", "f16.f16.f16.f16").replace(
        "{%f0, %f1, %f2, %f3}, {%r0", "{%t1, %t2}, {%r0"
    ).replace("{%r4, %r5}, {%f0, %f1, %f2, %f3}", "{%r4, %r5}, {%t1, %t1}").replace("mov.u32 %t0,", "mov.b32 %t1, 0; mov.u32 %t0,")  # fmt: skip
    large, none = np.full((32, 8), 100, np.float16), np.zeros((32, 4), np.float32)
    large[0, 0] = np.inf  # an element of row 0
    report = load(text)["k"].simulate(large, np.full((32, 4), 100, np.float16), none, grid=1, block=32, numerics=True)
    assert report.numerics is not None
    (line,) = report.numerics.lines.values()
    assert (line.sums, line.overflowed, line.not_finite, line.relative_error) == (128, 120, 8, 0.0)
    assert "8 with operands that are not finite" in str(report.numerics)


def test_wgmma_with_the_source_line() -> None:
    body = ZERO + FILL + PROXY + DESCRIPTORS + BEGIN
    product = "    wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%f0, %f1, %f2, %f3}, %rd10, %rd12, 0, 1, 1;\n"
    text = (
        HEAD.replace(".address_size 64\n", '.address_size 64\n.file 1 "gemm.py"\n')
        + body
        + ".loc 1 42 5\n"
        + product
        + END
    )
    source = np.zeros(1024, np.uint32)
    report = load(text + "ret;\n}\n")["k"].simulate(source, source.copy(), grid=1, block=128, numerics=True)
    assert report.numerics is not None
    (line,) = report.numerics.lines.values()
    assert (line.kind, line.fraction, line.sums, dict(line.differ)) == ("wgmma.k32.f32.e4m3.e5m2", 13, 512, {})
    assert line.source == "gemm.py:42:5"
    assert "wgmma.k32.f32.e4m3.e5m2, gemm.py:42:5" in str(report.numerics)


def test_tcgen05() -> None:
    kernel = primitives.multiply()
    rng = np.random.default_rng(1)
    arrays = [t.random(rng) for t in (*(kernel.in_specs or ()), *(kernel.out_specs or ()))]
    report = pyptx.simulate(kernel, *arrays, check=False, numerics=True)
    assert report.numerics is not None
    lines = report.numerics.lines.values()
    assert lines and all(x.kind.startswith("tcgen05.k16.f32.bf16") and x.sums % 128 == 0 for x in lines)
    assert 0 < report.numerics.relative_error < 1e-6


def test_other_arithmetic_has_no_losses() -> None:
    with pytest.raises(
        SimulationError, match="numerics=True tells what the sums of arithmetic=\"hardware\" lose, not those of 'exact'"
    ):
        run(arithmetic="exact")


def test_not_asked_for() -> None:
    of_a, of_b, d = fragments(*operands())
    assert load(MMA)["k"].simulate(of_a, of_b, d, grid=1, block=32).numerics is None


def test_a_kernel_without_matrices() -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"
    report = load(text)["k"].simulate(grid=1, block=32, numerics=True)
    assert "no matrix instruction" in str(report.numerics)
    assert report.numerics is not None and report.numerics.data()["lines"] == []


def test_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(MMA)
    monkeypatch.setattr(sys, "stdin", io.StringIO("continue\n"))
    random = ["--arg", "random:f16:256", "--arg", "random:f16:128", "--arg", "zeros:f32:128"]
    assert main(["debug", str(path), "--block", "32", *random, "--numerics"]) == 0
    assert "mma.k16.f32.f16.f16" in capsys.readouterr().out


def test_e4m3_loses_more_on_hopper_than_on_blackwell() -> None:
    """The same matrices, by wgmma and by mma of an RTX Blackwell: 13 bits against 25."""
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(s).astype(ml_dtypes.float8_e4m3fn) for s in ((64, 32), (32, 8)))
    exact = a.astype(float) @ b.astype(float)
    errors = [
        np.linalg.norm(numerics.dot(a, b, kind=kind, arch=arch) - exact)
        for kind, arch in (("wgmma.f32.e4m3.e4m3", "sm_90"), ("mma.f32.e4m3.e4m3", "sm_120"))
    ]
    assert errors[0] > 100 * errors[1]
