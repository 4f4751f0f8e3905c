"""The matrix-multiply examples: against float64 on fresh data, judged by pyptx and ptxas.

The simulator knows the instructions' fragment layouts, swizzles and proxies on its own, so a wrong address, phase or
fragment shows in the result, and a copy that is read too early shows as poison.
"""

from __future__ import annotations

from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

import pyptx
from examples import gemms
from examples.ampere import gemm as ampere_gemm
from examples.ampere import gemm_highperf as ampere_highperf
from examples.ampere import gemm_pipelined as ampere_pipelined
from examples.blackwell import gemm_1sm, gemm_2sm
from examples.blackwell import grouped_gemm as blackwell_grouped
from examples.common import ROUNDED, Sums, bf16_sums, relative_error
from examples.geforce import block_scaled_gemm
from examples.hopper import fp8_gemm, grouped_gemm
from examples.hopper import gemm as hopper_gemm
from examples.hopper import gemm_highperf as hopper_highperf
from pyptx import numerics
from pyptx.diagnostics import SimulationWarning
from pyptx.kernel import Kernel
from pyptx.numerics.tensor_cores.rules import read_kind, rule_for
from pyptx.tools.ptxas import assemble

# one tile, several of everything, and sizes that end within a tile in M, N and K
CASES: list[tuple[ModuleType, list[tuple[int, int, int]]]] = [
    (ampere_gemm, [(64, 64, 16), (128, 192, 80), (100, 70, 48)]),
    (ampere_pipelined, [(128, 128, 32), (256, 256, 320), (130, 70, 104)]),
    (ampere_highperf, [(128, 256, 32), (256, 512, 320), (1300, 264, 104)]),
    (hopper_gemm, [(128, 128, 64), (256, 256, 640), (130, 70, 200)]),
    (hopper_highperf, [(256, 256, 64), (300, 264, 104)]),
    (gemm_1sm, [(128, 256, 64), (300, 264, 104)]),
    (gemm_2sm, [(256, 256, 64), (300, 264, 104)]),
]


@pytest.mark.parametrize(("example", "sizes"), CASES, ids=[m.__name__.removeprefix("examples.") for m, _ in CASES])
def test_gemm(example: ModuleType, sizes: list[tuple[int, int, int]]) -> None:
    for size in sizes:
        assert_legal(example.build(*size))
        assert example.check(*size) <= gemms.LIMIT


def test_hopper_highperf_is_persistent() -> None:
    """One cluster makes all tiles, three stages at a time and more: every phase of every barrier comes round."""
    assert hopper_highperf.check(512, 520, 320, sms=2) <= gemms.LIMIT
    assert hopper_highperf.check(1300, 264, 136, sms=4) <= gemms.LIMIT


def test_blackwell_is_persistent() -> None:
    """One CTA, or pair, makes several tiles: every phase of every barrier and both accumulators come round."""
    assert gemm_1sm.check(390, 520, 320, sms=1) <= gemms.LIMIT
    assert gemm_2sm.check(520, 520, 456, sms=2) <= gemms.LIMIT
    with pytest.raises(ValueError, match="sms = 3"):
        gemm_2sm.build(256, 256, 64, sms=3)


@pytest.mark.parametrize("format", list(block_scaled_gemm.FORMATS))
def test_block_scaled_gemm(format: str) -> None:
    """Fewer stages than buffers, several of everything, and sizes that end within a tile."""
    assert_legal(block_scaled_gemm.build(300, 264, 1280, format=format))
    for size in [(128, 128, 256), (256, 128, 1280), (130, 70, 768)]:
        assert block_scaled_gemm.check(*size, format=format) <= block_scaled_gemm.limit(*size, format=format)


def assert_legal(kernel: Kernel) -> None:
    """Nothing to say for pyptx and ptxas, and no spills."""
    assert pyptx.diagnose(kernel.module()) == []
    result = assemble(kernel.ptx(), kernel.arch)
    assert result.ok, result.diagnostics
    assert not result.diagnostics  # ptxas has opinions: setmaxnreg ignored, wgmma serialised
    assert result.usage[kernel.name].spill_stores == 0


