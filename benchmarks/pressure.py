"""Register pressure estimated from PTX against what ptxas allocates, over a sample of the corpus.

    python -m benchmarks.pressure [--every 4]

Prints Pearson and rank (Spearman) correlation for the count as written and for the estimate, and the kernels
that are furthest off.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import pyptx
from pyptx.analysis.cfg import cfg_of
from pyptx.analysis.liveness import liveness
from pyptx.analysis.pressure import register_pressure
from pyptx.diagnostics import PTXError
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.tools.ptxas import ToolNotFound, assemble, supported_archs

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
Row = tuple[str, str, int, int, int, int, int]
"""file, kernel, written, estimated, relaxed, ptxas's registers, spilled bytes"""


def rows_of(path: Path) -> list[Row]:
    """One row per entry of a file that ptxas generates code for; none if either side refuses it."""
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    try:
        module = pyptx.parse(text)
    except PTXError:
        return []
    ptx = next(op for op in module.body.block.ops if isinstance(op, ModuleOp))
    target = ptx.target.target
    arch = target if target.removeprefix("sm_") in supported_archs() else "sm_75"
    if "debug" in ptx.target.options:
        return []  # -G keeps every variable in memory
    result = assemble(text, arch, timeout=120)
    found: list[Row] = []
    for function in ptx.functions:
        usage = result.usage.get(function.symbol)
        if usage is None or function.is_declaration:
            continue
        pressure = register_pressure(function, liveness(cfg_of(function)))
        row = (pressure.written, pressure.estimated, pressure.relaxed, usage.registers, usage.spill_stores)
        found.append((str(path.relative_to(CORPUS)), function.symbol, *row))
    return found


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks, ties getting their mean."""
    array = np.asarray(values, float)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def correlations(mine: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """(Pearson, Spearman)."""
    pearson = float(np.corrcoef(mine, theirs)[0, 1])
    return pearson, float(np.corrcoef(ranks(mine), ranks(theirs))[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=4, help="take every n-th file")
    options = parser.parse_args()
    rows: list[Row] = []
    for path in sorted(CORPUS.glob("**/*.ptx"))[:: options.every]:
        try:
            rows += rows_of(path)
        except ToolNotFound as missing:
            print(missing)
            return
    if len(rows) < 3:
        print(f"no corpus at {CORPUS}" if not rows else "too few kernels")
        return
    theirs = [r[5] for r in rows]
    print(f"{len(rows)} kernels, registers per thread of ptxas from {min(theirs)} to {max(theirs)}; ours cut at 255")
    for name, column in (("written", 2), ("estimated", 3), ("relaxed", 4)):
        mine = [min(r[column], 255) for r in rows]
        pearson, spearman = correlations(mine, theirs)
        error = float(np.median([abs(a - b) for a, b in zip(mine, theirs, strict=True)]))
        print(f"{name:10} Pearson {pearson:.3f}  Spearman {spearman:.3f}  median distance {error:.0f}")
    worst = sorted(rows, key=lambda r: abs(min(r[4], 255) - r[5]), reverse=True)[:12]
    print("\nwritten  estimated  relaxed  ptxas  spilled  kernel")
    for file, kernel, written, estimated, relaxed, registers, spilled in worst:
        print(f"{written:7}  {estimated:9}  {relaxed:7}  {registers:5}  {spilled:7}  {file} {kernel[:50]}")


if __name__ == "__main__":
    main()
