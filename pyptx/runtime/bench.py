"""`pyptx.bench`: the time that work takes on a GPU, by events around the replay of a CUDA graph. Not measured on a GPU yet."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

__all__ = ["Measurement", "Stopwatch", "bench"]

_LEAST, _MOST = 11, 1001
"""Runs that are timed."""


class Stopwatch(Protocol):
    """What a measurement needs of a device."""

    name: str

    def capture(self, run: Callable[[], object]) -> Callable[[], object]:
        """The work as a graph that is replayed; `run` has been called before."""
        ...

    def flush(self) -> None:
        """Let L2 hold nothing of what was used before."""
        ...

    def seconds(self, run: Callable[[], object]) -> float:
        """The device's time from before `run` to after it."""
        ...

    def clock_mhz(self) -> float | None:
        """The clock of the SMs now; None where it is not known."""
        ...


@dataclass(frozen=True)
class Measurement:
    """The times of the runs, in seconds; `median` is the one to compare."""

    times: tuple[float, ...] = field(repr=False)
    device: str
    flushed: bool
    """Whether L2 was flushed before each run."""
    graph: bool
    """Whether a CUDA graph was replayed: without the time that Python takes."""
    clocks_mhz: tuple[float | None, float | None] = (None, None)
    """The clock of the SMs before and after; None where it is not known."""

    @property
    def median(self) -> float:
        return median(self.times)

    @property
    def fastest(self) -> float:
        return min(self.times)

    @property
    def slowest(self) -> float:
        return max(self.times)

    def __str__(self) -> str:
        before, after = ("?" if c is None else f"{c:.0f}" for c in self.clocks_mhz)
        return (
            f"{self.median * 1e6:.2f} us (median of {len(self.times)}; {self.fastest * 1e6:.2f} to {self.slowest * 1e6:.2f}) on {self.device}, "
            f"L2 {'flushed' if self.flushed else 'as left'}, {'graph' if self.graph else 'no graph'}, SM clock {before} to {after} MHz"
        )


def bench(
    run: Callable[[], object],
    *,
    budget: float = 0.2,
    flush_l2: bool = True,
    graph: bool = True,
    stopwatch: Stopwatch | None = None,
) -> Measurement:
    """Measure work on the current GPU of torch: `pyptx.bench(lambda: kernel(x, out=out))`.

    `run` is called twice to warm up (it compiles), then recorded as a CUDA graph; each replay is timed by two events, after L2 was
    overwritten. budget: seconds for all timed runs, of which there are 11 to 1001. flush_l2: False for work whose inputs are in L2 when it
    begins. graph: False for work that cannot be recorded (it synchronizes). stopwatch: another device than torch's.

    RuntimeError without torch or a GPU; ValueError for a budget that is not positive.
    """
    if not (budget > 0 and math.isfinite(budget)):
        raise ValueError(f"the budget of bench is a positive number of seconds, not {budget!r}")
    watch = TorchStopwatch() if stopwatch is None else stopwatch
    run()
    run()
    work = watch.capture(run) if graph else run
    once = watch.seconds(work)
    count = min(_MOST, max(_LEAST, int(budget / max(once, 1e-9)))) | 1  # an odd number has a median that was measured
    before = watch.clock_mhz()
    times: list[float] = []
    for _ in range(count):
        if flush_l2:
            watch.flush()
        times.append(watch.seconds(work))
    return Measurement(tuple(times), watch.name, flush_l2, graph, (before, watch.clock_mhz()))


class TorchStopwatch:
    """The current GPU of torch."""

    def __init__(self) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is None:
            raise RuntimeError("bench measures on a GPU of torch, and nothing has imported torch")
        if not torch.cuda.is_available():
            raise RuntimeError("bench measures on a GPU, and torch sees none; pyptx.predict needs none")
        self.torch = torch
        self.name: str = torch.cuda.get_device_name()
        size = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0)
        self._other = torch.empty(2 * max(size, 32 << 20), dtype=torch.int8, device="cuda")

    def capture(self, run: Callable[[], object]) -> Callable[[], object]:
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            run()
        return graph.replay

    def flush(self) -> None:
        self._other.zero_()

    def seconds(self, run: Callable[[], object]) -> float:
        start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e-3

    def clock_mhz(self) -> float | None:
        try:
            return float(self.torch.cuda.clock_rate())
        except Exception:  # needs NVML, which raises errors of its own
            return None
