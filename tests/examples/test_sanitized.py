"""The sanitizer has nothing to say about the examples, and does where one of their fences or waits is taken out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from examples.ampere import gemm as ampere_gemm
from examples.ampere import gemm_highperf as ampere_highperf
from examples.ampere import gemm_pipelined as ampere_pipelined
from examples.ampere import paged_decode
from examples.blackwell import gemm_1sm, gemm_2sm, primitives
from examples.blackwell import grouped_gemm as blackwell_grouped
from examples.common import findings
from examples.geforce import block_scaled_gemm
from examples.hopper import (
    flash_attention,
    fp8_gemm,
    gemm,
    gemm_highperf,
    grouped_gemm,
    layer_norm,
    rms_norm,
    rotary,
    softmax,
    swiglu,
)
from pyptx import ptx
from pyptx.kernel import Kernel

KERNELS: dict[str, Callable[[], Kernel]] = {
    "rms_norm": lambda: rms_norm.build(3, 1672),
    "layer_norm": lambda: layer_norm.build(3, 1672),
    "softmax": lambda: softmax.build(3, 1672),
    "swiglu": lambda: swiglu.build(3, 1672),
    "rotary": lambda: rotary.build(3, 4, 64),
    "ampere gemm": lambda: ampere_gemm.build(100, 70, 48),
    "ampere gemm_pipelined": lambda: ampere_pipelined.build(130, 70, 104),
    "ampere gemm_highperf": lambda: ampere_highperf.build(130, 264, 232),
    "paged_decode": lambda: paged_decode.build(6, 2, 128, splits=1),
    "hopper gemm": lambda: gemm.build(130, 70, 456),
    "hopper gemm_highperf": lambda: gemm_highperf.build(512, 520, 320, sms=2),
    "grouped_gemm": lambda: grouped_gemm.build(512, 1, 264, 136, sms=2),
    "fp8_gemm": lambda: fp8_gemm.build(300, 136, 304, sms=2),
    "block_scaled_gemm": lambda: block_scaled_gemm.build(130, 70, 640),
    "flash_attention": lambda: flash_attention.build(2, 300, 400, 128, sms=2),
    "flash_attention causal": lambda: flash_attention.build(1, 210, 420, 64, causal=True, sms=1),
    "blackwell gemm_1sm": lambda: gemm_1sm.build(390, 520, 320, sms=1),
    "blackwell gemm_2sm": lambda: gemm_2sm.build(520, 520, 456, sms=2),
    "blackwell grouped_gemm": lambda: blackwell_grouped.build(512, 2, 264, 136, sms=2),
    "tcgen05 load_store": primitives.load_store,
    "tcgen05 copy": primitives.copy,
    "tcgen05 shift": primitives.shift,
    "tcgen05 multiply": primitives.multiply,
}


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_to_find(name: str) -> None:
    """Numbers and orders of warps are others in each run."""
    seed = int(np.random.default_rng().integers(1 << 30))
    assert findings(KERNELS[name](), seed) == [], seed


def skipped(*_: object, **__: object) -> None:
    """An instruction that is not there."""


@pytest.mark.parametrize(
    ("name", "of", "instruction"),
    [
        ("ampere gemm_pipelined", ptx.bar, "sync"),
        ("ampere gemm_pipelined", ptx.cp.async_, "wait_group"),
        ("ampere gemm_highperf", ptx.bar, "sync"),
        ("hopper gemm", ptx.bar, "sync"),
        ("hopper gemm", ptx.wgmma, "wait_group"),
        ("hopper gemm_highperf", ptx.fence, "proxy_async_shared_cta"),
        ("hopper gemm_highperf", ptx.cp.async_.bulk, "wait_group"),
        ("hopper gemm_highperf", ptx.wgmma, "wait_group"),
        ("flash_attention", ptx.fence, "proxy_async_shared_cta"),
    ],
)
def test_what_orders_what_is_needed(name: str, of: object, instruction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of, instruction, skipped)
    assert findings(KERNELS[name](), 0)
