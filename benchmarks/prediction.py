"""Predicted against measured time, of published kernels whose sources are not ours.

python -m benchmarks.prediction --sources DIR [--measured FILE] [--only WORD] [--clock boost|fitted]

`DIR` has clones of the repositories that FILE names; what is compiled of them stays in a temporary folder. Rows without a source or a recipe are
counted. Nothing here asserts: the table is what the model reaches.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import pyptx
from benchmarks.prediction_left_out import Row, left_out
from benchmarks.prediction_sources import Missing, arguments, entry_of, ptx_of, source_of
from pyptx.diagnostics import PTXError, SimulationError
from pyptx.prediction import Prediction

DEFAULT = Path(__file__).resolve().parents[2] / "shared/timing/measured.json"
CARDS = {
    "L20": "L20",
    "unknown": "L20",
    "H100": "H100 SXM",
    "RTX PRO": "RTX PRO 6000",
    "RTX A6000": "RTX A6000",
    "RTX 5090": "RTX 5090",
}
"""How the rows' names of cards begin."""


@dataclass(frozen=True)
class Compared:
    row: dict[str, Any]
    prediction: Prediction
    measured_us: float
    seconds: float

    @property
    def ratio(self) -> float:
        assert self.prediction.time_us is not None
        return self.prediction.likely_us / self.measured_us

    @property
    def error(self) -> float:
        return abs(self.ratio - 1)

    @property
    def inside(self) -> bool:
        low, high = self.prediction.range_us
        return low <= self.measured_us <= (high or math.inf)


def measured_us(row: dict[str, Any]) -> float:
    problem, value = row["problem"], row["value"]
    if row["metric"] == "time_ms":
        return value * 1e3
    if row["metric"] in ("gflops", "tflops"):
        work = 2 * problem["M"] * problem["N"] * problem["K"]
        return work / value / (1e3 if row["metric"] == "gflops" else 1e6)
    if row["metric"] == "gb_s":
        moved = 4 * problem["n"] if "n" in problem else 8 * problem.get("elements", 0)
        if moved:
            return moved / value / 1e3
    raise Missing(f"metric {row['metric']}")


def card_of(row: dict[str, Any]) -> str:
    return next((card for start, card in CARDS.items() if row["card"].startswith(start)), row["card"])


def launch_of(row: dict[str, Any]) -> tuple[Any, Any]:
    grid = row["grid"]
    if grid == "4 CTA/SM":
        grid = 4 * round(pyptx.prediction.card_of(card_of(row)).sms.value)
    if isinstance(grid, str) or isinstance(row["block"], str):
        raise Missing("the launch is not stated")
    return grid if isinstance(grid, int) else tuple(grid), tuple(row["block"])


def compare(row: dict[str, Any], sources: Path, scratch: Path, kernels: dict[str, Any]) -> Compared:
    card, (grid, block), measured = card_of(row), launch_of(row), measured_us(row)
    values = arguments(row)
    text = ptx_of(source_of(row, sources), row["arch"], scratch)
    if text not in kernels:
        kernels[text] = pyptx.load(text)
    kernel = kernels[text][entry_of(list(kernels[text]), row)]
    start = time.process_time()
    try:
        smem = 0 if row["dyn_smem"] in ("", None) else int(row["dyn_smem"])
        found = pyptx.predict(kernel, *values, card=card, grid=grid, block=block, smem=smem)
    except (PTXError, SimulationError) as error:
        raise Missing(f"{type(error).__name__}: {error}"[:110]) from None
    if found.time_us is None:
        raise Missing("only a bound")
    return Compared(row, found, measured, time.process_time() - start)


def summary(name: str, found: list[Compared]) -> str:
    ratios = [c.ratio for c in found]
    worst = max(ratios, key=lambda r: max(r, 1 / r))
    inside = sum(c.inside for c in found)
    return (
        f"{name:<20}{len(found):>4}{mean(c.error for c in found):>9.1%}{math.exp(mean(map(math.log, ratios))):>9.2f}{worst:>9.2f}"
        f"{inside:>6} of {len(found):<5}{mean(c.seconds for c in found):>6.1f} s"
    )


