"""The transpiled kernels of nvcc: against float64 on fresh data, assembled for their target."""

from __future__ import annotations

import numpy as np

import pyptx
from examples.transpile import run as transpile
from pyptx.tools.ptxas import assemble


def test_nvcc_kernels() -> None:
    text = transpile.PTX.read_text()
    assert pyptx.to_ptx(pyptx.parse(text, verify=True)) == text
    kernels = pyptx.load(transpile.PTX)
    rng = np.random.default_rng()
    assert transpile.saxpy(kernels["saxpy"], 10_007, rng) <= 1e-7
    assert transpile.block_sum(kernels["block_sum"], 100_003, 8, rng) <= 1e-6
    assert assemble(text, "sm_80").ok
