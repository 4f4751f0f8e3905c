"""The predicted time of every example on the cards it runs on, its floor, and what binds.

python -m benchmarks.predicted [--only WORD] [--card NAME]

The floor is what DRAM (or L2, where all arguments fit) needs to move each argument once. Everything here is predicted, nothing measured,
but for the last number, the CPU seconds that the prediction took (fewer where the disk cache has it).
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np

import pyptx
from pyptx.diagnostics import PTXError
from pyptx.prediction import CARDS, Card, Prediction

GEMM, ROWS = (2048, 2048, 2048), (4096, 4096)
EXAMPLES: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    ("ampere.gemm", GEMM, {}), ("ampere.gemm_pipelined", GEMM, {}), ("ampere.gemm_highperf", GEMM, {}),
    ("hopper.rms_norm", ROWS, {"arch": "sm_80"}), ("hopper.layer_norm", ROWS, {"arch": "sm_80"}), ("hopper.softmax", ROWS, {"arch": "sm_80"}),
    ("hopper.swiglu", ROWS, {"arch": "sm_80"}), ("hopper.gemm", GEMM, {}), ("hopper.gemm_highperf", GEMM, {}), ("hopper.fp8_gemm", GEMM, {}),
    ("blackwell.gemm", GEMM, {"pair": False}), ("blackwell.gemm", GEMM, {"pair": True}), ("geforce.block_scaled_gemm", GEMM, {}),
)  # fmt: skip
"""Module, sizes, options of `build`. Examples whose arguments are lists of tensors (grouped GEMM, attention) are not here."""
KINDS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "s32": np.int32, "u32": np.uint32}


def arguments(kernel: Any) -> list[Any]:
    """Arrays of the sizes of a kernel's tensors."""
    return [
        np.zeros(tuple(map(int, tile.dims)), KINDS.get(str(tile.dtype).lstrip("."), np.uint8)) for tile in kernel.specs
    ]


def floor_us(arrays: list[Any], card: Card) -> float:
    moved = sum(a.nbytes for a in arrays)
    if moved <= card.l2_mib.value * 2**20:
        return moved / (card.l2_bytes.value * card.boost_ghz.value * 1e3)
    return moved / (card.dram_gb_s.value * 1e3)


def line_of(prediction: Prediction, floor: float, took: float) -> str:
    low, high = prediction.range_us
    middle = "" if prediction.time_us is None else f"{prediction.likely_us:,.1f}"
    span = f"{low:,.1f} to {high:,.1f}" if high is not None else f"{low:,.1f} or more"
    return f"{prediction.card:<20}{middle:>12}{span:>24}{floor:>10,.1f}{took:>7.1f}  {prediction.binds[:70]}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Predicted times of the examples.")
    parser.add_argument("--only", default="", help="examples with this in their name")
    parser.add_argument("--card", default="", help="cards with this in their name")
    options = parser.parse_args()
    print(f"{'predicted us':>32}{'range':>24}{'floor':>10}{'s':>7}  bound by")
    for name, sizes, more in EXAMPLES:
        if options.only not in name:
            continue
        kernel = import_module(f"examples.{name}").build(*sizes, **more)
        arrays = arguments(kernel)
        print(
            f"{name} {'x'.join(map(str, sizes))} {' '.join(f'{k}={v}' for k, v in more.items())}".rstrip(), flush=True
        )
        for card in CARDS:
            if options.card not in card.name:
                continue
            try:
                began = time.process_time()
                found = pyptx.predict(kernel, *arrays, card=card.name)
                took = time.process_time() - began
            except PTXError as error:
                if "is for sm_" not in str(error):
                    print(f"{card.name:<20}{error}")
                continue
            print(line_of(found, floor_us(arrays, card), took), flush=True)


if __name__ == "__main__":
    main()
