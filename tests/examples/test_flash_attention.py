"""Flash attention: against float64 on fresh data, judged by pyptx and ptxas, and what ptxas made of its schedule."""

from __future__ import annotations

from itertools import pairwise

import pytest

import pyptx
from examples.hopper import flash_attention
from pyptx.runtime.ptxas import assemble

# heads, queries, keys; one block; ends within a block; several tiles per CTA; rows that see no key of a block
SIZES = {
    (128, False): [(1, 128, 128), (2, 200, 333), (1, 40, 1)],
    (128, True): [(1, 128, 128), (2, 200, 200), (1, 140, 330)],
    (64, False): [(1, 192, 128), (2, 260, 200)],
    (64, True): [(1, 210, 420), (3, 150, 150)],
}


@pytest.mark.parametrize(("d", "causal"), list(SIZES))
def test_flash_attention(d: int, causal: bool) -> None:
    for heads, queries, keys in SIZES[d, causal]:
        assert flash_attention.check(heads, queries, keys, d, causal=causal, sms=2) <= flash_attention.limit(
            heads, queries, keys, d
        )
    kernel = flash_attention.build(8, 1000, 1000, d, causal=causal)
    assert pyptx.diagnose(kernel.module()) == []
    result = assemble(kernel.ptx(), "sm_90a")
    assert result.ok
    assert not result.diagnostics
    assert result.usage["flash_attention"].spill_stores == 0


def test_the_exponentials_run_beside_the_second_product() -> None:
    """Between the wait for the scores and the wait for P V, the machine code has a block's exponentials."""
    for d in (64, 128):
        lines = flash_attention.build(8, 1000, 1000, d).sass().split("\n")
        waits = [i for i, line in enumerate(lines) if "WARPGROUP.DEPBAR.LE gsb0" in line]
        steps = [(i, j) for i, j in pairwise(waits) if "0x1" in lines[i]]
        assert steps
        for scores_done, product_done in steps:
            assert sum("MUFU.EX2" in line for line in lines[scores_done:product_done]) >= 64


def test_flash_attention_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="64 or 128, not 96"):
        flash_attention.build(1, 128, 128, 96)
    with pytest.raises(ValueError, match="keys >= queries"):
        flash_attention.build(1, 129, 128, 64, causal=True)
