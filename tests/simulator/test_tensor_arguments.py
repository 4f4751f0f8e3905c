"""Tensor maps of traced kernels: made from the tiles wherever the kernel is run."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from pyptx import simulate
from pyptx.diagnostics import PTXError
from tests.frontend.test_gemm import gemm


@pytest.mark.parametrize("how", ["call", "torch", "simulate"])
def test_a_gemm_runs_however_it_is_run(how: str) -> None:
    rng = np.random.default_rng()
    m, n, k = 192, 256, 128
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    product = gemm(3)
    if how == "torch":
        c = product(torch.tensor(a).bfloat16(), torch.tensor(b).bfloat16()).numpy()
    elif how == "call":
        c = product(a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16))
    else:
        c = np.full((m, n), np.nan, np.float32)
        simulate(product, a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16), c)
    assert np.array_equal(c, (a @ b).astype(np.float32))


def test_what_tma_cannot_do_is_said() -> None:
    a = np.zeros((64, 68), ml_dtypes.bfloat16)
    with pytest.raises(PTXError, match="multiples of 16"):
        gemm(1)(a, np.zeros((68, 128), ml_dtypes.bfloat16))
