"""Seconds of one launch of 512 CTAs in one process, and with 1, 2 and as many workers as there are cores.

python -m benchmarks.workers
"""

from __future__ import annotations

import os
import time

import numpy as np

import pyptx
from benchmarks._table import Table
from benchmarks.simulator import LOOP

CTAS, ROUNDS = 512, 100


def seconds(workers: int | None, check: bool) -> float:
    kernel = pyptx.load(LOOP)["loop"]
    out = np.zeros(CTAS * 128, np.float32)
    begin = time.perf_counter()
    kernel.simulate(out, ROUNDS, grid=CTAS, block=128, check=check, workers=workers)
    return time.perf_counter() - begin


def main() -> None:
    table = Table(f"a launch of {CTAS} CTAs", "wall s")
    for check in (False, True):
        for workers in (None, *sorted({1, 2, os.cpu_count() or 1})):
            seconds(workers, False)  # the pool starts
            what = "one process" if workers is None else f"workers={workers}"
            table.add(f"{what}, {'checked' if check else 'unchecked'}", seconds(workers, check))
    table.print()


if __name__ == "__main__":
    main()
