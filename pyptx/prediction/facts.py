"""Numbers with where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["sourced", "recalled", "derived", "fitted", "assumed"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number, where it comes from, and how far to trust it: `sourced` was read there, `recalled` is as remembered from
    there and has to be read again, `derived` is computed from measurements, `fitted` was chosen so that the rows that `source` names come out
    right, `assumed` is a guess.
    """

    value: float
    source: str
    status: Status
    spread: float = 0.0
    """How far off it may be, as a fraction; what a prediction's range is made of."""


SOURCES = {
    "CPG": "CUDA C++ Programming Guide, arithmetic throughput and technical specifications",
    "WP": "NVIDIA's architecture whitepapers and product briefs",
    "HUE": "Huerta et al., Dissecting and Modeling the Architecture of Modern GPU Cores, arXiv 2503.20481",
    "HOP": "Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, arXiv 2402.13499 and 2501.12084",
    "AMP": "Abdelkhalik et al., Demystifying the Nvidia Ampere Architecture, arXiv 2208.11174",
    "DEW": "github.com/markdewing/AI_kernels, latency/README.md (pointer chase)",
    "WAY": "github.com/waynehacking8/blackwell-tensorcore-kernels, results/",
    "MBB": "github.com/lookup1980/microbench-blackwell",
    "L2ADA": "github.com/smallscientist1/cuda_microbenchmark, analysis_RTX4090.md",
    "VOL": "Jia et al., Dissecting the NVIDIA Volta GPU Architecture, arXiv 1804.06826",
    "BLK": "Jarmusch et al., arXiv 2507.10789",
    "ROWS": "rows of published measurements, named in docs/prediction.md",
    "NONE": "nothing published is known",
}
