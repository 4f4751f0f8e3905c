"""The decoder layer and the kernel that only it uses, against float64, with all checks."""

from __future__ import annotations

import pytest

from examples.hopper import rotary
from examples.models import layer
from pyptx.types import bf16


@pytest.mark.parametrize("size", [(5, 4, 64), (3, 1, 6)])
def test_rotary(size: tuple[int, int, int]) -> None:
    assert rotary.check(*size) <= rotary.LIMIT[bf16]


def test_rotary_refuses_more_pairs_than_threads() -> None:
    with pytest.raises(ValueError, match=r"heads \* d / 2 is 1 to 1024, not 33 \* 64 / 2"):
        rotary.build(1, 33, 64)


def test_layer() -> None:
    """On torch tensors; the sanitizer finds nothing in any of its ten kernels."""
    pytest.importorskip("torch")
    assert layer.check(19, 64, 64, check=True) <= layer.LIMIT
