"""The examples: against float64 on fresh data, and every one's PTX assembled for its target."""

from __future__ import annotations

import numpy as np
import pytest

import pyptx
from examples.hopper import rms_norm
from examples.transpile import run as transpile
from pyptx.tools.ptxas import assemble


@pytest.mark.parametrize("shape", [(4, 64), (128, 4096), (3, 1536), (2, 132), (5, 8192)])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_rms_norm(shape: tuple[int, int], arch: str) -> None:
    assert rms_norm.check(*shape, arch=arch) <= 1e-6
    kernel = rms_norm.build(*shape, arch=arch)
    assert pyptx.diagnose(kernel.module()) == []
    result = assemble(kernel.ptx(), arch)
    assert result.ok, result.diagnostics
    assert result.usage["rms_norm"].spill_stores == 0


def test_rms_norm_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="no multiple of 4"):
        rms_norm.build(4, 66)
    with pytest.raises(pyptx.PTXError, match=r"x must be Tile\(4, 64, f32\).*float64"):
        rms_norm.build(4, 64)(np.ones((4, 64)), np.ones(64, np.float32))
    with pytest.raises(pyptx.PTXError, match=r"x must be Tile\(4, 64, f32\)"):
        rms_norm.build(4, 64)(np.ones((5, 64), np.float32), np.ones(64, np.float32))


def test_nvcc_kernels() -> None:
    text = transpile.PTX.read_text()
    assert pyptx.to_ptx(pyptx.parse(text, verify=True)) == text
    kernels = pyptx.load(transpile.PTX)
    rng = np.random.default_rng()
    assert transpile.saxpy(kernels["saxpy"], 10_007, rng) <= 1e-7
    assert transpile.block_sum(kernels["block_sum"], 100_003, 8, rng) <= 1e-6
    assert assemble(text, "sm_80").ok