@pytest.mark.parametrize(
    ("example", "size", "message"),
    [
        (ampere_gemm, (64, 63, 16), "N must be even"),
        (ampere_gemm, (64, 64, 24), "K a multiple of 16"),
        (ampere_pipelined, (64, 64, 12), "K a multiple of 8"),
        (ampere_highperf, (64, 60, 16), "N and K must be multiples of 8"),
        (hopper_gemm, (64, 64, 12), "K a multiple of 8"),
        (block_scaled_gemm, (64, 64, 64), "K a multiple of 128"),
        (hopper_highperf, (64, 60, 16), "N must be a multiple of 8 and K of 8"),
    ],
)
def test_gemm_refuses_what_it_cannot_do(example: ModuleType, size: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        example.build(*size)


def test_grouped_gemm() -> None:
    assert_legal(grouped_gemm.build(1024, 4, 264, 136))
    assert grouped_gemm.check(4, 264, 136) <= gemms.LIMIT  # columns end within a tile: the next expert's rows follow
    assert grouped_gemm.check(3, 512, 320, sms=4) <= gemms.LIMIT
    with pytest.raises(ValueError, match="multiple of 256, and M = 300"):
        grouped_gemm.build(300, 2, 256, 64)


def test_grouped_gemm_on_blackwell() -> None:
    assert_legal(blackwell_grouped.build(1024, 4, 264, 136))
    assert blackwell_grouped.check(3, 264, 136, sms=2) <= gemms.LIMIT
    with pytest.raises(ValueError, match="multiple of 256, and M = 300"):
        blackwell_grouped.build(300, 2, 256, 64)


def test_fp8_gemm() -> None:
    for size in ((256, 256, 128), (300, 264, 176), (256, 512, 1024)):
        assert_legal(fp8_gemm.build(*size))
        assert fp8_gemm.check(*size, sms=4) <= fp8_gemm.limit(*size)
    with pytest.raises(ValueError, match="K of 16"):
        fp8_gemm.build(256, 256, 136)


@pytest.mark.parametrize(
    ("sums", "kind", "arch"),
    [
        (bf16_sums("sm_80"), "mma.f32.bf16.bf16.f32", "sm_80"),
        (bf16_sums("sm_90a"), "wgmma.f32.bf16.bf16", "sm_90a"),
        (bf16_sums("sm_100a"), "tcgen05.f32.bf16.bf16", "sm_100a"),
        (fp8_gemm.FAST, "wgmma.f32.e4m3.e4m3", "sm_90a"),
        (block_scaled_gemm.FORMATS["mxfp8"].sums, "mma.block32.f32.e4m3.e4m3.ue8m0", "sm_120a"),
        (block_scaled_gemm.FORMATS["nvfp4"].sums, "mma.block16.f32.e2m1.e2m1.ue4m3", "sm_120a"),
    ],
)
def test_tolerances_follow_from_the_hardware(sums: Sums, kind: str, arch: str) -> None:
    """The sums of the examples are those of the table, and random sums err less than they allow, by less than a factor of 100."""
    what = read_kind(kind)
    rule = rule_for(what, arch)
    assert (sums.products, sums.fraction, sums.kept) == (rule.unit or what.k, rule.fraction, rule.kept)
    if what.block:
        return
    assert what.operands != "bf16" or ROUNDED + sums.error(65536) <= gemms.LIMIT
    rng = np.random.default_rng(5)
    for K in (64, 2048):
        dtype = {"bf16": ml_dtypes.bfloat16, "fp8": ml_dtypes.float8_e4m3fn}[what.operands]
        a, b = (rng.standard_normal(s).astype(dtype) for s in ((16, K), (K, 16)))
        error = relative_error(numerics.dot(a, b, kind=kind, arch=arch), a.astype(float) @ b.astype(float))
        assert sums.error(K) / 100 < error <= sums.error(K)


def test_fp8_gemm_without_promotion() -> None:
    """The sanitizer advises to promote, and what the kernel loses stays small."""
    assert_legal(fp8_gemm.build(64, 8, 512, fast=True))
    with pytest.warns(SimulationWarning, match="advice: 512 FP8 products"):
        assert fp8_gemm.check(64, 8, 512, sms=2, fast=True) <= fp8_gemm.limit(64, 8, 512, fast=True)
