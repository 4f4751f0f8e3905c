"""Predicted against published speed of the steps of a public H100 GEMM (pranjalssh/fast.cu, kernels 1 to 11), all at one clock.

python -m benchmarks.prediction_ladder --sources DIR [--clock GHZ] [--only 3,7] [--cccl DIR]

The sources stay outside of this repository, as for `benchmarks.prediction`. The published numbers (bf16, 4096 x 4096 x 4096) are those of the author's
text "Outperforming cuBLAS on H100", as A. Gordic quotes them in "Inside NVIDIA GPUs" (aleksagordic.com/blog/matmul); nothing here is measured by us.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import pyptx
from benchmarks.prediction import rank_of
from benchmarks.prediction_sources import Source, folder_of, ptx_of
from pyptx.prediction import Prediction
from pyptx.simulator import tensor_map

SIZE = 4096
REPOSITORY = "pranjalssh/fast.cu"


@dataclass(frozen=True)
class Step:
    """A kernel: what it is known to reach, its tile, and its launch."""

    number: int
    tflops: float
    rows: int
    columns: int
    stages: int
    threads: int
    ctas: int = 0
    """0: one for each tile."""
    cluster: int = 1


STEPS = (
    Step(1, 32, 128, 128, 0, 128), Step(2, 317, 64, 64, 0, 128), Step(3, 423, 128, 128, 1, 128), Step(4, 498, 128, 128, 5, 256),
    Step(5, 610, 128, 256, 3, 384), Step(6, 660, 128, 256, 3, 384, 128), Step(7, 704, 128, 256, 3, 384, 128),
    Step(8, 734, 128, 256, 3, 384, 128, 2), Step(9, 747, 128, 256, 3, 384, 128, 2), Step(10, 758, 128, 256, 3, 384, 128, 2),
    Step(11, 764, 128, 256, 3, 384, 128, 2),
)  # fmt: skip


def source_of(step: Step, sources: Path, cccl: Path) -> Source:
    folder = folder_of(sources, REPOSITORY)
    text = (folder / "matmul.cu").read_text()
    head = text[: text.index('#include "examples/matmul/matmul_1.cuh"')]
    made = f'{head}#include "{folder}/examples/matmul/matmul_{step.number}.cuh"\n'
    return Source(made, folder, ("-DNDEBUG", "--use_fast_math", f"-I{cccl}"))


def curve(side: int, clusters: int) -> np.ndarray[Any, Any]:
    """Tiles along a Hilbert curve, dealt to 64 clusters in turn, in rows of 128 that end with -1."""
    places: list[list[int]] = [[] for _ in range(clusters)]
    for d in range(side * side):
        x = y = 0
        t, s = d, 1
        while s < side:
            rx = 1 & (t // 2)
            ry = 1 & (t ^ rx)
            if ry == 0:
                if rx == 1:
                    x, y = s - 1 - x, s - 1 - y
                x, y = y, x
            x, y, t, s = x + s * rx, y + s * ry, t // 4, s * 2
        places[d % clusters].append(x << 16 | y)
    found = np.full((clusters, 128), -1, np.int32)
    for row, listed in zip(found, places, strict=True):
        row[: len(listed)] = listed
    return found


def arguments(step: Step) -> list[Any]:
    a, b, c = (np.zeros((SIZE, SIZE), ml_dtypes.bfloat16) for _ in range(3))
    if step.number == 1:
        return [SIZE, SIZE, SIZE, a, b, c]
    maps = [tensor_map(x, (rows, 64), swizzle="128B") for x, rows in ((a, step.rows), (b, step.columns))]
    sizes: list[Any] = [SIZE, SIZE, SIZE]
    if step.number < 10:
        return [*sizes, c, *maps, *([np.zeros(1 << 20, np.int32)] if step.number == 3 else [])]
    stored = tensor_map(c, (step.columns, step.rows))
    table = [curve(SIZE // 256, 64)] if step.number == 11 else []
    return [*sizes, stored, *maps, *table]


def predict(step: Step, text: str, clock: float) -> Prediction:
    kernels = pyptx.load(text)
    name = next(n for n in kernels if "Lb1E" not in n)
    down, across = SIZE // step.rows, SIZE // step.columns
    tiles = (across, down) if step.number == 1 else down * across
    shared = (step.rows + step.columns) * 64 * 2 * step.stages + (1024 if step.stages else 0)
    shared += step.rows * step.columns * 2 if step.number >= 10 else 0
    given: dict[str, Any] = {"cluster": (step.cluster, 1, 1)} if step.cluster > 1 else {}
    return pyptx.predict(
        kernels[name], *arguments(step), card="H100 SXM", clock=clock, grid=step.ctas or tiles, block=step.threads,
        smem=shared, **given,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Predicted and published speed of the steps of an H100 GEMM.")
    parser.add_argument("--sources", type=Path, required=True, help="folder with a clone of the repository")
    parser.add_argument(
        "--cccl", type=Path, default=Path("/usr/local/cuda/include/cccl"), help="folder with cuda/barrier"
    )
    parser.add_argument("--clock", type=float, default=1.7, help="GHz, the same for all steps")
    parser.add_argument("--only", default="", help="numbers of steps")
    parser.add_argument("--scratch", type=Path, help="where compiled PTX is kept (default: a temporary folder)")
    options = parser.parse_args()
    wanted = {int(n) for n in options.only.split(",") if n} or {s.number for s in STEPS}
    reached: list[tuple[float, float]] = []
    print(f"TFLOPS predicted at {options.clock:g} GHz, and published")
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        for step in STEPS:
            if step.number not in wanted:
                continue
            text = ptx_of(source_of(step, options.sources, options.cccl), "sm_90a", scratch)
            start = time.process_time()
            found = predict(step, text, options.clock)
            seconds = time.process_time() - start
            if found.time_us is None:
                print(f"{step.number:>3}  only a range: {found.range_us}")
                continue
            tflops = 2 * SIZE**3 / found.time_us / 1e6
            reached.append((tflops, step.tflops))
            print(
                f"{step.number:>3}{tflops:>8.0f} predicted{step.tflops:>7.0f} published{tflops / step.tflops:>7.2f}"
                f"{seconds:>6.1f} s  {found.binds}",
                flush=True,
            )
    if len(reached) > 2:
        print(f"rank correlation {rank_of([a for a, _ in reached], [b for _, b in reached]):.3f}")


if __name__ == "__main__":
    main()
