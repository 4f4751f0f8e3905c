"""The memory-bound examples: against float64 on fresh data, judged by pyptx and ptxas, for three GPU generations."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import pyptx
from examples import ampere, blackwell, hopper
from examples.ampere import layer_norm, rms_norm, softmax, swiglu
from examples.blackwell import layer_norm as layer_norm_sm100
from examples.blackwell import rms_norm as rms_norm_sm100
from examples.blackwell import swiglu as swiglu_sm100
from examples.common import LIMIT
from examples.hopper import layer_norm as layer_norm_sm90
from examples.hopper import rms_norm as rms_norm_sm90
from examples.hopper import softmax as softmax_sm90
from examples.hopper import swiglu as swiglu_sm90
from pyptx.tools.ptxas import assemble
from pyptx.types import bf16, f32

FILES = [
    rms_norm, layer_norm, softmax, swiglu, rms_norm_sm90, layer_norm_sm90, softmax_sm90, swiglu_sm90,
    rms_norm_sm100, layer_norm_sm100, swiglu_sm100,
]  # fmt: skip
TARGETS = {ampere.__name__: "sm_80", hopper.__name__: "sm_90a", blackwell.__name__: "sm_100a"}
# one warp; several warps with a last round that some threads sit out; whole rounds; more than 256 threads
SHAPES = [(4, 64), (3, 1672), (2, 4096), (2, 20_488)]


@pytest.mark.parametrize("example", FILES, ids=lambda m: m.__name__.removeprefix("examples."))
def test_rows(example: ModuleType) -> None:
    target = TARGETS[example.__name__.rpartition(".")[0]]
    for dtype in (f32, bf16):
        for shape in SHAPES:
            assert example.check(*shape, dtype=dtype) <= LIMIT[dtype]
            kernel = example.build(*shape, dtype=dtype)
            assert kernel.arch == target
            assert pyptx.diagnose(kernel.module()) == []
            result = assemble(kernel.ptx(), target)
            assert result.ok, result.diagnostics
            assert result.usage[kernel.name].spill_stores == 0


@pytest.mark.parametrize("example", [rms_norm_sm90, layer_norm_sm90, softmax_sm90])
def test_rows_refuse_what_they_cannot_do(example: ModuleType) -> None:
    with pytest.raises(ValueError, match="vectors of 4 elements, and N = 66 is not a multiple"):
        example.build(4, 66)
    with pytest.raises(ValueError, match="vectors of 8 elements, and N = 68 is not a multiple"):
        example.build(4, 68, dtype=bf16)
    with pytest.raises(ValueError, match="N = 65792 does not fit"):
        example.build(4, 65_792)


def test_wrong_arrays_are_refused() -> None:
    kernel = rms_norm_sm90.build(4, 64)
    with pytest.raises(pyptx.PTXError, match=r"x must be Tile\(4, 64, f32\).*float64"):
        kernel(np.ones((4, 64)), np.ones(64, np.float32))
    with pytest.raises(pyptx.PTXError, match=r"x must be Tile\(4, 64, f32\)"):
        kernel(np.ones((5, 64), np.float32), np.ones(64, np.float32))
