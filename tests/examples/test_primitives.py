"""The tcgen05 instructions one by one: results on the simulator, judged by pyptx and ptxas."""

from __future__ import annotations

import pytest

import pyptx
from examples.blackwell import primitives
from pyptx.runtime.ptxas import assemble


@pytest.mark.parametrize("name", ["load_store", "copy", "shift", "multiply"])
def test_legal(name: str) -> None:
    kernel = getattr(primitives, name)()
    assert pyptx.diagnose(kernel.module()) == []
    result = assemble(kernel.ptx(), "sm_100a")
    assert result.ok, result.diagnostics
    assert result.usage[kernel.name].spill_stores == 0


def test_words_come_back() -> None:
    assert primitives.check_load_store()
    assert primitives.check_copy()


@pytest.mark.parametrize(("N", "K"), [(64, 64), (160, 48), (256, 16)])
def test_multiply(N: int, K: int) -> None:
    assert primitives.check_multiply(N, K) <= 1e-6


def test_multiply_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="multiple of 16 up to 256"):
        primitives.multiply(N=40)