def rank_correlation(found: list[Compared]) -> float:
    return rank_of([c.ratio * c.measured_us for c in found], [c.measured_us for c in found])


def rank_of(predicted: list[float], measured: list[float]) -> float:
    """Spearman's rank correlation."""

    def ranks(values: list[float]) -> list[int]:
        return [sorted(values).index(v) for v in values]

    a, b, n = ranks(predicted), ranks(measured), len(measured)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (n * (n * n - 1)) if n > 2 else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description="Predicted against measured time.")
    parser.add_argument("--sources", type=Path, help="folder with clones of the repositories")
    parser.add_argument("--measured", type=Path, default=DEFAULT)
    parser.add_argument("--scratch", type=Path, help="where compiled PTX is kept (default: a temporary folder)")
    parser.add_argument("--only", default="", help="rows whose id has this in it")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    rows = [r for r in json.loads(options.measured.read_text())["rows"] if options.only in r["id"]]
    skipped: Counter[str] = Counter()
    found: list[Compared] = []
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        kernels: dict[str, Any] = {}
        for row in rows:
            try:
                if options.sources is None:
                    raise Missing("no --sources")
                compared = compare(row, options.sources, scratch, kernels)
            except Missing as reason:
                skipped[f"{row['kind']}: {reason}"] += 1
                continue
            found.append(compared)
            p = compared.prediction
            print(
                f"{row['id']:<44}{compared.measured_us:>12,.2f} us{p.likely_us:>12,.2f} predicted{compared.ratio:>7.2f}"
                f"{'' if compared.inside else '  outside of the range'}   {p.binds[:60]}",
                flush=True,
            )
    print_summary(found, skipped)
    if options.json:
        listed = [
            {"id": c.row["id"], "measured_us": c.measured_us, "predicted_us": c.prediction.likely_us} for c in found
        ]
        options.json.write_text(json.dumps(listed, indent=1))


def print_left_out(found: list[Compared]) -> None:
    """The errors with constants that were fitted without the rows of the kernel itself."""
    ratios = left_out([left_out_row(c) for c in found])
    print(
        "\nWith each fitted constant (time between launches, share of DRAM's bandwidth) fitted without the kernel's rows:"
    )
    for kind in (*sorted({c.row["kind"] for c in found}), "all"):
        own = [r for r, c in zip(ratios, found, strict=True) if kind in (c.row["kind"], "all")]
        worst = max(own, key=lambda r: max(r, 1 / r))
        print(
            f"{kind:<20}{len(own):>4}{mean(abs(r - 1) for r in own):>9.1%}{math.exp(mean(map(math.log, own))):>9.2f}{worst:>9.2f}"
        )


def left_out_row(compared: Compared) -> Row:
    card, p = pyptx.prediction.card_of(card_of(compared.row)), compared.prediction
    reads = compared.row["kind"] == "reduce"
    fact = card.dram_reads if reads else card.dram_mixed
    return Row(
        kernel=compared.row["kernel"], measured_us=compared.measured_us, predicted_us=p.likely_us, launch_us=p.launch_us,
        dram_busy=p.utilisation.get("DRAM", 0.0), dram_share=fact.value, dram_group=f"{fact.value} {'reads' if reads else 'writes'}",
        on_known_card=not compared.row["card"].startswith("unknown"),
    )  # fmt: skip


def print_summary(found: list[Compared], skipped: Counter[str]) -> None:
    if found:
        print(f"\n{'kind':<20}{'rows':>4}{'error':>9}{'bias':>9}{'worst':>9}  in range    CPU of one")
        for key in ("kind", "card"):
            groups: dict[str, list[Compared]] = defaultdict(list)
            for c in found:
                groups[c.row["kind"] if key == "kind" else card_of(c.row)].append(c)
            for name, group in sorted(groups.items()):
                rank = f"  rank correlation {rank_correlation(group):.3f}" if key == "card" else ""
                print(summary(name, group) + rank)
        print(summary("all", found))
        print_left_out(found)
    print(f"\n{sum(skipped.values())} rows skipped")
    for reason, count in skipped.most_common():
        print(f"{count:>4}  {reason}")


if __name__ == "__main__":
    main()
