"""FP8 sums that are promoted in time, and others."""

from __future__ import annotations

from ..pieces import Pair
from ..wgmma_pieces import BEGIN, DESCRIPTORS, END, FILL, PROXY

PRODUCT = "    wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {{%f0, %f1, %f2, %f3}}, %rd10, %rd12, {}, 1, 1;{}\n"


def summed(scales: str, mark: str = "") -> str:
    """A product of 64 x 8 x 32 for each scale-d; the last is marked."""
    marks = [""] * (len(scales) - 1) + [mark]
    products = [BEGIN + PRODUCT.format(scale, m) + END for scale, m in zip(scales, marks, strict=True)]
    return FILL + PROXY + DESCRIPTORS + "".join(products)


PAIRS = [
    Pair("fp8-promotion", summed("01111", " //!"), summed("0111"), {"block": 128}),
    Pair("fp8-promotion", summed("01111", " //!"), summed("01110111"), {"block": 128}),
]
